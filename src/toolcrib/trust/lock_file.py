"""The text of a lock: TOML that a person can review and git can merge.

Everything is sorted, and each fact has a line of its own, so that two branches that approve different tools
merge without a conflict. Descriptions stand as they are, schemas as JSON with a line for each property. What
an editor would not show (bidirectional marks, zero-width characters, controls) is written as an escape.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any, Final

from toolcrib.model.json_text import sorted_json
from toolcrib.model.plain import parse_json
from toolcrib.model.toolid import ToolId
from toolcrib.trust.entries import Block, Entries, LockedServer, LockedTool, Review, Suppression
from toolcrib.trust.parts import FORMULA, SERVER_PARTS, TOOL_PARTS, ServerParts, ToolParts

_HEADER = """\
# tools.lock: the tools and servers that this project has approved, as they described themselves then.
# Commit it, and review changes of it as you review code: a model reads and follows these texts.
#
#   toolcrib verify          says what has changed since
#   toolcrib diff            shows it
#   toolcrib approve TOOL    takes a changed tool into this file
#
# Each part of a definition stands below its SHA-256 digest. Do not edit them: a part that does not belong to
# its digest makes the whole file invalid. After a merge conflict, keep one side of a part and its digest.
"""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONFLICT = ("\n<<<<<<< ", "\n>>>>>>> ")
_WIDE = 100
"""JSON that is longer is written over several lines."""
_MAX_DOTS = 100
"""A line of a text with more dots is written with escapes, so that no reader need take it for a key."""
_DOTS_WORK = 10**8
"""Limit of the sum of the squares of the dots of each line, which is what tomllib takes for a dotted key."""
_MAX_LINES = 1_500_000
"""Twice as many as 10,000 tools take; an empty line takes tomllib a microsecond."""
_TEXTS = frozenset({"description", "instructions"})
"""The parts that are texts; the others are JSON."""
_UNSEEN: Final = re.compile("[\u115f\u1160\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
"""Letters that show nothing, and marks that choose a form of another, which Unicode calls printable."""
_DIGEST = "_digest"
_count_dots = methodcaller("count", ".")


def write_lock(lock: Entries) -> str:
    """Return the text of a lock."""
    lines = [_HEADER, f"formula = {FORMULA}\n"]
    for name, server in sorted(lock.servers.items()):
        lines += _table(["servers", name], _server_lines(server))
    for key, tool in sorted(lock.tools.items()):
        lines += _table(["tools", key], _tool_lines(tool))
    for key, block in sorted(lock.blocked.items()):
        lines += _table(["blocked", key], [_pair("reason", block.reason), *_approval_lines(block.approval)])
    for (key, rule), each in sorted(lock.suppressions.items()):
        lines += _table(
            ["suppressions", key, rule], [_pair("reason", each.reason), *_approval_lines(each.approval)]
        )
    return "\n".join(lines)


def tool_text(key: str, tool: LockedTool) -> list[str]:
    """Return the lines of one tool as the lock has them, without who approved it and without digests.

    A digest says no more than the text below it does.
    """
    lines = _tool_lines(replace(tool, approval=None), with_digests=False)
    return "\n".join(_table(["tools", key], lines)).split("\n")


def _table(keys: list[str], lines: Iterable[str]) -> Iterator[str]:
    yield f"[{'.'.join(each if _BARE.fullmatch(each) else _quoted(each) for each in keys)}]"
    yield from lines
    yield ""


def _approval_lines(approval: Review | None) -> list[str]:
    if approval is None:
        return []
    return [
        _pair("approved_by", approval.by),
        f"approved_at = {approval.at.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}",
    ]


def _tool_lines(tool: LockedTool, *, with_digests: bool = True) -> Iterator[str]:
    yield from _approval_lines(tool.approval)
    if tool.parts.version is not None:
        yield _pair("version", tool.parts.version)
    parts = {name: getattr(tool.parts, name) for name in tool.digests}
    yield from _part_lines(tool.digests, parts, with_digests=with_digests)


def _server_lines(server: LockedServer) -> Iterator[str]:
    yield from _approval_lines(server.approval)
    yield _pair("identity", server.parts.identity)
    yield from _part_lines(server.digests, {name: getattr(server.parts, name) for name in server.digests})


def _part_lines(
    digests: Mapping[str, str], parts: Mapping[str, Any], *, with_digests: bool = True
) -> Iterator[str]:
    for name, each in digests.items():
        if with_digests:
            yield f"{name}_digest = '{each}'"
        if name in _TEXTS:
            yield _pair(name, parts[name])
        else:
            yield f"{name} = '''\n{_json_lines(parts[name])}\n'''"


def _pair(name: str, text: str) -> str:
    return f"{name} = {_literal(text)}"


def _literal(text: str) -> str:
    """Return a text as TOML: as it is where that can be done, else with escapes."""
    lines = text.split("\n")
    if all(map(_is_seen, lines)) and all(line.count(".") <= _MAX_DOTS for line in lines):
        if len(lines) == 1 and "'" not in text:
            return f"'{text}'"
        if "'''" not in text and not text.endswith("'"):
            return f"'''\n{text}'''"
    escaped = "\n".join(_escaped(line).replace('"', '\\"') for line in lines)
    return f'"""\n{escaped}"""'


def _is_seen(text: str) -> bool:
    """Return whether a text is what it looks like: no control, no mark of direction, no odd space."""
    return text.isprintable() and (text.isascii() or not _UNSEEN.search(text))


def _escaped(text: str) -> str:
    """Return a text with escapes that TOML and JSON share for what is not seen, and for backslashes."""
    crowded = text.count(".") > _MAX_DOTS
    return "".join(
        "\\\\" if each == "\\" else _code(each) if not _is_seen(each) or (crowded and each == ".") else each
        for each in text
    )


def _code(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if letter <= "\uffff" else f"\\U{ord(letter):08x}"


def _quoted(key: str) -> str:
    text = _escaped(key).replace('"', '\\"')
    return f'"{text}"'


def _json_lines(value: Any, indent: str = "") -> str:
    """Return JSON with a line for each member of what is long."""
    if not isinstance(value, dict | list) or not value:
        return _json_text(value)
    room = _WIDE - len(indent)
    if not _is_longer(value, room):
        text = _json_text(value)
        if len(text) <= room:
            return text
    deeper = indent + " "
    if isinstance(value, dict):
        members = [f"{deeper}{_json_text(key)}: {_json_lines(value[key], deeper)}" for key in sorted(value)]
    else:
        members = [f"{deeper}{_json_lines(each, deeper)}" for each in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n" + ",\n".join(members) + f"\n{indent}{right}"


def _is_longer(value: Any, room: int) -> bool:
    """Return whether a value surely takes more characters as JSON; what is long is not looked at any further.

    To write each value that is long, only to see that it is, would take more time than all the rest.
    """
    waiting = [value]
    for each in waiting:
        kind = type(each)
        if kind is str:
            room -= len(each)
        elif kind is dict:
            room -= sum(map(len, each)) + 4 * len(each)
            waiting += each.values()
        elif kind is list:
            room -= len(each)
            waiting += each
        if room < 0:
            return True
    return False


def _json_text(value: Any) -> str:
    """Return compact JSON in which everything is seen, and which a literal string of TOML can hold."""
    text = sorted_json(value)
    if not _is_seen(text):
        text = "".join(each if _is_seen(each) else _json_code(each) for each in text)
    if isinstance(value, str) and text.count(".") > _MAX_DOTS:
        text = text.replace(".", "\\u002e")
    return text.replace("'", "\\u0027") if "''" in text else text


def _json_code(letter: str) -> str:
    units = letter.encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def parse_lock(content: bytes) -> Entries:
    """Return what the text of a lock holds.

    Raises:
        ValueError: it is damaged, or its formula is not known; the message says what to do.
    """
    document = _parse_toml(content)
    if not document:
        raise ValueError("it is empty")
    formula = document.pop("formula", None)
    if formula != FORMULA or type(formula) is not int:
        shown = "none" if formula is None else repr(formula)[:40]
        advice = "; update toolcrib" if type(formula) is int and formula > FORMULA else ""
        raise ValueError(f"its formula is {shown}, and this version of toolcrib knows {FORMULA}{advice}")
    tables = {
        name: _Table(name, document.pop(name, {})) for name in ("servers", "tools", "blocked", "suppressions")
    }
    if document:
        raise ValueError(f"{next(iter(document))!r} is not a part of a lock")
    return Entries(
        {key: _read_tool(key, table) for key, table in tables["tools"].tables()},
        {key: _read_server(table) for key, table in tables["servers"].tables()},
        {_tool_key(key): Block(*_read_decision(table)) for key, table in tables["blocked"].tables()},
        {
            (_tool_key(key), rule): Suppression(*_read_decision(table))
            for key, rules in tables["suppressions"].tables()
            for rule, table in rules.tables()
        },
    )


def _parse_toml(content: bytes) -> dict[str, Any]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if text.count("\n") > _MAX_LINES:
        raise ValueError(f"it is not a lock: it has more than {_MAX_LINES:,} lines")
    if any(mark in text for mark in _CONFLICT):
        raise ValueError("it holds the marks of a merge conflict; keep one side of each")
    if sum(dots**2 for dots in map(_count_dots, text.split("\n")) if dots > _MAX_DOTS) > _DOTS_WORK:
        raise ValueError("it is not a lock: a line has too many dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise ValueError(f"it is not TOML: {reason}"[:500]) from error


class _Table:
    """A table of the document, from which each value is taken once; what is left over is a mistake."""

    def __init__(self, name: str, content: Any) -> None:
        self.name = name
        if not isinstance(content, dict):
            raise self.fault(f"must be a table, not {type(content).__name__}")
        self._left = dict(content)

    def fault(self, reason: str) -> ValueError:
        """Return the error for something in this table."""
        return ValueError(f"[{self.name[:200]}] {reason}")

    def tables(self) -> Iterator[tuple[str, "_Table"]]:
        """Yield the tables in this one, sorted by their names."""
        for name in sorted(self._left):
            yield name, _Table(f"{self.name}.{name}", self._left[name])

    def take(self, name: str, kind: type = str) -> Any:
        """Return a value of a kind, or None where there is none."""
        value = self._left.pop(name, None)
        if value is not None and type(value) is not kind:
            raise self.fault(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        return value

    def need(self, name: str, kind: type = str) -> Any:
        """Return a value that must be there."""
        value = self.take(name, kind)
        if value is None:
            raise self.fault(f"has no {name}")
        return value

    def parts(self, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the parts that are there, and their digests, which may or may not be the right ones."""
        found: dict[str, Any] = {}
        digests: dict[str, str] = {}
        for name in names:
            text, known = self.take(name), self.take(f"{name}{_DIGEST}")
            if (text is None) is not (known is None):
                raise self.fault(f"has {name if known is None else name + _DIGEST} without the other")
            if text is not None:
                found[name] = text if name in _TEXTS else self._json(name, text)
                digests[name] = known
        return found, digests

    def _json(self, name: str, text: str) -> dict[str, Any]:
        try:
            value = parse_json(text)
        except ValueError as error:
            raise self.fault(f"{name} is not JSON: {error}"[:300]) from error
        if not isinstance(value, dict):
            raise self.fault(f"{name} must be a JSON object, not {type(value).__name__}")
        return value

    def approval(self) -> Review | None:
        """Return who approved what the table is about; None where nobody did."""
        by, at = self.take("approved_by"), self.take("approved_at", datetime)
        if (by is None) is not (at is None):
            raise self.fault("must have both approved_by and approved_at, or neither")
        if at is not None and at.tzinfo is None:
            raise self.fault("approved_at must have a time zone, such as 2026-11-18T10:00:00Z")
        return None if by is None else Review(by, at.astimezone(UTC))

    def end(self) -> None:
        """Refuse what was not taken."""
        if self._left:
            raise self.fault(f"{next(iter(self._left))!r} is not a part of it")

    def check(self, digests: Mapping[str, str], right: Mapping[str, str]) -> None:
        """Refuse parts that do not belong to their digests."""
        for name, known in digests.items():
            if right.get(name) != known:
                raise self.fault(
                    f"{name} does not belong to its digest: one of them was edited, or merged without the "
                    "other; approve it again, or restore both"
                )


