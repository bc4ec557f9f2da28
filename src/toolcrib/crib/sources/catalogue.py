"""Writes the tools of servers and APIs to the catalogue, and reads back those that an earlier run has stored.

A tool can run on several backends, each the binding of one origin (`mcp:github`, `provider:pets`). So an
origin never owns a tool: a new list replaces the bindings of that origin alone, and a tool leaves the
catalogue with its last binding.

The store has the tools, and beside them three collections of texts by origin: its identity (a hash of the
command or address that listed the tools, as stored tools of a changed server must not be served), the time of
the list, and whether the origin failed to list its tools the last time.

`keep_only` runs once, before the index reads the store. `CatalogueWriter` is used from worker threads, as an
update of the index and the store blocks; its lock keeps the lists of two origins apart.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from toolcrib.crib.sources.origins import Origin
from toolcrib.discovery import Discovery, Store, StoredTool
from toolcrib.discovery.store import StoreChanges
from toolcrib.errors import InvalidBackendError, InvalidSchemaError, ValidationError
from toolcrib.execution.mcp import ServerStatus
from toolcrib.model import Tool, ToolBackend

_LOG = logging.getLogger("toolcrib.crib")
_IDENTITIES = "origins"
"""Collection of the identities of the origins whose tools are stored."""
_LISTED = "listed"
"""Collection of the times at which they listed them, in seconds since 1970."""
_UNLISTED = "unlisted"
"""Collection of the origins that did not list their tools the last time."""
_NAME_KEYS = {"mcp": "serverName", "provider": "providerId"}
_REFUSALS = (InvalidSchemaError, InvalidBackendError, ValidationError)
"""Errors for tools that cannot be registered."""
Pair = tuple[Tool, ToolBackend]
Screen = Callable[[str, tuple[Tool, ...]], tuple[Tool, ...]]
"""Takes an origin and the tools that it lists; returns those that may be used."""


@dataclass(frozen=True, slots=True)
class StoredSource:
    """The stored tools of one server or API whose configuration is unchanged."""

    ids: frozenset[str] = frozenset()
    listed: float | None = None
    """The time of its listing, in seconds since 1970."""


def keep_only(
    store: Store, identities: Mapping[str, str], *, delete_others: bool = True
) -> dict[str, StoredSource]:
    """Delete the stored tools of all origins but these, and return the stored tools of each.

    Functions of another process are deleted too. Documentation and learnt results of tools stay. A store that
    gateways with other configurations share keeps what is theirs: then nothing is deleted.

    Args:
        store: the store of the catalogue.
        identities: the identity of each origin, such as `mcp:github`.
        delete_others: whether the store is of this process alone.
    """
    stored = dict(store.texts(_IDENTITIES))
    same = {origin for origin, identity in identities.items() if stored.get(origin) == identity}
    put: list[StoredTool] = []
    delete: list[str] = []
    ids: dict[str, set[str]] = {origin: set() for origin in same}
    read: dict[str, list[dict[str, Any]]] = {}  # all tools of a server say the same
    for row in store.tools():
        backends = read.get(row.backends)
        if backends is None:
            backends = read[row.backends] = _read_bindings(row)
        left = [binding for binding in backends if _origin_of(binding) in same]
        for binding in left:
            ids[_origin_of(binding)].add(row.id)
        if not left:
            delete.append(row.id)
        elif len(left) < len(backends):
            put.append(replace(row, backends=json.dumps(left)))
    if delete_others and (put or delete):
        store.write(put, delete)
    if delete_others and (foreign := stored.keys() - same):
        store.write_texts(_IDENTITIES, {}, foreign)
    times = dict(store.texts(_LISTED))
    return {
        origin: StoredSource(frozenset(known), _parse_seconds(times.get(origin)))
        for origin, known in ids.items()
    }


def _parse_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def make_admission(store: Store, identities: Mapping[str, str]) -> Callable[[StoredTool], StoredTool | None]:
    """Return a function that leaves the bindings of these origins in a stored tool; None if there are none.

    An origin whose identity in the store is another one was written by a gateway with another configuration.
    """
    stored = dict(store.texts(_IDENTITIES))
    same = {origin for origin, identity in identities.items() if stored.get(origin) == identity}

    def admit(row: StoredTool) -> StoredTool | None:
        backends = _read_bindings(row)
        left = [binding for binding in backends if _origin_of(binding) in same]
        if not left:
            return None
        return row if len(left) == len(backends) else replace(row, backends=json.dumps(left))

    return admit


def missed_before(
    store: Store, identities: Mapping[str, str], *, delete_others: bool = True
) -> frozenset[str]:
    """Return the origins that did not list their tools the last time; delete the notes about all others."""
    noted = dict(store.texts(_UNLISTED))
    same = frozenset(origin for origin, identity in noted.items() if identities.get(origin) == identity)
    if delete_others and (foreign := noted.keys() - same):
        store.write_texts(_UNLISTED, {}, foreign)
    return same


def _read_bindings(row: StoredTool) -> list[dict[str, Any]]:
    """Return the bindings of a stored tool; none if they cannot be read."""
    try:
        read = json.loads(row.backends)
    except ValueError:
        return []
    return [binding for binding in read if isinstance(binding, dict)] if isinstance(read, list) else []


def _origin_of(binding: dict[str, Any]) -> str:
    kind = str(binding.get("kind"))
    return f"{kind}:{binding.get(_NAME_KEYS.get(kind, ''))}"


class CatalogueWriter:
    """Writes the tools of origins to a `Discovery`; safe to call from any thread."""

    def __init__(
        self,
        discovery: Discovery,
        kept: Mapping[str, StoredSource] | None = None,
        missed: Iterable[str] = (),
        screen: Screen = lambda _, tools: tools,
        *,
        is_shared: bool = False,
    ) -> None:
        """Write to a catalogue what `screen` leaves of the tools that origins list.

        What this gateway alone does not use, because its configuration or its lock is another one, is not
        deleted from a store that `is_shared`.
        """
        self._is_shared = is_shared
        self._discovery, self._screen = discovery, screen
        self._missed = set(missed)
        self._refused: dict[str, dict[str, str]] = {}
        self._bindings: dict[str, dict[str, ToolBackend]] = {}
        self._unread = {origin: known.ids for origin, known in (kept or {}).items()}
        self._listed = {origin: known.listed for origin, known in (kept or {}).items()}
        self._lock = Lock()

    def replace(self, origin: str, tools: Iterable[Tool], identity: str = "") -> int:
        """Replace the tools of an origin, and return how many of the new ones can be used.

        A tool with an invalid definition is logged, listed by `refused`, and left out.

        Raises:
            StoreError: the store cannot be written.
        """
        bound = tuple(tool for tool in tools if tool.backend is not None)
        with self._lock:
            screened = self._screen(origin, bound)
            pairs: list[Pair] = [(tool, tool.backend) for tool in screened if tool.backend is not None]
            before = self._tools_of(origin)
            refused: dict[str, str] = {}
            try:
                taken = self._exchange(before, pairs)
            except _REFUSALS:
                taken = self._exchange(before, self._find_valid(pairs, refused))
            self._refused[origin], self._bindings[origin] = refused, taken
            store = self._discovery.index.store
            if store is not None and identity:
                store.write_texts(_IDENTITIES, {origin: identity}, ())
                store.write_texts(_LISTED, {origin: str(int(time.time()))}, ())
                if origin in self._missed:
                    store.write_texts(_UNLISTED, {}, [origin])
                    self._missed.remove(origin)
        return len(taken)

    def screen_again(self, withheld: Callable[[str], Iterable[Tool]]) -> None:
        """Screen the tools of all origins again: those in the catalogue, and those that were withheld.

        Raises:
            StoreError: the store cannot be written.
        """
        index = self._discovery.index
        with self._lock:
            for origin in {*self._unread, *self._bindings}:
                known = self._tools_of(origin)
                self._bindings[origin] = known
                kept = [index.get(tool_id).replace(backend=backend) for tool_id, backend in known.items()]
                back = {str(tool.id): tool for tool in withheld(origin)}
                screened = self._screen(origin, (*kept, *back.values()))
                usable = {str(tool.id) for tool in screened}
                fresh = [
                    (tool, tool.backend)
                    for tool in screened
                    if str(tool.id) not in known and tool.backend is not None
                ]
                gone = [(tool_id, backend) for tool_id, backend in known.items() if tool_id not in usable]
                valid = self._find_valid(fresh, {})
                self._discovery.register_many(valid, remove=gone, write=not self._is_shared)
                left = {tool_id: backend for tool_id, backend in known.items() if tool_id in usable}
                self._bindings[origin] = left | {str(tool.id): backend for tool, backend in valid}

    def drop(self, origin: str) -> None:
        """Remove the tools of an origin, and all that is stored about it.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._lock:
            gone = self._tools_of(origin).items()
            self._discovery.register_many((), remove=gone, write=not self._is_shared)
            self._bindings.pop(origin, None)
            self._refused.pop(origin, None)
            self._missed.discard(origin)
            store = self._discovery.index.store
            if store is not None and not self._is_shared:
                for collection in (_IDENTITIES, _LISTED, _UNLISTED):
                    store.write_texts(collection, {}, [origin])

    def adopt(self, changes: StoreChanges, identities: Mapping[str, str]) -> None:
        """Apply the changes of other gateways to the tools of these origins.

        Raises:
            StoreError: the store cannot be read.
        """
        index = self._discovery.index
        with self._lock:
            store = self._discovery.index.store
            if store is None:
                return
            admit = make_admission(store, identities)
            put = [
                row
                for each in changes.put
                if (row := admit(each)) is not None and not self._is_local(each.id)
            ]
            gone = set(changes.gone)
            if changes.is_complete:
                known = {name for origin in identities for name in self._tools_of(origin)}
                gone |= known - {row.id for row in changes.put}
            dropped = [name for name in gone if name in index and self._origins_in(name) <= identities.keys()]
            index.adopt(put, dropped)
            for origin in identities:
                bound = {
                    row.id: one
                    for row in put
                    if row.id in index
                    for one in index.backends(row.id)
                    if _origin_of(one.to_json()) == origin
                }
                if origin in self._bindings:
                    left = {key: one for key, one in self._bindings[origin].items() if key not in dropped}
                    self._bindings[origin] = left | bound
                elif bound or origin in self._unread:
                    before = self._unread.get(origin, frozenset())
                    self._unread[origin] = before.difference(dropped).union(bound)

    def _is_local(self, tool_id: str) -> bool:
        return any(origin.startswith("local:") for origin in self._origins_in(tool_id))

    def _origins_in(self, tool_id: str) -> set[str]:
        """Return the origins of the bindings that a tool has in this process."""
        index = self._discovery.index
        return {_origin_of(one.to_json()) for one in index.backends(tool_id)} if tool_id in index else set()

    def tools(self, origin: str) -> list[Tool]:
        """Return the tools of an origin that has answered."""
        index = self._discovery.index
        with self._lock:
            known = dict(self._bindings.get(origin, {}))
            return [index.get(tool_id).replace(backend=backend) for tool_id, backend in known.items()]

    def count(self, origin: str) -> int:
        """Return the number of tools of an origin."""
        known = self._bindings.get(origin)
        return len(self._unread.get(origin, ()) if known is None else known)

    def refused(self, origin: str) -> Mapping[str, str]:
        """Return the tools of an origin that cannot be used: names and reasons."""
        return self._refused.get(origin, {})

    def described(self, status: ServerStatus, origin: Origin) -> ServerStatus:
        """Return the status of a server with the number of its tools, and those that cannot be used."""
        more: dict[str, Any] = {}
        if status.last_error is None and origin.error is not None:
            more["last_error"] = str(origin.error)
        refused = self.refused(origin.key)
        if status.tools is None and origin.kept:
            more |= {"kept": True, "listed_ago": self.listed_ago(origin.key)}
        if refused or "kept" in more:
            more |= {"tools": self.count(origin.key), "refused": {**status.refused, **refused}}
        return status.replace(**more) if more else status

    def listed_ago(self, origin: str) -> float | None:
        """Return how many seconds ago an earlier run listed the tools of an origin."""
        listed = self._listed.get(origin)
        return None if listed is None else max(0.0, time.time() - listed)

    def miss(self, origin: str, identity: str) -> None:
        """Store that an origin did not list its tools, so that the next run waits for it only briefly.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._lock:
            store = self._discovery.index.store
            if store is not None and identity and origin not in self._missed:
                store.write_texts(_UNLISTED, {origin: identity}, ())
                self._missed.add(origin)

    def _tools_of(self, origin: str) -> dict[str, ToolBackend]:
        """Return the tools of an origin, each with its binding."""
        index = self._discovery.index
        kept: dict[str, ToolBackend] = {}
        for tool_id in self._unread.pop(origin, ()):
            if tool_id in index:
                bound = [one for one in index.backends(tool_id) if _origin_of(one.to_json()) == origin]
                kept |= {tool_id: bound[-1]} if bound else {}
        return kept | self._bindings.get(origin, {})

    def _exchange(self, before: Mapping[str, ToolBackend], pairs: Sequence[Pair]) -> dict[str, ToolBackend]:
        """Register the tools of an origin in place of those before, and return their bindings.

        It is one change of the index: no list that is made meanwhile has tools of both.
        """
        taken = {str(tool.id): backend for tool, backend in pairs}
        gone = [(tool_id, backend) for tool_id, backend in before.items() if tool_id not in taken]
        self._discovery.register_many(pairs, remove=gone)
        return taken

    def _find_valid(self, pairs: Iterable[Pair], refused: dict[str, str]) -> list[Pair]:
        """Return the tools that can be registered; the reasons against the others are put into `refused`."""
        valid: list[Pair] = []
        for tool, backend in pairs:
            try:
                self._discovery.index.check(tool, backend)
            except _REFUSALS as error:
                _LOG.warning("%s is left out: %s", tool.id, error)
                refused[tool.name] = str(error)
            else:
                valid.append((tool, backend))
        return valid
