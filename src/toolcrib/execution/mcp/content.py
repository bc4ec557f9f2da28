"""Resources and prompts of MCP servers: the records, and the requests that list, read and complete them."""

import copy
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import (
    LoginRequiredError,
    RequestRefusedError,
    ServerUnavailableError,
    ToolcribError,
    ToolExecutionError,
)
from toolcrib.execution.call import Answer, Call, CallContext, MessageCheck
from toolcrib.execution.mcp.config import OnContent
from toolcrib.execution.mcp.freshness import UNKNOWN, Freshness
from toolcrib.execution.middleware.guard import MessageGuard
from toolcrib.execution.principal import Principal
from toolcrib.model.backend import McpBackend
from toolcrib.model.findings import (
    FINDINGS_KEY,
    ResultFinding,
    describe_findings,
)
from toolcrib.model.record import JsonObject, OpenRecord, Record, Text
from toolcrib.model.tool import Tool
from toolcrib.redaction import hide_secrets

if TYPE_CHECKING:
    from toolcrib.execution.mcp.connection import Connection
    from toolcrib.execution.mcp.pool import McpServers
    from toolcrib.execution.mcp.upstream import Upstream

T = TypeVar("T", bound=OpenRecord)
_MAX_ITEMS = 10_000
"""Resources, templates or prompts of one server that are listed, at most."""
_MAX_LISTING = 60.0
"""Seconds after which no further page of a list is requested."""
_MAX_PAGES = 1_000
"""After how many pages a list that does not end is taken as it is."""
_NOBODY = CallContext()
ContentKind = Literal["resources", "templates", "prompts"]


class Resource(OpenRecord):
    """Data that a server lets clients read: a file, a page, a record."""

    server: str
    """The server that has it."""
    uri: Text
    """The URI to read it by."""
    name: Text
    """The programmatic name."""
    title: Text | None = None
    """The display name."""
    description: Text | None = None
    """The server's description of it."""
    mime_type: Text | None = None
    """The kind of content, such as `text/markdown`."""
    size: int | None = None
    """The number of bytes, if the server gives it."""


class ResourceTemplate(OpenRecord):
    """A URI template (RFC 6570) for a family of resources."""

    server: str
    """The server that has it."""
    uri_template: Text
    """The template, such as `file:///{path}`."""
    name: Text
    """The programmatic name."""
    title: Text | None = None
    """The display name."""
    description: Text | None = None
    """The server's description of it."""
    mime_type: Text | None = None
    """The kind of content, if it is the same for all of them."""


class ResourceContents(OpenRecord):
    """One part of a resource's contents: text, or bytes in base64."""

    uri: Text
    """The URI that was read."""
    mime_type: Text | None = None
    """The kind of content."""
    text: Text | None = None
    """The text, if the contents are text."""
    blob: Text | None = None
    """Bytes, in base64."""


class PromptArgument(OpenRecord):
    """An argument of a prompt."""

    name: Text
    """The programmatic name."""
    title: Text | None = None
    """The display name."""
    description: Text | None = None
    """The server's description of it."""
    required: bool | None = None
    """Whether the prompt requires it."""


class Prompt(OpenRecord):
    """A prompt template that a server offers to its users."""

    server: str
    """The server that has it."""
    name: Text
    """The programmatic name."""
    title: Text | None = None
    """The display name."""
    description: Text | None = None
    """The server's description of it."""
    arguments: tuple[PromptArgument, ...] | None = None
    """The arguments of the prompt."""

    @property
    def id(self) -> str:
        """The server and the name, as `Crib.prompt` takes them."""
        return f"{self.server}:{self.name}"


class PromptResult(OpenRecord):
    """A rendered prompt: the messages that begin a conversation."""

    messages: tuple[JsonObject, ...]
    """Each with a `role` and a `content`, as in MCP."""
    description: Text | None = None
    """The server's description of it."""


class Completion(Record):
    """Values that an argument of a prompt or of a template may have."""

    values: tuple[str, ...] = ()
    """The values, the likeliest first."""
    total: int | None = None
    """The total number, if the server gives it."""
    has_more: bool | None = None
    """Whether there are more than these."""


