"""Hand our servers to other MCP clients: each by itself, or all of them behind one gateway."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolcrib.crib.config.files import load, load_text
from toolcrib.crib.config.reading import read_text
from toolcrib.crib.config.sections import servers_in
from toolcrib.crib.config.settings import Settings
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.paths import HOME, absolute_path, find_config, project_config, user_config
from toolcrib.setup.editing.edit import Edit, backups
from toolcrib.setup.editing.servers import document_of, edit_servers, edit_text
from toolcrib.setup.editing.toml import set_toml
from toolcrib.setup.installing.clients import ITSELF, Client, Scope, is_toolcrib, shape
from toolcrib.setup.installing.imports import (
    Found,
    Merge,
    lost_note,
    merge,
    rename_note,
    renamed,
    servers_of,
    toolcrib_names,
)


@dataclass(frozen=True, slots=True)
class Export:
    """Our servers in the format of a client."""

    servers: dict[str, dict[str, Any]]
    """The servers by name, as the client writes them."""
    text: str
    """The new text of its file."""
    notes: tuple[str, ...] = ()
    """The settings that the client does not support."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The changes that make toolcrib a server of a client; nothing is written yet."""

    edit: Edit
    """The change to the client's file."""
    config: Path
    """The configuration that the gateway reads."""
    served: Settings
    """The configuration after the change."""
    taken: Merge | None = None
    """The servers that move behind the gateway, if that was requested."""
    staying: tuple[str, ...] = ()
    """The other servers that the client still starts itself, by the names that it has for them."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""

    @property
    def changes(self) -> bool:
        """Whether there is a change to write."""
        return self.edit.changes or (self.taken is not None and self.taken.edit.changes)

    def write(self) -> tuple[Path, ...]:
        """Write the files, toolcrib's first so that no server is ever in neither, and return the backups.

        Raises:
            ConfigError: one cannot be written.
        """
        edits = [*([self.taken.edit] if self.taken else []), self.edit]
        return tuple(backup for edit in edits if (backup := edit.write()) is not None)


def export(client: Client, servers: Mapping[str, ServerConfig]) -> Export:
    """Return servers in the format of a client; toolcrib itself is left out."""
    shaped: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for name, server in servers.items():
        if is_toolcrib(server):
            continue
        entry, note = shape(client, server)
        notes += [f"{name!r}: {each}" for each in note]
        if entry is not None:
            shaped[name] = entry
    return Export(shaped, _render(client, shaped), tuple(notes))


def install(  # noqa: PLR0913 - options, by name
    client: Client,
    config: Path | None = None,
    *,
    scope: Scope = "user",
    folder: Path | None = None,
    name: str = "toolcrib",
    replace: bool = False,
    force: bool = False,
) -> Installation:
    """Return the changes that make toolcrib a server of a client.

    Args:
        client: the client.
        config: the configuration that the gateway reads. None takes the one of the folder, else the user's
            own. With `replace` it is the user's own, or for a project the one in its folder, and is created
            if there is none.
        scope: whether it is for the user, or for the project in the folder.
        folder: the project; None for the current folder.
        name: the name of toolcrib in the client.
        replace: whether the client's own servers move behind the gateway.
        force: whether another server of that name is overwritten.

    Raises:
        ConfigError: a file is broken or cannot be edited safely; or there is nothing to serve; or the client
            has another server of that name.
    """
    folder = absolute_path("." if folder is None else folder, "folder")
    path = client.file(scope, folder=folder)
    config = _find_served_config(client, config, scope, folder, replace=replace)
    port = _check_port(config)
    entry, notes = shape(client, gateway_server(config, scope, folder))
    found = servers_of(client, folder, only=path, port=port)
    moving = _plan_moving(config, found) if replace else _Moving()
    known = servers_in(document_of(path, read_text(path)), client.place)
    if name in known.keys() - {*moving.leaving, *found.itself} and not force:
        raise ConfigError(str(path), (Problem("", "name", _name_taken(name)),))
    changes: dict[str, Mapping[str, Any] | None] = {name: entry}
    changes |= {raw: None for raw in moving.leaving if raw != name}
    edit = edit_servers(path, changes, place=client.place)
    all_notes = (*moving.notes, *_shared_notes(config, scope, folder), *edit.notes)
    after = moving.taken.edit.after if moving.taken else read_text(config)
    staying = (raw for each, raw in found.names.items() if not found.servers[each].disabled)
    return Installation(
        edit,
        config,
        load_text(config, after or ""),
        moving.taken,
        tuple(raw for raw in staying if raw not in {name, *moving.leaving}),
        (*notes, *all_notes),
    )


def _check_port(config: Path) -> int:
    """Return the port of the gateway; refuse a configuration that would serve itself."""
    settings = load(config) if config.is_file() else Settings()
    if any(is_toolcrib(server, settings.gateway.port) for server in settings.servers.values()):
        reason = "it has toolcrib itself as a server, which would serve itself; remove that first"
        raise ConfigError(str(config), (Problem("", "install", reason),))
    return settings.gateway.port


@dataclass(frozen=True, slots=True)
class _Moving:
    """The servers of a client that move behind the gateway."""

    taken: Merge | None = None
    leaving: tuple[str, ...] = ()
    """Their names in the client's file."""
    notes: tuple[str, ...] = ()


