"""A frontend with tools beside those of another: pinned ones, and those that read resources and prompts."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

from mcp import MCPError

from toolcrib.crib import View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.errors import ToolcribError
from toolcrib.execution import Principal
from toolcrib.gateway.frontends.passthrough import PassthroughTools
from toolcrib.gateway.frontends.shared.failures import describe_error
from toolcrib.gateway.frontends.shared.frontend import (
    CallingClient,
    Frontend,
    SettlingFrontend,
    TaskFrontend,
    ToolDefinition,
    ToolResult,
)
from toolcrib.gateway.passing import wire
from toolcrib.gateway.request.client import RequestClient
from toolcrib.gateway.resources.handlers import ContentHandlers
from toolcrib.gateway.results import KeptResults, encoded
from toolcrib.model import RunResult
from toolcrib.model.findings import FINDINGS_KEY
from toolcrib.model.schema.plain_form import to_plain_schema
from toolcrib.model.toolid import without_version

_CURSOR = {"cursor": {"type": "string", "description": "The nextCursor of the page before."}}
_READS = {"readOnlyHint": True, "idempotentHint": True}
CONTENT_TOOLS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": "list_resources",
        "title": "List resources",
        "description": "List what can be read here by its address: files, pages, records.",
        "inputSchema": {"type": "object", "properties": _CURSOR, "additionalProperties": False},
        "annotations": _READS,
    },
    {
        "name": "read_resource",
        "title": "Read a resource",
        "description": "Read a resource by its address, as list_resources gives it.",
        "inputSchema": {
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "The address of the resource."}},
            "required": ["uri"],
            "additionalProperties": False,
        },
        "annotations": _READS,
    },
    {
        "name": "list_prompts",
        "title": "List prompts",
        "description": "List prepared instructions, each with the arguments that it takes.",
        "inputSchema": {"type": "object", "properties": _CURSOR, "additionalProperties": False},
        "annotations": _READS,
    },
    {
        "name": "get_prompt",
        "title": "Get a prompt",
        "description": "Get prepared instructions by their name, filled in with arguments.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name, as list_prompts gives it."},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "annotations": _READS,
    },
)
"""The tools that read resources and prompts, for clients that know tools alone."""
_CONTENT_NAMES: Final = frozenset(each["name"] for each in CONTENT_TOOLS)
_UNKNOWN_TO_OLD: Final = frozenset({"outputSchema", "title", "icons", "execution"})
"""Fields of definitions that the first clients did not know."""


class ToolsBeside:
    """A `Frontend` that lists further tools beside those of another."""

    def __init__(
        self,
        main: Frontend,
        view: View,
        settings: GatewaySettings,
        *,
        pinned: Collection[str] = (),
        kept: KeptResults | None = None,
    ) -> None:
        """Add tools to a frontend.

        Args:
            main: the frontend.
            view: the tools of the frontend.
            settings: `content_tools` and `plain_schemas` are read.
            pinned: ids of tools that are listed too, with or without a version.
            kept: where results go that are too large to send.
        """
        self._main, self._pinned = main, frozenset(pinned)
        self._direct = PassthroughTools(view, settings, kept=kept)
        self._content = ContentHandlers(view, kept) if settings.content_tools else None
        self._is_plain = settings.plain_schemas
        self._listed: tuple[tuple[Sequence[ToolDefinition], ...], tuple[ToolDefinition, ...]] | None = None

    @property
    def has_own_tasks(self) -> bool:
        """Whether the main frontend has tools that may become tasks."""
        return isinstance(self._main, TaskFrontend) and self._main.has_own_tasks

    def about(self) -> str:
        """Return the instructions of the main frontend."""
        return self._main.about()

    def tools(self) -> Sequence[ToolDefinition]:
        """Return the definitions; the same object while nothing has changed."""
        sources: tuple[Sequence[ToolDefinition], ...] = (self._main.tools(), self._direct.tools())
        if self._listed is None or any(
            new is not old for new, old in zip(sources, self._listed[0], strict=True)
        ):
            self._listed = sources, self._list(*sources)
        return self._listed[1]

    def _list(
        self, main: Sequence[ToolDefinition], direct: Sequence[ToolDefinition]
    ) -> tuple[ToolDefinition, ...]:
        found = [*main]
        names = {_name_of(each) for each in found}
        ids = self._direct.listed_ids()
        for each in direct:
            name = _name_of(each)
            if name not in names and not self._pinned.isdisjoint(_ids_of(ids[name])):
                found.append(each)
                names.add(name)
        if self._content is not None:
            found += [each for each in CONTENT_TOOLS if each["name"] not in names]
        return tuple(map(_make_plain, found)) if self._is_plain else tuple(found)

    async def settled(self) -> dict[str, Any]:
        """Wait a moment for what the main frontend waits for, and for pinned tools."""
        fresh = await self._main.settled() if isinstance(self._main, SettlingFrontend) else {}
        if self._pinned and not isinstance(self._main, SettlingFrontend):
            await self._direct.settled()
        return fresh

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when `tools` may return something else."""
        return self._main.on_change(callback)

    async def call(self, name: str, arguments: Mapping[str, Any], client: CallingClient) -> ToolResult:
        """Call the tool of a name: of the main frontend, a pinned one, or one for resources and prompts."""
        if not self._is_of_main(name):
            if self._is_pinned(name):
                return await self._direct.call(name, arguments, client)
            if self._content is not None and name in _CONTENT_NAMES:
                return await self._call_content(name, arguments, client)
        return await self._main.call(name, arguments, client)

    def finished(self, name: str, finish: Callable[[], RunResult], principal: Principal) -> ToolResult:
        """Return the result of a server's task as the result of the tool that was called."""
        is_pinned = self._is_pinned(name) and not self._is_of_main(name)
        if is_pinned or not isinstance(self._main, TaskFrontend):
            return self._direct.finished(name, finish, principal)
        return self._main.finished(name, finish, principal)

    def _is_of_main(self, name: str) -> bool:
        """Return whether the main frontend lists a tool of this name, which goes before all others."""
        return any(_name_of(each) == name for each in self._main.tools())

    def _is_pinned(self, name: str) -> bool:
        tool_id = self._direct.listed_ids().get(name)
        return tool_id is not None and not self._pinned.isdisjoint(_ids_of(tool_id))

    async def _call_content(
        self, name: str, arguments: Mapping[str, Any], client: CallingClient
    ) -> dict[str, Any]:
        """Read resources or prompts, with the result of MCP as the value of the tool."""
        assert self._content is not None  # noqa: S101 - checked by the caller
        handlers: dict[str, Callable[[Mapping[str, Any], RequestClient], Awaitable[dict[str, Any]]]] = {
            "list_resources": self._content.resources,
            "read_resource": self._content.read,
            "list_prompts": self._content.prompts,
            "get_prompt": self._content.prompt,
        }
        definition = next(each for each in CONTENT_TOOLS if each["name"] == name)
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        missing = [key for key in definition["inputSchema"].get("required", ()) if not given.get(key)]
        if missing:
            return _failure(f"required property {missing[0]!r} is missing")
        if "cursor" in given and not isinstance(given["cursor"], str):
            return _failure("/cursor: must be a string")
        try:
            answer = await handlers[name](given, cast("RequestClient", client))
        except MCPError as error:
            return _failure(error.error.message)
        except ToolcribError as error:
            return _failure(describe_error(error, client.principal)["message"])
        value = {key: each for key, each in answer.items() if key not in _ENVELOPE}
        result = {"content": [{"type": "text", "text": encoded(value)}], "structuredContent": value}
        found = (answer.get("_meta") or {}).get(FINDINGS_KEY)
        return {**result, "_meta": {FINDINGS_KEY: found}} if found else result


_ENVELOPE: Final = frozenset({"ttlMs", "cacheScope", "resultType", "_meta"})
"""Fields of results that are about the request."""


def _failure(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _name_of(definition: ToolDefinition) -> str:
    return str(definition["name"]) if isinstance(definition, Mapping) else definition.name


def _ids_of(tool_id: str) -> tuple[str, str]:
    """Return an id with and without its version."""
    return tool_id, without_version(tool_id)


def _make_plain(definition: ToolDefinition) -> Mapping[str, Any]:
    """Return a definition with the fields and the keywords of schemas that the first clients knew."""
    written = wire(definition)
    kept = {key: value for key, value in written.items() if key not in _UNKNOWN_TO_OLD}
    return {**kept, "inputSchema": to_plain_schema(written["inputSchema"])}
