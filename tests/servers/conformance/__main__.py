"""A server with everything that the official conformance suite requires, in both eras of the protocol.

`python -m servers.conformance` serves stdio, and `--http PORT` streamable HTTP on 127.0.0.1, where 0 takes a free
port; the port is the first line on standard output. `--handshake` makes a server that knows only the handshake.
"""

import argparse
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from servers.conformance import content, jobs, questions  # noqa: F401 - two of them only add tools
from servers.conformance.calls import Call, Context, InputNeededError, Json
from servers.conformance.tasks import Tasks, add_tasks, lifespan
from servers.conformance.tools import BUS, TOOLS, Answer, run_tool
from servers.faulty import HandshakeOnly, serve_http

HINT = CacheHint(ttl_ms=60_000, scope="private")
RETRY_MS = 100


class Fixture(Server[Tasks]):
    """A server that declares in the handshake too that its lists may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, Json] | None = None,
        extensions: dict[str, Json] | None = None,
    ) -> InitializationOptions:
        """Return the server's part of the handshake."""
        options = notification_options or NotificationOptions(prompts_changed=True, tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Events(EventStore):
    """Stores sent messages, so that a client can reconnect to a stream."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Keep an event, and return its id."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the messages that followed an event on its stream."""
        last = int(last_event_id)
        stream = self._events[last - 1][0]
        for number, (each, message) in enumerate(self._events[last:], last + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Answer `tools/list`."""
    return types.ListToolsResult(tools=[entry.tool for entry in TOOLS.values()])


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
    """Answer `tools/call`."""
    call = Call(ctx, params.arguments or {}, params.input_responses or {}, params.request_state)
    answer: Answer
    try:
        answer = await run_tool(call, params.name)
    except InputNeededError as needed:
        answer = needed.result
    return answer


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    """Answer `prompts/get`."""
    call = Call(ctx, dict(params.arguments or {}), params.input_responses or {}, params.request_state)
    try:
        return await content.get_prompt(call, params.name)
    except InputNeededError as needed:
        return needed.result


async def accept(_: Context, __: Any) -> types.EmptyResult:
    """Answer a request that changes nothing here."""
    return types.EmptyResult()


def make_server() -> Fixture:
    """Return the server with everything in it."""
    server = Fixture(
        "conformance",
        version="1.0.0",
        instructions="Ask for what the official conformance suite names.",
        lifespan=lifespan,
        cache_hints={
            "tools/list": HINT,
            "prompts/list": HINT,
            "resources/list": HINT,
            "resources/templates/list": HINT,
            "resources/read": HINT,
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=content.list_resources,
        on_list_resource_templates=content.list_templates,
        on_read_resource=content.read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(BUS),
        on_list_prompts=content.list_prompts,
        on_get_prompt=get_prompt,
        on_completion=content.complete,
        on_set_logging_level=accept,
    )
    add_tasks(server)
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


async def serve_stdio(server: Fixture, *, handshake: bool) -> None:
    """Serve one client on standard input and output."""
    async with stdio_server() as (read, write):
        if handshake:
            async with lifespan(server) as tasks:
                await serve_loop(server, read, write, lifespan_state=tasks)
        else:
            await server.run(read, write, server.create_initialization_options())


def main() -> None:
    """Serve as asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--http", type=int, metavar="PORT")
    options.add_argument("--handshake", action="store_true")
    wanted = options.parse_args()
    warnings.simplefilter("ignore")  # some of what it serves is deprecated in one of the eras
    server = make_server()
    if wanted.http is None:
        anyio.run(lambda: serve_stdio(server, handshake=wanted.handshake))
        return
    app = server.streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
    # Uvicorn's other parser keeps the spaces after a header's value, which are not part of it.
    serve_http(HandshakeOnly(app) if wanted.handshake else app, wanted.http, "h11")


if __name__ == "__main__":
    main()
