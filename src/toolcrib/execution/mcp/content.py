"""Resources and prompts of MCP servers: the records, and the requests that list, read and complete them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from toolcrib.errors import RequestRefusedError, ServerUnavailableError, ToolcribError
from toolcrib.model.record import JsonObject, OpenRecord, Record, Text
from toolcrib.redaction import hide_secrets

if TYPE_CHECKING:
    from toolcrib.execution.mcp.connection import Connection
    from toolcrib.execution.mcp.servers import McpServers
    from toolcrib.execution.mcp.upstream import Upstream

__all__ = [
    "Completion",
    "Prompt",
    "PromptArgument",
    "PromptResult",
    "Resource",
    "ResourceContents",
    "ResourceTemplate",
    "ServerContent",
]

T = TypeVar("T", bound=OpenRecord)
_MAX_ITEMS = 10_000
"""How many resources, templates or prompts of one server are listed."""
_CAPABILITIES = {"resources": "resources", "resourceTemplates": "resources", "prompts": "prompts"}


class Resource(OpenRecord):
    """Something that a server lets be read: a file, a page, a record."""

    server: str
    """The server that has it."""
    uri: Text
    """What it is read by."""
    name: Text
    """What programs call it."""
    title: Text | None = None
    """What people call it."""
    description: Text | None = None
    """What it is, in the server's words."""
    mime_type: Text | None = None
    """The kind of content, such as `text/markdown`."""
    size: int | None = None
    """How many bytes, where the server knows."""


class ResourceTemplate(OpenRecord):
    """A family of resources whose addresses are made by filling in a template (RFC 6570)."""

    server: str
    """The server that has it."""
    uri_template: Text
    """Such as `file:///{path}`."""
    name: Text
    """What programs call it."""
    title: Text | None = None
    """What people call it."""
    description: Text | None = None
    """What it is, in the server's words."""
    mime_type: Text | None = None
    """The kind of content of all of them, where it is one."""


class ResourceContents(OpenRecord):
    """One part of what was read: text, or bytes in base64."""

    uri: Text
    """What was read."""
    mime_type: Text | None = None
    """The kind of content."""
    text: Text | None = None
    """The text, where it is text."""
    blob: Text | None = None
    """Bytes, in base64."""


class PromptArgument(OpenRecord):
    """Something that a prompt is filled in with."""

    name: Text
    """What programs call it."""
    title: Text | None = None
    """What people call it."""
    description: Text | None = None
    """What it is, in the server's words."""
    required: bool | None = None
    """Whether the prompt cannot be had without it."""


class Prompt(OpenRecord):
    """A conversation that a server has prepared, for a person to choose."""

    server: str
    """The server that has it."""
    name: Text
    """What programs call it."""
    title: Text | None = None
    """What people call it."""
    description: Text | None = None
    """What it is, in the server's words."""
    arguments: tuple[PromptArgument, ...] | None = None
    """What it is filled in with."""

    @property
    def id(self) -> str:
        """The server and the name: what `Crib.prompt` takes."""
        return f"{self.server}:{self.name}"


class PromptResult(OpenRecord):
    """A prompt, filled in: the messages to begin a conversation with."""

    messages: tuple[JsonObject, ...]
    """Each with a `role` and a `content`, as in MCP."""
    description: Text | None = None
    """What it is for, in the server's words."""


class Completion(Record):
    """Values that an argument of a prompt or of a template may have."""

    values: tuple[str, ...] = ()
    """The values, the likeliest first."""
    total: int | None = None
    """How many there are, where the server knows."""
    has_more: bool | None = None
    """Whether there are more than these."""


