"""An SDK server whose tools send requests and notifications to their client, in either era of the protocol.

Run as a program it serves standard input and output; `--handshake` makes it know only the older era.
"""

import sys
import threading
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse

Context = ServerRequestContext[Any, Any]
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
HELLO = types.SamplingMessage(role="user", content=types.TextContent(text="Hello"))
NOTE = "note://one"


def asks(tool: str, who: str) -> tuple[types.InputRequest, type[types.Result]]:
    """Return the request that a tool sends to its client, and the type of the result."""
    match tool:
        case "sample":
            params = types.CreateMessageRequestParams(messages=[HELLO], max_tokens=5, system_prompt=who)
            return types.CreateMessageRequest(params=params), types.CreateMessageResult
        case "form":
            form = types.ElicitRequestFormParams(message=f"Who? {who}", requested_schema=FORM)
            return types.ElicitRequest(params=form), types.ElicitResult
        case "url" | "page":
            url = types.ElicitRequestURLParams(message=f"Log in {who}", url="https://example.com/in")
            return types.ElicitRequest(params=url), types.ElicitResult
    return types.ListRootsRequest(), types.ListRootsResult


class Asking:
    """The tools, and the states of their calls."""

    def __init__(self) -> None:
        self.started, self.cancelled = threading.Event(), threading.Event()
        self.levels: list[str] = []
        self.subscribed: list[str] = []
        self.bus = InMemorySubscriptionBus()
        self.sessions: list[Any] = []
        self.pages: list[str] = []
        """The pages that clients were sent to, and that `close` is done with."""
        self.server = self._make()

    def _make(self) -> "_Server":
        server = _Server(
            "asking",
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        for method, params, handler in (
            ("logging/setLevel", types.SetLevelRequestParams, self._set_level),
            ("resources/subscribe", types.SubscribeRequestParams, self._subscribe),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe),
        ):
            server.add_request_handler(method, params, handler)
        return server

    async def _list(self, *_: Any) -> types.ListToolsResult:
        names = ("sample", "form", "url", "roots", "count", "log", "wait", "change", "both", "page", "close")
        hints = types.ToolAnnotations(read_only_hint=True)
        schema = {"type": "object", "properties": {"who": {"type": "string"}}}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema, annotations=hints) for name in names]
        )

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> Any:
        self.sessions.append(context.session)
        who = (params.arguments or {}).get("who", "")
        match params.name:
            case "count":
                for number in (1, 2):
                    await context.session.report_progress(number, 2, f"at {number}")
            case "log":
                await self._log(context, who)
            case "wait":
                self.started.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    self.cancelled.set()
            case "change":
                await self._change(context)
            case "close":
                for page in self.pages:
                    await context.session.send_elicit_complete(page)
            case "both":
                return await self._ask(context, params, "form", "sample")
            case _:
                return await self._ask(context, params, params.name)
        return _result("done")

    async def _ask(self, context: Context, params: Any, *tools: str) -> Any:
        who = (params.arguments or {}).get("who", "") if hasattr(params, "arguments") else ""
        wanted = {tool: asks(tool, who) for tool in tools}
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            given = params.input_responses or {}
            left = {tool: request for tool, (request, _) in wanted.items() if tool not in given}
            if not left:
                assert params.request_state == "the server's own"
                return _result(" ".join(_text(given[tool]) for tool in tools))
            for request in left.values():
                _check(context, request)
            return types.InputRequiredResult(input_requests=left, request_state="the server's own")
        found = []
        for tool, (request, kind) in wanted.items():
            related = ServerMessageMetadata(related_request_id=context.request_id)
            if isinstance(request.params, types.ElicitRequestURLParams):
                request.params.elicitation_id = "e1" if tool == "url" else f"page {len(self.pages)}"
            try:
                found.append(await context.session.send_request(request, kind, metadata=related))
                if tool == "page":
                    self.pages.append(request.params.elicitation_id)
                elif isinstance(request.params, types.ElicitRequestURLParams):
                    await context.session.send_elicit_complete("e1", context.request_id)
            except MCPError as error:
                return types.CallToolResult(
                    content=[types.TextContent(text=f"refused: {error.code} {error}")], is_error=True
                )
        return _result(" ".join(map(_text, found)))

    async def _log(self, context: Context, who: str) -> None:
        for level in ("debug", "warning"):
            params = types.LoggingMessageNotificationParams(
                level=level, logger="asking", data={"text": f"{level} {who}"}
            )
            asked = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
            if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                if asked is None or (asked != "debug" and level == "debug"):
                    continue
            elif self.levels[-1:] != ["debug"] and level == "debug":
                continue
            await context.session.send_notification(
                types.LoggingMessageNotification(params=params), context.request_id
            )

    async def _change(self, context: Context) -> None:
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            for event in (ResourceUpdated(uri=NOTE), ResourcesListChanged(), PromptsListChanged()):
                await self.bus.publish(event)
            return
        await context.session.send_resource_updated(NOTE)
        await context.session.send_resource_list_changed()
        await context.session.send_prompt_list_changed()

    async def _set_level(self, _: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.levels.append(params.level)
        return types.EmptyResult()

    async def _subscribe(self, _: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if params.uri != NOTE:
            raise MCPError(types.INVALID_PARAMS, "no such resource")
        self.subscribed.append(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.remove(params.uri)
        return types.EmptyResult()

    async def _resources(self, *_: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="one", uri=NOTE)])

    async def _read(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=str(params.uri), text="1")])

    async def _prompts(self, *_: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])

    async def _prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        answer = await self._ask(context, params, "form")
        if isinstance(answer, types.InputRequiredResult):
            return answer
        message = types.PromptMessage(role="user", content=answer.content[0])
        return types.GetPromptResult(messages=[message])


