"""Read the servers of other MCP clients, and take them over into a configuration of ours."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from toolcrib.crib.config.dialects import read_client
from toolcrib.crib.config.files import load
from toolcrib.crib.editing.edit import read_text
from toolcrib.crib.editing.servers import (
    Edit,
    Place,
    document_of,
    edit_servers,
    loads,
    own_entry,
    section_of,
    servers_in,
)
from toolcrib.crib.installing.clients import CLIENTS, Client
from toolcrib.errors import ConfigError, ToolcribError
from toolcrib.execution.mcp.config import ServerConfig

__all__ = ["ITSELF", "Found", "Merge", "is_toolcrib", "merge", "read_servers", "servers_of", "written"]

ITSELF = "it is toolcrib itself"
"""Why one server is never taken over."""
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_BARE_VARIABLE = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_OURS = re.compile(r"toolcrib(?:\.cli)?(?:\.exe)?(?:\[[\w,]*\])?(?:[=@<>~!].*)?", re.IGNORECASE)
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_KEPT = ("timeout", "start_timeout", "idle_timeout", "max_concurrency")
_GATEWAY_PORT = 8808


@dataclass(slots=True)
class Found:
    """The servers of another client, and what was to be said about them."""

    files: list[Path] = field(default_factory=list)
    servers: dict[str, ServerConfig] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Under which names the client has them."""
    notes: list[str] = field(default_factory=list)

    def update(self, other: "Found") -> None:
        """Add what another file says; what is known already stays."""
        self.files += other.files
        self.notes += other.notes
        self.servers = {**other.servers, **self.servers}
        self.names = {**other.names, **self.names}


@dataclass(frozen=True, slots=True)
class Merge:
    """What taking over servers comes to."""

    edit: Edit
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    """Those that were there already."""
    conflicts: tuple[str, ...] = ()
    """Those whose names stand for something else in our configuration, which stays as it is."""


def servers_of(
    client: Client, folder: Path, *, environ: Mapping[str, str] | None = None, only: Path | None = None
) -> Found:
    """Return the servers that a client has, in a project and for the user; those of the project win.

    `only` names the one file that is looked at.

    Raises:
        ConfigError: a file is broken.
    """
    found = Found()
    project = [client.file("project", folder=folder)] if client.project else []
    user = client.file(environ=environ) if only is None else only
    for path in [user] if only is None and client.name == "claude" else ():
        # What one person has in one project alone stands apart there, and wins.
        local = _inside(_read_document(path), ("projects", str(folder)))
        found.update(_read(path, servers_in(local, client.place), client))
    for path in [*project, user] if only is None else [only]:
        found.update(_read(path, servers_in(_read_document(path), client.place), client))
    found.files = [path for path in dict.fromkeys(found.files) if path.is_file()]
    return found


def _read_document(path: Path) -> dict[str, Any]:
    return document_of(path, read_text(path))


def read_servers(path: Path) -> Found:
    """Return the servers in the file of any client, ours or not.

    Raises:
        ConfigError: it is not there, is broken, or no file of a client.
    """
    if not path.exists():
        load(path)  # says why it cannot be read
    document = _read_document(path)
    codex = CLIENTS["codex"]
    if path.suffix == ".toml" and codex.place[0] not in document:
        return Found([path], dict(load(path).servers))
    if path.suffix == ".toml":
        return _read(path, servers_in(document, codex.place), codex)
    place = section_of(path, document)
    client = CLIENTS["gemini"] if ".gemini" in path.parts else None
    return _read(path, servers_in(document, place), client)


def merge(path: Path, servers: Mapping[str, ServerConfig], *, force: bool = False) -> Merge:
    """Return the change that puts servers into a configuration of ours.

    Raises:
        ConfigError: our file is broken, or cannot be edited safely.
    """
    known = load(path).servers if path.is_file() else {}
    same = {name for name in servers.keys() & known.keys() if written(known[name]) == written(servers[name])}
    differ = servers.keys() & known.keys() - same
    taken = [name for name in servers if name not in same and (force or name not in differ)]
    changes = {name: own_entry(path, written(servers[name])) for name in taken}
    edit = edit_servers(path, changes, check=loads)
    return Merge(
        edit,
        added=tuple(name for name in taken if name not in differ),
        replaced=tuple(name for name in taken if name in differ),
        same=tuple(sorted(same)),
        conflicts=() if force else tuple(sorted(differ)),
    )


def written(server: ServerConfig) -> dict[str, Any]:
    """Return a server as our own file has it: what differs from what is usual.

    >>> written(ServerConfig(url="https://example.com/sse", transport="sse", timeout=5))
    {'url': 'https://example.com/sse', 'transport': 'sse', 'timeout': 5.0}
    """
    entry: dict[str, Any] = {"url": server.url} if server.url else {"command": server.command}
    if server.url is None and server.args:
        entry["args"] = list(server.args)
    if server.transport == "sse":
        entry["transport"] = "sse"
    told: dict[str, Any] = {"env": dict(server.env), "headers": dict(server.headers), "cwd": server.cwd}
    told |= {"required": server.required, "disabled": server.disabled}
    entry |= {key: value for key, value in told.items() if value}
    usual = ServerConfig.model_fields
    for name in _KEPT:
        value = getattr(server, name)
        if value is not None and value != usual[name].default:
            entry[name] = value
    return entry