def _plan_moving(config: Path, found: Found) -> _Moving:
    stays = _find_staying(found)
    taken = merge(config, {each: server for each, server in found.servers.items() if each not in stays})
    stays |= dict.fromkeys(taken.conflicts, "our configuration has another server of that name")
    leaving = tuple(raw for each, raw in found.names.items() if each not in stays)
    unmentioned = {lost_note(each, keys) for each, keys in found.lossy.items()}
    shown = (each for each in found.notes if not each.endswith(ITSELF) and each not in unmentioned)
    left = (f"{each!r} stays: {why}" for each, why in stays.items())
    other_names = (rename_note(raw, each) for raw, each in renamed(found, taken.servers).items())
    return _Moving(taken, leaving, (*shown, *left, *other_names, *taken.edit.notes))


def _find_staying(found: Found) -> dict[str, str]:
    """Return the servers that would be others behind the gateway, and why."""
    return {
        name: f"behind the gateway it would lose {', '.join(map(repr, keys))}"
        for name, keys in found.lossy.items()
    }


def _name_taken(name: str) -> str:
    return (
        f"there is another server {name!r}; --name gives ours another name, --replace moves that one behind "
        "the gateway where it can be moved, --force overwrites it"
    )


def _find_served_config(
    client: Client, config: Path | None, scope: Scope, folder: Path, *, replace: bool
) -> Path:
    """Return the configuration that the gateway is to read."""
    if config is not None:
        meant = config
    elif replace:
        meant = _find_receiving_config(scope, folder)
    else:
        meant = find_config(folder) or _default_config(scope, folder)
    is_theirs = meant.resolve() == client.file(scope, folder=folder).resolve()
    if replace:
        return _default_config(scope, folder) if is_theirs else meant
    if meant.exists() and not is_theirs:
        return meant
    reason = (
        "it is the client's own file, and the gateway would serve itself; --replace moves its servers out"
        if meant.exists()
        else "there is no configuration to serve; make one with `toolcrib add` or --replace, or name one "
        "with --config"
    )
    raise ConfigError(str(meant), (Problem("", "install", reason),))


def _find_receiving_config(scope: Scope, folder: Path) -> Path:
    """Return the configuration that the servers of a client move into where none is named.

    A user's stay out of a project, which others may share, and a project's stay in it.
    """
    return user_config() if scope == "user" else project_config(folder) or _default_config(scope, folder)


def _default_config(scope: Scope, folder: Path) -> Path:
    """Return the configuration that is made where there is none but the client's file."""
    return user_config() if scope == "user" else folder / "toolcrib.toml"


def gateway_server(config: Path, scope: Scope = "user", folder: Path | None = None) -> ServerConfig:
    """Return the server entry with which a client starts toolcrib's gateway.

    For a user it is named by its full path, because programs with windows have another PATH. In a project,
    which others share, nothing names this machine: the program by its name, the configuration from the
    folder of the project.
    """
    if scope == "project":
        return ServerConfig(command="toolcrib", args=("serve", "--config", _relative_path(folder, config)))
    found = shutil.which("toolcrib")
    words = [sys.executable, "-m", "toolcrib.cli"] if found is None else [found]
    home = os.environ.get(HOME)
    args = [*words[1:], "serve", "--config", str(config.absolute())]
    return ServerConfig(command=words[0], args=tuple(args), env={HOME: home} if home else {})


