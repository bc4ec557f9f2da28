"""Agreeing with a server on a revision of the protocol, from either of its two eras.

Servers of the stateless era are asked what they are with `server/discover`; those of the handshake era do not
know that request, and are greeted with `initialize`. Nearly all of these refuse the unknown request at once.
Some stay silent, for which there is a limit, and some hang up, which the caller of `agree` has to notice.
"""

from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolcrib.execution.mcp.failures import is_unreachable

__all__ = ["agree"]


async def agree(session: ClientSession, *, probe: bool, patience: float) -> None:
    """Agree on a revision, the stateless one if the server knows it.

    With `probe` off the handshake comes first, as for a server that is known to want it. `patience` is how
    many seconds a server may leave the question unanswered before it is taken not to understand it.

    Raises:
        MCPError: the server refused, has no revision in common with us, or went away.
        RuntimeError: it chose a revision that nobody knows.
        pydantic.ValidationError: it answered something else.
    """
    version: str | None = LATEST_MODERN_VERSION if probe else None
    for again in (True, False):
        if version is not None and await _discovered(session, version, patience):
            return
        try:
            await session.initialize()
        except MCPError as error:
            # A server that took the late question for the beginning of a stateless session says so here.
            version = _mutual(_supported(error))
            if not again or version is None:
                raise
        else:
            return


async def _discovered(session: ClientSession, version: str, patience: float) -> bool:
    """Ask a server what it is, and return whether the revision was agreed on."""
    found: Any = None
    try:
        with anyio.move_on_after(patience):
            found = await session.send_discover(version)
    except MCPError as error:
        supported = _supported(error)
        known = any(each in HANDSHAKE_PROTOCOL_VERSIONS for each in supported) or _mutual(supported)
        if is_unreachable(error) or (supported and not known):
            raise
        return False
    try:
        result = types.DiscoverResult.model_validate(found)
    except ValidationError:
        return False
    if not _mutual(result.supported_versions):
        return False
    session.adopt(result)
    return True


def _supported(error: MCPError) -> list[str]:
    """Return the revisions that a server names when it refuses one."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return types.UnsupportedProtocolVersionErrorData.model_validate(error.data).supported
    except ValidationError:
        return []


def _mutual(supported: list[str]) -> str | None:
    """Return the latest stateless revision that both sides know."""
    return next((each for each in reversed(MODERN_PROTOCOL_VERSIONS) if each in supported), None)
