"""An MCP server that misbehaves when asked to: over stdio or HTTP, in either era of the protocol.

`--http PORT` serves streamable HTTP on 127.0.0.1 and `--sse PORT` the older SSE; 0 takes a free port. The
port is the first line on standard output. `--handshake` makes a server that knows only the initialize
handshake. The others spoil the start: `--slow SECONDS`, `--gate FILE` (until there is such a file), `--banner`,
`--noise` (a line that is not a message before each that is one), `--stderr LINES`, `--refuse`. `--pages N` adds N
tools and lists ten at a time.
"""

import argparse
import os
import socket
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]

OPTIONS = argparse.ArgumentParser(description=__doc__)
OPTIONS.add_argument("--http", type=int, metavar="PORT")
OPTIONS.add_argument("--sse", type=int, metavar="PORT")
OPTIONS.add_argument("--handshake", action="store_true")
OPTIONS.add_argument("--slow", type=float, default=0.0, metavar="SECONDS")
OPTIONS.add_argument("--gate", type=Path, metavar="FILE")
OPTIONS.add_argument("--banner", action="store_true")
OPTIONS.add_argument("--noise", action="store_true")
OPTIONS.add_argument("--stderr", type=int, default=0, metavar="LINES")
OPTIONS.add_argument("--refuse", action="store_true")
OPTIONS.add_argument("--pages", type=int, default=0, metavar="N")
WANTED = OPTIONS.parse_args(None if __name__ == "__main__" else [])

if WANTED.banner:
    print("Welcome to the faulty server!\n\n{not json", flush=True)  # noqa: T201 - it is to spoil the stream
for number in range(WANTED.stderr):
    print(f"complaint {number}", file=sys.stderr)  # noqa: T201
if WANTED.refuse:
    sys.exit("this server does not want to start")
time.sleep(WANTED.slow)
while WANTED.gate and not WANTED.gate.exists():
    time.sleep(0.01)

import anyio  # noqa: E402 - what spoils the start comes first, as the SDK takes a second to load
import mcp_types as types  # noqa: E402
import uvicorn  # noqa: E402
from mcp import MCPError  # noqa: E402
from mcp.server.context import ServerRequestContext  # noqa: E402
from mcp.server.lowlevel import NotificationOptions, Server  # noqa: E402
from mcp.server.models import InitializationOptions  # noqa: E402
from mcp.server.runner import serve_loop  # noqa: E402
from mcp.server.sse import SseServerTransport  # noqa: E402
from mcp.server.stdio import stdio_server  # noqa: E402
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged  # noqa: E402
from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import JSONResponse, Response  # noqa: E402
from starlette.routing import Mount, Route  # noqa: E402
from starlette.types import ASGIApp, Receive, Scope, Send  # noqa: E402

Context = ServerRequestContext[Any, Any]
Handler = Callable[[Context, Json], Awaitable[types.CallToolResult]]

PAGE = 10
NUMBER = {"type": "number"}
TEXT = {"type": "string"}


def takes(**properties: Json) -> Json:
    """Return the schema of an object with these properties, all of them required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def answer(value: Json) -> types.CallToolResult:
    """Return a result with structured content."""
    return types.CallToolResult(content=[], structured_content=value)


def said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """Return a result that is text."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


@dataclass
class Entry:
    """A tool and its function."""

    tool: types.Tool
    run: Handler


TOOLS: dict[str, Entry] = {}


def serves(arguments: Json, result: Json | None = None) -> Callable[[Handler], Handler]:
    """Make a tool of a function."""

    def add(function: Handler) -> Handler:
        name = function.__name__
        tool = types.Tool(
            name=name, description=function.__doc__, input_schema=arguments, output_schema=result
        )
        TOOLS[name] = Entry(tool, function)
        return function

    return add


