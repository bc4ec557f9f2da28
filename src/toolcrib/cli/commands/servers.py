"""The verbs that change the configured servers and the logins to them: `add`, `remove`, `login`, `logout`."""

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import server_names
from toolcrib.cli.exits import UNAVAILABLE, FailedError, NotFoundError
from toolcrib.cli.screen import clean, is_terminal, note, show_json, show_text, waiting
from toolcrib.cli.state import State, common, this_command, wait_for
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.execution.mcp import ServerConfig
    from toolcrib.execution.oauth.vault import StoredLogin
    from toolcrib.setup.doctor.probe import Probe
    from toolcrib.setup.editing.edit import Edit
    from toolcrib.setup.openapi import ApiDocument


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `add` beside the name and the command."""

    url: str | None
    openapi: str | None
    base_url: str | None
    secret: tuple[str, ...]
    allow_private: tuple[str, ...]
    env: tuple[str, ...]
    inherit: tuple[str, ...]
    header: tuple[str, ...]
    cwd: str | None
    sandbox: str | None
    read: tuple[str, ...]
    write: tuple[str, ...]
    network: tuple[str, ...]
    transport: str | None
    required: bool
    disabled: bool
    force: bool
    user: bool
    no_check: bool
    dry_run: bool
    origin: str | None
    registry: str | None
    kind: str | None
    values: tuple[str, ...]
    planned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The `env` and `headers` that a registry gives; those of the options are added to them."""


def own_file(state: State, *, user: bool) -> Path:
    """Return the configuration file to change: with `user`, the user's own."""
    from toolcrib.paths import project_config, user_config  # noqa: PLC0415 - only verbs that need it load it

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
    """Print notes beside the result."""
    for each in facts.get("notes", ()):
        note(each)


