"""The tools of real servers as stubs: Python that the type checker reads, right calls pass, wrong ones do not."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_monty import ExternalModule, Monty, MontyTypingError

from toolcrib.errors import CodeError, InvalidToolError
from toolcrib.model import Tool
from toolcrib.model.schema.references import LocalReferences
from toolcrib.model.tokens import estimate_tokens
from toolcrib.runtime.stubs import DETAIL_LEVELS, parameters, paths_of, render
from toolcrib.runtime.stubs.schema import fields_of, resolve
from toolcrib.runtime.typecheck import Checker

BATCH = 40
LOADED = {"tests": 37, "shared": 1_161}
"""The number of tools that load, by the folder that holds them: the two others have a space in the name."""
NAMED = {"tests": 37, "shared": 1_151}
"""The number of different names within their servers."""
OPEN = {"tests": 5, "shared": 334}
"""The number of tools that accept any argument."""
COST = {"tests": 0.6, "shared": 0.5}
"""The size of the stubs as a part of the schemas' tokens, at most."""


@pytest.fixture(scope="module")
def tools(data: Path) -> list[Tool]:
    """Return the real tools, each in the namespace of its server."""
    found = []
    for line in (data / "real-tools" / "mcp_tools.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        server = re.sub(r"[^A-Za-z0-9_.-]", "_", row.pop("server"))[:128]
        del row["source"]
        try:
            found.append(Tool.from_json({**row, "namespace": server}))
        except InvalidToolError:
            continue
    assert len(found) == LOADED[data.parent.name]
    return found


def batches(tools: list[Tool]) -> list[dict[str, Tool]]:
    paths = list(paths_of(tools).items())
    return [dict(paths[start : start + BATCH]) for start in range(0, len(paths), BATCH)]


def example(schema: Any, root: Any, depth: int = 0) -> Any:  # noqa: PLR0911 - a case each
    """Return a value that a schema of the ordinary kind allows."""
    schema = resolve(schema, LocalReferences(root))
    if not isinstance(schema, dict) or depth > 8:
        return None
    if said := [schema[keyword] for keyword in ("const", "default") if schema.get(keyword) is not None]:
        return said[0]
    if schema.get("enum"):
        return schema["enum"][-1]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword) and "type" not in schema:
            return example(schema[keyword][0], root, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [example(schema.get("items", True), root, depth + 1)]
    if kind == "object" or "properties" in schema:
        fields = fields_of(schema, LocalReferences(root))
        return {name: example(fields.properties.get(name), root, depth + 1) for name in fields.required}
    return {"string": "text", "integer": 3, "number": 2.5, "boolean": True}.get(str(kind))


def call(path: str, tool: Tool, **more: Any) -> str:
    """Return a call of a tool with the arguments that it needs, and those that it may have."""
    fields = fields_of(tool.input_schema, LocalReferences(tool.input_schema))
    named = set(parameters(tool))
    values = {
        name: example(schema, tool.input_schema)
        for name, schema in fields.properties.items()
        if name in named
    }
    values |= dict.fromkeys(named - values.keys()) | more
    odd = {
        name: example(fields.properties.get(name), tool.input_schema)
        for name in fields.required
        if name not in named
    }
    written = [f"{name}={value!r}" for name, value in values.items()]
    return f"await {path}({', '.join(written + ([f'**{odd!r}'] if odd else []))})"


def test_stubs_of_all_tools_are_python_at_every_budget(tools: list[Tool]) -> None:
    for tool in tools:
        ast.parse(render([tool]))
    full = render(tools)
    ast.parse(full)
    for budget in (estimate_tokens(full) // 2, estimate_tokens(full) // 5, 500):
        ast.parse(render(tools, budget=budget))


def test_stubs_of_all_tools_use_only_known_types(data: Path, tools: list[Tool]) -> None:
    modules: dict[str, Any] = {}
    known = 0
    with Monty() as pool:
        options: Any = {"type_check": True, "type_check_format": "json", "external_modules": modules}
        with pool.checkout(**options) as session:
            for number, batch in enumerate(batches(tools)):
                modules[f"stub{number}"] = ExternalModule({}, stubs=render(batch))
                names = sorted({path.partition(".")[0] for path in batch})
                lines = [
                    f"from stub{number} import {', '.join(names)}",
                    *(f"reveal_type({path})" for path in batch),
                ]
                with pytest.raises(MontyTypingError) as caught:
                    session.feed_run("\n".join(lines))
                said = json.loads(str(caught.value))
                revealed = [item["message"] for item in said if item["code"] == "revealed-type"]
                assert [
                    item for item in said if item["code"] not in {"revealed-type", "undefined-reveal"}
                ] == []
                assert [text for text in revealed if "Unknown" in text] == []
                known += len(revealed)
    assert known == NAMED[data.parent.name]


@pytest.mark.anyio
async def test_type_check_accepts_correct_calls_and_finds_misspelt_arguments(
    data: Path, tools: list[Tool]
) -> None:
    missed = 0
    async with Checker(deadline=60) as checker:
        for batch in batches(tools):
            stubs = render(batch)
            await checker.check(
                "\n".join(call(path, tool) for path, tool in batch.items()), stubs, engine="python"
            )
            for path, tool in batch.items():
                if "**others" in render({path: tool}).replace("\n", " "):
                    missed += 1
                    continue
                with pytest.raises(CodeError, match=f"unknown argument 'zzz' of {path}"):
                    await checker.check(call(path, tool, zzz=1), stubs, engine="python")
    assert missed == OPEN[data.parent.name]


def test_stubs_have_fewer_tokens_than_schemas(data: Path, tools: list[Tool]) -> None:
    raw = sum(
        estimate_tokens(
            json.dumps(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                    "outputSchema": tool.output_schema,
                },
                ensure_ascii=False,
                separators=(",", ":"),
            )
        )
        for tool in tools
    )
    assert estimate_tokens(render(tools)) < COST[data.parent.name] * raw
    assert [detail.name for detail in DETAIL_LEVELS] == ["full", "brief", "flat", "signatures"]
