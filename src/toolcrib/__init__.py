"""The counter where AI agents' tools are kept, catalogued, found and handed out.

The names below are loaded when they are first used, so that `import toolcrib` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.crib import Crib, SyncCrib
    from toolcrib.errors import ToolcribError
    from toolcrib.model import Context, DefaultValidator, Tool, ToolId, tool
    from toolcrib.version import Constraint, Matrix, Version

__version__ = "0.1.0"

__all__ = [
    "Constraint",
    "Context",
    "Crib",
    "DefaultValidator",
    "Matrix",
    "SyncCrib",
    "Tool",
    "ToolId",
    "ToolcribError",
    "Version",
    "tool",
]

_HOMES = {
    "Constraint": "toolcrib.version",
    "Context": "toolcrib.model",
    "Crib": "toolcrib.crib",
    "DefaultValidator": "toolcrib.model",
    "Matrix": "toolcrib.version",
    "SyncCrib": "toolcrib.crib",
    "Tool": "toolcrib.model",
    "ToolId": "toolcrib.model",
    "ToolcribError": "toolcrib.errors",
    "Version": "toolcrib.version",
    "tool": "toolcrib.model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolcrib' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
