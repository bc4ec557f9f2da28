"""Shell completion for the names of tools, servers and toolsets, from a configuration and its catalogue.

A shell waits for every answer: no server is started, no model loaded, and the configuration is not checked.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from toolcrib.errors import ToolcribError
from toolcrib.paths import catalogue_file, find_config, user_config

_BUSY = 0.2
"""Seconds that another process may take to write the catalogue."""
_ORIGINS = "SELECT id FROM texts WHERE collection = 'origins'"
_SERVERS = ("servers", "mcpServers", "openapi")
_Complete = Callable[[click.Context, click.Parameter, str], list[str]]

BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' words=() each type value
    for each in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do  # bash splits the ids of tools at their colons
        if (( ${#words[@]} )) && [[ $each == :* || ${words[-1]} == *: ]]; then
            words[-1]+=$each
        else
            words+=("$each")
        fi
    done
    local word=${words[-1]} split=
    [[ $COMP_WORDBREAKS == *:* ]] && split=${word%%"${word##*:}"}
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$split"}") ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$(( ${#words[@]} - 1 )) %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""Click's script for bash, for words with colons."""


def _completion_of(names: "Callable[[Path], Iterator[str]]") -> _Complete:
    """Return a completion function for some names of the configuration in the command line."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
        try:
            source = _find_config(context)
            known = set() if source is None else set(names(source))
        except (OSError, ValueError, RecursionError, ToolcribError):
            return []  # the command itself says what is wrong
        return sorted(name for name in known if name.startswith(incomplete))

    return complete


def _find_config(context: click.Context) -> Path | None:
    named = getattr(context.obj, "config", None)
    if named is not None:
        return Path(named).expanduser().absolute()
    return user_config() if context.params.get("user") else find_config()


def _tool_ids(source: Path) -> Iterator[str]:
    return _query_catalogue(source, "SELECT id FROM tools")


def _server_names(source: Path) -> Iterator[str]:
    document = _read_config(source)
    yield from (str(name) for key in _SERVERS for name in _table_of(document.get(key)))
    yield from (origin.partition(":")[2] for origin in _query_catalogue(source, _ORIGINS))


def _toolset_names(source: Path) -> Iterator[str]:
    yield from _table_of(_read_own_settings(source).get("toolsets"))


def _query_catalogue(source: Path, query: str) -> Iterator[str]:
    """Query the catalogue of a configuration read-only, and yield the first column."""
    import sqlite3  # noqa: PLC0415 - only where it is needed

    store = _read_own_settings(source).get("store")
    path = source.parent / Path(store).expanduser() if isinstance(store, str) else catalogue_file(source)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY)) as connection:
            yield from (str(row[0]) for row in connection.execute(query))
    except sqlite3.Error:
        return  # there is none yet, or `doctor` is to look at it


def _read_own_settings(source: Path) -> dict[str, Any]:
    """Return toolcrib's own settings in a configuration."""
    document = _read_config(source)
    return document if source.suffix == ".toml" else _table_of(document.get("toolcrib"))


def _read_config(source: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only where it is needed

    try:
        text = source.read_text(encoding="utf-8-sig")
        return _table_of(tomllib.loads(text) if source.suffix == ".toml" else json.loads(text))
    except (OSError, ValueError):
        return {}  # such as JSON with comments: what the catalogue knows must do


def _table_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


tool_ids = _completion_of(_tool_ids)
"""The ids of the tools that the catalogue has kept."""
server_names = _completion_of(_server_names)
"""The servers and APIs of the configuration."""
toolset_names = _completion_of(_toolset_names)
"""The toolsets of the configuration."""
