"""The lock: what a team has approved of its tools and servers, in a file that it commits and reviews.

The lock keeps the approved definitions beside their digests. Digests alone would say that something changed;
whether a schema still takes what it took can only be said of the schemas themselves, and a reviewer wants to
read the words that a model will read, as they were and as they are. They stand in the lock and not in a file
beside it, since two files can be committed apart. A digest makes sure that what is compared is what was
approved: where the two do not belong together, as after a careless merge, the lock is refused.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import unified_diff
from os import PathLike
from pathlib import Path
from typing import Any

from toolcrib.errors import InvalidToolError, LockError, Problem
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId
from toolcrib.paths import file_rights, lock_path, read_file, replace_file
from toolcrib.trust.drift import PREFIXES, Drift, DriftChange, compare_parts, compare_servers
from toolcrib.trust.entries import Block, Entries, LockedServer, LockedTool, Review, Suppression
from toolcrib.trust.lock_file import parse_lock, tool_text, write_lock
from toolcrib.trust.parts import ServerParts, ToolParts
from toolcrib.trust.subset import MAX_STEPS, Allowance
from toolcrib.version import Version

MAX_BYTES = 48 << 20
"""Size limit of a lock, which is enough for more than 10,000 tools."""
_STEPS = 20 * MAX_STEPS
"""The steps that comparing all schemas of a catalogue may take; of the rest it is unknown what changed."""


@dataclass(frozen=True, slots=True)
class Lock(Entries):
    """The approved or first seen definitions of tools and servers; methods that change it return a new lock.

    >>> lock = Lock.of([Tool(name="add", input_schema={"type": "object"}, namespace="math")])
    >>> changed = Tool(name="add", input_schema={"type": "object", "required": ["a"]}, namespace="math")
    >>> [(drift.tool_id, drift.level) for drift in lock.compare([changed])]
    [('math:add', 'major')]
    """

    @classmethod
    def of(cls, tools: Iterable[Tool], *, servers: Mapping[str, ServerParts] | None = None) -> "Lock":
        """Return a lock of tools and servers as they are; nobody has approved them.

        Raises:
            InvalidToolError: two tools have the same id.
        """
        entries = [_entry(tool) for tool in tools]
        known = {
            name: LockedServer(parts := given.copied(), parts.digests())
            for name, given in (servers or {}).items()
        }
        return cls(_keyed(entries), dict(sorted(known.items())))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Lock":
        """Return the lock that a file holds.

        Raises:
            LockError: there is none, it is damaged, or its format is unknown.
        """
        try:
            _refuse_dangling(path)
            content = read_file(Path(path), MAX_BYTES)
        except OSError as error:
            raise LockError(str(path), f"it cannot be read: {error.strerror or error}") from error
        try:
            entries = parse_lock(content)
        except ValueError as error:
            raise LockError(str(path), str(error)) from error
        return cls(entries.tools, entries.servers, entries.blocked, entries.suppressions)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the lock to a file atomically.

        Raises:
            LockError: it cannot be written, or would be larger than `MAX_BYTES`.
        """
        with _changing(path) as target:
            _write(self, target)

    @classmethod
    def update(cls, path: str | PathLike[str], change: Callable[["Lock"], "Lock"]) -> "Lock":
        """Replace the lock in a file with the result of a function, and return it; other processes wait.

        If there is no file, the function gets an empty lock.

        Raises:
            LockError: the file cannot be read or written.
        """
        with _changing(path) as target:
            is_there = os.path.lexists(path)
            known = cls.load(path) if is_there else cls()
            changed = change(known)
            if changed != known or not is_there:
                _write(changed, target)
        return changed

    def compare(
        self, tools: Iterable[Tool], *, servers: Mapping[str, ServerParts] | None = None
    ) -> tuple[Drift, ...]:
        """Return the drifts of tools, and of servers if given, from the lock; those without one are left out.

        A tool that only the lock has counts as removed, and one that the lock does not have as new. If a
        removed tool and a new one have the same description and schemas, it counts as renamed.

        Raises:
            InvalidToolError: two tools have the same id.
        """
        current = _keyed([_entry(tool) for tool in tools])
        pairs = _paired(self.tools, current)
        allowance = Allowance(_STEPS)
        drifts = [
            Drift.of(str(new.id), compare_parts(old.parts, new.parts, allowance))
            for old, new in pairs
            if old is not None and new is not None and _differs(old, new)
        ]
        gone = [old for old, new in pairs if old is not None and new is None]
        fresh = [new for old, new in pairs if new is not None and old is None]
        drifts += _moved(gone, fresh)
        if servers is not None:
            drifts += self._compare_servers(servers)
        return tuple(sorted(drifts, key=lambda drift: drift.tool_id))

    def judge(self, tools: Iterable[Tool]) -> list[Drift | None]:
        """Return the drift of each tool from the entry of its name in the lock; None if there is no entry.

        A version that the lock does not have is compared with the highest that it has, since calls without a
        version would get it.
        """
        known = _by_name(self.tools)
        allowance = Allowance(_STEPS)
        return [_judge(_entry(tool), known.get(_name(tool.id)), allowance) for tool in tools]

    def judge_listed(self, name: str, parts: ServerParts) -> dict[str, Drift]:
        """Return the drifts of the prompts and templates of a server, by their ids.

        Those that the lock does not have are left out.
        """
        locked = self.servers.get(name)
        if locked is None:
            return {}
        before, after = _shared(locked.parts, parts), _shared(parts, locked.parts)
        ids = [f"{prefix}/{name}/{key}" for kind, prefix in PREFIXES.items() for key in getattr(before, kind)]
        changed = {each.tool_id: each for each in compare_servers(name, before, after.copied())}
        return {each: changed.get(each) or Drift(each, "none") for each in ids}

    def diff(self, other: "Lock", tool_id: str) -> list[str]:
        """Return the lines of a tool's entries that differ in another lock, as `diff -u` writes them."""
        name = _named(tool_id)
        old, new = (
            [
                line
                for key, each in lock.tools.items()
                if _name(each.id) == name
                for line in tool_text(key, each)
            ]
            for lock in (self, other)
        )
        return list(unified_diff(old, new, "approved", "offered", lineterm="", n=2))

    def _compare_servers(self, servers: Mapping[str, ServerParts]) -> Iterable[Drift]:
        for name in sorted(self.servers.keys() | servers.keys()):
            if name not in servers:
                yield Drift.of(f"server/{name}", [DriftChange("", "removed", "it is gone")])
            elif name not in self.servers:
                yield Drift.of(f"server/{name}", [DriftChange("", "added", "it is new")])
            else:
                yield from compare_servers(name, self.servers[name].parts, servers[name].copied())

    def approve(self, *tools: Tool, by: str, at: datetime) -> "Lock":
        """Return a lock in which tools are approved as they are, and no longer blocked.

        A tool replaces the only entry of its name, or else the entry of its version.

        Raises:
            InvalidToolError: two tools have the same id, or the approver is not named.
        """
        review = _review(by, at)
        fresh = _grouped(_entry(tool, review) for tool in tools)
        kept: list[LockedTool] = []
        for name, known in _grouped(self.tools.values()).items():
            new = fresh.get(name, [])
            versions = {entry.id.version for entry in new}
            if not len(known) == len(new) == 1:
                kept += [entry for entry in known if entry.id.version not in versions]
        entries = [*kept, *(entry for same in fresh.values() for entry in same)]
        blocked = {name: block for name, block in self.blocked.items() if name not in fresh}
        return replace(self, tools=_keyed(entries), blocked=blocked)

    def note(self, tools: Iterable[Tool]) -> "Lock":
        """Return a lock that also has these tools, as seen but not approved; existing entries stay."""
        known = {entry.id for entry in self.tools.values()}
        fresh = {entry.id: entry for entry in map(_entry, tools) if entry.id not in known}
        return replace(self, tools=_keyed([*self.tools.values(), *fresh.values()]))

    def note_server(self, name: str, parts: ServerParts) -> "Lock":
        """Return a lock that also has a server, as seen but not approved; existing entries stay."""
        fresh, known = parts.copied(), self.servers.get(name)
        if known is not None:
            old = known.parts
            told = old if old.info else fresh
            fresh = ServerParts(
                old.identity,
                told.info,
                told.instructions,
                {**fresh.prompts, **old.prompts},
                {**fresh.templates, **old.templates},
            )
        return self._with_server(name, LockedServer(fresh, fresh.digests()))

    def forget(self, name: str) -> "Lock":
        """Return a lock without a server and its tools, which need not exist."""
        left = [each for each in self.tools.values() if each.id.namespace != name]
        return replace(self.remove_server(name), tools=_keyed(left))

    def approve_server(self, name: str, parts: ServerParts, *, by: str, at: datetime) -> "Lock":
        """Return a lock in which a server is approved as it is; its tools are approved separately."""
        kept = parts.copied()
        return self._with_server(name, LockedServer(kept, kept.digests(), _review(by, at)))

    def _with_server(self, name: str, entry: LockedServer) -> "Lock":
        return replace(self, servers=dict(sorted({**self.servers, name: entry}.items())))

    def remove(self, tool_id: str) -> "Lock":
        """Return a lock without any version of a tool, which need not exist."""
        name = _named(tool_id)
        return replace(self, tools=_keyed([each for each in self.tools.values() if _name(each.id) != name]))

    def remove_server(self, name: str) -> "Lock":
        """Return a lock without a server, which need not exist."""
        return replace(self, servers={each: self.servers[each] for each in self.servers if each != name})

    def block(self, tool_id: str, *, reason: str, by: str, at: datetime) -> "Lock":
        """Return a lock in which a tool is blocked, in all versions."""
        entry = Block(_words("reason", reason), _review(by, at))
        return replace(self, blocked=dict(sorted({**self.blocked, _named(tool_id): entry}.items())))

    def suppress(self, tool_id: str, rule: str, *, reason: str, by: str, at: datetime) -> "Lock":
        """Return a lock in which the findings of one scan rule about a tool are suppressed."""
        entry = Suppression(_words("reason", reason), _review(by, at))
        known = {**self.suppressions, (_named(tool_id), _words("rule", rule)): entry}
        return replace(self, suppressions=dict(sorted(known.items())))


