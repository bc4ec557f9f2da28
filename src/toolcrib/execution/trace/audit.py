"""One record for each call: who, what, where, how it ended, how long and how large."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from toolcrib.errors import (
    ConfigError,
    Op,
    OutputValidationError,
    Problem,
    ToolError,
    ToolExecutionError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.execution.middleware.cache import FROM_CACHE
from toolcrib.execution.records import Outcome
from toolcrib.execution.selection import label
from toolcrib.execution.trace.levels import ProtocolLevel, ToolLevel, TransportLevel, code_of, levels_of
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.record import Record

__all__ = ["Audit", "AuditRecord", "Redact", "args_of", "json_size", "json_text", "result_of"]

Redact = Callable[[str, Any], Any]
"""Takes a tool id and its arguments, which are a copy, and returns what may be written of them."""


class AuditRecord(Record):
    """What is kept of one call; no argument, no result and no error message, for those may hold values."""

    time: str
    """When it began, in UTC: `2026-01-31T23:59:59.999Z`."""
    caller: str | None = None
    """Who asked, where that is known."""
    tool_id: str
    """The id of the tool, or the reference that no tool answers to."""
    backend: str | None = None
    """`kind:name` of the last one that was tried."""
    transport: TransportLevel
    """These three are explained at `Levels`."""
    protocol: ProtocolLevel
    """Whether an exchange took place, and was in order."""
    tool: ToolLevel
    """What the tool itself answered."""
    cached: bool = False
    """Whether the answer came from the cache."""
    error: str | None = None
    """The code that `toolcrib.errors.explain` gives."""
    op: Op | None = None
    """What was being done when it failed."""
    duration: float
    """Seconds."""
    args_bytes: int | None = None
    """As JSON; None where the arguments are not."""
    result_bytes: int | None = None
    """As JSON; None where there was none, or it is not."""
    args: Any | None = None
    """Only where they were asked for."""


@dataclass(frozen=True, slots=True)
class Audit:
    """An observer that gives a record of each call to a sink: `JsonLines`, or a list's `append`.

    Arguments are recorded only with `include_args`, after `redact` has had its say; if that fails, or they
    are not JSON, they are left out. `sizes=False` spares the time to measure large values.

    Raises:
        ConfigError: the sink cannot be called.
    """

    sink: Callable[[AuditRecord], object]
    """Takes each record."""
    _: KW_ONLY
    include_args: bool = False
    """Whether arguments are recorded."""
    redact: Redact | None = None
    """Returns what may be recorded of the arguments."""
    sizes: bool = True
    """Whether arguments and results are measured."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970."""

    def __post_init__(self) -> None:
        if not callable(self.sink):
            message = f"must be a function that takes a record{_advice(self.sink)}"
            raise ConfigError("Audit", (Problem("/sink", "type", message),))

    def begin(self, tool_id: str, caller: str | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - the outcome says both
        """Note the time, and return what makes the record."""
        return partial(self._end, self.clock())

    def _end(self, began: float, outcome: Outcome) -> None:
        transport, protocol, tool = levels_of(outcome)
        error = outcome.error
        record = AuditRecord.of_checked(
            time=_utc(began),
            caller=outcome.caller,
            tool_id=outcome.tool_id,
            backend=None if outcome.backend is None else label(outcome.backend),
            transport=transport,
            protocol=protocol,
            tool=tool,
            cached=outcome.answer is not None and FROM_CACHE in outcome.answer.notes,
            error=None if error is None else code_of(error),
            op=_op(error),
            duration=outcome.duration,
            args_bytes=json_size(args_of(outcome)) if self.sizes else None,
            result_bytes=json_size(result_of(outcome)) if self.sizes else None,
            args=self._args(outcome) if self.include_args else None,
        )
        self.sink(record)

    def _args(self, outcome: Outcome) -> Any:
        """Return what may be written of the arguments."""
        args = args_of(outcome)
        try:
            measure(args)
            if self.redact is None:
                return copy_json(args)
            shown = self.redact(outcome.tool_id, copy_json(args))
            measure(shown)
        except ValidationError:
            return None
        except Exception:  # noqa: BLE001 - a user's function, and what it would have hidden must not be shown
            return "(redaction failed)"
        return shown


def _advice(sink: Any) -> str:
    if isinstance(sink, str | Path):
        return f"; did you mean JsonLines({str(sink)!r:.200})?"
    return f", not a {type(sink).__name__}{'; give its append' if isinstance(sink, list) else ''}"


def _utc(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _op(error: BaseException | None) -> Op | None:
    if isinstance(error, ToolError):
        return error.op
    return "resolve" if isinstance(error, ToolNotFoundError) else None


def json_text(value: Any) -> bytes | None:
    """Return a value as JSON; None if it is None, or no JSON can be made of it."""
    if value is None:
        return None
    try:
        return to_json(value)
    except ValueError:  # pydantic's own error for a type it does not know, or a value that holds itself
        return None


def json_size(value: Any) -> int | None:
    """Return how many bytes of JSON a value is; None if it is None, or no JSON can be made of it.

    >>> json_size({"a": [1, 2]}), json_size(object())
    (11, None)
    """
    text = json_text(value)
    return None if text is None else len(text)


def args_of(outcome: Outcome) -> Any:
    """Return the arguments of a call: as they were read, or else as they came."""
    return outcome.raw_args if outcome.request is None else outcome.request.args


def result_of(outcome: Outcome) -> Any:
    """Return what a tool gave back: its value, or the raw result where there is none, or that of an error."""
    if outcome.answer is None:
        error = outcome.error
        return error.result if isinstance(error, OutputValidationError | ToolExecutionError) else None
    value = outcome.answer.structured
    return outcome.answer.mcp_result if value is None else value
