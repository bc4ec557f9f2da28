"""The resources whose changes clients want to hear of, in both eras of the protocol."""

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
from toolcrib.gateway.clients.client import RequestClient
from toolcrib.gateway.clients.input_requests import limit_error
from toolcrib.gateway.content.handlers import ContentHandlers
from toolcrib.gateway.identity.principals import PRINCIPAL, account_of
from toolcrib.gateway.limits import share_of

Concerns = Callable[[Principal | None], bool]
_LISTS: dict[str, tuple[ServerEvent, Callable[[Connection], Awaitable[None]]]] = {
    "resources": (ResourcesListChanged(), Connection.send_resource_list_changed),
    "prompts": (PromptsListChanged(), Connection.send_prompt_list_changed),
}
"""How streams and sessions are told that a list has changed."""


@dataclass(eq=False, slots=True)
class _Watch:
    """A resource that one session or one stream hears of."""

    uri: str
    server: str
    own: str
    """Its address at its server."""
    session: Connection | None
    """None for a stream, which the bus of the endpoint notifies."""
    stop: Callable[[], Awaitable[None]]
    principal: Principal | None
    """Who subscribed to it."""
    owner: Hashable | None
    """Whose the resource is; None where it is everybody's."""


class ChangeBus:
    """Carries what has changed to the streams of those whom it concerns."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Principal | None, Callable[[ServerEvent], None]]] = {}

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have a listener hear what concerns whoever makes the request; returns what stops that."""
        key = object()
        self._listeners[key] = PRINCIPAL.get(), listener
        return lambda: self._listeners.pop(key, None) and None

    async def publish(self, event: ServerEvent, concerns: Concerns = lambda _: True) -> None:
        """Have the listeners of those whom it concerns hear of something."""
        for principal, listener in list(self._listeners.values()):
            if concerns(principal):
                listener(event)
        await anyio.lowlevel.checkpoint()  # so that streams send what they have before there is more


class Subscriptions:
    """Has servers tell of the resources that clients subscribe to, for as long as those want it."""

    def __init__(self, content: ContentHandlers, bus: ChangeBus) -> None:
        self._content, self._bus = content, bus
        self._watches: set[_Watch] = set()

    async def subscribe(self, session: Connection, uri: str, client: RequestClient) -> None:
        """Tell a session of a resource until it ends, or wants that no more.

        Raises:
            MCPError: there is no such resource, its server tells nothing of it, or no session can be told.
        """
        if not session.has_standalone_channel:
            raise MCPError(INVALID_REQUEST, "this connection has no channel for notifications")
        if any(each.session is session and each.uri == uri for each in self._watches):
            return
        is_first = not any(each.session is session for each in self._watches)
        await self._watch(uri, session, client)
        if is_first:
            session.exit_stack.push_async_callback(self._end_session, session)

    async def unsubscribe(self, session: Connection, uri: str) -> None:
        """Tell a session of a resource no more."""
        await self._end(each for each in self._watches if each.session is session and each.uri == uri)

    async def _end_session(self, session: Connection) -> None:
        await self._end(each for each in self._watches if each.session is session)

    @asynccontextmanager
    async def stream(self, uris: Iterable[str], client: RequestClient) -> AsyncIterator[list[str]]:
        """Have servers tell of resources for the length of the block, and give those of which they do."""
        watched: list[_Watch] = []
        try:
            for uri in uris:
                try:
                    watched.append(await self._watch(uri, None, client))
                except MCPError:  # it is left out of those that are acknowledged
                    continue
            yield [each.uri for each in watched]
        finally:
            await self._end(watched)

    def notifications(
        self, changes: Iterable[ContentChange], sessions: Mapping[Connection, Principal]
    ) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield what tells sessions and streams of changes, each of those that its principal may know of."""
        changes = list(changes)
        for kind, (event, send) in _LISTS.items():
            concerns = partial(self._concerns, [change for change in changes if change.kind == kind])
            for session, principal in sessions.items():
                if concerns(principal):
                    yield partial(send, session)
            yield partial(self._bus.publish, event, concerns)
        for change in changes:
            if change.kind == "updated":
                yield from self._updates(change, sessions)

    def _concerns(self, changes: Iterable[ContentChange], principal: Principal | None) -> bool:
        return any(self._content.may_hear(change, principal) for change in changes)

    def _updates(
        self, change: ContentChange, sessions: Mapping[Connection, Principal]
    ) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield what tells of a changed resource, under each address by which it is watched."""
        uri, concerns = change.uri or "", partial(self._concerns, [change])
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

    async def _watch(self, uri: str, session: Connection | None, client: RequestClient) -> _Watch:
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

    async def _end(self, watched: Iterable[_Watch]) -> None:
        for each in list(watched):
            self._watches.discard(each)
            await each.stop()
