"""Spans and measurements, read back from the real SDK."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from waiting import PATIENCE

from toolcrib.discovery import Index
from toolcrib.errors import (
    BackendUnavailableError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import Answer, Call, Outcome, Runner
from toolcrib.execution.tracing import OpenTelemetry, available
from toolcrib.model import LocalBackend, McpBackend, Tool, tool


class Telemetry:
    """The OpenTelemetry SDK in memory, with its spans and metrics."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.reader])

    def observer(self, **options: Any) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        scopes = [scope for each in (data.resource_metrics if data else ()) for scope in each.scope_metrics]
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        assert all(metric.unit == "s" for metric in metrics)
        return [point for metric in metrics for point in metric.data.data_points]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


def test_a_call_is_one_span_by_the_conventions(telemetry: Telemetry, outcome: Callable[..., Outcome]) -> None:
    telemetry.observer().begin("github:star:^1", "ann")(outcome())
    (span,) = telemetry.spans
    assert (span.name, span.kind, span.status.status_code) == (
        "execute_tool star",
        SpanKind.INTERNAL,
        StatusCode.UNSET,
    )
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "star",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.description": "Star it.",
        "toolcrib.tool.id": "github:star",
        "toolcrib.backend": "mcp:github",
    }
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "toolcrib"


def test_a_failed_call_has_the_code_of_its_error_and_not_its_message(
    telemetry: Telemetry, outcome: Callable[..., Outcome]
) -> None:
    error = ToolTimeoutError(tool_id="github:star", backend="mcp:github", timeout=1, reason="secret")
    telemetry.observer().begin("github:star", None)(outcome(error=error))
    (span,) = telemetry.spans
    assert (span.attributes or {})["error.type"] == "timeout"
    assert span.status.status_code is StatusCode.ERROR
    assert "secret" not in span.to_json()


def test_a_tool_that_nobody_knows_does_not_name_a_span(
    telemetry: Telemetry, outcome: Callable[..., Outcome]
) -> None:
    missing = ToolNotFoundError("github:" + "x" * 500, ())
    ended = outcome(tool_id=missing.ref, request=None, backend=None, error=missing)
    telemetry.observer().begin(missing.ref, None)(ended)
    (span,) = telemetry.spans
    assert span.name == "execute_tool"
    assert len((span.attributes or {})["gen_ai.tool.name"]) == 128  # type: ignore[arg-type]
    (point,) = telemetry.points("gen_ai.execute_tool.duration")
    assert point.attributes["gen_ai.tool.name"] == "_OTHER"
    assert point.attributes["error.type"] == "tool_not_found"


def test_arguments_and_results_are_recorded_only_when_asked_for(
    telemetry: Telemetry, outcome: Callable[..., Outcome]
) -> None:
    telemetry.observer(include_args=True).begin("github:star", None)(outcome())
    telemetry.observer(include_results=True).begin("github:star", None)(outcome())
    telemetry.observer(include_args=True).begin("github:star", None)(outcome(args={"a": object()}))
    said = [
        {key: value for key, value in (span.attributes or {}).items() if "call" in key}
        for span in telemetry.spans
    ]
    assert said == [
        {"gen_ai.tool.call.arguments": '{"repo":"secret"}'},
        {"gen_ai.tool.call.result": '{"stars":1}'},
        {},
    ]


def test_the_duration_of_a_call_is_measured_in_seconds(
    telemetry: Telemetry, outcome: Callable[..., Outcome]
) -> None:
    local = outcome(backend=LocalBackend(name="star"))
    for _ in range(2):
        telemetry.observer().begin("github:star", None)(local)
    (point,) = telemetry.points("gen_ai.execute_tool.duration")
    assert (point.count, point.sum) == (2, 0.5)
    assert point.explicit_bounds[0] == 0.01
    assert point.explicit_bounds[-1] == 81.92
    assert dict(point.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "star",
        "gen_ai.tool.type": "function",
    }