def _read_tool(key: str, table: _Table) -> LockedTool:
    approval, version = table.approval(), table.take("version")
    found, digests = table.parts(TOOL_PARTS)
    table.end()
    try:
        known = ToolId.parse(key)
        tool_id = ToolId(known.namespace, known.name, version)
        right_key = known.version is None or str(tool_id) == key
    except ValueError as error:
        raise table.fault(f"names no tool: {error}") from error
    if not right_key:
        raise table.fault(f"has another version: {version}")
    if "input" not in found:
        raise table.fault("has no input")
    parts = ToolParts(version, **found)
    try:
        table.check(digests, parts.digests())
    except RecursionError as error:
        raise table.fault("is nested too deep") from error
    return LockedTool(tool_id, parts, digests, approval)


def _read_server(table: _Table) -> LockedServer:
    approval, identity = table.approval(), table.need("identity")
    found, digests = table.parts(SERVER_PARTS)
    table.end()
    for name in ("prompts", "templates"):
        if not all(isinstance(each, dict) for each in found.get(name, {}).values()):
            raise table.fault(f"{name} must be JSON objects by name")
    parts = ServerParts(identity, **found)
    try:
        table.check(digests, parts.digests())
    except RecursionError as error:
        raise table.fault("is nested too deep") from error
    return LockedServer(parts, digests, approval)


def _read_decision(table: _Table) -> tuple[str, Review]:
    reason, approval = table.need("reason"), table.approval()
    table.end()
    if approval is None:
        raise table.fault("must have approved_by and approved_at")
    return reason, approval


def _tool_key(key: str) -> str:
    """Return the id of a tool without a version, as tables of decisions have it."""
    tool_id = ToolId.parse(key)
    if tool_id.version is not None:
        raise ValueError(f"{key!r} must have no version: a decision about a tool holds for all of them")
    return key