def _parse_pairs(option: str, sign: str, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for each in given:
        name, found, value = each.partition(sign)
        if not found or not name.strip():
            raise click.BadParameter(f"{option} takes NAME{sign}VALUE, and there is no {sign!r} in it")
        pairs[name.strip()] = value.strip() if sign == ":" else value
    return pairs


def absolute_paths(paths: tuple[str, ...]) -> list[str]:
    """Return paths as a configuration has them: relative ones begin in this folder."""
    return [path if path.startswith(("~", "$")) else str(Path(path).absolute()) for path in paths]


def _parse_network(given: tuple[str, ...]) -> str | list[str] | None:
    """Return the hosts that a server may reach, in the form of the configuration."""
    words = {"none", "all"}.intersection(given)
    if words and len(given) > 1:
        raise click.BadParameter(f"--network {words.pop()} must be the only one; give hosts one by one")
    return (given[0] if words else list(given)) if given else None


def _make_entry(command: tuple[str, ...], asked: _Asked) -> dict[str, Any]:
    """Return a server as the command line describes it."""
    url = asked.url
    if bool(command) == bool(url):
        problem = "both a command and --url" if url else "neither a command after `--` nor --url"
        also = "" if url else "; --openapi names the document of an HTTP API"
        raise click.UsageError(f"a server needs either a command or a --url, and there is {problem}{also}")
    if command and command[0][:1] in {"", "-"}:
        problem = f"{command[0]!r} is not a command" if command[0] else "the command is empty"
        raise click.UsageError(f"{problem}; was a shell variable before it empty, as in `-- $PYTHON -m x`?")
    if asked.base_url or asked.secret or asked.allow_private:
        raise click.UsageError("--base-url, --secret and --allow-private are for --openapi")
    env = {**asked.planned.get("env", {}), **_parse_pairs("--env", "=", asked.env)}
    headers = {**asked.planned.get("headers", {}), **_parse_pairs("--header", ":", asked.header)}
    if url and (env or asked.cwd or asked.inherit or asked.sandbox):
        started = "--env, --inherit, --cwd and --sandbox are for a command that is started"
        raise click.UsageError(f"{started}; --header is for a --url")
    if (asked.read or asked.write or asked.network) and not asked.sandbox:
        raise click.UsageError("--read, --write and --network are for a server in a sandbox: add --sandbox")
    if headers and not url:
        raise click.UsageError("--header is for a --url; --env gives variables to a command")
    entry: dict[str, Any] = {"url": url} if url else {"command": command[0], "args": list(command[1:])}
    if asked.transport:
        entry["transport"] = asked.transport
    entry |= {"env": env, "inherit": list(asked.inherit), "headers": headers, "cwd": asked.cwd}
    entry |= {"sandbox": asked.sandbox, "network": _parse_network(asked.network)}
    entry |= {"read": absolute_paths(asked.read), "write": absolute_paths(asked.write)}
    entry |= {"required": asked.required, "disabled": asked.disabled}
    return {key: value for key, value in entry.items() if value}


@click.command()
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--url", help="The address of the server, instead of a command that starts it.")
@click.option(
    "--openapi", metavar="FILE|URL", help="The OpenAPI document of an HTTP API, instead of an MCP server."
)
@click.option("--base-url", metavar="URL", help="The address of the API, instead of the one in its document.")
@click.option(
    "--secret",
    multiple=True,
    metavar="SCHEME=VALUE",
    help="The secret of a security scheme of the API; may be '${VAR}'.",
)
@click.option(
    "--allow-private",
    multiple=True,
    metavar="HOST",
    help="A private host or network that requests to the API may go to.",
)
@click.option(
    "-e",
    "--env",
    multiple=True,
    metavar="NAME=VALUE",
    help="An environment variable for the server; VALUE may be '${VAR}'.",
)
@click.option(
    "--inherit",
    multiple=True,
    metavar="NAME",
    help="A variable that the server inherits: 'AWS_*', or '*' for all.",
)
@click.option(
    "--header", multiple=True, metavar="'NAME: VALUE'", help="A header for the server; may contain '${VAR}'."
)
@click.option("--cwd", metavar="FOLDER", help="The working directory, instead of the folder of the file.")
@click.option(
    "--sandbox", type=click.Choice(["bubblewrap", "docker"]), help="The sandbox to run the server in."
)
@click.option("--read", multiple=True, metavar="PATH", help="A path that it may read in its sandbox.")
@click.option(
    "--write", multiple=True, metavar="PATH", help="A path that it may read and write in its sandbox."
)
@click.option(
    "--network", multiple=True, metavar="none|all|HOST", help="The hosts that it may reach; by default none."
)
@click.option(
    "--from",
    "origin",
    metavar="SERVER",
    help="A server of a registry: 'io.github.acme/weather', or with @1.2.0.",
)
@click.option(
    "--registry",
    metavar="FILE|URL",
    help="The registry, instead of the setting `registry`: a file, or an API.",
)
@click.option(
    "--kind",
    type=click.Choice(["npm", "pypi", "oci", "remote"]),
    help="The kind of package or address to use, instead of the first that works.",
)
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value that the registry asks for; may be '${VAR}'.",
)
@click.option("--transport", type=click.Choice(["stdio", "http", "sse"]), help="The transport.")
@click.option("--required", is_flag=True, help="Make /ready fail without it.")
@click.option("--disabled", is_flag=True, help="Add it, but leave it disabled.")
@click.option("--force", is_flag=True, help="Replace a server of the same name.")
@click.option("--user", is_flag=True, help="Use the user's own configuration.")
@click.option("--no-check", is_flag=True, help="Do not check whether it works.")
@click.option("--dry-run", is_flag=True, help="Show what would change without changing it.")
@common
@click.pass_obj
def add(state: State, /, name: str, command: tuple[str, ...], **options: Any) -> None:
    """Add a server or an HTTP API to the configuration.

    It is added to the configuration in the current folder, which is created if there is none, or with --user
    to the user's own. A server runs in the folder of that file, unless --cwd names another. The rest of the
    file does not change, and a backup is kept in the state folder. Values are written as they are given:
    write '${VAR}', in single quotes, for a secret that stays in the environment.

    The server is then started and asked for its tools, which are stored in the catalogue. If that fails, the
    server stays in the file, and the exit code is 4.

    The operations of an HTTP API become tools. Its OpenAPI document is a file, or is downloaded once and
    saved next to the configuration. An OpenAPI document that is given as --url, or in place of the command,
    is recognised; --transport adds it as an MCP server anyway.

    With --from, the registry says how the server is started or reached: an npm or PyPI package, an image, or
    an address. Its version is pinned. A value that the server needs becomes an environment variable for
    you to set, or has to be given with --set. The registry is a file or the URL of an API, from --registry or
    from `registry` in the configuration.

    In a sandbox (--sandbox), a server sees programs and its own packages, but none of the user's files;
    --read, --write and --network give it access to what it needs.

    Examples:
      toolcrib add time -- uvx mcp-server-time
      toolcrib add notes --sandbox bubblewrap --write ~/notes -- npx -y notes-server ~/notes
      toolcrib add github --url https://api.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
      toolcrib add weather --from io.github.acme/weather@1.2.0 --registry registry.json
      toolcrib add shop --openapi https://shop.example.com/openapi.json --secret api_key='${SHOP_KEY}'
    """
    asked = _Asked(**options)
    first, *others = command or ("",)
    if not others and asked.url is None and first.lower().startswith(("http://", "https://")):
        command, asked = (), replace(asked, url=first)
    path = own_file(state, user=asked.user)
    command, asked, notes = _ask_registry(state, path, command, asked)
    document = None if asked.origin is not None else _find_document(command, asked)
    if document is not None:
        facts = _add_api(path, name, document, asked)
    else:
        facts = _add_server(path, name, command, asked)
    _add_notes(facts, notes)
    if asked.dry_run:
        _print_summary(state, facts)
        return
    if not state.json:
        _print_added(path, facts)
    probed = None if asked.no_check or asked.disabled else _list_tools(path, name)
    if (
        probed is not None
        and _wants_login(probed)
        and not state.json
        and is_terminal()
        and sys.stdin.isatty()
    ):
        note(f"{name!r} needs a login")
        _log_in(name, _find_server(path, name))
        probed = _list_tools(path, name)
    if state.json:
        show_json(facts if probed is None else {**facts, "check": _probe_json(probed)})
    if probed is not None:
        if probed.error is not None and not _wants_login(probed) and asked.url and _is_document(asked.url):
            note(f"it is an OpenAPI document: `remove {name}`, and add it with --openapi instead of --url")
        remedy = "" if _wants_login(probed) else _command_to_replace(name, command, asked)
        _report_probe(probed, quiet=state.json, remedy=remedy)


