"""The command `shape`, which writes how a toolset presents a tool to its callers."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.commands.servers import carry_out, own_file, tell_notes
from toolcrib.cli.exits import NotFoundError
from toolcrib.cli.inputs import parse_value
from toolcrib.cli.screen import note, show_json
from toolcrib.cli.state import State, common, wait_for

if TYPE_CHECKING:
    from toolcrib.model.shape import ToolShape


@click.command()
@click.argument("toolset", metavar="TOOLSET")
@click.argument("tool_id", metavar="ID")
@click.option("--name", metavar="NAME", help="Its name in this toolset.")
@click.option("--title", metavar="TEXT", help="Its title.")
@click.option("--description", metavar="TEXT", help="Its description.")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a parameter; may be repeated.")
@click.option(
    "--describe", multiple=True, metavar="PARAM=TEXT", help="Describe a parameter; may be repeated."
)
@click.option("--hide", multiple=True, metavar="PARAM", help="Hide a parameter; may be repeated.")
@click.option(
    "--fix",
    multiple=True,
    metavar="PARAM=VALUE",
    help="Hide a parameter and always send this value, as JSON or text; may be repeated.",
)
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="PARAM=VALUE",
    help="Send this value if a caller gives none; may be repeated.",
)
@click.option("--pin/--no-pin", default=None, help="List it beside the tools that find and run others.")
@click.option("--remove", is_flag=True, help="Delete the shape.")
@click.option("--dry-run", is_flag=True, help="Show the change without writing it.")
@common
@click.pass_obj
def shape(  # noqa: PLR0913 - each is an option
    state: State,
    toolset: str,
    tool_id: str,
    *,
    name: str | None,
    title: str | None,
    description: str | None,
    rename: tuple[str, ...],
    describe: tuple[str, ...],
    hide: tuple[str, ...],
    fix: tuple[str, ...],
    defaults: tuple[str, ...],
    pin: bool | None,
    remove: bool,
    dry_run: bool,
) -> None:
    """Change how a toolset shows a tool to its callers.

    This changes the tool's name, description and parameters; refer to parameters by the tool's own names.
    Options add to the existing shape; --remove deletes it. Calls, searches and errors use the toolset's
    names; rules and the audit log use the tool's own.

    Example: toolcrib shape support github:create_issue --name file_bug --fix repo=acme/app --hide labels
    """
    changes: dict[str, Any] = {"name": name, "title": title, "description": description, "pin": pin}
    changes = {key: value for key, value in changes.items() if value is not None}
    tables = {
        "rename": _pairs("--rename", rename),
        "describe": _pairs("--describe", describe),
        "fix": _pairs("--fix", fix),
        "defaults": _pairs("--default", defaults),
    }
    if not (remove or changes or hide or any(tables.values())):
        raise click.UsageError("give at least one change, such as --name or --hide, or --remove")
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help

    path = own_file(state, user=False)
    known = _read_shapes(path, toolset)
    if remove:
        if tool_id not in known:
            raise NotFoundError(f"toolset {toolset!r} has no shape for {tool_id!r}{choose(tool_id, known)}")
        entry = None
    else:
        entry = _fit(
            state,
            toolset,
            tool_id,
            known,
            lambda types: _merge(known.get(tool_id), changes, tables, hide, types),
        )
    facts = _write(path, toolset, tool_id, entry, dry_run=dry_run)
    if state.json:
        show_json({"toolset": toolset, "toolId": tool_id, "shape": entry, **facts})
        return
    if dry_run:
        click.echo(facts["diff"])
    elif entry is None:
        click.echo(f"toolset {toolset!r} shows {tool_id} as it is")
    else:
        click.echo(f"toolset {toolset!r} shows {tool_id} as the shape in {facts['file']} says")
    tell_notes(facts)


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{option} takes PARAM=VALUE, and there is no '=' in {each[:80]!r}")
        found[key] = value
    return found


def _read_shapes(path: Path, toolset: str) -> "Mapping[str, ToolShape]":
    """Return the shapes of a toolset by the ids of tools."""
    from toolcrib.crib.config.files import load  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.model.suggest import choose  # noqa: PLC0415

    if path.suffix != ".toml":
        raise click.UsageError(f"toolsets are kept in a toolcrib.toml; {path.name} holds servers only")
    toolsets = load(path if path.exists() else None).toolsets
    if toolset not in toolsets:
        raise NotFoundError(f"there is no toolset {toolset!r} in {path}{choose(toolset, toolsets)}")
    return toolsets[toolset].tools


def _merge(
    known: "ToolShape | None",
    changes: dict[str, Any],
    tables: dict[str, dict[str, str]],
    hide: tuple[str, ...],
    types: "Mapping[str, Collection[str]]",
) -> dict[str, Any]:
    """Return a shape as the configuration has it, with changes; values are read by types of parameters."""
    from toolcrib.model.shape import ToolShape  # noqa: PLC0415 - not needed to ask for help

    entry: dict[str, Any] = {} if known is None else known.to_json()
    entry |= changes
    for key, pairs in tables.items():
        if pairs:
            values = {
                name: parse_value(text, types.get(name, ())) if key in {"fix", "defaults"} else text
                for name, text in pairs.items()
            }
            entry[key] = {**entry.get(key, {}), **values}
    if hide:
        entry["hide"] = list(dict.fromkeys([*entry.get("hide", ()), *hide]))
    ToolShape(**entry)
    return {key: value for key, value in entry.items() if value is not False}


def _fit(
    state: State,
    toolset: str,
    tool_id: str,
    known: "Mapping[str, ToolShape]",
    make: "Callable[[Mapping[str, Collection[str]]], dict[str, Any]]",
) -> dict[str, Any]:
    """Convert a shape's values to the types of its tool's parameters, and check that it fits.

    A note says that it has no effect yet if the toolset has no such tool.

    Raises:
        InvalidToolError: it does not fit, or another tool of the toolset has its name.
    """
    from toolcrib.crib.shaped import ShapedScope, find_unused  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.crib.visible import scope_of  # noqa: PLC0415
    from toolcrib.errors import InvalidToolError, Problem, ToolcribError  # noqa: PLC0415
    from toolcrib.model.shape import ShapedTool, ToolShape, find_misfits  # noqa: PLC0415
    from toolcrib.model.toolid import without_version  # noqa: PLC0415

    async def check() -> dict[str, Any]:
        async with state.crib() as crib:
            settings = crib.settings.toolsets[toolset]
            members = crib.view(settings.replace(tools={}))
            try:
                doc = await crib.describe(tool_id)
            except ToolcribError as error:
                entry = make({})
                note(f"the shape has no effect until there is such a tool: {error}")
                return entry
            entry = make(doc.schema_info.types if doc.schema_info else {})
            shaped = ToolShape(**entry)
            ShapedTool.of(crib[tool_id], shaped, crib.validator)
            if problems := find_misfits(crib[tool_id], "defaults", entry.get("defaults", {}), crib.validator):
                raise InvalidToolError(problems, tool_id, "shape")
            scope = scope_of(settings.replace(tools={**known, tool_id: shaped}), crib.settings)
            if isinstance(scope, ShapedScope):
                collisions = scope.find_collisions(each.id for each in members.index.list_all())
                if collision := collisions.get(without_version(tool_id)):
                    raise InvalidToolError((Problem("/name", "unique", collision),), tool_id, "shape")
            for reason in find_unused([tool_id], crib.index, members.index).values():
                note(f"the shape has no effect: {reason}")
            return entry

    return wait_for(check)


def _write(
    path: Path, toolset: str, tool_id: str, entry: dict[str, Any] | None, *, dry_run: bool
) -> dict[str, Any]:
    from toolcrib.crib.config.files import load_text  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.editing import edit_servers  # noqa: PLC0415

    place = ("toolsets", toolset, "tools")
    return carry_out(edit_servers(path, {tool_id: entry}, place=place, check=load_text), dry_run=dry_run)
