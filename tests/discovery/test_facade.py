"""Tools, their documentation and their providers in one object."""

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from discovery.doubles import MemoryTexts, Shelf
from discovery.index.support import GITHUB, ISSUE, MAIL, MERGE, MIRROR, SHELF, ids, make
from discovery.support import WordEmbedder
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib import Tool, tool
from toolcrib.discovery import (
    Bm25Searcher,
    Change,
    Discovery,
    DocEntry,
    DocStore,
    EmbeddingSearcher,
    HybridSearcher,
    Index,
    MemoryStore,
    SqliteStore,
    ToolDoc,
    ToolExample,
)
from toolcrib.errors import (
    ArgsTooLargeError,
    InvalidBackendError,
    InvalidSchemaError,
    InvalidToolError,
    InvalidToolIdError,
    StoreError,
    ToolcribError,
    ToolNotFoundError,
    ValidationError,
)

GRANDMOTHER = ToolExample(title="Write to grandmother", description="About holidays.", args={"to": "her"})
DEEP: Any = {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}


@tool(namespace="shop", tags=["money"])
def order_total(prices: list[float]) -> float:
    """Add up an order."""
    return sum(prices)


def test_a_tool_is_registered_found_and_explained() -> None:
    crib = Discovery()
    crib.register(
        order_total, GITHUB, doc={"notes": "In euros.", "summary": "Sums.", "examples": [GRANDMOTHER]}
    )
    assert ids(crib.search("add up an order")) == ["shop:order_total"]
    assert ids(crib.tools(tags=["money"], limit=5)) == ["shop:order_total"]
    assert crib.index.backends("shop:order_total") == (GITHUB,)
    assert crib.describe("shop:order_total").summary == "Sums."
    full = crib.describe("shop:order_total", "full")
    assert (full.notes, full.tool, full.examples) == ("In euros.", order_total.tool, (GRANDMOTHER,))
    assert crib.examples("shop:order_total", 1) == crib.examples("shop:order_total") == (GRANDMOTHER,)
    assert crib.examples("shop:order_total", 0) == ()


@pytest.mark.parametrize(
    "doc",
    [DocEntry(notes="In euros."), ToolDoc(summary="S", notes="In euros."), {"notes": "In euros."}],
    ids=lambda doc: type(doc).__name__,
)
def test_documentation_is_given_in_any_of_its_forms(doc: Any) -> None:
    crib = Discovery()
    crib.register(ISSUE, doc=doc)
    assert crib.describe(ISSUE.id, "full").notes == "In euros."


@pytest.mark.parametrize(
    ("doc", "error"),
    [
        ({"notes": 5}, InvalidToolError),
        ({"note": "misspelt"}, InvalidToolError),
        ({"examples": [{"args": DEEP}]}, ArgsTooLargeError),
        ({"examples": [{"args": {"a": list(range(51))}}]}, ArgsTooLargeError),
        ("notes", InvalidToolError),
        (5, InvalidToolError),
        ({5: "notes"}, InvalidToolError),
    ],
)
def test_a_tool_whose_documentation_is_refused_is_not_registered(
    doc: Any, error: type[ToolcribError]
) -> None:
    crib = Discovery(store=MemoryStore())
    changes: list[Change] = []
    crib.on_change(changes.append)
    with pytest.raises(error):
        crib.register(ISSUE, GITHUB, doc)
    assert (len(crib.index), changes) == (0, [])
    crib.register(ISSUE, GITHUB, {"notes": "First."})
    with pytest.raises(error):
        crib.register(ISSUE.replace(title="Other"), MIRROR, doc)
    assert crib.index.get(ISSUE.id) == ISSUE
    assert crib.index.backends(ISSUE.id) == (GITHUB,)
    assert crib.describe(ISSUE.id, "full").notes == "First."