class ServerContent:
    """Asks servers for their resources and prompts, starting them if need be."""

    def __init__(self, servers: "McpServers") -> None:
        self._servers = servers

    async def resources(self, server: str) -> tuple[Resource, ...]:
        """Return what a server lets be read; nothing where it has no resources."""
        return await self._listed(server, "resources/list", "resources", Resource)

    async def templates(self, server: str) -> tuple[ResourceTemplate, ...]:
        """Return the templates of a server's resources."""
        return await self._listed(server, "resources/templates/list", "resourceTemplates", ResourceTemplate)

    async def prompts(self, server: str) -> tuple[Prompt, ...]:
        """Return the prompts of a server."""
        return await self._listed(server, "prompts/list", "prompts", Prompt)

    async def read(self, server: str, uri: str) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource.

        Raises:
            RequestRefusedError: the server does not give it.
        """
        answer = await self._ask(server, "resources/read", {"uri": uri}, uri)
        return tuple(_records(ResourceContents, answer.get("contents"), {}, server, "resources/read"))

    async def prompt(self, server: str, name: str, args: Mapping[str, str]) -> PromptResult:
        """Return a prompt, filled in.

        Raises:
            RequestRefusedError: the server does not give it, such as for a missing argument.
        """
        answer = await self._ask(server, "prompts/get", {"name": name, "arguments": dict(args)}, name)
        kept = {key: value for key, value in answer.items() if key not in {"_meta", "resultType"}}
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

    async def _listed(self, server: str, method: str, key: str, kind: type[T]) -> tuple[T, ...]:
        found: list[T] = []
        cursor: str | None = None
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            answer = await self._ask(server, method, params, "", needs=_CAPABILITIES[key])
            found += _records(kind, answer.get(key, []), {"server": server}, server, method)
            following = answer.get("nextCursor")
            if not isinstance(following, str) or following == cursor or len(found) >= _MAX_ITEMS:
                return tuple(found[:_MAX_ITEMS])
            cursor = following

    async def _ask(
        self, server: str, method: str, params: dict[str, Any], subject: str, *, needs: str | None = None
    ) -> dict[str, Any]:
        upstream = await self._servers.upstream(server)
        with upstream.visits:
            async with upstream.slots:
                return await _answer(upstream, method, params, subject, needs)


async def _answer(
    upstream: "Upstream", method: str, params: dict[str, Any], subject: str, needs: str | None
) -> dict[str, Any]:
    """Return what a server answers; once more where it no longer knows the session."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - needs the extra
    from mcp_types import METHOD_NOT_FOUND  # noqa: PLC0415 - the same

    limit = upstream.config.timeout or _TIME
    lost = False
    while True:
        connection = await upstream.connected()
        if needs is not None and _lacks(connection, needs):
            return {}
        key, answered = object(), False
        upstream.began(key, None)
        try:
            with anyio.fail_after(limit):
                answer = await connection.request(method, params, headers=_headers(connection, subject))
            answered = True
        except TimeoutError:
            late = f"it did not answer {method} within {limit:g} s"
            raise ServerUnavailableError(upstream.name, late) from None
        except MCPError as error:
            if connection.is_forgotten(error) and not lost:
                lost = upstream.discarded(connection, error)
                continue
            if needs is not None and error.code == METHOD_NOT_FOUND:
                return {}
            reason = hide_secrets(error.message)
            if connection.gone:
                raise ServerUnavailableError(upstream.name, reason) from error
            raise RequestRefusedError(upstream.name, method, reason, error.code) from error
        else:
            return answer
        finally:
            upstream.finished(key, connection, answered=answered)


_TIME = 60.0
"""Seconds that a server has to answer, unless its settings say otherwise."""


def _lacks(connection: "Connection", capability: str) -> bool:
    declared = connection.session.server_capabilities
    return declared is not None and getattr(declared, capability, None) is None


def _headers(connection: "Connection", subject: str) -> dict[str, str] | None:
    """Return what a request of the stateless era says in headers too: what it is about."""
    from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value  # noqa: PLC0415 - needs the extra

    if not subject or not connection.modern or connection.transport == "stdio":
        return None
    return {MCP_NAME_HEADER: encode_header_value(subject)}


def _records(kind: type[T], listed: Any, fixed: dict[str, Any], server: str, method: str) -> Sequence[T]:
    """Return what a server listed as records; what is none of them is left out, unless it is all there is."""
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