def _command_to_replace(name: str, command: tuple[str, ...], asked: _Asked) -> str:
    """Return the shell command that replaces a server by what was given, for people to edit."""
    from toolcrib.redaction import hide_secrets  # noqa: PLC0415 - as above

    user = ("--user",) if asked.user else ()
    api = ("--openapi", asked.openapi) if asked.openapi else ()
    url = ("--url", asked.url) if asked.url else ()
    registry = ("--from", asked.origin) if asked.origin else ()
    started = ("--", *command) if command and not registry else ()
    words = shlex.join(["add", name, "--force", *user, *(registry or (*api, *url)), *started])
    return hide_secrets(f"{this_command()} {words}")


def _add_notes(facts: dict[str, Any], notes: list[str]) -> None:
    """Put notes before those that a summary has."""
    if notes:
        facts["notes"] = [*notes, *facts.get("notes", ())]


def _ask_registry(
    state: State, path: Path, command: tuple[str, ...], asked: _Asked
) -> tuple[tuple[str, ...], _Asked, list[str]]:
    """Return the command and the options, for a server of a registry completed by its entry, and notes."""
    if asked.origin is None:
        if asked.registry or asked.kind or asked.values:
            raise click.UsageError("--registry, --kind and --set are for a server of a registry: add --from")
        return command, asked, []
    from toolcrib.crib.config.files import load  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.registry import plan_server, read_entry  # noqa: PLC0415

    if command or asked.url or asked.openapi:
        raise click.UsageError(
            "--from says how the server is started: leave out the command, --url and --openapi"
        )
    source = asked.registry
    if source is None:
        config = path if path.exists() else state.config_file()
        source = None if config is None else load(config).registry
    if source is None:
        raise click.UsageError(
            "no registry is known: give --registry, or set `registry` in the configuration"
        )
    entry = read_entry(source, asked.origin)
    plan = plan_server(entry, kind=asked.kind, values=_parse_pairs("--set", "=", asked.values))
    notes = [f"{entry.name} {entry.version}, from {entry.source}", *plan.notes]
    for variable, about in plan.variables.items():
        notes.append(f"set the environment variable {variable}{f': {about}' if about else ''}")
    settings = plan.settings
    asked = replace(
        asked,
        url=settings.get("url"),
        planned={key: settings[key] for key in ("env", "headers") if key in settings},
        transport=asked.transport or settings.get("transport"),
    )
    words = () if asked.url else (settings["command"], *settings["args"])
    return words, asked, notes


