"""The verbs about which servers there are, and access to them: `add`, `remove`, `login` and `logout`."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import server_names
from toolcrib.cli.exits import UNAVAILABLE, FailedError, NotFoundError
from toolcrib.cli.screen import clean, is_terminal, note, show_json, show_text, waiting
from toolcrib.cli.state import State, common, wait_for
from toolcrib.errors.base import counted

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.execution.mcp import ServerConfig
    from toolcrib.execution.oauth.vault import StoredLogin
    from toolcrib.setup.doctor.probe import Probe
    from toolcrib.setup.editing.edit import Edit

__all__ = ["add", "carry_out", "login", "login_facts", "logout", "own_file", "remove", "tell_notes", "until"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `add` beside the name and the command."""

    url: str | None
    env: tuple[str, ...]
    inherit: tuple[str, ...]
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
    if url and (env or asked.cwd or asked.inherit):
        started = "--env, --inherit and --cwd are for a command that is started"
        raise click.UsageError(f"{started}; --header is for a --url")
    if headers and not url:
        raise click.UsageError("--header is for a --url; --env gives variables to a command")
    entry: dict[str, Any] = {"url": url} if url else {"command": command[0], "args": list(command[1:])}
    if asked.transport:
        entry["transport"] = asked.transport
    entry |= {"env": env, "inherit": list(asked.inherit), "headers": headers, "cwd": asked.cwd}
    entry |= {"required": asked.required, "disabled": asked.disabled}
    return {key: value for key, value in entry.items() if value}


