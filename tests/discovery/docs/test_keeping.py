"""Documentation of tools, and observed results, outlive the process."""

import json
from typing import Any

import pytest
from discovery.doubles import MemoryTexts, Shelf

from toolcrib.discovery import DocStore
from toolcrib.errors import StoreError
from toolcrib.model import Tool, ToolExample

LOG = Tool(name="log", namespace="git", version="1.2.0", input_schema={"type": "object"})
EXAMPLE = ToolExample(title="One", args={"n": [None, 1.5, "é"]}, result_hint="a list")


def open_docs(texts: MemoryTexts) -> DocStore:
    return DocStore(Shelf(LOG), texts=texts)


def test_docs_and_shapes_are_read_back() -> None:
    texts = MemoryTexts()
    docs = open_docs(texts)
    docs.register_doc("git:log:v1.2.0", summary="S", notes="N\x00\n", external_refs=["https://x.test"])
    docs.register_examples("git:log:1.2.0", [EXAMPLE])
    docs.observe("git:log", {"a": [1]})
    assert open_docs(texts).describe("git:log", "full") == docs.describe("git:log", "full")
    assert {name: list(kept) for name, kept in texts.kept.items()} == {
        "docs": ["git:log:1.2.0"],
        "observed": ["git:log:1.2.0"],
    }
    assert all(text.isascii() for kept in texts.kept.values() for text in kept.values())


def test_deleted_documentation_stays_deleted() -> None:
    texts = MemoryTexts()
    docs = open_docs(texts)
    docs.register_doc("git:log", summary="S")
    docs.observe("git:log", 1)
    docs.forget("git:log")
    docs.forget("git:log:1.2.0")
    writes = texts.writes
    docs.forget("git:log")
    assert texts.kept == {"docs": {}, "observed": {}}
    assert texts.writes == writes


def test_a_busy_tool_does_not_write_on_every_call() -> None:
    texts = MemoryTexts()
    docs = open_docs(texts)
    for number in range(1_000):
        docs.observe("git:log", {"n": number})
    assert texts.writes == 10
    docs.observe("git:log", {"n": "text"})
    assert texts.writes == 11
    docs.observe("git:log", {"n": 1})
    assert json.loads(texts.kept["observed"]["git:log:1.2.0"])["observed"] == 1_001
    docs.flush()
    docs.flush()
    assert json.loads(texts.kept["observed"]["git:log:1.2.0"])["observed"] == 1_002
    assert texts.writes == 12
    again = open_docs(texts)
    again.observe("git:log", {"n": 1})
    assert texts.writes == 12
    shown = again.describe("git:log", "schema").observed_output
    assert shown is not None
    assert shown.observed == 1_003


def test_documentation_that_could_not_be_stored_is_not_shown() -> None:
    texts = MemoryTexts()
    docs = open_docs(texts)
    docs.register_doc("git:log", summary="S")
    docs.observe("git:log", 1)
    before = docs.describe("git:log", "full")
    texts.is_full = True
    for work in (
        lambda: docs.register_doc("git:log", summary="T"),
        lambda: docs.register_examples("git:log", [EXAMPLE]),
        lambda: docs.forget("git:log"),
        lambda: docs.forget("git:log:1.2.0"),
        lambda: docs.observe("git:log", "text"),
    ):
        with pytest.raises(StoreError):
            work()
    assert docs.describe("git:log", "full") == before


@pytest.mark.parametrize(
    ("collection", "text"),
    [("docs", "{"), ("docs", '{"summary": 5}'), ("observed", "[]"), ("observed", '{"observed": 1}')],
)
def test_unreadable_record_is_named(collection: str, text: str) -> None:
    texts = MemoryTexts()
    texts.kept[collection] = {"git:log": text}
    with pytest.raises(StoreError, match=f"store '{collection}': the record of 'git:log' cannot be read: "):
        open_docs(texts)


def test_documentation_without_a_store_is_in_memory_only() -> None:
    docs: Any = DocStore(Shelf(LOG))
    docs.observe("git:log", 1)
    docs.flush()
    assert DocStore(Shelf(LOG)).describe("git:log", "schema").observed_output is None
