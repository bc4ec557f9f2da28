"""How far a call has come, and whoever is told of its beginning and its end."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from toolcrib.errors import Op
from toolcrib.execution.protocols import Observer
from toolcrib.execution.records import Answer, Outcome, Request
from toolcrib.execution.selection import label
from toolcrib.model.backend import ToolBackend

__all__ = ["Finish", "Trail", "begin", "tell"]

_LOG = logging.getLogger("toolcrib")
Finish = Callable[[Outcome], None]


@dataclass(slots=True)
class Trail:
    """How far a call has come, for whoever is told how it ended."""

    tool_id: str
    args: Any
    caller: str | None
    request: Request | None = None
    backend: ToolBackend | None = None
    op: Op = "resolve"
    deadline: float = inf
    notes: list[str] = field(default_factory=list)

    @property
    def place(self) -> str | None:
        """Return the backend as errors name it."""
        return None if self.backend is None else label(self.backend)

    @property
    def asked(self) -> Request:
        """Return the request of a call that came so far."""
        if self.request is None:
            raise RuntimeError("a call was answered that was never admitted")
        return self.request


def begin(observers: Iterable[Observer], trail: Trail) -> list[Finish]:
    """Tell observers that a call begins, and return those who wait for its end."""
    return [finish for each in observers if (finish := _begun(each, trail)) is not None]


def _begun(observer: Observer, trail: Trail) -> Finish | None:
    try:
        return observer.begin(trail.tool_id, trail.caller)
    except Exception:  # noqa: BLE001 - an observer is somebody else's code, and may not harm what it watches
        _LOG.exception("the observer %r failed", observer)
        return None


def tell(
    watchers: Sequence[Finish],
    trail: Trail,
    answer: Answer | None,
    error: BaseException | None,
    duration: float,
) -> None:
    """Tell those who wait for it how a call ended, the last who was told of its beginning first."""
    outcome = Outcome(
        tool_id=trail.tool_id,
        request=trail.request,
        backend=trail.backend,
        answer=answer if error is None else None,
        error=error,
        duration=duration,
        caller=trail.caller,
        raw_args=trail.args,
    )
    for finish in reversed(watchers):
        try:
            finish(outcome)
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("the observer behind %r failed", finish)