def test_span_begun_within_a_call_is_its_child_and_a_later_one_is_not(
    telemetry: Telemetry, outcome: Callable[..., Outcome]
) -> None:
    tracer = telemetry.tracers.get_tracer("test")
    before = contexts.get_current()
    end = telemetry.observer().begin("github:star", None)
    with tracer.start_as_current_span("inner"):
        pass
    end(outcome())
    assert contexts.get_current() is before
    with tracer.start_as_current_span("after"):
        pass
    inner, ours, after = telemetry.spans
    assert inner.parent is not None
    assert inner.parent.span_id == ours.context.span_id
    assert after.parent is None


def test_calls_that_overlap_in_one_task_leave_nothing_behind(
    telemetry: Telemetry, outcome: Callable[..., Outcome]
) -> None:
    before = contexts.get_current()
    observer = telemetry.observer()
    first, second, third = (observer.begin(name, None) for name in ("a", "b", "c"))
    first(outcome())
    second(outcome())
    assert trace.get_current_span().is_recording()
    third(outcome())
    assert contexts.get_current() is before


@pytest.mark.anyio
async def test_a_call_may_end_in_another_task_without_a_complaint(
    telemetry: Telemetry, outcome: Callable[..., Outcome], caplog: pytest.LogCaptureFixture
) -> None:
    ends = [telemetry.observer().begin("github:star", None)]

    async def elsewhere() -> None:
        ends.pop()(outcome())

    with caplog.at_level(logging.DEBUG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(elsewhere)
    assert len(telemetry.spans) == 1
    assert not caplog.records


@pytest.mark.anyio
async def test_a_cancelled_call_ends_its_span_and_gives_the_context_back(telemetry: Telemetry) -> None:
    before = contexts.get_current()
    running = anyio.Event()

    @tool
    async def wait() -> None:
        running.set()
        await anyio.sleep_forever()

    index = Index()
    index.register(wait)
    runner = Runner(index, local=[wait], observers=[telemetry.observer()])
    after: list[Any] = []

    async def call() -> None:
        try:
            await runner.run("wait", {})
        finally:
            after.append(contexts.get_current())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await running.wait()
            tasks.cancel_scope.cancel()
    (span,) = telemetry.spans
    assert (span.attributes or {})["error.type"] == "cancelled"
    assert after[0] == before


@pytest.mark.anyio
async def test_each_of_many_calls_has_its_own_children(telemetry: Telemetry) -> None:
    tracer = telemetry.tracers.get_tracer("test")

    @tool
    async def work(number: int) -> int:
        with tracer.start_as_current_span(f"inner {number}"):
            await anyio.lowlevel.checkpoint()
        return number

    index = Index()
    index.register(work)
    runner = Runner(index, local=[work], observers=[telemetry.observer(include_args=True)])
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(runner.run, "work", {"number": number})
    ours = {span.context.span_id: span for span in telemetry.spans if span.name == "execute_tool work"}
    inner = [span for span in telemetry.spans if span.name.startswith("inner")]
    assert (len(ours), len(inner)) == (20, 20)
    for span in inner:
        assert span.parent is not None
        args = (ours[span.parent.span_id].attributes or {})["gen_ai.tool.call.arguments"]
        assert args == f'{{"number":{span.name.removeprefix("inner ")}}}'


def test_children_of_a_span_that_is_not_sampled_are_not_sampled(outcome: Callable[..., Outcome]) -> None:
    tracers = TracerProvider(sampler=ALWAYS_OFF)
    end = OpenTelemetry(tracer_provider=tracers).begin("github:star", None)
    assert trace.get_current_span().get_span_context().is_valid
    assert not trace.get_current_span().is_recording()
    end(outcome())


def test_call_without_a_provider_is_not_observed() -> None:
    before = contexts.get_current()
    assert OpenTelemetry().begin("github:star", None) is None
    assert contexts.get_current() is before


@pytest.mark.parametrize(
    "provide",
    [
        "trace.set_tracer_provider(TracerProvider())",
        "metrics.set_meter_provider(MeterProvider(metric_readers=[InMemoryMetricReader()]))",
    ],
    ids=["spans", "measurements"],
)
def test_provider_that_the_program_sets_later_is_used(provide: str) -> None:
    program = f"""
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from toolcrib.execution.tracing import OpenTelemetry
observer = OpenTelemetry()
print(observer.begin("github:star", None) is None)
{provide}
print(observer.begin("github:star", None) is None)
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "True\nFalse\n"


class RpcError(Exception):
    """The exception that an MCP session raises for a JSON-RPC error."""

    code = -32602


def refused() -> ToolExecutionError:
    error = ToolExecutionError(tool_id="github:star", backend="mcp:github")
    error.__cause__ = RpcError()
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, None),
        (ToolExecutionError(tool_id="github:star", backend="mcp:github", result={}), "tool_error"),
        (refused(), "-32602"),
        (BackendUnavailableError(tool_id="github:star"), "backend_unavailable"),
        (KeyboardInterrupt(), "cancelled"),
    ],
    ids=["good", "isError", "JSON-RPC error", "gone", "cancelled"],
)
@pytest.mark.anyio
async def test_as_a_layer_it_measures_requests_to_servers(
    telemetry: Telemetry, error: BaseException | None, said: str | None
) -> None:
    async def go(_call: Call) -> Answer:
        if error is not None:
            raise error
        return Answer(structured=1)

    record = Tool(name="star", namespace="github", input_schema={"type": "object"})
    call = Call(tool=record, args={}, backend=McpBackend(server_name="github"))
    if error is None:
        assert (await telemetry.observer()(call, go)).structured == 1
    else:
        with pytest.raises(type(error)):
            await telemetry.observer()(call, go)
    (point,) = telemetry.points("mcp.client.operation.duration")
    assert point.count == 1
    assert point.attributes["mcp.method.name"] == "tools/call"
    assert point.attributes["gen_ai.tool.name"] == "star"
    assert point.attributes.get("error.type") == said


@pytest.mark.parametrize("backend", [LocalBackend(name="star"), McpBackend(server_name="github")])
@pytest.mark.anyio
async def test_unsent_request_is_not_measured(telemetry: Telemetry, backend: Any) -> None:
    async def go(_call: Call) -> Answer:
        raise BackendUnavailableError(tool_id="github:star", sent=False)

    record = Tool(name="star", namespace="github", input_schema={"type": "object"})
    with pytest.raises(BackendUnavailableError):
        await telemetry.observer()(Call(tool=record, args={}, backend=backend), go)
    assert telemetry.points("mcp.client.operation.duration") == []


def test_it_is_available_here() -> None:
    assert available()


@pytest.mark.proof
@pytest.mark.parametrize("hidden", ["opentelemetry", "opentelemetry.trace"])
def test_without_the_package_it_says_what_to_install(hidden: str) -> None:
    """A finder that refuses the package stands for an environment without it."""
    program = f"""
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == {hidden!r} or name.startswith({hidden!r} + "."):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hide())
from toolcrib.errors import MissingExtraError
from toolcrib.execution.tracing import OpenTelemetry, available
assert not available()
try:
    OpenTelemetry()
except MissingExtraError as error:
    print(error)
"""
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said == "tracing with OpenTelemetry needs the 'otel' extra: pip install 'toolcrib[otel]'\n"


@pytest.mark.proof
def test_nothing_of_it_is_loaded_before_it_is_used() -> None:
    program = """
import sys, toolcrib.execution.tracing, toolcrib.execution.middleware
toolcrib.execution.tracing.available()
print([name for name in sys.modules if name.startswith(("opentelemetry.", "mcp", "httpx"))])
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