class _Server(Server[Any]):
    """The SDK's server, which declares that all its lists may change."""

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*args, **options)
        found.resources = types.ResourcesCapability(subscribe=True, list_changed=True)
        found.prompts = types.PromptsCapability(list_changed=True)
        return found

    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        return super().create_initialization_options(NotificationOptions())


def _check(context: Context, request: types.InputRequest) -> None:
    """Refuse a client that does not declare the capability that a request requires."""
    name = {"sampling/createMessage": "sampling", "roots/list": "roots"}.get(request.method, "elicitation")
    if getattr(context.session.client_capabilities, name, None) is None:
        data = {"requiredCapabilities": {name: {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"needs {name}", data)


def _result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def _text(answer: Any) -> str:
    match answer:
        case types.ElicitResult():
            return f"{answer.action} {(answer.content or {}).get('name', '')}".strip()
        case types.ListRootsResult():
            return " ".join(str(root.uri) for root in answer.roots)
    return str(answer.content.text)


class HandshakeOnly:
    """Refuses requests of the stateless era, in the words of a server that does not know it."""

    tidy = False

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked = Request(scope).headers.get("mcp-protocol-version")
            if asked in MODERN_PROTOCOL_VERSIONS:
                error = {"code": -32000, "message": f"Bad Request: Unsupported protocol version: {asked}"}
                reply = JSONResponse({"jsonrpc": "2.0", "error": error, "id": None}, status_code=400)
                await reply(scope, receive, send)
                return
        await self.app(scope, receive, send)


class StatelessOnly:
    """Refuses the handshake, and counts the attempts."""

    tidy = False

    def __init__(self, app: Any) -> None:
        self.app, self.handshakes = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = Request(scope).headers if scope["type"] == "http" else {}
        if scope["type"] == "http" and headers.get("mcp-protocol-version") not in MODERN_PROTOCOL_VERSIONS:
            self.handshakes += 1
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": "2025-11-25"}
            error = {"code": types.UNSUPPORTED_PROTOCOL_VERSION, "message": "no handshake", "data": data}
            reply = JSONResponse({"jsonrpc": "2.0", "error": error, "id": 1}, status_code=400)
            await reply(scope, receive, send)
            return
        await self.app(scope, receive, send)


async def main() -> None:
    """Serve one client on standard input and output."""
    server = Asking().server
    async with stdio_server() as (read, write):
        if "--handshake" in sys.argv:
            await serve_loop(server, read, write, lifespan_state={})
        else:
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
