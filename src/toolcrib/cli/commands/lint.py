"""The verb that checks tools: `lint`."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import tool_ids
from toolcrib.cli.exits import FailedError
from toolcrib.cli.naming import resolve_ids, tell_absent
from toolcrib.cli.screen import clean, note, show_json, waiting
from toolcrib.cli.state import State, shared, wait_for
from toolcrib.errors import ServerUnavailableError
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.execution.mcp import ServerStatus
    from toolcrib.model import Tool
    from toolcrib.setup.lint import LintFinding

_PATIENCE = 10.0
"""Seconds that servers have to list their tools."""
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=tool_ids)
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="A provider that must accept the tools, such as openai-strict; may be repeated.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--quiet", is_flag=True, help="Show only errors and warnings.")
@shared
@click.pass_obj
def lint(state: State, ids: tuple[str, ...], targets: tuple[str, ...], strict: bool, quiet: bool) -> None:  # noqa: FBT001 - click gives them by name
    """Check the tools for portability and good descriptions.

    It checks all tools, or those that you name. It is an error if a tool is dangerous, cannot be used, or
    is not accepted by a provider named with --target; the exit code is then 1. Targets are mcp, openai,
    openai-strict, anthropic, anthropic-strict, gemini, gemini-openapi and a2a.

    Examples:
      toolcrib lint --target openai-strict --target gemini
      toolcrib lint github:create_issue --strict
    """
    from toolcrib.setup.lint import lint_tools  # noqa: PLC0415 - not needed to ask for help

    async def work() -> "tuple[list[Tool], set[str], list[LintFinding], dict[str, Any]]":
        async with state.crib() as crib:
            view = crib if state.toolset is None else crib.view(state.toolset)
            with waiting("asking the servers"):
                named = [await view.describe(each) for each in await resolve_ids(view, ids)]
                await view.tools(limit=1)
                if not ids:
                    with suppress(ServerUnavailableError):  # which is told below
                        await crib.ready(_PATIENCE)  # what is kept of an earlier run has no refusals
            tools = [
                view.index.get(each.id) for each in view.index.list_all()
            ]  # all, because they are compared
            wanted = [each.tool for each in named if each.tool is not None] if ids else tools
            refused = [] if ids else _refused_findings(view.status().values())
            return tools, {str(tool.id) for tool in wanted}, refused, tell_absent(view)

    tools, wanted, refused, absent = wait_for(work)
    with waiting(f"looking at {count_noun(len(tools), 'tool')}"):
        found = lint_tools(tools, targets=targets or None)
    shown = [each for each in found if each.tool_id in wanted and not (quiet and each.severity == "info")]
    shown += refused
    counts = Counter(each.severity for each in shown)
    if state.json:
        numbers = {f"{kind}s": counts[kind] for kind in ("error", "warning", "info")}
        payload = {"tools": len(wanted), **numbers, "findings": [each.to_json() for each in shown]}
        show_json({**payload, **absent})
    else:
        _show(shown, len(wanted))
    if counts["error"] or (strict and counts["warning"]):
        raise FailedError


def _refused_findings(servers: "Iterable[ServerStatus]") -> "list[LintFinding]":
    """Return an error for each definition of a server that is no usable tool."""
    from toolcrib.redaction import hide_secrets  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.lint import LintFinding  # noqa: PLC0415 - as above

    return [
        LintFinding(f"{server.name}:{name}", "error", "refused", f"it is left out: {hide_secrets(reason)}")
        for server in servers
        for name, reason in server.refused.items()
    ]


def _show(found: "list[LintFinding]", count: int) -> None:
    for tool_id, findings in groupby(found, key=lambda each: each.tool_id):
        click.echo(click.style(clean(tool_id), bold=True))
        for each in findings:
            severity = click.style(each.severity, fg=_COLOURS[each.severity])
            where = click.style(f" {clean(each.path)}", dim=True) if each.path else ""
            click.echo(f"  {severity} {each.rule}{where}: {clean(each.message)}")
    if not count:
        note("there are no tools to look at")
    counts = Counter(each.severity for each in found)
    parts = [count_noun(counts["error"], "error"), count_noun(counts["warning"], "warning")]
    click.echo(f"{count_noun(count, 'tool')}: {', '.join(parts)}, {count_noun(counts['info'], 'note')}")
