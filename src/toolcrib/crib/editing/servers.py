"""Change the servers of a configuration file, and nothing else in it.

Texts are edited, not written anew: comments, order and indentation stay. Each change is read back before it
is offered; where anything but the servers meant would differ, it is refused.
"""

import copy
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolcrib.crib.config.dialects import read_client
from toolcrib.crib.config.files import load
from toolcrib.crib.config.jsonc import parse_jsonc
from toolcrib.crib.editing.edit import Edit, read_text
from toolcrib.crib.editing.jsonc import remove_json, set_json
from toolcrib.crib.editing.toml import remove_toml, set_toml
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.variables import has_variables
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.toolid import name_fault

__all__ = [
    "ABSENT",
    "Edit",
    "Place",
    "add_server",
    "carried_name",
    "document_of",
    "edit_servers",
    "loads",
    "own_entry",
    "remove_server",
    "section_of",
    "servers_in",
]

ABSENT = "absent"
"""The keyword of the problem that a file has no such server."""
Place = tuple[str, ...]
_JSON_PLACES: tuple[Place, ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",))
_TOML_PLACES: tuple[Place, ...] = (("servers",), ("mcpServers",))
_STARTS = frozenset({"command", "url", "serverUrl", "httpUrl"})
_BOM = "\ufeff"


def add_server(path: Path, name: str, server: Mapping[str, Any], *, replace: bool = False) -> Edit:
    """Return the change that puts a server into a configuration file of ours, which is made if need be.

    Raises:
        ConfigError: the file is broken, has such a server already, cannot be edited safely, or would be
            broken by it.
    """
    if fault := name_fault(name):
        raise _refusal(path, "name", f"the name {name[:80]!r} {fault}")
    document = document_of(path, read_text(path))
    if not replace and name in servers_in(document, section_of(path, document)):
        raise _refusal(path, "name", f"there is a server {name!r} already; --force replaces it")
    return edit_servers(path, {name: own_entry(path, server)}, check=loads)


def own_entry(path: Path, server: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server as it is written in a configuration of ours: in JSON, as other clients can read it.

    >>> own_entry(Path("mcp.json"), {"url": "https://example.com/mcp", "start_timeout": 5})
    {'type': 'http', 'url': 'https://example.com/mcp', 'startTimeout': 5}
    """
    entry = dict(server)
    if path.suffix == ".toml":
        return entry
    transport = entry.pop("transport", "http" if "url" in entry else None)
    aliases = {key: field.alias or key for key, field in ServerConfig.model_fields.items()}
    named = {aliases.get(key, key): value for key, value in entry.items()}
    return {"type": transport, **named} if transport else named


def remove_server(path: Path, name: str) -> Edit:
    """Return the change that takes a server out of a configuration file of ours.

    Raises:
        ConfigError: there is no such server, which a problem with the keyword `ABSENT` says; or the file is
            broken, or cannot be edited safely.
    """
    document = document_of(path, read_text(path))
    known = servers_in(document, section_of(path, document))
    written = next((each for each in known if name in {each, carried_name(each)}), None)
    if written is None:
        there = did_you_mean(name, known) or ("" if known else "; there is none at all")
        raise _refusal(path, ABSENT, f"there is no server {name!r}{there}")
    return edit_servers(path, {written: None}, check=loads)


def carried_name(written: str) -> str:
    """Return the name that the ids of tools carry, of a server that a client's file may call anything.

    >>> carried_name("My Server")
    'My-Server'
    """
    return next(iter(read_client({"mcpServers": {written: {"command": "x"}}}, Path()).servers))


def edit_servers(
    path: Path,
    changes: Mapping[str, Mapping[str, Any] | None],
    *,
    place: Place | None = None,
    check: Callable[[Path, str], None] | None = None,
) -> Edit:
    """Return the change that gives a file these servers; None takes one out.

    Args:
        path: a `.toml` file or one of JSON; it need not be there.
        changes: servers by name, in the shape that the file has them.
        place: the keys under which the servers stand; None where they do already, or where ours do.
        check: says whether the text may be in the file; raises ConfigError.

    Raises:
        ConfigError: the file is broken, cannot be edited safely, or `check` says so.
    """
    before = read_text(path)
    document = document_of(path, before)
    place = section_of(path, document) if place is None else place
    wanted = _changed(path, document, place, changes)
    text, restore = _plain_lines(before or "")
    is_toml = path.suffix == ".toml"
    try:
        for name, server in changes.items():
            text = _one_change(text or ("" if is_toml else "{}\n"), (*place, name), server, is_toml=is_toml)
        made = restore(text)
        right = _filled(document_of(path, made), place) == _filled(wanted, place)
    except (ValueError, IndexError, KeyError) as error:
        raise _unsafe(path, f"{error}") from error
    if not right:
        raise _unsafe(path, "something else in it would change too")
    if check is not None:
        check(path, made)
    private = any(server is not None and _holds_secrets(server) for server in changes.values())
    return Edit(path, before, before if before is not None and document == wanted else made, private)


def section_of(path: Path, document: Mapping[str, Any]) -> Place:
    """Return the keys under which a configuration of ours has its servers, or would have them.

    >>> section_of(Path("mcp.json"), {"servers": {}}), section_of(Path("toolcrib.toml"), {})
    (('servers',), ('servers',))
    """
    places = _TOML_PLACES if path.suffix == ".toml" else _JSON_PLACES
    for place in places:
        if _at(document, place) is not None:
            return place
    bare = path.suffix != ".toml" and {key: value for key, value in document.items() if key != "toolcrib"}
    if bare and all(isinstance(value, dict) and not _STARTS.isdisjoint(value) for value in bare.values()):
        return ()
    return places[0]


def servers_in(document: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the servers that stand in a document, as they are written."""
    found = _at(document, place)
    return dict(found) if isinstance(found, Mapping) else {}


def loads(path: Path, text: str) -> None:
    """Read a text as the configuration that it would be.

    Raises:
        ConfigError: with every problem found.
    """
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        trial = Path(folder) / (path.name or "mcp.json")
        trial.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            load(trial)
        except ConfigError as error:
            raise ConfigError(str(path), error.problems) from error


def document_of(path: Path, text: str | None) -> dict[str, Any]:
    """Return what the text of a file says; nothing, where there is none.

    Raises:
        ConfigError: it is not JSON, or in a `.toml` file not TOML.
    """
    kind, read = ("TOML", tomllib.loads) if path.suffix == ".toml" else ("JSON", parse_jsonc)
    plain = (text or "").removeprefix(_BOM)
    if not plain.strip():
        return {}
    try:
        document = read(plain)
    except (ValueError, RecursionError) as error:
        raise _refusal(
            path, kind.lower(), f"it is not {kind}, and is left as it is: {error}"[:500]
        ) from error
    if not isinstance(document, dict):
        raise _refusal(path, "type", f"it must be a JSON object, not {type(document).__name__}")
    return document


def _changed(path: Path, document: Any, place: Place, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as it is to be."""
    wanted: dict[str, Any] = copy.deepcopy(document)
    section = wanted
    for key in place:
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            raise _unsafe(path, f"{key!r} is not an object of servers by name")
    for name, server in changes.items():
        if server is None:
            section.pop(name, None)
        else:
            section[name] = copy.deepcopy(dict(server))
    return wanted


def _one_change(text: str, path: Place, server: Mapping[str, Any] | None, *, is_toml: bool) -> str:
    if server is None:
        try:
            return remove_toml(text, path) if is_toml else remove_json(text, path)
        except KeyError:
            return text
    return set_toml(text, path, dict(server)) if is_toml else set_json(text, path, dict(server))


def _filled(document: dict[str, Any], place: Place) -> dict[str, Any]:
    """Return a document without the section of its servers where that is empty, as TOML often has none."""
    if not place:
        return document
    inside = document.get(place[0])
    made = _filled(inside, place[1:]) if isinstance(inside, dict) else inside
    rest = {key: value for key, value in document.items() if key != place[0]}
    return rest if made is None or made == {} else {**rest, place[0]: made}


def _plain_lines(text: str) -> tuple[str, Callable[[str], str]]:
    r"""Return a text whose lines end with `\n` and that begins with no mark, and what gives both back."""
    mark = _BOM if text.startswith(_BOM) else ""
    plain = text.removeprefix(_BOM)
    if plain.count("\r\n") != plain.count("\n") or "\r\n" not in plain:
        return plain, lambda made: mark + made
    return plain.replace("\r\n", "\n"), lambda made: mark + made.replace("\n", "\r\n")


def _holds_secrets(server: Mapping[str, Any]) -> bool:
    """Return whether a server says values that are most likely secret, and not in the environment."""
    tables = [server.get(key) for key in ("env", "headers", "http_headers")]
    values = [value for table in tables if isinstance(table, Mapping) for value in table.values()]
    return any(isinstance(value, str) and not has_variables(value) for value in values)


def _at(document: Any, place: Place) -> Any:
    for key in place:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _unsafe(path: Path, reason: str) -> ConfigError:
    said = f"it cannot be edited without harm, and is left as it is: {reason}; edit it by hand"
    return _refusal(path, "edit", said[:500])


def _refusal(path: Path, keyword: str, reason: str) -> ConfigError:
    return ConfigError(str(path), (Problem("", keyword, reason),))
