"""The same documentation for those who see a part of the tools."""

import pytest

from toolcrib.discovery import DocStore, Index, Scope
from toolcrib.errors import ToolNotFoundError
from toolcrib.model import Tool


def test_documentation_is_told_of_what_another_resolver_knows() -> None:
    index = Index()
    for version in ("1.0.0", "2.0.0"):
        index.register(Tool(name="log", namespace="git", version=version, input_schema={}))
    docs = DocStore(index)
    docs.register_doc("git:log", notes="Newest first.")
    old = docs.with_resolver(index.view(Scope(exclude=["git:log:2.0.0"])))
    assert docs.describe("git:log", "schema").tool == index.get("git:log:2.0.0")
    assert old.describe("git:log", "schema").tool == index.get("git:log:1.0.0")
    with pytest.raises(ToolNotFoundError):
        old.describe("git:log:2.0.0", "schema")
    docs.register_doc("git:log:1.0.0", notes="Oldest first.")
    assert old.describe("git:log", "full").notes == "Oldest first."