class State:
    """The history of the process."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.inside = 0
        self.met = anyio.Event()
        self.bus = InMemorySubscriptionBus()


STATE = State()


@serves(takes(text=TEXT), takes(text=TEXT))
async def echo(_: Context, args: Json) -> types.CallToolResult:
    """Give the text back."""
    return answer({"text": args["text"]})


@serves(takes(a=NUMBER, b=NUMBER), takes(sum=NUMBER))
async def add(_: Context, args: Json) -> types.CallToolResult:
    """Add two numbers."""
    return answer({"sum": args["a"] + args["b"]})


@serves({"type": "object"})
async def keep(_: Context, args: Json) -> types.CallToolResult:
    """Give all arguments back, after changing them."""
    kept = dict(args)
    args.clear()
    return answer(kept)


@serves(takes(key=TEXT))
async def hang(ctx: Context, args: Json) -> types.CallToolResult:
    """Tell that it has begun, then wait for ever; being cancelled is noted under the key."""
    STATE.begun.append(args["key"])
    try:
        await ctx.session.report_progress(0, None, "begun")
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        STATE.cancelled.append(args["key"])
        raise
    raise AssertionError


@serves(takes(count={"type": "integer"}), takes(met={"type": "integer"}))
async def meet(_: Context, args: Json) -> types.CallToolResult:
    """Wait until so many calls are here at once."""
    STATE.inside += 1
    if STATE.inside >= args["count"]:
        STATE.met.set()
    met = STATE.met
    await met.wait()
    STATE.inside -= 1
    if not STATE.inside:
        STATE.met = anyio.Event()
    return answer({"met": args["count"]})


@serves({"type": "object"})
async def seen(_: Context, __: Json) -> types.CallToolResult:
    """Tell what has happened so far, and in which process."""
    return answer(
        {
            "pid": os.getpid(),
            "calls": STATE.calls,
            "begun": STATE.begun,
            "cancelled": STATE.cancelled,
        }
    )


@serves({"type": "object"})
async def crash(ctx: Context, __: Json) -> types.CallToolResult:
    """End the process in the middle of the call."""
    await ctx.session.report_progress(0, None, "last words")
    print("I am going down", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(7)


@serves(takes(size={"type": "integer"}))
async def big(_: Context, args: Json) -> types.CallToolResult:
    """Give a text of so many characters."""
    return said("x" * args["size"])


@serves(takes(size={"type": "integer"}), takes(items={"type": "array"}))
async def big_value(_: Context, args: Json) -> types.CallToolResult:
    """Give a structured value of about so many characters."""
    return answer({"items": ["x" * 1000] * (args["size"] // 1000)})


@serves(takes(lines={"type": "integer"}))
async def babble(_: Context, args: Json) -> types.CallToolResult:
    """Write lines on standard output that are no messages, and some bytes that are no text."""
    os.write(1, b"".join(b"Loading model %d...\n" % number for number in range(args["lines"])))
    os.write(1, b'\xff\xfe not text\n{"jsonrpc": "2.0"}\n{"truncated": \n[1, 2]\n\n')
    return said("babbled")


@serves(takes(text=TEXT))
async def complain(_: Context, args: Json) -> types.CallToolResult:
    """Write a line on standard error."""
    print(args["text"], file=sys.stderr, flush=True)  # noqa: T201
    return said("complained")


@serves(takes(steps={"type": "integer"}), takes(steps={"type": "integer"}))
async def progress(ctx: Context, args: Json) -> types.CallToolResult:
    """Tell of so many steps."""
    for step in range(args["steps"]):
        await ctx.session.report_progress(step + 1, args["steps"], f"step {step + 1}")
    return answer({"steps": args["steps"]})


@serves(takes(message=TEXT))
async def log(ctx: Context, args: Json) -> types.CallToolResult:
    """Log a message."""
    await ctx.session.send_log_message("warning", args["message"], "faulty", ctx.request_id)
    return said("logged")


@serves(takes(text=TEXT))
async def fail(_: Context, args: Json) -> types.CallToolResult:
    """Say no."""
    return said(args["text"], is_error=True)


@serves({"type": "object"})
async def refuse(_: Context, __: Json) -> types.CallToolResult:
    """Answer with an error of the protocol."""
    raise MCPError(-32050, "refused by the protocol", {"reason": "asked to"})


@serves({"type": "object"}, takes(sum=NUMBER))
async def lie(_: Context, __: Json) -> types.CallToolResult:
    """Give something else than the output schema says."""
    return answer({"total": "three"})


@serves(takes(name=TEXT))
async def add_tool(ctx: Context, args: Json) -> types.CallToolResult:
    """Offer one more tool, and tell that the list has changed."""
    TOOLS[args["name"]] = Entry(types.Tool(name=args["name"], input_schema=takes(text=TEXT)), echo)
    await changed(ctx)
    return said("added")


@serves(takes(name=TEXT))
async def remove_tool(ctx: Context, args: Json) -> types.CallToolResult:
    """Offer a tool no longer, and tell that the list has changed."""
    del TOOLS[args["name"]]
    await changed(ctx)
    return said("removed")


async def changed(ctx: Context) -> None:
    """Tell that the list of tools has changed, in the way of the era."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await STATE.bus.publish(ToolsListChanged())
    else:
        await ctx.session.send_tool_list_changed()


