"""The verbs for other MCP clients: `import`, `export` and `install`."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.choices import OneOf
from toolcrib.cli.commands.servers import carry_out, own_file, tell_notes
from toolcrib.cli.exits import NotFoundError
from toolcrib.cli.screen import clean, note, show_json, show_text
from toolcrib.cli.state import State, common, this_command
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import Settings
    from toolcrib.execution.mcp.config import Sandbox, ServerConfig
    from toolcrib.setup.installing.clients import Client, Scope
    from toolcrib.setup.installing.imports import Found, Merge

_CLIENTS = "The clients are claude, claude-desktop, cursor, vscode, windsurf, gemini, codex, zed and cline."
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would change without changing it.")


@dataclass(frozen=True, slots=True)
class _ImportAsked:
    """The options of `import` beside the client."""

    force: bool
    user: bool
    inherit: tuple[str, ...]
    sandbox: "Sandbox | None"
    dry_run: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `install` beside the client."""

    scope: "Scope"
    name: str
    replace: bool
    force: bool
    undoing: bool
    dry_run: bool


def _client_names() -> list[str]:
    from toolcrib.setup.installing.clients import CLIENTS  # noqa: PLC0415 - not needed to ask for help

    return list(CLIENTS)


def _client(name: str) -> "Client":
    from toolcrib.model.suggest import choose  # noqa: PLC0415
    from toolcrib.setup.installing.clients import CLIENTS  # noqa: PLC0415 - not needed to ask for help

    if name not in CLIENTS:
        raise NotFoundError(f"there is no client {name!r}{choose(name, CLIENTS)}")
    return CLIENTS[name]


def _find_clients() -> str:
    """Return the clients that have a file on this machine, with its path, to choose from."""
    from toolcrib.setup.installing.clients import CLIENTS  # noqa: PLC0415 - as above

    here = []
    for client in CLIENTS.values():
        files = [client.file(), *([client.file("project", folder=Path.cwd())] if client.project else [])]
        here += [f"{client.name} ({path})" for path in files if path.is_file()]
    return f"found here: {', '.join(here)}" if here else "no known client has a file here"


def _read_source(source: str) -> "Found":
    """Return the servers of a client, or of a file."""
    from toolcrib.setup.installing.clients import CLIENTS  # noqa: PLC0415 - as above
    from toolcrib.setup.installing.imports import read_servers, servers_of  # noqa: PLC0415

    path = Path(source).expanduser()
    if source in CLIENTS:
        found = servers_of(CLIENTS[source], Path.cwd())
        if not found.files:
            raise NotFoundError(f"{CLIENTS[source].title} has no configuration here: it has no file")
        return found
    if not path.is_file():
        if path.suffix or path.name != source:  # written like a file
            raise NotFoundError(f"there is no file {source!r}")
        _client(source)
    return read_servers(path.absolute())


