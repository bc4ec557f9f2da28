"""Lists a server's tools, and keeps the list current while a connection lives."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import METHOD_NOT_FOUND

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import InvalidToolError, InvalidVersionError, ServerUnavailableError
from toolcrib.execution.mcp.config import OnTools
from toolcrib.execution.mcp.connection import Connection
from toolcrib.execution.mcp.errors import reason_of
from toolcrib.execution.mcp.freshness import UNKNOWN, Freshness
from toolcrib.execution.mcp.gateways import GatewayLoopError, declared_gateways
from toolcrib.execution.mcp.own_names import OWN_NAME, mend_name
from toolcrib.execution.mcp.transport.lines import MAX_LEVELS, TOO_DEEP
from toolcrib.model.tool import Tool
from toolcrib.version import Version

_MAX_PAGES = 1_000
_MAX_TOOLS = 100_000
_MAX_SIZE = 256 * 2**20
"""Characters of the definitions in one listing, at most."""
_SLICE = 0.01
"""Seconds that definitions are looked at before others have their turn in the loop."""

Page = Callable[[str | None], Awaitable[dict[str, Any]]]
"""Asks a server for the page of its tools that a cursor stands for."""
_log = logging.getLogger(__name__)
_GATHER = 0.05
"""Seconds to wait after a change for those that come with it."""
_SHARE = 4
"""A server that always changes is listed for a fifth of the time at most."""
_LONGEST_GATHER = 0.5
_FIRST_RETRY = 0.1
"""Seconds before a failed listing is repeated, after another change was announced."""
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The result of one complete listing of a server."""

    tools: tuple[Tool, ...]
    refused: dict[str, str]
    """The definitions that are no tools, by name, and why."""
    freshness: Freshness = UNKNOWN
    """The freshness that the server declares."""


async def all_definitions(page: Page) -> list[Any]:
    """Return the definitions of all pages, as they came.

    Raises:
        ValueError: a page is no listing, the pages do not end, or they are too large together.
    """
    definitions: list[Any] = []
    size = 0
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        listed = await page(cursor)
        found = listed.get("tools")
        if not isinstance(found, list):
            raise ValueError("it answered tools/list without a list of tools")  # noqa: TRY004 - as the others
        definitions += found
        if len(definitions) > _MAX_TOOLS:
            raise ValueError(f"it lists more than {_MAX_TOOLS:,} tools")
        async for definition in _in_batches(found):
            size += len(str(definition))
        if size > _MAX_SIZE:
            raise ValueError(f"its listing of tools is larger than {_MAX_SIZE // 2**20} MiB")
        cursor = listed.get("nextCursor")
        if cursor is None:
            return definitions
        if not isinstance(cursor, str) or cursor in seen or len(seen) >= _MAX_PAGES:
            raise ValueError(f"its listing of tools does not end: {len(seen) + 1} pages, then {cursor!r:.80}")
        seen.add(cursor)


async def _in_batches(definitions: Sequence[Any]) -> AsyncIterator[Any]:
    """Yield definitions, and let others have their turn every few milliseconds."""
    began = monotonic()
    for definition in definitions:
        yield definition
        if monotonic() - began >= _SLICE:
            await checkpoint()
            began = monotonic()


