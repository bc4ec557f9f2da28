"""The places of the servers in the documents of each client."""

from collections.abc import Mapping
from typing import Any

from toolcrib.execution.mcp.config import ServerConfig

Place = tuple[str, ...]
"""Keys, from the top of a document to an object of servers by name."""
OURS = "toolcrib"
"""The key of our settings in a client's file."""
INHERIT = "inherit"
"""Beside the servers of a file of ours, what all of them inherit; a server of that name is a table."""
OPENCODE: Place = ("mcp",)
"""A place that other clients use for something else."""
_JSON: tuple[Place, ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",), OPENCODE)
"""Nearly everywhere; VS Code's `mcp.json`; its `settings.json`; Zed; opencode."""
_TOML: tuple[Place, ...] = (("servers",), ("mcpServers",))
SERVER_KEYS = frozenset(
    {
        *ServerConfig.model_fields,
        *(field.alias or name for name, field in ServerConfig.model_fields.items()),
    }
)
"""The keys of a server of ours, in both spellings."""
THEIRS = frozenset(
    {
        "enabled", "type", "serverUrl", "httpUrl", "environment", "alwaysAllow", "autoApprove", "description",
        "name", "disabledTools", "trust", "includeTools", "excludeTools", "source", "settings", "envFile",
        "dev", "gallery", "version", "oauth", "auth", "authorization", "icon", "tools",
    }
)  # fmt: skip
"""Keys of clients that are no settings of ours, although they look similar."""
_STARTS = frozenset({"command", "url", "serverUrl", "httpUrl"})
"""One of these makes an object a server."""
_OPENCODE = frozenset({"local", "remote"})
"""The values of `type` there."""


def places_in(document: Mapping[str, Any], *, toml: bool = False) -> list[Place]:
    """Return the places of servers in a document; after the first, only unambiguous ones.

    >>> places_in({"servers": {"a": {"url": "x"}}, "context_servers": {}}), places_in({"a": {"url": "x"}})
    ([('servers',), ('context_servers',)], [()])
    """
    found: list[Place] = []
    for place in _TOML if toml else _JSON:
        value = at(document, place)
        if place == OPENCODE:
            is_meant = _holds_servers(value) or (not found and value == {})
        else:
            is_meant = value is not None and (not found or _holds_objects(value))
        if is_meant:
            found.append(place)
    bare = {key: value for key, value in document.items() if key != OURS}
    return [()] if not found and not toml and _holds_servers(bare) else found


def section_of(document: Mapping[str, Any], *, toml: bool = False) -> Place:
    """Return the place where a configuration of ours has its servers, or would have them.

    >>> section_of({"servers": {}}), section_of({}), section_of({}, toml=True)
    (('servers',), ('mcpServers',), ('servers',))
    """
    found = places_in(document, toml=toml)
    return found[0] if found else (_TOML if toml else _JSON)[0]


def servers_in(document: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the servers at a place in a document, unchanged."""
    found = at(document, place)
    if not place:
        found = {key: value for key, value in document.items() if key != OURS}
    return split_inherit(found)[0] if isinstance(found, Mapping) else {}


def split_inherit(tables: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the servers of a section, and what all of them inherit; None where it does not say that.

    >>> split_inherit({"inherit": ["AWS_*"], "a": {"command": "a"}})
    ({'a': {'command': 'a'}}, ['AWS_*'])
    """
    if isinstance(tables.get(INHERIT), Mapping | None):
        return dict(tables), None
    return {name: table for name, table in tables.items() if name != INHERIT}, tables[INHERIT]


def at(document: Any, place: Place) -> Any:
    """Return the value at a place, or None."""
    for key in place:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _holds_servers(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(map(is_server, value.values()))


def _holds_objects(value: Any) -> bool:
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [None]
    return all(isinstance(member, Mapping) for member in members)


def is_server(value: Any) -> bool:
    """Return whether a value looks like a server.

    >>> is_server({"command": "uvx"}), is_server({"theme": "dark"})
    (True, False)
    """
    return isinstance(value, Mapping) and not _STARTS.isdisjoint(value)


def plain_server(server: Any) -> Any:
    """Return a server in the common format; an unknown shape stays unchanged for the validation.

    >>> plain_server({"command": {"path": "docs", "args": ["-v"], "env": {"A": "1"}}})  # Zed
    {'command': 'docs', 'args': ['-v'], 'env': {'A': '1'}}
    >>> plain_server({"type": "local", "command": ["docs", "-v"], "environment": {"A": "1"}})  # opencode
    {'command': 'docs', 'env': {'A': '1'}, 'args': ['-v']}
    """
    if not isinstance(server, Mapping):
        return server
    made = dict(server)
    if made.get("type") in tuple(_OPENCODE):
        _leave_opencode(made)
    match made.get("command"):
        case {"path": str() as path, **more}:
            made |= {"command": path} | {key: more[key] for key in ("args", "env") if more.get(key)}
        case [str() as program, *args] if not made.get("args"):
            made |= {"command": program, "args": args}
    if isinstance(made.get("sandbox"), Mapping):  # VS Code has settings of its own under our name
        made["vscode.sandbox"] = made.pop("sandbox")
    if made.get("enabled") is False:
        made.setdefault("disabled", True)
    return made


def _leave_opencode(server: dict[str, Any]) -> None:
    del server["type"]
    if "environment" in server:
        server.setdefault("env", server.pop("environment"))
    milliseconds = server.get("timeout")
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        del server["timeout"]
        server["start_timeout"] = milliseconds / 1000
