"""The lists of resources, templates and prompts of servers: kept, fetched in the background, announced.

Lists are answered from what is known, so that one server that hangs holds up nobody. A list comes to be known
in three ways. Those of servers that are everybody's are kept with the catalogue, and served from it in the
next run under the same rule as their tools: while the same command or address is configured. They are fetched
when their server has listed its tools, once anybody is interested in lists at all, and when the server says
that they have changed. And whoever needs a list that is not known has it fetched, and may wait.

Where a fetch finds something else than was given before, listeners are told. What a server lists to one
person is known for that person alone, and never written down.
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from toolcrib.discovery import Store
from toolcrib.errors import LoginRequiredError, RequestRefusedError, ServerUnavailableError, ToolcribError
from toolcrib.execution.mcp import ContentChange, OnContent
from toolcrib.execution.mcp.config import ChangeKind
from toolcrib.execution.mcp.content import RECORDS, ContentKind, ServerContent
from toolcrib.execution.mcp.freshness import UNKNOWN, Freshness

LIST_MAX_AGE = 60.0
"""For how many seconds a list is taken to be so, unless its server says something else."""
_MAX_PERSONAL_LISTS = 1_000
_MAX_PERSONAL_ITEMS = 100_000
"""In all lists of single persons together."""
_GATHER = 0.1
"""Seconds to wait after a server's word of a change for those that come with it."""
_LOG = logging.getLogger("toolcrib.crib")
_KINDS: dict[str, tuple[ContentKind, ...]] = {
    "resources": ("resources", "templates"),
    "prompts": ("prompts",),
}
"""The lists that a server's word of a change is about."""

Source = tuple[str, Hashable | None]
"""A server, and whose its lists are; None where they are everybody's."""
Fetch = Callable[[], Awaitable[tuple[tuple[Any, ...], Freshness]]]
"""Asks a server for one list."""
KeptLists = Mapping[tuple[str, ContentKind], tuple[Any, ...]]
"""The lists of an earlier run, by server and kind."""


@dataclass(slots=True, eq=False)
class _List:
    """One list of one source."""

    items: tuple[Any, ...] | None = None
    """None while it is not known."""
    fetched: float | None = None
    """When it came, by the clock; None where it is of an earlier run, or not known."""
    freshness: Freshness = UNKNOWN
    error: ToolcribError | None = None
    """Why the last fetch failed."""
    changes: int = 0
    """How often its server has said that it changed."""
    seen: int = 0
    """How often it had said so when the last fetch began that has ended."""
    is_given: bool = False
    """Whether it, or its absence, was part of an answer, so that a difference is worth telling."""
    done: anyio.Event | None = None
    """Set when the fetch that is under way has ended; None where there is none."""


