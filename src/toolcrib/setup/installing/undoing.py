"""Give a client the servers back that it had before toolcrib came."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.crib.config.places import anchored
from toolcrib.crib.config.reading import read_text
from toolcrib.crib.config.sections import servers_in
from toolcrib.errors import ConfigError, Problem
from toolcrib.setup.editing.edit import backups
from toolcrib.setup.editing.servers import Edit, document_of, edit_servers, edit_text
from toolcrib.setup.installing.clients import Client, Scope
from toolcrib.setup.installing.imports import servers_of

__all__ = ["undo"]


def undo(client: Client, *, scope: Scope = "user", folder: Path | None = None) -> Edit:
    """Return the change that gives a client the servers that it had before the last change of them.

    They are those of its newest backup (`FILE.bak`, then `FILE.bak.1` and so on) with other servers than it
    has; all else in its file stays, and where nothing else has changed, the file is what it was to the byte.
    Where there is no such backup, toolcrib is taken out. Undoing twice is doing it again, because what is
    undone is kept as a backup too.

    Raises:
        ConfigError: there is nothing to undo, or the file cannot be edited safely.
    """
    folder = anchored("." if folder is None else folder, "folder")
    path = client.file(scope, folder=folder)
    text = read_text(path)
    current = servers_in(document_of(path, text), client.place)
    notes: list[str] = []
    for backup in reversed(backups(path.resolve())):
        try:
            kept = read_text(backup) or ""
            before = servers_in(document_of(path, kept), client.place)
        except ConfigError as error:
            notes.append(f"{backup} is passed over: {'; '.join(map(str, error.problems))}")
            continue
        if before != current:
            edit = edit_servers(path, _towards(current, before), place=client.place)
            if _only_differ_in_servers(client, path, text or "", kept):
                edit = replace(edit, after=kept)
            return replace(edit, notes=(*edit.notes, *notes))
    itself = servers_of(client, folder, only=path).itself
    if itself:
        return replace(edit_servers(path, dict.fromkeys(itself), place=client.place), notes=tuple(notes))
    said = "; ".join(["there is no backup with other servers than it has; nothing to undo", *notes])
    raise ConfigError(str(path), (Problem("", "backup", said),))


def _towards(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make one set of servers another."""
    changes = {name: server for name, server in wanted.items() if current.get(name) != server}
    return changes | dict.fromkeys(current.keys() - wanted.keys())


def _only_differ_in_servers(client: Client, path: Path, one: str, other: str) -> bool:
    """Return whether one of two texts is the other but for a change of its servers that we have made."""
    for before, after in ((other, one), (one, other)):
        old, wanted = (servers_in(document_of(path, text), client.place) for text in (before, after))
        try:
            made, _ = edit_text(path, before, _towards(old, wanted), client.place)
        except ConfigError:
            continue
        if made == after:
            return True
    return False
