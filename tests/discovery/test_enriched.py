"""Text that a model wrote about tools: searched as long as the definition is the one that it was written for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from laws import law

from toolcrib.discovery import Discovery, Index, MemoryStore, SqliteStore
from toolcrib.discovery.enriched import COLLECTION, Enrichment
from toolcrib.discovery.index.entry import definition_digest
from toolcrib.errors import StoreError, ToolNotFoundError
from toolcrib.model import Tool

DESCRIPTIONS = ("Tell the weather.", "Send a mail.")
NAMES = some.sampled_from(["a", "b", "c"])
STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("add"), NAMES, some.sampled_from(DESCRIPTIONS)),
        some.tuples(some.sampled_from(["remove", "write", "forget"]), NAMES, some.just("")),
        some.just(("open again", "a", "")),
    ),
    max_size=14,
)


def tool(name: str, description: str) -> Tool:
    return Tool(name=name, namespace="w", description=description, input_schema={})


def enrichment_of(one: Tool) -> Enrichment:
    question = f"what about {one.name} if you {one.description}"
    return Enrichment(
        tool_id=str(one.id),
        digest=definition_digest(one),
        when_to_use="For rain.",
        tags=("sky",),
        questions=(question,),
    )


@given(STEPS)
@law(60)
def test_catalogue_equals_one_built_anew_after_any_sequence(steps: list[tuple[str, str, str]]) -> None:
    store = MemoryStore()
    catalogue = Discovery(store=store)
    kept: dict[str, Enrichment] = {}
    for step, name, description in steps:
        key = f"w:{name}"
        if step == "open again":
            catalogue = Discovery(store=store)
        elif step == "add":
            catalogue.register(tool(name, description))
        elif step == "forget":
            assert catalogue.forget_enrichment(key) == (kept.pop(key, None) is not None)
        elif key in catalogue.index and step == "remove":
            catalogue.unregister(key)
        elif key in catalogue.index and step == "write":
            kept[key] = enrichment_of(catalogue.index.get(key))
            catalogue.enrich(kept[key])
    anew = Index()
    for summary in catalogue.index.list_all():
        one = catalogue.index.get(summary.id)
        known = kept.get(summary.id)
        current = known if known is not None and known.digest == definition_digest(one) else None
        assert catalogue.enriched.find(one) == current
        anew.register(one)
        anew.set_examples(one.id, current.texts if current is not None else ())
    for question in ("what about b", "rain in the sky", "send something to a"):
        found = [(one.id, one.score, one.confidence) for one in catalogue.search(question)]
        assert found == [(one.id, one.score, one.confidence) for one in anew.search(question)]


def test_unknown_tool_is_not_written_about() -> None:
    catalogue = Discovery()
    with pytest.raises(ToolNotFoundError):
        catalogue.enrich(enrichment_of(tool("a", "Tell the weather.")))
    assert catalogue.enriched.ids() == ()


def test_versions_of_a_tool_are_written_about_by_themselves() -> None:
    catalogue = Discovery()
    first, second = (tool("a", "Tell it.").replace(version=version) for version in ("1.0.0", "2.0.0"))
    for one in (first, second):
        catalogue.register(one)
    catalogue.enrich(enrichment_of(catalogue.index.get(second.id)))
    assert catalogue.enriched.find(first) is None
    assert catalogue.index.example_questions(first.id) == ()
    assert len(catalogue.index.example_questions(second.id)) == 3


def test_examples_of_the_documentation_stay(tmp_path: Any) -> None:
    catalogue = Discovery(store=SqliteStore(tmp_path / "catalogue.db"))
    one = tool("a", "Tell the weather.")
    with catalogue:
        catalogue.register(one, doc={"examples": [{"title": "Rain in Oslo", "args": {}}]})
        catalogue.enrich(enrichment_of(catalogue.index.get(one.id)))
        assert catalogue.index.example_questions(one.id)[0] == "Rain in Oslo"
        assert len(catalogue.index.example_questions(one.id)) == 4
        assert catalogue.forget_enrichment(one.id)
        assert catalogue.index.example_questions(one.id) == ("Rain in Oslo",)


def test_row_that_cannot_be_read_is_an_error_of_the_store() -> None:
    store = MemoryStore()
    store.write_texts(COLLECTION, {"w:a": "[]"})
    with pytest.raises(StoreError, match=COLLECTION):
        Discovery(store=store)