def is_toolcrib(server: ServerConfig, port: int = _GATEWAY_PORT) -> bool:
    """Return whether a server is toolcrib itself, however it is started or reached.

    >>> is_toolcrib(ServerConfig(command="uvx", args=["toolcrib[cli]", "serve"]))
    True
    """
    if server.url is not None:
        try:
            parts = urlsplit(server.url)
            return parts.hostname in _LOCAL and parts.port == port and parts.path.startswith("/mcp")
        except ValueError:
            return False
    words = [server.command or "", *server.args]
    named = any(_OURS.fullmatch(PurePath(word.replace("\\", "/")).name) for word in words)
    return named and "serve" in words


def _inside(document: Any, place: Place) -> dict[str, Any]:
    for key in place:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _read(path: Path, section: Mapping[str, Any], client: Client | None) -> Found:
    """Return the servers of one section of a file; those that are broken are left out, and told."""
    found = Found([path])
    name_of = client.name if client else ""
    plain = {name: _DIALECTS.get(name_of, _as_it_is)(each) for name, each in section.items()}
    asked: set[str] = set()
    parts = read_client({"mcpServers": _without_inputs(plain, asked)}, path.parent)
    found.notes += [f"{path}: {problem}" for problem in parts.problems]
    for name, entry in parts.servers.items():
        try:
            server = ServerConfig(**entry)
        except (ToolcribError, TypeError) as error:
            said = "; ".join(map(str, error.problems)) if isinstance(error, ConfigError) else error
            found.notes.append(f"{name!r} is left out: {said}")
            continue
        if is_toolcrib(server):
            found.notes.append(f"{name!r} is left out: {ITSELF}")
            continue
        found.servers[name] = _settled(server, path)
        found.names[name] = parts.places[name].removeprefix("/mcpServers/")
    if asked:
        found.notes.append(f"the client asks for what you must set as variables: {', '.join(sorted(asked))}")
    return found


def _settled(server: ServerConfig, path: Path) -> ServerConfig:
    """Return a server that means the same in another file."""
    if not server.cwd or server.cwd.startswith("${"):
        return server
    return server.replace(cwd=str(path.parent / Path(server.cwd).expanduser()))


def _without_inputs(value: Any, asked: set[str]) -> Any:
    """Return a value in which what an editor would ask for is a variable."""
    if isinstance(value, str):
        return _INPUT.sub(lambda found: f"${{{_variable(found[1], asked)}}}", value)
    if isinstance(value, Mapping):
        return {key: _without_inputs(member, asked) for key, member in value.items()}
    return [_without_inputs(member, asked) for member in value] if isinstance(value, list) else value


def _variable(name: str, asked: set[str]) -> str:
    made = _WORDS.sub("_", name).strip("_").upper() or "INPUT"
    made = f"_{made}" if made[0].isdigit() else made
    asked.add(made)
    return made


def _codex(entry: Any) -> Any:
    """Return a server of Codex as most clients write it."""
    if not isinstance(entry, dict):
        return entry
    made = dict(entry)
    env = {name: f"${{{name}}}" for name in made.pop("env_vars", ()) if isinstance(name, str)}
    headers = dict(made.pop("http_headers", {}))
    headers |= {name: f"${{{variable}}}" for name, variable in made.pop("env_http_headers", {}).items()}
    if token := made.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    made |= {"env": {**made.get("env", {}), **env}, "headers": headers}
    for theirs, ours in (("startup_timeout_sec", "start_timeout"), ("tool_timeout_sec", "timeout")):
        if theirs in made:
            made[ours] = made.pop(theirs)
    return {key: value for key, value in made.items() if value not in ({}, None)}


def _gemini(entry: Any) -> Any:
    """Return a server of Gemini CLI as most clients write it: `url` is `sse`, times are in milliseconds."""
    if not isinstance(entry, dict):
        return entry
    made = dict(entry)
    if "url" in made and "type" not in made:
        made["transport"] = "sse"
    if isinstance(made.get("timeout"), int | float):
        made["timeout"] /= 1000
    for table in ("env", "headers"):
        if isinstance(made.get(table), dict):
            made[table] = {key: _braced(value) for key, value in made[table].items()}
    return made


def _braced(value: Any) -> Any:
    """Return a value with `${NAME}` for `$NAME`, which only some read."""
    return _BARE_VARIABLE.sub(r"${\1}", value) if isinstance(value, str) else value


def _as_it_is(entry: Any) -> Any:
    return entry


_DIALECTS = {"codex": _codex, "gemini": _gemini}
