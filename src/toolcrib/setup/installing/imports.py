"""Read the servers of other MCP clients, and take them over into a configuration of ours."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.crib.config.dialects import RawConfig, named_servers, read_client
from toolcrib.crib.config.files import load, load_text, own_cwd
from toolcrib.crib.config.reading import is_toml, read_text
from toolcrib.crib.config.sections import Place, at, section_of, servers_in
from toolcrib.errors import ConfigError, Problem, ServerUnavailableError
from toolcrib.execution.mcp.config import Sandbox, ServerConfig
from toolcrib.execution.mcp.walls.advice import check_wall, is_contained
from toolcrib.setup.editing.edit import Edit
from toolcrib.setup.editing.servers import document_of, edit_servers, find_server, own_entry
from toolcrib.setup.installing.clients import CLIENTS, ITSELF, Client, is_toolcrib

ENVIRONMENT_NOTE = (
    "gives its servers its whole environment, and toolcrib only a part of it: "
    """`inherit = ["AWS_*"]` gives a server more, `inherit = ["*"]` all"""
)
"""End of the note that servers may miss variables which their client gave them."""
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_BARE_VARIABLE = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_WORKSPACE = "${workspaceFolder}"
_KEPT = ("timeout", "start_timeout", "idle_timeout", "max_concurrency")
_SILENT = frozenset(
    {"enabled", "description", "name", "icon", "gallery", "version", "source", "dev", "title"}
)
"""Keys whose loss changes nothing: they are read elsewhere, or are for people."""
_CONSENT = frozenset({"alwaysAllow", "autoApprove", "trust"})
"""Keys about a client's consent dialogs; the server is the same without them."""


