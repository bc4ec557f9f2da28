"""One record for each call: who, what, where, how it ended, how long and how large."""

import re
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic_core import to_json

from toolcrib.errors import (
    ConfigError,
    Op,
    OutputValidationError,
    PolicyDeniedError,
    Problem,
    ToolError,
    ToolExecutionError,
    ToolNotFoundError,
    Unconfirmed,
    ValidationError,
)
from toolcrib.execution.audit.levels import ProtocolLevel, ToolLevel, TransportLevel, code_of, levels_of
from toolcrib.execution.call import Outcome
from toolcrib.execution.middleware.cache import FROM_CACHE
from toolcrib.execution.principal import Principal
from toolcrib.execution.selection import label
from toolcrib.model.json_text import sorted_json
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.record import Record

_DEPTH = 32
_HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)|secret|token(?!s\b|_count|s_)|api[_-]?key|authorization|credential|private[_-]?key",
    re.IGNORECASE,
)
Redact = Callable[[str, Any], Any]
"""Takes a tool id and its arguments, which are a copy, and returns what may be written of them."""


class AuditRecord(Record):
    """What is kept of one call; no argument, no result and no error message, for those may hold values."""

    time: str
    """When it began, in UTC: `2026-01-31T23:59:59.999Z`."""
    operation: Literal["execute_tool"] = Field(default="execute_tool", alias="gen_ai.operation.name")
    """What was done."""
    issuer: str | None = Field(default=None, alias="toolcrib.issuer")
    """Who vouches for the subject, where somebody does."""
    subject: str | None = Field(default=None, alias="user.id")
    """Who asked, where that is known."""
    groups: tuple[str, ...] | None = Field(default=None, alias="user.roles")
    """The groups that they are in."""
    client: str | None = Field(default=None, alias="toolcrib.client")
    """The program that asked for them."""
    tool_id: str = Field(alias="gen_ai.tool.name")
    """The id of the tool, or the reference that no tool answers to."""
    effect: Literal["allow", "deny"] | None = Field(default=None, alias="toolcrib.policy.effect")
    """What the policy decided, where it came to that."""
    rule: str | None = Field(default=None, alias="toolcrib.policy.rule")
    """The rule that decided, where a rule did."""
    answer: Unconfirmed | None = Field(default=None, alias="toolcrib.policy.answer")
    """How the question to a person ended that the call was refused after."""
    backend: str | None = Field(default=None, alias="toolcrib.backend")
    """`kind:name` of the last one that was tried."""
    transport: TransportLevel = Field(alias="toolcrib.transport")
    """These three are explained at `Levels`."""
    protocol: ProtocolLevel = Field(alias="toolcrib.protocol")
    """Whether an exchange took place, and was in order."""
    tool: ToolLevel = Field(alias="toolcrib.tool")
    """What the tool itself answered."""
    cached: bool = Field(default=False, alias="toolcrib.cached")
    """Whether the answer came from the cache."""
    error: str | None = Field(default=None, alias="error.type")
    """The code that `toolcrib.errors.explain` gives."""
    op: Op | None = Field(default=None, alias="toolcrib.op")
    """What was being done when it failed."""
    duration: float = Field(alias="toolcrib.duration")
    """Seconds."""
    args_bytes: int | None = Field(default=None, alias="toolcrib.arguments.bytes")
    """As JSON; None where the arguments are not."""
    args_digest: str | None = Field(default=None, alias="toolcrib.arguments.sha256")
    """The SHA-256 of the arguments as canonical JSON, by which two calls can be compared."""
    result_bytes: int | None = Field(default=None, alias="toolcrib.result.bytes")
    """As JSON; None where there was none, or it is not."""
    args: Any | None = Field(default=None, alias="gen_ai.tool.call.arguments")
    """Only where they were asked for."""


@dataclass(frozen=True, slots=True)
class Audit:
    """An observer that gives a record of each call to a sink: `JsonLines`, or a list's `append`.

    Arguments are recorded only with `include_args`: without the values that the schema of the tool calls
    secret (`writeOnly`, `format: password`) or whose names do, and after `redact` has had its say; if that
    fails, or they are not JSON, they are left out. `sizes=False` spares the time to measure large values.

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

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - the outcome says both
        """Note the time, and return what makes the record."""
        return partial(self._end, self.clock())

    def _end(self, began: float, outcome: Outcome) -> None:
        if outcome.is_suspended:  # it is recorded when its client has made it again
            return
        transport, protocol, tool = levels_of(outcome)
        error = outcome.error
        who = outcome.principal or Principal()
        record = AuditRecord.of_checked(
            time=_utc(began),
            issuer=who.issuer or None,
            subject=who.subject or None,
            groups=tuple(sorted(who.groups)) or None,
            client=who.client or None,
            effect=_effect(outcome),
            rule=outcome.rule or getattr(error, "rule", None),
            answer=error.answer if isinstance(error, PolicyDeniedError) else None,
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
            args_digest=_args_digest(args_of(outcome)) if self.sizes else None,
            result_bytes=json_size(result_of(outcome)) if self.sizes else None,
            args=self._args(outcome) if self.include_args else None,
        )
        self.sink(record)

    def _args(self, outcome: Outcome) -> Any:
        """Return what may be written of the arguments."""
        args = args_of(outcome)
        try:
            measure(args)
            schema = {} if outcome.request is None else outcome.request.tool.shared("input_schema")
            shown = _without_secrets(copy_json(args), schema)
            if self.redact is None:
                return shown
            shown = self.redact(outcome.tool_id, shown)
            measure(shown)
        except ValidationError:
            return None
        except Exception:  # noqa: BLE001 - a user's function, and what it would have hidden must not be shown
            return "(redaction failed)"
        return shown


def _effect(outcome: Outcome) -> Literal["allow", "deny"] | None:
    """Return what the policy decided: nothing where the call ended before it had."""
    if isinstance(outcome.error, PolicyDeniedError) and outcome.error.op == "policy":
        return "deny"
    return "allow" if outcome.is_allowed else None


def _args_digest(args: Any) -> str | None:
    text = canonical_text(args)
    return None if text is None else sha256(text).hexdigest()


def canonical_text(value: Any) -> bytes | None:
    """Return a value as JSON in the one form that equal values share; None where it is not JSON."""
    try:
        measure(value)
        return sorted_json(value).encode(errors="surrogatepass")
    except (ValidationError, ValueError, TypeError):
        return None


def _without_secrets(value: Any, schema: Any, depth: int = _DEPTH) -> Any:
    """Return a value without what its schema, or the name of a member, calls secret."""
    if not isinstance(value, dict) or depth == 0:
        if isinstance(value, list) and depth:
            items = schema.get("items") if isinstance(schema, dict) else None
            return [_without_secrets(item, items, depth - 1) for item in value]
        return value
    declared = schema.get("properties") if isinstance(schema, dict) else None
    known = declared if isinstance(declared, dict) else {}
    return {
        name: _HIDDEN
        if _is_secret(name, known.get(name))
        else _without_secrets(each, known.get(name), depth - 1)
        for name, each in value.items()
    }


def _is_secret(name: str, schema: Any) -> bool:
    declared = schema if isinstance(schema, dict) else {}
    is_declared = declared.get("writeOnly") is True or declared.get("format") == "password"
    return is_declared or _SECRET_NAME.search(name) is not None


def _advice(sink: Any) -> str:
    if isinstance(sink, str | Path):
        return f"; did you mean JsonLines({str(sink)!r:.200})?"
    return f", not a {type(sink).__name__}{'; give its append' if isinstance(sink, list) else ''}"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
