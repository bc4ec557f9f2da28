"""Converts real tools to each provider's format: our converters beside those of others.

Every converter gets the same tools. `--write` puts the tables into docs/adapter-measurements.md.
"""

import argparse
import copy
import gc
import json
import runpy
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
from converters import (
    FAMILIES,
    OURS,
    REGISTRY,
    Comparison,
    Converted,
    Converter,
    collect_warnings,
    find,
    versions,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, _OpenAIJsonSchemaTransformer
from turns import turns

from toolcrib.adapter.rules import RULES, violations
from toolcrib.errors import ConversionError, InvalidSchemaError
from toolcrib.model.canonical import CanonicalTool

ROOT = Path(__file__).parents[1]
TOOLS = ROOT.parent / "shared" / "data" / "real-tools" / "mcp_tools.jsonl"
PAGE = ROOT / "docs" / "adapter-measurements.md"
TIMED = turns(1_000, 50)
ROUNDS = turns(10)
SHOWN_WORDS = 6
OWN_NULL = "its own null"
DISPUTED = frozenset({"$schema", "title", "default"})

Json = dict[str, Any]

TITLES = {
    "openai-strict": "OpenAI strict",
    "openai": "OpenAI plain",
    "anthropic-strict": "Anthropic strict",
    "anthropic": "Anthropic plain",
    "gemini": "Gemini, `parametersJsonSchema`",
    "gemini-openapi": "Gemini, `parameters`",
}
COLUMNS = ("converter", "accepted", "lenient", "raised", "mutated", "refuses", "unreported", "silently lossy")
INTRO = """\
# Adapter measurements

<!-- Made by `.venv/bin/python benchmarks/adapters.py --write` from the public data described in
CONTRIBUTING.md; do not edit it by hand. -->
"""
MEANING = """\
The columns, counted in tools:

- **accepted**: the share of all tools whose converted input schema follows the provider's rules
  (`toolcrib.adapter.rules`) and, for a strict target, is sent as strict. No provider was
  called: the rules are as we read them, and our converter is written to follow them.
- **lenient**: the same if `$schema`, `title` and `default` may appear anywhere, on which sources disagree.
- **raised**: the converter raised an exception, on purpose or not.
- **mutated**: the schema that was passed in was changed.
- **refuses**: arguments that the original schema accepts do not fit the converted one. Ours are first
  translated by `encode_args`, and translated back later. The others have no equivalent: arguments are
  passed as they are and, if that fails, again with null for what is missing, if the original accepts that.
- **unreported**: a keyword of the original is neither kept, in the same or an equivalent form, nor named in
  the description in its place, nor reported: by our warnings at its path, by others' Python warnings or log.
  `$schema`, `$id`, `$comment`, `title`, `discriminator`, `default: null`, `x-` keys and open
  `additionalProperties` do not count.
- **silently lossy**: *refuses*, *unreported* or both.
"""
TIMES = """\
Ours builds the payload and its decoder, from a record that was read before or from the MCP
definition, which it then also reads and checks; pydantic-ai converts only the schema, which its own
record already holds, and stops early at what it refuses. Of its two transformers, it uses the private
one for OpenAI's models, to which the ratio refers, and the public one for fine-tuned models."""


@dataclass(slots=True)
class Case:
    """One real tool, with arguments that it takes."""

    tool: Json
    arguments: list[Any]


@dataclass(slots=True)
class Tally:
    """The results of one converter for all tools."""

    converter: Converter
    accepted: int = 0
    lenient: int = 0
    raised: Counter[str] = field(default_factory=Counter)
    mutated: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    """The reason of each refusal, by tool."""
    untold: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """The keywords and their paths, by tool."""
    noise: int = 0
    """Keywords lost without a report, if keywords without effect on values count too."""

    def row(self, total: int) -> tuple[str, ...]:
        """Return a row of the table."""
        lossy = len(self.refuses.keys() | self.untold.keys())
        counts = (sum(self.raised.values()), self.mutated, len(self.refuses), len(self.untold), lossy)
        shares = (f"{self.accepted / total:.1%}", f"{self.lenient / total:.1%}")
        return (self.converter.name, *shares, *(f"{count:,}" for count in counts))

    def words(self) -> str:
        """Return the keywords that were lost silently, and the number of tools for each."""
        tools = Counter(word for lost in self.untold.values() for word in {word for word, _ in lost})
        return ", ".join(f"`{word}` {count}" for word, count in tools.most_common(SHOWN_WORDS))


@dataclass(slots=True)
class Law:
    """Results of round trips: arguments that come back unchanged, or do not."""

    same: int = 0
    null: int = 0
    """Arguments whose null came back as absent, of which we warn."""
    broken: list[str] = field(default_factory=list)


def load() -> list[Case]:
    """Return the real tools, with the arguments that the tests make for them."""
    if not TOOLS.exists():
        raise SystemExit(f"the benchmark needs {TOOLS}, which is not part of the repository")
    make = runpy.run_path(str(ROOT / "tests" / "adapter" / "instances.py"))["valid_arguments"]
    rows = [json.loads(line) for line in TOOLS.read_text(encoding="utf-8").splitlines()]
    tools = [{key: row[key] for key in row if key not in {"source", "server"}} for row in rows]
    tools = tools[: turns(len(tools), TIMED)]
    return [Case(tool, arguments(make, tool)) for tool in tools]


def arguments(make: Callable[[Json], list[Any]], tool: Json) -> list[Any]:
    """Return arguments that a tool takes, if any can be made."""
    try:
        return make(tool["inputSchema"])
    except InvalidSchemaError:
        return []


def measure(target: str, converter: Converter, cases: list[Case]) -> Tally:
    """Convert every tool, and return the tally."""
    tally = Tally(converter)
    for index, case in enumerate(cases):
        given = copy.deepcopy(case.tool)
        try:
            with collect_warnings() as said:
                converted = converter.convert(given)
        except Exception as error:  # noqa: BLE001 - others' converters may raise anything
            tally.raised[type(error).__name__] += 1
            continue
        finally:
            tally.mutated += json.dumps(given) != json.dumps(case.tool)
        judge(tally, target, f"{index + 1} {case.tool['name']}", case, converted, said)
    return tally


def judge(tally: Tally, target: str, name: str, case: Case, converted: Converted, said: list[str]) -> None:
    """Add the result for one tool."""
    original = case.tool["inputSchema"]
    problems = {problem.keyword for problem in violations(converted.schema, RULES[target])}
    tally.accepted += converted.as_asked and not problems
    tally.lenient += converted.as_asked and problems <= DISPUTED
    if refused := refusal(original, converted, case.arguments, is_openapi=target == "gemini-openapi"):
        tally.refuses[name] = refused
    if untold := Comparison(original, converted, said).run():
        tally.untold[name] = untold
    if converted.conversion is not None:
        tally.noise += len(Comparison(original, converted, said, noise=frozenset()).run())


def refusal(original: Json, converted: Converted, values: list[Any], *, is_openapi: bool) -> str:
    """Return the reason why a converted schema refuses arguments that the original accepts, if it does."""
    schema = from_openapi(converted.schema) if is_openapi else converted.schema
    for value in values:
        try:
            passed = converted.conversion.encode_args(value) if converted.conversion else value
        except ConversionError as error:
            return f"{error} in {value}"
        reason = misfit(schema, passed)
        if reason and converted.conversion is None:
            filled = with_nulls(schema, schema, value)
            reason = reason if misfit(original, filled) or misfit(schema, filled) else ""
        if reason:
            return f"{reason} in {passed}"
    return ""


def misfit(schema: Json, value: Any) -> str:
    """Return the reason why a value does not fit a schema, if it does not."""
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True, validate_formats=False)
        error = next(validator.iter_errors(value), None)
    except (ValueError, jsonschema_rs.ReferencingError) as error:  # the schema itself is at fault
        return str(error)
    return "" if error is None else f"/{'/'.join(map(str, error.instance_path))}: {error.message}"