def _find_document(command: tuple[str, ...], asked: _Asked) -> "ApiDocument | None":
    """Return the OpenAPI document to add; None if the command line describes an MCP server."""
    from toolcrib.errors import InvalidToolError, ServerUnavailableError  # noqa: PLC0415 - as above
    from toolcrib.setup.openapi import has_suffix, is_url, names_document, read_api  # noqa: PLC0415

    if asked.openapi is not None:
        if command or asked.url:
            raise click.UsageError("--openapi replaces a command or --url; give only one of them")
        return read_api(asked.openapi)
    given = asked.url or (command[0] if len(command) == 1 else None)
    if given is None or asked.transport is not None or not names_document(given):
        return None
    if not is_url(given) and not Path(given).is_file():
        if shutil.which(given):
            return None
        raise click.UsageError(f"there is no file {given!r}, and no program of that name")
    try:
        return read_api(given)
    except InvalidToolError as error:
        if is_url(given):
            return None
        raise click.UsageError(f"{given!r} is neither a program nor an OpenAPI document: {error}") from error
    except ServerUnavailableError as error:
        if not has_suffix(given):  # such as an MCP server, which answers no GET
            return None
        advice = "; with --transport http it is added as an MCP server, unchecked"
        raise ServerUnavailableError(error.server, f"{error.reason}{advice}") from error


def _is_document(url: str) -> bool:
    """Return whether a URL serves an OpenAPI document, under any name, and not an MCP server."""
    from toolcrib.errors import ToolcribError  # noqa: PLC0415 - as above
    from toolcrib.setup.openapi import read_api  # noqa: PLC0415

    try:
        read_api(url)
    except ToolcribError:
        return False
    return True


def _add_api(path: Path, name: str, document: "ApiDocument", asked: _Asked) -> dict[str, Any]:
    """Write an API into a configuration, with its document where that was downloaded; return its summary."""
    from toolcrib.setup.openapi import add_api  # noqa: PLC0415 - not needed to ask for help

    if asked.env or asked.header or asked.cwd or asked.sandbox or asked.transport or asked.disabled:
        reason = "--env, --header, --cwd, --sandbox, --transport and --disabled are for MCP servers"
        raise click.UsageError(f"{reason}; --secret fills a security scheme of an API")
    made = add_api(
        path,
        name,
        document,
        base_url=asked.base_url,
        secrets=_parse_pairs("--secret", "=", asked.secret),
        allow_private=asked.allow_private,
        required=asked.required,
        force=asked.force,
    )
    if not asked.dry_run:
        made.write_document()
    facts: dict[str, Any] = {"name": name, "document": str(made.file)}
    facts |= {"downloaded": document.url} if document.url else {}
    facts |= {"recognised": document.source} if asked.openapi is None else {}
    facts |= {"baseUrl": made.settings["base_url"]} if "base_url" in made.settings else {}
    facts |= {"allowPrivate": made.settings["allow_private"]} if "allow_private" in made.settings else {}
    return {
        **facts,
        **carry_out(made.edit, dry_run=asked.dry_run, notes=made.notes),
        "new": made.edit.before is None,
    }


