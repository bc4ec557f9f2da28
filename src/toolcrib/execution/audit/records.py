"""Audit records: one for each call, with principal, tool, backend, outcome, duration and sizes."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
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
from toolcrib.model.backend import label
from toolcrib.model.findings import ResultFinding
from toolcrib.model.json_text import sorted_json
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.record import Record

_MAX_DEPTH = 32
_REPLACEMENT = "(hidden)"
_USUAL_NAME = 64
"""Characters of a name up to which it is remembered whether it sounds secret."""
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)|secret|token(?!s\b|_count|s_)|api[_-]?key|authorization|credential|private[_-]?key",
    re.IGNORECASE,
)
Redact = Callable[[str, Any], Any]
"""Takes a tool id and a copy of its arguments, and returns the arguments to record."""


Operation = Literal["execute_tool", "read_resource", "get_prompt", "complete", "request"]
_OPERATIONS: Mapping[str, Operation] = {
    "resources/read": "read_resource",
    "prompts/get": "get_prompt",
    "completion/complete": "complete",
}


class AuditRecord(Record):
    """The record of one call, without data: no result, no error message, and arguments only on request."""

    time: str
    """The time at which it began, in UTC: `2026-01-31T23:59:59.999Z`."""
    operation: Operation = Field(default="execute_tool", alias="gen_ai.operation.name")
    """The operation; those other than a call are recorded only if the result check found something."""
    issuer: str | None = Field(default=None, alias="toolcrib.issuer")
    """The issuer that authenticated the subject."""
    subject: str | None = Field(default=None, alias="user.id")
    """The caller, if known."""
    groups: tuple[str, ...] | None = Field(default=None, alias="user.roles")
    """The groups of the caller."""
    client: str | None = Field(default=None, alias="toolcrib.client")
    """The program that acts for the caller."""
    tool_id: str = Field(alias="gen_ai.tool.name")
    """The id of the tool, or the reference if it is unknown."""
    seen_as: str | None = Field(default=None, alias="toolcrib.seen_as")
    """The id by which the caller knows the tool, if a toolset gives it another."""
    effect: Literal["allow", "deny"] | None = Field(default=None, alias="toolcrib.policy.effect")
    """The decision of the policy, if the call got that far."""
    rule: str | None = Field(default=None, alias="toolcrib.policy.rule")
    """The rule that decided, if one did."""
    answer: Unconfirmed | None = Field(default=None, alias="toolcrib.policy.answer")
    """The outcome of asking a person, if the call was refused after that."""
    backend: str | None = Field(default=None, alias="toolcrib.backend")
    """`kind:name` of the last backend that was tried."""
    transport: TransportLevel = Field(alias="toolcrib.transport")
    """Whether the backend was reached; see `Levels` for these three."""
    protocol: ProtocolLevel = Field(alias="toolcrib.protocol")
    """Whether an exchange took place, and was valid."""
    tool: ToolLevel = Field(alias="toolcrib.tool")
    """The result of the tool itself."""
    cached: bool = Field(default=False, alias="toolcrib.cached")
    """Whether the answer came from the cache."""
    error: str | None = Field(default=None, alias="error.type")
    """The code of the error, as in `toolcrib.errors.explain`."""
    op: Op | None = Field(default=None, alias="toolcrib.op")
    """The operation that failed."""
    duration: float = Field(alias="toolcrib.duration")
    """Seconds."""
    args_bytes: int | None = Field(default=None, alias="toolcrib.arguments.bytes")
    """Size as JSON; None if they are not JSON."""
    args_digest: str | None = Field(default=None, alias="toolcrib.arguments.sha256")
    """SHA-256 of the arguments as canonical JSON, to compare calls."""
    result_bytes: int | None = Field(default=None, alias="toolcrib.result.bytes")
    """Size as JSON; None without a result, or if it is not JSON."""
    findings: tuple[ResultFinding, ...] | None = Field(default=None, alias="toolcrib.result.findings")
    """Findings of the result check, with the actions taken."""
    args: Any | None = Field(default=None, alias="gen_ai.tool.call.arguments")
    """Only with `include_args`."""


def content_record(
    subject: str, method: str, findings: tuple[ResultFinding, ...], principal: Principal | None
) -> AuditRecord:
    """Return the record of a resource or a prompt in which something was found."""
    who = principal or Principal()
    return AuditRecord.from_valid(
        time=_format_utc(time.time()),
        operation=_OPERATIONS.get(method, "request"),
        issuer=who.issuer or None,
        subject=who.subject or None,
        groups=tuple(sorted(who.groups)) or None,
        client=who.client or None,
        tool_id=subject,
        backend=f"mcp:{subject.partition(':')[0]}",
        transport="ok",
        protocol="ok",
        tool="none",
        duration=0.0,
        findings=findings,
    )


@dataclass(frozen=True, slots=True)
class Audit:
    """An observer that passes a record of each call to a sink: `JsonLines`, or a list's `append`.

    Arguments are recorded only with `include_args`, without values that the schema of the tool (`writeOnly`,
    `format: password`) or their names mark as secret, and after `redact`; they are left out if that fails, or
    if they are not JSON. `sizes=False` saves the time that it takes to measure large values.

    Raises:
        ConfigError: the sink cannot be called.
    """

    sink: Callable[[AuditRecord], object]
    """Called with each record."""
    _: KW_ONLY
    include_args: bool = False
    """Whether arguments are recorded."""
    redact: Redact | None = None
    """Returns the arguments to record."""
    sizes: bool = True
    """Whether arguments and results are measured."""
    clock: Callable[[], float] = time.time
    """Returns seconds since the epoch."""

    def __post_init__(self) -> None:
        if not callable(self.sink):
            message = f"must be a function that takes a record{_describe_sink(self.sink)}"
            raise ConfigError("Audit", (Problem("/sink", "type", message),))

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - the outcome has both
        """Return the callback that makes the record."""
        return partial(self._end, self.clock())

    def _end(self, began: float, outcome: Outcome) -> None:
        if outcome.is_suspended:  # recorded when the client has repeated it
            return
        self.sink(
            make_record(
                outcome,
                began,
                args_bytes=json_size(args_of(outcome)) if self.sizes else None,
                args_digest=_args_digest(args_of(outcome)) if self.sizes else None,
                result_bytes=json_size(result_of(outcome)) if self.sizes else None,
                args=self._recordable_args(outcome) if self.include_args else None,
            )
        )

    def _recordable_args(self, outcome: Outcome) -> Any:
        """Return the arguments to record."""
        args = args_of(outcome)
        try:
            measure(args)
            schema = {} if outcome.request is None else outcome.request.tool.shared("input_schema")
            shown = remove_secrets(copy_json(args), schema)
            if self.redact is None:
                return shown
            shown = self.redact(outcome.tool_id, shown)
            measure(shown)
        except ValidationError:
            return None
        except Exception:  # noqa: BLE001 - a function of the program; without it nothing may be recorded
            return "(redaction failed)"
        return shown


def _findings_of(outcome: Outcome) -> tuple[ResultFinding, ...]:
    if outcome.answer is not None:
        return outcome.answer.findings
    return outcome.error.findings if isinstance(outcome.error, ToolError) else ()


def _seen_id(outcome: Outcome) -> str | None:
    """Return the id by which the caller knows the tool, where a toolset gives it another."""
    shaped = None if outcome.request is None else outcome.request.shaped
    seen = None if shaped is None else str(shaped.id)
    return None if seen == outcome.tool_id else seen


def make_record(
    outcome: Outcome,
    began: float,
    *,
    args_bytes: int | None = None,
    args_digest: str | None = None,
    result_bytes: int | None = None,
    args: Any = None,
) -> AuditRecord:
    """Return the record of a call that began at a time, in seconds since the epoch."""
    transport, protocol, tool = levels_of(outcome)
    error = outcome.error
    who = outcome.principal or Principal()
    return AuditRecord.from_valid(
        time=_format_utc(began),
        issuer=who.issuer or None,
        subject=who.subject or None,
        groups=tuple(sorted(who.groups)) or None,
        client=who.client or None,
        effect=_decided_effect(outcome),
        rule=outcome.rule or getattr(error, "rule", None),
        answer=error.answer if isinstance(error, PolicyDeniedError) else None,
        tool_id=outcome.tool_id,
        seen_as=_seen_id(outcome),
        backend=None if outcome.backend is None else label(outcome.backend),
        transport=transport,
        protocol=protocol,
        tool=tool,
        cached=outcome.answer is not None and FROM_CACHE in outcome.answer.notes,
        error=None if error is None else code_of(error),
        op=_failed_op(error),
        duration=outcome.duration,
        args_bytes=args_bytes,
        args_digest=args_digest,
        result_bytes=result_bytes,
        findings=_findings_of(outcome) or None,
        args=args,
    )


def _decided_effect(outcome: Outcome) -> Literal["allow", "deny"] | None:
    """Return the decision of the policy; None if the call ended before."""
    if isinstance(outcome.error, PolicyDeniedError) and outcome.error.op == "policy":
        return "deny"
    return "allow" if outcome.is_allowed else None


def _args_digest(args: Any) -> str | None:
    text = canonical_text(args)
    return None if text is None else sha256(text).hexdigest()


def canonical_text(value: Any) -> bytes | None:
    """Return a value as canonical JSON, the same for equal values; None if it is not JSON."""
    try:
        measure(value)
        return sorted_json(value).encode(errors="surrogatepass")
    except (ValidationError, ValueError, TypeError):
        return None


def remove_secrets(value: Any, schema: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return a value without the members that are secret by their schema or name."""
    if not isinstance(value, dict) or depth == 0:
        if isinstance(value, list) and depth:
            items = schema.get("items") if isinstance(schema, dict) else None
            return [remove_secrets(item, items, depth - 1) for item in value]
        return value
    declared = schema.get("properties") if isinstance(schema, dict) else None
    known = declared if isinstance(declared, dict) else {}
    return {
        name: _REPLACEMENT
        if _is_secret(name, known.get(name))
        else remove_secrets(each, known.get(name), depth - 1)
        for name, each in value.items()
    }