@click.command("import", epilog=_CLIENTS)
@click.argument("source", metavar="CLIENT|FILE", required=False)
@click.option("--force", is_flag=True, help="Replace servers of the same name.")
@click.option("--user", is_flag=True, help="Use the user's own configuration.")
@click.option(
    "--inherit",
    multiple=True,
    metavar="NAME",
    help="Variables that the servers inherit: 'AWS_*', or '*' for all.",
)
@click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker"]),
    help="The sandbox for servers that have none.",
)
@_DRY_RUN
@common
@click.pass_obj
def import_(state: State, /, source: str | None, **options: Any) -> None:
    """Import the servers of an MCP client.

    Name the client, or one of its files. A server whose name is already taken in the configuration
    is reported and left out. The client's file does not change, and toolcrib itself is never
    imported.

    Some clients pass their whole environment to servers, but toolcrib passes only part of it: --inherit names
    further variables. With --sandbox the servers are started in a sandbox, and paths in their settings
    that they cannot see there are reported.

    Examples:
      toolcrib import cursor --dry-run
      toolcrib import claude --inherit '*'
      toolcrib import cursor --sandbox bubblewrap
      toolcrib import ~/Downloads/mcp.json
    """
    from toolcrib.setup.installing.imports import (  # noqa: PLC0415 - not needed to ask for help
        ENVIRONMENT_NOTE,
        add_wall,
        merge,
        renamed,
        wall_notes,
    )

    asked = _ImportAsked(**options)
    if source is None:
        raise click.UsageError(f"name a client or a file to import from; {_find_clients()}")
    found = _read_source(source)
    servers = {
        name: server.replace(inherit=(*server.inherit, *asked.inherit)) if server.command else server
        for name, server in found.servers.items()
    }
    notes = [each for each in found.notes if not (asked.inherit and each.endswith(ENVIRONMENT_NOTE))]
    if asked.sandbox is not None:
        servers = {name: add_wall(server, asked.sandbox) for name, server in servers.items()}
        notes += list(wall_notes(servers))
    merged = merge(own_file(state, user=asked.user), servers, force=asked.force)
    facts = {"from": [str(path) for path in found.files], **_merge_facts(merged)}
    facts["renamed"] = renamed(found, merged.servers)
    facts["secrets"] = _count_secrets(merged)
    if merged.servers:
        facts |= carry_out(merged.edit, dry_run=asked.dry_run, notes=notes)
    else:  # a file that is not there is not made to hold nothing
        facts |= {"file": str(merged.edit.path), "changed": False, "dryRun": asked.dry_run, "notes": notes}
        facts["reason"] = _why_none_imported(found, merged)
    if state.json:
        show_json(facts)
        return
    _print_merge(merged, facts, dry_run=asked.dry_run)
    tell_notes(facts)
    if facts["secrets"]:
        verb = "is" if facts["secrets"] == 1 else "are"
        copied = f"{count_noun(facts['secrets'], 'secret')} {verb} copied as text"
        note(f"{copied} into {merged.edit.path}; ${{NAME}} in its place reads it from the environment")
    _print_problems(facts, merged.edit.path)
    if merged.servers and not asked.dry_run:
        here, client = this_command(), source if source in _client_names() else "CLIENT"
        note(f'next: `{here} search "what you want to do"`, then `{here} install {client} --replace`')


def _count_secrets(merged: "Merge") -> int:
    """Return how many secrets stand as text in the servers that are taken over."""
    from toolcrib.redaction import named_secrets  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.installing.imports import written  # noqa: PLC0415

    return sum(len(set(named_secrets(written(server)))) for server in merged.servers.values())


def _merge_facts(merged: "Merge") -> dict[str, Any]:
    """Return the JSON facts of an import: the servers, the disabled ones, and those with problems."""
    from toolcrib.setup.doctor.config import check_server  # noqa: PLC0415 - not needed to ask for help

    names = ("added", "replaced", "same", "conflicts")
    facts: dict[str, Any] = {name: list(getattr(merged, name)) for name in names}
    facts["disabled"] = [name for name, server in merged.servers.items() if server.disabled]
    problems = {
        name: [each.what for each in check_server(name, server, os.environ) if each.severity == "error"]
        for name, server in merged.servers.items()
        if not server.disabled
    }
    return {**facts, "problems": {name: found for name, found in problems.items() if found}}


def _print_problems(facts: dict[str, Any], config: Path) -> None:
    """Print the imported servers that are disabled, and those that will not work."""
    from toolcrib.paths import find_config  # noqa: PLC0415 - not needed to ask for help

    for name in facts["disabled"]:
        note(f"{name!r} is disabled, as it was")
    for name, problems in facts["problems"].items():
        note(f"{name!r} will not work: {'; '.join(problems)}")
    if facts["added"] or facts["replaced"]:
        named = "" if find_config() == config else f" --config {shlex.quote(str(config))}"
        note(f"`{this_command()} doctor{named}` starts each of them, and says what is wrong")


def _why_none_imported(found: "Found", merged: "Merge") -> str:
    """Return the reason why no server is imported."""
    files = ", ".join(map(str, found.files))
    if merged.conflicts:
        return "our configuration has other servers of the same names"
    if merged.same:
        return f"all servers of {files} are in our configuration already"
    if found.itself or found.notes:
        return f"no server in {files} can be imported"
    return f"there are no servers in {files}"


