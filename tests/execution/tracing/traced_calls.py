"""A program that calls a tool of a real server with tracing on, and prints the spans."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolcrib.discovery import Index
from toolcrib.errors import ToolExecutionError
from toolcrib.execution import Runner
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.tracing import OpenTelemetry

SERVER = str(Path(__file__).with_name("meta_server.py"))


def plain(span: ReadableSpan) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": span.kind.name,
        "id": f"{span.context.span_id:016x}",
        "trace": f"{span.context.trace_id:032x}",
        "parent": span.parent and f"{span.parent.span_id:016x}",
        "error": (span.attributes or {}).get("error.type"),
    }


async def main() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    index = Index()
    async with McpServers({"meta": {"command": sys.executable, "args": [SERVER]}}) as servers:
        for each in await servers.tools("meta"):
            index.register(each)
        runner = Runner(index, mcp=servers, observers=[OpenTelemetry()])
        exporter.clear()
        told = (await runner.run("meta:trace", {})).structured
        good = [plain(span) for span in exporter.get_finished_spans()]
        exporter.clear()
        try:
            await runner.run("meta:trace", {"fail": True})
        except ToolExecutionError:
            bad = [plain(span) for span in exporter.get_finished_spans()]
    print(json.dumps({"told": told, "good": good, "bad": bad}))  # noqa: T201


if __name__ == "__main__":
    anyio.run(main)
