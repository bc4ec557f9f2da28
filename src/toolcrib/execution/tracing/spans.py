"""The spans and measurements themselves; to be imported only where OpenTelemetry is installed."""

import time
from collections.abc import Callable
from typing import Any

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter, get_meter_provider
from opentelemetry.trace import (
    Span,
    StatusCode,
    TracerProvider,
    get_tracer,
    get_tracer_provider,
    set_span_in_context,
)

from toolcrib import __version__
from toolcrib.errors import BackendUnavailableError, ToolExecutionError
from toolcrib.execution.audit.levels import code_of, rpc_code
from toolcrib.execution.audit.records import args_of, json_text, result_of
from toolcrib.execution.call import Outcome
from toolcrib.model.backend import label
from toolcrib.model.toolid import MAX_NAME_LENGTH

_OPERATION = "execute_tool"
_UNKNOWN = "_OTHER"
"""The name in measurements for an unknown tool, whose name could be anything."""
_MAX_DESCRIPTION = 1000
_TOOL_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_MCP_BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
_CURRENT_SPAN = contexts.create_key("toolcrib-stretch")


def get_providers(
    tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
) -> tuple[Callable[[], object], ...]:
    """Return functions that return the providers in use: the given ones, or those of the process."""
    return (
        get_tracer_provider if tracer_provider is None else lambda: tracer_provider,
        get_meter_provider if meter_provider is None else lambda: meter_provider,
    )


class Spans:
    """Makes the spans and measurements that `OpenTelemetry` documents."""

    __slots__ = ("_duration", "_include_args", "_include_results", "_mcp_duration", "_tracer")

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        *,
        include_args: bool,
        include_results: bool,
    ) -> None:
        self._include_args = include_args
        self._include_results = include_results
        self._tracer = get_tracer("toolcrib", __version__, tracer_provider)
        meter = get_meter("toolcrib", __version__, meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            unit="s",
            description="How long a tool runs, with all that is done around it.",
            explicit_bucket_boundaries_advisory=_TOOL_BOUNDS,
        )
        self._mcp_duration = meter.create_histogram(
            "mcp.client.operation.duration",
            unit="s",
            description="How long an MCP server takes to answer a request.",
            explicit_bucket_boundaries_advisory=_MCP_BOUNDS,
        )

    def begin(self, tool_id: str) -> Callable[[Outcome], None]:
        """Begin the span of a call, and return the callback for its end."""
        name = (tool_id.split(":", 2)[1] if ":" in tool_id else tool_id)[:MAX_NAME_LENGTH]
        attributes = {"gen_ai.operation.name": _OPERATION, "gen_ai.tool.name": name}
        span = self._tracer.start_span(f"{_OPERATION} {name}", attributes=attributes)
        if not span.get_span_context().is_valid:
            return self._measure
        current = _CurrentSpan(span)

        def end(outcome: Outcome) -> None:
            current.leave()
            if span.is_recording():
                self._describe(span, outcome)
            span.end()
            self._measure(outcome)

        return end

    def begin_operation(self, tool_name: str) -> Callable[[BaseException | None], None]:
        """Begin to measure a request to an MCP server, and return the callback for its end."""
        began = time.perf_counter()

        def end(error: BaseException | None) -> None:
            if isinstance(error, BackendUnavailableError) and not error.sent:
                return  # there was no request
            attributes = {
                "mcp.method.name": "tools/call",
                "gen_ai.operation.name": _OPERATION,
                "gen_ai.tool.name": tool_name,
            }
            if error is not None:
                attributes["error.type"] = _operation_error(error)
            self._mcp_duration.record(time.perf_counter() - began, attributes)

        return end

    def _describe(self, span: Span, outcome: Outcome) -> None:
        """Set the attributes of a span that are known when the call has ended."""
        if outcome.request is None:
            span.update_name(_OPERATION)  # an unknown name may be anything, and names of spans should be few
        else:
            tool = outcome.request.tool
            span.update_name(f"{_OPERATION} {tool.name}")
            span.set_attribute("gen_ai.tool.name", tool.name)
            if tool.description:
                span.set_attribute("gen_ai.tool.description", tool.description[:_MAX_DESCRIPTION])
        span.set_attribute("toolcrib.tool.id", outcome.tool_id)
        if outcome.backend is not None:
            span.set_attribute("gen_ai.tool.type", _type_of(outcome))
            span.set_attribute("toolcrib.backend", label(outcome.backend))
        if outcome.error is not None and not outcome.is_suspended:
            span.set_attribute("error.type", code_of(outcome.error))
            span.set_status(StatusCode.ERROR)
        if self._include_args:
            _set_json(span, "gen_ai.tool.call.arguments", args_of(outcome))
        if self._include_results and outcome.answer is not None:
            _set_json(span, "gen_ai.tool.call.result", result_of(outcome))

    def _measure(self, outcome: Outcome) -> None:
        if outcome.is_suspended:
            return
        attributes = {
            "gen_ai.operation.name": _OPERATION,
            "gen_ai.tool.name": _UNKNOWN if outcome.request is None else outcome.request.tool.name,
        }
        if outcome.backend is not None:
            attributes["gen_ai.tool.type"] = _type_of(outcome)
        if outcome.error is not None:
            attributes["error.type"] = code_of(outcome.error)
        self._duration.record(outcome.duration, attributes)


class _CurrentSpan:
    """Makes a span the current one until `leave`.

    Spans of one task may overlap, and a span may end in another task than it began. The token of a context
    variable supports neither, so the contexts are restored by hand.
    """

    __slots__ = ("_before", "_context", "_has_ended")

    def __init__(self, span: Span) -> None:
        self._has_ended = False
        self._before = contexts.get_current()
        self._context = contexts.set_value(_CURRENT_SPAN, self, set_span_in_context(span, self._before))
        contexts.attach(self._context)

    def leave(self) -> None:
        """Restore the previous context, unless another one is current now."""
        self._has_ended = True
        if contexts.get_current() is self._context:
            contexts.attach(self._find_outer())

    def _find_outer(self) -> Context:
        """Return the innermost context around this one whose own span has not ended."""
        around = self._before
        while (other := contexts.get_value(_CURRENT_SPAN, around)) and isinstance(other, _CurrentSpan):
            if not other._has_ended:  # noqa: SLF001 - of the same class
                break
            around = other._before  # noqa: SLF001 - of the same class
        return around


def _type_of(outcome: Outcome) -> str:
    """Return the tool type of the semantic conventions: a function of this process, or an extension."""
    return "function" if outcome.backend is not None and outcome.backend.kind == "local" else "extension"


def _operation_error(error: BaseException) -> str:
    """Return the error type of the semantic conventions: the JSON-RPC code, or `tool_error`."""
    code = rpc_code(error)
    if code is not None:
        return str(code)
    return "tool_error" if isinstance(error, ToolExecutionError) else code_of(error)


def _set_json(span: Span, name: str, value: Any) -> None:
    text = json_text(value)
    if text is not None:
        span.set_attribute(name, text.decode())
