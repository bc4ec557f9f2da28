"""A deprecated tool is ranked below its siblings, unless it is called by its name."""

from typing import Any

import pytest

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, Index, Searcher, load_embedder
from toolcrib.discovery.facts import is_deprecated
from toolcrib.model import Tool

NOTICES = [
    "DEPRECATED: Use another tool.",
    "[DEPRECATED] Use another tool instead.",
    "Reads. DEPRECATED: Use another tool.",
    "Reads a page. (Deprecated, use another tool instead)",
    "Reads a page (deprecated).",
    "Reads.\n\n**DEPRECATED**\n\nUse another tool.",
    "Reads.\n\n.. deprecated:: This tool exists for old clients.",
    "Deprecated. Use another tool.",
    "Deprecated since 2.0; use another tool.",
    "Deprecated in favour of another tool.",
    "deprecated - use another tool",
    "This tool is deprecated.",
    "Reads. This function has been deprecated in 2.0.",
    "NOTE: This tool is now deprecated; use another.",
    "This server (v1) is deprecated and no longer maintained.",
    "\u26a0\ufe0f Deprecated: use another tool",
]
NO_NOTICES = [
    "",
    "Check if packages are deprecated",
    "List deprecated endpoints.",
    "Find deprecated functions in code.",
    "Tell whether this API is deprecated.",
    "Mark a package as deprecated.",
    "Deprecated packages are listed with their replacements.",
    "Set the state to ACTIVE, DEPRECATED or ARCHIVED.",
    "List meetings. Attendee reports (deprecated) and recordings (deprecated) are online meeting artifacts.",
    "Not yet: undeprecated",
]
FIELDS: dict[str, dict[str, Any]] = {
    "_meta": {"_meta": {"deprecated": True}},
    "_meta with a prefix": {"_meta": {"openapi/deprecated": True}},
    "_meta with a reason": {"_meta": {"toolcrib/deprecated": "use another tool"}},
    "beside": {"deprecated": True},
    "annotations": {"annotations": {"deprecatedHint": True}},
    "tags": {"tags": ["Deprecated"]},
    "schema": {"inputSchema": {"type": "object", "deprecated": True}},
    "title": {"title": "Read (deprecated)"},
}
SEARCHERS = {
    "default": lambda: None,
    "words": Bm25Searcher,
    "table": lambda: EmbeddingSearcher(load_embedder()),
}
KINDS = pytest.mark.parametrize("kind", SEARCHERS)


def tool(name: str, description: str, **fields: Any) -> Tool:
    return Tool.from_json(
        {"name": name, "description": description, "inputSchema": {"type": "object"}} | fields
    )


def index_of(kind: str, *tools: Tool) -> Index:
    searcher: Searcher | None = SEARCHERS[kind]()
    index = Index() if searcher is None else Index(searcher=searcher)
    index.register_many((each, None) for each in tools)
    return index


def test_one_of_two_contradicting_statements_is_enough() -> None:
    for outside, inside in ((True, False), (False, True)):
        annotations = {"deprecated": inside}
        tool = {"name": "x", "inputSchema": {}, "deprecated": outside, "annotations": annotations}
        assert is_deprecated(Tool.from_json(tool))


@pytest.mark.parametrize("description", NOTICES)
def test_a_notice_of_deprecation_is_recognised(description: str) -> None:
    assert is_deprecated(tool("read", description))


@pytest.mark.parametrize("description", NO_NOTICES)
def test_a_text_about_deprecation_is_no_notice(description: str) -> None:
    assert not is_deprecated(tool("read", description))


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_fields_say_that_a_tool_is_deprecated(fields: dict[str, Any]) -> None:
    assert is_deprecated(tool("read", "Reads.", **fields))


@pytest.mark.parametrize("value", [False, None, "", {}, 0])
def test_a_field_that_denies_it_does_not(value: object) -> None:
    assert not is_deprecated(tool("read", "Reads.", _meta={"deprecated": value}, deprecated=value))


@KINDS
@pytest.mark.parametrize("fields", [*FIELDS.values(), {}], ids=[*FIELDS, "description"])
@pytest.mark.parametrize("length", [1, 20])
def test_a_deprecated_tool_stands_below_its_sibling(kind: str, fields: dict[str, Any], length: int) -> None:
    text = "Read the complete contents of a file from the disk as text. " * length
    notice = "" if fields else " DEPRECATED: Use read_two."
    index = index_of(kind, tool("read_one", text + notice, **fields), tool("read_two", text))
    page = index.search("show what is in this file")
    assert [each.id for each in page] == ["read_two", "read_one"]
    assert page[0].confidence > page[1].confidence


FILES = (
    tool(
        "read_file", "Read the complete contents of a file as text. DEPRECATED: Use read_text_file instead."
    ),
    tool(
        "read_text_file",
        "Read the complete contents of a file from the file system as text. Handles various text encodings "
        "and provides detailed error messages if the file cannot be read.",
    ),
    tool("write_file", "Create a new file or completely overwrite an existing file with new content."),
)


@KINDS
@pytest.mark.parametrize("question", ["read a file", "read file", "Read the file"])
def test_words_find_the_replacement_of_a_deprecated_tool(kind: str, question: str) -> None:
    page = index_of(kind, *FILES).search(question)
    assert page[0].id == "read_text_file"
    assert {each.id: each.confidence for each in page}["read_file"] < 1


@KINDS
@pytest.mark.parametrize(
    "question", ["read_file", "READ_FILE", "readFile", "read-file", "`read_file`", "how do I use read_file?"]
)
def test_deprecated_tool_is_found_first_by_its_name(kind: str, question: str) -> None:
    [first, *_] = index_of(kind, *FILES).search(question)
    assert (first.id, first.confidence) == ("read_file", 1.0)


@KINDS
def test_deprecated_tool_comes_after_one_of_the_same_name(kind: str) -> None:
    index = index_of(
        kind,
        tool("fetch", "Fetch a page. Deprecated: use the other server.", namespace="a"),
        tool("fetch", "Fetch a page.", namespace="b"),
    )
    assert [each.id for each in index.search("fetch")] == ["b:fetch", "a:fetch"]
    assert index.search("a:fetch")[0].id == "a:fetch"
