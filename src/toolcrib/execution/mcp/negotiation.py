"""Negotiation of the protocol revision with a server.

The SDK calls the two eras of MCP modern (stateless, from 2026-07-28) and legacy (with the `initialize`
handshake). A modern server answers `server/discover`; nearly all legacy servers refuse that unknown request
at once, some stay silent, and some hang up, which the caller notices. So modern comes first, with a time
limit on a pipe, and then the handshake.
"""

from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolcrib.execution.mcp.errors import is_unreachable, needs_login


async def negotiate(
    session: ClientSession, *, probe: bool, patience: float, handshake_only: bool = False
) -> None:
    """Agree with a server on a revision of the protocol, a modern one if it knows any.

    Args:
        session: the session with the server.
        probe: False for a server that is known to be legacy, so that the handshake comes first.
        patience: the seconds after which a server that does not answer `server/discover` is taken for legacy.
        handshake_only: do not try a modern revision where the server refuses the handshake.

    Raises:
        MCPError: the server refused, has no revision in common with us, or went away.
        RuntimeError: it chose a revision that nobody knows.
        pydantic.ValidationError: it answered something else.
    """
    version: str | None = LATEST_MODERN_VERSION if probe else None
    refused: MCPError | None = None
    for again in (True, False):
        try:
            if version is not None and await _discover(session, version, patience):
                return
        except MCPError as error:
            if not needs_login(error):
                raise
            refused = error
        try:
            await session.initialize()
        except MCPError as error:
            if refused is not None:  # the login is the reason, whatever the handshake failed with
                raise refused from error
            # A server that took a late `server/discover` for the beginning of a modern session says so here.
            version = _common_revision(_supported_revisions(error))
            if not again or version is None or handshake_only:
                raise
        else:
            return


async def _discover(session: ClientSession, version: str, patience: float, *, again: bool = True) -> bool:
    """Send `server/discover`, and return whether the revision was agreed on.

    One that refuses the revision and names another that we know is asked once more, in that.
    """
    found: Any = None
    try:
        with anyio.move_on_after(patience):
            found = await session.send_discover(version)
    except MCPError as error:
        supported = _supported_revisions(error)
        mutual = _common_revision(supported)
        known = mutual or any(each in HANDSHAKE_PROTOCOL_VERSIONS for each in supported)
        if is_unreachable(error) or needs_login(error) or (supported and not known):
            raise
        return mutual is not None and again and await _discover(session, mutual, patience, again=False)
    try:
        result = types.DiscoverResult.model_validate(found)
    except ValidationError:
        return False
    if not _common_revision(result.supported_versions):
        return False
    session.adopt(result)
    return True


def _supported_revisions(error: MCPError) -> list[str]:
    """Return the revisions that a server names when it refuses one."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return types.UnsupportedProtocolVersionErrorData.model_validate(error.data).supported
    except ValidationError:
        return []


def _common_revision(supported: list[str]) -> str | None:
    """Return the latest stateless revision that both sides know."""
    return next((each for each in reversed(MODERN_PROTOCOL_VERSIONS) if each in supported), None)