@pytest.mark.parametrize(
    ("bad", "backend", "error"),
    [
        (make("bad", input_schema={"type": 5}), None, InvalidSchemaError),
        (ISSUE, "github", InvalidBackendError),
        ("create_issue", None, ValidationError),
    ],
)
def test_the_documentation_of_a_refused_tool_is_not_kept(
    bad: Any, backend: Any, error: type[ToolcribError]
) -> None:
    crib = Discovery()
    with pytest.raises(error):
        crib.register(bad, backend, {"notes": "Kept?"})
    for tool_id in ("bad", "github:create_issue"):
        with pytest.raises(ToolNotFoundError):
            crib.describe(tool_id)


def test_the_searcher_given_is_the_one_that_searches() -> None:
    meaning = EmbeddingSearcher(WordEmbedder())
    for searcher, score_type in (
        (Bm25Searcher(), "bm25"),
        (meaning, "embedding"),
        (HybridSearcher(Bm25Searcher(), EmbeddingSearcher(WordEmbedder())), "hybrid"),
    ):
        crib = Discovery(searcher=searcher)
        crib.register_many((one, None) for one in SHELF)
        page = crib.search("create issue", limit=2)
        assert page.items[0].summary.id == "github:create_issue"
        assert {result.score_type for result in page.items} == {score_type}
        again = crib.search("open a thing in a repository", limit=1)
        assert again.items[0].score_type == score_type
        assert again.items[0].score > 0
        rest = crib.search("open a thing in a repository", limit=1, cursor=again.next_cursor)
        assert {result.score_type for result in rest.items} <= {score_type}


def test_words_of_a_name_find_it_without_any_setting() -> None:
    crib = Discovery()
    crib.register(make("create_issue", "git"))
    (result,) = crib.search("create issue").items
    assert (result.score_type, result.summary.id) == ("hybrid", "git:create_issue")
    assert result.score > 0


def test_a_searcher_for_an_index_that_has_one_is_refused() -> None:
    with pytest.raises(ValidationError, match="searcher"):
        Discovery(Index(), searcher=Bm25Searcher())


def test_given_parts_are_used_even_if_empty() -> None:
    index, docs = Index(), DocStore(Shelf(MAIL))
    crib = Discovery(index, docs)
    assert crib.index is index
    assert crib.docs is docs
    crib.register(ISSUE, doc={"notes": "Ours."})
    assert str(ISSUE.id) in index
    assert docs.describe(ISSUE.id).summary == "Ours."
    docs.register_doc("send_mail", notes="Theirs.")
    assert crib.describe("send_mail", "full").notes == "Theirs."


def test_an_index_that_is_given_keeps_what_it_has() -> None:
    index = Index()
    index.register(ISSUE)
    crib = Discovery(index)
    assert ids(crib.search("issue")) == ["github:create_issue"]
    assert crib.describe("github:create_issue", "schema").tool == ISSUE


def test_a_tool_is_found_by_what_its_examples_say() -> None:
    crib = Discovery(searcher=Bm25Searcher())
    crib.register_many((one, None) for one in SHELF)
    assert crib.search("grandmother holidays").items == ()
    crib.register_examples("send_mail", [GRANDMOTHER])
    assert ids(crib.search("grandmother")) == ids(crib.search("holidays")) == ["send_mail"]
    crib.register_doc("send_mail", notes="Nothing to see.")
    assert crib.search("grandmother").items == ()
    crib.register_doc("send_mail", {"examples": [GRANDMOTHER]})
    assert ids(crib.search("grandmother")) == ["send_mail"]
    crib.register(MAIL.replace(title="Mail"))
    assert ids(crib.search("grandmother")) == ["send_mail"]


@pytest.mark.parametrize("in_a_batch", [True, False])
def test_a_tool_that_comes_after_its_examples_is_found_by_them(in_a_batch: bool) -> None:
    crib = Discovery()
    crib.register_examples("send_mail", [GRANDMOTHER])

    def come() -> None:
        if in_a_batch:
            crib.register_many(iter([(MAIL, None), (order_total, None)]))
        else:
            crib.register(MAIL)

    come()
    assert ids(crib.search("grandmother")) == ["send_mail"]
    crib.unregister("send_mail")
    assert crib.search("grandmother").items == ()
    assert crib.examples("send_mail") == (GRANDMOTHER,)
    come()
    assert ids(crib.search("grandmother")) == ["send_mail"]


