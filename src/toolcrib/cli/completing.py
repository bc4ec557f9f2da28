"""Completes the names of tools, servers and toolsets in a shell, from a configuration and its catalogue.

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


def _beginning(names: "Callable[[Path], Iterator[str]]") -> _Complete:
    """Return the completion by some names of the configuration that the command line means."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
        try:
            source = _source(context)
            known = set() if source is None else set(names(source))
        except (OSError, ValueError, RecursionError, ToolcribError):
            return []  # the command itself says what is wrong
        return sorted(name for name in known if name.startswith(incomplete))

    return complete


def _source(context: click.Context) -> Path | None:
    named = getattr(context.obj, "config", None)
    if named is not None:
        return Path(named).expanduser().absolute()
    return user_config() if context.params.get("user") else find_config()


def _tool_ids(source: Path) -> Iterator[str]:
    return _stored(source, "SELECT id FROM tools")


def _server_names(source: Path) -> Iterator[str]:
    document = _document(source)
    yield from (str(name) for key in _SERVERS for name in _table(document.get(key)))
    yield from (origin.partition(":")[2] for origin in _stored(source, _ORIGINS))


def _toolset_names(source: Path) -> Iterator[str]:
    yield from _table(_ours(source).get("toolsets"))


def _stored(source: Path, query: str) -> Iterator[str]:
    """Yield the first column of a query to the catalogue of a configuration, which is only read."""
    import sqlite3  # noqa: PLC0415 - only where it is needed

    store = _ours(source).get("store")
    path = source.parent / Path(store).expanduser() if isinstance(store, str) else catalogue_file(source)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY)) as connection:
            yield from (str(row[0]) for row in connection.execute(query))
    except sqlite3.Error:
        return  # there is none yet, or `doctor` is to look at it


def _ours(source: Path) -> dict[str, Any]:
    """Return the settings of toolcrib itself."""
    document = _document(source)
    return document if source.suffix == ".toml" else _table(document.get("toolcrib"))


def _document(source: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only where it is needed

    try:
        text = source.read_text(encoding="utf-8-sig")
        return _table(tomllib.loads(text) if source.suffix == ".toml" else json.loads(text))
    except (OSError, ValueError):
        return {}  # such as JSON with comments: what the catalogue knows must do


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


tool_ids = _beginning(_tool_ids)
"""The ids of the tools that the catalogue has kept."""
server_names = _beginning(_server_names)
"""The servers and APIs of the configuration."""
toolset_names = _beginning(_toolset_names)
"""The toolsets of the configuration."""