_LISTS: dict[ContentKind, tuple[str, str, type[OpenRecord]]] = {
    "resources": ("resources/list", "resources", Resource),
    "templates": ("resources/templates/list", "resourceTemplates", ResourceTemplate),
    "prompts": ("prompts/list", "prompts", Prompt),
}
"""The request for each kind, the key of its list in the response, and the record."""
RECORDS: dict[ContentKind, type[OpenRecord]] = {kind: record for kind, (_, _, record) in _LISTS.items()}
"""The records that the list of each kind is made of."""


class ServerContent:
    """Asks servers for their resources and prompts in the name of a principal, starting them if need be."""

    def __init__(self, servers: "McpServers", context: CallContext = _NOBODY) -> None:
        self._servers = servers
        self._context = context

    def person_key(self, server: str, principal: Principal | None = None) -> Hashable | None:
        """Return the key of the owner of a server's content; None if it is shared by all."""
        return self._servers.person_key(server, principal or self._context.principal)

    def declared_gateways(self) -> dict[str, dict[str, Any]]:
        """Return the ids that a gateway of these servers declares: its own, and those behind it."""
        return self._servers.declared_gateways()

    async def resources(self, server: str) -> tuple[Resource, ...]:
        """Return the resources of a server; none if it has no such capability."""
        return (await self.listed(server, "resources"))[0]

    async def templates(self, server: str) -> tuple[ResourceTemplate, ...]:
        """Return the templates of a server's resources."""
        return (await self.listed(server, "templates"))[0]

    async def prompts(self, server: str) -> tuple[Prompt, ...]:
        """Return the prompts of a server."""
        return (await self.listed(server, "prompts"))[0]

    async def read(self, server: str, uri: str) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource.

        Raises:
            RequestRefusedError: the server does not give it.
        """
        answer = await self._ask(server, "resources/read", {"uri": uri}, uri)
        contents = answer.get("contents")
        if (found := self.findings_in(server, answer)) and isinstance(contents, list):
            contents = [_with_findings(each, found) for each in contents]
        return tuple(_records(ResourceContents, contents, {}, server, "resources/read"))

    async def prompt(self, server: str, name: str, args: Mapping[str, str]) -> PromptResult:
        """Return a prompt, filled in.

        Raises:
            RequestRefusedError: the server does not give it, such as for a missing argument.
        """
        answer = await self._ask(server, "prompts/get", {"name": name, "arguments": dict(args)}, name)
        kept = {key: value for key, value in answer.items() if key not in {"_meta", "resultType"}}
        if found := self.findings_in(server, answer):
            kept = _with_findings(kept, found)
        (found,) = _records(PromptResult, [kept], {}, server, "prompts/get")
        return found

    async def complete(
        self,
        server: str,
        kind: Literal["prompt", "resource"],
        ref: str,
        argument: tuple[str, str],
        known: Mapping[str, str],
    ) -> Completion:
        """Return values for an argument that begins so; `known` are the arguments given already."""
        field = "name" if kind == "prompt" else "uri"
        named = {"type": f"ref/{kind}", field: ref}
        params: dict[str, Any] = {"ref": named, "argument": {"name": argument[0], "value": argument[1]}}
        if known:
            params["context"] = {"arguments": dict(known)}
        answer = await self._ask(server, "completion/complete", params, ref)
        found = answer.get("completion")
        try:
            return Completion.from_json(found if isinstance(found, dict) else {})
        except ToolcribError as error:
            raise RequestRefusedError(server, "completion/complete", str(error)) from error

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], subject: str
    ) -> dict[str, Any]:
        """Return the raw response of a server to a request about a subject.

        Raises:
            RequestRefusedError: it answers with an error.
        """
        return await self._ask(server, method, dict(params), subject)

    def read_result(self, call: Call, result: dict[str, Any]) -> Answer:
        """Return the answer to a call whose result came later, from a task.

        Raises:
            ToolExecutionError: the result is an error, is too large, or no JSON.
        """
        from toolcrib.execution.mcp.calls import ServerReply, read_answer  # noqa: PLC0415 - needs the extra

        return read_answer(call, ServerReply(result, was_asked=True), self._servers.max_result_bytes)

    def capabilities(self, server: str) -> dict[str, Any] | None:
        """Return the declared capabilities of a server, as in MCP; None before its first start."""
        return self._servers.capabilities(server, self._context.principal)

    def instructions(self, server: str) -> str:
        """Return the instructions that a server gives to all clients, as far as they are known."""
        return self._servers.instructions(server) if self.person_key(server) is None else ""

    def on_change(self, callback: OnContent) -> Callable[[], None]:
        """Add a listener for changes of servers; return a function that removes it."""
        return self._servers.on_content(callback)

    async def watch(self, server: str, uri: str) -> Callable[[], Awaitable[None]]:
        """Subscribe to a resource; return a function that ends it. See `McpServers.watch`."""
        return await self._servers.watch(server, uri, self._context)

    def tools_freshness(self, server: str) -> Freshness:
        """Return the freshness of a server's tool list."""
        return self._servers.tools_freshness(server)

    def tells_changes(self, server: str, kind: str) -> bool:
        """Return whether a server announces changes of a list."""
        part = (self.capabilities(server) or {}).get("resources" if kind == "templates" else kind)
        return isinstance(part, dict) and part.get("listChanged") is True

    def is_listed(self, server: str) -> bool:
        """Return whether a server runs and has listed its tools since; True if each person has one apart."""
        return self.person_key(server) is not None or self._servers.is_listed(server)

    async def list_tools(self, server: str) -> None:
        """Have a server list its tools again.

        Raises:
            ServerUnavailableError: it does not.
        """
        await self._servers.tools(server)

    async def listed(self, server: str, kind: ContentKind) -> tuple[tuple[Any, ...], Freshness]:
        """Return the items of a kind that a server lists, and their freshness."""
        method, key, record = _LISTS[kind]
        needs, declared = method.partition("/")[0], self.capabilities(server)
        if self.person_key(server) is not None and declared is not None and needs not in declared:
            return (), UNKNOWN  # so that nobody is asked to log in for it
        found: list[Any] = []
        seen: set[str] = set()
        params: dict[str, Any] = {}
        pages: list[dict[str, Any]] = []
        until = anyio.current_time() + _MAX_LISTING
        while True:
            answer = await self._ask(server, method, params, "", needs=needs)
            pages.append({name: value for name, value in answer.items() if name != key})
            listed = answer.get(key)
            part = listed[: _MAX_ITEMS - len(found)] if isinstance(listed, list) else []
            found += await in_thread(_records, record, part, {"server": server}, server, method)
            cursor = answer.get("nextCursor")
            is_last = not isinstance(cursor, str) or cursor in seen or len(found) >= _MAX_ITEMS
            if is_last or len(seen) >= _MAX_PAGES or anyio.current_time() > until:
                return tuple(found), Freshness.of(pages)
            seen.add(str(cursor))
            params = {"cursor": cursor}

    def findings_in(self, server: str, answer: Mapping[str, Any]) -> Any:
        """Return the findings of the result check in a response, as JSON; None for nothing."""
        if self._servers.checks.get(f"mcp:{server}") is None:  # only what a check has written counts
            return None
        return answer["_meta"].get(FINDINGS_KEY) if isinstance(answer.get("_meta"), Mapping) else None

    async def _ask(
        self, server: str, method: str, params: dict[str, Any], subject: str, *, needs: str | None = None
    ) -> dict[str, Any]:
        context = self._context
        if needs is not None:  # a list is for all who ask: the client of one of them is not asked about it
            context = replace(context, client=None)
        upstream = await self._servers.upstream_of(server, context)
        check = None if needs is not None else self._servers.checks.get(f"mcp:{server}")
        async with upstream.slot(context.principal, within=upstream.patience):
            if check is None:
                return await _answer(upstream, context, method, params, subject, needs)
            guard = MessageGuard(check, partial(_withheld, server, method))
            try:
                answer = await _answer(upstream, context, method, params, subject, needs, check=guard)
                return _add_findings(await guard.check_answer(answer), guard.findings)
            except (RequestRefusedError, ServerUnavailableError) as error:
                await _check_refusal(guard, error)
                raise
            finally:
                if guard.findings and self._servers.on_findings is not None:
                    self._servers.on_findings(
                        f"{server}:{subject}", method, guard.findings, context.principal
                    )


