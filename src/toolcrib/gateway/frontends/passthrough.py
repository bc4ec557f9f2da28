"""The frontend that lists the tools of a view themselves, and passes on their results."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio
from mcp import MCPError

from toolcrib.crib import Settings, View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.errors import InvalidToolIdError, ToolError, ToolExecutionError, ToolNotFoundError
from toolcrib.execution import Principal
from toolcrib.execution.mcp.own_names import OWN_NAME, mend_name, own_name
from toolcrib.gateway.frontends.shared.failures import describe_error, no_such_tool
from toolcrib.gateway.frontends.shared.frontend import CallingClient, InputNeeded
from toolcrib.gateway.passing import findings_meta, foreign_meta
from toolcrib.gateway.request.confirm import ConfirmedCalls
from toolcrib.gateway.request.input import passed_error
from toolcrib.gateway.resources.addresses import place_meta, place_result, sole_source
from toolcrib.gateway.results import (
    KeptResults,
    block_data,
    encoded,
    preview_of,
    sendable,
    size_of,
    truncated,
)
from toolcrib.model import McpBackend, RunResult, Tool, ToolId
from toolcrib.model.public_names import hashed_name, public_name, split_name

ERROR = "toolcrib/error"
"""The key of `_meta` for the facts of an error: `code`, `retryable` and more."""
NOTES = "toolcrib/notes"
"""The key of `_meta` for remarks about a result, such as that it came from the cache."""
_PATIENCE = 5.0
"""Seconds that a list waits for servers without an answer; clients are notified of later answers."""
_MAX_ABOUT = 10_000
"""Longest instructions of all servers together, in characters; those that do not fit are left out."""
_NAMED = 40
"""Namespaces that the instructions name, at most."""
_INTERNAL = frozenset({"name", "namespace", "backend"})
_OURS = _INTERNAL | {"version", "tags"}
"""What MCP does not have of a tool that no server has listed."""


class Listing(NamedTuple):
    """The tools at one moment."""

    definitions: tuple[Mapping[str, Any], ...]
    """As MCP lists them, in the order of their ids."""
    ids: Mapping[str, str]
    """The id of each tool, by the name that it is listed under."""
    sole: str | None
    """The only configured server or API, whose own names and addresses are kept; None with several."""


class _Listed(NamedTuple):
    """A tool as it was listed, which holds until its definition changes, or the only server does."""

    tool: Tool
    sole: str | None
    name: str
    definition: Mapping[str, Any]


class PassthroughListing:
    """Lists the tools of a view, of each the highest stable version."""

    def __init__(self, view: View) -> None:
        self._view, self._index = view, view.index
        self._seen: tuple[int, Settings, Listing] | None = None
        """The last listing, with the version of the index and the settings that it was made of."""
        self._listed: dict[str, _Listed] = {}
        """The tools of that listing, by id."""

    def current(self) -> Listing:
        """Return the tools; the same object until the index or the settings have changed."""
        version, settings, seen = self._index.version, self._view.settings, self._seen
        if seen is not None and seen[0] == version and seen[1] is settings:
            return seen[2]
        listing = self._build_listing(sole_source(settings))
        self._seen = version, settings, listing
        return listing

    def _build_listing(self, sole: str | None) -> Listing:
        versions: defaultdict[tuple[str | None, str], list[str]] = defaultdict(list)
        for summary in self._index.list_all():
            versions[summary.namespace, summary.name].append(summary.id)
        ids: dict[str, str] = {}
        definitions: dict[str, Mapping[str, Any]] = {}
        listed: dict[str, _Listed] = {}
        # The names of the only server are its own, so others give way to them.
        for (namespace, name), same in sorted(
            versions.items(), key=lambda item: (item[0][0] != sole, item[0][0] or "", item[0][1])
        ):
            try:
                tool = (
                    self._index.get(same[0])
                    if len(same) == 1
                    else self._index.resolve(ToolId(namespace, name))
                )
            except ToolNotFoundError:  # it has gone meanwhile
                continue
            tool_id = str(tool.id)
            known = self._listed.get(tool_id)
            if known is None or known.tool is not tool or known.sole != sole:
                known = _list_tool(tool, sole)
            listed[tool_id], public, definition = known, known.name, known.definition
            if public in ids:
                public = hashed_name(namespace, name)
                definition = {**definition, "name": public}
            ids[public] = tool_id
            definitions[tool_id] = definition
        self._listed = listed
        return Listing(tuple(definitions[tool_id] for tool_id in sorted(definitions)), ids, sole)


def _list_tool(tool: Tool, sole: str | None) -> _Listed:
    """Return a tool under its own name if it is one of the only server, else under one with the server's."""
    is_sole = sole is not None and tool.namespace == sole
    name = own_name(tool) if is_sole else public_name(tool.namespace, tool.name)
    backend = tool.backend
    server = backend.server_name if isinstance(backend, McpBackend) else None
    return _Listed(tool, sole, name, make_definition(tool, name, None if server == sole else server))


