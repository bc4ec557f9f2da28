"""Tools that are Python functions in this process: sync, async, and generators."""

from toolcrib.execution.local.handlers import LocalHandlers

__all__ = ["LocalHandlers"]