def _withheld(server: str, method: str, findings: tuple[ResultFinding, ...]) -> RequestRefusedError:
    """Return the error for an answer that has to be withheld."""
    held = describe_findings(findings, "block")
    return RequestRefusedError(server, method, f"the answer is withheld: it holds {held}")


def _add_findings(answer: dict[str, Any], findings: tuple[ResultFinding, ...]) -> dict[str, Any]:
    """Return a response with these findings in its `_meta`, and none that the server wrote."""
    meta = answer.get("_meta")
    meta = {key: value for key, value in meta.items() if key != FINDINGS_KEY} if meta else {}
    if findings:
        meta[FINDINGS_KEY] = [each.to_json() for each in findings]
    return {**answer, "_meta": meta} if meta or "_meta" in answer else answer


async def _check_refusal(guard: MessageGuard, error: RequestRefusedError | ServerUnavailableError) -> None:
    """Raise another error where one may not be passed on."""
    cause = error.__cause__
    facts = {
        "reason": error.reason,
        "cause": None if cause is None else [str(cause), getattr(cause, "data", None)],
    }
    checked = await guard.check_answer(facts)
    if checked is not facts:
        clean = copy.copy(error)
        clean.reason = checked["reason"]
        raise clean from None


def _with_findings(value: Any, found: Any) -> Any:
    """Return an object with findings in its `_meta`."""
    if not isinstance(value, dict):
        return value
    meta = value.get("_meta")
    return {**value, "_meta": {**(meta if isinstance(meta, dict) else {}), FINDINGS_KEY: found}}


