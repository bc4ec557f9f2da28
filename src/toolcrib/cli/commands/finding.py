"""The verbs that find tools: `search` and `list`."""

from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import server_names
from toolcrib.cli.naming import not_there, tell_absent
from toolcrib.cli.screen import bar, clean, is_terminal, note, shorten_input, show_json, show_table, waiting
from toolcrib.cli.state import State, shared, this_command, wait_for

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.discovery import Page, Reason, Result, Summary

_NAMED = 8
_NONE_ALLOWED = "no tools that the rules let you use; the operator can change the rules"
_MIRRORED = frozenset({"summary"})
"""Has the same text as the short description."""


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="The maximum number of tools."
)
@click.option(
    "--namespace", metavar="NAME", shell_complete=server_names, help="Only tools in this namespace."
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only tools with this tag; may be repeated."
)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    help="The minimum confidence; by default the one in the configuration.",
)
@click.option("--why", is_flag=True, help="Show the components of each tool's score.")
@shared
@click.pass_obj
def search(  # noqa: PLR0913, PLR0917 - click gives each option by name
    state: State,
    query: tuple[str, ...],
    limit: int,
    namespace: str | None,
    tags: tuple[str, ...],
    min_confidence: float | None,
    why: bool,  # noqa: FBT001 - as above
) -> None:
    """Find the tools that match a query.

    Write the query in plain words, with or without quotes. Tools are ranked by how well their words and their
    meaning match it. CONFIDENCE estimates how likely a tool is to do what is asked, from 0 to 1, and never
    increases down the list. If nothing matches, or the results are guesses, a note says so first, and the
    exit code is still 0. Servers whose tools may be missing are listed on standard error, and as `absent` in
    JSON.

    With --why, each tool is followed by the components of its score: matching words with their weights,
    semantic similarity, example and learned questions, topics, names, and anything that lowers it.

    Examples:
      toolcrib search "open an issue" --namespace github
      toolcrib search "open an issue" --why
    """
    asked = " ".join(query).strip()
    if not asked:
        raise click.UsageError("the question is empty; say what the tool should do, or use `toolcrib list`")
    options: dict[str, Any] = {"limit": limit, "namespace": namespace, "tags": tags or None, "explain": why}
    if min_confidence is not None:
        options["min_confidence"] = min_confidence

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("searching"):
                page = await view.search(asked, **options)
                message = await _weak_results_note(view, asked, page)
                warnings = view.warnings(result.id for result in page)
            message += "" if page.items else not_there(view, options)
            absent = tell_absent(view, namespace)
            for warning in () if state.json else warnings:
                note(clean(warning))
            if state.json:
                warned = {"warnings": list(warnings)} if warnings else {}
                found: dict[str, Any] = {"tools": [_to_json(result) for result in page], "total": page.total}
                show_json({**found, **({"note": message} if message else {}), **warned, **absent})
            elif page.items:
                _show_found(page, message, why=why)
            else:
                click.echo(message)

    wait_for(work)


def _to_json(result: "Result") -> dict[str, Any]:
    """Return a result in the JSON form of the meta-tools."""
    return result.summary.to_json(without=_MIRRORED) | result.to_json(without={"summary"})


def _show_found(page: "Page[Result]", text: str, *, why: bool) -> None:
    if text:
        note(text)
    if why:
        _show_reasons(page)
        return
    shown = bar if is_terminal() else "{:.2f}".format
    rows = [(each.summary.id, shown(each.confidence), each.summary.short_description) for each in page]
    show_table(("id", "confidence", "description"), rows, styles=("cyan", "green", ""))


def _show_reasons(page: "Page[Result]") -> None:
    """Write each result with the parts of its score."""
    rows: list[tuple[str, ...]] = []
    for each in page:
        rows.append((each.id, f"{each.score:.2f}", f"confidence {each.confidence:.2f}"))
        rows += [(f"  {reason.kind}", f"{reason.score:+.2f}", _explain(reason)) for reason in each.why]
    show_table(("id", "score", "why"), rows, styles=("cyan", "green", ""))


