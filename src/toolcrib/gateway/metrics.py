"""Prometheus metrics of a gateway."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from toolcrib.crib import Crib
from toolcrib.errors import ToolcribError, explain
from toolcrib.execution.call import Outcome
from toolcrib.execution.principal import Principal
from toolcrib.gateway.health import Health

_OUTCOMES: Mapping[str, str] = {
    "execution_failed": "tool_error",
    "validation_output": "tool_error",
    "backend_unavailable": "unavailable",
    "no_backends": "unavailable",
    "timeout": "timeout",
    "denied": "denied",
    "cancelled": "cancelled",
    "validation_input": "invalid",
    "tool_not_found": "not_found",
    "limit_exceeded": "limit",
}
"""The outcome of an error in the metrics, by its code; others are `internal`."""
_METHODS = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
        "subscriptions/listen",
        "notifications/initialized",
        "notifications/cancelled",
    }
)
_NO_TOOL = "unknown"
"""The namespace label of calls without a tool."""
_OTHER_NAMESPACE = "other"
"""The label for namespaces that are not in the configuration."""
_SHARED = frozenset({"", _NO_TOOL, _OTHER_NAMESPACE})
"""Labels without a server's name, which are visible to all."""
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Counts calls, as an observer of them, and requests, as a middleware of the endpoints."""

    def __init__(self, health: Health, crib: Callable[[], Crib]) -> None:
        """Count the calls of a crib."""
        self._health, self._crib = health, crib
        self._registry = CollectorRegistry()
        requests = self._make_counter("requests", "MCP messages of clients", ("method", "outcome"))
        calls = self._make_counter("calls", "Calls of tools", ("namespace", "outcome"))
        seconds = Histogram(
            "toolcrib_call_seconds",
            "How long calls of tools took",
            ("namespace",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        limited = self._make_counter(
            "limited", "Requests refused, and sessions ended, by a limit", ("limit",)
        )
        self._limited_of = cache(limited.labels)
        # Finding the counter of some labels takes longer than counting.
        self._request_of, self._call_of = cache(requests.labels), cache(calls.labels)
        self._seconds_of = cache(seconds.labels)
        ProcessCollector(registry=self._registry)

    def _make_counter(self, name: str, what: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"toolcrib_{name}", what, labels, registry=self._registry)

    def text(self, principal: Principal | None = None) -> tuple[bytes, str]:
        """Return all metrics, or those visible to a principal, with the content type.

        Counters of a removed server stay, but are hidden: it is not known any more who could see it.
        """
        return generate_latest(_VisibleMetrics(self._registry, self._health, principal)), CONTENT_TYPE_LATEST

    def limited(self, limit: str) -> None:
        """Count a request that a limit refused or ended."""
        self._limited_of(limit).inc()

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - of all observers
        """Return what counts the call when it has ended."""
        return self._count_call

    def _count_call(self, outcome: Outcome) -> None:
        if outcome.error is None:
            result = "ok"
        elif outcome.is_suspended:
            return
        else:
            result = _outcome_of(outcome.error)
        namespace = _NO_TOOL
        if outcome.request is not None:
            namespace, settings = outcome.request.tool.namespace or "", self._crib().settings
            configured = settings.shared("servers"), settings.shared("openapi")
            if namespace and not any(namespace in names for names in configured):
                namespace = _OTHER_NAMESPACE
        self._call_of(namespace, result).inc()
        self._seconds_of(namespace).observe(outcome.duration)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Count a message of a client."""
        method = ctx.method if ctx.method in _METHODS else "other"
        outcome = "cancelled"
        try:
            result = await call_next(ctx)
            failed = isinstance(result, dict) and result.get("isError")
            outcome = "tool_error" if failed else "ok"
        except MCPError:
            outcome = "refused"
            raise
        except Exception:
            outcome = "error"
            raise
        else:
            return result
        finally:
            self._request_of(method, outcome).inc()


def label_by_worker(texts: Mapping[int, bytes]) -> bytes:
    """Return the metrics of several workers as one text, in which each sample has the label `worker`."""
    families: dict[str, Metric] = {}
    for number, text in sorted(texts.items()):
        for found in text_string_to_metric_families(text.decode()):
            family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
            for name, labels, value, *_ in found.samples:
                family.add_sample(name, {**labels, "worker": str(number)}, value)
    return generate_latest(_Families(list(families.values())))


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _outcome_of(error: BaseException) -> str:
    if not isinstance(error, ToolcribError):
        return "cancelled"
    return _OUTCOMES.get(explain(error)["code"], "internal")


class _VisibleMetrics(Collector):
    """The samples of a registry without a namespace or with one that a principal may see, and the gauges."""

    def __init__(self, counted: CollectorRegistry, health: Health, principal: Principal | None) -> None:
        self._counted, self._health, self._principal = counted, health, principal

    def collect(self) -> Iterator[Metric]:
        visible = None if self._principal is None else self._health.visible_to(self._principal)
        for family in self._counted.collect():
            if visible is not None:
                shown = visible | _SHARED
                family.samples = [
                    each for each in family.samples if each.labels.get("namespace", "") in shown
                ]
            yield family
        yield from self._gauges()

    def _gauges(self) -> Iterator[GaugeMetricFamily]:
        for name, what, value in self._health.gauges(self._principal):
            yield GaugeMetricFamily(f"toolcrib_{name}", what, value=value)
        servers = GaugeMetricFamily("toolcrib_servers", "Servers and APIs by state", labels=("state",))
        for state, count in self._health.states(self._principal).items():
            servers.add_metric((state,), count)
        yield servers
