"""Protocols of searchers, embedding models and catalogue entries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from toolcrib.discovery.records import Reason, ScoreType
from toolcrib.model import Tool


class Indexed(Protocol):
    """A tool as the index passes it to a searcher; reading `tool` may parse it first."""

    @property
    def id(self) -> str:
        """The tool id, as text."""
        ...

    @property
    def content_hash(self) -> str:
        """A digest of everything that is searched; equal content has an equal hash on every machine."""
        ...

    @property
    def tool(self) -> Tool:
        """The definition."""
        ...

    @property
    def examples(self) -> Sequence[str]:
        """Questions that this tool answers."""
        ...


class Hit(NamedTuple):
    """One search hit: the id of a document, its score and its confidence."""

    id: str
    """The id of the document."""
    score: float
    """Orders the hits of one search."""
    confidence: float
    """In [0, 1], comparable across queries."""
    why: tuple[Reason, ...] = ()
    """The reasons for the score, whose shares add up to it; empty unless they were asked for."""


class Raise(NamedTuple):
    """How far learned questions raise a tool in one search."""

    strength: float
    """In (0, 1]."""
    may_destroy: bool
    """Whether the tool may destroy something, and is not raised above tools with a word of the question."""


Lifts = Mapping[str, Raise]
"""How far tools are raised, by id."""


class Ranking(list[Hit]):
    """The best hits of a search, with `total`, the number of hits without the limit.

    >>> found = Ranking([Hit("github:create_issue", 7.5, 0.9)], total=3)
    >>> found[0].id, found.total
    ('github:create_issue', 3)
    """

    __slots__ = ("total",)

    def __init__(self, hits: Iterable[Hit] = (), total: int = 0) -> None:
        super().__init__(hits)
        self.total = total


@runtime_checkable
class Searcher(Protocol):
    """A search engine: ranks the tools that `update` gave it.

    Both methods may be called from any thread at any time; a search sees an update completely or not at all.
    `search` accepts any text. It returns at most `limit` hits, best first, no id twice, equal scores by id,
    and none with more confidence than the one before it; the same tools and the same query give the same
    hits, whatever the order in which the tools were added. A set passed as `among` is not changed afterwards,
    so a searcher may cache what it derives from it.

    Views show a part of the catalogue and must reveal nothing of the rest. So where scores or confidences
    depend on which other tools exist, the class has `searches_within = True`, and `search` also takes a set
    `within`: the ids of all tools that the caller can see.

    A class that has `takes_lifts = True` also takes `lifts`: how far learned questions raise some tools. One
    that has `explains = True` also takes `explain=True`, and then gives each hit the reasons for its score.
    """

    @property
    def score_type(self) -> ScoreType:
        """The kind of its scores."""
        ...

    def update(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Remove ids and add tools; a tool whose id is already there is replaced."""
        ...

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Return the best hits for a query: only ids in `among`, if given, and none in `exclude`."""
        ...


class Derived(Protocol):
    """A persistent cache of values computed from tools, by kind and content hash; a `Store` is one."""

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the cached values of a kind, by content hash; hashes without a value are left out."""
        ...

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Store a value of a kind for each content hash."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """An embedding model: turns each text into a vector of any non-zero length.

    An embedder may have an attribute `key`, a string that identifies the model and its settings. Vectors are
    cached across restarts under this key; without one they are kept in memory only.
    """

    async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
        """Return an array of shape (texts, dimensions)."""
        ...


@runtime_checkable
class LocalEmbedder(Embedder, Protocol):
    """An embedder that computes in this process, so that synchronous code can call it."""

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        """Return the same array as `embed`, synchronously."""
        ...
