"""Durable runs as the console draws them: a chain as a graph of steps, code as lines, each with its calls."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from toolcrib.execution.chains import Plan
from toolcrib.execution.chains.plan import PlannedStep
from toolcrib.model.toolid import without_version
from toolcrib.runs import RunDetails


def describe_calls(details: RunDetails) -> list[dict[str, Any]]:
    """Return the calls of a run of code in their order, each with the lines that it may come from."""
    sites = list(_find_sites(details.request["code"]))
    found = []
    for call in _list_calls(details):
        name = _as_in_code(call["toolId"])
        found.append(call | {"lines": sorted({line for line, written in sites if written == name})})
    return found


def _list_calls(details: RunDetails) -> Iterator[dict[str, Any]]:
    for call in details.calls:
        yield call.to_json()
    result = details.result or {}
    for place, call in enumerate(result.get("toolCalls", ()), 1):
        facts = {"key": str(place), "toolId": call["toolId"], "args": call["args"]}
        failed = {} if call.get("error") is None else {"message": call["error"]}
        state = "failed" if failed else "answered"
        yield facts | {"state": state, "duration": call["duration"]} | failed


def _find_sites(code: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of code that call a name, or a member of one, and the name."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func)


def _as_in_code(tool_id: str) -> str:
    """Return the name by which code calls a tool.

    >>> _as_in_code("git-hub:create.issue:1.2.0")
    'git_hub.create_issue'
    """
    parts = without_version(tool_id).split(":")
    return ".".join(part.replace("-", "_").replace(".", "_") for part in parts) if len(parts) > 1 else tool_id


def describe_steps(plan: Plan, details: RunDetails) -> list[dict[str, Any]]:
    """Return the steps of a chain, those of groups after their group, with their dependencies and calls."""
    steps = list(_walk(plan.steps))
    slots = {f"steps.{step.id or step.index}": slot for slot, (step, depth) in enumerate(steps) if not depth}
    slots |= {f"steps.{step.id}": slot for slot, (step, _) in enumerate(steps) if step.id}
    ends = {} if details.result is None else _find_ends(plan.steps, details.result["results"])
    calls: dict[int, list[dict[str, Any]]] = {}
    for call in details.calls:
        calls.setdefault(int(call.key.partition(".")[0]), []).append(call.to_json())
    return [
        {
            "slot": slot,
            "depth": depth,
            "name": step.id or str(step.index + 1),
            "toolId": step.tool_id,
            "kind": step.kind,
            "conditional": step.conditional,
            "dependsOn": sorted(slots[name] for name in step.depends_on if name in slots),
            "calls": calls.get(slot, []),
        }
        | ends.get(slot, {})
        for slot, (step, depth) in enumerate(steps)
    ]


def _walk(steps: Sequence[PlannedStep], depth: int = 0) -> Iterator[tuple[PlannedStep, int]]:
    for step in steps:
        yield step, depth
        yield from _walk(step.parts, depth + 1)


def _find_ends(steps: Sequence[PlannedStep], results: Sequence[Any], slot: int = 0) -> dict[int, Any]:
    """Return how the steps of a chain ended, by slot."""
    found: dict[int, Any] = {}
    by_index = {result["index"]: result for result in results}
    for step in steps:
        result = by_index.get(step.index)
        if result is not None:
            found[slot] = {"end": {name: value for name, value in result.items() if name != "parts"}}
            if step.kind == "for_each":
                found[slot]["items"] = len(result["parts"])
            if step.kind == "parallel":
                found |= _find_ends(step.parts, result["parts"], slot + 1)
        slot += sum(1 for _ in _walk([step]))
    return found