def test_examples_of_all_versions_find_all_versions() -> None:
    crib = Discovery(searcher=Bm25Searcher())
    for version in ("1.0.0", "2.0.0+b5"):
        crib.register(MERGE.replace(version=version))
    crib.register_examples("github:merge", [GRANDMOTHER])
    assert sorted(ids(crib.search("grandmother"))) == ["github:merge:1.0.0", "github:merge:2.0.0"]
    crib.register_examples("github:merge:2.0.0", [ToolExample(title="Join the rivers")])
    assert ids(crib.search("grandmother")) == ["github:merge:1.0.0"]
    assert ids(crib.search("rivers")) == ["github:merge:2.0.0"]
    crib.register_examples("github:merge:v3.0.0", [ToolExample(title="Join the oceans")])
    assert crib.search("oceans").items == ()
    crib.register(MERGE.replace(version="v3.0.0"))
    assert ids(crib.search("oceans")) == ["github:merge:3.0.0"]


def test_questions_told_to_the_index_are_not_forgotten_for_a_tool_without_examples() -> None:
    crib = Discovery()
    crib.register(MAIL)
    crib.index.set_examples(MAIL.id, ["grandmother"])
    crib.register(MAIL.replace(title="Mail"))
    crib.register_many([(MAIL, None)])
    assert ids(crib.search("grandmother")) == ["send_mail"]


def test_examples_feed_search_where_the_docs_know_no_tools() -> None:
    crib = Discovery(docs=DocStore())
    crib.register(MAIL)
    crib.register_examples(MAIL.id, [GRANDMOTHER])
    assert ids(crib.search("grandmother")) == ["send_mail"]


def test_documentation_of_a_malformed_id_is_refused() -> None:
    crib = Discovery()
    for bad in ("", "a b", "github:merge:^1"):
        with pytest.raises(InvalidToolIdError):
            crib.register_doc(bad, notes="N")


def test_a_batch_is_registered_whole_or_not_at_all() -> None:
    crib = Discovery()
    with pytest.raises(InvalidSchemaError):
        crib.register_many([(MAIL, None), (make("bad", input_schema={"type": 5}), None)])
    assert len(crib.index) == 0
    with pytest.raises(ValidationError):
        crib.register_many([MAIL])  # type: ignore[list-item]


def test_changes_of_the_catalogue_are_told() -> None:
    crib = Discovery()
    changes: list[Change] = []
    stop = crib.on_change(changes.append)
    crib.register(ISSUE, GITHUB, {"examples": [GRANDMOTHER]})
    crib.unregister(ISSUE.id, GITHUB)
    stop()
    crib.register(ISSUE)
    assert [(change.kind, change.fields) for change in changes] == [
        ("registered", ()),
        ("updated", ("examples",)),
        ("removed", ()),
    ]


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "crib.db"
    with Discovery(store=SqliteStore(path)) as crib:
        crib.register(MAIL, GITHUB, {"notes": "Be kind.", "examples": [GRANDMOTHER]})
        crib.register(ISSUE)
        for number in range(5):
            crib.docs.observe("send_mail", {"number": number})
        expected = crib.search("grandmother"), crib.describe("send_mail", "full"), crib.tools()
        crib.index.count_use("send_mail")
    with Discovery(store=SqliteStore(path)) as again:
        assert (again.search("grandmother"), again.describe("send_mail", "full"), again.tools()) == expected
        observed = again.describe("send_mail", "schema").observed_output
        assert observed is not None
        assert observed.observed == 5
        assert again.index.usage() == {"send_mail": 1}
        assert again.index.backends("send_mail") == (GITHUB,)


