"""Where in a document the servers stand, by the clients that write it."""

from collections.abc import Mapping
from typing import Any

from toolcrib.crib.config.shapes import is_server

__all__ = ["OPENCODE", "OURS", "Place", "at", "places_in", "section_of", "servers_in"]

Place = tuple[str, ...]
"""Keys, from the top of a document to an object of servers by name."""
OURS = "toolcrib"
"""Under which key a client's file holds settings of ours."""
OPENCODE: Place = ("mcp",)
"""A place that other clients have for something else."""
_JSON: tuple[Place, ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",), OPENCODE)
"""Nearly everywhere; VS Code's `mcp.json`; its `settings.json`; Zed; opencode."""
_TOML: tuple[Place, ...] = (("servers",), ("mcpServers",))


def places_in(document: Mapping[str, Any], *, toml: bool = False) -> list[Place]:
    """Return the places where a document has servers; beside the first, only what can be nothing else.

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
    """Return the servers that stand at a place in a document, as they are written."""
    found = at(document, place)
    if not place:
        found = {key: value for key, value in document.items() if key != OURS}
    return dict(found) if isinstance(found, Mapping) else {}


def at(document: Any, place: Place) -> Any:
    """Return what stands at a place; None where nothing does."""
    for key in place:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _holds_servers(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(map(is_server, value.values()))


def _holds_objects(value: Any) -> bool:
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [None]
    return all(isinstance(member, Mapping) for member in members)