def _relative_path(folder: Path | None, config: Path) -> str:
    """Return the path of a configuration as others can use it too: from the folder, where it is in that."""
    base, path = (Path.cwd() if folder is None else folder).absolute(), config.absolute()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)


def _shared_notes(config: Path, scope: Scope, folder: Path) -> Iterator[str]:
    """Yield notes about files that other users of a project's file do not have."""
    if scope != "project":
        return
    if Path(_relative_path(folder, config)).is_absolute():
        yield f"{config} is not in the project: others who share its file do not have it"
    if shutil.which("toolcrib") is None:
        yield "there is no `toolcrib` on the PATH, with which the project's file starts it; install it there"


def _render(client: Client, servers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return servers as the text of a client's file."""
    if client.name == "codex":
        text = ""
        for name, server in servers.items():
            text = set_toml(text, (*client.place, name), dict(server))
        return text
    document: Any = dict(servers)
    for key in reversed(client.place):
        document = {key: document}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def undo(client: Client, *, scope: Scope = "user", folder: Path | None = None) -> Edit:
    """Return the change that gives a client the servers that it had before toolcrib was installed.

    If it has toolcrib, they come from its newest backup without toolcrib, or are those that a later step,
    such as `install --replace`, removed from it; without such a backup, only toolcrib is removed. If it does
    not have toolcrib, they come from its newest backup with different servers: undoing twice restores the
    installation, because the undone state is backed up too. The rest of its file stays, and if nothing else
    has changed, the file is restored byte for byte.

    Raises:
        ConfigError: there is nothing to undo, or the file cannot be edited safely.
    """
    folder = absolute_path("." if folder is None else folder, "folder")
    path = client.file(scope, folder=folder)
    text = read_text(path)
    notes: list[str] = []
    earlier: dict[str, dict[str, Any]] = {}
    for backup in reversed(backups(path.resolve())):
        try:
            kept = read_text(backup) or ""
            earlier.setdefault(kept, document_of(path, kept))
        except ConfigError as error:
            notes.append(f"{backup} is skipped: {'; '.join(map(str, error.problems))}")
    document = document_of(path, text)
    current = servers_in(document, client.place)
    wanted = _find_servers_before(client, path, document, earlier.values())
    if wanted is None:
        message = "; ".join(["there is no backup whose servers differ; nothing to undo", *notes])
        raise ConfigError(str(path), (Problem("", "backup", message),))
    edit = edit_servers(path, _diff_servers(current, wanted), place=client.place)
    for kept, before in earlier.items():
        is_same = servers_in(before, client.place) == wanted
        if is_same and _only_differ_in_servers(client, path, text or "", kept):
            edit = replace(edit, after=kept)
            break
    return replace(edit, notes=(*edit.notes, *notes))


def _find_servers_before(
    client: Client, path: Path, document: Mapping[str, Any], earlier: Iterable[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the servers before toolcrib was installed; None if nothing tells them.

    Args:
        client: the client.
        path: its file.
        document: the content of the file.
        earlier: the contents of its backups, the newest first.
    """
    current, own = _split_servers(client, path, document)
    for each in earlier:
        others, own_before = _split_servers(client, path, each)
        if own and not own_before:
            return others
        if others != current or (not own and own_before):
            return others if own else others | own_before
    return current if own else None


def _split_servers(
    client: Client, path: Path, document: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the servers of a client other than toolcrib, and toolcrib under its names."""
    known, own = servers_in(document, client.place), toolcrib_names(client, path, document)
    return (
        {name: server for name, server in known.items() if name not in own},
        {name: server for name, server in known.items() if name in own},
    )


def _diff_servers(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make one set of servers another."""
    changes = {name: server for name, server in wanted.items() if current.get(name) != server}
    return changes | dict.fromkeys(current.keys() - wanted.keys())


def _only_differ_in_servers(client: Client, path: Path, one: str, other: str) -> bool:
    """Return whether one of two texts is the other but for a change of its servers that we have made."""
    for before, after in ((other, one), (one, other)):
        old, wanted = (servers_in(document_of(path, text), client.place) for text in (before, after))
        try:
            made, _ = edit_text(path, before, _diff_servers(old, wanted), client.place)
        except ConfigError:
            continue
        if made == after:
            return True
    return False