def test_to_close_twice_does_nothing_and_a_closed_store_refuses(tmp_path: Path) -> None:
    crib = Discovery(store=SqliteStore(tmp_path / "crib.db"))
    crib.register(MAIL)
    crib.close()
    crib.close()
    assert ids(crib.search("mail")) == ["send_mail"]
    with pytest.raises(StoreError, match="closed"):
        crib.register(ISSUE)


def test_the_store_is_let_go_even_if_something_cannot_be_written() -> None:
    store, texts = MemoryStore(), MemoryTexts()
    crib = Discovery(docs=DocStore(Shelf(MAIL), texts=texts), store=store)
    for number in range(3):
        crib.docs.observe("send_mail", {"number": number})
    texts.is_full = True
    with pytest.raises(StoreError, match="full"):
        crib.close()
    with pytest.raises(StoreError, match="closed"):
        store.tools()


def test_without_a_store_there_is_nothing_to_close() -> None:
    with Discovery() as crib:
        crib.register(MAIL)
    crib.register(ISSUE)
    assert len(crib.index) == 2


def test_a_store_that_the_index_brought_stays_open() -> None:
    store = MemoryStore()
    with Discovery(Index(store=store)) as crib:
        crib.register(MAIL)
    assert [row.id for row in store.tools()] == ["send_mail"]


def test_an_error_inside_a_with_block_passes_and_the_store_is_let_go() -> None:
    store = MemoryStore()
    with pytest.raises(ZeroDivisionError), Discovery(store=store):
        _ = 1 / 0
    with pytest.raises(StoreError):
        store.tools()


@law(12)
@given(st.lists(st.sampled_from(["grandmother", "rivers", "oceans", ""]), max_size=4), st.booleans())
def test_documentation_before_or_after_the_tool_is_the_same(titles: list[str], is_first: bool) -> None:
    examples = [ToolExample(title=title) for title in titles]
    crib = Discovery(searcher=Bm25Searcher())
    if is_first:
        crib.register_examples(MAIL.id, examples)
        crib.register(MAIL)
    else:
        crib.register(MAIL)
        crib.register_examples(MAIL.id, examples)
    for word in ("grandmother", "rivers", "oceans"):
        assert bool(crib.search(word).items) is (word in titles)


def test_documentation_is_kept_in_the_store_of_the_index(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    with SqliteStore(path) as store:
        Discovery(Index(store=store)).register(Tool(name="add", input_schema={}), doc={"notes": "Adds."})
    with SqliteStore(path) as store:
        assert Discovery(Index(store=store)).describe("add", "full").notes == "Adds."


def test_an_index_is_not_documented_in_another_store() -> None:
    with pytest.raises(ValidationError, match="/store: must be given to the index too"):
        Discovery(Index(), store=MemoryStore())


def test_close_prunes_values_of_replaced_definitions(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    with Discovery(store=SqliteStore(path)) as discovery:
        for turn in range(20):
            discovery.register(Tool(name="add", description=f"Adds {turn}.", input_schema={}))
    with SqliteStore(path) as store:
        assert Index(store=store).prune() == 0
        assert store.prune_derived(()) == 1


def test_the_object_of_the_mcp_sdk_is_registered_with_its_documentation() -> None:
    theirs = mcp_types.Tool(name="add", description="Add numbers.", input_schema={"type": "object"})
    other = theirs.model_copy(update={"name": "subtract"})
    found = Discovery()
    found.register(theirs, GITHUB, doc={"notes": "Whole numbers only."})
    found.register_many([(other, GITHUB)])
    assert found.describe("add", "full").notes == "Whole numbers only."
    assert [one.id for one in found.tools()] == ["add", "subtract"]


@pytest.mark.parametrize("given", [5, [5], [("add", None)]], ids=repr)
def test_many_tools_that_are_none_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError, match="must be "):
        Discovery().register_many(given)
