"""The known MCP clients: the paths of their files, and their format for a server."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal
from urllib.parse import urlsplit

from toolcrib.crib.config.gateway import GatewaySettings, is_loopback
from toolcrib.crib.config.sections import Place
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.variables import has_variables
from toolcrib.paths import home_folder, platform_folder

Scope = Literal["user", "project"]
_Folders = Callable[[Mapping[str, str], str, Path | None], Path]
_VARIABLE = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_BEARER = re.compile(r"Bearer \$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_CLINE = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")
ITSELF = "it is toolcrib itself"
"""Why one server is never taken over."""
_OUR_NAME = re.compile(
    r"(?:-m)?toolcrib(?:\.exe|\.cli(?:\.__main__)?)?(?:\[[\w,]*\])?(?:[=@<>~!].*)?", re.IGNORECASE
)
"""Names of toolcrib in a command line: a program, a module, or a package with its version."""
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
_DEFAULT_PORT: int = GatewaySettings.model_fields["port"].default


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client."""

    name: str
    """Its name on the command line."""
    title: str
    """Its display name."""
    user: _Folders
    """The path of the user's file, by environment, platform and home."""
    project: str | None = None
    """The path of a project's file; None if the client has none."""
    place: Place = ("mcpServers",)
    """The keys of the section with the servers."""
    url: str | None = "url"
    """Its key for the URL of a server; None if it only starts commands."""
    typed: bool = False
    """Whether its entries name the transport, as `type`."""
    variables: Literal["plain", "env", "none"] = "none"
    """Its syntax for environment variables: `${VAR}`, `${env:VAR}`, or none."""
    passes_environment: bool = False
    """Whether the servers that it starts inherit its whole environment."""

    def file(
        self,
        scope: Scope = "user",
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        platform: str = sys.platform,
        home: Path | None = None,
    ) -> Path:
        """Return its file for a user, or for the project in a folder.

        Raises:
            ConfigError: it has no file for a project, or this user has no home.
        """
        try:
            if scope == "user":
                return self.user(os.environ if environ is None else environ, platform, home)
            if self.project is not None:
                return (Path.cwd() if folder is None else folder) / self.project
            reason = "it has no file for a project; use the scope 'user'"
        except (OSError, RuntimeError) as error:
            reason = f"where its file would be is not known: {error}"
        raise ConfigError(self.title, (Problem("", "scope", reason),))


def _home(*parts: str) -> _Folders:
    return lambda _environ, _platform, home: home_folder(home).joinpath(*parts)


def _applications(*parts: str) -> _Folders:
    """Return the path of a file of a desktop application on each platform."""
    return lambda environ, platform, home: _config_folder(environ, platform, home).joinpath(*parts)


def _config_folder(environ: Mapping[str, str], platform: str, home: Path | None) -> Path:
    return platform_folder("config", environ, platform, home)


def _zed_file(environ: Mapping[str, str], platform: str, home: Path | None) -> Path:
    if platform == "darwin":
        return home_folder(home) / ".config" / "zed" / "settings.json"
    return (
        _config_folder(environ, platform, home) / ("Zed" if platform == "win32" else "zed") / "settings.json"
    )


def _movable(variable: str, usual: str, name: str) -> _Folders:
    """Return the path of a file in a folder that a variable may name."""

    def find(environ: Mapping[str, str], _platform: str, home: Path | None) -> Path:
        folder = environ.get(variable)
        return (Path(folder).expanduser() if folder else home_folder(home) / usual) / name

    return find


_KNOWN = (
    Client(
        "claude",
        "Claude Code",
        _movable("CLAUDE_CONFIG_DIR", ".", ".claude.json"),
        ".mcp.json",
        typed=True,
        variables="plain",
        passes_environment=True,
    ),
    Client(
        "claude-desktop", "Claude Desktop", _applications("Claude", "claude_desktop_config.json"), url=None
    ),
    Client("cursor", "Cursor", _home(".cursor", "mcp.json"), ".cursor/mcp.json", variables="env"),
    Client(
        "vscode",
        "VS Code",
        _applications("Code", "User", "mcp.json"),
        ".vscode/mcp.json",
        ("servers",),
        typed=True,
        variables="env",
        passes_environment=True,
    ),
    Client(
        "windsurf",
        "Windsurf",
        _home(".codeium", "windsurf", "mcp_config.json"),
        url="serverUrl",
        variables="env",
    ),
    Client(
        "gemini",
        "Gemini CLI",
        _home(".gemini", "settings.json"),
        ".gemini/settings.json",
        url="httpUrl",
        variables="plain",
        passes_environment=True,
    ),
    Client(
        "codex",
        "Codex",
        _movable("CODEX_HOME", ".codex", "config.toml"),
        ".codex/config.toml",
        ("mcp_servers",),
    ),
    Client("zed", "Zed", _zed_file, ".zed/settings.json", ("context_servers",), passes_environment=True),
    Client("cline", "Cline", _applications(*_CLINE)),
)
CLIENTS: dict[str, Client] = {client.name: client for client in _KNOWN}
"""The clients by the names that the command takes."""


