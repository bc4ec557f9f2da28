"""Measures the validation of arguments of real tools, beside jsonschema and bare jsonschema-rs.

Every tool of the data set that accepts arguments made of its declared properties takes part. The validators
take turns of a second, and each keeps its fastest round over all tools, in CPU time: trust the ratios, not
the microseconds.
"""

import json
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
from turns import turns

from toolcrib.errors import InvalidToolError, ValidationError
from toolcrib.model import DefaultValidator, Tool

TOOLS = Path(__file__).parents[2] / "shared" / "data" / "real-tools" / "mcp_tools.jsonl"
SECONDS = 1.0
TURNS = turns(4, 1)
MAX_DEPTH = 6
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def sample(schema: Any, root: Any, depth: int = 0) -> Any:
    """Return a value made from a schema's declarations; the validator decides whether it is valid."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return {}
    for word in ("const", "default"):
        if schema.get(word) is not None:
            return schema[word]
    if schema.get("enum"):
        return schema["enum"][0]
    if str(schema.get("$ref", "")).startswith("#"):
        return sample(follow(root, schema["$ref"]), root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word):
            return sample(schema[word][0], root, depth + 1)
    return sample_type(schema, root, depth)


def sample_type(schema: dict[str, Any], root: Any, depth: int) -> Any:
    """Return a value of the type that a schema names."""
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: sample(part, root, depth + 1) for name, part in properties.items()}
    if kind == "array":
        return [sample(schema.get("items", {}), root, depth + 1)] * max(1, schema.get("minItems", 1))
    simple = {"integer": schema.get("minimum", 1), "number": schema.get("minimum", 1.5), "boolean": True}
    return simple.get(kind, None if kind == "null" else "x" * max(3, schema.get("minLength", 0)))


def follow(root: Any, reference: str) -> Any:
    """Return the target of a local reference."""
    for part in reference[2:].split("/") if reference != "#" else []:
        key = part.replace("~1", "/").replace("~0", "~")
        root = root.get(key) if isinstance(root, dict) else None
    return root


def contenders() -> dict[str, list[Call]]:
    """Return the calls by which each validator checks the arguments of every tool."""
    ours = DefaultValidator()
    calls: dict[str, list[Call]] = {"toolcrib": [], "jsonschema-rs": [], "jsonschema": []}
    for line in TOOLS.read_text().splitlines():
        row = json.loads(line)
        schema = row["inputSchema"]
        arguments = sample(schema, schema)
        try:
            tool = Tool.from_json({key: row[key] for key in row if key not in {"source", "server"}})
            ours.validate_input(tool, arguments)
        except (InvalidToolError, ValidationError):
            continue
        old = "draft-07" in schema.get("$schema", "")
        rust = jsonschema_rs.Draft7Validator if old else jsonschema_rs.Draft202012Validator
        python = jsonschema.Draft7Validator if old else jsonschema.Draft202012Validator
        bare = rust(schema, offline=True, validate_formats=False)
        calls["toolcrib"].append((ours.validate_input, (tool, arguments)))
        calls["jsonschema-rs"].append((bare.validate, (arguments,)))
        calls["jsonschema"].append((python(schema).validate, (arguments,)))
    return calls


def fastest(checks: list[Call]) -> float:
    """Return the microseconds of CPU time per call in the fastest of many rounds over all tools."""
    timer = timeit.Timer(lambda: run(checks), timer=time.process_time)
    rounds = max(5, int(SECONDS / timer.timeit(1)))
    return min(timer.repeat(rounds, number=1)) / len(checks) * 1e6


def run(checks: list[Call]) -> None:
    """Validate the arguments of every tool once."""
    for check, arguments in checks:
        check(*arguments)


def main() -> None:
    """Print one line per validator, and the two ratios that we promise."""
    if not TOOLS.exists():
        raise SystemExit(f"the benchmark needs {TOOLS}, which is not part of the repository")
    calls = contenders()
    turns = [{name: fastest(checks) for name, checks in calls.items()} for _ in range(TURNS)]
    times = {name: min(turn[name] for turn in turns) for name in calls}
    print(f"validate_input on the arguments of {len(calls['toolcrib']):,} real tools")
    for name, spent in times.items():
        print(f"  {name:15} {spent:7.2f} µs")
    print(f"  {times['jsonschema'] / times['toolcrib']:.1f} times as fast as jsonschema (promised: 15)")
    print(f"  {times['toolcrib'] / times['jsonschema-rs']:.1f} times the time of jsonschema-rs (promised: 4)")


if __name__ == "__main__":
    main()
