"""Serve a crib to MCP clients: one long-running endpoint for all servers and many users."""

import typing

from toolcrib import errors as _errors
from toolcrib.gateway.frontends.shared.frontend import (
    CallingClient,
    Confirmation,
    ConfirmationResult,
    Frontend,
    InputNeeded,
)

if typing.TYPE_CHECKING:
    from toolcrib.gateway.gateway import Gateway

__all__ = ["CallingClient", "Confirmation", "ConfirmationResult", "Frontend", "Gateway", "InputNeeded"]


def __getattr__(name: str) -> typing.Any:
    if name != "Gateway":
        raise AttributeError(f"module 'toolcrib.gateway' has no attribute {name!r}")
    try:
        from toolcrib import mcp_internals  # noqa: F401, PLC0415 - it checks the SDK's version
        from toolcrib.gateway.gateway import Gateway  # noqa: PLC0415 - it needs an extra
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("toolcrib"):
            raise
        raise _errors.MissingExtraError("the gateway", "cli") from error
    globals()["Gateway"] = Gateway
    return Gateway


def __dir__() -> list[str]:
    return [*__all__]
