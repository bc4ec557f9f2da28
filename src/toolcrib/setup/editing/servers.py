"""Change the servers of a configuration file, and nothing else in it.

Texts are edited, not written anew: comments, order and indentation stay. Each change is read back before it
is offered; where anything but the servers meant would differ, it is refused.
"""

import copy
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolcrib.crib.config.dialects import namespace_for
from toolcrib.crib.config.files import load_text
from toolcrib.crib.config.reading import BOM, file_refusal, is_toml, parse, read_text
from toolcrib.crib.config.sections import (
    INHERIT,
    OPENCODE,
    OURS,
    Place,
    at,
    places_in,
    section_of,
    servers_in,
    split_inherit,
)
from toolcrib.errors import ConfigError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.model.suggest import choose
from toolcrib.model.toolid import name_fault
from toolcrib.redaction import named_secrets, secrets_in
from toolcrib.setup.editing.edit import Edit
from toolcrib.setup.editing.jsonc import remove_json, set_json
from toolcrib.setup.editing.toml import remove_toml, set_toml

_GIT_TIME = 5.0
ABSENT = "absent"
"""The keyword of the problem that a file has no such server."""
Changes = Mapping[str, Mapping[str, Any] | None]
"""Servers by name, in the shape that a file has them; None takes one out."""
Check = Callable[[Path, str], object]
"""Checks the new text of a file; raises ConfigError."""


def add_server(path: Path, name: str, server: Mapping[str, Any], *, replace: bool = False) -> Edit:
    """Return the change that adds a server to a toolcrib configuration file, which is created if needed.

    A server whose name in the file is not a valid namespace, such as `My Server`, also matches the namespace
    of its tools, `My-Server`.

    Raises:
        ConfigError: the file is broken, has such a server already, cannot be edited safely, or would be
            invalid after the change.
    """
    if fault := name_fault(name):
        raise file_refusal(path, f"the name {name[:80]!r} {fault}", "name")
    document = document_of(path, read_text(path))
    place, written = find_server(path, document, name) or (section_of(document, toml=is_toml(path)), None)
    if written is not None and not replace:
        raise file_refusal(path, f"there is a server {written!r} already; --force replaces it", "name")
    carried = name if is_toml(path) else namespace_for(name)
    if written is None and carried != name:
        message = f"the name {name!r} would become {carried!r} when this file is read; use that one"
        raise file_refusal(path, message, "name")
    changes = {written or name: own_entry(path, server, place)}
    return edit_servers(path, changes, place=place, check=load_text)


def api_place(path: Path) -> Place:
    """Return the keys under which a configuration file of ours has its HTTP APIs."""
    return ("openapi",) if is_toml(path) else (OURS, "openapi")


def own_entry(path: Path, server: Mapping[str, Any], place: Place | None = None) -> dict[str, Any]:
    """Return a server as it is written in a configuration of ours: in JSON, as other clients can read it.

    >>> own_entry(Path("mcp.json"), {"url": "https://example.com/mcp", "start_timeout": 5})
    {'type': 'http', 'url': 'https://example.com/mcp', 'startTimeout': 5}

    Raises:
        ConfigError: the client whose place it is has no way to say it.
    """
    entry = dict(server)
    if is_toml(path):
        return entry
    if place == OPENCODE:
        return _to_opencode(path, entry)
    transport = entry.pop("transport", "http" if "url" in entry else None)
    aliases = {key: field.alias or key for key, field in ServerConfig.model_fields.items()}
    named = {aliases.get(key, key): value for key, value in entry.items()}
    return {"type": transport, **named} if transport else named