def _print_merge(merged: "Merge", facts: dict[str, Any], *, dry_run: bool) -> None:
    from toolcrib.setup.installing.imports import rename_note  # noqa: PLC0415 - not needed to ask for help

    taken = [*merged.added, *merged.replaced]
    if dry_run:
        show_text(merged.edit.diff if taken else "nothing would change")
        if not taken:
            note(facts["reason"])
    elif taken:
        click.echo(clean(f"imported {', '.join(taken)} into {merged.edit.path}"))
    else:
        click.echo(clean(f"imported nothing: {facts['reason']}"))
    for written, name in facts["renamed"].items():
        note(rename_note(written, name))
    if merged.same and (taken or merged.conflicts):
        note(f"{', '.join(merged.same)}: in our configuration already")
    for name in merged.conflicts:
        note(f"{name!r} is left out: our configuration has another server of that name; --force replaces it")


@click.command(epilog=_CLIENTS)
@click.option(
    "--to", "client", required=True, type=OneOf(_client_names), metavar="CLIENT", help="The client."
)
@click.option("--output", metavar="FILE", help="Write them into this file; its other contents are kept.")
@_DRY_RUN
@common
@click.pass_obj
def export(state: State, client: str, output: str | None, dry_run: bool) -> None:  # noqa: FBT001 - click gives it by name
    """Write the servers in the format of an MCP client.

    Example: toolcrib export --to vscode --output .vscode/mcp.json
    """
    from toolcrib.crib.config.files import load  # noqa: PLC0415
    from toolcrib.setup.editing import edit_servers  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.installing import export as made_for  # noqa: PLC0415

    known = _client(client)
    settings = load(state.config_file())
    source, path = (
        Path(settings.source or "."),
        None if output is None else Path(output).expanduser().absolute(),
    )
    servers = {name: _make_portable(server, source, path) for name, server in settings.servers.items()}
    made = made_for(known, servers)
    facts: dict[str, Any] = {"client": client, "servers": made.servers, "notes": list(made.notes)}
    if path is not None:
        edit = edit_servers(path, made.servers, place=known.place)
        facts |= carry_out(edit, dry_run=dry_run, notes=made.notes)
    if state.json:
        show_json(facts)
        return
    if output is None:
        show_text(made.text)
    else:
        show_text(facts.get("diff") or f"wrote {count_noun(len(made.servers), 'server')} to {facts['file']}")
    tell_notes(facts)


def _make_portable(server: "ServerConfig", source: Path, output: Path | None) -> "ServerConfig":
    """Return a server with its working folder, if it needs one and the client would use another."""
    from toolcrib.crib.config.files import own_cwd  # noqa: PLC0415 - not needed to ask for help

    bare = own_cwd(server, source)
    is_beside = output is not None and own_cwd(server, output).cwd is None
    if bare.cwd is not None or is_beside or server.cwd is None:
        return bare
    words = [*server.args, *([server.command] if "/" in (server.command or "") else [])]
    is_relative = any(
        not Path(word).is_absolute() and Path(server.cwd, word).exists() for word in words if word
    )
    return server if is_relative else bare