async def read_definitions(
    definitions: Sequence[Any], server: str, *, has_headers: bool = False
) -> ToolListing:
    """Return the tools that definitions describe; of two with the same name, the first.

    With `has_headers`, arguments are also sent in headers that their schema names, which must be valid.

    >>> import anyio
    >>> from toolcrib.execution.mcp.own_names import own_name
    >>> definitions = [{"name": "a b", "inputSchema": {}}, {"name": "c"}]
    >>> catalogue = anyio.run(read_definitions, definitions, "files")
    >>> catalogue.tools[0].id.name, own_name(catalogue.tools[0])
    ('a_b-c8687a08', 'a b')
    >>> catalogue.refused
    {'c': "invalid tool 'c': /inputSchema: is required"}
    """
    tools: dict[str, Tool] = {}
    refused: dict[str, str] = {}
    placed = {"namespace": mend_name(server), "backend": {"kind": "mcp", "serverName": server}}
    number = 0
    async for definition in _in_batches(definitions):
        number += 1
        if not isinstance(definition, dict) or not isinstance(definition.get("name"), str):
            refused[f"#{number}"] = "it is not a tool definition: it must be an object with a name"
            continue
        name = definition["name"]
        if TOO_DEEP in definition:
            refused[name] = f"its definition is nested more than {MAX_LEVELS} levels deep"
            continue
        if has_headers and (fault := find_invalid_x_mcp_header(definition.get("inputSchema"))):
            refused.setdefault(name, fault)
            continue
        try:
            tool = Tool.from_json(_mend_definition(definition) | placed)
        except InvalidToolError as error:
            refused.setdefault(name, str(error))
            continue
        if tools.setdefault(tool.name, tool) is not tool:
            refused.setdefault(name, "the server has another tool of this name, and the first one is used")
    return ToolListing(tuple(tools.values()), refused)


def _mend_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition under a name we can use, and without a version and tags that are none."""
    mended = {key: value for key, value in definition.items() if key not in {"version", "tags"}}
    if _is_version(definition.get("version")):
        mended["version"] = definition["version"]
    tags = definition.get("tags")
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        mended["tags"] = tags
    name = mended["name"] = mend_name(definition["name"])
    meta = definition.get("_meta")
    if isinstance(meta, dict) and OWN_NAME in meta:
        meta = mended["_meta"] = {key: value for key, value in meta.items() if key != OWN_NAME}
    if name != definition["name"] and isinstance(meta, dict | None):
        mended["_meta"] = {**(meta or {}), OWN_NAME: definition["name"]}
    return mended


def _is_version(version: Any) -> bool:
    try:
        Version.parse(version)
    except InvalidVersionError:
        return False
    return True


class _PendingListing:
    """One listing that several may wait for."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.catalogue: ToolListing | None = None
        self.failure: Exception | None = None


