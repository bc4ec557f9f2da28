"""OpenTelemetry: a span for each call, and how long calls take."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolcrib.errors import MissingExtraError
from toolcrib.execution.call import Answer, Call, Outcome
from toolcrib.execution.principal import Principal
from toolcrib.execution.protocols import Next
from toolcrib.model.backend import McpBackend

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_API = ("opentelemetry.trace", "opentelemetry.metrics")
"""Packages of OpenTelemetry's API, whose own providers record nothing."""


@cache
def available() -> bool:
    """Return whether the package that tracing needs is installed."""
    try:
        return find_spec("opentelemetry.trace") is not None
    except ModuleNotFoundError:  # there is not even the package that would hold it
        return False


class OpenTelemetry:
    """Records a span and a measurement of each call, following the semantic conventions for GenAI and MCP.

    As an observer it makes the span `execute_tool {name}` the current one while the call runs, and so the
    parent of the spans that the call itself creates: the CLIENT span of the MCP SDK, or that of an HTTP
    client. It has `gen_ai.operation.name`, `gen_ai.tool.name`, `.type` and `.description`,
    `toolcrib.tool.id`, `toolcrib.backend` and, where the call failed, `error.type`: the code of the error,
    never its message, which may hold values. Arguments and results are recorded only when asked for. The
    duration goes to the histogram `gen_ai.execute_tool.duration`.

    As the innermost middleware, which is optional, it also measures each request to an MCP server, in
    `mcp.client.operation.duration`; the first one includes the start of the server.

    Without providers of its own it uses those of the process, and costs next to nothing where there are none.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """

    __slots__ = ("_providers", "_spans")

    def __init__(
        self,
        *,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
        include_args: bool = False,
        include_results: bool = False,
    ) -> None:
        try:
            from toolcrib.execution.tracing.spans import Spans, get_providers  # noqa: PLC0415 - needs the extra
        except ImportError as error:
            raise MissingExtraError("tracing with OpenTelemetry", "otel") from error
        self._providers = get_providers(tracer_provider, meter_provider)
        self._spans = Spans(
            tracer_provider, meter_provider, include_args=include_args, include_results=include_results
        )

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None] | None:  # noqa: ARG002 - callers are people, and stay out of traces
        """Begin a span, make it the current one, and return the callback that ends it.

        Return None if the process has no provider yet: those of OpenTelemetry's API are no-ops until the
        program sets one from an SDK. Each call looks for one.
        """
        if all(type(get()).__module__.startswith(_API) for get in self._providers):
            return None
        return self._spans.begin(tool_id)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer to a call, and measure it if it goes to an MCP server."""
        if not isinstance(call.backend, McpBackend):
            return await go_on(call)
        ended = self._spans.begin_operation(call.tool.name)
        try:
            answer = await go_on(call)
        except BaseException as error:
            ended(error)
            raise
        ended(None)
        return answer
