"""Information about a tool in its description and in `_meta`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import facts
from toolcrib.model import Tool, ToolAnnotations

READERS = [
    facts.aliases,
    facts.category,
    facts.examples_of,
    facts.input_modes,
    facts.output_modes,
    facts.security_summary,
]
KEYS = [
    *("summary", "category", "inputModes", "outputModes", "aliases", "examples", "exampleQueries"),
    *("securityRequirements", "securitySchemes"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def tool(meta: dict[str, Any] | None = None, **fields: Any) -> Tool:
    return Tool(name="log", input_schema={"type": "object"}, meta=meta, **fields)


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("Create an issue.", 40, "Create an issue."),
        ("  Create\n\tan  issue. ", 40, "Create an issue."),
        ("Create an issue in a repository", 20, "Create an issue in…"),
        ("Create an issue in a repository", 22, "Create an issue in a…"),
        ("hello world", 6, "hello…"),
        ("hello world", 5, "hell…"),
        ("one, two three four", 9, "one, two…"),
        ("first, second", 8, "first…"),
        ("a supercalifragilistic word", 12, "a supercali…"),
        ("x" * 300, 10, "x" * 9 + "…"),
        ("", 10, ""),
        (" \n ", 10, ""),
        ("word", 0, ""),
        ("word", 1, "…"),
    ],
)
def test_a_short_text_is_one_line_that_ends_with_a_word(text: str, limit: int, line: str) -> None:
    assert facts.shorten(text, limit) == line


@given(st.text(), st.integers(0, 40))
def test_a_short_text_is_never_longer_than_asked(text: str, limit: int) -> None:
    line = facts.shorten(text, limit)
    assert len(line) <= limit
    assert line == " ".join(line.split())


def test_a_long_text_is_not_read_to_its_end() -> None:
    assert facts.shorten("word " * 4_000_000, 12) == "word word…"


@pytest.mark.parametrize(
    ("described", "text"),
    [
        (tool({"summary": "In short."}, description="At length."), "In short."),
        (tool({"summary": " "}, description="At length."), "At length."),
        (tool({"summary": 5}, description="At length."), "At length."),
        (tool({"toolcrib/summary": "Ours.", "summary": "In short."}), "Ours."),
        (tool({"toolcrib/summary": 5, "summary": "In short."}), "In short."),
        (tool(description=" \n", title="Log"), "Log"),
        (tool(annotations=ToolAnnotations(title="History")), "History"),
        (tool(annotations=ToolAnnotations()), ""),
        (tool(), ""),
        (tool(description="word " * 30), "word word word word…"),
    ],
)
def test_a_summary_is_what_the_tool_says_of_itself(described: Tool, text: str) -> None:
    assert facts.summary_text(described, 20) == text


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (None, None),
        ({"securityRequirements": [{"oauth": ["read"]}, {"key": [], "oauth": []}]}, "key, oauth"),
        ({"securityRequirements": [], "securitySchemes": {"oauth": {}, "key": {}}}, "key, oauth"),
        ({"securityRequirements": [5, "x", {"": []}], "securitySchemes": {"key": None}}, "key"),
        ({"securityRequirements": {"key": []}}, None),
        ({"securitySchemes": ["key"]}, None),
        ({"toolcrib/securitySchemes": {"key": {}}, "securitySchemes": {"oauth": {}}}, "key"),
    ],
)
def test_the_schemes_are_named_once_each_and_in_order(meta: Any, text: str | None) -> None:
    assert facts.security_summary(tool(meta)) == text


def test_lists_of_texts_are_read_without_what_is_none() -> None:
    described = tool(
        {
            "category": " dev  tools ",
            "inputModes": ["text", 5, "", " text ", "image/png"],
            "outputModes": ["json"],
            "aliases": ["history", None],
            "examples": ["what changed?", {"args": {}}],
            "exampleQueries": ["what changed?", "who did this?"],
        }
    )
    assert facts.category(described) == "dev tools"
    assert facts.input_modes(described) == ("text", "image/png")
    assert facts.output_modes(described) == ("json",)
    assert facts.aliases(described) == ("history",)
    assert facts.examples_of(described) == ("what changed?", "who did this?")


def test_a_tool_that_says_nothing_has_nothing() -> None:
    assert [read(tool()) for read in READERS] == [(), None, (), (), (), None]


def test_long_facts_are_limited() -> None:
    many = [f"{number} {'x' * 1_000}" for number in range(1_000)]
    described = tool(
        dict.fromkeys(KEYS, many) | {"category": many[0], "securitySchemes": dict.fromkeys(many)}
    )
    for read in (facts.aliases, facts.examples_of, facts.input_modes):
        found = read(described)
        assert len(found) == 50
        assert max(map(len, found)) <= 500
    assert len(facts.category(described) or "") <= 80
    assert len(facts.security_summary(described) or "") <= 200


@given(st.dictionaries(st.sampled_from([*KEYS, *(f"toolcrib/{key}" for key in KEYS)]), JSON))
def test_any_json_at_all_may_stand_in_meta(meta: dict[str, Any]) -> None:
    described = tool(meta)
    assert isinstance(facts.summary_text(described, 10), str)
    for read in READERS:
        found = read(described)
        assert found is None or all(isinstance(text, str) and text for text in found)