def _add_server(path: Path, name: str, command: tuple[str, ...], asked: _Asked) -> dict[str, Any]:
    """Write an MCP server into a configuration, and return its summary."""
    from toolcrib.crib.config.dialects import project_folder  # noqa: PLC0415
    from toolcrib.setup.editing import add_server  # noqa: PLC0415 - not needed to ask for help

    edit = add_server(path, name, _make_entry(command, asked), replace=asked.force)
    facts = {"name": name, **carry_out(edit, dry_run=asked.dry_run), "new": edit.before is None}
    return facts if asked.url or asked.cwd else {**facts, "cwd": str(project_folder(path.parent))}


def _recognition_text(facts: dict[str, Any]) -> str:
    return f"{facts['recognised']} is an OpenAPI document, so this is an HTTP API"


def _print_added(path: Path, facts: dict[str, Any]) -> None:
    """Print the server or API that was added to a configuration."""
    name = facts["name"]
    if "recognised" in facts:
        click.echo(clean(_recognition_text(facts)))
    if "downloaded" in facts:
        click.echo(clean(f"downloaded {facts['downloaded']} to {facts['document']}"))
    made = " (new file)" if facts["new"] else ""
    what = f"the API {name!r}" if "document" in facts else repr(name)
    text = f"added {what} to {path}{made}" if facts["changed"] else f"{name!r} is in {path} already"
    click.echo(clean(text))
    if "baseUrl" in facts:
        private = ", a private address that is allowed" if facts.get("allowPrivate") else ""
        click.echo(clean(f"it is called at {facts['baseUrl']}{private}; --base-url names another"))
    if "cwd" in facts and facts["changed"]:
        click.echo(clean(f"it runs in {facts['cwd']}; --cwd names another folder"))
    tell_notes(facts)


def _print_summary(state: State, facts: dict[str, Any]) -> None:
    if state.json:
        show_json(facts)
        return
    if "diff" in facts:
        show_text(facts["diff"] or "nothing would change")
    if "recognised" in facts:
        note(_recognition_text(facts))
    tell_notes(facts)


def _list_tools(path: Path, name: str) -> "Probe":
    """Request the tools of a server in a crib of the whole configuration, so that its catalogue has them."""
    from toolcrib.crib import Crib  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.doctor.probe import probe, probe_apis  # noqa: PLC0415

    async def work() -> "Probe":
        with waiting(f"starting {name}"):
            async with Crib(path, on_demand=True) as crib:
                await crib.tools(namespace=name, limit=1)
                if not crib.status()[name].kept:
                    return _probe_of(crib, name)
            if name in crib.settings.openapi:
                return next(each for each in await probe_apis(crib.settings) if each.name == name)
            # What is kept says nothing of today.
            return await probe(name, crib.settings.started_servers[name])

    return wait_for(work)


def _probe_of(crib: "Crib", name: str) -> "Probe":
    from toolcrib.errors import LoginRequiredError, ServerUnavailableError  # noqa: PLC0415
    from toolcrib.redaction import hide_secrets  # noqa: PLC0415
    from toolcrib.setup.doctor.probe import Probe  # noqa: PLC0415 - as above

    status = crib.status()[name]
    words = hide_secrets(status.stderr)
    error = None
    if status.tools is None:
        reason = status.last_error or "it did not list its tools in time"
        kind = LoginRequiredError if status.needs_login else ServerUnavailableError
        error = kind(name, reason, words)
    tools = tuple(crib.index.get(each.id) for each in crib.index.list_all(namespace=name))
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


def _report_probe(probed: "Probe", *, quiet: bool, remedy: str = "") -> None:
    """Report whether a server works; if not, show the command that corrects it, and end with an exit code."""
    if probed.error is None:
        if not quiet:
            click.echo(f"it works: {count_noun(len(probed.tools), 'tool')}")
        for each, reason in probed.refused.items():
            note(f"its tool {each!r} cannot be used: {reason}")
        return
    if not quiet:
        note(f"it was added to the file, but does not work: {probed.error}")
        if remedy:
            note(f"correct it and add it again: {remedy}")
    raise FailedError(UNAVAILABLE)


