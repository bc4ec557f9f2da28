"""An index answers like a plain dict that is searched from end to end, whatever is done to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from discovery.index.support import ACME, GITHUB, HERE, MIRROR, filled, ids, make, record_changes, walk
from discovery.support import WordEmbedder
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from laws import law

from toolcrib.discovery import (
    Bm25Searcher,
    Change,
    EmbeddingSearcher,
    HybridSearcher,
    Index,
    MemoryStore,
    Searcher,
)
from toolcrib.errors import InvalidBackendError, InvalidSchemaError, ToolNotFoundError
from toolcrib.model import Tool, ToolAnnotations, ToolBackend, ToolId
from toolcrib.version import Constraint, Version

BACKENDS = [GITHUB, MIRROR, HERE, ACME]
WORDS = ["issue", "weather", "mail", "branch", "file"]
backends = st.none() | st.sampled_from(BACKENDS)
texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
names = st.sampled_from(["create_issue", "merge", "getWeather"])
versions = st.sampled_from(["1.0.0", "v1.0.0", "1.0.0+b5", "1.2.0", "1.10.0", "2.0.0-rc.1", "0.3.1"])
tools = st.builds(
    make,
    names,
    st.sampled_from(["a", "b", None]),
    version=st.none() | versions,
    description=texts,
    tags=st.lists(st.sampled_from(["red", "blue"]), max_size=2),
    annotations=st.none() | st.builds(ToolAnnotations, read_only_hint=st.booleans()),
    meta=st.sampled_from([None, {"category": "Ops"}, {"aliases": ["ticket"]}]),
)
refs = st.builds(
    ":".join,
    st.tuples(st.sampled_from(["a", "b", "c"]), names)
    | st.tuples(
        st.sampled_from(["a", "b"]),
        names,
        versions | st.sampled_from(["^1", "~1.2", "*", ">=2.0.0-0", "9.9.9"]),
    ),
)
filters: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.sampled_from(["a", "b", "", "c"]),
        "tags": st.lists(st.sampled_from(["red", "blue", "green"]), max_size=2),
        "all_tags": st.lists(st.sampled_from(["red", "blue"]), max_size=2),
        "category": st.sampled_from(["ops", "OPS", "dev"]),
        "backend": st.sampled_from([*BACKENDS, "mcp", "local", "acme", "mcp:github"]),
        "annotations": st.sampled_from([{}, {"readOnlyHint": True}, {"read_only_hint": False}]),
    },
)


def key(tool: Tool) -> str:
    """Return the id of a tool, build metadata aside."""
    return str(tool.id).partition("+")[0]


@dataclass
class Card:
    """Everything the model knows about one tool."""

    tool: Tool
    backends: list[ToolBackend] = field(default_factory=list)

    def passes(self, options: Mapping[str, Any]) -> bool:
        tags, said = set(self.tool.tags), self.tool.annotations
        wanted = {"readOnlyHint": "read_only_hint"}
        checks = {
            "namespace": lambda value: (self.tool.namespace or "") == value,
            "tags": lambda value: bool(tags & set(value)),
            "all_tags": lambda value: tags >= set(value),
            "category": lambda value: (self.tool.meta or {}).get("category", "").lower() == value.lower(),
            "backend": lambda value: any(value in (one, *_labels(one)) for one in self.backends),
            "annotations": lambda value: all(
                said is not None and getattr(said, wanted.get(hint, hint)) is claim
                for hint, claim in value.items()
            ),
        }
        return all(checks[name](value) for name, value in options.items())


def _labels(backend: ToolBackend) -> list[str]:
    kind, name, *_ = backend.to_json().values()
    return [kind, name, f"{kind}:{name}"]


def _differing(before: Tool, after: Tool) -> tuple[str, ...]:
    one, other = before.to_json(), after.to_json()
    return tuple(sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name)))


class Catalogue(RuleBasedStateMachine):
    """Does the same to an index, to its store and to a dict."""

    @initialize()
    def open(self) -> None:
        self.store = MemoryStore()
        self.index = Index(store=self.store)
        self.changes = record_changes(self.index)
        self.cards: dict[str, Card] = {}
        self.expected: list[Change] = []
        self.version = 0

    def _register(self, tool: Tool, backend: ToolBackend | None) -> list[tuple[Any, ...]]:
        """Return the changes that a registration causes, and apply them to the dict."""
        tool_id = key(tool)
        card = self.cards.get(tool_id)
        if card is None:
            self.cards[tool_id] = Card(tool, [] if backend is None else [backend])
            return [("registered", tool_id, backend, ())]
        made: list[tuple[Any, ...]] = []
        if fields := _differing(card.tool, tool):
            card.tool = tool
            made.append(("updated", tool_id, None, fields))
        if backend is not None and backend not in card.backends:
            card.backends.append(backend)
            made.append(("backend_added", tool_id, backend, ()))
        return made

    def _note(self, made: list[tuple[Any, ...]]) -> None:
        self.version += bool(made)
        self.expected += [
            Change(kind, tool_id, self.version, backend, fields) for kind, tool_id, backend, fields in made
        ]

    @rule(tool=tools, backend=backends)
    def register(self, tool: Tool, backend: ToolBackend | None) -> None:
        self.index.register(tool, backend)
        self._note(self._register(tool, backend))

    @rule(batch=st.lists(st.tuples(tools, backends), max_size=5))
    def register_many(self, batch: list[tuple[Tool, ToolBackend | None]]) -> None:
        self.index.register_many(batch)
        self._note([change for tool, backend in batch for change in self._register(tool, backend)])

    @rule(batch=st.lists(st.tuples(tools, backends), max_size=3), place=st.integers(0, 3))
    def refuse(self, batch: list[tuple[Tool, ToolBackend | None]], place: int) -> None:
        batch.insert(place, (make("bad", "a", input_schema={"type": 5}), None))
        with pytest.raises(InvalidSchemaError):
            self.index.register_many(batch)

    @rule(batch=st.lists(st.tuples(tools, backends), min_size=1, max_size=3))
    def reopen(self, batch: list[tuple[Tool, ToolBackend | None]]) -> None:
        self.index = Index(store=self.store)
        self.index.on_change(self.changes.append)
        self.version = 0
        self.register_many(batch)

    @precondition(lambda self: self.cards)
    @rule(data=st.data())
    def unregister(self, data: st.DataObject) -> None:
        tool_id = data.draw(st.sampled_from(sorted(self.cards)))
        self.index.unregister(ToolId.parse(tool_id))
        del self.cards[tool_id]
        self._note([("removed", tool_id, None, ())])

    @precondition(lambda self: self.cards)
    @rule(data=st.data(), backend=st.sampled_from(BACKENDS))
    def unregister_backend(self, data: st.DataObject, backend: ToolBackend) -> None:
        tool_id = data.draw(st.sampled_from(sorted(self.cards)))
        card = self.cards[tool_id]
        if backend not in card.backends:
            with pytest.raises(InvalidBackendError):
                self.index.unregister(tool_id, backend)
            return
        self.index.unregister(tool_id, backend)
        card.backends.remove(backend)
        if not card.backends:
            del self.cards[tool_id]
        self._note([("backend_removed" if card.backends else "removed", tool_id, backend, ())])

    @rule(ref=refs)
    def resolve(self, ref: str) -> None:
        expected = self._resolved(ref)
        if expected is None:
            with pytest.raises(ToolNotFoundError) as caught:
                self.index.resolve(ref)
            assert set(caught.value.suggestions) <= self.cards.keys()
        else:
            assert self.index.resolve(ref) == self.cards[expected].tool

    def _resolved(self, ref: str) -> str | None:
        namespace, name, *rest = ref.split(":")
        known = {
            Version.parse(one.split(":")[2]): one
            for one in self.cards
            if one.startswith(f"{namespace}:{name}:")
        }
        if not rest:
            exact = f"{namespace}:{name}"
            best = max(known, key=lambda version: (not version.prerelease, version), default=None)
            return exact if exact in self.cards else known.get(best) if best else None
        try:
            return known.get(Version.parse(rest[0]))
        except ValueError:
            fitting = [version for version in known if version in Constraint.parse(rest[0])]
            best = max(fitting, key=lambda version: (not version.prerelease, version), default=None)
            return known[best] if best else None

    @rule(options=filters, limit=st.integers(1, 4))
    def list_tools(self, options: dict[str, Any], limit: int) -> None:
        expected = sorted(one for one, card in self.cards.items() if card.passes(options))
        pages = list(walk(lambda **page: self.index.tools(**options, **page), limit))
        assert [one for page in pages for one in ids(page)] == expected
        assert {page.total for page in pages} == {len(expected)}
        assert ids(self.index.list_all(**options)) == expected
        assert sorted(ids(self.index.search("", limit=100, **options))) == expected

    @rule(query=texts | names | st.just("ticket"), options=filters, limit=st.integers(1, 4))
    def search(self, query: str, options: dict[str, Any], limit: int) -> None:
        fresh = Index()
        for card in reversed(self.cards.values()):
            for backend in card.backends or [None]:
                fresh.register(card.tool, backend)
        expected = fresh.search(query, limit=100, **options)
        pages = list(walk(lambda **page: self.index.search(query, **options, **page), limit))
        assert [item for page in pages for item in page.items] == list(expected.items)
        assert {page.total for page in pages} == {len(expected)} == {expected.total}

    @invariant()
    def the_index_and_the_dict_agree(self) -> None:
        assert len(self.index) == len(self.cards)
        assert self.index.version == self.version
        assert self.changes == self.expected
        for tool_id, card in self.cards.items():
            assert tool_id in self.index
            assert self.index.get(tool_id) == card.tool
            assert self.index.backends(tool_id) == tuple(card.backends)
        assert self.index.namespaces() == tuple(
            sorted({card.tool.namespace or "" for card in self.cards.values()})
        )
        assert [row.id for row in self.store.tools()] == sorted(self.cards)


Catalogue.TestCase.settings = law(12, stateful_step_count=20)
TestCatalogue = Catalogue.TestCase

SEARCHERS: dict[str, Callable[[], Searcher]] = {
    "bm25": Bm25Searcher,
    "embedding": lambda: EmbeddingSearcher(WordEmbedder()),
    "hybrid": lambda: HybridSearcher(Bm25Searcher(), EmbeddingSearcher(WordEmbedder())),
}


@pytest.mark.parametrize("name", SEARCHERS)
@law(12)
@given(
    catalogue=st.lists(tools, max_size=15),
    query=texts | st.lists(names, max_size=3).map(", ".join) | st.text(max_size=8),
    options=filters,
    least=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    limit=st.integers(1, 6),
)
def test_all_pages_together_are_the_whole_list_and_no_tool_comes_twice(
    name: str, catalogue: list[Tool], query: str, options: dict[str, Any], least: float, limit: int
) -> None:
    index = filled(catalogue, searcher=SEARCHERS[name]())

    def ask(**page: Any) -> Any:
        return index.search(query, min_confidence=least, **options, **page)

    whole = ask(limit=1_000)
    pages = list(walk(ask, limit))
    assert [item for page in pages for item in page.items] == list(whole.items)
    assert all(len(page) == limit for page in pages[:-1])
    assert {page.total for page in pages} == {whole.total} == {len(whole)}
    assert len(set(ids(whole))) == len(whole)
    assert all(item.confidence >= least for item in whole.items)
    everything = index.search(query, limit=1_000, **options)
    assert list(whole.items) == [item for item in everything.items if item.confidence >= least]
    assert set(ids(everything)) <= set(ids(index.tools(limit=1_000, **options)))
