"""Cached lists of the resources, templates and prompts of servers, refreshed in the background.

Requests are answered from the cache, so that a server that hangs delays nobody. A list comes from

1. the store, which has it from an earlier run, as long as the same command or address is configured;
2. a fetch in the background: when the server has listed its tools (once anybody has asked for any list),
   and when the server announces a change. Announcements that come together cause one fetch, and one that
   comes during a fetch causes another, which `changes` and `seen` count;
3. a fetch that a request starts because the list is missing, and may wait for.

Listeners are notified if a fetch finds something else than was given to anybody before. A list that a server
gives to one person only (`Source` has an owner) is fetched with that person's request context, is never
stored, and counts towards the limits for personal lists. All other lists are fetched in an empty context.

Everything runs in one event loop, so the fields need no locks; only writing to the store, which leaves the
loop, is serialized.
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from toolcrib.discovery import Store
from toolcrib.errors import LoginRequiredError, RequestRefusedError, ServerUnavailableError, ToolcribError
from toolcrib.execution.mcp import ContentChange, OnContent
from toolcrib.execution.mcp.config import ChangeKind
from toolcrib.execution.mcp.content import RECORDS, ContentKind, ServerContent
from toolcrib.execution.mcp.freshness import UNKNOWN, Freshness

if TYPE_CHECKING:
    from toolcrib.trust import Withheld

LIST_MAX_AGE = 60.0
"""Seconds for which a list counts as fresh, unless its server gives a time of its own."""
_MAX_PERSONAL_LISTS = 1_000
_MAX_PERSONAL_ITEMS = 100_000
"""Limit for the items of all personal lists together."""
_CHANGE_DEBOUNCE_SECONDS = 0.1
"""Pause after the announcement of a change, in which further ones are answered by the same fetch."""
_LOG = logging.getLogger("toolcrib.crib")
_KINDS: dict[str, tuple[ContentKind, ...]] = {
    "resources": ("resources", "templates"),
    "prompts": ("prompts",),
}
"""The lists to fetch again for each kind of change that a server announces."""

Source = tuple[str, Hashable | None]
"""A server, and the owner of its lists; None if everybody gets the same."""
Fetch = Callable[[], Awaitable[tuple[tuple[Any, ...], Freshness]]]
"""Requests one list from a server."""
ScreenContent = Callable[
    [Source, ContentKind, tuple[Any, ...]], tuple[tuple[Any, ...], Mapping[str, "Withheld"]]
]
"""Returns the usable items of a list, and the withheld by names or addresses; runs in a thread."""
KeptLists = Mapping[tuple[str, ContentKind], tuple[Any, ...]]
"""The lists of an earlier run, by server and kind."""


@dataclass(slots=True, eq=False)
class _List:
    """One list of one source."""

    items: tuple[Any, ...] | None = None
    """Its usable items; None until it is fetched or loaded."""
    listed: tuple[Any, ...] = ()
    """All of it."""
    withheld: Mapping[str, "Withheld"] = field(default_factory=dict)
    """Its withheld items."""
    fetched: float | None = None
    """Time of the last fetch; None for a list of an earlier run."""
    freshness: Freshness = UNKNOWN
    error: ToolcribError | None = None
    """The error of the last fetch."""
    changes: int = 0
    """Number of changes that the server has announced."""
    seen: int = 0
    """Number of announced changes when the last completed fetch began."""
    is_given: bool = False
    """Whether a client got it, or its absence, and is to be notified of a difference."""
    done: anyio.Event | None = None
    """Set when the running fetch has ended; None if none is running."""


class ContentLists:
    """Caches lists of servers; to be used in the event loop that `run` is called in."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lists: dict[tuple[Source, ContentKind], _List] = {}
        """In the order of their fetches, the latest last."""
        self._late: set[Source] = set()
        self._listeners: dict[object, OnContent] = {}
        self._tasks: TaskGroup | None = None
        self._servers: ServerContent | None = None
        self._store: Store | None = None
        self._identities: dict[str, str] = {}
        self._listed: set[str] = set()
        """The servers that have listed their tools in this run."""
        self._is_used = False
        self._writing = anyio.Lock()
        self.screen: ScreenContent | None = None
        """Tells apart what may be used of each list; None if all may."""
        self._screenings = 0
        """How often all lists were screened again."""

    def serve(
        self, servers: ServerContent, identities: Mapping[str, str], store: Store | None, kept: KeptLists
    ) -> None:
        """Use these servers, start with the lists of an earlier run, and store each list that is fetched.

        `identities` has a hash of the command or address of each server that is not personal.
        """
        self._servers, self._identities, self._store = servers, dict(identities), store
        for (server, kind), items in kept.items():
            self._lists[(server, None), kind] = _List(items, items)
        servers.on_change(self._on_server_change)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Fetch lists in the background, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    def swap(self, leave: Iterable[str], identities: Mapping[str, str]) -> None:
        """Remove servers, perhaps replaced by others of the same names.

        A server with an unchanged command or address keeps its lists until they are fetched again.
        """
        before, self._identities = self._identities, dict(identities)
        for name in leave:
            self._listed.discard(name)
            is_same = name in before and before[name] == self._identities.get(name)
            for key in [key for key in self._lists if key[0][0] == name]:
                known = self._drop(key)
                if is_same and key[0][1] is None and known is not None and known.items is not None:
                    self._lists[key] = _List(
                        known.items, known.listed, known.withheld, is_given=known.is_given
                    )

    def on_change(self, callback: OnContent) -> Callable[[], None]:
        """Add a listener for changed resources and lists; return a function that removes it."""
        key = object()
        self._listeners[key] = callback
        self._start_fetching()
        return lambda: self._listeners.pop(key, None) and None

    def note_tools(self, server: str) -> None:
        """Note that a server is running and has listed its tools; if lists are used, fetch its others."""
        if server in self._identities:
            self._listed.add(server)
            if self.screen is not None:  # what it lists must be compared again
                for kind in RECORDS:
                    self._entry_of((server, None), kind).changes += 1
            if self._is_used:
                self._refresh(server)

    def _start_fetching(self) -> None:
        """Fetch the lists of all running servers, at the first use of any list."""
        if not self._is_used:
            self._is_used = True
            for server in self._listed:
                self._refresh(server)

    def _refresh(self, server: str) -> None:
        """Fetch the lists of a server that are missing, failed, or older than a minute."""
        for kind in RECORDS:
            known = self._entry_of((server, None), kind)
            age = None if known.fetched is None else self._clock() - known.fetched
            if age is None or age >= LIST_MAX_AGE or known.error is not None:
                self._fetch_shared(server, kind)

    def _fetch_shared(self, server: str, kind: ContentKind, *, pause: float = 0.0) -> None:
        if self._servers is not None:
            self.fetch((server, None), kind, partial(self._servers.listed, server, kind), pause=pause)

    def items(self, source: Source, kind: ContentKind, *, is_given: bool = False) -> tuple[Any, ...] | None:
        """Return a list; None if it is not known. With `is_given`, a later difference is announced."""
        self._start_fetching()
        known = self._entry_of(source, kind)
        known.is_given |= is_given
        return known.items

    def listed(self, source: Source, kind: ContentKind) -> tuple[Any, ...] | None:
        """Return a list, including its withheld items; None if it is not known."""
        known = self._entry_of(source, kind)
        return None if known.items is None else known.listed

    def withheld(self, source: Source, kind: ContentKind) -> Mapping[str, "Withheld"]:
        """Return the withheld items of a list, by names or addresses."""
        return self._entry_of(source, kind).withheld

    async def screen_again(self) -> None:
        """Screen all lists again, and notify listeners of differences."""
        self._screenings += 1
        for (source, kind), known in list(self._lists.items()):
            before, listed = known.items, known.listed
            if before is None:
                continue
            items, withheld = await self._screen_list(source, kind, listed)
            if known.listed is not listed:  # a newer list came meanwhile, and was screened by itself
                continue
            known.items, known.withheld = items, withheld
            if known.items != before and known.is_given:
                self._notify_of_list(source, kind)

    async def _screen_list(
        self, source: Source, kind: ContentKind, listed: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], Mapping[str, "Withheld"]]:
        while self.screen is not None:
            screenings = self._screenings
            screened = await to_thread.run_sync(self.screen, source, kind, listed)
            if screenings == self._screenings:
                return screened
        return listed, {}

    def error(self, source: Source, kind: ContentKind) -> ToolcribError | None:
        """Return why the last fetch of a list failed; None where it did not."""
        return self._entry_of(source, kind).error

    def freshness(self, source: Source, kind: ContentKind) -> Freshness:
        """Return for how long a list stays fresh.

        Zero for one of an earlier run, and for one that is still to come.
        """
        known = self._entry_of(source, kind)
        if known.fetched is not None:
            return known.freshness.after(self._clock() - known.fetched)
        is_settled = known.items is None and known.error is not None and known.done is None
        return UNKNOWN if is_settled and not isinstance(known.error, LoginRequiredError) else Freshness(0.0)

    def age(self, source: Source, kind: ContentKind) -> float | None:
        """Return how many seconds ago a list was fetched; None where it was not in this run."""
        fetched = self._entry_of(source, kind).fetched
        return None if fetched is None else self._clock() - fetched

    def is_changed(self, source: Source, kind: ContentKind) -> bool:
        """Return whether the server has announced a change of a list that was not fetched since."""
        known = self._entry_of(source, kind)
        return known.changes != known.seen

    def is_late(self, source: Source) -> bool:
        """Return whether a wait for a list of a source has timed out, and none has come since."""
        return source in self._late

    def note_late(self, source: Source) -> None:
        """Note that a wait for a list has timed out, so that later requests do not wait for this source."""
        self._late.add(source)

    def fetch(self, source: Source, kind: ContentKind, ask: Fetch, *, pause: float = 0.0) -> anyio.Event:
        """Start a fetch, unless one is running; return an event that is set when it has ended.

        A personal list is fetched with the context of the current request, which has the person's login.
        """
        known = self._entry_of(source, kind)
        if known.done is not None:
            return known.done
        known.done = done = anyio.Event()
        if self._tasks is None:
            known.done = None
            known.error = ServerUnavailableError(source[0], "toolcrib is closing")
            done.set()
            return done
        context = Context() if source[1] is None else copy_context()
        context.run(self._tasks.start_soon, self._fetch, source, kind, known, ask, pause)
        return done

    async def _fetch(self, source: Source, kind: ContentKind, known: _List, ask: Fetch, pause: float) -> None:
        """Fetch and store a list, and again if the server announces a change meanwhile."""
        is_other, changes = False, known.changes
        try:
            await anyio.sleep(pause)
            changes = known.changes
            is_other = await self._fetch_once(source, kind, known, ask)
        finally:
            done, known.done = known.done, None
            if done is not None:
                done.set()
        if is_other and source[1] is None:
            await self._write(source[0], kind)
        if known.changes != changes and self._lists.get((source, kind)) is known:
            self.fetch(source, kind, ask, pause=_CHANGE_DEBOUNCE_SECONDS)

    async def _fetch_once(self, source: Source, kind: ContentKind, known: _List, ask: Fetch) -> bool:
        """Request a list, notify listeners of a difference, and return whether there is one."""
        changes, is_told, before = known.changes, known.changes != known.seen, known.items
        former = known.listed
        try:
            listed, freshness = await ask()
            items, withheld = await self._screen_list(source, kind, listed)
        except (ServerUnavailableError, RequestRefusedError) as error:
            known.error = error
            if isinstance(error, LoginRequiredError):
                known.items = known.fetched = None
            return False
        except Exception:  # noqa: BLE001 - a server is foreign code, and one list must not cost the others
            _LOG.exception("the %s of %r cannot be listed", kind, source[0])
            known.error = ServerUnavailableError(source[0], f"its {kind} cannot be listed")
            return False
        if self._lists.get((source, kind)) is not known:  # its server has gone meanwhile
            return False
        self._lists[source, kind] = self._lists.pop((source, kind))
        known.items, known.listed, known.withheld = items, listed, withheld
        known.freshness, known.fetched, known.error = freshness, self._clock(), None
        known.seen = changes
        self._late.discard(source)
        self._drop_oldest_personal_lists()
        is_news = items != before if before is not None else bool(items)
        if is_news and (known.is_given or is_told):
            self._notify_of_list(source, kind)
        return before is None or listed != former

    async def _write(self, server: str, kind: ContentKind) -> None:
        """Store the current list of a server, even if the crib is closing."""
        with anyio.CancelScope(shield=True):
            async with self._writing:
                known, identity = self._lists.get(((server, None), kind)), self._identities.get(server)
                if self._store is None or identity is None or known is None or known.items is None:
                    return
                try:
                    await to_thread.run_sync(_write_list, self._store, server, kind, identity, known.listed)
                except ToolcribError as error:
                    _LOG.warning("the %s of %r are not kept: %s", kind, server, error)
                except Exception:  # noqa: BLE001 - one list must not take the others along
                    _LOG.exception("the %s of %r cannot be kept", kind, server)

    def _on_server_change(self, change: ContentChange) -> None:
        """Handle a notification of a server that a resource or one of its lists has changed."""
        if change.kind == "updated":
            self._notify_listeners(change)
            return
        source = change.server, change.owner
        for kind in _KINDS[change.kind]:
            if change.owner is not None:
                # A personal list is fetched at the person's next request, or again if a fetch is running.
                known = self._lists.get((source, kind))
                if known is not None and known.done is not None:
                    known.changes += 1
                else:
                    self._drop((source, kind))
                continue
            self._entry_of(source, kind).changes += 1
            if self._is_used:
                self._fetch_shared(change.server, kind, pause=_CHANGE_DEBOUNCE_SECONDS)
        if change.owner is not None:
            self._notify_listeners(change)

    def _notify_of_list(self, source: Source, kind: ContentKind) -> None:
        changed: ChangeKind = "prompts" if kind == "prompts" else "resources"
        self._notify_listeners(ContentChange(source[0], changed, owner=source[1]))

    def _notify_listeners(self, change: ContentChange) -> None:
        for callback in list(self._listeners.values()):
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - it is the user's code, and the other listeners must be called too
                _LOG.exception("a listener for changed resources and prompts failed")

    def _entry_of(self, source: Source, kind: ContentKind) -> _List:
        known = self._lists.get((source, kind))
        if known is None:
            known = self._lists[source, kind] = _List()
            self._drop_oldest_personal_lists()
        return known

    def _drop(self, key: tuple[Source, ContentKind]) -> _List | None:
        self._late.discard(key[0])
        return self._lists.pop(key, None)

    def _drop_oldest_personal_lists(self) -> None:
        """Drop the oldest personal lists over the limits; of the others each server has only a few."""
        persons = [(key, known) for key, known in self._lists.items() if key[0][1] is not None]
        count, items = len(persons), sum(len(known.items or ()) for _, known in persons)
        for key, known in persons[:-1]:
            if count <= _MAX_PERSONAL_LISTS and items <= _MAX_PERSONAL_ITEMS:
                return
            if known.done is None:
                self._drop(key)
                count, items = count - 1, items - len(known.items or ())


