"""Read a configuration: ours, or that of any MCP client, from a file or a mapping."""

import errno
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from toolcrib.crib.config.dialects import RawConfig, project_folder, read_client, read_python
from toolcrib.crib.config.reading import file_refusal, is_toml, parse, read_text
from toolcrib.crib.config.section import INTERNAL
from toolcrib.crib.config.sections import INHERIT
from toolcrib.crib.config.settings import MEMORY, NO_FILE, Settings
from toolcrib.errors import ConfigError, Problem
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.model.suggest import did_you_mean
from toolcrib.paths import absolute_path, path_fault
from toolcrib.postgres import is_postgres

Config = str | PathLike[str] | Mapping[str, Any] | Settings | None
"""A file, a mapping such as the JSON of an MCP client, or the settings themselves."""
_MAPPING = NO_FILE
_FILE = "configuration file"
_SPELLINGS = ("type", "serverUrl", "httpUrl")
"""Keys of other clients that a server may have too."""
_TYPES = "a path, a dict with 'mcpServers', Settings or None"


def load(config: Config = None) -> Settings:
    """Load the settings of a configuration; with None, return the defaults and read no file.

    `.toml` files are in toolcrib's own format, where an unknown key is an error. All others are read as the
    JSON that Claude Desktop, Cursor, VS Code, Windsurf, Gemini CLI, Cline and others share; unknown keys in
    them are kept. Relative paths in a file are relative to it, and its servers run in its folder.

    >>> load({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}).servers["time"].args
    ('mcp-server-time',)

    Raises:
        ConfigError: the configuration is invalid; the error lists every problem, but no values, which may be
            secret.
    """
    if config is None:
        return Settings()
    if isinstance(config, Settings):
        return config
    if isinstance(config, Mapping):
        return _validate(read_python(config), _MAPPING)
    if isinstance(config, str | PathLike):
        return _load_file(absolute_path(config, _FILE))
    problem = Problem("", "type", f"must be {_TYPES}, not {type(config).__name__}")
    raise ConfigError(_MAPPING, (problem,))


def load_text(path: Path, text: str) -> Settings:
    """Load the settings from the text of a file; the file itself is not read.

    Raises:
        ConfigError: with every problem found.
    """
    document = parse(path, text)
    parts = _read_own(document) if is_toml(path) else read_client(document, path.parent)
    return _make_paths_absolute(_validate(parts, str(path)), path)


def _load_file(path: Path) -> Settings:
    """Return the settings of a file."""
    text = read_text(path)
    if text is None:
        raise file_refusal(path, f"it cannot be read: {os.strerror(errno.ENOENT)}")
    return load_text(path, text)


def _read_own(document: dict[str, Any]) -> RawConfig:
    """Return the parts of a `toolcrib.toml`, whose servers stand under either of two names."""
    parts = RawConfig(settings=dict(document))
    if INHERIT in document:
        message = "belongs under [servers]"
        parts.problems.append(Problem(f"/{INHERIT}", "extra_forbidden", message))
        del parts.settings[INHERIT]
    for key in ("servers", "mcpServers"):
        tables = parts.settings.pop(key, {})
        if not isinstance(tables, dict):
            parts.problems.append(Problem(f"/{key}", "type", "must be a table of servers"))
            continue
        for name, table in parts.take_inherit(tables, f"/{key}").items():
            parts.add(name, table, f"/{key}/{name}")
            left = max(0, MAX_PROBLEMS - len(parts.problems))  # an error shows no more
            parts.problems += islice(_find_unknown_keys(table, f"/{key}/{name}"), left)
    return parts


def _find_unknown_keys(table: Any, place: str) -> Iterator[Problem]:
    """Yield the unknown keys of servers in our own file; a client's file may have any."""
    fields = ServerConfig.model_fields
    known = {*fields, *(field.alias for field in fields.values()), *_SPELLINGS}
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            message = f"is not a setting{did_you_mean(key, fields)}"
            yield Problem(f"{place}/{key}", "extra_forbidden", message)


def _validate(parts: RawConfig, source: str) -> Settings:
    """Validate the parts of a configuration; an error lists every problem."""
    problems = list(parts.problems)
    internal = INTERNAL.intersection(parts.settings)
    problems += [
        parts.placed(Problem(f"/{name}", "extra_forbidden", "is not a setting")) for name in sorted(internal)
    ]
    known = {name: value for name, value in parts.settings.items() if name not in internal}
    try:
        settings = Settings(**known, servers=parts.servers, others=parts.others)
        problems += [parts.placed(problem) for problem in _find_invalid_folders(settings)]
        if not problems:
            return settings
    except ConfigError as error:
        problems += [parts.placed(problem) for problem in error.problems]
    raise ConfigError(source, tuple(problems[:MAX_PROBLEMS]))


def _find_invalid_folders(settings: Settings) -> Iterator[Problem]:
    """Yield the folders of servers that no path can have."""
    for name, server in settings.servers.items():
        if fault := path_fault(server.cwd or ""):
            yield Problem(f"/servers/{name}/cwd", "path", fault)


def _make_paths_absolute(settings: Settings, path: Path) -> Settings:
    """Return settings with absolute paths."""
    folder = path.parent
    changes: dict[str, Any] = {
        "source": str(path),
        "servers": {
            name: server.replace(
                cwd=_absolute_path(folder, server.cwd) if server.cwd else str(project_folder(folder))
            )
            if server.command
            else server
            for name, server in settings.servers.items()
        },
        "openapi": {
            name: api.replace(document=_absolute_path(folder, api.document))
            for name, api in settings.openapi.items()
        },
    }
    if settings.store and settings.store != MEMORY and not is_postgres(settings.store):
        changes["store"] = _absolute_path(folder, settings.store)
    if settings.runs.store and settings.runs.store != MEMORY and not is_postgres(settings.runs.store):
        changes["runs"] = settings.runs.replace(store=_absolute_path(folder, settings.runs.store))
    if settings.engine is not None:
        files = {name: getattr(settings.engine, name) for name in ("ca", "certificate", "private_key")}
        changes["engine"] = settings.engine.replace(
            **{name: _absolute_path(folder, path) for name, path in files.items() if path}
        )
    if settings.registry and not settings.registry.lower().startswith(("http://", "https://")):
        changes["registry"] = _absolute_path(folder, settings.registry)
    if settings.search.folder(folder) is not None:
        changes["search"] = settings.search.replace(model=_absolute_path(folder, settings.search.model))
    if settings.audit:
        changes["audit"] = settings.audit.replace(path=_absolute_path(folder, settings.audit.path))
    return settings.replace(**changes)


def own_cwd(server: ServerConfig, path: Path) -> ServerConfig:
    """Return a server of a file without the folder that it runs in for that alone."""
    implied = str(project_folder(path.parent))
    return server.replace(cwd=None) if server.cwd == implied else server


def _absolute_path(folder: Path, path: str) -> str:
    """Return a path relative to a folder as an absolute one, unless it begins with a variable."""
    return path if path.startswith("${") else str(folder / Path(path).expanduser())