def from_openapi(schema: Any) -> Any:
    """Return a schema of OpenAPI 3.0 as JSON Schema, with `nullable` as a type of null."""
    if isinstance(schema, list):
        return [from_openapi(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: from_openapi(member)
        for key, member in schema.items()
        if not (key == "nullable" and member is True)
    }
    return {"anyOf": [plain, {"type": "null"}]} if len(plain) < len(schema) else plain


def with_nulls(root: Json, schema: Any, value: Any) -> Any:
    """Return arguments with null for every property that a schema requires and they do not have."""
    schema = choose_alternative(root, schema, type(value))
    if isinstance(value, list):
        return [with_nulls(root, schema.get("items"), member) for member in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    filled = {key: with_nulls(root, properties.get(key), member) for key, member in value.items()}
    return filled | {name: None for name in schema.get("required") or () if name not in filled}


def choose_alternative(root: Json, schema: Any, kind: type) -> Json:
    """Return the first alternative of a schema that constrains objects or lists."""
    word = "items" if kind is list else "properties"
    pending = [schema]
    for found in pending[:]:
        if isinstance(found, dict) and word not in found:
            pending += found.get("anyOf") or found.get("oneOf") or ()
            pending += [find(root, found["$ref"])] if "$ref" in found else []
    return next((found for found in pending if isinstance(found, dict) and word in found), {})


def law(target: str, cases: list[Case]) -> Law:
    """Return whether arguments that go to a provider as a call come back from there."""
    found = Law()
    convert = FAMILIES[target][0].convert
    for index, case in enumerate(cases):
        conversion = convert(case.tool).conversion
        for value in case.arguments:
            call = json.loads(json.dumps(conversion.encode_call(value, "call_1")))
            back = conversion.decode_call(call).args
            if json.dumps(back, sort_keys=True) == json.dumps(value, sort_keys=True):
                found.same += 1
            elif without_nulls(back) == without_nulls(value) and any(
                OWN_NULL in loss.message for loss in conversion.warnings
            ):
                found.null += 1
            else:
                found.broken.append(f"{index + 1} {case.tool['name']}: {value} came back as {back}")
    return found


def without_nulls(value: Any) -> Any:
    """Return a value without the properties that are null."""
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(member) for key, member in value.items() if member is not None}


def identity(cases: list[Case]) -> int:
    """Return how many tools are the same after a conversion from MCP to MCP."""
    convert = REGISTRY.convert
    return sum(convert(case.tool, source="mcp", target="mcp").payload == case.tool for case in cases)


def convert_record(record: CanonicalTool) -> None:
    """Convert a tool to OpenAI strict, from a record that was read before to a payload with its way back."""
    REGISTRY.convert_canonical(record, target="openai", strict=True)


def convert_ours(tool: Json) -> None:
    """Convert a tool to OpenAI strict, from an MCP listing to a payload with its way back."""
    REGISTRY.convert(tool, source="mcp", target="openai", strict=True)


def convert_ours_told(tool: Json) -> None:
    """Convert a tool, with reports of all losses."""
    _ = REGISTRY.convert(tool, source="mcp", target="openai", strict=True).warnings


def convert_theirs(tool: Json) -> None:
    """Convert the input schema of a tool with pydantic-ai's public transformer."""
    with suppress(UserError):
        OpenAIJsonSchemaTransformer(tool["inputSchema"], strict=True).walk()


def convert_theirs_guarded(tool: Json) -> None:
    """Convert the input schema of a tool with the transformer that pydantic-ai uses for OpenAI itself."""
    with suppress(UserError):
        _OpenAIJsonSchemaTransformer(tool["inputSchema"], strict=True).walk()


CONTENDERS: dict[str, Callable[[Any], None]] = {
    f"{OURS}, from a record": convert_record,
    f"{OURS}, from a definition": convert_ours,
    f"{OURS}, from a definition, its warnings read": convert_ours_told,
    "pydantic-ai `OpenAIJsonSchemaTransformer`": convert_theirs,
    "pydantic-ai `_OpenAIJsonSchemaTransformer`": convert_theirs_guarded,
}


def measure_cpu(convert: Callable[[Any], None], tools: list[Any]) -> list[float]:
    """Return the CPU seconds that each tool takes, and all of them together as the last."""
    times = []
    for tool in tools:
        start = time.process_time()
        convert(tool)
        times.append(time.process_time() - start)
    gc.collect()
    start = time.process_time()
    for tool in tools:
        convert(tool)
    return [*times, time.process_time() - start]


def speed(cases: list[Case]) -> list[tuple[str, ...]]:
    """Return the rows of the table of times: the fastest of interleaved rounds, for each tool and for all."""
    tools = [case.tool for case in cases[:TIMED]]
    records = list(map(REGISTRY.get("mcp").to_canonical, tools))
    best = {name: [float("inf")] * (len(tools) + 1) for name in CONTENDERS}
    gc.freeze()
    for turn in range(ROUNDS):
        progress(f"timing, round {turn + 1} of {ROUNDS}")
        for name, convert in CONTENDERS.items():
            given = records if convert is convert_record else tools
            best[name] = list(map(min, best[name], measure_cpu(convert, given)))
    base = best["pydantic-ai `_OpenAIJsonSchemaTransformer`"]
    rows = []
    for name, (*each, whole) in best.items():
        median = statistics.median(each) * 1e6
        rows.append((name, f"{whole * 1e3:.1f}", f"{median:.0f}", f"{whole / base[-1]:.2f}"))
    return rows


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    rule = ("---", *["--:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def family(target: str, cases: list[Case]) -> str:
    """Return the table of one way to send tools, with notes."""
    tallies = []
    for converter in FAMILIES[target]:
        progress(f"{target}: {converter.name}")
        tallies.append(measure(target, converter, cases))
    parts = [f"## {TITLES[target]}", table(COLUMNS, [tally.row(len(cases)) for tally in tallies])]
    progress(f"{target}: there and back")
    parts.append(verdict(tallies[0], law(target, cases)))
    notes = [f"- {tally.converter.name}: {note}" for tally in tallies if (note := notes_on(tally))]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def notes_on(tally: Tally) -> str:
    """Return notes on silent losses and errors of a converter, and on its documented limits."""
    raised = ", ".join(f"`{name}` {count}" for name, count in tally.raised.most_common())
    said = [
        tally.converter.note,
        f"raised {raised}" if raised else "",
        tally.words() and f"unreported: {tally.words()}",
    ]
    return "; ".join(part for part in said if part)


def verdict(tally: Tally, found: Law) -> str:
    """Return the verdict on our own conversion, with its faults by name."""
    total = found.same + found.null + len(found.broken)
    told = (
        f"Round trip, ours: {(total - len(found.broken)) / total:.2%} of {total:,} generated sets of "
        f"arguments; in {found.null:,} of them a null came back as absent, which we warn about. "
        f"Unreported keywords if `title`, `$schema` and the like are counted too: {tally.noise:,}."
    )
    lines = [told, ""]
    lines += [f"- refuses {name}: {reason[:300]}" for name, reason in tally.refuses.items()]
    lines += [f"- unreported in {name}: {lost[:5]}" for name, lost in tally.untold.items()]
    lines += [f"- does not come back: {broken[:300]}" for broken in found.broken]
    return "\n".join(lines).rstrip()


def progress(text: str) -> None:
    """Print the current step on standard error."""
    print(text, file=sys.stderr)


def main() -> None:
    """Print one table for each way to send tools, and one of times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="measure just enough to show that it runs")
    wanted = parser.parse_args()
    progress("making arguments")
    cases = load()
    times = speed(cases)
    count = sum(len(case.arguments) for case in cases)
    barren = sum(not case.arguments for case in cases)
    named = ", ".join(f"{name} {number}" for name, number in versions().items())
    made = (
        f"with {count:,} generated sets of arguments that they accept "
        f"(none could be generated for {barren} tools)"
    )
    timed = (
        f"CPU time to convert the first {TIMED:,} tools to OpenAI strict: the fastest of {ROUNDS} rounds "
        "in which the converters take turns."
    )
    parts = [
        INTRO.rstrip(),
        f"{len(cases):,} tools of real MCP servers, {made}. {named}.",
        MEANING.rstrip(),
        f"MCP to MCP, ours: {identity(cases) / len(cases):.1%} of tools are unchanged.",
        *(family(target, cases) for target in FAMILIES),
        f"## Time\n\n{timed} {TIMES}",
        table(("converter", "ms, all", "µs, median tool", "ratio"), times),
    ]
    page = "\n\n".join(parts) + "\n"
    print(page)
    if wanted.write:
        PAGE.write_text(page, encoding="utf-8")
        progress(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
