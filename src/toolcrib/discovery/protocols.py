"""Protocols of searchers, embedding models and catalogue entries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from toolcrib.discovery.records import ScoreType
from toolcrib.model import Tool


class Indexed(Protocol):
    """A tool as the index hands it to a searcher; reading `tool` may have to parse it first."""

    @property
    def id(self) -> str:
        """The tool id, as text."""
        ...

    @property
    def content_hash(self) -> str:
        """A digest of everything that is searched; equal content, equal hash, on every machine."""
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
    """One document that a searcher found."""

    id: str
    """The id of the document."""
    score: float
    """Orders the hits of one search."""
    confidence: float
    """In [0, 1], comparable across queries."""


class Ranking(list[Hit]):
    """The best hits, and how many there are without the limit.

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
    """Ranks the tools it was given.

    Both methods may be called from any thread at any time; a search sees an update wholly or not at all.
    `search` answers any text: with at most `limit` hits, best first, no id twice, equal scores by id, and
    none with more confidence than the one before it; the same tools and the same query give the same hits,
    whatever the order the tools came in. A set given as `among` is not changed afterwards, so that what
    follows from it may be kept.

    Views show a part of the catalogue and must tell nothing of the rest. So where scores or confidences
    depend on which other tools there are, `search` takes a set `within` too, the tools there are for the
    asker, and the class says `searches_within = True`.
    """

    @property
    def score_type(self) -> ScoreType:
        """What its scores are."""
        ...

    def update(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Forget the removed ids and learn the added tools; an id known already is replaced."""
        ...

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Return the best hits for a query, among these ids where given, and without the excluded ones."""
        ...


class Derived(Protocol):
    """Keeps what was worked out once for a content, across restarts; a `Store` is one."""

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return what is kept of a kind for these content hashes; what is not kept is left out."""
        ...

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Keep a value of a kind for each content hash."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors: one row for each text, of any length but zero where the text says something.

    An embedder may have a text attribute `key` that names the model and its settings: vectors are kept across
    restarts under it, and for an embedder without one only in memory.
    """

    async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
        """Return an array of shape (texts, dimensions)."""
        ...


@runtime_checkable
class LocalEmbedder(Embedder, Protocol):
    """An embedder that computes and never waits, so that it can be called from synchronous code."""

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        """Return what `embed` would."""
        ...
