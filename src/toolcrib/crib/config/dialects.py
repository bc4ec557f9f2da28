"""Reads the formats in which MCP clients write their servers."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from toolcrib.crib.config.sections import (
    INHERIT,
    OURS,
    SERVER_KEYS,
    THEIRS,
    at,
    is_server,
    places_in,
    plain_server,
    split_inherit,
)
from toolcrib.crib.config.settings import Settings
from toolcrib.errors import Problem
from toolcrib.model.suggest import did_you_mean

_LOG = logging.getLogger("toolcrib.crib")
_EDITOR_FOLDERS = frozenset({".vscode", ".cursor", ".gemini", ".roo"})
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_FOLDER = re.compile(r"(?<!\$)\$\{(workspaceFolder|userHome)\}")
_MAX_DEPTH = 100
_MAX_LOOKED_AT = 200
"""Limit for unknown keys for which the nearest known one is searched."""
_NONE = "mcpServers"
_MISSING = "there are no servers in it; they belong under 'mcpServers'"


@dataclass(slots=True)
class RawConfig:
    """The content of a configuration before validation."""

    settings: dict[str, Any] = field(default_factory=dict)
    servers: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """The place of each server in the file, as a JSON Pointer."""
    ours: frozenset[str] = frozenset()
    """The settings that stand under `toolcrib`."""
    beside: str | None = None
    """The section of servers beside which `inherit` stands, as a JSON Pointer."""

    def add(self, name: str, server: Any, place: str) -> None:
        """Add a server, unless there is one of that name already."""
        if name in self.servers:
            taken = f"{self.places[name]} has the name {name!r} already; rename one of them"
            self.problems.append(Problem(place, "name", taken))
        else:
            self.servers[name] = server
            self.places[name] = place

    def take_inherit(self, tables: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return the servers of a section of ours, and store the variables that all of them inherit."""
        servers, inherit = split_inherit(tables)
        if inherit is not None and (INHERIT in self.settings or self.beside is not None):
            self.problems.append(Problem(f"{place}/{INHERIT}", "extra_forbidden", "appears twice; keep one"))
        elif inherit is not None:
            self.settings[INHERIT], self.beside = inherit, place
        return servers

    def placed(self, problem: Problem) -> Problem:
        """Return a problem with its place in the file instead of that in the settings."""
        head, _, rest = problem.path.removeprefix("/servers/").partition("/")
        if problem.path.startswith("/servers/") and head in self.places:
            path = f"{self.places[head]}/{rest}" if rest else self.places[head]
        elif self.beside is not None and _first_part(problem.path) == INHERIT:
            path = f"{self.beside}{problem.path}"
        else:
            path = f"/{OURS}{problem.path}" if _first_part(problem.path) in self.ours else problem.path
        return Problem(path, problem.keyword, problem.message)


def read_client(document: Mapping[str, Any], folder: Path) -> RawConfig:
    """Return the parts of a client's file; settings of ours stand under `toolcrib`."""
    parts = _read_servers(document, {OURS})
    _make_plain(parts, folder)
    _add_ours(parts, document)
    return parts


def read_python(document: Mapping[str, Any]) -> RawConfig:
    """Return the parts of a mapping given by a program: servers as in a client's file, settings beside."""
    aliases = {field.alias or name for name, field in Settings.model_fields.items()}
    known = aliases.union(Settings.model_fields) - {"servers"}
    ours = RawConfig(settings={key: value for key, value in document.items() if key in known})
    if isinstance(section := document.get("servers"), Mapping):
        document = {**document, "servers": ours.take_inherit(section, "/servers")}
    parts = _read_servers(document, {*known, OURS})
    _make_plain(parts, None)
    parts.settings, parts.beside = ours.settings, ours.beside
    parts.problems += ours.problems
    if misspelt := list(
        _find_misspelt(islice(parts.others, _MAX_LOOKED_AT), [*known, "mcpServers", "servers"])
    ):
        others = [problem for problem in parts.problems if problem.keyword != _NONE]
        parts.problems = [*others, *misspelt]
    _add_ours(parts, document)
    return parts


def _find_misspelt(written: Iterable[str], known: list[str]) -> Iterator[Problem]:
    """Yield the keys that are nearly one that is known."""
    for key in written:
        if hint := did_you_mean(key, known):
            yield Problem(f"/{key}", "extra_forbidden", f"is not a setting{hint}")