@click.command()
@click.argument("name", shell_complete=server_names)
@click.option("--user", is_flag=True, help="Use the user's own configuration.")
@click.option("--dry-run", is_flag=True, help="Show what would change without changing it.")
@common
@click.pass_obj
def remove(state: State, name: str, user: bool, dry_run: bool) -> None:  # noqa: FBT001 - click gives them by name
    """Remove a server or an HTTP API from the configuration.

    The rest of the file does not change, and a backup is kept in the state folder.

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
        _print_summary(state, facts)
    else:
        click.echo(clean(f"removed {name!r} from {path}"))
        tell_notes(facts)


@click.command()
@click.argument("name", shell_complete=server_names)
@click.option("--device", is_flag=True, help="Log in with a code that you enter on another device.")
@click.option("--no-browser", is_flag=True, help="Show the address instead of opening a browser.")
@common
@click.pass_obj
def login(state: State, name: str, device: bool, no_browser: bool) -> None:  # noqa: FBT001 - click gives them by name
    """Log in to a server that requires OAuth.

    A browser opens the server's own login page. The login is kept encrypted in the vault of this user and
    refreshed automatically; every command and gateway of this user can use it. On a machine without a
    browser, --device shows a code to enter elsewhere.

    Example: toolcrib login linear
    """
    found = _log_in(name, _find_server(state.source(), name), device=device, no_browser=no_browser)
    if state.json:
        show_json({"name": name, **login_facts(found)})
    else:
        click.echo(clean(f"logged in to {name!r} {until(found)}"))


def _log_in(
    name: str, config: "ServerConfig", *, device: bool = False, no_browser: bool = False
) -> "StoredLogin":
    """Log in to a server, with instructions for the person at the terminal."""
    import webbrowser  # noqa: PLC0415 - not needed to ask for help

    from toolcrib.execution.oauth.flows import log_in  # noqa: PLC0415 - needs the extra

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
    "--everybody", is_flag=True, help="Also delete the logins of everybody who uses their own account."
)
@common
@click.pass_obj
def logout(state: State, name: str, everybody: bool) -> None:  # noqa: FBT001 - as click calls it
    """Delete the login of a server.

    Its tokens are revoked, if its authorization server supports that.

    Example: toolcrib logout linear
    """
    from toolcrib.execution.oauth.flows import log_out  # noqa: PLC0415 - needs the extra
    from toolcrib.execution.oauth.vault import LoginVault  # noqa: PLC0415 - the same

    config = _find_server(state.source(), name)

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
        left = "" if revoked else "; its server was not notified, so its tokens stay valid until they expire"
        click.echo(clean(f"logged out of {name!r}{left}"))


def _find_server(source: str | Path | None, name: str) -> "ServerConfig":
    """Return the settings of a server that is configured, with their variables filled in."""
    import os  # noqa: PLC0415 - not needed to ask for help

    from toolcrib.crib.config.files import load  # noqa: PLC0415
    from toolcrib.model.suggest import choose  # noqa: PLC0415

    servers = load(source).servers
    if name not in servers:
        raise NotFoundError(f"there is no server {name!r}{choose(name, servers)}")
    return servers[name].expanded(os.environ)


def login_facts(found: "StoredLogin") -> dict[str, Any]:
    """Return the public facts of a login."""
    expires = None if found.expires_at is None else datetime.fromtimestamp(found.expires_at, UTC)
    facts: dict[str, Any] = {"issuer": found.issuer, "scopes": list(found.scopes)}
    facts["loggedIn"] = found.access_token is not None
    facts["refreshes"] = found.refresh_token is not None
    return facts | ({} if expires is None else {"expires": expires.isoformat(timespec="seconds")})


def until(found: "StoredLogin") -> str:
    """Return the expiry of a login in a few words."""
    if found.access_token is None:
        return "no longer: log in again"
    if found.refresh_token is not None:
        return "until it is revoked"
    if found.expires_at is None:
        return "without expiry"
    end = datetime.fromtimestamp(found.expires_at, UTC)
    return f"{'ended' if end < datetime.now(UTC) else 'until'} {end:%Y-%m-%d %H:%M} UTC"
