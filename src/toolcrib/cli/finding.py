"""The verbs that find tools: `search` and `list`."""

from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.screen import bar, is_terminal, note, show_json, show_table, waiting
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.discovery import Page, Result, Summary
    from toolcrib.execution.mcp import ServerStatus

__all__ = ["list_", "note_absent", "search", "why_failed"]

_UNSURE = 0.05
"""Below this confidence of the best result nothing is said to fit, as for the clients of the gateway."""
_NAMED = 8
_PAGE = 1000


def note_absent(view: "View", namespace: str | None = None) -> None:
    """Tell which servers did not answer, because what they have may be missing."""
    for name, server in view.status().items():
        if server.state == "failed" and namespace in {None, name}:
            why = f": {why_failed(server)}" if server.last_error else ""
            note(f"server {name!r} is unavailable{why}; its tools are missing, or as they were last seen")


def why_failed(server: "ServerStatus") -> str:
    """Return why a server last failed, with what it said itself."""
    words = server.stderr.strip().splitlines()[-1:]
    return "; its last words: ".join([server.last_error or "", *words])


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many at most.")
@click.option("--namespace", metavar="NAME", help="Only tools of this namespace.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only tools with this tag; may be repeated."
)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    help="What a tool needs at least; the configuration says it where this does not.",
)
@shared
@click.pass_obj
def search(
    state: State,
    query: tuple[str, ...],
    limit: int,
    namespace: str | None,
    tags: tuple[str, ...],
    min_confidence: float | None,
) -> None:
    """Find the tools that fit a question.

    The question is in plain words, quoted or not. When nothing fits, that is said, and the exit code is 0.

    Example: toolcrib search "open an issue" --namespace github
    """
    options: dict[str, Any] = {"limit": limit, "namespace": namespace, "tags": tags or None}
    if min_confidence is not None:
        options["min_confidence"] = min_confidence

    async def work() -> None:
        async with state.view() as view:
            with waiting("searching"):
                page = await view.search(" ".join(query), **options)
                told = await _about(view, " ".join(query), page)
            if state.json:
                found: dict[str, Any] = {"tools": [_flat(result) for result in page], "total": page.total}
                show_json({**found, "note": told} if told else found)
            elif page.items:
                _show_found(page, told)
            else:
                click.echo(told)
            note_absent(view, namespace)

    wait_for(work)


def _flat(result: "Result") -> dict[str, Any]:
    """Return a result as the meta-tools write it."""
    facts = result.to_json()
    summary: dict[str, Any] = facts.pop("summary")
    return summary | facts


def _show_found(page: "Page[Result]", told: str) -> None:
    shown = bar if is_terminal() else "{:.2f}".format
    rows = [(each.summary.id, shown(each.confidence), each.summary.short_description) for each in page]
    show_table(("id", "confidence", "description"), rows, styles=("cyan", "green", ""))
    if told:
        note(told)


async def _about(view: "View", query: str, page: "Page[Result]") -> str:
    """Return what to say of results of which none fits, or nothing where one does."""
    if any(result.confidence >= _UNSURE for result in page):
        return ""
    near = page if page.items else await view.search(query, limit=20, min_confidence=0.0)
    namespaces = list(dict.fromkeys(each.summary.namespace for each in near if each.summary.namespace))
    known = namespaces or [name for name in await view.namespaces() if name]
    which = "the nearest namespaces are" if namespaces else "the namespaces are"
    there = f"{which} {', '.join(known[:_NAMED])}" if known else "the catalogue is empty"
    said = "nothing clearly fits {!r}, these are guesses" if page.items else "nothing fits {!r}"
    return f"{said.format(query)}; {there}"


@click.command("list")
@click.option("--namespace", metavar="NAME", help="Only tools of this namespace.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only tools with this tag; may be repeated."
)
@click.option(
    "--backend", metavar="KIND|NAME", help="Only tools that run there: mcp, local, provider, or one by name."
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@shared
@click.pass_obj
def list_(
    state: State,
    namespace: str | None,
    tags: tuple[str, ...],
    backend: str | None,
    limit: int,
    everything: bool,  # noqa: FBT001 - click gives it by name
) -> None:
    """List the tools.

    They come in the order of their ids; beyond the limit it is said how many more there are.

    Example: toolcrib list --namespace github --all
    """
    options: dict[str, Any] = {"namespace": namespace, "tags": tags or None, "backend": backend}

    async def work() -> None:
        async with state.view() as view:
            with waiting("asking the servers"):
                found, total = await _tools(view, options, None if everything else limit)
            if state.json:
                show_json({"tools": [each.to_json() for each in found], "total": total})
            else:
                _show_list(found, total)
            note_absent(view, namespace)

    wait_for(work)


async def _tools(view: "View", options: dict[str, Any], most: int | None) -> "tuple[list[Summary], int]":
    """Return the first tools, as many as wanted, and how many there are."""
    from toolcrib.errors import InvalidCursorError  # noqa: PLC0415 - not needed to ask for help

    while True:
        found: list[Summary] = []
        cursor: str | None = None
        try:
            while True:
                size = _PAGE if most is None else min(_PAGE, most - len(found))
                page = await view.tools(**options, limit=size, cursor=cursor)
                found += page.items
                cursor = page.next_cursor
                if cursor is None or len(found) == most:
                    return found, page.total
        except InvalidCursorError:  # a server has told of its tools in between
            continue


def _show_list(found: "list[Summary]", total: int) -> None:
    if not found:
        click.echo("no tools")
        return
    rows = [(each.id, each.short_description) for each in found]
    show_table(("id", "description"), rows, styles=("cyan",))
    if total > len(found):
        note(f"{total - len(found):,} more; --all shows them")
