"""Listens for changes of a server, and keeps the client's subscriptions, in both eras."""

import logging
from collections.abc import Callable
from functools import partial

import anyio
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionLost,
    ToolsListChanged,
    listen,
)
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import RequestRefusedError
from toolcrib.execution.mcp.config import ChangeKind, ContentChange, OnContent
from toolcrib.execution.mcp.connection import Connection
from toolcrib.redaction import hide_secrets

MAX_WATCHED = 1_000
"""The maximum number of resources of one server that are watched at the same time."""
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_OPENING = 5.0
"""Seconds that a client waits until a modern server has agreed to tell of a resource."""
_log = logging.getLogger(__name__)


class ChangeListener:
    """The changes announced by one server, across all its connections.

    A legacy server notifies by itself, and of resources that are subscribed to one by one. A
    modern one notifies over a stream that lists what is wanted: when that changes, another stream is
    opened before the one before is closed, so that nothing is missed.
    """

    def __init__(
        self,
        server: str,
        tools_changed: Callable[[], None],
        on_content: OnContent | None = None,
        watched: dict[str, int] | None = None,
    ) -> None:
        """Start with resources that are watched already, in a dict shared with its owner."""
        self._server = server
        self._tools_changed = tools_changed
        self._on_content = on_content
        self._watched = {} if watched is None else watched
        self._connection: Connection | None = None
        self._wake = anyio.Event()
        self._opened = anyio.Event()

    @property
    def watched(self) -> dict[str, int]:
        """The resources that are watched, and by how many."""
        return self._watched

    @property
    def busy(self) -> bool:
        """Return whether any resource is watched."""
        return bool(self._watched)

    def mute(self) -> None:
        """Stop notifying listeners."""
        self._on_content = None

    def notify(self, kind: ChangeKind, uri: str | None) -> None:
        """Notify listeners of a change, except for a resource that is not watched."""
        if self._on_content is None or (kind == "updated" and not self._watched):
            return
        try:
            self._on_content(ContentChange(self._server, kind, uri))
        except Exception:  # noqa: BLE001 - it is the user's code, and must not cost the connection
            _log.exception("on_content failed for server %r", self._server)

    async def watch(self, connection: Connection, uri: str) -> None:
        """Subscribe to a resource; the server gets one request, however many watch it.

        Raises:
            RequestRefusedError: the server does not, or too many are watched.
        """
        if uri not in self._watched and len(self._watched) >= MAX_WATCHED:
            raise RequestRefusedError(
                self._server, "resources/subscribe", f"{MAX_WATCHED:,} resources are watched already"
            )
        declared = connection.session.server_capabilities
        if declared is not None and not (declared.resources and declared.resources.subscribe):
            raise RequestRefusedError(
                self._server, "resources/subscribe", "it does not report changed resources"
            )
        self._watched[uri] = self._watched.get(uri, 0) + 1
        if self._watched[uri] > 1:
            return
        try:
            if connection.modern:
                await self._wait_to_reopen()
            else:
                await self._subscribe(connection, uri)
        except BaseException:
            self._drop(uri)
            raise

    async def unwatch(self, uri: str) -> None:
        """End the subscription to a resource with its last watcher."""
        if not self._drop(uri) or self._connection is None:
            return
        if self._connection.modern:
            self._wake.set()
            return
        await self._unsubscribe(self._connection, uri)

    async def synchronize(self, uri: str) -> None:
        """Subscribe a legacy connection to a resource, or unsubscribe it, to match `watched`.

        For the listener of a second connection, which shares `watched` with that of the first.
        """
        connection = self._connection
        if connection is None or (uri in self._watched) == (uri in connection.subscribed):
            return
        if uri not in self._watched:
            await self._unsubscribe(connection, uri)
            return
        try:
            await self._subscribe(connection, uri)
        except RequestRefusedError as error:
            _log.debug("server %r reports a resource over one connection only: %s", self._server, error)

    async def _unsubscribe(self, connection: Connection, uri: str) -> None:
        connection.subscribed.discard(uri)
        try:
            await connection.request("resources/unsubscribe", {"uri": uri})
        except MCPError as error:
            _log.debug("server %r does not end a subscription: %s", self._server, error)

    def _drop(self, uri: str) -> bool:
        """Count one less who watches a resource, and return whether that was the last."""
        left = self._watched.get(uri, 0) - 1
        if left > 0:
            self._watched[uri] = left
            return False
        return self._watched.pop(uri, None) is not None

    async def _subscribe(self, connection: Connection, uri: str) -> None:
        connection.subscribed.add(uri)
        try:
            await connection.request("resources/subscribe", {"uri": uri})
        except MCPError as error:
            connection.subscribed.discard(uri)
            reason = hide_secrets(error.message)
            raise RequestRefusedError(self._server, "resources/subscribe", reason, error.code) from error

    async def _wait_to_reopen(self) -> None:
        self._opened = opened = anyio.Event()
        self._wake.set()
        with anyio.move_on_after(_OPENING):
            await opened.wait()

    async def run(self, connection: Connection) -> None:
        """Receive changes over a connection, until cancelled."""
        self._connection = connection
        try:
            if connection.modern:
                await self._listen(connection)
            else:
                await self._subscribe_again(connection)
                await anyio.sleep_forever()
        finally:
            self._connection = None

    async def _subscribe_again(self, connection: Connection) -> None:
        """Subscribe a new connection to the watched resources, which may have changed."""
        for uri in [uri for uri in self._watched if uri not in connection.subscribed]:
            try:
                await self._subscribe(connection, uri)
            except RequestRefusedError as error:
                _log.debug("server %r no longer reports changes of a resource: %s", self._server, error)
            else:
                self.notify("updated", uri)

    async def _listen(self, connection: Connection) -> None:
        missed = bool(self._watched)  # on a connection before, until it ended
        async with anyio.create_task_group() as tasks:
            before: anyio.CancelScope | None = None
            while True:
                self._wake, opened = anyio.Event(), self._opened
                ready, scope = anyio.Event(), anyio.CancelScope()
                tasks.start_soon(partial(self._stream, connection, ready, scope, missed=missed))
                await ready.wait()
                missed = False
                opened.set()
                if before is not None:
                    before.cancel()
                before = scope
                await self._wake.wait()

    async def _stream(
        self, connection: Connection, ready: anyio.Event, scope: anyio.CancelScope, *, missed: bool
    ) -> None:
        """Follow one stream, which is opened again when it ends."""
        wanted = self._wanted(connection)
        uris = tuple(self._watched)
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        with scope:
            while wanted or uris:
                try:
                    async with listen(
                        connection.session,
                        tools_list_changed="tools" in wanted,
                        resources_list_changed="resources" in wanted,
                        prompts_list_changed="prompts" in wanted,
                        resource_subscriptions=uris,
                    ) as events:
                        backoff.reset()
                        ready.set()
                        if missed:
                            self._notify_all(wanted, uris)
                        async for event in events:
                            self._notify(event)
                except MCPError as error:
                    _log.debug("server %r does not report changes: %s", self._server, error)
                    if error.code == METHOD_NOT_FOUND:
                        break
                except SubscriptionLost:
                    _log.debug("server %r stopped reporting changes; listening again", self._server)
                missed = True  # what happens until it is heard again
                ready.set()
                await backoff.sleep()
        ready.set()

    def _wanted(self, connection: Connection) -> tuple[str, ...]:
        """Return the lists whose changes the server announces, and a listener needs."""
        declared = connection.session.server_capabilities
        if declared is None:
            return ()
        parts = {"tools": declared.tools, "resources": declared.resources, "prompts": declared.prompts}
        return tuple(
            name
            for name, part in parts.items()
            if part is not None and part.list_changed and (name == "tools" or self._on_content is not None)
        )

    def _notify(self, event: ServerEvent) -> None:
        match event:
            case ToolsListChanged():
                self._tools_changed()
            case ResourcesListChanged():
                self.notify("resources", None)
            case PromptsListChanged():
                self.notify("prompts", None)
            case ResourceUpdated(uri=uri):
                self.notify("updated", uri)

    def _notify_all(self, wanted: tuple[str, ...], uris: tuple[str, ...]) -> None:
        """Notify listeners that anything may have changed while there was no connection."""
        if "tools" in wanted:
            self._tools_changed()
        if "resources" in wanted:
            self.notify("resources", None)
        if "prompts" in wanted:
            self.notify("prompts", None)
        for uri in uris:
            self.notify("updated", uri)
