"""What the meta-tools say of themselves to a model, given what the catalogue contains."""

from toolcrib.gateway.meta.definitions import DEFINITIONS
from toolcrib.gateway.meta.portrait import Sight
from toolcrib.runtime import GUIDE

__all__ = ["described"]

_EMPTY = (
    "The catalogue is empty at the moment: no tool can be found. Search again later; servers may be starting."
)
_WHEN = (
    "Use it whenever a task may need a tool, and before saying that you cannot do something or have no tool "
    "for it."
)
_GUIDE_PARTS = 2
"""Paragraphs of the guide that a model needs before it writes code; errors tell the rest."""


def described(name: str, sight: Sight) -> str:
    """Return the description of a meta-tool."""
    said = DEFINITIONS[name].description
    if name == "search_tools":
        return f"{said} {_WHEN} {sight.text or _EMPTY}"
    if name == "execute_code":
        guide = " ".join(GUIDE.split("\n\n")[:_GUIDE_PARTS])
        return f"{said} {guide}"
    if sight.read_only and DEFINITIONS[name].runs:
        return f"{said} All tools here are read-only."
    return said
