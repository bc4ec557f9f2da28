"""Transports over HTTP: streamable HTTP, and the HTTP+SSE pair of 2024.

Streamable HTTP is the SDK's client on an HTTP client of ours, which changes what the SDK leaves to chance:

- `AnsweringClient` turns a failed request into a JSON-RPC error for that request alone. The SDK would end the
  connection with all its calls.
- A cancelled call ends its HTTP request. In the legacy era the SDK waits on for the answer, and a server that
  never answers would hold a connection for good; `_AbortingStream` makes the SDK abort it.
- A call is posted from its own task where the answer is plain JSON (`AnsweringClient.post_plain`); everything
  else, event streams too, goes the SDK's way.

HTTP+SSE is a client of ours: the SDK's takes no event above 1 MiB, and lets calls whose post failed wait for
ever.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Self

import anyio
import httpx2
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import (
    failure_facts,
    place,
    reason_of,
    reason_of_status,
    refusal_facts,
)
from toolcrib.execution.mcp.transport.dispatcher import Post, TransportStreams
from toolcrib.execution.mcp.transport.http_client import (
    ABORT,
    MAX_MESSAGE_BYTES,
    MAX_NOTIFICATIONS,
    NOTIFICATION_SECONDS,
    AnsweringClient,
    address_of,
    client_settings,
)
from toolcrib.execution.mcp.transport.lines import DroppedMessages, read_line
from toolcrib.execution.mcp.transport.quiet_client import QuietClient
from toolcrib.execution.mcp.transport.redirects import request_within_origin, sse_within_origin
from toolcrib.execution.oauth.bearer import BearerAuth

_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]
_OUTBOX = 256


@asynccontextmanager
async def http_transport(
    config: ServerConfig,
    *,
    auth: BearerAuth | None = None,
    dropped: DroppedMessages | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> AsyncGenerator[TransportStreams, None]:
    """Reach a server over streamable HTTP for the length of the block, with connections that are kept.

    A request that fails, whether the server is gone, refuses it or is no MCP server at all, is answered with
    an error of its own, which `reason_of` makes a line of; the others go on. The block's own exceptions come
    out of it as they are. Events that are no messages are counted in `dropped`.
    """
    failure: Exception | None = None
    settings = await client_settings(config, auth)
    async with (
        AnsweringClient(
            dropped=dropped, max_message_bytes=max_message_bytes, login=auth, **settings
        ) as client,
        anyio.create_task_group() as client.tasks,
        streamable_http_client(
            address_of(config), http_client=client, max_sse_event_size=max_message_bytes
        ) as (read, write),
    ):
        try:
            can_post = client.open_posts(config, settings)
            yield read, _AbortingStream(write, client.post_plain if can_post else None)
        except Exception as error:  # noqa: BLE001 - the block's own, which the SDK's task group would wrap
            failure = error
        finally:
            await client.close_posts()
    if failure is not None:
        raise failure


class _AbortingStream:
    """The stream that a session writes to, which also aborts the HTTP request of a cancelled call.

    The SDK does so in the modern era alone. In both it aborts a request when another one takes its id: here a
    pseudo-request, which `AnsweringClient` does not send.
    """

    def __init__(self, stream: Any, post_plain: Post | None) -> None:
        self._stream = stream
        self.post_plain = post_plain
        """Sends a request in the task of its sender; see `AnsweringClient.post_plain`."""

    async def send(self, item: SessionMessage, /) -> None:
        """Pass a message on."""
        await self._stream.send(item)
        number = _cancelled_request(item)
        if number is not None:
            aborting = JSONRPCRequest(jsonrpc="2.0", id=number, method=ABORT)
            await self._stream.send(SessionMessage(aborting))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _cancelled_request(item: SessionMessage) -> RequestId | None:
    """Return which request a message cancels."""
    message = item.message
    if not isinstance(message, JSONRPCNotification) or message.method != "notifications/cancelled":
        return None
    return cancelled_request_id_from_params(message.params)


@asynccontextmanager
async def sse_transport(
    config: ServerConfig,
    *,
    auth: BearerAuth | None = None,
    dropped: DroppedMessages | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> AsyncGenerator[TransportStreams, None]:
    """Reach a server over HTTP+SSE, the transport of 2024, for the length of the block.

    A message that cannot be posted is answered with an error of its own. When the event stream breaks off,
    the read stream brings the exception, and ends. The block's own exceptions come out of it as they are.

    Raises:
        httpx2.HTTPError: the event stream cannot be opened; `reason_of` says why in one line.
    """
    async with (
        QuietClient(dropped=dropped, **await client_settings(config, auth)) as client,
        event_streams(client, address_of(config), max_message_bytes, dropped) as streams,
    ):
        yield streams


@asynccontextmanager
async def event_streams(
    client: httpx2.AsyncClient, url: str, max_message_bytes: int, dropped: DroppedMessages | None = None
) -> AsyncGenerator[TransportStreams, None]:
    """Open the event stream, wait until the server says where to post, and give the streams of a session.

    The SDK's own client of this transport is not used, because it takes no event above 1 MiB and lets calls
    wait for ever whose post has failed.
    """
    failure: Exception | None = None
    async with sse_within_origin(client, url, max_event_size=max_message_bytes) as source:
        _raise_for_status(source.response)
        async with aclosing(_events(source)) as events:
            endpoint = await _receive_endpoint(events, source.response.request)
            incoming, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            outbox, outgoing = anyio.create_memory_object_stream[SessionMessage](_OUTBOX)
            with incoming, inbox, outbox, outgoing:
                async with anyio.create_task_group() as tasks:
                    poster = _Poster(client, endpoint, incoming, tasks)
                    useless = dropped or DroppedMessages("")
                    tasks.start_soon(_listen, events, incoming, outgoing, poster.answered, useless)
                    tasks.start_soon(poster.run, outgoing)
                    try:
                        yield inbox, outbox
                    except Exception as error:  # noqa: BLE001 - the block's own, which the group would wrap
                        failure = error
                    finally:
                        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _raise_for_status(response: httpx2.Response) -> None:
    if not response.is_success:  # the client's own way to say it shows the whole address
        reason = reason_of_status(response)
        raise httpx2.HTTPStatusError(reason, request=response.request, response=response)


async def _events(source: httpx2.EventSource) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
    async for event in source:
        yield event


async def _receive_endpoint(
    events: AsyncIterator[httpx2.ServerSentEvent], request: httpx2.Request
) -> httpx2.URL:
    """Return the address for posts: one of the same server, since the headers are for no other."""
    async for event in events:
        if event.event == "endpoint":
            endpoint = request.url.join(event.data)
            if (endpoint.scheme, endpoint.host, endpoint.port) != (
                request.url.scheme,
                request.url.host,
                request.url.port,
            ):
                reason = (
                    f"{place(request.url)} wants messages to be sent to another server, {place(endpoint)}"
                )
                raise httpx2.SSEError(reason, request=request)
            return endpoint
    reason = f"{place(request.url)} ended the event stream before it named the address to post to"
    raise httpx2.SSEError(reason, request=request)


async def _listen(
    events: AsyncIterator[httpx2.ServerSentEvent],
    incoming: _Incoming,
    outgoing: _Outgoing,
    answered: Callable[[RequestId | None], None],
    dropped: DroppedMessages,
) -> None:
    """Relay messages from the server, until its stream ends."""
    try:
        async for event in events:
            messages = read_line(event.data.encode()) if event.event == "message" else ()
            if event.event != "message":
                dropped.note("an event of an unknown type")
            elif not messages and event.data:
                dropped.note("an event that is not JSON-RPC")
            for message in messages:
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    answered(message.id)
                await incoming.send(SessionMessage(message))
        ending: Exception = ConnectionError("the server ended the event stream")
    except httpx2.HTTPError as error:
        ending = error
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # nobody listens any more
    with incoming, outgoing, anyio.move_on_after(1), suppress(anyio.BrokenResourceError):
        await incoming.send(ending)


class _Poster:
    """Posts messages side by side, so that one which hangs does not hold up the others.

    The post of a request ends with it: at once if it is cancelled, and soon after its answer, though the
    server may hold the response open for good.
    """

    def __init__(
        self, client: httpx2.AsyncClient, endpoint: httpx2.URL, incoming: _Incoming, tasks: TaskGroup
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._incoming = incoming
        self._tasks = tasks
        self._requests: dict[RequestId, anyio.CancelScope] = {}
        self._notifications = anyio.Semaphore(MAX_NOTIFICATIONS)

    def answered(self, number: RequestId | None) -> None:
        """Note that the answer to a request has come over the event stream."""
        scope = None if number is None else self._requests.get(coerce_request_id(number))
        if scope is not None:
            scope.deadline = anyio.current_time() + NOTIFICATION_SECONDS

    async def run(self, outgoing: _Outgoing) -> None:
        """Post all messages of the session."""
        try:
            async for message in outgoing:
                content = message.message
                if isinstance(content, JSONRPCRequest):
                    scope = self._requests[coerce_request_id(content.id)] = anyio.CancelScope()
                    self._tasks.start_soon(self._post_request, message, content.id, scope)
                    continue
                number = _cancelled_request(message)
                if number is not None and (post := self._requests.get(coerce_request_id(number))):
                    post.cancel()
                if getattr(content, "method", "") == "notifications/initialized":
                    await self._post_notification(
                        message
                    )  # what follows the greeting must not overtake its end
                else:
                    self._tasks.start_soon(self._post_notification, message)
        except anyio.ClosedResourceError:
            return  # the event stream has ended

    async def _post_request(
        self, message: SessionMessage, number: RequestId, scope: anyio.CancelScope
    ) -> None:
        try:
            with scope:
                await self._post(message)
        finally:
            del self._requests[coerce_request_id(number)]

    async def _post_notification(self, message: SessionMessage) -> None:
        with anyio.move_on_after(NOTIFICATION_SECONDS):
            async with self._notifications:
                await self._post(message)

    async def _post(self, message: SessionMessage) -> None:
        try:
            body = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            headers = {"content-type": "application/json"}
            response = await request_within_origin(
                self._client, "POST", self._endpoint, content=body, headers=headers
            )
            _raise_for_status(response)
        except ValueError as error:  # arguments that are no JSON
            reason = f"the arguments are not JSON: {error}"
            await self._fail(message, ErrorData(code=INVALID_PARAMS, message=reason))
        except httpx2.HTTPStatusError as error:
            facts = refusal_facts(error.response)
            await self._fail(message, ErrorData(code=CONNECTION_CLOSED, message=reason_of(error), data=facts))
        except httpx2.HTTPError as error:
            facts = failure_facts(error)
            await self._fail(message, ErrorData(code=CONNECTION_CLOSED, message=reason_of(error), data=facts))

    async def _fail(self, message: SessionMessage, error: ErrorData) -> None:
        if isinstance(message.message, JSONRPCRequest):
            answer = JSONRPCError(jsonrpc="2.0", id=message.message.id, error=error)
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # nobody waits any more
                await self._incoming.send(SessionMessage(answer))
