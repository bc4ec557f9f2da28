"""Records of summaries, search results and pages."""

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar, overload

from pydantic import Field

from toolcrib.errors.base import count_noun, short_repr
from toolcrib.model.display import MAX_ROWS, brief, one_line, table
from toolcrib.model.record import Record

MAX_SHORT_DESCRIPTION_LEN = 120
"""The maximum length of `Summary.short_description`, in characters."""

ScoreType = Literal["bm25", "embedding", "hybrid"]
"""The kind of search: by words, by meaning, or by both."""
ReasonKind = Literal[
    "name",
    "word",
    "spelling",
    "example",
    "topic",
    "meaning",
    "learned",
    "deprecated",
    "average",
    "order",
    "searcher",
]
"""What a `Reason` is about."""
Item = TypeVar("Item")


class Summary(Record):
    """The short form of a tool that lists and searches return: enough to choose it, without its schema."""

    id: str
    """The id of the tool."""
    name: str
    """Its name."""
    namespace: str | None = None
    """Its namespace."""
    short_description: str = ""
    """The purpose of the tool, cut at `MAX_SHORT_DESCRIPTION_LEN` characters."""
    summary: str = ""
    """The same text as `short_description`, under the name that `ToolDoc` uses."""
    category: str | None = None
    """The category of the tool."""
    input_modes: tuple[str, ...] = ()
    """The kinds of content that the tool takes, such as `text` or `image/png`."""
    output_modes: tuple[str, ...] = ()
    """The kinds of content that the tool returns."""
    security_summary: str | None = None
    """The names of the security schemes that a call needs."""
    tags: tuple[str, ...] = ()
    """Its tags, normalised: at most `MAX_TAGS` of at most `MAX_TAG_LENGTH` characters."""

    @property
    def description(self) -> str:
        """The short description."""
        return self.short_description

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields that the representation shows: those with a value, except `summary`."""
        # `summary` repeats `short_description`.
        for name, value in super().__repr_args__():
            if value and name != "summary":
                yield name, value


class Reason(Record):
    """One reason why a search result has its score, and its share; all shares add up to the score."""

    kind: ReasonKind
    """`name`: the question calls the tool by a name. `word`: the tool has a word of the question, or one that
    means the same. `spelling`: it has the nearest word to one that no tool has. `example`: an example
    question of the tool has words of the question. `topic`: the question names a tag, the category or a mode.
    `meaning`: the texts are similar. `learned`: a similar question was followed by a run of the tool.
    `deprecated`: the tool is marked as such. `average`: scores are relative to that of the average tool.
    `order`: the first results are ordered by confidence too, and tools far down by meaning alone.
    `searcher`: the searcher does not explain itself."""
    score: float
    """What it adds to the score; negative if it lowers it."""
    text: str = ""
    """The word of the question, the topic, or the example or learned question."""
    value: float | None = None
    """The weight of a word by its rarity, the cosine of `meaning`, the share of a `topic` in the question,
    the part of a learned question in [0, 1], or the confidence that the order takes into account."""
    matched: tuple[str, ...] = ()
    """The words of the tool that match."""
    fields: tuple[str, ...] = ()
    """Where the tool has them, such as `name` or `parameter`."""


class Result(Record):
    """One search result; the fields of its summary can also be read from it directly."""

    summary: Summary
    """The tool."""
    score: float
    """Orders the results of one search; not comparable across searches."""
    score_type: ScoreType
    """The kind of search that computed the score."""
    confidence: Annotated[float, Field(ge=0, le=1)]
    """The estimated probability that the tool fits the question; comparable across searches."""
    why: tuple[Reason, ...] = ()
    """The reasons for the score, the largest first; empty unless the search was asked to explain."""

    @property
    def id(self) -> str:
        """The id of the tool, as `run` and `describe` take it."""
        return self.summary.id

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.summary.name

    @property
    def namespace(self) -> str | None:
        """The namespace of the tool, such as its server."""
        return self.summary.namespace

    @property
    def description(self) -> str:
        """The short description of the tool."""
        return self.summary.short_description

    @property
    def short_description(self) -> str:
        """The short description of the tool."""
        return self.summary.short_description

    @property
    def category(self) -> str | None:
        """The category of the tool."""
        return self.summary.category

    @property
    def input_modes(self) -> tuple[str, ...]:
        """The kinds of content that the tool takes."""
        return self.summary.input_modes

    @property
    def output_modes(self) -> tuple[str, ...]:
        """The kinds of content that the tool returns."""
        return self.summary.output_modes

    @property
    def security_summary(self) -> str | None:
        """The names of the security schemes that a call needs."""
        return self.summary.security_summary

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the tool."""
        return self.summary.tags


