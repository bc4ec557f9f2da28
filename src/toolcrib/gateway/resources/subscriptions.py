"""Subscriptions of clients to changes of resources, in both eras of the protocol."""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio.lowlevel
from mcp.server.connection import Connection
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from toolcrib.errors import LimitExceededError
from toolcrib.execution import Principal
from toolcrib.execution.mcp.change_listener import MAX_WATCHED
from toolcrib.execution.mcp.config import ContentChange
from toolcrib.gateway.identity.principals import account_of
from toolcrib.gateway.limits import share_of
from toolcrib.gateway.request.client import RequestClient
from toolcrib.gateway.request.input import limit_error
from toolcrib.gateway.resources.handlers import ContentHandlers

Concerns = Callable[[Principal | None], bool]
_LISTS: dict[str, tuple[ServerEvent, Callable[[Connection], Awaitable[None]]]] = {
    "resources": (ResourcesListChanged(), Connection.send_resource_list_changed),
    "prompts": (PromptsListChanged(), Connection.send_prompt_list_changed),
}
"""For each kind of list, the event for streams and the notification for sessions."""


@dataclass(eq=False, slots=True)
class _Watch:
    """The subscription of one session or stream to one resource."""

    uri: str
    server: str
    own: str
    """Its URI at its server."""
    session: Connection | None
    """None for a stream, which is notified through the bus."""
    stop: Callable[[], Awaitable[None]]
    principal: Principal | None
    """The subscriber."""
    owner: Hashable | None
    """The account whose login the resource was read with; None if it is shared by all."""


class ChangeBus:
    """Publishes changes to the streams of the principals that may know of them."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Principal | None, Callable[[ServerEvent], None]]] = {}

    def subscribe(
        self, listener: Callable[[ServerEvent], None], principal: Principal | None = None
    ) -> Callable[[], None]:
        """Subscribe a listener of a principal; return a function to unsubscribe."""
        key = object()
        self._listeners[key] = principal, listener
        return lambda: self._listeners.pop(key, None) and None

    async def publish(self, event: ServerEvent, concerns: Concerns = lambda _: True) -> None:
        """Publish an event to the listeners of the principals for which `concerns` is true."""
        for principal, listener in list(self._listeners.values()):
            if concerns(principal):
                listener(event)
        await anyio.lowlevel.checkpoint()  # lets the streams send this event before the next one


@dataclass(frozen=True, slots=True)
class PrincipalBus:
    """The bus of one stream, for the SDK, which subscribes its streams without their principals."""

    bus: ChangeBus
    principal: Principal

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Subscribe the stream."""
        return self.bus.subscribe(listener, self.principal)

    async def publish(self, event: ServerEvent) -> None:
        """Publish an event to all streams."""
        await self.bus.publish(event)


class Subscriptions:
    """Subscribes to resources at servers for as long as clients are subscribed here."""

    def __init__(self, content: ContentHandlers, bus: ChangeBus) -> None:
        self._content, self._bus = content, bus
        self._watches: set[_Watch] = set()

    async def subscribe(self, session: Connection, uri: str, client: RequestClient) -> None:
        """Subscribe a session to a resource, until it unsubscribes or ends.

        Raises:
            MCPError: there is no such resource, its server does not support subscriptions, or the session has
                no channel for notifications.
        """
        if not session.has_standalone_channel:
            raise MCPError(INVALID_REQUEST, "this connection has no channel for notifications")
        if any(each.session is session and each.uri == uri for each in self._watches):
            return
        is_first = not any(each.session is session for each in self._watches)
        await self._add_watch(uri, session, client)
        if is_first:
            session.exit_stack.push_async_callback(self._end_session, session)

    async def unsubscribe(self, session: Connection, uri: str) -> None:
        """Unsubscribe a session from a resource."""
        await self._end_watches(each for each in self._watches if each.session is session and each.uri == uri)

    async def _end_session(self, session: Connection) -> None:
        await self._end_watches(each for each in self._watches if each.session is session)

    @asynccontextmanager
    async def stream(self, uris: Iterable[str], client: RequestClient) -> AsyncIterator[list[str]]:
        """Subscribe a stream to resources for the duration of the block; yield those that succeed."""
        watched: list[_Watch] = []
        try:
            for uri in uris:
                try:
                    watched.append(await self._add_watch(uri, None, client))
                except MCPError:  # left out of the acknowledged ones
                    continue
            yield [each.uri for each in watched]
        finally:
            await self._end_watches(watched)

    def notifications(
        self, changes: Iterable[ContentChange], sessions: Mapping[Connection, Principal]
    ) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield the notifications of changes, for sessions and streams whose principals may know of them."""
        changes = list(changes)
        for kind, (event, send) in _LISTS.items():
            concerns = partial(self._may_hear_any, [change for change in changes if change.kind == kind])
            for session, principal in sessions.items():
                if concerns(principal):
                    yield partial(send, session)
            yield partial(self._bus.publish, event, concerns)
        for change in changes:
            if change.kind == "updated":
                yield from self._update_notifications(change, sessions)

    def _may_hear_any(self, changes: Iterable[ContentChange], principal: Principal | None) -> bool:
        return any(self._content.may_hear(change, principal) for change in changes)

    def _update_notifications(
        self, change: ContentChange, sessions: Mapping[Connection, Principal]
    ) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield the notifications of a changed resource, under each URI that clients have subscribed to."""
        uri, concerns = change.uri or "", partial(self._may_hear_any, [change])
        streamed: set[str] = set()
        for each in self._watches:
            is_part = uri == each.own or uri.startswith(f"{each.own.rstrip('/')}/")
            if (each.server, each.owner) != (change.server, change.owner) or not is_part:
                continue
            address = each.uri + uri.removeprefix(each.own)
            if each.session is None:
                streamed.add(address)
            elif concerns(sessions.get(each.session, each.principal)):
                yield partial(each.session.send_resource_updated, address)
        for address in streamed:
            yield partial(self._bus.publish, ResourceUpdated(address), concerns)

    async def _add_watch(self, uri: str, session: Connection | None, client: RequestClient) -> _Watch:
        server, own = await self._content.route(uri, client)
        principal = client.principal
        account, owner = account_of(principal), self._content.person_key(server, principal)
        taken = sum(each.server == server and account_of(each.principal) == account for each in self._watches)
        if taken >= share_of(MAX_WATCHED, account):
            reason = f"{taken} resources of {server!r} are watched for you already; unsubscribe from some"
            raise limit_error(LimitExceededError("watched_resources", reason))
        stop = await self._content.watch(server, own, client)
        watched = _Watch(uri, server, own, session, stop, principal, owner)
        self._watches.add(watched)
        return watched

    async def _end_watches(self, watched: Iterable[_Watch]) -> None:
        for each in list(watched):
            self._watches.discard(each)
            await each.stop()
