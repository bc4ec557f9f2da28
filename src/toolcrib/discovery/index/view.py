"""A part of a catalogue, as if it were the whole."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from toolcrib.discovery.index.catalogue import EntryTable
from toolcrib.discovery.index.changes import Change
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Admission, Filter, combined, filter_text
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import Named
from toolcrib.discovery.index.reading import IndexReader, SharedReads
from toolcrib.discovery.index.scope import Scope
from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import counted

Subscribe = Callable[[Callable[[Change], object]], Callable[[], None]]


class IndexView(IndexReader):
    """The tools of an index that a scope admits; there are no others here, whatever is asked.

    It follows the index: a tool comes and goes with what it says of itself. Questions are answered as by an
    index of these tools alone, to the last digit of their scores. Cursors are those of this scope alone; like
    `version`, they change with the index.

    >>> from toolcrib.discovery import Index
    >>> from toolcrib.model import Tool
    >>> index = Index()
    >>> index.register(Tool(name="log", namespace="git", input_schema={}))
    >>> index.register(Tool(name="log", namespace="math", input_schema={}))
    >>> view = index.view(Scope(namespaces=["math"]))
    >>> [summary.id for summary in view.tools()], view.namespaces(), "git:log" in view
    (['math:log'], ('math',), False)
    """

    def __init__(
        self,
        catalogue: EntryTable,
        shared: SharedReads,
        key: bytes,
        scope: Scope,
        subscribe: Subscribe,
        admission: Admission | None = None,
    ) -> None:
        """See a part of a catalogue; `Index.view` does this."""
        if not isinstance(scope, Scope):
            message = f"must be a Scope, not {type(scope).__name__}"
            raise ValidationError((Problem("/scope", "type", message),))
        lookup = FilteredLookup(catalogue, scope.conditions, admission)
        text = filter_text(lookup.conditions)
        own = blake2b(text.encode(errors="surrogatepass"), key=key, digest_size=16)
        super().__init__(lookup, shared, own.digest())
        self._scope = scope
        self._subscribe = subscribe

    def __repr__(self) -> str:
        return f"<IndexView of {counted(len(self), 'tool')}>"

    @property
    def scope(self) -> Scope:
        """What admits a tool."""
        return self._scope

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back after every change to what is inside, as `Index.on_change` does.

        A tool that comes to be admitted is reported as registered, and one that is no more as removed.

        Raises:
            ValidationError: it cannot be called.
        """
        if not callable(callback):
            message = f"must be a function of a change, not {type(callback).__name__}"
            raise ValidationError((Problem("/callback", "type", message),))
        with self._shared.lock:
            inside = set(self._lookup.listed())

        def deliver(change: Change) -> None:
            seen = self._seen(change, inside)
            if seen is not None:
                callback(seen)

        return self._subscribe(deliver)

    def _seen(self, change: Change, inside: set[str]) -> Change | None:
        """Return a change as it looks from inside, and keep account of what is there."""
        tool_id = change.tool_id
        was, is_in = tool_id in inside, tool_id in self
        if is_in:
            inside.add(tool_id)
        else:
            inside.discard(tool_id)
        if was == is_in:
            return change if is_in else None
        if is_in:
            return replace(change, kind="registered", fields=())
        is_gone = change.kind == "removed"
        return change if is_gone else replace(change, kind="removed", backend=None, fields=())


class FilteredLookup(Lookup):
    """A part of a catalogue; it follows the catalogue at the cost of the tools that have changed."""

    def __init__(self, whole: EntryTable, conditions: Filter, admission: Admission | None = None) -> None:
        self._whole = whole
        self.names = whole.names
        self._admission = admission
        self.conditions = (
            conditions if admission is None else combined((*conditions, frozenset({admission.facet})))
        )
        """What a tool must pass."""
        self._spaces: tuple[frozenset[str], list[str]] | None = None

    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""
        inside = self.selected()
        return self._whole.get(tool_id) if inside is None or tool_id in inside else None

    def namespaces(self) -> list[str]:
        """Return the namespaces that its tools are in."""
        inside = self.selected()
        if inside is None:
            return self._whole.namespaces()
        if self._spaces is None or self._spaces[0] is not inside:
            self._spaces = inside, self._whole.namespaces_of(inside)
        return self._spaces[1]

    def versions(self, name: str) -> list[str]:
        """Return the ids of those versions of a tool that are inside."""
        inside, found = self.selected(), self._whole.versions(name)
        return found if inside is None else [tool_id for tool_id in found if tool_id in inside]

    def listed(self, conditions: Filter = ()) -> list[str]:
        """Return the ids that pass a further filter."""
        return self._whole.listed(self._both(conditions))

    def selected(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids that pass a further filter; None where all there are do, inside and out."""
        return self._whole.selected(self._both(conditions))

    def answering(self, name: str) -> Named:
        """Return the tools that answer to a name."""
        return self._whole.answering(name, self.selected())

    def _both(self, conditions: Filter) -> Filter:
        if self._admission is not None:
            self._whole.admit(self._admission)
        return combined((*self.conditions, *conditions)) if conditions else self.conditions
