"""Records of summaries, search results and pages."""

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar, overload

from pydantic import Field

from toolcrib.model.display import MAX_ROWS, brief, one_line, table
from toolcrib.model.record import Record

MAX_SHORT_DESCRIPTION_LEN = 120
"""How many characters of a description a summary shows."""

ScoreType = Literal["bm25", "embedding", "hybrid"]
"""By words, by meaning, or by both."""
Item = TypeVar("Item")


class Summary(Record):
    """A tool at a glance: enough to choose it, never its schema."""

    id: str
    """The id of the tool."""
    name: str
    """Its name."""
    namespace: str | None = None
    """Its namespace."""
    short_description: str = ""
    """What the tool is for, cut at `MAX_SHORT_DESCRIPTION_LEN` characters."""
    summary: str = ""
    """The same text, under the name that documentation uses."""
    category: str | None = None
    """The category that it is filed under."""
    input_modes: tuple[str, ...] = ()
    """The kinds of content that it takes."""
    output_modes: tuple[str, ...] = ()
    """The kinds of content that it gives back."""
    security_summary: str | None = None
    """The security schemes that a call needs, by name."""
    tags: tuple[str, ...] = ()
    """Its tags, normalised: at most `MAX_TAGS` of at most `MAX_TAG_LENGTH` characters."""

    @property
    def description(self) -> str:
        """The short description."""
        return self.short_description

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what a person is shown: the fields that say something, and each text once."""
        for name, value in super().__repr_args__():
            if value and name != "summary":
                yield name, value


class Result(Record):
    """One tool that may answer a question; the fields of its summary are also its own."""

    summary: Summary
    """The tool."""
    score: float
    """Orders the results of one search; says nothing across searches."""
    score_type: ScoreType
    """The kind of search that the score comes from."""
    confidence: Annotated[float, Field(ge=0, le=1)]
    """How far the tool can be trusted to fit, from a raw signal; comparable across searches."""

    @property
    def id(self) -> str:
        """The id of the tool, to run or describe it by."""
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
        """The kinds of content that the tool gives back."""
        return self.summary.output_modes

    @property
    def security_summary(self) -> str | None:
        """What the tool may do, in a few words."""
        return self.summary.security_summary

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the tool."""
        return self.summary.tags


class Page(Record, Generic[Item]):
    """A part of a list, and the way to the next part."""

    items: tuple[Item, ...] = ()
    """The items of this page."""
    next_cursor: str | None = None
    """What to ask for the next page with; absent on the last."""
    total: int = 0
    """How many items all pages together hold."""

    def __iter__(self) -> Iterator[Item]:  # type: ignore[override]  # pydantic gives pairs of fields
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self.items[index]

    def __repr__(self) -> str:
        rows = [one_line(" ".join(_columns(item))) for item in self.items[:MAX_ROWS]]
        more = ["  …"] if len(self.items) > MAX_ROWS else []
        return "\n".join([f"<Page: {self._count()}>", *(f"  {row}" for row in rows), *more])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the items as a table of a notebook."""
        rows = [_columns(item) for item in self.items]
        head: tuple[str, ...] = ("tool", "description")
        if any(isinstance(item, Result) for item in self.items):
            head = ("confidence", *head)
        return table(self._count(), head, rows)

    def _count(self) -> str:
        return f"{len(self.items):,} of {self.total:,}"


def _columns(item: object) -> tuple[str, ...]:
    """Return what is shown of an item of a page."""
    if isinstance(item, Result):
        return f"{item.confidence:.2f}", item.id, item.short_description
    if isinstance(item, Summary):
        return item.id, item.short_description
    return brief(item), ""


class SearchDoc(Record):
    """What is searched of a tool by words; searchers read it, and do not change it."""

    id: str
    """The id of the tool."""
    doc_text: str
    """Name, namespace, description, summary, category, modes and tags, in lower case."""
    summary: Summary
    """The tool at a glance."""
    fields: tuple[tuple[str, str], ...] = ()
    """Every text that is searched, after the field that it stands in, such as `name` or `parameter`."""
    deprecated: bool = False
    """Whether the tool says that it should no longer be used; it is then ranked lower."""


class Document(Record):
    """What is searched of a tool by meaning: the words that an embedding model is given."""

    id: str
    """The id of the tool."""
    namespace: str | None = None
    """Its namespace."""
    name: str
    """Its name."""
    description: str = ""
    """What it does."""
    tags: tuple[str, ...] = ()
    """Its tags."""
    category: str | None = None
    """The category that it is filed under."""
    text: str = ""
    """Name, description, summary, modes and tags in one line."""
    summary: str = ""
    """What the tool is for, where the description does not say it in the same words."""
    modes: tuple[str, ...] = ()
    """The kinds of content that it takes and gives back."""
    parameters: tuple[str, ...] = ()
    """The names of its arguments."""
    examples: tuple[str, ...] = ()
    """Questions that it answers."""

    def normalized(self) -> "Document":
        """Return the document with tags in lower case and order, and its text built anew.

        >>> Document(id="a", name="add", description="Adds.", tags=("Sum ", "maths", "")).normalized().text
        'add Adds. maths sum'
        """
        tags = tuple(sorted({tag.strip().lower() for tag in self.tags} - {""}))
        parts = (self.name, self.description, self.summary, *self.modes, *tags)
        return self.model_copy(update={"tags": tags, "text": " ".join(filter(None, parts))})