def shape(client: Client, server: ServerConfig) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a server in the format of a client, and its losses; None if the client cannot have it.

    >>> shape(CLIENTS["windsurf"], ServerConfig(url="https://example.com/mcp"))[0]
    {'serverUrl': 'https://example.com/mcp'}
    """
    if server.url is not None and client.url is None:
        return None, (f"{client.title} only starts commands, and does not connect to a url",)
    if server.transport == "sse" and client.name == "codex":
        return None, (f"{client.title} does not speak the old transport 'sse'",)
    entry = dict(_url_entry(client, server) if server.url is not None else _stdio_entry(client, server))
    if server.disabled:
        entry |= {"enabled": False} if client.name in {"codex", "zed"} else {"disabled": True}
    if client.name == "codex":
        entry = _codex_variables(entry)
    entry, notes = _write_variables(client, entry)
    if server.inherit and not client.passes_environment:
        names = ", ".join(server.inherit)
        notes = (*notes, f"{client.title} does not pass on its environment: write {names} into its `env`")
    if server.sandbox:
        notes = (*notes, f"{client.title} starts it without its sandbox, with all rights of the user")
    return entry, notes


def _stdio_entry(client: Client, server: ServerConfig) -> Iterator[tuple[str, Any]]:
    if client.typed:
        yield "type", "stdio"
    yield "command", server.command
    yield "args", list(server.args)
    if server.env:
        yield "env", dict(server.env)
    if server.cwd:
        yield "cwd", server.cwd


def _url_entry(client: Client, server: ServerConfig) -> Iterator[tuple[str, Any]]:
    if client.typed:
        yield "type", server.transport
    elif client.name == "cline":
        yield "type", "streamableHttp" if server.transport == "http" else "sse"
    old = client.name == "gemini" and server.transport == "sse"
    yield "url" if old else str(client.url), server.url
    if server.headers:
        yield "http_headers" if client.name == "codex" else "headers", dict(server.headers)


def _codex_variables(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with its variables in the form of Codex."""
    made = dict(entry)
    env, headers = dict(made.get("env", {})), dict(made.get("http_headers", {}))
    same = [name for name, value in env.items() if value in {f"${{{name}}}", f"${{env:{name}}}"}]
    bearer = _BEARER.fullmatch(headers.get("Authorization", ""))
    whole = {name: found[1] for name, value in headers.items() if (found := _VARIABLE.fullmatch(value))}
    made["env"] = {name: value for name, value in env.items() if name not in same}
    made["env_vars"] = same
    if bearer:
        made["bearer_token_env_var"] = bearer[1]
        del headers["Authorization"]
    made["env_http_headers"] = whole
    made["http_headers"] = {name: value for name, value in headers.items() if name not in whole}
    return {
        key: value for key, value in made.items() if value or key in entry.keys() - {"env", "http_headers"}
    }


def _write_variables(client: Client, entry: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return an entry with variables in the syntax of a client, and those that it cannot read."""
    if client.variables == "plain":
        return entry, ()
    left: list[str] = []

    def write(text: str) -> str:
        made = _VARIABLE.sub(r"${env:\1}", text) if client.variables == "env" else text
        if has_variables(_VARIABLE.sub("", text) if client.variables == "env" else text):
            left.append(text)
        return made

    made = _map_texts(entry, write)
    if not left:
        return made, ()
    names = sorted({name for text in left for name in re.findall(r"\$\{(?:env:)?(\w+)", text)})
    message = f"{client.title} does not fill in variables: write the value of {', '.join(names)} there"
    return made, (message,)


def _map_texts(value: Any, write: Callable[[str], str]) -> Any:
    """Return a copy of a JSON value with a function applied to its texts, but not to keys."""
    if isinstance(value, str):
        return write(value)
    if isinstance(value, dict):
        return {key: _map_texts(member, write) for key, member in value.items()}
    return [_map_texts(member, write) for member in value] if isinstance(value, list) else value


def is_toolcrib(server: ServerConfig, port: int | None = None) -> bool:
    """Return whether a server is toolcrib itself.

    Args:
        server: its configuration.
        port: where our gateway listens; None for where it usually does.

    >>> is_toolcrib(ServerConfig(command="uvx", args=["toolcrib[cli]", "serve"]))
    True
    >>> is_toolcrib(ServerConfig(command="docs", args=["serve", "/src/toolcrib"]))
    False
    """
    if server.url is not None:
        return _is_own_url(server.url, _DEFAULT_PORT if port is None else port)
    words = [word for part in (server.command or "", *server.args) for word in part.split()]
    names = [PurePath(word.replace("\\", "/")).name for word in words]
    first = next((place for place, name in enumerate(names) if _OUR_NAME.fullmatch(name)), len(names))
    return "serve" in names[first:]


def _is_own_url(url: str, port: int) -> bool:
    try:
        parts = urlsplit(url)
        host, given = parts.hostname or "", parts.port
    except ValueError:
        return False
    local = is_loopback(host) or host in _ANYWHERE
    return local and given == port and (parts.path == "/mcp" or parts.path.startswith("/mcp/"))