def load_lists(store: Store, identities: Mapping[str, str]) -> dict[tuple[str, ContentKind], tuple[Any, ...]]:
    """Return the stored lists of these servers, and delete those of all others.

    Args:
        store: the store of the catalogue.
        identities: a hash of the command or address of each server that is not personal.
    """
    found: dict[tuple[str, ContentKind], tuple[Any, ...]] = {}
    for kind in RECORDS:
        foreign = []
        for server, text in store.texts(_collection(kind)):
            items = _read_list(server, kind, identities.get(server), text)
            if items is None:
                foreign.append(server)
            else:
                found[server, kind] = items
        if foreign:
            store.write_texts(_collection(kind), {}, foreign)
    return found


def drop_lists(store: Store, server: str) -> None:
    """Delete the stored lists of a server.

    Raises:
        StoreError: the store cannot be written.
    """
    for kind in RECORDS:
        store.write_texts(_collection(kind), {}, [server])


def _collection(kind: ContentKind) -> str:
    return f"content-{kind}"


def _write_list(store: Store, server: str, kind: ContentKind, identity: str, items: tuple[Any, ...]) -> None:
    listed = [each.to_json(without={"server"}) for each in items]
    store.write_texts(_collection(kind), {server: json.dumps({"identity": identity, "items": listed})}, ())


def _read_list(server: str, kind: ContentKind, identity: str | None, text: str) -> tuple[Any, ...] | None:
    """Return a stored list; None if it is of another server, or cannot be read."""
    try:
        row = json.loads(text)
        if identity is None or row["identity"] != identity:
            return None
        return tuple(RECORDS[kind].from_json({**each, "server": server}) for each in row["items"])
    except (ValueError, KeyError, TypeError, ToolcribError):
        return None