def _add_ours(parts: RawConfig, document: Mapping[str, Any]) -> None:
    ours = document.get(OURS, {})
    if not isinstance(ours, Mapping):
        parts.problems.append(Problem(f"/{OURS}", "type", "must be an object"))
    elif "servers" in ours:
        message = "must be under 'mcpServers'"
        parts.problems.append(Problem(f"/{OURS}/servers", "extra_forbidden", message))
    elif odd := [key for key in ours if not isinstance(key, str)]:
        message = f"has a key that is a Python {type(odd[0]).__name__}, and not a string"
        parts.problems.append(Problem(f"/{OURS}", "type", message))
    else:
        parts.settings |= ours
        parts.ours = frozenset(ours)


def _first_part(path: str) -> str:
    """Return the first part of a JSON Pointer."""
    return path.removeprefix("/").partition("/")[0]


def _read_servers(document: Mapping[str, Any], known: set[str]) -> RawConfig:
    """Read the servers of a document from all known places, and the rest of it."""
    parts = RawConfig()
    found = [place for place in places_in(document) if place]
    rest = {key: value for key, value in document.items() if key not in known}
    for place in found:
        pointer = "".join(f"/{key}" for key in place)
        for name, server in named_servers(at(document, place), pointer, parts.problems):
            parts.add(namespace_for(name), server, f"{pointer}/{name}")
    if found:
        taken = {place[0] for place in found}
        parts.others = {str(key): value for key, value in rest.items() if key not in taken}
    elif rest and all(is_server(value) for value in rest.values()):
        for name, server in rest.items():
            parts.add(namespace_for(name), server, f"/{name}")
    else:
        if rest and not known.intersection(document):
            parts.problems.append(Problem("", _NONE, _MISSING))
        parts.others = {str(key): value for key, value in rest.items()}
    return parts


def namespace_for(written: Any) -> str:
    """Return the name that the ids of tools carry, of a server that a client's file may call anything.

    >>> namespace_for("My Server"), namespace_for("a-")
    ('My-Server', 'a')
    """
    return _FOREIGN.sub("-", str(written)).strip("-") or "server"


def named_servers(servers: Any, pointer: str, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """Yield servers with their names, from an object or from a list of objects that say theirs."""
    if isinstance(servers, Mapping):
        yield from ((str(name), server) for name, server in servers.items())
    elif isinstance(servers, list) and all(isinstance(one, Mapping) and "name" in one for one in servers):
        yield from ((str(one["name"]), {key: one[key] for key in one if key != "name"}) for one in servers)
    else:
        problems.append(Problem(pointer, "type", "must be an object of servers by name"))


def _make_plain(parts: RawConfig, folder: Path | None) -> None:
    """Convert every server to the common format, and expand the folder variables of editors."""
    looked_at = 0
    for name, server in parts.servers.items():
        try:
            made = parts.servers[name] = plain_server(_expand_folders(server, folder))
            foreign = _unknown_keys(made)[: _MAX_LOOKED_AT - looked_at]
            looked_at += len(foreign)
            for problem in _find_misspelt(foreign, list(SERVER_KEYS)):
                if is_server(made):  # it works, perhaps with a key of a client that we do not know
                    _LOG.warning("server %r: %r %s", name, problem.path[1:], problem.message)
                else:
                    path = f"{parts.places[name]}{problem.path}"
                    parts.problems.append(Problem(path, problem.keyword, problem.message))
        except RecursionError:
            message = f"is nested deeper than {_MAX_DEPTH} levels, or contains itself"
            parts.problems.append(Problem(parts.places[name], "depth", message))
            parts.servers[name] = {"command": name}  # other problems are reported too


def _unknown_keys(server: Any) -> list[str]:
    """Return the keys of a server that neither we nor the clients that we know have."""
    keys = {str(key) for key in server} if isinstance(server, Mapping) else set()
    return sorted(keys - SERVER_KEYS - THEIRS)


def _expand_folders(value: Any, folder: Path | None, depth: int = 0) -> Any:
    """Return a server with the folder variables of editors expanded."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, str):
        return _FOLDER.sub(lambda found: _expand_folder(found, folder), value)
    if isinstance(value, Mapping):
        return {key: _expand_folders(member, folder, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_expand_folders(member, folder, depth + 1) for member in value]
    return value


def project_folder(folder: Path) -> Path:
    """Return the folder of the project that a file in some folder is for, such as `.vscode`."""
    return folder.parent if folder.name in _EDITOR_FOLDERS else folder


def _expand_folder(found: re.Match[str], folder: Path | None) -> str:
    """Return the folder of a variable; if there is none, the variable, so that the start reports it.

    A file of the user's, such as `~/.cursor/mcp.json`, is for no project: there the home is none.
    """
    try:
        home = Path.home()
        if found[1] == "userHome":
            return str(home)
        project = project_folder(Path.cwd() if folder is None else folder)
    except (OSError, RuntimeError):
        return found[0]
    return found[0] if project == home else str(project)
