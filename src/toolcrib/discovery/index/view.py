"""View of a part of a catalogue that behaves like an index of these tools alone."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from toolcrib.discovery.index.catalogue import EntryTable
from toolcrib.discovery.index.changes import Change
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Admission, Filter, filter_text, make_filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import Named
from toolcrib.discovery.index.reading import IndexReader, SharedReads
from toolcrib.discovery.index.scope import Scope
from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import count_noun

Subscribe = Callable[[Callable[[Change], object]], Callable[[], None]]


class IndexView(IndexReader):
    """A live view of the tools that a scope admits; no method reveals any other tool of the index.

    It follows the index: a tool enters or leaves the view when its definition changes. Scores and suggestions
    are exactly those of an index of these tools alone. Cursors are valid for this scope alone; like
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
        """Create a view; use `Index.view`."""
        if not isinstance(scope, Scope):
            message = f"must be a Scope, not {type(scope).__name__}"
            raise ValidationError((Problem("/scope", "type", message),))
        lookup = FilteredLookup(catalogue, scope.conditions, admission)
        # A key of its own for each filter, so that a cursor of one view is refused by another.
        text = filter_text(lookup.conditions)
        own = blake2b(text.encode(errors="surrogatepass"), key=key, digest_size=16)
        super().__init__(lookup, shared, own.digest())
        self._scope = scope
        self._subscribe = subscribe

    def __repr__(self) -> str:
        return f"<IndexView of {count_noun(len(self), 'tool')}>"

    @property
    def scope(self) -> Scope:
        """The scope of the view."""
        return self._scope

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back after every change inside the view; see `Index.on_change`.

        A tool that enters the view is reported as registered, and one that leaves it as removed.

        Raises:
            ValidationError: the callback is not callable.
        """
        if not callable(callback):
            message = f"must be a function of a change, not {type(callback).__name__}"
            raise ValidationError((Problem("/callback", "type", message),))
        with self._shared.lock:
            inside = set(self._lookup.sorted_ids())

        def deliver(change: Change) -> None:
            seen = self._change_seen_inside(change, inside)
            if seen is not None:
                callback(seen)

        return self._subscribe(deliver)

    def _change_seen_inside(self, change: Change, inside: set[str]) -> Change | None:
        """Translate a change of the index to a change of the view, and update `inside`, the ids in it."""
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
    """Lookup of the tools that pass a filter; each change costs as much as the changed tools."""

    def __init__(self, whole: EntryTable, conditions: Filter, admission: Admission | None = None) -> None:
        self._whole = whole
        self.names = whole.names
        self._admission = admission
        self.conditions = (
            conditions if admission is None else make_filter((*conditions, frozenset({admission.facet})))
        )
        """The filter of the view, with the admission as one of its conditions."""
        self._spaces: tuple[frozenset[str], list[str]] | None = None

    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""
        inside = self.matching_ids()
        return self._whole.get(tool_id) if inside is None or tool_id in inside else None

    def namespaces(self) -> list[str]:
        """Return the namespaces of the tools in the view, sorted."""
        inside = self.matching_ids()
        if inside is None:
            return self._whole.namespaces()
        if self._spaces is None or self._spaces[0] is not inside:
            self._spaces = inside, self._whole.namespaces_of(inside)
        return self._spaces[1]

    def versions(self, name: str) -> list[str]:
        """Return the ids of those versions of a tool that are in the view."""
        inside, found = self.matching_ids(), self._whole.versions(name)
        return found if inside is None else [tool_id for tool_id in found if tool_id in inside]

    def sorted_ids(self, conditions: Filter = ()) -> list[str]:
        """Return the ids in the view that pass a further filter, sorted."""
        return self._whole.sorted_ids(self._combine(conditions))

    def matching_ids(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids in the view that pass a further filter; None if neither has a condition."""
        return self._whole.matching_ids(self._combine(conditions))

    def find_by_name(self, name: str) -> Named:
        """Return the tools in the view with a name."""
        return self._whole.find_by_name(name, self.matching_ids())

    def _combine(self, conditions: Filter) -> Filter:
        if self._admission is not None:
            self._whole.admit(self._admission)
        return make_filter((*self.conditions, *conditions)) if conditions else self.conditions