def _explain(reason: "Reason") -> str:
    """Return a reason in words."""
    where = f" in {', '.join(reason.fields)}" if reason.fields else ""
    found = f": {', '.join(reason.matched)}" if reason.matched and reason.matched != (reason.text,) else ""
    value = "" if reason.value is None else f"{reason.value:.2f}"
    texts = {
        "name": "the question names the tool",
        "word": f"{reason.text!r}, weight {value}{found}{where}",
        "spelling": f"{reason.text!r} is read as its nearest word, weight {value}{found}{where}",
        "example": f"words of the example question {reason.text!r}",
        "topic": f"the question names its topic {reason.text!r}",
        "meaning": f"the meaning is similar, cosine {value}",
        "learned": f"it was run after {reason.text!r}",
        "deprecated": "the tool is deprecated",
        "average": "the words of an average tool, relative to which scores count",
        "order": f"its place among the first results, confidence {value}",
        "searcher": "the searcher of this catalogue does not explain its scores",
    }
    return texts[reason.kind]


async def _weak_results_note(view: "View", query: str, page: "Page[Result]") -> str:
    """Return the note for results of which none fits; empty if one does."""
    from toolcrib.discovery import explain_no_match  # noqa: PLC0415 - not needed to ask for help

    if page.items and explain_no_match(page, query) is None:
        return ""
    near = page if page.items else await view.search(query, limit=20, min_confidence=0.0)
    close = list(dict.fromkeys(each.summary.namespace for each in near if each.summary.namespace))
    known = close or [name for name in await view.namespaces() if name]
    which = f"the {'nearest ' if close else ''}{'namespaces are' if len(known) > 1 else 'namespace is'}"
    there = f"{which} {', '.join(known[:_NAMED])}" if known else _no_tools_note(view)
    message = "nothing clearly fits {!r}, these are guesses" if page.items else "nothing fits {!r}"
    return f"{message.format(shorten_input(query))}; {there}"


def _no_tools_note(view: "View") -> str:
    """Return the note for an empty catalogue; it does not tell whether others may use tools."""
    return "the catalogue is empty" if view.rules is None else f"there are {_NONE_ALLOWED}"


@click.command("list")
@click.option(
    "--namespace", metavar="NAME", shell_complete=server_names, help="Only tools in this namespace."
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only tools with this tag; may be repeated."
)
@click.option(
    "--backend",
    metavar="KIND|NAME",
    help="Only tools of this backend: a kind (mcp, local, provider) or a name.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="The maximum number of tools."
)
@click.option("--all", "everything", is_flag=True, help="List all tools, without a limit.")
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

    They are sorted by id; a note gives the number of tools beyond the limit. Servers whose tools may be
    missing are listed on standard error, and as `absent` in JSON.

    Example: toolcrib list --namespace github --all
    """
    options: dict[str, Any] = {"namespace": namespace, "tags": tags or None, "backend": backend}

    async def work() -> None:
        async with state.view() as whole:
            view = state.limit_to_user(whole)
            with waiting("asking the servers"):
                await view.tools(**options, limit=1)
            found = view.index.list_all(**options)
            shown = found if everything else found[:limit]
            none = _none_allowed_note(whole) if view.rules is not None and not len(view.index) else "no tools"
            message = "" if found else f"{none}{not_there(view, options)}"
            absent = tell_absent(view, namespace)
            if state.json:
                payload = {"tools": [each.to_json(without=_MIRRORED) for each in shown], "total": len(found)}
                show_json({**payload, **({"note": message} if message else {}), **absent})
            else:
                _show_list(shown, len(found), message)

    wait_for(work)


def _none_allowed_note(view: "View") -> str:
    """Return the note for a list without tools, to the user of this machine, who can read the rules."""
    hidden = view.index.list_all()
    if not hidden:
        return "no tools"
    count = f"none of the {len(hidden):,} tools" if len(hidden) > 1 else "not the only tool"
    command = f"{this_command()} policy explain {hidden[0].id}"
    return f"the rules in {view.settings.source} allow {count}; `{command}` says why"


def _show_list(found: "tuple[Summary, ...]", total: int, text: str) -> None:
    if text:
        click.echo(clean(text))
        return
    rows = [(each.id, each.short_description) for each in found]
    show_table(("id", "description"), rows, styles=("cyan",))
    if total > len(found):
        note(f"{total - len(found):,} more; --all shows them")
