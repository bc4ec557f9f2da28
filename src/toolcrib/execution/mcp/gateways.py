"""A toolcrib behind a toolcrib: how one asks the other for its tools themselves, and how loops are found.

A gateway shows its clients a few tools that find and run all others. Another toolcrib does its own finding,
so it wants the tools themselves: over HTTP its requests say so in a header, on a pipe it is known by its
name.

Each gateway declares its own id and those of the gateways behind it. One that finds its own id there would
list its own tools again, under longer names each time, so it leaves that server out.
"""

from typing import Any, Final

CLIENT_NAME = "toolcrib"
"""The name that a toolcrib gives itself as a client."""
EXPOSE_HEADER: Final = "toolcrib-expose"
EXPOSE_ALL: Final = "all"
"""The header with which it asks for the tools themselves, and its value."""
DECLARED = "toolcrib/gateways"
"""Where a gateway declares its id and those behind it: in its experimental capabilities, for each new
connection, and in the `_meta` of its lists of tools, for changes."""
_IDS = "ids"
_MAX_GATEWAYS = 256
"""So many ids of a server are taken: they are declared again to every client."""
_MAX_ID_LENGTH = 64


class GatewayLoopError(Exception):
    """A server that is this very gateway, or leads back to it."""


def declared_gateways(holder: Any, own: str) -> frozenset[str]:
    """Return the gateways that a server declares to be, or to have behind it.

    `holder` are its experimental capabilities, or the `_meta` of a list of its tools.

    >>> sorted(declared_gateways({"toolcrib/gateways": {"ids": ["b", "c"]}}, "a"))
    ['b', 'c']

    Raises:
        GatewayLoopError: the gateway `own` is among them.
    """
    declared = holder.get(DECLARED) if isinstance(holder, dict) else None
    ids = declared.get(_IDS) if isinstance(declared, dict) else None
    listed = ids[:_MAX_GATEWAYS] if isinstance(ids, list) else []
    found = [each for each in listed if isinstance(each, str) and len(each) <= _MAX_ID_LENGTH]
    if own in found:
        how = "is this very gateway" if found[0] == own else "leads back to this gateway through others"
        raise GatewayLoopError(f"it {how}; take it out of the configuration")
    return frozenset(found)


def declaration(own: str, behind: frozenset[str]) -> dict[str, dict[str, Any]]:
    """Return the declaration of a gateway."""
    return {DECLARED: {_IDS: [own, *sorted(behind)]}}
