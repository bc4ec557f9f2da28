"""The verbs that change which servers there are: `add` and `remove`."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.exits import UNAVAILABLE, FailedError, NotFoundError
from toolcrib.cli.screen import clean, note, show_json, show_text, waiting
from toolcrib.cli.state import State, common, wait_for
from toolcrib.errors.base import counted

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.setup.doctor.probe import Probe
    from toolcrib.setup.editing.edit import Edit

__all__ = ["add", "carry_out", "own_file", "remove", "tell_notes"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `add` beside the name and the command."""

    url: str | None
    env: tuple[str, ...]
    header: tuple[str, ...]
    cwd: str | None
    transport: str | None
    required: bool
    disabled: bool
    force: bool
    user: bool
    no_check: bool
    dry_run: bool


def own_file(state: State, *, user: bool) -> Path:
    """Return the configuration file that is to be changed: the user's own only where that is asked for."""
    from toolcrib.places import project_config, user_config  # noqa: PLC0415 - only verbs that need it load it

    if user:
        if state.config is not None:
            raise click.UsageError("--user and --config name two files; keep one of them")
        return user_config()
    if state.config is not None:
        return Path(state.config).expanduser().absolute()
    here = Path.cwd()
    return project_config(here) or here / "toolcrib.toml"


def carry_out(edit: "Edit", *, dry_run: bool, notes: Iterable[str] = ()) -> dict[str, Any]:
    """Write a change, unless it is only to be shown, and return its summary."""
    facts: dict[str, Any] = {"file": str(edit.path), "changed": edit.changes, "dryRun": dry_run}
    facts |= {"notes": all_notes} if (all_notes := [*notes, *edit.notes]) else {}
    if dry_run:
        return {**facts, "diff": edit.diff}
    backup = edit.write()
    return facts if backup is None else {**facts, "backup": str(backup)}


def tell_notes(facts: dict[str, Any]) -> None:
    """Tell people what is to be known beside the result."""
    for each in facts.get("notes", ()):
        note(each)