class ToolListWatcher:
    """The tools of one server, across all its connections."""

    def __init__(self, server: str, on_tools: OnTools | None, gateway: str = "") -> None:
        """Watch a server for a gateway, which is known by an id."""
        self._server, self.gateway = server, gateway
        self.gateways: frozenset[str] = frozenset()
        """The gateways that the server declares to be, or to have behind it."""
        self._on_tools = on_tools
        self._wanted = anyio.Event()
        self._requested = anyio.Event()
        self._failures = 0
        self._backoff = Backoff(_FIRST_RETRY, _LONGEST_PAUSE)
        self._pending = _PendingListing()
        self._listed = 0.0
        self._announced = self._covered = 0
        """How many connections and changes there were, and how many of these the last listing has seen."""
        self._connection: Connection | None = None
        self.catalogue: ToolListing | None = None
        """What the last complete listing gave."""

    @property
    def age(self) -> float | None:
        """Return how many seconds ago the last complete listing was."""
        return None if self.catalogue is None else anyio.current_time() - self._listed

    @property
    def freshness(self) -> Freshness:
        """Return the remaining freshness of the last complete listing of a running server."""
        if self.catalogue is None or self._connection is None or self._connection.gone:
            return UNKNOWN
        return self.catalogue.freshness.after(self.age or 0.0)

    def mute(self) -> None:
        """Stop notifying the listener."""
        self._on_tools = None

    @property
    def is_current(self) -> bool:
        """Return whether the last listing is of this connection, and no change was announced since."""
        return self._covered == self._announced and self.catalogue is not None

    def note_change(self) -> None:
        """Record that the server announced a change of its tools."""
        self._announced += 1
        self._wanted.set()

    @property
    def busy(self) -> bool:
        """Return whether a caller waits for a listing."""
        return self._requested.is_set()

    async def wait_for_listing(self) -> ToolListing:
        """Return the result of the listing in progress, or of a new one; `follow` must be running.

        Raises:
            ServerUnavailableError: it cannot be listed.
        """
        current = self._pending
        self._requested.set()
        self._wanted.set()
        await current.done.wait()
        if current.catalogue is None:
            failure = current.failure or RuntimeError("it was not listed")
            reason = f"its tools cannot be listed: {reason_of(failure)}"
            raise ServerUnavailableError(self._server, reason) from failure
        return current.catalogue

    def fail_waiters(self, failure: Exception) -> None:
        """Fail those who wait for a listing: there will be none."""
        if self.busy:
            self._settle(None, failure)

    async def follow(self, connection: Connection, *, within: float) -> None:
        """List a server on request, and after changes of its tools, until cancelled.

        A listing may take `within` seconds. With a listener, the first starts at once. A listing that a
        change of the server causes starts after a pause, which grows while listings fail.
        """
        self._connection, self.gateways = connection, connection.gateways
        self._announced += 1
        if self._on_tools is not None:
            self._wanted.set()
        pause = 0.0 if self.catalogue is None else _GATHER
        while True:
            await self._wanted.wait()
            with anyio.move_on_after(pause):
                await self._requested.wait()
            self._wanted = anyio.Event()
            began, announced = anyio.current_time(), self._announced
            try:
                with anyio.fail_after(within):
                    listing = await self._list(connection)
            except (MCPError, TimeoutError, ValueError) as error:
                pause = self._note_failure(error)
            except GatewayLoopError as error:  # it came about after the connection, which ends by it
                self._settle(None, error)
                raise
            else:
                self._report(listing)
                self.catalogue, self._covered = listing, announced
                self._failures, connection.listed = 0, True
                self._backoff.reset()
                self._listed = anyio.current_time()
                self._notify(self.catalogue)
                self._settle(self.catalogue, None)
                pause = min(_LONGEST_GATHER, max(_GATHER, _SHARE * (anyio.current_time() - began)))

    def _report(self, listing: ToolListing) -> None:
        """Log which tools were left out, unless the listing before left out the same."""
        known = {} if self.catalogue is None else self.catalogue.refused
        if not listing.refused or listing.refused == known:
            return
        name, reason = next(iter(listing.refused.items()))
        count = len(listing.refused)
        what = (
            f"1 tool of server {self._server!r} is"
            if count == 1
            else f"{count:,} tools of server {self._server!r} are"
        )
        others = "" if count == 1 else ", and others"
        _log.warning("%s left out: %r: %.200s%s", what, name, reason, others)

    def _note_failure(self, error: Exception) -> float:
        """Tell that a listing failed, and return the seconds to wait before the next."""
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:  # ever more rarely: a failure that lasts says nothing
            count = f" ({self._failures} times in a row)" if self._failures > 1 else ""
            _log.warning(
                "the tools of server %r cannot be listed%s: %s", self._server, count, reason_of(error)
            )
        self._settle(None, error)
        return self._backoff.next()

    async def _list(self, connection: Connection) -> ToolListing:
        pages: list[dict[str, Any]] = []

        async def page(cursor: str | None) -> dict[str, Any]:
            try:
                found = await connection.request("tools/list", {} if cursor is None else {"cursor": cursor})
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND and cursor is None:
                    return {"tools": []}  # a server that has resources or prompts alone
                raise
            pages.append({key: value for key, value in found.items() if key != "tools"})
            return found

        definitions = await all_definitions(page)
        self.gateways = connection.gateways.union(
            *(declared_gateways(each.get("_meta"), self.gateway) for each in pages)
        )
        listing = await read_definitions(definitions, self._server, has_headers=connection.has_call_headers)
        return replace(listing, freshness=Freshness.of(pages))

    def _notify(self, catalogue: ToolListing) -> None:
        if self._on_tools is None:
            return
        try:
            self._on_tools(self._server, catalogue.tools)
        except Exception:  # noqa: BLE001 - it is the user's code, and must not cost the connection
            _log.exception("on_tools failed for server %r", self._server)

    def _settle(self, catalogue: ToolListing | None, failure: Exception | None) -> None:
        ended, self._pending, self._requested = self._pending, _PendingListing(), anyio.Event()
        ended.catalogue, ended.failure = catalogue, failure
        ended.done.set()