@click.command()
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--url", help="Where the server is, instead of a command that starts it.")
@click.option(
    "-e", "--env", multiple=True, metavar="NAME=VALUE", help="A variable for it; VALUE may be '${VAR}'."
)
@click.option(
    "--inherit", multiple=True, metavar="NAME", help="A variable that it inherits: 'AWS_*', or '*' for all."
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
    if (
        probed is not None
        and _wants_login(probed)
        and not state.json
        and is_terminal()
        and sys.stdin.isatty()
    ):
        note(f"{name!r} needs a login")
        _log_in(name, _server(path, name))
        probed = _check(path, name)
    if state.json:
        show_json(facts if probed is None else {**facts, "check": _probe_json(probed)})
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
            return await probe(
                name, crib.settings.started_servers[name]
            )  # what is kept says nothing of today

    return wait_for(work)


def _asked(crib: "Crib", name: str) -> "Probe":
    from toolcrib.errors import LoginRequiredError, ServerUnavailableError  # noqa: PLC0415
    from toolcrib.redaction import hide_secrets  # noqa: PLC0415
    from toolcrib.setup.doctor.probe import Probe  # noqa: PLC0415 - as above

    status = crib.status()[name]
    words = hide_secrets(status.stderr)
    error = None
    if status.tools is None:
        reason = status.last_error or "it has not listed its tools in time"
        kind = LoginRequiredError if status.needs_login else ServerUnavailableError
        error = kind(name, reason, words)
    tools = tuple(crib.index.get(each.id) for each in crib.index.every(namespace=name))
    refused = {each: hide_secrets(reason) for each, reason in status.refused.items()}
    return Probe(name, tools, refused, error, words)


def _wants_login(probed: "Probe") -> bool:
    from toolcrib.errors import LoginRequiredError  # noqa: PLC0415 - as above

    return isinstance(probed.error, LoginRequiredError)


def _probe_json(probed: "Probe") -> dict[str, Any]:
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
@click.argument("name", shell_complete=server_names)
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


@click.command()
@click.argument("name", shell_complete=server_names)
@click.option("--device", is_flag=True, help="With a code that is entered on another device.")
@click.option("--no-browser", is_flag=True, help="Show the address, and open no browser.")
@common
@click.pass_obj
def login(state: State, name: str, device: bool, no_browser: bool) -> None:  # noqa: FBT001 - click gives them by name
    """Log in to a server that wants OAuth.

    A browser is opened at the server's own login. What it gives is kept in the vault of this user, sealed,
    and refreshed by itself; every command and gateway of this user has access from then on. On a machine
    without a browser, --device shows a code to enter elsewhere.

    Example: toolcrib login linear
    """
    found = _log_in(name, _server(state.source(), name), device=device, no_browser=no_browser)
    if state.json:
        show_json({"name": name, **login_facts(found)})
    else:
        click.echo(clean(f"logged in to {name!r} {until(found)}"))


def _log_in(
    name: str, config: "ServerConfig", *, device: bool = False, no_browser: bool = False
) -> "StoredLogin":
    """Log in to a server, and tell the person at the terminal what to do."""
    import webbrowser  # noqa: PLC0415 - not needed to ask for help

    from toolcrib.execution.oauth.login import log_in  # noqa: PLC0415 - needs the extra

    def show(address: str, code: str | None) -> None:
        if code:
            note(f"open this address on any device, and enter the code {code}:")
        else:
            note("log in at this address:")
        show_text(address) if sys.stdout.isatty() else note(address)
        if code is None and not no_browser:
            # Some browsers return when they are closed, and the login has to go on meanwhile.
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    async def work() -> "StoredLogin":
        return await log_in(name, config, show=show, device=device)

    return wait_for(work)


@click.command()
@click.argument("name", shell_complete=server_names)
@click.option(
    "--everybody", is_flag=True, help="Forget those of all persons who have logged in for themselves, too."
)
@common
@click.pass_obj
def logout(state: State, name: str, everybody: bool) -> None:  # noqa: FBT001 - as click calls it
    """Forget the login of a server.

    Its tokens are taken back, where its authorization server can do that.

    Example: toolcrib logout linear
    """
    from toolcrib.execution.oauth.login import log_out  # noqa: PLC0415 - needs the extra
    from toolcrib.execution.oauth.vault import LoginVault  # noqa: PLC0415 - the same

    config = _server(state.source(), name)

    async def work() -> tuple[bool, bool]:
        persons = LoginVault().owners(name, config.url or "") if everybody else ()
        ended = [await log_out(name, config, owner=owner) for owner in (None, *persons)]
        revoked = [revoked for known, revoked in ended if known]
        return bool(revoked), bool(revoked) and all(revoked)

    known, revoked = wait_for(work)
    if state.json:
        show_json({"name": name, "loggedOut": known, "revoked": revoked})
    elif not known:
        note(f"nobody was logged in to {name!r}")
    else:
        left = "" if revoked else "; its server was not told, so its tokens end by themselves"
        click.echo(clean(f"logged out of {name!r}{left}"))


def _server(source: str | Path | None, name: str) -> "ServerConfig":
    """Return the settings of a server that is configured, with their variables filled in."""
    import os  # noqa: PLC0415 - not needed to ask for help

    from toolcrib.crib.config.files import load  # noqa: PLC0415
    from toolcrib.model.suggest import choose  # noqa: PLC0415

    servers = load(source).servers
    if name not in servers:
        raise NotFoundError(f"there is no server {name!r}{choose(name, servers)}")
    return servers[name].expanded(os.environ)


def login_facts(found: "StoredLogin") -> dict[str, Any]:
    """Return what may be shown of a login."""
    expires = None if found.expires_at is None else datetime.fromtimestamp(found.expires_at, UTC)
    facts: dict[str, Any] = {"issuer": found.issuer, "scopes": list(found.scopes)}
    facts["loggedIn"] = found.access_token is not None
    facts["refreshes"] = found.refresh_token is not None
    return facts | ({} if expires is None else {"expires": expires.isoformat(timespec="seconds")})


def until(found: "StoredLogin") -> str:
    """Return until when a login holds, in a few words."""
    if found.access_token is None:
        return "no longer: log in again"
    if found.refresh_token is not None:
        return "until it is taken back"
    if found.expires_at is None:
        return "without an end"
    end = datetime.fromtimestamp(found.expires_at, UTC)
    return f"{'ended' if end < datetime.now(UTC) else 'until'} {end:%Y-%m-%d %H:%M} UTC"
