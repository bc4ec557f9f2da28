"""A frontend that lists the tools of a view themselves, and passes on what they give."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import finalize, ref

import anyio
from mcp import MCPError

from toolcrib.crib import View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.discovery import Change
from toolcrib.errors import InvalidToolIdError, ToolExecutionError, ToolNotFoundError
from toolcrib.execution.mcp.tool_watcher import mend_name
from toolcrib.gateway.frontends.meta.tools import no_such_tool
from toolcrib.gateway.frontends.passthrough.listing import PassthroughListing
from toolcrib.gateway.frontends.shared.failures import failure
from toolcrib.gateway.frontends.shared.frontend import CallingClient, InputNeeded
from toolcrib.gateway.frontends.shared.naming import sole_source, split_name
from toolcrib.gateway.passing import foreign_meta
from toolcrib.gateway.request.confirm import ConfirmedCalls
from toolcrib.gateway.request.input import passed_error
from toolcrib.gateway.resources.addresses import page_server, place_result
from toolcrib.gateway.results import (
    KeptResults,
    block_data,
    encoded,
    preview_of,
    sendable,
    size_of,
    truncated,
)
from toolcrib.model import McpBackend, RunResult, ToolId

ERROR = "toolcrib/error"
"""Under which name a failure says in its `_meta` what is known of it: `code`, `retryable` and more."""
NOTES = "toolcrib/notes"
"""Under which name a result says what else happened on the way, such as an answer from the cache."""
_PATIENCE = 5.0
"""For how many seconds a list waits for servers that have not answered; of the rest clients are notified."""
_MAX_ABOUT = 10_000
"""How many characters of the instructions of servers are passed on; those that do not fit are left out."""
_NAMED = 40
"""How many namespaces are named to a model."""


class PassthroughTools:
    """A `Frontend` over a view that shows its tools as their servers list them.

    Calls go the way of all calls: policy, validation, deadline, audit and the confirmation of destructive
    tools hold. The result of a server's tool reaches the client as it came, but for blocks too large to send.
    """

    has_own_tasks = False
    """Whether there is more here than the tools of others."""

    def __init__(self, view: View, settings: GatewaySettings, *, kept: KeptResults | None = None) -> None:
        """Show a view to clients; what is too large to send goes to `kept`."""
        self.kept = KeptResults() if kept is None else kept
        """The blocks that were too large to send."""
        self._view = view
        self._index = view.index
        self._limit = settings.result_bytes
        self._calls = ConfirmedCalls(view, confirm=settings.confirm)
        self._listing = PassthroughListing(view)
        self._follow()

    def _follow(self) -> None:
        """Hear of the changes of the catalogue for as long as anybody has this frontend."""
        listing = ref(self._listing)

        def note(change: Change) -> None:
            known = listing()
            if known is not None:
                known.note(change)

        finalize(self, self._index.on_change(note))

    def about(self) -> str:
        """Return what a model should know before it uses the tools."""
        content = self._view.content
        namespaces = [name for name in self._index.namespaces() if name]
        instructions = {
            name: content.servers.instructions(name).strip()
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

    async def settled(self) -> dict[str, Any]:
        """Wait a moment for servers that have not listed their tools yet, or whose list is no longer fresh.

        Returns what MCP says of how long the list is.
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
        """Call a tool, and return its result as MCP writes it; what fails is a result that says so.

        Raises:
            MCPError: there is no such tool, or its server answered with an error of the protocol.
            InputNeeded: the client has to make the request again, with an answer.
        """
        reference = await self._reference(name)
        try:
            ran = await self._calls.run(reference, {} if arguments is None else arguments, client)
        except InputNeeded:
            raise
        except ToolNotFoundError as error:
            raise no_such_tool(name, list(self._listing.current().ids)) from error
        except Exception as error:  # noqa: BLE001 - the last door: a client gets an answer whatever happens
            return self._sent(*self._failed(error))
        return self._sent(self._result(ran), {NOTES: list(ran.notes)} if ran.notes else {})

    def finished(self, name: str, finish: Callable[[], RunResult]) -> dict[str, Any]:  # noqa: ARG002 - all are alike
        """Return what the task of a server's tool gave, as its result."""
        try:
            return self._sent(self._result(finish()), {})
        except ToolExecutionError as error:
            return self._sent(*self._failed(error))

    async def _reference(self, name: str) -> str:
        """Return what a name stands for: the id of a tool that is listed, or one that may come to be."""
        found = self._listing.current().ids.get(name)
        if found is not None:
            return found
        sole = sole_source(self._view.settings)
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

    def _result(self, ran: RunResult) -> Mapping[str, Any]:
        """Return what a tool gave as the result of a call: that of its server, or one made of a value."""
        if isinstance(ran.mcp_result, Mapping):
            server = ran.backend.server_name if isinstance(ran.backend, McpBackend) else None
            return place_result(page_server(self._view.settings, server), ran.mcp_result)
        return _made_result(ran)

    def _failed(self, error: Exception) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return a failure as the result of a call, the tool's own as it came, and our explanation of it.

        Raises:
            MCPError: the server of the tool answered with it.
        """
        if isinstance(error, ToolExecutionError):
            if isinstance(error.result, Mapping) and isinstance(error.result.get("content"), list):
                kind, _, name = (error.backend or "").partition(":")
                server = page_server(self._view.settings, name) if kind == "mcp" else None
                own = place_result(server, error.result)
                return {**own, "isError": True}, {}
            if isinstance(error.__cause__, MCPError):
                raise passed_error(error.__cause__) from error
        explained = failure(error, ran=True, advise=False)
        content = [{"type": "text", "text": explained["message"]}]
        return {"content": content, "isError": True}, {ERROR: explained}

    def _sent(self, result: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result as it is sent: large blocks as links, and with what we say of it."""
        blocks = result.get("content")
        content = self._within(blocks) if isinstance(blocks, list) else []
        meta = {**foreign_meta(result), **ours}
        sent = {**result, "content": content}
        if meta or "_meta" in result:
            sent["_meta"] = meta
        return sent

    def _within(self, blocks: list[Any]) -> list[Any]:
        """Return blocks, those for which there is no room as links to what they hold."""
        room, content = self._limit, list[Any]()
        for block in blocks:
            data = block_data(block, texts=True) if isinstance(block, Mapping) else ""
            size = size_of(data)
            if size <= room:
                room -= size
                content.append(block)
                continue
            link = self.kept.linked(block, data)
            if block.get("type") == "text":
                beginning = truncated(data, link.get("uri"), size)
                content.append({"type": "text", "text": preview_of(beginning)})
            if "uri" in link or block.get("type") != "text":
                content.append(link)
        return content


def _made_result(ran: RunResult) -> dict[str, Any]:
    """Return the value of a tool as the result of a call."""
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
