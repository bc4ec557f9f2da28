"""The steps of one call: its state, the policy, the route to a backend, its arguments, its events."""

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from toolcrib.concurrency.background import Background, is_being_cancelled
from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import (
    BackendUnavailableError,
    InputValidationError,
    NoBackendError,
    Op,
    PolicyDeniedError,
    Problem,
    StreamNotSupportedError,
    ToolcribError,
    ToolError,
    ValidationError,
    explain,
)
from toolcrib.execution.principal import Principal
from toolcrib.execution.protocols import Allowed, Observer, Policy, ProviderExecutor
from toolcrib.execution.records import Answer, Call, Emit, Outcome, Request, StreamEvent, Update
from toolcrib.execution.selection import label
from toolcrib.model.backend import ProviderBackend, ToolBackend
from toolcrib.model.plain import copy_json, is_large, parse_json
from toolcrib.model.results import RunResult
from toolcrib.model.schema.validator import SchemaValidator
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.redaction import error_text

_LOG = logging.getLogger("toolcrib")
Finish = Callable[[Outcome], None]
_DECLINED: ContextVar[PolicyDeniedError | None] = ContextVar("toolcrib_declined", default=None)
READ_FROM_TEXT = "the arguments came as JSON text and were read"
_MAX_DEPTH = 32
_BUFFER = 16
"""How many updates a tool may be ahead of whoever reads them; at the next it waits."""


@dataclass(slots=True)
class CallState:
    """How far a call has come, for its observers."""

    tool_id: str
    args: Any
    principal: Principal | None
    streamed: bool = False
    request: Request | None = None
    backend: ToolBackend | None = None
    op: Op = "resolve"
    is_allowed: bool = False
    rule: str | None = None
    deadline: float = inf
    pause: Callable[[], AbstractContextManager[None]] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def place(self) -> str | None:
        """Return the backend as errors name it."""
        return None if self.backend is None else label(self.backend)

    def ref_of(self, asked: str) -> str | None:
        """Return what was asked for, where it is not the id of the tool."""
        return None if asked == self.tool_id else asked

    @property
    def asked(self) -> Request:
        """Return the request of a call that came so far."""
        if self.request is None:
            raise RuntimeError("a call was answered that was never admitted")
        return self.request


def begin(observers: Iterable[Observer], state: CallState) -> list[Finish]:
    """Tell observers that a call begins, and return those who wait for its end."""
    watchers: list[Finish] = []
    for observer in observers:
        try:
            if (finish := observer.begin(state.tool_id, state.principal)) is not None:
                watchers.append(finish)
        except Exception:  # noqa: BLE001 - an observer is somebody else's code, and may not harm what it watches
            _LOG.exception("the observer %r failed", observer)
    return watchers


def tell(
    watchers: Sequence[Finish],
    state: CallState,
    answer: Answer | None,
    error: BaseException | None,
    duration: float,
) -> None:
    """Tell the observers of a call how it ended, in the reverse of the order in which they began."""
    outcome = Outcome(
        tool_id=state.tool_id,
        request=state.request,
        backend=state.backend,
        answer=answer if error is None else None,
        error=error,
        duration=duration,
        principal=state.principal,
        raw_args=state.args,
        is_allowed=state.is_allowed,
        rule=state.rule,
    )
    for finish in reversed(watchers):
        try:
            finish(outcome)
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("the observer behind %r failed", finish)


@contextmanager
def declined(refusal: PolicyDeniedError | None) -> Iterator[None]:
    """Refuse the calls of a block: a person was asked about them, and observers shall see the refusal."""
    token = _DECLINED.set(refusal)
    try:
        yield
    finally:
        _DECLINED.reset(token)


async def ask_policy(policy: Policy | None, request: Request) -> str | None:
    """Ask whether a request may run, and return the rule that lets it; a policy that cannot say refuses."""
    if refusal := _DECLINED.get():
        raise replace(refusal, tool_id=request.tool_id)
    if policy is None:
        return None
    try:
        verdict = policy(request)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except PolicyDeniedError:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if is_being_cancelled():
            raise
        reason = "the policy failed: what it waited for was cancelled"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason) from error
    except Exception as error:  # a policy is somebody else's code, and its failure must not open the door
        reason = f"the policy failed: {error_text(error)}"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason) from error
    if isinstance(verdict, Allowed):
        return verdict.rule
    if verdict is not None and verdict is not True:
        raise PolicyDeniedError(tool_id=request.tool_id, reason=verdict if isinstance(verdict, str) else "")
    return None


def ask_validator(validate: Callable[[Tool, Any], object], tool: Tool, value: Any, op: Op) -> None:
    """Have a value checked; a validator that fails, or returns something, refuses it.

    Raises:
        ValidationError: the value does not fit.
        ToolError: the validator failed, or is asynchronous.
    """
    try:
        verdict = validate(tool, value)
    except ToolcribError:
        raise
    except Exception as error:  # a validator is somebody else's code, as a policy is
        reason = f"the validator failed: {error_text(error)}"
        raise ToolError(tool_id=str(tool.id), op=op, reason=reason) from error
    if verdict is not None:
        if inspect.iscoroutine(verdict):
            verdict.close()
        reason = f"a validator returns None or raises, and this one returned {type(verdict).__name__}"
        raise ToolError(tool_id=str(tool.id), op=op, reason=reason)