def make_definition(tool: Tool, name: str, server: str | None = None) -> dict[str, Any]:
    """Return a tool as MCP lists it; that of a server with everything that the server says of it.

    `server` is given where the pages that the tool names are one server's among those of others.
    """
    is_listed = isinstance(tool.backend, McpBackend)
    definition = {"name": name, **tool.to_json(without=_INTERNAL if is_listed else _OURS)}
    meta = definition.pop("_meta", None)
    if isinstance(meta, dict) and OWN_NAME in meta:
        meta = {key: value for key, value in meta.items() if key != OWN_NAME} or None
    return definition if meta is None else definition | {"_meta": place_meta(server, meta)}


class PassthroughTools:
    """A `Frontend` over a view that lists its tools as their servers do.

    Calls pass policy, validation, deadline, audit and the confirmation of destructive tools. The result of a
    server's tool reaches the client unchanged, except for blocks that are too large to send.
    """

    has_own_tasks = False
    """Whether it has tools of its own that make several calls."""

    def __init__(self, view: View, settings: GatewaySettings, *, kept: KeptResults | None = None) -> None:
        """Serve a view; results that are too large to send go to `kept`."""
        self.kept = KeptResults() if kept is None else kept
        """The blocks that were too large to send."""
        self._view = view
        self._index = view.index
        self._limit = settings.result_bytes
        self._calls = ConfirmedCalls(view, confirm=settings.confirm)
        self._listing = PassthroughListing(view)

    def about(self) -> str:
        """Return the instructions for a model: those of the servers."""
        content = self._view.content
        namespaces = [name for name in self._index.namespaces() if name]
        instructions = {
            name: content.instructions(name).strip()
            for name in content.names
            if mend_name(name) in namespaces or content.admits_all(name)
        }
        sole = sole_source(self._view.settings)
        if sole is not None or not namespaces:
            return instructions.get(sole or "", "")[:_MAX_ABOUT]
        named = ", ".join(namespaces[:_NAMED]) + (", ..." if len(namespaces) > _NAMED else "")
        parts = [f"Tools of several servers; their names begin with the server's: {named}."]
        room = _MAX_ABOUT
        for name, text in instructions.items():
            if text and len(text) <= room:
                parts.append(f"{name}: {text}")
                room -= len(text)
        return "\n\n".join(parts)

    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the definitions, in the order of the tools' ids."""
        return self._listing.current().definitions

    def lists(self, name: str) -> bool:
        """Return whether a tool is listed under a name."""
        return name in self._listing.current().ids

    def listed_ids(self) -> Mapping[str, str]:
        """Return the ids of the tools by the names that they are listed under."""
        return self._listing.current().ids

    async def settled(self) -> dict[str, Any]:
        """Wait a moment for servers that have not listed their tools yet, or whose list is no longer fresh.

        Returns the fields of MCP for how long the list is fresh.
        """
        with anyio.move_on_after(_PATIENCE):
            await self._view.namespaces()
            return await self._view.content.listed_tools()
        return {}

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back, in the thread that made the change, when `tools` may return something else."""
        return self._index.on_change(lambda _: callback())

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, client: CallingClient
    ) -> dict[str, Any]:
        """Call a tool, and return its result, or its error as a result, as JSON of MCP.

        Raises:
            MCPError: there is no such tool, or its server answered with an error of the protocol.
            InputNeeded: the client has to make the request again, with an answer.
        """
        reference = self._listing.current().ids.get(name) or await self._find_unlisted(name)
        try:
            ran = await self._calls.run(reference, {} if arguments is None else arguments, client)
        except InputNeeded:
            raise
        except ToolNotFoundError as error:
            raise no_such_tool(name, list(self._listing.current().ids)) from error
        except Exception as error:  # noqa: BLE001 - the last door: a client gets an answer whatever happens
            return self._make_error(error, client.principal)
        return self._make_result(ran, client.principal)

    def finished(
        self,
        name: str,  # noqa: ARG002 - all are alike
        finish: Callable[[], RunResult],
        principal: Principal,
    ) -> dict[str, Any]:
        """Return the result of a server's task as the result of its tool."""
        try:
            return self._make_result(finish(), principal)
        except ToolExecutionError as error:
            return self._make_error(error, principal)

    async def _find_unlisted(self, name: str) -> str:
        """Return the id that a name not in the list stands for: its server may list the tool soon."""
        sole = self._listing.current().sole
        parts = (sole, mend_name(name)) if sole is not None else split_name(name)
        if parts is not None:
            try:
                return str(ToolId(*parts))
            except InvalidToolIdError:
                raise no_such_tool(name, list(self._listing.current().ids)) from None
        await self.settled()
        ids = self._listing.current().ids
        if name not in ids:
            raise no_such_tool(name, list(ids))
        return ids[name]

    def _make_result(self, ran: RunResult, principal: Principal) -> dict[str, Any]:
        """Return the result of a tool: that of its server, or one made of its value."""
        notes: dict[str, Any] = {NOTES: list(ran.notes)} if ran.notes else {}
        notes |= findings_meta(ran.findings)
        result, backend = ran.mcp_result, ran.backend
        if not isinstance(result, Mapping):
            result = _result_of_value(ran)
        elif isinstance(backend, McpBackend) and backend.server_name != self._listing.current().sole:
            result = place_result(backend.server_name, result)
        return self._complete(result, notes, principal)

    def _make_error(self, error: Exception, principal: Principal) -> dict[str, Any]:
        """Return an error as the result of a call: the tool's own unchanged, any other with an explanation.

        Raises:
            MCPError: the server of the tool answered with it.
        """
        if isinstance(error, ToolExecutionError):
            if isinstance(error.result, Mapping) and isinstance(error.result.get("content"), list):
                kind, _, server = (error.backend or "").partition(":")
                result = error.result
                if kind == "mcp" and server != self._listing.current().sole:
                    result = place_result(server, result)
                return self._complete({**result, "isError": True}, findings_meta(error.findings), principal)
            if isinstance(error.__cause__, MCPError):
                raise passed_error(error.__cause__) from error
        explained = describe_error(error, principal, ran=True, advise=False)
        content = [{"type": "text", "text": explained["message"]}]
        found = findings_meta(error.findings) if isinstance(error, ToolError) else {}
        return self._complete({"content": content, "isError": True}, {ERROR: explained, **found}, principal)

    def _complete(
        self, result: Mapping[str, Any], ours: Mapping[str, Any], principal: Principal
    ) -> dict[str, Any]:
        """Return a result with large blocks replaced by links, and with our part of its `_meta`."""
        blocks = result.get("content")
        room, content = self._limit, list[Any]()
        for block in blocks if isinstance(blocks, list) else ():
            data = block_data(block, texts=True) if isinstance(block, Mapping) else ""
            size = size_of(data)
            if size <= room:
                room -= size
                content.append(block)
            else:
                content += self._link_block(block, data, size, principal)
        if not ours and "_meta" not in result:
            return {**result, "content": content}
        return {**result, "content": content, "_meta": {**foreign_meta(result), **ours}}

    def _link_block(
        self, block: Mapping[str, Any], data: str, size: int, principal: Principal
    ) -> list[Mapping[str, Any]]:
        """Return a link to a block that is too large to send, after the beginning of a text."""
        link = self.kept.keep_block(block, data, principal)
        if block.get("type") != "text":
            return [link]
        beginning = {"type": "text", "text": preview_of(truncated(data, link.get("uri"), size))}
        return [beginning, link] if "uri" in link else [beginning]


def _result_of_value(ran: RunResult) -> dict[str, Any]:
    """Return the value of a tool as a result of MCP."""
    value = ran.structured
    try:
        text = value if isinstance(value, str) else encoded(value)
    except ValueError:  # the tool ran: what came of it is sent as well as it can be
        value = sendable(value)
        text = encoded(value)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if ran.tool.shared("output_schema") is not None or isinstance(value, dict):
        result["structuredContent"] = value
    return result