def _is_secret(name: str, schema: Any) -> bool:
    declared = schema if isinstance(schema, dict) else {}
    is_declared = declared.get("writeOnly") is True or declared.get("format") == "password"
    return (
        is_declared or (_sounds_secret if len(name) <= _USUAL_NAME else _SECRET_NAME.search)(name) is not None
    )


@lru_cache(maxsize=4096)
def _sounds_secret(name: str) -> re.Match[str] | None:
    return _SECRET_NAME.search(name)


def _describe_sink(sink: Any) -> str:
    if isinstance(sink, str | Path):
        return f"; did you mean JsonLines({str(sink)!r:.200})?"
    return f", not a {type(sink).__name__}{'; give its append' if isinstance(sink, list) else ''}"


def _format_utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failed_op(error: BaseException | None) -> Op | None:
    if isinstance(error, ToolError):
        return error.op
    return "resolve" if isinstance(error, ToolNotFoundError) else None


def json_text(value: Any) -> bytes | None:
    """Return a value as JSON; None if it is None, or cannot be converted."""
    if value is None:
        return None
    try:
        return to_json(value)
    except ValueError:  # an unknown type, or a value that contains itself
        return None


def json_size(value: Any) -> int | None:
    """Return the size of a value as JSON; None if it is None, or cannot be converted.

    >>> json_size({"a": [1, 2]}), json_size(object())
    (11, None)
    """
    text = json_text(value)
    return None if text is None else len(text)


def args_of(outcome: Outcome) -> Any:
    """Return the arguments of a call: parsed, or else as the caller passed them."""
    request = outcome.request
    if request is None:
        return outcome.raw_args
    return request.args if request.with_handles is None else request.with_handles


def result_of(outcome: Outcome) -> Any:
    """Return the result of a call: its value, else the raw result, else that of an error."""
    if outcome.answer is None:
        error = outcome.error
        return error.result if isinstance(error, OutputValidationError | ToolExecutionError) else None
    value = outcome.answer.structured
    return outcome.answer.mcp_result if value is None else value
