"""Learns from successful calls: how often tools are used, and the shapes of their results."""

import logging
from collections import Counter
from collections.abc import Callable
from threading import Lock

import anyio
from anyio import to_thread

from toolcrib.crib.shapes import ShapeLearning
from toolcrib.crib.visible import VisibleTools
from toolcrib.discovery import Discovery
from toolcrib.errors import ToolcribError, ToolNotFoundError
from toolcrib.execution import Outcome
from toolcrib.execution.principal import Principal

_LOG = logging.getLogger("toolcrib.crib")
_PAUSE = 5.0
"""Seconds between two writes of the counts."""


class Learning:
    """Observer that counts uses, and learns shapes for the whole catalogue.

    While `run` is running, it writes the counts periodically; `flush` writes them at once. Without `run`,
    each use is counted at once.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._shapes = ShapeLearning(discovery.docs)
        self._is_periodic = discovery.index.store is not None
        self._uses: Counter[str] = Counter()
        self._lock = Lock()

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - the outcome says both
        """Return the callback for the end of the call."""
        return self._learn

    def _learn(self, outcome: Outcome) -> None:
        if outcome.answer is None or outcome.request is None:
            return
        with self._lock:
            self._uses[outcome.tool_id] += 1
        if not self._is_periodic:
            self.flush()
        if outcome.request.tool.shared("output_schema") is None:
            self._shapes.learn(outcome.request.tool, outcome.answer.structured)
            tools = outcome.request.context.tools
            if isinstance(tools, VisibleTools) and tools.shapes is not None:
                tools.shapes.learn(outcome.request.tool, outcome.answer.structured)

    def flush(self) -> None:
        """Add the counts to the index."""
        with self._lock:
            uses, self._uses = self._uses, Counter()
        for tool_id, times in uses.items():
            try:
                self._discovery.index.count_use(tool_id, times)
            except ToolNotFoundError:
                _LOG.debug("%s went away after it was used", tool_id)
            except ToolcribError as error:
                _LOG.warning("the uses of %s are not counted: %s", tool_id, error)

    async def run(self) -> None:
        """Write the counts periodically, until cancelled."""
        self._is_periodic = True
        while True:
            await anyio.sleep(_PAUSE)
            if self._uses:
                await to_thread.run_sync(self.flush)