@click.command(epilog=_CLIENTS)
@click.argument("client", type=OneOf(_client_names))
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Install it for the user, or for this project.",
)
@click.option("--name", default="toolcrib", show_default=True, help="The name in the client.")
@click.option("--replace", is_flag=True, help="Move the client's own servers behind the gateway.")
@click.option("--force", is_flag=True, help="Replace another server of that name.")
@click.option("--undo", "undoing", is_flag=True, help="Restore the servers from before the installation.")
@_DRY_RUN
@common
@click.pass_obj
def install(state: State, /, client: str, **options: Any) -> None:
    """Add toolcrib to an MCP client.

    The gateway serves the configuration in the current folder or, if there is none, the user's own; --config
    names another. With --replace, the user's servers move into the user's configuration, and a project's
    servers into that of the project's folder. The path of the configuration is written into the client's
    file, so that it does not depend on where the client starts the gateway. A backup of that file is kept in
    the state folder. Installing twice changes nothing.

    Examples:
      toolcrib install cursor --dry-run
      toolcrib install claude --scope project --replace
      toolcrib install cursor --undo
    """
    from toolcrib.setup.installing import install as plan  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.installing import undo  # noqa: PLC0415

    asked, known = _Asked(**options), _client(client)
    if asked.undoing:
        _show(state, client, carry_out(undo(known, scope=asked.scope), dry_run=asked.dry_run))
        return
    config = None if state.config is None else Path(state.config).expanduser().absolute()
    planned = plan(
        known, config, scope=asked.scope, name=asked.name, replace=asked.replace, force=asked.force
    )
    facts: dict[str, Any] = {"file": str(planned.edit.path), "changed": planned.changes}
    facts |= {"config": str(planned.config), **_served_facts(planned.served)}
    facts |= {"dryRun": asked.dry_run, "notes": list(planned.notes)}
    facts |= {} if planned.taken is None else {"moved": _merge_facts(planned.taken)}
    command = _same_client(client, asked)
    if planned.staying:
        facts["staying"] = list(planned.staying)
    if planned.staying and not asked.replace:
        count = count_noun(len(planned.staying), "server")
        facts["notes"].append(
            f"{client} still starts {count} itself; `{command} --replace` moves them behind toolcrib"
        )
    if asked.dry_run:
        edits = [*([planned.taken.edit] if planned.taken else []), planned.edit]
        facts["diff"] = "\n".join(edit.diff for edit in edits if edit.changes)
    else:
        facts["backups"] = [str(path) for path in planned.write()]
        if planned.edit.changes and planned.edit.before is not None:
            kept = facts["backups"][-1]  # the client's file is written last
            facts["notes"].append(f"the old file is kept as {kept}; `{command} --undo` restores its servers")
    _show(state, client, facts)


def _same_client(client: str, asked: _Asked) -> str:
    """Return the command that installs into the same file, to add an option to."""
    scope = "" if asked.scope == "user" else f" --scope {asked.scope}"
    name = "" if asked.name == "toolcrib" else f" --name {shlex.quote(asked.name)}"
    return f"{this_command()} install {client}{scope}{name}"


def _served_facts(settings: "Settings") -> dict[str, Any]:
    """Return the names of the servers and APIs that a gateway with these settings serves."""
    enabled = [name for name, server in settings.servers.items() if not server.disabled]
    disabled = [name for name, server in settings.servers.items() if server.disabled]
    return {"servers": enabled, "disabled": disabled, "apis": list(settings.openapi)}


def _print_served(facts: dict[str, Any]) -> None:
    """Print the configuration that is served, and the number of its servers."""
    counts = [count_noun(len(facts["servers"]), "server")]
    counts += [count_noun(len(facts["apis"]), "API")] if facts["apis"] else []
    off = f"; {', '.join(facts['disabled'])} disabled" if facts["disabled"] else ""
    text = clean(f"toolcrib serves {facts['config']}: {' and '.join(counts)}{off}")
    note(text) if facts["dryRun"] else click.echo(text)
    if not facts["servers"] and not facts["apis"]:
        note(f"`{this_command()} add` adds a server to it, and --config names another file")


def _print_moved(client: str, moved: dict[str, Any], config: str) -> None:
    """Print which servers of a client were written to the configuration, and which it had already."""
    written, there = ", ".join([*moved["added"], *moved["replaced"]]), ", ".join(moved["same"])
    if written or not there:
        click.echo(clean(f"moved {written or 'nothing'} into {config}"))
    if there:
        click.echo(clean(f"{there}: already in {config}; removed from {client}"))


def _show(state: State, client: str, facts: dict[str, Any]) -> None:
    facts = {"client": client, **facts}
    if state.json:
        show_json(facts)
        return
    if "diff" in facts:
        show_text(facts["diff"] or "nothing would change")
    elif facts["changed"]:
        if moved := facts.get("moved"):
            _print_moved(client, moved, facts["config"])
        click.echo(clean(f"changed {facts['file']}; restart {client} to use toolcrib"))
    else:
        click.echo(clean(f"{facts['file']} needs no change"))
    if "config" in facts:
        _print_served(facts)
    tell_notes(facts)
    if "moved" in facts:
        _print_problems(facts["moved"], Path(facts["config"]))
