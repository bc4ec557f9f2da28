"""The verb that runs a tool: `run`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import tool_ids
from toolcrib.cli.inputs import read_args, read_pairs
from toolcrib.cli.naming import resolve_ids
from toolcrib.cli.screen import clean, note, progress, show_json, show_text
from toolcrib.cli.state import YES, State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.execution import StreamEvent
    from toolcrib.model import RunResult

TIMEOUT = click.FloatRange(0, 86_400, min_open=True)
DURABLE = click.option(
    "--durable", is_flag=True, help="Record each call, so that `toolcrib resume` can continue after a crash."
)
"""A day at most."""


@click.command()
@click.argument("tool_id", metavar="ID", shell_complete=tool_ids)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--args", "args", metavar="JSON|@FILE|-", help="The arguments: JSON, a file, or standard input."
)
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", help="The time limit for the tool.")
@click.option(
    "--stream",
    is_flag=True,
    help="Show events while the tool runs: progress on standard error, parts of the result on standard "
    "output.",
)
@YES
@shared
@click.pass_obj
def run(
    state: State,
    tool_id: str,
    pairs: tuple[str, ...],
    args: str | None,
    timeout: float | None,
    stream: bool,  # noqa: FBT001 - click gives it by name
) -> None:
    """Run a tool.

    ID has the same format as for `describe`. Arguments are JSON, or KEY=VALUE pairs, which override --args. A
    value is read as JSON if possible, and as text otherwise or if the tool expects text; KEY=@FILE reads the
    value from a file in the same way.

    Example: toolcrib run math:evaluate expression="6 * 7"
    """
    given = read_args(args)
    if pairs and not isinstance(given, dict):
        raise click.UsageError("--args must be a JSON object where there are KEY=VALUE pairs too")

    async def work() -> None:
        async with state.view() as view:
            (meant_id,) = await resolve_ids(view, [tool_id])
            filled = {**given, **await _parse_pairs(view, meant_id, pairs)} if pairs else given
            if stream:
                await _stream(state, view, meant_id, filled, timeout)
                return
            with progress(meant_id) as advance:
                result = await view.run(
                    meant_id, filled, timeout=timeout, progress=advance, context=state.call_context()
                )
            _show_result(state, result)

    wait_for(work)


async def _parse_pairs(view: "View", tool_id: str, pairs: tuple[str, ...]) -> dict[str, Any]:
    doc = await view.describe(tool_id, "schema")
    return read_pairs(pairs, doc.schema_info.types if doc.schema_info else {})


def _show_result(state: State, result: "RunResult") -> None:
    if state.json:
        payload = result.to_json(without={"tool", "mcp_result"})
        show_json({"toolId": str(result.tool.id), "structured": None, **payload})
        return
    for text in result.notes:
        note(text)
    show_value(result.structured)


def show_value(value: Any) -> None:
    """Print the result of a tool: text unchanged, everything else as JSON."""
    if isinstance(value, str):
        show_text(value)
    elif isinstance(value, list) and value and all(map(_is_content_part, value)):
        for part in value:
            show_text(part if isinstance(part, str) else _describe_part(part))
    elif _is_content_part(value):
        show_text(_describe_part(value))
    else:
        show_json(value)


def _is_content_part(value: Any) -> bool:
    """Return whether a value is a content part of an MCP result."""
    return isinstance(value, str) or (
        isinstance(value, dict) and value.get("type") in {"image", "audio", "resource", "resource_link"}
    )


def _describe_part(part: dict[str, Any]) -> str:
    """Return a content part as text, or a placeholder for one that is not text."""
    resource = part.get("resource")
    inner = resource if isinstance(resource, dict) else part
    if isinstance(inner.get("text"), str):
        return str(inner["text"])
    data = inner.get("data") or inner.get("blob") or ""
    about = inner.get("mimeType") or inner.get("uri") or ""
    size = f", {len(data) * 3 // 4:,} bytes; --json has them" if data else ""
    return f"[{part['type']} {about}{size}]"


async def _stream(state: State, view: "View", tool_id: str, args: Any, limit: float | None) -> None:
    events: list[StreamEvent] = []
    async for event in view.stream(tool_id, args, timeout=limit, context=state.call_context()):
        if event.kind == "error" and event.error is not None:
            raise event.error
        events.append(event)
        if not state.json:
            _print_event(event)
    if state.json:
        records = [event.to_json() for event in events]
        show_json({"toolId": tool_id, "structured": events[-1].data, "events": records})


def _print_event(event: "StreamEvent") -> None:
    if event.kind != "progress":
        show_value(event.data)
        sys.stdout.flush()
    elif isinstance(event.data, dict):
        done, total, word = (event.data.get(name) for name in ("progress", "total", "message"))
        far = "/".join(f"{number:g}" for number in (done, total) if number is not None)
        click.echo(clean(" ".join(filter(None, (far, word)))), err=True)