def is_dangling(path: str | PathLike[str]) -> bool:
    """Return whether a path is a symbolic link that leads to no file."""
    return os.path.lexists(path) and not os.path.exists(path)  # noqa: PTH110 - Path.exists raises for loops


def _refuse_dangling(path: str | PathLike[str]) -> None:
    """Refuse a link that leads nowhere: where there was a lock, its being gone is no reason to start anew."""
    if is_dangling(path):
        raise LockError(str(path), "it is a symbolic link that leads nowhere; restore its file, or remove it")


@contextmanager
def _changing(path: str | PathLike[str]) -> Iterator[Path]:
    """Hold the folder of a lock against other processes; yields the file, to which `path` may be a link."""
    try:
        _refuse_dangling(path)
        target = Path(path).resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_path(target.parent):
            yield target
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LockError(str(path), f"it cannot be written: {reason}") from error


def _write(lock: Lock, target: Path) -> None:
    content = write_lock(lock).encode()
    if len(content) > MAX_BYTES:
        raise LockError(str(target), f"it would be larger than {MAX_BYTES >> 20} MiB; lock fewer tools")
    replace_file(target, content, rights=file_rights(target), like=target)


def _entry(tool: Tool, approval: Review | None = None) -> LockedTool:
    parts = ToolParts.of(tool)
    return LockedTool(tool.id, parts, parts.digests(), approval)


