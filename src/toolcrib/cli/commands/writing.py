"""The verbs that write tools down for others: `convert` and `stubs`."""

import json
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.choices import OneOf
from toolcrib.cli.completing import server_names, tool_ids
from toolcrib.cli.naming import not_there, resolve_ids, tell_absent
from toolcrib.cli.screen import note, show_json, show_text, waiting
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion
    from toolcrib.crib import View

_OWN = frozenset({"backend", "namespace", "tags", "version"})
"""Fields that toolcrib adds to a tool, which no provider is expected to have."""
_SHOWN = 20
"""Warnings that are printed one by one, at most."""


def _format_names() -> tuple[str, ...]:
    from toolcrib.adapter import default_registry  # noqa: PLC0415 - not needed to ask for help

    return default_registry().names()


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=tool_ids)
@click.option(
    "--to",
    "target",
    required=True,
    type=OneOf(_format_names),
    metavar="TARGET",
    help="openai, anthropic, gemini, mcp or a2a.",
)
@click.option("--strict", is_flag=True, help="Hold the model to the schema (openai, anthropic).")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another option of the format, such as api=responses or style=openapi; may be repeated.",
)
@shared
@click.pass_obj
def convert(state: State, ids: tuple[str, ...], target: str, strict: bool, options: tuple[str, ...]) -> None:  # noqa: FBT001 - click gives it by name
    """Write tools in the format of a model provider.

    It writes all tools, or those named, as a JSON list to standard output; what the format cannot express is
    reported on standard error, except toolcrib's own fields, such as the namespace. With --json, each tool
    has its id and all its warnings.

    Example: toolcrib convert --to openai --strict github:create_issue
    """
    chosen = _options(options) | ({"strict": True} if strict else {})
    _check_target(target)

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("asking the servers"):
                found = await _wait_for_tools(view, ids)
            conversions = view.convert(target, tools=found or None, **chosen)
            _show(state, conversions, {} if found else tell_absent(view))

    wait_for(work)


def _check_target(target: str) -> None:
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help

    known = _format_names()
    if target not in known:
        raise click.UsageError(f"there is no format {target!r}{choose(target, known)}")


async def _wait_for_tools(
    view: "View", ids: tuple[str, ...], namespace: str | None = None
) -> tuple[str, ...]:
    """Wait for the servers of tools, else of a namespace or all; return the ids of these tools.

    Raises:
        ToolNotFoundError: a tool is not there.
    """
    found = await resolve_ids(view, ids)
    for each in found:
        await view.describe(each, "summary")
    if not found:
        await view.tools(namespace=namespace, limit=1)
    return found


def _options(pairs: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--option takes NAME=VALUE, not {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            found[name.replace("-", "_")] = value
    return found


def _show(state: State, conversions: "list[Conversion]", absent: dict[str, Any]) -> None:
    if state.json:
        show_json({"tools": [_to_json(each) for each in conversions], **absent})
        return
    show_json([each.payload for each in conversions])
    warnings = [
        f"{each.tool_id}: {warning}"
        for each in conversions
        for warning in each.warnings
        if warning.part != "definition" or warning.feature not in _OWN
    ]
    for warning in warnings[:_SHOWN]:
        note(warning)
    if len(warnings) > _SHOWN:
        note(f"{len(warnings) - _SHOWN:,} more; --json has them all")


def _to_json(conversion: "Conversion") -> dict[str, Any]:
    warnings = [
        {"feature": each.feature, "path": each.path, "message": each.message, "part": each.part}
        for each in conversion.warnings
    ]
    return {
        "id": conversion.tool_id,
        "name": conversion.name,
        "payload": conversion.payload,
        "warnings": warnings,
    }


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=tool_ids)
@click.option(
    "--namespace", metavar="NAME", shell_complete=server_names, help="Only tools in this namespace."
)
@click.option(
    "--budget", type=click.IntRange(1), metavar="TOKENS", help="The maximum number of tokens in the text."
)
@shared
@click.pass_obj
def stubs(state: State, ids: tuple[str, ...], namespace: str | None, budget: int | None) -> None:
    """Write tools as Python signatures.

    A model needs the signatures to write code for `code`. They cover all tools, those named, or those in a
    namespace.

    Example: toolcrib stubs --namespace github --budget 2000
    """

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("asking the servers"):
                found = await _wait_for_tools(view, ids, namespace)
                text = await view.stubs(found or None, namespace=namespace, budget=budget)
            if unknown := not_there(view, {"namespace": namespace}):
                note(unknown.removeprefix("; "))
            absent = {} if found else tell_absent(view, namespace)
            if state.json:
                show_json({"stubs": text, **absent})
            else:
                show_text(text)

    wait_for(work)