async def list_tools(_: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Return a page of the tools, or all of them."""
    tools = [entry.tool for entry in TOOLS.values()]
    if not WANTED.pages:
        return types.ListToolsResult(tools=tools, ttl_ms=0)
    start = int(params.cursor) if params and params.cursor else 0
    end = start + PAGE
    following = str(end) if end < len(tools) else None
    return types.ListToolsResult(tools=tools[start:end], next_cursor=following, ttl_ms=0)


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Run a tool."""
    STATE.calls += 1
    entry = TOOLS.get(params.name)
    if entry is None:
        raise MCPError(types.INVALID_PARAMS, f"no tool named {params.name!r}")
    return await entry.run(ctx, params.arguments or {})


class Faulty(Server[Any]):
    """A server that declares that its list of tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, Json] | None = None,
        extensions: dict[str, Json] | None = None,
    ) -> InitializationOptions:
        """Return the server's part of the handshake."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


async def set_level(_: Context, __: types.SetLevelRequestParams) -> types.EmptyResult:
    """Take any level for good."""
    return types.EmptyResult()


def make_server() -> Faulty:
    """Return the server with its tools."""
    for number in range(WANTED.pages):
        name = f"page_{number:03}"
        TOOLS[name] = Entry(types.Tool(name=name, input_schema=takes(text=TEXT)), echo)
    return Faulty(
        "faulty",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_set_logging_level=set_level,
        on_subscriptions_listen=ListenHandler(STATE.bus),
    )


class Noisy(TextIOWrapper):
    """A standard output that gets a line that is not a message before each that is one."""

    def write(self, text: str, /) -> int:
        """Write the text after some noise."""
        return super().write(f"noise before {len(text)} characters\n" + text if WANTED.noise else text)


@asynccontextmanager
async def wire() -> AsyncIterator[tuple[Any, Any]]:
    """Open standard input and output so that stray prints end up on the wire, as in a careless server."""
    stdout = anyio.wrap_file(Noisy(os.fdopen(os.dup(1), "wb"), encoding="utf-8"))
    async with stdio_server(stdout=stdout) as streams:
        yield streams


async def serve_stdio(server: Faulty) -> None:
    """Serve one client on standard input and output."""
    async with wire() as (read, write):
        if WANTED.handshake:
            await serve_loop(server, read, write, lifespan_state={})
        else:
            await server.run(read, write, server.create_initialization_options())


class HandshakeOnly:
    """Refuses requests of the stateless era, in the words of a server that does not know it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            asked = Request(scope).headers.get("mcp-protocol-version")
            if asked in MODERN_PROTOCOL_VERSIONS:
                error = {"code": -32000, "message": f"Bad Request: Unsupported protocol version: {asked}"}
                reply = JSONResponse({"jsonrpc": "2.0", "error": error, "id": None}, status_code=400)
                await reply(scope, receive, send)
                return
        await self.app(scope, receive, send)


def sse_app(server: Faulty) -> ASGIApp:
    """Return the application of the older transport."""
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])


def serve_http(app: ASGIApp, port: int, parser: Literal["auto", "h11"] = "auto") -> None:
    """Serve an application on 127.0.0.1, and print on which port once it can be reached."""
    # Without its protocol, asyncio would not switch off the delay of small packets.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    print(listening.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
    # Connections stay open for longer than any client keeps them: on a busy machine requests would be lost.
    config = uvicorn.Config(
        app, http=parser, log_level="error", timeout_graceful_shutdown=1, timeout_keep_alive=60
    )
    uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    """Serve as asked."""
    warnings.simplefilter("ignore")  # some of what it serves is deprecated in one of the eras
    server = make_server()
    if WANTED.http is not None:
        app: ASGIApp = server.streamable_http_app()
        serve_http(HandshakeOnly(app) if WANTED.handshake else app, WANTED.http)
    elif WANTED.sse is not None:
        serve_http(sse_app(server), WANTED.sse)
    else:
        anyio.run(serve_stdio, server)


if __name__ == "__main__":
    main()
