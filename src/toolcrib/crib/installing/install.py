"""Hand our servers to other MCP clients: each by itself, or all of them behind one gateway."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.crib.config.files import load
from toolcrib.crib.config.places import HOME
from toolcrib.crib.editing.edit import backups, read_text
from toolcrib.crib.editing.servers import Edit, document_of, edit_servers, servers_in
from toolcrib.crib.editing.toml import set_toml
from toolcrib.crib.installing.clients import CLIENTS, Client, Scope, shape
from toolcrib.crib.installing.imports import ITSELF, Merge, is_toolcrib, merge, servers_of
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.mcp.config import ServerConfig

__all__ = ["CLIENTS", "Export", "Installation", "export", "gateway_server", "install", "undo"]


@dataclass(frozen=True, slots=True)
class Export:
    """Our servers in the shape of a client."""

    servers: dict[str, dict[str, Any]]
    text: str
    """What its file would say."""
    notes: tuple[str, ...] = ()
    """What it cannot have."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What making toolcrib a server of a client comes to; nothing is written yet."""

    edit: Edit
    """The change of the client's file."""
    config: Path
    """The configuration that the gateway reads."""
    taken: Merge | None = None
    """The servers that move behind the gateway, where that is wanted."""
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.edit.changes or (self.taken is not None and self.taken.edit.changes)

    def write(self) -> tuple[Path, ...]:
        """Write the files, ours first so that no server is ever in none, and return the backups.

        Raises:
            ConfigError: one cannot be written.
        """
        edits = [*([self.taken.edit] if self.taken else []), self.edit]
        return tuple(backup for edit in edits if (backup := edit.write()) is not None)


def export(client: Client, servers: Mapping[str, ServerConfig]) -> Export:
    """Return servers in the shape of a client; toolcrib itself is left out."""
    shaped: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for name, server in servers.items():
        if is_toolcrib(server):
            continue
        entry, said = shape(client, server)
        notes += [f"{name!r}: {each}" for each in said]
        if entry is not None:
            shaped[name] = entry
    return Export(shaped, _text(client, shaped), tuple(notes))


def install(
    client: Client,
    config: Path | None,
    *,
    scope: Scope = "user",
    folder: Path | None = None,
    name: str = "toolcrib",
    replace: bool = False,
) -> Installation:
    """Return what makes toolcrib a server of a client.

    Args:
        client: who gets it.
        config: the configuration that the gateway reads; None where there is none, which `replace` may make
            as `toolcrib.toml` in the folder.
        scope: whether it is for the user, or for the project in the folder.
        folder: the project; None for the current folder.
        name: what the client calls it.
        replace: whether the client's own servers move behind the gateway.

    Raises:
        ConfigError: a file is broken or cannot be edited safely; or there is nothing to serve.
    """
    folder = Path.cwd() if folder is None else folder
    path = client.file(scope, folder=folder)
    config = _served(config, path, folder, replace=replace)
    entry, notes = shape(client, gateway_server(config, scope))
    changes: dict[str, Mapping[str, Any] | None] = {name: entry}
    taken = None
    if replace:
        found = servers_of(client, folder, only=path)
        taken = merge(config, {each: server for each, server in found.servers.items() if each != name})
        kept = {*taken.conflicts}
        changes |= {raw: None for each, raw in found.names.items() if each not in kept and raw != name}
        told = [f"{each!r} stays: ours of that name is another server" for each in taken.conflicts]
        notes = (*notes, *(each for each in found.notes if not each.endswith(ITSELF)), *told)
    elif any(is_toolcrib(server) for server in load(config).servers.values()):
        reason = "it has toolcrib itself as a server, which would serve itself; remove that first"
        raise ConfigError(str(config), (Problem("", "install", reason),))
    return Installation(edit_servers(path, changes, place=client.place), config, taken, notes)


def _served(config: Path | None, path: Path, folder: Path, *, replace: bool) -> Path:
    """Return the configuration that the gateway is to read."""
    if config is not None and not _is_same(config, path):
        return config
    if replace:
        return folder / "toolcrib.toml"
    reason = (
        "there is no configuration to serve; make one with `toolcrib add`, or use --replace"
        if config is None
        else "it is the client's own file, and the gateway would serve itself; --replace moves its servers "
        "into toolcrib.toml"
    )
    raise ConfigError(str(config or path), (Problem("", "install", reason),))


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def gateway_server(config: Path, scope: Scope = "user") -> ServerConfig:
    """Return how a client starts toolcrib's gateway.

    For a user it is named by its full path, because programs with windows have another PATH; in a project,
    which others share, by its name where that is found.
    """
    found = shutil.which("toolcrib")
    words = [sys.executable, "-m", "toolcrib.cli"] if found is None else [found]
    if found is not None and scope == "project":
        words = ["toolcrib"]
    home = os.environ.get(HOME)
    args = [*words[1:], "serve", "--config", str(config.absolute())]
    return ServerConfig(command=words[0], args=tuple(args), env={HOME: home} if home else {})


def undo(client: Client, *, scope: Scope = "user", folder: Path | None = None) -> Edit:
    """Return the change that gives a client the servers of its last backup; all else in its file stays.

    Undoing twice gives the first state, because what is undone is kept as a backup too.

    Raises:
        ConfigError: there is no backup, or the file cannot be edited safely.
    """
    path = client.file(scope, folder=folder)
    current = servers_in(document_of(path, read_text(path)), client.place)
    for backup in reversed(backups(path.resolve())):
        before = servers_in(document_of(path, read_text(backup)), client.place)
        if before != current:
            changes: dict[str, Mapping[str, Any] | None] = dict.fromkeys(current.keys() - before.keys())
            changes |= {name: server for name, server in before.items() if current.get(name) != server}
            return edit_servers(path, changes, place=client.place)
    problem = Problem("", "backup", "there is no backup with other servers than it has; nothing to undo")
    raise ConfigError(str(path), (problem,))


def _text(client: Client, servers: Mapping[str, Mapping[str, Any]]) -> str:
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