def _to_opencode(path: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a server in the form of opencode."""
    made: dict[str, Any] = {"type": "remote" if "url" in entry else "local"}
    if "command" in entry:
        made["command"] = [entry.pop("command"), *entry.pop("args", ())]
    names = {"url": "url", "headers": "headers", "env": "environment"}
    made |= {theirs: entry.pop(ours) for ours, theirs in names.items() if ours in entry}
    if entry.pop("disabled", False):
        made["enabled"] = False
    if entry:
        message = (
            f"it is in opencode's format, which cannot express {', '.join(map(repr, entry))}; leave that out"
        )
        raise file_refusal(path, message, "edit")
    return made


def remove_server(path: Path, name: str) -> Edit:
    """Return the change that removes a server or an API from a toolcrib configuration file.

    Raises:
        ConfigError: there is none of that name (a problem with the keyword `ABSENT`), or the file is broken
            or cannot be edited safely.
    """
    document = document_of(path, read_text(path))
    apis = api_place(path)
    found = find_server(path, document, name) or (
        (apis, name) if name in servers_in(document, apis) else None
    )
    if found is None:
        places = [*places_in(document, toml=is_toml(path)), apis]
        known = [each for place in places for each in servers_in(document, place)]
        there = choose(name, known) if known else "; there is none at all"
        raise file_refusal(path, f"there is no server {name!r}{there}", ABSENT)
    place, written = found
    return edit_servers(path, {written: None}, place=place, check=load_text)


def find_server(path: Path, document: Mapping[str, Any], name: str) -> tuple[Place, str] | None:
    """Return the place of a server in a configuration, and its name there; None if there is none."""
    alike = None
    for place in places_in(document, toml=is_toml(path)):
        for written in servers_in(document, place):
            if written == name:
                return place, written
            if alike is None and not is_toml(path) and namespace_for(written) == name:
                alike = place, written
    return alike


def edit_servers(
    path: Path, changes: Changes, *, place: Place | None = None, check: Check | None = None
) -> Edit:
    """Return the change that gives a file these servers; None removes one.

    Args:
        path: a TOML or JSON file; it need not exist.
        changes: servers by name, in the form that the file uses.
        place: the keys of the section with the servers; None takes the existing section, or else that of
            toolcrib.
        check: raises ConfigError if the text must not be written.

    Raises:
        ConfigError: the file is broken, cannot be edited safely, or is refused by `check`.
    """
    before = read_text(path)
    document = document_of(path, before)
    place = section_of(document, toml=is_toml(path)) if place is None else place
    section = at(document, place)
    if INHERIT in changes and isinstance(section, Mapping) and split_inherit(section)[1] is not None:
        message = f"{INHERIT!r} names the variables that all servers inherit; give the server another name"
        raise file_refusal(path, message, "name")
    made, wanted = edit_text(path, before or "", changes, place)
    if check is not None:
        check(path, made)
    touched = _current_entries(document, place, changes)

    def again() -> Edit:
        current = servers_in(document_of(path, read_text(path)), place)
        if {name: current.get(name) for name in changes} != touched:
            raise file_refusal(path, "it has changed since it was read; try again")
        return edit_servers(path, changes, place=place, check=check)

    if before is not None and document == wanted:
        return Edit(path, before, before)
    known = tuple(secrets_in(document))
    fresh = list(dict.fromkeys(name for name, value in named_secrets(wanted) if value not in known))
    notes = [f"{path}: {_CLOSED}"] if fresh and _is_open(path) else []
    if fresh and _may_be_committed(path):
        notes.append(f"{path}: secrets in clear text ({', '.join(fresh)}), {_COMMITTED}")
    return Edit(path, before, made, bool(fresh), tuple(notes), (*known, *secrets_in(wanted)), again)


_CLOSED = "this change makes it readable by its owner only, because it writes secrets into it"
_COMMITTED = (
    "and git does not ignore this file: write '${NAME}' and set it in the environment, or "
    "add the file to .gitignore"
)


def _current_entries(document: Mapping[str, Any], place: Place, changes: Changes) -> dict[str, Any]:
    known = servers_in(document, place)
    return {name: known.get(name) for name in changes}


def _is_open(path: Path) -> bool:
    """Return whether others than its owner may read a file."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def _may_be_committed(path: Path) -> bool:
    """Return whether a file is in a git repository that does not ignore it."""
    try:
        place = path.resolve()
        if not any((folder / ".git").exists() for folder in place.parents):
            return False
        asked = ["git", "-C", str(_read_file(place.parent)), "check-ignore", "--quiet", str(place)]
        ignored = subprocess.run(asked, capture_output=True, timeout=_GIT_TIME, check=False)  # noqa: S603 - no shell
    except (OSError, subprocess.SubprocessError):
        return True  # without git nobody knows what is ignored
    return ignored.returncode != 0


def _read_file(folder: Path) -> Path:
    return folder if folder.exists() else _read_file(folder.parent)


def edit_text(path: Path, before: str, changes: Changes, place: Place) -> tuple[str, dict[str, Any]]:
    """Return the text of a file with other servers at a place, and what it says; nothing is written.

    Raises:
        ConfigError: the text is broken, or cannot be edited safely.
    """
    document = document_of(path, before)
    text, restore = _plain_lines(before)
    try:
        wanted = _apply_changes(document, place, changes)
        for name, server in changes.items():
            text = _only_change(text, (*place, name), server, toml=is_toml(path))
        made = restore(text)
        right = _drop_empty_section(document_of(path, made), place) == _drop_empty_section(wanted, place)
    except (ValueError, IndexError, KeyError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else f"{error}"
        raise _refuse_edit(path, reason) from error
    if not right:
        raise _refuse_edit(path, "something else in it would change too")
    return made, wanted


def document_of(path: Path, text: str | None) -> dict[str, Any]:
    """Parse the text of a file; a missing or blank one is an empty document.

    Raises:
        ConfigError: it is not JSON, or in a `.toml` file not TOML.
    """
    return parse(path, text) if text and text.removeprefix(BOM).strip() else {}


def _apply_changes(document: Any, place: Place, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document with the changes."""
    wanted: dict[str, Any] = copy.deepcopy(document)
    section = wanted
    for key in place:
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            raise ValueError(f"{key!r} is not an object of servers by name")  # noqa: TRY004 - of the file
    for name, server in changes.items():
        if server is None:
            section.pop(name, None)
        else:
            section[name] = copy.deepcopy(dict(server))
    return wanted


def _only_change(text: str, path: Place, server: Mapping[str, Any] | None, *, toml: bool) -> str:
    text = text or ("" if toml else "{}\n")
    if server is None:
        try:
            return remove_toml(text, path) if toml else remove_json(text, path)
        except KeyError:
            return text
    return set_toml(text, path, dict(server)) if toml else set_json(text, path, dict(server))


def _drop_empty_section(document: dict[str, Any], place: Place) -> dict[str, Any]:
    """Remove the section of servers from a document if it is empty, as TOML often has none."""
    if not place:
        return document
    inside = document.get(place[0])
    made = _drop_empty_section(inside, place[1:]) if isinstance(inside, dict) else inside
    rest = {key: value for key, value in document.items() if key != place[0]}
    return rest if made is None or made == {} else {**rest, place[0]: made}


def _plain_lines(text: str) -> tuple[str, Callable[[str], str]]:
    r"""Normalize line ends and remove a byte order mark; return the text, and a function that undoes it."""
    mark = BOM if text.startswith(BOM) else ""
    plain = text.removeprefix(BOM)
    if plain.count("\r\n") != plain.count("\n") or "\r\n" not in plain:
        return plain, lambda made: mark + made
    return plain.replace("\r\n", "\n"), lambda made: mark + made.replace("\n", "\r\n")


def _refuse_edit(path: Path, reason: str) -> ConfigError:
    message = f"it cannot be edited without harm, and is left as it is: {reason}; edit it by hand"
    return file_refusal(path, message[:500], "edit")