class ContentLists:
    """Knows what servers list; everything happens in the event loop that `run` is called in."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lists: dict[tuple[Source, ContentKind], _List] = {}
        """The one that was fetched last at the end."""
        self._late: set[Source] = set()
        self._listeners: dict[object, OnContent] = {}
        self._tasks: TaskGroup | None = None
        self._servers: ServerContent | None = None
        self._store: Store | None = None
        self._identities: dict[str, str] = {}
        self._listed: set[str] = set()
        """The servers that have listed their tools in this run."""
        self._is_wanted = False
        self._writing = anyio.Lock()

    def serve(
        self, servers: ServerContent, identities: Mapping[str, str], store: Store | None, kept: KeptLists
    ) -> None:
        """Ask these servers from now on, begin with the lists of an earlier run, and write down what comes.

        `identities` says of each server that is everybody's what it is started or reached by.
        """
        self._servers, self._identities, self._store = servers, dict(identities), store
        for (server, kind), items in kept.items():
            self._lists[(server, None), kind] = _List(items)
        servers.on_change(self._hear)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Fetch lists in the background, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    def swap(self, leave: Iterable[str], identities: Mapping[str, str]) -> None:
        """Let servers go, whose names others may have from now on.

        One that is started or reached as before keeps its lists until it has been asked again.
        """
        before, self._identities = self._identities, dict(identities)
        for name in leave:
            self._listed.discard(name)
            is_same = name in before and before[name] == self._identities.get(name)
            for key in [key for key in self._lists if key[0][0] == name]:
                known = self._drop(key)
                if is_same and key[0][1] is None and known is not None and known.items is not None:
                    self._lists[key] = _List(known.items, is_given=known.is_given)

    def on_change(self, callback: OnContent) -> Callable[[], None]:
        """Call back with resources that have changed, and lists that differ; returns what stops that."""
        key = object()
        self._listeners[key] = callback
        self._want()
        return lambda: self._listeners.pop(key, None) and None

    def note_tools(self, server: str) -> None:
        """Note that a server runs and has listed its tools, so that its other lists can be had."""
        if server in self._identities:
            self._listed.add(server)
            if self._is_wanted:
                self._refresh(server)

    def _want(self) -> None:
        """Have the lists of the servers that run fetched, since somebody is interested in lists."""
        if not self._is_wanted:
            self._is_wanted = True
            for server in self._listed:
                self._refresh(server)

    def _refresh(self, server: str) -> None:
        """Fetch those lists of a server that were not in the last minute."""
        for kind in RECORDS:
            known = self._list((server, None), kind)
            age = None if known.fetched is None else self._clock() - known.fetched
            if age is None or age >= LIST_MAX_AGE or known.error is not None:
                self._fetch_shared(server, kind)

    def _fetch_shared(self, server: str, kind: ContentKind, *, pause: float = 0.0) -> None:
        if self._servers is not None:
            self.fetch((server, None), kind, partial(self._servers.listed, server, kind), pause=pause)

    def items(self, source: Source, kind: ContentKind, *, is_given: bool = False) -> tuple[Any, ...] | None:
        """Return a list; None where it is not known. Say so where it is given to somebody."""
        self._want()
        known = self._list(source, kind)
        known.is_given |= is_given
        return known.items

    def error(self, source: Source, kind: ContentKind) -> ToolcribError | None:
        """Return why the last fetch of a list failed; None where it did not."""
        return self._list(source, kind).error

    def freshness(self, source: Source, kind: ContentKind) -> Freshness:
        """Return for how long a list is still so, as far as is known.

        One of an earlier run, and one that is still to come, may be another at any moment.
        """
        known = self._list(source, kind)
        if known.fetched is not None:
            return known.freshness.after(self._clock() - known.fetched)
        is_settled = known.items is None and known.error is not None and known.done is None
        return UNKNOWN if is_settled and not isinstance(known.error, LoginRequiredError) else Freshness(0.0)

    def age(self, source: Source, kind: ContentKind) -> float | None:
        """Return how many seconds ago a list was fetched; None where it was not in this run."""
        fetched = self._list(source, kind).fetched
        return None if fetched is None else self._clock() - fetched

    def is_changed(self, source: Source, kind: ContentKind) -> bool:
        """Return whether its server has said that a list is another now, which was not fetched yet."""
        known = self._list(source, kind)
        return known.changes != known.seen

    def is_late(self, source: Source) -> bool:
        """Return whether somebody has waited for a list of a source in vain, and none has come since."""
        return source in self._late

    def note_late(self, source: Source) -> None:
        """Note that somebody has waited for a list in vain, so that nobody else does for a moment's sake."""
        self._late.add(source)

    def fetch(self, source: Source, kind: ContentKind, ask: Fetch, *, pause: float = 0.0) -> anyio.Event:
        """Have a list fetched, unless that is under way; return what is set when it has come, or failed.

        What a person's request carries is used to ask in that person's name; all others are asked in
        nobody's.
        """
        known = self._list(source, kind)
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
        """Fetch a list, and again where its server says meanwhile that it has changed."""
        is_other, changes = False, known.changes
        try:
            await anyio.sleep(pause)
            changes = known.changes
            is_other = await self._take(source, kind, known, ask)
        finally:
            done, known.done = known.done, None
            if done is not None:
                done.set()
        if is_other and source[1] is None:
            await self._write(source[0], kind)
        if known.changes != changes and self._lists.get((source, kind)) is known:
            self.fetch(source, kind, ask, pause=_GATHER)

    async def _take(self, source: Source, kind: ContentKind, known: _List, ask: Fetch) -> bool:
        """Ask for a list, tell those who got another, and return whether it is another."""
        changes, is_told, before = known.changes, known.changes != known.seen, known.items
        try:
            items, freshness = await ask()
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
        known.items, known.freshness, known.fetched, known.error = items, freshness, self._clock(), None
        known.seen = changes
        self._late.discard(source)
        self._make_room()
        is_news = items != before if before is not None else bool(items)
        if is_news and (known.is_given or is_told):
            listed: ChangeKind = "prompts" if kind == "prompts" else "resources"
            self._tell(ContentChange(source[0], listed, owner=source[1]))
        return items != before

    async def _write(self, server: str, kind: ContentKind) -> None:
        """Write a list of a server down, as it is by then, also where everything ends meanwhile."""
        with anyio.CancelScope(shield=True):
            async with self._writing:
                known, identity = self._lists.get(((server, None), kind)), self._identities.get(server)
                if self._store is None or identity is None or known is None or known.items is None:
                    return
                try:
                    await to_thread.run_sync(_write_list, self._store, server, kind, identity, known.items)
                except ToolcribError as error:
                    _LOG.warning("the %s of %r are not kept: %s", kind, server, error)
                except Exception:  # noqa: BLE001 - one list must not take the others along
                    _LOG.exception("the %s of %r cannot be kept", kind, server)

    def _hear(self, change: ContentChange) -> None:
        """Handle a notification of a server that a resource or one of its lists has changed."""
        if change.kind == "updated":
            self._tell(change)
            return
        source = change.server, change.owner
        for kind in _KINDS[change.kind]:
            if (
                change.owner is not None
            ):  # it is fetched when that person wants it, or again if it is under way
                known = self._lists.get((source, kind))
                if known is not None and known.done is not None:
                    known.changes += 1
                else:
                    self._drop((source, kind))
                continue
            self._list(source, kind).changes += 1
            if self._is_wanted:
                self._fetch_shared(change.server, kind, pause=_GATHER)
        if change.owner is not None:
            self._tell(change)

    def _tell(self, change: ContentChange) -> None:
        for callback in list(self._listeners.values()):
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - it is the user's code, and the others are to hear of it too
                _LOG.exception("a listener for changed resources and prompts failed")

    def _list(self, source: Source, kind: ContentKind) -> _List:
        known = self._lists.get((source, kind))
        if known is None:
            known = self._lists[source, kind] = _List()
            self._make_room()
        return known

    def _drop(self, key: tuple[Source, ContentKind]) -> _List | None:
        self._late.discard(key[0])
        return self._lists.pop(key, None)

    def _make_room(self) -> None:
        """Drop the oldest lists of persons where there are too many; all others are a few of each server."""
        persons = [(key, known) for key, known in self._lists.items() if key[0][1] is not None]
        count, items = len(persons), sum(len(known.items or ()) for _, known in persons)
        for key, known in persons[:-1]:
            if count <= _MAX_PERSONAL_LISTS and items <= _MAX_PERSONAL_ITEMS:
                return
            if known.done is None:
                self._drop(key)
                count, items = count - 1, items - len(known.items or ())


def load_lists(store: Store, identities: Mapping[str, str]) -> dict[tuple[str, ContentKind], tuple[Any, ...]]:
    """Return what a store holds of the lists of these servers, and forget those of all others.

    Args:
        store: what keeps the catalogue.
        identities: of each server that is everybody's, what it is started or reached by.
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
    """Forget the lists of a server that is gone.

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
    """Return a list that was written down; None where it is another server's, or cannot be read."""
    try:
        row = json.loads(text)
        if identity is None or row["identity"] != identity:
            return None
        return tuple(RECORDS[kind].from_json({**each, "server": server}) for each in row["items"])
    except (ValueError, KeyError, TypeError, ToolcribError):
        return None