def _review(by: str, at: datetime) -> Review:
    """Return an approval, in UTC and without parts of seconds."""
    return Review(_words("name of the approver", by), at.astimezone(UTC).replace(microsecond=0))


def _words(what: str, text: str) -> str:
    if not text.strip():
        raise InvalidToolError((Problem("", "text", f"the {what} must not be empty"),), record="approval")
    return text


def _name(tool_id: ToolId) -> str:
    """Return the id of a tool without its version."""
    return tool_id.name if tool_id.namespace is None else f"{tool_id.namespace}:{tool_id.name}"


def _named(tool_id: str) -> str:
    return _name(ToolId.parse(tool_id))


def _grouped(entries: Iterable[LockedTool]) -> dict[str, list[LockedTool]]:
    """Return entries by their ids without versions."""
    grouped: dict[str, list[LockedTool]] = {}
    for entry in entries:
        grouped.setdefault(_name(entry.id), []).append(entry)
    return grouped


def _keyed(entries: Iterable[LockedTool]) -> dict[str, LockedTool]:
    """Return entries by their ids, sorted; with the version where there are several of one tool.

    Raises:
        InvalidToolError: two have the same id.
    """
    keyed: dict[str, LockedTool] = {}
    for name, same in _grouped(entries).items():
        for entry in same:
            key = name if len(same) == 1 else str(entry.id)
            if key in keyed:
                problem = Problem("", "id", f"two tools have the id {key!r}; only one can be locked")
                raise InvalidToolError((problem,), entry.id.name)
            keyed[key] = entry
    return dict(sorted(keyed.items()))


