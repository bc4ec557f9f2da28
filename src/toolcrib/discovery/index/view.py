"""A part of a catalogue, as if it were the whole."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from toolcrib.discovery.index.catalogue import Catalogue
from toolcrib.discovery.index.changes import Change
from toolcrib.discovery.index.filtered import FilteredLookup
from toolcrib.discovery.index.filters import filter_text
from toolcrib.discovery.index.reading import Reader, Shared
from toolcrib.discovery.index.scope import Scope
from toolcrib.errors import Problem, ValidationError

__all__ = ["IndexView"]

Subscribe = Callable[[Callable[[Change], object]], Callable[[], None]]


class IndexView(Reader):
    """The tools of an index that a scope admits; there are no others here, whatever is asked.

    It follows the index: a tool comes and goes with what it says of itself. Questions are answered in the
    order in which the index answers them with the same filter. Cursors are those of this scope alone; like
    `version`, they change with the index, since how rare a word is depends on all tools.

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
        self, catalogue: Catalogue, shared: Shared, key: bytes, scope: Scope, subscribe: Subscribe
    ) -> None:
        """See a part of a catalogue; `Index.view` does this."""
        if not isinstance(scope, Scope):
            said = f"must be a Scope, not {type(scope).__name__}"
            raise ValidationError((Problem("/scope", "type", said),))
        own = blake2b(filter_text(scope.conditions).encode(errors="surrogatepass"), key=key, digest_size=16)
        super().__init__(FilteredLookup(catalogue, scope.conditions), shared, own.digest())
        self._scope = scope
        self._subscribe = subscribe

    def __repr__(self) -> str:
        return f"<IndexView of {len(self)} tools>"

    @property
    def scope(self) -> Scope:
        """What admits a tool."""
        return self._scope

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back after every change to what is inside, as `Index.on_change` does.

        A tool that comes to be admitted is told as registered, and one that is no more as removed.

        Raises:
            ValidationError: it cannot be called.
        """
        if not callable(callback):
            said = f"must be a function of a change, not {type(callback).__name__}"
            raise ValidationError((Problem("/callback", "type", said),))
        with self._shared.lock:
            inside = set(self._lookup.listed())

        def told(change: Change) -> None:
            seen = self._seen(change, inside)
            if seen is not None:
                callback(seen)

        return self._subscribe(told)

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
