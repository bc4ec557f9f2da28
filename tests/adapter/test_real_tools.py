"""Every real tool goes to every provider, and the model's call comes back."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from adapter import oracles
from adapter.instances import valid_arguments
from adapter.oracles import RefusedError, load_real_tools
from adapter.support import (
    CALL_ID,
    REGISTRY,
    accept_call,
    assert_comes_back,
    convert_tool,
    faults,
    is_fallback,
    schema_of,
)

from toolcrib.adapter import Bundle, Conversion, portability
from toolcrib.adapter.portability import TARGETS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """Expected counts of a set of tools."""

    tools: int
    really_strict: dict[str, int]
    """Tools for which the provider enforces the schema; the others are sent plain, with a warning."""
    category: int
    """The number of tools with an annotation that MCP does not know."""
    execution: int
    """The number of others that have `execution`, which 2026-07-28 does not know."""
    with_arguments: int
    """For how many valid arguments are found, at least."""


COUNTS = {
    "tests": Counts(39, {"openai-strict": 39, "anthropic-strict": 37}, 3, 13, 39),
    "shared": Counts(1163, {"openai-strict": 1163, "anthropic-strict": 1078}, 32, 395, 1153),
}
"""By the folder that holds the data."""


class Converted(NamedTuple):
    tools: list[Json]
    before: list[str]
    by_target: dict[str, list[Conversion]]


@pytest.fixture(scope="module")
def counts(data: Path) -> Counts:
    return COUNTS[data.parent.name]


@pytest.fixture(scope="module")
def real_tools(data: Path, counts: Counts) -> list[Json]:
    tools = load_real_tools(data)
    assert len(tools) == counts.tools
    return tools


@pytest.fixture(scope="module")
def converted(real_tools: list[Json]) -> Converted:
    before = [json.dumps(tool) for tool in real_tools]
    by_target = {target: [convert_tool(tool, target) for tool in real_tools] for target in TARGETS}
    return Converted(real_tools, before, by_target)


@pytest.fixture(scope="module")
def arguments(real_tools: list[Json]) -> list[list[Any]]:
    return [valid_arguments(tool["inputSchema"], count=2, tries=20) for tool in real_tools]


def test_no_real_tool_is_changed_by_its_conversion(converted: Converted) -> None:
    assert [json.dumps(tool) for tool in converted.tools] == converted.before


def test_every_real_tool_is_the_same_in_mcp(converted: Converted) -> None:
    for tool, conversion in zip(converted.tools, converted.by_target["mcp"], strict=True):
        assert conversion.payload == tool
        assert json.dumps(conversion.payload, sort_keys=True) == json.dumps(tool, sort_keys=True)
        assert conversion.warnings == ()


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_mcp_refuses_of_our_payloads_just_what_it_refuses_as_it_came(
    converted: Converted, counts: Counts, era: Any
) -> None:
    refused = {"category": 0, "execution": 0, "other": 0}
    for tool, conversion in zip(converted.tools, converted.by_target["mcp"], strict=True):
        try:
            oracles.mcp_tool(conversion.payload, era=era)
        except RefusedError:
            with pytest.raises(RefusedError):
                oracles.mcp_tool(tool, era=era)
            has_category = "category" in tool.get("annotations", {})
            refused["category" if has_category else "execution" if "execution" in tool else "other"] += 1
    execution = counts.execution if era == "2026-07-28" else 0
    assert refused == {"category": counts.category, "execution": execution, "other": 0}


def openai_tool(payload: Json) -> None:
    (oracles.openai_chat_tool if "function" in payload else oracles.openai_responses_tool)(payload)


@pytest.mark.parametrize(
    ("target", "judge"),
    [
        ("openai", openai_tool),
        ("openai-strict", openai_tool),
        ("anthropic", oracles.anthropic_tool),
        ("anthropic-strict", oracles.anthropic_tool),
        ("gemini", oracles.gemini_tool),
        ("gemini-openapi", oracles.gemini_tool),
        ("a2a", oracles.a2a_skill),
    ],
)
def test_the_vendor_s_own_type_takes_every_payload(
    converted: Converted, target: str, judge: Callable[[Json], None]
) -> None:
    for conversion in converted.by_target[target]:
        judge(conversion.payload)


@pytest.mark.parametrize("strict", [False, True])
def test_the_responses_api_takes_every_payload(real_tools: list[Json], strict: bool) -> None:
    for conversion in REGISTRY.convert_many(
        real_tools, source="mcp", target="openai", api="responses", strict=strict
    ):
        oracles.openai_responses_tool(conversion.payload)


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "a2a"])
def test_every_schema_keeps_the_rules_of_its_provider(converted: Converted, target: str) -> None:
    refused = {
        conversion.name: [str(problem) for problem in found]
        for conversion in converted.by_target[target]
        if (found := faults(conversion, target))
    }
    assert refused == {}


@pytest.mark.parametrize("target", ["openai-strict", "anthropic-strict"])
def test_strict_targets_are_really_strict_for_so_many_tools(
    converted: Converted, counts: Counts, target: str
) -> None:
    found = converted.by_target[target]
    plain = [conversion for conversion in found if is_fallback(conversion)]
    assert len(found) - len(plain) == counts.really_strict[target]
    for conversion in found:
        payload = conversion.payload.get("function", conversion.payload)
        assert payload.get("strict", False) is (conversion not in plain)


@pytest.mark.parametrize("target", TARGETS)
def test_the_call_of_every_real_tool_comes_back(
    converted: Converted, arguments: list[list[Any]], target: str
) -> None:
    for conversion, values in zip(converted.by_target[target], arguments, strict=True):
        for index, args in enumerate(values):
            before = json.dumps(args)
            call = assert_comes_back(conversion, target, args)
            assert json.dumps(args) == before
            if not index:
                accept_call(target, call)


def test_there_are_arguments_for_nearly_every_real_tool(arguments: list[list[Any]], counts: Counts) -> None:
    assert sum(1 for values in arguments if values) >= counts.with_arguments


def test_the_call_of_every_real_tool_comes_back_from_the_responses_api(
    real_tools: list[Json], arguments: list[list[Any]]
) -> None:
    found = REGISTRY.convert_many(real_tools, source="mcp", target="openai", api="responses", strict=True)
    for conversion, values in zip(found, arguments, strict=True):
        for args in values[:1]:
            call = assert_comes_back(conversion, "openai-strict", args)
            accept_call("openai-strict", call)


@pytest.mark.parametrize("target", ["mcp", "openai", "anthropic", "gemini", "a2a"])
def test_all_real_tools_together_have_different_names(real_tools: list[Json], target: str) -> None:
    found = REGISTRY.convert_many(real_tools, source="mcp", target=target)
    bundle = Bundle(found)
    assert [conversion.tool_id for conversion in found] == [tool["name"] for tool in real_tools]
    backwards = REGISTRY.convert_many(real_tools[::-1], source="mcp", target=target)
    once = {
        tool["name"]
        for tool in real_tools
        if sum(1 for other in real_tools if other["name"] == tool["name"]) == 1
    }
    ours, theirs = (
        {one.tool_id: one.name for one in each if one.tool_id in once} for each in (found, backwards)
    )
    assert ours == theirs
    first = found[0]
    assert bundle.decode_call(first.encode_call({}, CALL_ID)).tool_id == first.tool_id


def test_every_warning_is_told_once_in_order_and_at_a_place(converted: Converted) -> None:
    for found in converted.by_target.values():
        for conversion in found:
            keys = [
                (warning.part, warning.path, warning.feature, warning.message)
                for warning in conversion.warnings
            ]
            assert len(set(keys)) == len(keys)
            assert all(path == "" or path.startswith("/") for _, path, _, _ in keys)


def test_no_warning_says_that_a_description_is_lost_which_is_not(converted: Converted) -> None:
    for target in ("openai", "anthropic", "gemini", "a2a"):
        for tool, conversion in zip(converted.tools, converted.by_target[target], strict=True):
            payload = conversion.payload.get("functionDeclarations", [conversion.payload])[0]
            said = payload.get("function", payload).get("description")
            told = [
                each
                for each in conversion.warnings
                if each.path == "/description" and "left out" in each.message
            ]
            assert not (said and said == tool.get("description") and told)


def test_portability_counts_what_conversion_does(real_tools: list[Json]) -> None:
    sample = real_tools[:: len(real_tools) // 29]
    reports = [portability(tool, registry=REGISTRY) for tool in sample]
    assert all(
        report[target].accepted for report in reports for target in ("mcp", "openai", "anthropic", "gemini")
    )
    for tool, report in zip(sample, reports, strict=True):
        assert list(report) == list(TARGETS)
        for target in TARGETS:
            assert report[target].warnings == convert_tool(tool, target).warnings
        assert report["mcp"].rewritten is False


def test_a_schema_that_is_kept_says_all_that_it_said(converted: Converted) -> None:
    for tool, conversion in zip(converted.tools, converted.by_target["anthropic"], strict=True):
        if not any(warning.part == "input" for warning in conversion.warnings):
            assert schema_of(conversion) == tool["inputSchema"]