def _differs(old: LockedTool, new: LockedTool) -> bool:
    return old.digests != new.digests or old.parts.version != new.parts.version


def _shared(parts: ServerParts, other: ServerParts) -> ServerParts:
    """Return the prompts and templates of a server whose names the other has too."""
    return ServerParts(
        "",
        prompts={name: each for name, each in parts.prompts.items() if name in other.prompts},
        templates={uri: each for uri, each in parts.templates.items() if uri in other.templates},
    )


def _judge(
    entry: LockedTool, versions: Mapping[str, LockedTool] | None, allowance: Allowance
) -> Drift | None:
    """Return how a tool differs from the entries of its name, the highest version first."""
    if not versions:
        return None
    known = versions.get(entry.id.version or "") or next(iter(versions.values()))
    changes = compare_parts(known.parts, entry.parts, allowance) if _differs(known, entry) else ()
    return Drift.of(str(entry.id), changes)


def _paired(
    before: Mapping[str, LockedTool], after: Mapping[str, LockedTool]
) -> list[tuple[LockedTool | None, LockedTool | None]]:
    """Return the same tools of two sides: of one version first, then by the order of their versions."""
    pairs: list[tuple[LockedTool | None, LockedTool | None]] = []
    old, new = _by_name(before), _by_name(after)
    for name in sorted(old.keys() | new.keys()):
        left, right = old.get(name, {}), new.get(name, {})
        both = left.keys() & right.keys()
        pairs += [(left[version], right[version]) for version in both]
        ones, others = ([side[each] for each in side if each not in both] for side in (left, right))
        shared = min(len(ones), len(others))
        pairs += zip(ones[:shared], others[:shared], strict=True)
        pairs += [(each, None) for each in ones[shared:]]
        pairs += [(None, each) for each in others[shared:]]
    return pairs


def _by_name(entries: Mapping[str, LockedTool]) -> dict[str, dict[str, LockedTool]]:
    """Return the versions of each tool, the highest first."""
    found: dict[str, dict[str, LockedTool]] = {}
    for entry in entries.values():
        found.setdefault(_name(entry.id), {})[entry.id.version or ""] = entry
    for name, versions in found.items():
        if len(versions) > 1:
            order = sorted(versions, key=lambda text: Version.parse(text or "0.0.0-0"), reverse=True)
            found[name] = {version: versions[version] for version in order}
    return found


def _moved(gone: list[LockedTool], fresh: list[LockedTool]) -> Iterable[Drift]:
    """Yield the drifts of tools that only one side has; the same under another name was renamed."""
    by_content: dict[Any, list[LockedTool]] = {}
    for entry in fresh:
        by_content.setdefault((entry.id.namespace, *sorted(entry.digests.items())), []).append(entry)
    names: dict[ToolId, ToolId] = {}
    for entry in gone:
        same = by_content.get((entry.id.namespace, *sorted(entry.digests.items())), [])
        if same:
            new = same.pop(0)
            names[new.id] = entry.id
            change = DriftChange("", "renamed", f"it is called {new.id} now; approve that, and remove this")
        else:
            change = DriftChange("", "removed", "it is gone")
        yield Drift.of(str(entry.id), [change])
    for entry in fresh:
        was = f"it was called {names[entry.id]}" if entry.id in names else "it is new"
        yield Drift.of(str(entry.id), [DriftChange("", "added", was)])