def _pairs(option: str, sign: str, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for each in given:
        name, found, value = each.partition(sign)
        if not found or not name.strip():
            raise click.BadParameter(f"{option} takes NAME{sign}VALUE, and there is no {sign!r} in it")
        pairs[name.strip()] = value.strip() if sign == ":" else value
    return pairs


def _entry(command: tuple[str, ...], asked: _Asked) -> dict[str, Any]:
    """Return a server as the command line describes it."""
    url = asked.url
    if bool(command) == bool(url):
        problem = "both a command and --url" if url else "neither a command after `--` nor --url"
        raise click.UsageError(f"a server is started or reached, and there is {problem}")
    env, headers = _pairs("--env", "=", asked.env), _pairs("--header", ":", asked.header)
    if url and (env or asked.cwd):
        raise click.UsageError("--env and --cwd are for a command that is started; --header is for a --url")
    if headers and not url:
        raise click.UsageError("--header is for a --url; --env gives variables to a command")
    entry: dict[str, Any] = {"url": url} if url else {"command": command[0], "args": list(command[1:])}
    if asked.transport:
        entry["transport"] = asked.transport
    entry |= {"env": env, "headers": headers, "cwd": asked.cwd}
    entry |= {"required": asked.required, "disabled": asked.disabled}
    return {key: value for key, value in entry.items() if value}


@click.command()
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--url", help="Where the server is, instead of a command that starts it.")
@click.option(
    "-e", "--env", multiple=True, metavar="NAME=VALUE", help="A variable for it; VALUE may be '${VAR}'."
)
@click.option("--header", multiple=True, metavar="'NAME: VALUE'", help="A header for it; '${VAR}' likewise.")
@click.option("--cwd", metavar="FOLDER", help="Where it runs, instead of the folder of the file.")
@click.option("--transport", type=click.Choice(["stdio", "http", "sse"]), help="How it is spoken to.")
@click.option("--required", is_flag=True, help="Let nothing be well without it: /ready says no.")
@click.option("--disabled", is_flag=True, help="Write it down, and leave it switched off.")
@click.option("--force", is_flag=True, help="Replace a server of the same name.")
@click.option("--user", is_flag=True, help="Into the user's own configuration.")
@click.option("--no-check", is_flag=True, help="Do not try whether it works.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@common
@click.pass_obj
def add(state: State, /, name: str, command: tuple[str, ...], **options: Any) -> None:
    """Add a server to the configuration.

    It goes into the configuration of this folder, which is made where there is none; --user is for the user's
    own. It runs in the folder of that file, unless --cwd names another. Everything else in the file stays as
    it is, and what it was is kept in the state folder. Values are written as they are given: write '${VAR}',
    in single quotes, for a secret that stays in the environment.

    Then it is started and asked for its tools, which the catalogue keeps. Where that fails the server stays
    in the file, and the exit code is 4.

    Examples:
      toolcrib add time -- uvx mcp-server-time
      toolcrib add github --url https://api.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
    """
    from toolcrib.crib.config.dialects import project_folder  # noqa: PLC0415
    from toolcrib.setup.editing import add_server  # noqa: PLC0415 - not needed to ask for help

    asked = _Asked(**options)
    entry = _entry(command, asked)
    path = own_file(state, user=asked.user)
    edit = add_server(path, name, entry, replace=asked.force)
    facts = {"name": name, **carry_out(edit, dry_run=asked.dry_run)}
    if not (asked.url or asked.cwd):
        facts["cwd"] = str(project_folder(path.parent))
    if asked.dry_run:
        _tell(state, facts)
        return
    if not state.json:
        made = ", which is new" if edit.before is None else ""
        text = f"added {name!r} to {path}{made}" if edit.changes else f"{name!r} is in {path} already"
        click.echo(clean(text))
        if "cwd" in facts and edit.changes:
            click.echo(clean(f"it runs in {facts['cwd']}; --cwd names another folder"))
        tell_notes(facts)
    probed = None if asked.no_check or asked.disabled else _check(path, name)
    if state.json:
        show_json(facts if probed is None else {**facts, "check": _told(probed)})
    if probed is not None:
        _judge(probed, quiet=state.json)


def _tell(state: State, facts: dict[str, Any]) -> None:
    if state.json:
        show_json(facts)
        return
    if "diff" in facts:
        show_text(facts["diff"] or "nothing would change")
    tell_notes(facts)


def _check(path: Path, name: str) -> "Probe":
    """Ask a server for its tools, in a crib of the whole configuration, so that its catalogue keeps them."""
    from toolcrib.crib import Crib  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.doctor.probe import probe  # noqa: PLC0415

    async def work() -> "Probe":
        with waiting(f"starting {name}"):
            async with Crib(path) as crib:
                await crib.tools(namespace=name, limit=1)
                if not crib.status()[name].kept:
                    return _asked(crib, name)
            return await probe(name, crib.settings.servers[name])  # what is kept says nothing of today

    return wait_for(work)


def _asked(crib: "Crib", name: str) -> "Probe":
    from toolcrib.errors import ServerUnavailableError  # noqa: PLC0415
    from toolcrib.redaction import hide_secrets  # noqa: PLC0415
    from toolcrib.setup.doctor.probe import Probe  # noqa: PLC0415 - as above

    status = crib.status()[name]
    words = hide_secrets(status.stderr)
    error = None
    if status.tools is None:
        reason = status.last_error or "it has not listed its tools in time"
        error = ServerUnavailableError(name, reason, words)
    tools = tuple(crib.index.get(each.id) for each in crib.index.every(namespace=name))
    refused = {each: hide_secrets(reason) for each, reason in status.refused.items()}
    return Probe(name, tools, refused, error, words)


def _told(probed: "Probe") -> dict[str, Any]:
    facts: dict[str, Any] = {"ok": probed.error is None, "tools": [tool.name for tool in probed.tools]}
    if probed.refused:
        facts["refused"] = probed.refused
    return facts if probed.error is None else {**facts, "error": str(probed.error)}


def _judge(probed: "Probe", *, quiet: bool) -> None:
    """Tell whether a server works; end with an exit code where it does not."""
    if probed.error is None:
        if not quiet:
            click.echo(f"it works: {counted(len(probed.tools), 'tool')}")
        for each, reason in probed.refused.items():
            note(f"its tool {each!r} cannot be used: {reason}")
        return
    if not quiet:
        note(f"it is in the file, and does not work: {probed.error}")
    raise FailedError(UNAVAILABLE)


@click.command()
@click.argument("name")
@click.option("--user", is_flag=True, help="From the user's own configuration.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@common
@click.pass_obj
def remove(state: State, name: str, user: bool, dry_run: bool) -> None:  # noqa: FBT001 - click gives them by name
    """Remove a server from the configuration.

    Everything else in the file stays as it is, and what it was is kept in the state folder.

    Example: toolcrib remove time
    """
    from toolcrib.errors import ConfigError  # noqa: PLC0415
    from toolcrib.setup.editing import ABSENT, remove_server  # noqa: PLC0415 - not needed to ask for help

    path = own_file(state, user=user)
    try:
        edit = remove_server(path, name)
    except ConfigError as error:
        if error.problems[0].keyword != ABSENT:
            raise
        hint = "" if user or path.is_file() else "; --user is for the user's own configuration"
        raise NotFoundError(f"{error}{hint}") from error
    facts = {"name": name, **carry_out(edit, dry_run=dry_run)}
    if state.json or dry_run:
        _tell(state, facts)
    else:
        click.echo(clean(f"removed {name!r} from {path}"))
        tell_notes(facts)