class Page(Record, Generic[Item]):
    """One page of a list, with the cursor of the next page."""

    items: tuple[Item, ...] = ()
    """The items of this page."""
    next_cursor: str | None = None
    """The cursor to pass for the next page; None on the last page."""
    total: int = 0
    """The number of items on all pages together."""
    query: str | None = None
    """The question of a search; None for a list."""
    unanswered: tuple[str, ...] = ()
    """The servers and APIs that failed or have not answered yet, so that their tools may be missing."""

    def __iter__(self) -> Iterator[Item]:  # type: ignore[override]  # pydantic gives pairs of fields
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        try:
            return self.items[index]
        except IndexError:
            held = f"has {count_noun(len(self.items), 'item')}" if self.items else "is empty: nothing fits"
            raise IndexError(f"there is no item {index}: this page {held}") from None

    def __repr__(self) -> str:
        rows = [one_line(" ".join(_columns(item))) for item in self.items[:MAX_ROWS]]
        more = ["  …"] if len(self.items) > MAX_ROWS else []
        absent = [f"  {one_line(self._name_unanswered())}"] if self.unanswered else []
        return "\n".join([f"<Page{self._count()}>", *(f"  {row}" for row in rows), *more, *absent])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the items as an HTML table, for notebooks."""
        rows = [_columns(item) for item in self.items]
        head: tuple[str, ...] = ("tool", "description")
        if any(isinstance(item, Result) for item in self.items):
            head = ("confidence", *head)
        caption = f"Page{self._count()}"
        return table("; ".join(filter(None, (caption, self._name_unanswered()))), head, rows)

    def _count(self) -> str:
        about = "" if self.query is None else f" for {one_line(short_repr(self.query))}"
        return f"{about}: {len(self.items):,} of {self.total:,}"

    def _name_unanswered(self) -> str:
        names = ", ".join(self.unanswered)
        whose = "its" if len(self.unanswered) == 1 else "their"
        return f"no answer from {names}; {whose} tools may be missing" if names else ""


def _columns(item: object) -> tuple[str, ...]:
    """Return the columns that the representation of a page shows for an item."""
    if isinstance(item, Result):
        return f"{item.confidence:.2f}", item.id, item.short_description
    if isinstance(item, Summary):
        return item.id, item.short_description
    return brief(item), ""


class SearchDoc(Record):
    """The texts of a tool that lexical search reads; searchers must not change it."""

    id: str
    """The id of the tool."""
    doc_text: str
    """Name, namespace, description, summary, category, modes and tags, in lower case."""
    summary: Summary
    """The summary of the tool."""
    fields: tuple[tuple[str, str], ...] = ()
    """Pairs of a field, such as `name` or `parameter`, and a text in it."""
    deprecated: bool = False
    """Whether the tool is marked as deprecated; it is then ranked lower."""


class Document(Record):
    """The texts of a tool that semantic search embeds."""

    id: str
    """The id of the tool."""
    namespace: str | None = None
    """Its namespace."""
    name: str
    """Its name."""
    description: str = ""
    """The description of the tool."""
    tags: tuple[str, ...] = ()
    """Its tags."""
    category: str | None = None
    """Its category."""
    text: str = ""
    """Name, description, summary, modes and tags in one line; `normalized` builds it."""
    summary: str = ""
    """The summary of the tool, where the description does not contain it."""
    modes: tuple[str, ...] = ()
    """The kinds of content that the tool takes and returns."""
    parameters: tuple[str, ...] = ()
    """The names of its parameters."""
    examples: tuple[str, ...] = ()
    """Questions that the tool answers."""

    def normalized(self) -> "Document":
        """Return a copy with lower-case, sorted tags and with `text` rebuilt.

        >>> Document(id="a", name="add", description="Adds.", tags=("Sum ", "maths", "")).normalized().text
        'add Adds. maths sum'
        """
        tags = tuple(sorted({tag.strip().lower() for tag in self.tags} - {""}))
        parts = (self.name, self.description, self.summary, *self.modes, *tags)
        return self.model_copy(update={"tags": tags, "text": " ".join(filter(None, parts))})
