"""Talks to a server over HTTP: streamable HTTP, and the older pair of an event stream and posts."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from toolcrib.execution.mcp.client import MAX_MESSAGE_BYTES, AnsweringClient, address_of, client_settings
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.events import event_streams
from toolcrib.execution.mcp.faults import reason_of
from toolcrib.execution.mcp.quiet import QuietClient

__all__ = ["http_transport", "reason_of", "sse_transport"]


@asynccontextmanager
async def http_transport(
    config: ServerConfig, *, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> AsyncGenerator[TransportStreams, None]:
    """Reach a server over streamable HTTP for the length of the block, with connections that are kept.

    A request that fails, whether the server is gone, refuses it or is no MCP server at all, is answered with
    an error of its own, which `reason_of` makes a line of; the others go on. The block's own exceptions come
    out of it as they are.
    """
    failure: Exception | None = None
    async with (
        AnsweringClient(max_message_bytes=max_message_bytes, **await client_settings(config)) as client,
        anyio.create_task_group() as client.tasks,
        streamable_http_client(
            address_of(config), http_client=client, max_sse_event_size=max_message_bytes
        ) as streams,
    ):
        try:
            yield streams
        except Exception as error:  # noqa: BLE001 - the block's own, which the SDK's task group would wrap
            failure = error
    if failure is not None:
        raise failure


@asynccontextmanager
async def sse_transport(
    config: ServerConfig, *, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> AsyncGenerator[TransportStreams, None]:
    """Reach a server over HTTP+SSE, the transport of 2024, for the length of the block.

    A message that cannot be posted is answered with an error of its own. When the event stream breaks off,
    the read stream brings the exception, and ends. The block's own exceptions come out of it as they are.

    Raises:
        httpx2.HTTPError: the event stream cannot be opened; `reason_of` says why in one line.
    """
    async with (
        QuietClient(**await client_settings(config)) as client,
        event_streams(client, address_of(config), max_message_bytes) as streams,
    ):
        yield streams