@dataclass(slots=True)
class Found:
    """The servers of another client, and notes about them."""

    files: list[Path] = field(default_factory=list)
    """The files that were read."""
    servers: dict[str, ServerConfig] = field(default_factory=dict)
    """The servers, by the names that they have here."""
    names: dict[str, str] = field(default_factory=dict)
    """Their names in the client."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user."""
    unread: list[str] = field(default_factory=list)
    """The notes about servers that are left out because they cannot be read."""
    itself: list[str] = field(default_factory=list)
    """The names under which the client has toolcrib."""
    lossy: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Servers that would behave differently without keys that we do not read, and these keys."""

    def leave_out(self, *reasons: str) -> None:
        """Note that servers are left out."""
        self.notes += reasons
        self.unread += reasons

    def update(self, other: "Found") -> None:
        """Add the servers of another file; known ones stay."""
        known = set(self.servers)
        self.files += other.files
        self.notes += other.notes
        self.unread += other.unread
        self.itself += other.itself
        self.servers = {**other.servers, **self.servers}
        self.names = {**other.names, **self.names}
        self.lossy = {name: keys for name, keys in other.lossy.items() if name not in known} | self.lossy


@dataclass(frozen=True, slots=True)
class Merge:
    """The result of an import; nothing is written yet."""

    edit: Edit
    """The change to our configuration."""
    added: tuple[str, ...] = ()
    """The servers that are new."""
    replaced: tuple[str, ...] = ()
    """The servers that take the place of others."""
    same: tuple[str, ...] = ()
    """Those that were there already."""
    conflicts: tuple[str, ...] = ()
    """Names that stand for other servers in our configuration, which stays as it is."""
    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    """Those that are taken over."""


def servers_of(
    client: Client,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    only: Path | None = None,
    port: int | None = None,
) -> Found:
    """Return the servers that a client has, in a project and for the user; those of the project win.

    Args:
        client: the client.
        folder: the project.
        environ: where to look up variables that move its files.
        only: the only file to read; None for all of them.
        port: the port of toolcrib's gateway, which is not imported; None for the default port.

    Raises:
        ConfigError: a file is broken.
    """
    found = Found()
    if only is not None:
        paths = [only]
    else:
        user = client.file(environ=environ)
        paths = [*([client.file("project", folder=folder)] if client.project else []), user]
        if client.name == "claude":
            # What one person has in one project alone stands apart there, and wins.
            place = ("projects", str(folder), *client.place)
            found.update(_read_place(user, _document(user), place, client, port))
    for path in paths:
        found.update(_read_place(path, _document(path), client.place, client, port))
    found.files = [path for path in dict.fromkeys(found.files) if path.is_file()]
    _note_environment(client, found)
    return found


def _note_environment(client: Client | None, found: Found) -> None:
    """Note that servers would lose variables which their client gave them."""
    is_started = any(server.command and not server.inherit for server in found.servers.values())
    if client is not None and client.passes_environment and is_started:
        found.notes.append(f"{client.title} {ENVIRONMENT_NOTE}")


def _document(path: Path) -> dict[str, Any]:
    return document_of(path, read_text(path))


def toolcrib_names(client: Client, path: Path, document: Mapping[str, Any]) -> list[str]:
    """Return under which names a document of a client has toolcrib."""
    return _read_place(path, document, client.place, client).itself


def read_servers(path: Path) -> Found:
    """Return the servers in the file of any client, ours or not.

    Raises:
        ConfigError: it does not exist, is broken, or is not a file of a client.
    """
    if not path.exists():
        load(path)  # says why it cannot be read
    document = _document(path)
    codex = CLIENTS["codex"]
    if is_toml(path) and codex.place[0] not in document:
        return Found([path], dict(load(path).servers))
    if is_toml(path):
        return _read_place(path, document, codex.place, codex)
    client = CLIENTS["gemini"] if ".gemini" in path.parts else None
    found = _read_place(path, document, section_of(document), client)
    owners = (each for each in CLIENTS.values() if each.project and path.match(f"*/{each.project}"))
    _note_environment(client or next(owners, None), found)
    return found


def merge(path: Path, servers: Mapping[str, ServerConfig], *, force: bool = False) -> Merge:
    """Return the change that puts servers into a toolcrib configuration.

    Raises:
        ConfigError: our file is broken, or cannot be edited safely.
    """
    ours = load(path).servers if path.is_file() else {}
    known, servers = (
        {name: own_cwd(server, path) for name, server in each.items()} for each in (ours, servers)
    )
    same = {name for name in servers.keys() & known.keys() if written(known[name]) == written(servers[name])}
    differ = servers.keys() & known.keys() - same
    taken = [name for name in servers if name not in same and (force or name not in differ)]
    edit = edit_servers(path, _changes(path, servers, taken), check=load_text)
    return Merge(
        edit,
        added=tuple(name for name in taken if name not in differ),
        replaced=tuple(name for name in taken if name in differ),
        same=tuple(sorted(same)),
        conflicts=() if force else tuple(sorted(differ)),
        servers={name: servers[name] for name in taken},
    )


def _changes(path: Path, servers: Mapping[str, ServerConfig], taken: list[str]) -> dict[str, Any]:
    """Return servers as our file has them, under the names that it has for them."""
    document = document_of(path, read_text(path))
    usual = section_of(document, toml=is_toml(path))
    changes = {}
    for name in taken:
        place, called = find_server(path, document, name) or (usual, name)
        changes[called] = own_entry(path, written(servers[name]), place)
    return changes


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
    optional: dict[str, Any] = {"env": dict(server.env), "inherit": list(server.inherit)}
    optional |= {"headers": dict(server.headers), "cwd": server.cwd, "sandbox": server.sandbox}
    optional |= {"read": list(server.read), "write": list(server.write)}
    if server.network != "none":
        optional["network"] = server.network if server.network == "all" else list(server.network)
    optional |= {"required": server.required, "disabled": server.disabled}
    entry |= {key: value for key, value in optional.items() if value}
    usual = ServerConfig.model_fields
    for name in _KEPT:
        value = getattr(server, name)
        if value is not None and value != usual[name].default:
            entry[name] = value
    return entry


def _read_place(
    path: Path, document: Mapping[str, Any], place: Place, client: Client | None, port: int | None = None
) -> Found:
    """Return the servers at one place of a file; those that are broken are left out, with a note."""
    found = Found([path])
    dialect = _DIALECTS.get(client.name if client else "", _unchanged)
    inputs = _Inputs(at(document, (*place[:-1], "inputs")))
    plain = {name: dialect(each) for name, each in _read_section(document, place, found, path).items()}
    parts = read_client({"mcpServers": inputs.replaced(plain)}, path.parent)
    found.leave_out(*(f"{path}: {problem}" for problem in parts.problems))
    for name, entry in parts.servers.items():
        server = _parse_server(name, entry, found)
        if server is None:
            continue
        if is_toolcrib(server, port):
            found.itself.append(_name_in_file(parts, name))
            found.notes.append(f"{name!r} is left out: {ITSELF}")
            continue
        _note_lost_keys(name, server, found)
        if _WORKSPACE in json.dumps(entry, default=str):
            found.notes.append(
                f"{name!r}: {_WORKSPACE} is not a folder outside of a project; write one instead"
            )
        found.servers[name] = _anchor_folder(server, path)
        found.names[name] = _name_in_file(parts, name)
    return found


def _name_in_file(parts: RawConfig, name: str) -> str:
    return parts.places[name].removeprefix("/mcpServers/")


def _read_section(document: Mapping[str, Any], place: Place, found: Found, path: Path) -> dict[str, Any]:
    """Return the servers at a place by name, or note the reason why they cannot be read."""
    if at(document, place) is None or not place:
        return servers_in(document, place)
    problems: list[Problem] = []
    servers = dict(named_servers(at(document, place), f"/{'/'.join(place)}", problems))
    found.leave_out(*(f"{path}: {problem}" for problem in problems))
    return servers


def _parse_server(name: str, entry: Any, found: Found) -> ServerConfig | None:
    """Parse a server, or note the reason why it is invalid."""
    if not isinstance(entry, Mapping):
        found.leave_out(f"{name!r} is left out: it must be an object, not {type(entry).__name__}")
        return None
    try:
        return ServerConfig(**entry)
    except ConfigError as error:
        found.leave_out(f"{name!r} is left out: {'; '.join(map(str, error.problems))}")
        return None


def _note_lost_keys(name: str, server: ServerConfig, found: Found) -> None:
    """Note the keys of a server that we do not read, and whether it is another server without them."""
    extra = server.model_extra or {}
    lost = tuple(sorted(key for key, value in extra.items() if value and key not in _SILENT))
    if lost:
        found.notes.append(lost_note(name, lost))
    if not _CONSENT.issuperset(lost):
        found.lossy[name] = lost


def renamed(found: Found, taken: Iterable[str]) -> dict[str, str]:
    """Return the servers among those taken over that have another name here, by the name that they had."""
    return {found.names[name]: name for name in taken if found.names.get(name, name) != name}


def rename_note(written: str, name: str) -> str:
    """Return the note about a server that has another name here."""
    return f"{written!r} is {name!r} here: the ids of its tools begin with that, and allow fewer characters"


def add_wall(server: ServerConfig, sandbox: Sandbox) -> ServerConfig:
    """Return a server behind a wall, where it is started and has none."""
    if server.command is None or server.sandbox is not None or is_contained(server):
        return server
    return server.replace(sandbox=sandbox)


def wall_notes(servers: Mapping[str, ServerConfig]) -> Iterator[str]:
    """Yield notes about servers without a wall, or with settings for paths hidden by it."""
    for name, server in servers.items():
        if server.command is not None and server.sandbox is None:
            yield f"{name!r} has no sandbox: it starts a container, which is one"
        elif server.sandbox is not None:
            with suppress(ConfigError, ServerUnavailableError):  # the doctor says what is wrong with it
                if hidden := check_wall(name, server.expanded(os.environ)):
                    seen = f"{name!r} does not see {', '.join(hidden)} in its sandbox"
                    yield f"{seen}; name it in read or write"


def lost_note(name: str, keys: tuple[str, ...]) -> str:
    """Return the note about keys that are not taken over with a server."""
    return f"{name!r}: toolcrib does not read {', '.join(map(repr, keys))}, and leaves it out"


def _anchor_folder(server: ServerConfig, path: Path) -> ServerConfig:
    """Return a server with an absolute folder, so that it can move to another file."""
    if not server.cwd or server.cwd.startswith("${"):
        return server
    return server.replace(cwd=str(path.parent / Path(server.cwd).expanduser()))


class _Inputs:
    """The inputs that an editor would ask for, as environment variables."""

    def __init__(self, declared: Any) -> None:
        self._defaults = {
            each["id"]: each["default"]
            for each in (declared if isinstance(declared, list) else ())
            if isinstance(each, Mapping)
            and isinstance(each.get("id"), str)
            and _is_default(each.get("default"))
        }

    def replaced(self, value: Any) -> Any:
        """Return a value with a variable for each input, and its default where it has one."""
        if isinstance(value, str):
            return _INPUT.sub(lambda found: self._variable(found[1]), value)
        if isinstance(value, Mapping):
            return {key: self.replaced(member) for key, member in value.items()}
        return [self.replaced(member) for member in value] if isinstance(value, list) else value

    def _variable(self, name: str) -> str:
        made = _WORDS.sub("_", name).strip("_").upper() or "INPUT"
        made = f"_{made}" if made[0].isdigit() else made
        if name in self._defaults:
            return f"${{{made}:-{self._defaults[name]}}}"
        return f"${{{made}}}"


def _is_default(value: Any) -> bool:
    """Return whether a default can stand within a variable."""
    return isinstance(value, str) and bool(value) and not {"{", "}"}.intersection(value)


def _from_codex(entry: Any) -> Any:
    """Return a server of Codex as most clients write it; what has another type stays, for others to judge."""
    if not isinstance(entry, dict):
        return entry
    made = dict(entry)
    env, headers = made.get("env", {}), made.get("http_headers", {})
    named, taken = made.get("env_vars", []), made.get("env_http_headers", {})
    if not (isinstance(env, dict) and isinstance(headers, dict) and isinstance(taken, dict)):
        return {**made, "env": env, "headers": headers if isinstance(taken, dict) else taken}
    if isinstance(named, list):
        made.pop("env_vars", None)
        env = env | {name: f"${{{name}}}" for name in named if isinstance(name, str)}
    headers = headers | {name: f"${{{variable}}}" for name, variable in taken.items()}
    if token := made.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    made = {key: value for key, value in made.items() if key not in {"http_headers", "env_http_headers"}}
    made |= {"env": env, "headers": headers}
    for theirs, ours in (("startup_timeout_sec", "start_timeout"), ("tool_timeout_sec", "timeout")):
        if theirs in made:
            made[ours] = made.pop(theirs)
    return {key: value for key, value in made.items() if value not in ({}, None)}


def _from_gemini(entry: Any) -> Any:
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
            made[table] = {key: _brace_variables(value) for key, value in made[table].items()}
    return made


def _brace_variables(value: Any) -> Any:
    """Return a value with `${NAME}` for `$NAME`, which only some read."""
    return _BARE_VARIABLE.sub(r"${\1}", value) if isinstance(value, str) else value


def _unchanged(entry: Any) -> Any:
    return entry


_DIALECTS = {"codex": _from_codex, "gemini": _from_gemini}
