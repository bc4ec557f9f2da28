"""The tools of a view as they are listed: their definitions, and the names that they are called by."""

from collections import defaultdict
from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

from toolcrib.crib import View
from toolcrib.discovery import Change, Summary
from toolcrib.errors import ToolNotFoundError
from toolcrib.execution.mcp.tool_watcher import OWN_NAME, own_name
from toolcrib.gateway.resources.addresses import place_meta, sole_source
from toolcrib.model import McpBackend, Tool, ToolId
from toolcrib.model.public_names import hashed_name, public_name

_INTERNAL = frozenset({"name", "namespace", "backend"})
_OURS = _INTERNAL | {"version", "tags"}
"""What MCP does not have of a tool that no server has listed."""


class Listing(NamedTuple):
    """The tools at one moment."""

    definitions: tuple[Mapping[str, Any], ...]
    """As MCP lists them, in the order of their ids."""
    ids: Mapping[str, str]
    """The id of each tool, by the name that it is listed under."""


class PassthroughListing:
    """Lists the tools of a view, of each the highest stable version.

    Whoever makes it passes the changes of the index on to `note`.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._index = view.index
        self._lock = Lock()
        self._made: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """The name and the definition of tools, by id."""
        self._seen: tuple[int, str | None, Listing] | None = None

    def note(self, change: Change) -> None:
        """Forget the definition of a tool that has changed."""
        with self._lock:
            self._made.pop(change.tool_id, None)
            self._seen = None

    def current(self) -> Listing:
        """Return the tools; the same object until something has changed."""
        sole, version = sole_source(self._view.settings), self._index.version
        seen = self._seen
        if seen is not None and seen[:2] == (version, sole):
            return seen[2]
        if seen is not None and seen[1] != sole:
            with self._lock:
                self._made.clear()
        listing = self._build_listing(version, sole)
        self._seen = version, sole, listing
        return listing

    def _build_listing(self, version: int, sole: str | None) -> Listing:
        versions: defaultdict[tuple[str | None, str], list[Summary]] = defaultdict(list)
        for summary in self._index.every():
            versions[summary.namespace, summary.name].append(summary)
        names: dict[str, str] = {}
        definitions: dict[str, Mapping[str, Any]] = {}
        # The names of the only server are its own, so others give way to them.
        for (namespace, name), summaries in sorted(
            versions.items(), key=lambda item: (item[0][0] != sole, item[0][0] or "", item[0][1])
        ):
            tool_id = summaries[0].id
            try:
                if len(summaries) > 1:
                    tool_id = str(self._index.resolve(ToolId(namespace, name)).id)
                public, definition = self._find_entry(tool_id, version, sole)
            except ToolNotFoundError:  # it has gone meanwhile
                continue
            if public in names:
                public = hashed_name(namespace, name)
                definition = {**definition, "name": public}
            names[public] = tool_id
            definitions[tool_id] = definition
        return Listing(tuple(definitions[tool_id] for tool_id in sorted(definitions)), names)

    def _find_entry(self, tool_id: str, version: int, sole: str | None) -> tuple[str, Mapping[str, Any]]:
        known = self._made.get(tool_id)
        if known is None:
            tool = self._index.get(tool_id)
            is_sole = sole is not None and tool.namespace == sole
            name = own_name(tool) if is_sole else public_name(tool.namespace, tool.name)
            backend = tool.backend
            server = backend.server_name if isinstance(backend, McpBackend) else None
            known = name, make_definition(tool, name, None if server == sole else server)
            with self._lock:
                if self._index.version == version:  # else it may be of before a change that was noted
                    self._made[tool_id] = known
        return known


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
