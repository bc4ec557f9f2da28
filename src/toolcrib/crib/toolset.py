"""Which tools a toolset admits, by its name or by what is said of it."""

from toolcrib.crib.config.gateway import ToolsetSettings
from toolcrib.crib.config.settings import Settings
from toolcrib.discovery import Scope
from toolcrib.errors import ConfigError, Problem
from toolcrib.model.suggest import did_you_mean

__all__ = ["scope_of"]

_NO_FILE = "settings"
"""What stands for the file where there is none."""


def scope_of(toolset: str | ToolsetSettings | Scope, settings: Settings) -> Scope:
    """Return what a toolset admits.

    Raises:
        ConfigError: no toolset is called that.
    """
    if isinstance(toolset, Scope):
        return toolset
    if isinstance(toolset, ToolsetSettings):
        return _admitted(toolset)
    source = settings.source or _NO_FILE
    found = settings.toolsets.get(toolset)
    if found is None:
        names = ", ".join(sorted(settings.toolsets)) or "none"
        hint = did_you_mean(toolset, settings.toolsets) or f"; there are {names}"
        raise ConfigError(str(source), (Problem(f"/toolsets/{toolset}", "name", f"is not a toolset{hint}"),))
    return _admitted(found)


def _admitted(toolset: ToolsetSettings) -> Scope:
    annotations = {str(hint): value for hint, value in toolset.annotations.items()}
    return Scope(**toolset.model_dump(exclude={"description", "annotations"}), annotations=annotations)
