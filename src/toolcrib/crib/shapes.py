"""Learn the shape of results from calls that went well."""

import logging
from collections import Counter
from threading import Lock

from toolcrib.discovery import DocStore
from toolcrib.errors import BackendUnavailableError, ToolcribError, ToolNotFoundError
from toolcrib.execution import Outcome

_LOG = logging.getLogger("toolcrib.crib")
_ALL_UP_TO = 64
"""How many results of a tool are all looked at."""
_THEN_EVERY = 16
"""After these, one in so many is looked at, since a look takes 0.1 ms."""


class ShapeLearning:
    """Learns the shape of what tools give back that declare no output schema."""

    def __init__(self, docs: DocStore) -> None:
        """Learn for documentation."""
        self._docs = docs
        self._runs: Counter[str] = Counter()
        self._lock = Lock()

    def learn(self, outcome: Outcome) -> None:
        """Learn from how a call ended."""
        if outcome.answer is None or outcome.request is None:
            return
        with self._lock:
            self._runs[outcome.tool_id] += 1
            runs = self._runs[outcome.tool_id]
        is_looked_at = runs <= _ALL_UP_TO or runs % _THEN_EVERY == 0
        if is_looked_at and outcome.request.tool.shared("output_schema") is None:
            try:
                self._docs.observe(outcome.request.tool.id, outcome.answer.structured)
            except (ToolNotFoundError, BackendUnavailableError):
                _LOG.debug("%s went away while it ran", outcome.tool_id)
            except ToolcribError as error:  # what is learnt must not cost the run that it was learnt from
                _LOG.warning("what %s gave back is not learnt: %s", outcome.tool_id, error)
