"""The meta-tools: eight tools that find, explain and run all others."""

import typing

from toolcrib import errors as _errors

if typing.TYPE_CHECKING:
    from toolcrib.gateway.frontends.meta.tools import MetaTools

__all__ = ["MetaTools"]


def __getattr__(name: str) -> typing.Any:
    if name != "MetaTools":
        raise AttributeError(f"module 'toolcrib.gateway.frontends.meta' has no attribute {name!r}")
    try:
        from toolcrib.gateway.frontends.meta import tools  # noqa: PLC0415 - it needs an extra
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("toolcrib"):
            raise
        raise _errors.MissingExtraError("the gateway", "cli") from error
    globals()[name] = found = getattr(tools, name)
    return found


def __dir__() -> list[str]:
    return [*__all__]