class ProviderRoutes:
    """The executor of every provider backend: it hands a call to the provider that the backend names.

    The mapping is looked at with every call, so that providers may come and go.
    """

    def __init__(self, providers: Mapping[str, ProviderExecutor]) -> None:
        self._providers = providers

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why a backend cannot run here: no provider of its id is known."""
        name = _provider(backend)
        if name in self._providers:
            return None
        return f"no provider is named {name!r}{did_you_mean(name, self._providers)}"

    async def call(self, call: Call) -> Answer:
        """Run the tool with its provider."""
        executor = self._providers.get(_provider(call.backend))
        if executor is None:
            raise NoBackendError(tool_id=call.tool_id, reason=self.missing(call.backend) or "")
        if call.streamed and not getattr(executor, "streams", True):
            raise StreamNotSupportedError(tool_id=call.tool_id)
        return await executor.call(call)


def _provider(backend: ToolBackend) -> str:
    return backend.provider_id if isinstance(backend, ProviderBackend) else backend.kind


def read_arguments(args: Any, tool_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return arguments as an object, and what there is to note about it.

    Models, and the clients that carry their calls, often send an object as the text of one.

    >>> read_arguments('{"city": "Oslo"}', "weather:now")
    ({'city': 'Oslo'}, ('the arguments came as JSON text and were read',))

    Raises:
        InputValidationError: they are neither an object nor the text of one.
    """
    if type(args) is dict:
        return args, ()
    if args is None:
        return {}, ()
    if isinstance(args, Mapping):
        return dict(args), ()
    if not isinstance(args, str | bytes | bytearray):
        raise _refusal(tool_id, f"the arguments must be a JSON object, not {type(args).__name__}")
    if not args.strip():
        return {}, (READ_FROM_TEXT,)
    try:
        read = parse_json(args)
    except ValueError as error:
        raise _refusal(tool_id, f"the arguments are text that is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise _refusal(tool_id, f"the arguments must be a JSON object, not the text of {_kind(read)}")
    return read, (READ_FROM_TEXT,)


async def check_arguments(validator: SchemaValidator, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of arguments that fit; the event loop turns meanwhile where they are large.

    What was checked is what runs, and what is audited, whatever the caller does with its own meanwhile.

    Raises:
        InputValidationError: they do not fit.
    """
    try:
        if is_large(args):
            return await in_thread(_checked_copy, validator, tool, args)
        ask_validator(validator.validate_input, tool, args, "validate_input")
    except ValidationError as error:
        raise InputValidationError(error.problems, error.text, tool_id=str(tool.id)) from error
    copied: dict[str, Any] = copy_json(args)
    return copied


def _checked_copy(validator: SchemaValidator, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments copied first: whoever gave them may change them while they are checked."""
    try:
        copied: dict[str, Any] = copy_json(args)
    except ValueError as error:
        raise ValidationError((Problem("", "size", f"the value: {error}; send a smaller one"),)) from error
    ask_validator(validator.validate_input, tool, copied, "validate_input")
    return copied


def with_defaults(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the defaults that the input schema declares for what is missing.

    Properties of the schema, and of the objects that are present or have a default themselves, are filled;
    `$ref`, `allOf` and conditions are not followed.
    """
    return _filled(tool.shared("input_schema"), args, _MAX_DEPTH)


def _filled(schema: Any, value: dict[str, Any], depth: int) -> dict[str, Any]:
    declared = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(declared, dict) or depth == 0:
        return value
    filled = dict(value)
    for name, inner in declared.items():
        if not isinstance(inner, dict):
            continue
        if name not in filled and "default" in inner:
            filled[name] = copy_json(inner["default"])
        if isinstance(filled.get(name), dict):
            filled[name] = _filled(inner, filled[name], depth - 1)
    return filled


def _kind(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _refusal(tool_id: str, message: str) -> InputValidationError:
    return InputValidationError((Problem("", "type", message[:500]),), tool_id=tool_id)


async def stream_events(
    state: CallState, run: Callable[[Emit], Awaitable[RunResult]]
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the updates of a run as they come, and then how it ended, in one `done` or one `error`.

    The run starts with the first event asked for, waits while nobody takes its updates, and is cancelled
    when the stream is left.
    """
    asked = state.tool_id
    send, receive = anyio.create_memory_object_stream[Update](_BUFFER)
    ending = _Ending()
    task = Background(lambda: _follow(run, send, ending))
    try:
        async for update in receive:
            yield StreamEvent.of_checked(
                kind=update.kind, tool_id=state.tool_id, ref=state.ref_of(asked), data=update.data
            )
        yield ending.event(state.tool_id, state.ref_of(asked))
    finally:
        receive.close()
        await task.stop()


class _Ending:
    """How a run ended: with a result, with an error, or, where it says neither, with neither."""

    result: RunResult | None = None
    error: ToolcribError | None = None
    failure: BaseException | None = None

    def event(self, tool_id: str, ref: str | None) -> StreamEvent:
        if self.failure is not None:
            raise self.failure
        if self.error is not None:
            return StreamEvent.of_checked(
                kind="error", tool_id=tool_id, ref=ref, data=explain(self.error), error=self.error
            )
        result = self.result
        value, backend = (None, None) if result is None else (result.structured, result.backend)
        return StreamEvent.of_checked(kind="done", tool_id=tool_id, ref=ref, data=value, backend=backend)


async def _follow(
    run: Callable[[Emit], Awaitable[RunResult]], send: MemoryObjectSendStream[Update], ending: _Ending
) -> None:
    try:
        ending.result = await run(send.send)
    except ToolcribError as error:
        ending.error = error
    except anyio.get_cancelled_exc_class() as error:
        ending.failure = error
        raise
    except BaseException as error:  # noqa: BLE001 - a mistake of ours, or an interrupt: the reader raises it
        ending.failure = error
    finally:
        send.close()


def not_ready(tool_id: str, limit: float) -> BackendUnavailableError:
    """Return that the time of a call was over before whoever has its tool was there."""
    reason = f"it was not ready within {limit:g} s"
    return BackendUnavailableError(tool_id=tool_id, op="resolve", reason=reason, sent=False)
