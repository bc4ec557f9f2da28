"""Learns the shapes of results from successful calls."""

import logging
from collections import Counter
from threading import Lock
from typing import Any

from toolcrib.discovery import DocStore
from toolcrib.errors import BackendUnavailableError, ToolcribError, ToolNotFoundError
from toolcrib.model import Tool

_LOG = logging.getLogger("toolcrib.crib")
_ALL_UP_TO = 64
"""Results of a tool that are all sampled."""
_THEN_EVERY = 16
"""After these, one in so many is sampled, since a sample takes 0.1 ms."""


class ShapeLearning:
    """Learns the result shapes of tools that declare no output schema."""

    def __init__(self, docs: DocStore) -> None:
        """Store the shapes in documentation."""
        self._docs = docs
        self._runs: Counter[str] = Counter()
        self._lock = Lock()

    def learn(self, tool: Tool, result: Any) -> None:
        """Learn from the result of a call."""
        tool_id = str(tool.id)
        with self._lock:
            self._runs[tool_id] += 1
            runs = self._runs[tool_id]
        if runs <= _ALL_UP_TO or runs % _THEN_EVERY == 0:
            try:
                self._docs.observe(tool.id, result)
            except (ToolNotFoundError, BackendUnavailableError):
                _LOG.debug("%s was removed while it ran", tool_id)
            except ToolcribError as error:  # a failure to learn must not fail the call
                _LOG.warning("nothing was learned from the result of %s: %s", tool_id, error)