async def _answer(  # noqa: PLR0913 - one request
    server: "Upstream",
    context: CallContext,
    method: str,
    params: dict[str, Any],
    subject: str,
    needs: str | None,
    *,
    check: MessageCheck | None = None,
) -> dict[str, Any]:
    """Return a server's response; the request is repeated once if the session was unknown to it.

    Lists, which need a capability, are the same for all clients, and asked for over one connection.
    """
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - needs the extra
    from mcp_types import METHOD_NOT_FOUND  # noqa: PLC0415 - the same

    from toolcrib.execution.mcp.calls import send_request  # noqa: PLC0415 - the same
    from toolcrib.execution.mcp.client_relay import RelayedCall  # noqa: PLC0415 - the same
    from toolcrib.execution.mcp.errors import needs_login  # noqa: PLC0415 - the same

    lost = False
    while True:
        upstream, connection = await server.connect_for(context.client)
        if needs is not None and _lacks(connection, needs):
            return {}
        call = replace(_call(upstream.name, method), context=context, check=check)
        running = RelayedCall(call, upstream.on_input, connection.sends_logs, is_listing=needs is not None)
        headers = _headers(connection, subject)
        try:
            with anyio.fail_after(upstream.patience):
                return await send_request(upstream, connection, running, method, params, headers)
        except TimeoutError:
            raise upstream.unanswered(method) from None
        except ToolExecutionError as error:
            raise RequestRefusedError(upstream.name, method, error.reason) from error
        except MCPError as error:
            if connection.is_forgotten(error) and not lost:
                lost = upstream.discard(connection, error)
                continue
            if needs is not None and error.code == METHOD_NOT_FOUND:
                return {}
            reason = hide_secrets(error.message)
            if connection.gone or needs_login(error):
                kind = LoginRequiredError if needs_login(error) else ServerUnavailableError
                raise kind(upstream.name, reason) from error
            raise RequestRefusedError(upstream.name, method, reason, error.code) from error


@cache
def _call(server: str, method: str) -> Call:
    """Return a placeholder call for a request that is not one, to ask the client for input."""
    tool = Tool(name=method.replace("/", "_"), input_schema={"type": "object"})
    return Call(tool=tool, args={}, backend=McpBackend(server_name=server))


def _lacks(connection: "Connection", capability: str) -> bool:
    declared = connection.session.server_capabilities
    return declared is not None and getattr(declared, capability, None) is None


def _headers(connection: "Connection", subject: str) -> dict[str, str] | None:
    """Return the headers of a modern request, which name its subject."""
    from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value  # noqa: PLC0415 - needs the extra

    if not subject or not connection.modern or connection.transport == "stdio":
        return None
    return {MCP_NAME_HEADER: encode_header_value(subject)}


def _records(kind: type[T], listed: Any, fixed: dict[str, Any], server: str, method: str) -> Sequence[T]:
    """Return what a server listed as records; invalid ones are left out, unless all are.

    Raises:
        RequestRefusedError: none of them is valid.
    """
    found: list[T] = []
    fault: ToolcribError | None = None
    for one in listed if isinstance(listed, list) else ():
        try:
            found.append(kind.from_json({**one, **fixed} if isinstance(one, dict) else one))
        except ToolcribError as error:
            fault = error
    if fault is not None and not found:
        raise RequestRefusedError(server, method, f"its answer cannot be read: {fault}") from fault
    return found
