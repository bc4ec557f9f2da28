"""Approvals of servers and APIs, changes since, and the decisions about them.

`crib.trust` is what the commands `lock`, `verify`, `diff`, `approve`, `block` and `require` do, for programs
and the console. Each function returns frozen records with `to_json`:

    report = await crib.trust.report()      # what has changed, what is withheld, and what the scan finds
    await crib.trust.lock(by="anna")        # write `tools.lock`, or add to it what is new
    await crib.trust.approve("github:list_issues", by="anna")
    await crib.trust.block("github:delete_repo", reason="use the web page instead", by="anna")
    await crib.trust.suppress("github:list_issues", "injection", reason="it quotes an attack", by="anna")
    await crib.trust.scan()                 # what the scan finds in each definition, withheld or not
    await crib.trust.require("github:list_issues@1.2")

A decision is written to `tools.lock` beside the configuration file, and holds at once: what is approved can
be called, what is blocked cannot. What servers offer is what they have listed so far; `crib.ready()` waits
for all. A subject is the id of a tool without its version, `server/NAME`, `prompt/SERVER/NAME` or
`template/SERVER/URI`.

`toolcrib.trust` and the gate are imported in the functions that need them, since most cribs have no lock.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio
from anyio import to_thread

from toolcrib.crib.engine import Engine
from toolcrib.crib.shaped import ShapedScope
from toolcrib.crib.visible import scope_of
from toolcrib.errors import CribStateError, LockError, ToolNotFoundError
from toolcrib.execution.mcp.content import ContentKind, ServerContent
from toolcrib.model import Tool
from toolcrib.model.plain import pointer
from toolcrib.model.record import Record
from toolcrib.model.toolid import without_version
from toolcrib.version import Constraint, Version

if TYPE_CHECKING:
    from toolcrib.trust import Drift, Lock, ScanReport, ServerParts
    from toolcrib.trust.entries import LockedServer

Level = Literal["none", "patch", "minor", "major"]
RequirementState = Literal["ready", "changed", "withheld", "other", "poisoned", "missing", "unavailable"]
_LEVELS: tuple[Level, ...] = ("none", "patch", "minor", "major")
_LIST_SECONDS = 10.0
"""For how long the prompts and templates of a server are waited for."""
_MIN_DIGEST = 12
"""Characters of a digest that are enough to require it."""
_SERVER = frozenset({"server"})


def _now() -> datetime:
    return datetime.now(UTC)


class TrustChange(Record):
    """One difference from what was approved."""

    path: str
    """The location of the change, as a JSON Pointer into the definition."""
    kind: str
    """The kind of change, such as `words` or `argument-required`."""
    level: Level
    """The level of the change."""
    message: str
    """The change in one sentence; it may quote the server."""


class TrustDrift(Record):
    """The difference between a definition and the approved one, or else the first one seen."""

    id: str
    """The id of a tool, `server/NAME`, `prompt/SERVER/NAME` or `template/SERVER/URI`."""
    level: Level
    """The highest level of its changes."""
    changes: tuple[TrustChange, ...]
    """The changes, the most important first."""
    lines: tuple[str, ...] = ()
    """The lines of the lock that an approval would change, as `diff -u` writes them; for tools only."""


class TrustFinding(Record):
    """One thing in a definition that may mislead a model, as the scan found it."""

    id: str
    """The id of a tool without its version, or the name of a server, for findings in its own text."""
    verdict: Literal["suspicious", "poisoned"]
    """The verdict on all findings in that definition."""
    rule: str
    """The name of the rule, by which a finding is suppressed."""
    severity: Literal["hard", "soft"]
    """`hard`: text that is hidden or encoded, or instructions about other tools, files or secrets."""
    path: str
    """The location, as a JSON Pointer: into the definition of a tool, or `/instructions`, `/prompts/NAME/...`
    and `/templates/URI/...` of a server."""
    message: str
    """The effect of the text."""
    excerpt: str
    """An excerpt of the text."""


class TrustWithheld(Record):
    """Something that may not be used, and the reason."""

    id: str
    """The id of a tool, `server/NAME`, `prompt/SERVER/NAME`, `template/SERVER/URI` or `resource/SERVER/URI`,
    the last of which is only left out of lists."""
    reason: str
    """The reason, and the advice."""


class TrustReport(Record):
    """A comparison of the present definitions with the approved ones."""

    lock: str | None
    """The path of the lock, which may not exist; None without a configuration file."""
    is_locked: bool
    """Whether there is a lock."""
    level: Level
    """The highest level of all drifts."""
    tools: int
    """The number of tools of the servers and APIs that answered."""
    drifts: tuple[TrustDrift, ...] = ()
    """Differences from the lock; without a lock, from the first definitions seen."""
    withheld: tuple[TrustWithheld, ...] = ()
    """Withheld tools, prompts and templates."""
    blocked: dict[str, str]
    """The blocked tools with the reasons."""
    findings: tuple[TrustFinding, ...] = ()
    """Findings of the scan that are not suppressed, the worst first."""
    unanswered: tuple[str, ...] = ()
    """The servers and APIs that have not answered; they are not compared."""

    @property
    def is_poisoned(self) -> bool:
        """Whether the scan finds a definition that is designed to mislead a model."""
        return any(each.verdict == "poisoned" for each in self.findings)


class TrustEdit(Record):
    """The result of a decision."""

    lock: str
    """The path of the lock."""
    subjects: tuple[str, ...]
    """The subjects of the decision."""
    left: tuple[str, ...] = ()
    """The subjects that still differ from the lock."""
    findings: tuple[TrustFinding, ...] = ()
    """Findings of the scan in the approved and the rejected definitions."""
    poisoned: tuple[str, ...] = ()
    """Subjects left out because the scan calls them poisoned; they must be approved by name."""
    unanswered: tuple[str, ...] = ()
    """The servers and APIs that have not answered."""


class TrustRequirement(Record):
    """Whether a tool is ready to be used."""

    wanted: str
    """The requested tool."""
    state: RequirementState
    """A `changed` tool can be called all the same; an `other` one has another version or digest; the server
    of an `unavailable` one does not answer."""
    level: Level = "none"
    """The level of the change since its approval."""
    reason: str = ""
    """The reason why it is not ready."""
    id: str | None = None
    """The tool that was found."""
    digest: str | None = None
    """The digest of its definition, by which it can be required."""


@dataclass(frozen=True, slots=True)
class _Offers:
    """The present definitions of the servers and APIs that have answered, withheld or not."""

    tools: dict[str, Tool]
    """By their ids."""
    servers: "dict[str, ServerParts]"
    silent: tuple[str, ...]
    """Servers and APIs that are not compared."""
    unanswered: tuple[str, ...]
    """Those of them that have not answered; the trust of the others is off."""
    families: Mapping[str, str]
    """For each server the first that is started or reached alike: their tools are no clones of each other."""

    def in_family(self, tool: Tool) -> Tool:
        """Return a tool as one of the first server of its family."""
        first = self.families.get(tool.namespace or "")
        return tool if first in {None, tool.namespace} else tool.replace(namespace=first)


class _Scanned(NamedTuple):
    """The scan report of a definition."""

    subject: str
    """As it is approved."""
    owner: str
    """The tool without its version, or the server, for which findings are accepted."""
    report: "ScanReport"

    @property
    def is_poisoned(self) -> bool:
        """Whether it is made to mislead a model."""
        return self.report.verdict == "poisoned"

    @property
    def findings(self) -> Iterator[TrustFinding]:
        """The findings, as they are reported."""
        kind, _, rest = self.subject.partition("/")
        place = pointer([f"{kind}s", rest.partition("/")[2]]) if kind in {"prompt", "template"} else ""
        if self.report.verdict != "clean":
            for each in self.report.findings:
                told = each.to_json() | {"path": place + each.path}
                yield TrustFinding(id=self.owner, verdict=self.report.verdict, **told)


@dataclass(frozen=True, slots=True)
class _Decision:
    """A new lock, and its subjects."""

    lock: "Lock"
    subjects: tuple[str, ...]
    """The subjects of the decision."""
    findings: tuple[TrustFinding, ...] = ()
    poisoned: tuple[str, ...] = ()
    """Subjects that were left out."""


class Trust:
    """Reports on the tools of servers and APIs, and records decisions on their use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def report(self) -> TrustReport:
        """Return the changes since the approval, the withheld items, and the findings of the scan.

        Raises:
            LockError: the lock cannot be read.
        """
        offers = await self._read_offers()
        return await to_thread.run_sync(self._report, offers)

    async def lock(self, *, by: str, force: bool = False) -> TrustEdit:
        """Write a lock of all definitions, or add the new ones; with `force`, approve all changes too.

        Blocks and suppressed findings stay, and so do the entries of servers that have not answered.
        Definitions that the scan calls poisoned are left out; approve them by name with `approve`.

        Raises:
            LockError: the lock cannot be read, and `force` is not given; or it cannot be written.
        """
        offers = await self._read_offers()
        return await self._change(offers, partial(_Approval(offers, by).lock_all, force=force), is_new=force)

    async def approve(self, *subjects: str, by: str, everything: bool = False) -> TrustEdit:
        """Approve subjects as they are now; remove missing ones from the lock, and unblock blocked tools.

        The first approval of a tool approves its server too. `everything` approves all differences, except
        for subjects that are blocked or that the scan calls poisoned, which must be named.

        Raises:
            ToolNotFoundError: no server or API offers it, and it is not in the lock.
            LockError: the lock cannot be read or written.
        """
        offers = await self._read_offers()
        offered = {*map(without_version, offers.tools)}
        for subject in subjects:
            if without_version(subject) not in offered:
                self._refuse_seen_name(subject)
        return await self._change(
            offers, partial(_Approval(offers, by).approve, subjects=subjects, everything=everything)
        )

    async def block(self, tool_id: str, *, reason: str, by: str, absent: bool = False) -> TrustEdit:
        """Block a tool for all callers, whatever its definition; approving it removes the block.

        Raises:
            ToolNotFoundError: no tool with this id is known, and `absent` does not allow that; or it is the
                name that a toolset gives a tool, whose own id is required.
            LockError: the lock cannot be read or written.
        """
        offered = self._engine.listed_tools().values()
        listed = {without_version(str(tool.id)) for tools in offered for tool in tools}
        listed |= {without_version(each.id) for each in self._engine.index.list_all()}

        def change(lock: "Lock") -> _Decision:
            known = (
                listed | {without_version(str(each.id)) for each in lock.tools.values()} | lock.blocked.keys()
            )
            if without_version(tool_id) not in known:
                self._refuse_seen_name(tool_id)
                if not absent:
                    raise ToolNotFoundError(tool_id, _close_to(without_version(tool_id), known))
            return _Decision(lock.block(tool_id, reason=reason, by=by, at=_now()), (tool_id,))

        return await self._change(None, change)

    def _refuse_seen_name(self, subject: str) -> None:
        """Refuse the name that a toolset gives a tool: the lock knows tools by their own ids.

        Raises:
            ToolNotFoundError: it is one, with the id of the tool.
        """
        for name in self._engine.settings.toolsets:
            scope = scope_of(name, self._engine.settings)
            own_id = (
                scope.original(without_version(subject))
                if isinstance(scope, ShapedScope)
                else without_version(subject)
            )
            if own_id != without_version(subject):
                reason = (
                    f"it is the name of {own_id!r} in the toolset {name!r}; the lock uses the tools' own ids"
                )
                raise ToolNotFoundError(subject, (own_id,), reason)

    async def suppress(self, subject: str, *rules: str, reason: str, by: str) -> TrustEdit:
        """Suppress findings of the given scan rules, in a tool or in all text of a server.

        A server is given by its name, by `server/NAME`, or by one of its prompts or templates.

        Raises:
            LockError: the lock cannot be read or written.
        """
        kind, _, rest = subject.partition("/")
        owner = rest.partition("/")[0] if kind in {"server", "prompt", "template"} and rest else subject
        if owner not in {str(tool.id) for tools in self._engine.listed_tools().values() for tool in tools}:
            self._refuse_seen_name(owner)

        def change(lock: "Lock") -> _Decision:
            for rule in rules:
                lock = lock.suppress(owner, rule, reason=reason, by=by, at=_now())
            return _Decision(lock, (owner,))

        return await self._change(None, change)

    async def require(self, *wanted: str) -> tuple[TrustRequirement, ...]:
        """Return whether tools are ready: available, with the right version or digest, and as approved.

        Tools are given as `github:list`, as `github:list@1.2`, with any version range, or as
        `github:list@sha256:...`, with at least twelve characters of the digest.

        Raises:
            LockError: the lock cannot be read.
            InvalidConstraintError: a version range is invalid.
        """
        offers = await self._read_offers()
        report = await to_thread.run_sync(self._report, offers)
        index, gate = self._engine.index, self._engine.gate
        tools = {each.id: index.get(each.id) for each in index.list_all()} | offers.tools
        withheld = {each.id: each.reason for each in report.withheld}
        faults = {name: fault for name in self._engine.names if gate and (fault := gate.fault(name))}
        return tuple(_require(each, tools, report, withheld, faults) for each in wanted)

    async def scan(self) -> "dict[str, ScanReport]":
        """Return the findings of the scan in each definition, withheld or not.

        The result covers all tools by their ids, and the instructions, prompts and templates of servers by
        their subjects, even if trust is off. Suppressed findings are left out.

        Raises:
            LockError: the lock cannot be read.
        """
        offers = await self._read_offers(are_all_read=True)
        index = self._engine.index
        own = {each.id: index.get(each.id) for each in index.list_all()}
        offers = replace(offers, tools=own | offers.tools)

        from toolcrib.trust import Lock  # noqa: PLC0415 - see the module

        def run() -> "dict[str, ScanReport]":
            found = _scan_all(self._read_lock() or Lock(), offers)
            others = (each.subject for each in found[len(offers.tools) :])
            return dict(zip((*offers.tools, *others), (each.report for each in found), strict=True))

        return await to_thread.run_sync(run)

    async def reread(self) -> None:
        """Reload a lock that another program has written; a gateway does this automatically."""
        await self._engine.reread_lock()

    # What is offered, and what is approved

    async def _read_offers(self, *, are_all_read: bool = False) -> _Offers:
        """Return the present definitions; those of servers without trust only with `are_all_read`."""
        from toolcrib.crib.gate import identity_of  # noqa: PLC0415 - see the module
        from toolcrib.trust import ServerParts  # noqa: PLC0415 - see the module

        engine, settings = self._engine, self._engine.settings
        listed = engine.listed_tools()
        configs: dict[str, Any] = {**settings.servers, **settings.openapi}
        free = {name for name, each in configs.items() if each.trust == "off" and not are_all_read}
        parts: dict[str, ServerParts] = {}
        for name in sorted(listed.keys() - free):
            parts[name] = ServerParts(identity_of(name, settings))
            if name in settings.servers and engine.servers is not None:
                parts[name] = replace(
                    parts[name],
                    info=engine.servers.server_info(name),
                    instructions=ServerContent(engine.servers).instructions(name) or None,
                    prompts=await self._read_listed(name, "prompts"),
                    templates=await self._read_listed(name, "templates"),
                )
        tools = {str(tool.id): tool for name in parts for tool in listed[name]}
        unanswered = engine.names - listed.keys() - free
        alike = {name: config.identity for name, config in settings.servers.items()}
        first = {identity: name for name, identity in reversed(alike.items())}
        return _Offers(
            tools,
            parts,
            silent=tuple(sorted(unanswered | free)),
            unanswered=tuple(sorted(unanswered)),
            families={name: first[identity] for name, identity in alike.items()},
        )

    async def _read_listed(self, name: str, kind: ContentKind) -> dict[str, Any]:
        """Return the prompts or templates of a server; those of the lock where they cannot be listed."""
        from toolcrib.crib.gate import key_of  # noqa: PLC0415 - see the module

        lists, servers = self._engine.lists, self._engine.servers
        source = (name, None)
        items = None
        if servers is not None and not self._engine.settings.servers[name].is_personal:
            if lists.listed(source, kind) is None or lists.is_changed(source, kind):
                done = lists.fetch(source, kind, partial(ServerContent(servers).listed, name, kind))
                with anyio.move_on_after(_LIST_SECONDS):
                    await done.wait()
            items = lists.listed(source, kind)
        if items is not None:
            return {key_of(each): each.to_json(without=_SERVER) for each in items}
        gate = self._engine.gate
        locked = None if gate is None else gate.lock.servers.get(name)
        return {} if locked is None else dict(getattr(locked.parts, kind))

    @property
    def _path(self) -> Path:
        path = self._engine.settings.lock_file
        if path is None:
            raise CribStateError("there is no configuration file, and so no lock beside it")
        return path

    async def _change(
        self, offers: _Offers | None, change: "Callable[[Lock], _Decision]", *, is_new: bool = False
    ) -> TrustEdit:
        """Change the lock, have it read again, and return the result."""
        from toolcrib.crib.gate import load_lock  # noqa: PLC0415 - see the module
        from toolcrib.trust import Lock  # noqa: PLC0415 - see the module

        path = self._path

        def write() -> _Decision:
            made: list[_Decision] = []

            def edit(lock: Lock) -> Lock:
                made.append(change(lock))
                return made[-1].lock

            try:
                Lock.update(path, edit)
            except LockError:
                if not is_new:
                    if os.path.lexists(path):
                        load_lock(path)  # says how to repair a file that cannot be read
                    raise
                edit(Lock()).save(path)
            return made[-1]

        done = await to_thread.run_sync(write)
        await self._engine.reread_lock()
        edit = TrustEdit(
            lock=str(path), subjects=done.subjects, findings=done.findings, poisoned=done.poisoned
        )
        if offers is None:
            return edit
        left = await to_thread.run_sync(_compare, done.lock, offers)
        return edit.replace(left=tuple(each.tool_id for each in left), unanswered=offers.unanswered)

    def _report(self, offers: _Offers) -> TrustReport:
        from toolcrib.trust import Lock  # noqa: PLC0415 - see the module

        path, gate = self._engine.settings.lock_file, self._engine.gate
        locked = self._read_lock()
        lock = locked or Lock()
        seen = Lock() if gate is None else gate.seen
        drifts = tuple(_find_drifts(locked, seen, offers))
        return TrustReport(
            lock=None if path is None else str(path),
            is_locked=locked is not None,
            level=max((each.level for each in drifts), key=_LEVELS.index, default="none"),
            tools=len(offers.tools),
            drifts=drifts,
            withheld=tuple(self._find_withheld()),
            blocked={name: block.reason for name, block in lock.blocked.items()},
            findings=_list_findings(_scan(lock, offers)),
            unanswered=offers.unanswered,
        )

    def _read_lock(self) -> "Lock | None":
        """Return the lock; None if there is none."""
        from toolcrib.crib.gate import load_lock  # noqa: PLC0415 - see the module

        path = self._engine.settings.lock_file
        return load_lock(path) if path is not None and os.path.lexists(path) else None

    def _find_withheld(self) -> Iterator[TrustWithheld]:
        gate, lists = self._engine.gate, self._engine.lists
        kinds: tuple[ContentKind, ...] = ("prompts", "templates", "resources")
        for name in sorted(self._engine.names if gate is not None else ()):
            assert gate is not None  # noqa: S101 - there are no names without it
            if fault := gate.fault(name):
                yield TrustWithheld(id=f"server/{name}", reason=fault)
            found = [*gate.withheld_tools(name).values()]
            for kind in kinds:
                found += lists.withheld((name, None), kind).values()
            yield from (TrustWithheld(id=each.id, reason=each.reason) for each in found)


def _compare(lock: "Lock", offers: _Offers) -> "list[Drift]":
    """Return the differences from a lock, except for servers that are not compared."""
    spaces = tuple(f"{name}:" for name in offers.silent)
    subjects = {f"server/{name}" for name in offers.silent}
    listed = tuple(f"{kind}/{name}/" for kind in ("prompt", "template") for name in offers.silent)
    return [
        drift
        for drift in lock.compare(offers.tools.values(), servers=offers.servers)
        if not drift.tool_id.startswith((*spaces, *listed)) and drift.tool_id not in subjects
    ]


def _find_drifts(lock: "Lock | None", seen: "Lock", offers: _Offers) -> Iterator[TrustDrift]:
    """Yield the differences from a lock, or from the first definitions seen of tools that no lock has."""
    from toolcrib.trust import Lock  # noqa: PLC0415 - see the module

    offered = Lock.of(offers.tools.values())
    known = {} if lock is None else {drift.tool_id: drift for drift in _compare(lock, offers)}
    names = set() if lock is None else {without_version(str(each.id)) for each in lock.tools.values()}
    tools = [tool for tool in offers.tools.values() if without_version(str(tool.id)) not in names]
    changed = {drift.tool_id: drift for drift in seen.judge(tools) if drift and drift.level != "none"}
    known |= changed
    for drift in sorted(known.values(), key=lambda each: each.tool_id):
        before = seen if drift.tool_id in changed else lock
        is_tool = before is not None and "/" not in drift.tool_id
        yield TrustDrift(
            id=drift.tool_id,
            level=drift.level,
            changes=tuple(
                TrustChange(path=each.path, kind=each.kind, level=each.level, message=each.message)
                for each in drift.changes
            ),
            lines=tuple(before.diff(offered, drift.tool_id)) if before is not None and is_tool else (),
        )


def _scan(lock: "Lock", offers: _Offers) -> list[_Scanned]:
    """Return the scan's findings in the present definitions that are not suppressed."""
    return [each for each in _scan_all(lock, offers) if each.report.verdict != "clean"]


def _scan_all(lock: "Lock", offers: _Offers) -> list[_Scanned]:
    """Return the reports on the present definitions, tools first, without suppressed findings."""
    from toolcrib.trust import KnownTools, scan, scan_definition, scan_text  # noqa: PLC0415 - see the module

    known = KnownTools(map(offers.in_family, offers.tools.values()))
    found = [
        _Scanned(name := without_version(tool_id), name, scan(offers.in_family(tool), others=known))
        for tool_id, tool in offers.tools.items()
    ]
    for name, parts in offers.servers.items():
        if parts.instructions:
            found.append(_Scanned(f"server/{name}", name, scan_text(parts.instructions)))
        for kind, listed in (("prompt", parts.prompts), ("template", parts.templates)):
            found += [
                _Scanned(f"{kind}/{name}/{key}", name, scan_definition(definition))
                for key, definition in listed.items()
            ]
    accepted: defaultdict[str, list[str]] = defaultdict(list)
    for owner, rule in lock.suppressions:
        accepted[owner].append(rule)
    return [each._replace(report=each.report.without(accepted[each.owner])) for each in found]


def _list_findings(scanned: Iterable[_Scanned]) -> tuple[TrustFinding, ...]:
    """Return findings, the worst first."""
    found = [finding for each in scanned for finding in each.findings]
    return tuple(sorted(found, key=lambda each: (each.verdict != "poisoned", each.id, each.severity)))


@dataclass(frozen=True, slots=True)
class _Approval:
    """An approval of present definitions."""

    offers: _Offers
    by: str
    at: datetime = field(default_factory=_now)
    left_out: set[str] = field(default_factory=set)
    """Subjects that were excluded from the approval because the scan calls them poisoned."""

    def lock_all(self, lock: "Lock", *, force: bool) -> _Decision:
        """Add new definitions, or with `force` approve all; blocks stay."""
        offers, before = self.offers, lock
        scanned = _scan(lock, offers)
        refused = self._find_refused(lock, scanned)
        if force:
            for name in {*offers.servers, *lock.servers} - {*offers.silent}:
                lock = lock.forget(name)
            kept = {
                key: each for key, each in before.tools.items() if without_version(str(each.id)) in refused
            }
            lock = replace(lock, tools=dict(sorted({**lock.tools, **kept}.items())))
        names = {without_version(str(each.id)) for each in lock.tools.values()}
        tools = [tool for tool_id, tool in offers.tools.items() if without_version(tool_id) not in names]
        self.left_out.update({without_version(str(tool.id)) for tool in tools} & refused)
        self.left_out.update(
            {without_version(str(each.id)) for each in before.tools.values()} & refused if force else ()
        )
        tools = [tool for tool in tools if without_version(str(tool.id)) not in refused]
        lock = replace(lock.approve(*tools, by=self.by, at=self.at), blocked=before.blocked)
        subjects = [str(tool.id) for tool in tools]
        for name, parts in offers.servers.items():
            known = lock.servers.get(name)
            merged = parts
            if known is not None:
                prompts, templates = known.parts.prompts, known.parts.templates
                merged = replace(
                    known.parts,
                    prompts={**parts.prompts, **prompts},
                    templates={**parts.templates, **templates},
                )
            merged = self._without(refused, name, merged, before.servers.get(name))
            if known is None or merged != known.parts:
                lock = self._take_server(lock, name, merged)
                subjects.append(f"server/{name}")
        return self._decide(lock, sorted(subjects), scanned)

    def approve(self, lock: "Lock", subjects: Sequence[str], *, everything: bool) -> _Decision:
        """Take subjects as they are now."""
        scanned = _scan(lock, self.offers)
        refused = self._find_refused(lock, scanned) - {*map(without_version, subjects)}
        wanted = [*subjects]
        if everything:
            changed = {without_version(drift.tool_id): None for drift in _compare(lock, self.offers)}
            self.left_out.update(refused & changed.keys())
            wanted += [each for each in changed if each not in lock.blocked and each not in refused]
        for subject in dict.fromkeys(wanted):
            if "/" in subject:
                lock = self._take_part(lock, subject, refused)
            else:
                lock = self._take_tool(lock, subject, refused)
        return self._decide(lock, dict.fromkeys(wanted), scanned)

    def _find_refused(self, lock: "Lock", scanned: Iterable[_Scanned]) -> set[str]:
        """Return the subjects that the scan calls poisoned, except for those the lock has unchanged."""
        changed = {without_version(drift.tool_id) for drift in _compare(lock, self.offers)}
        poisoned = [each for each in scanned if each.is_poisoned]
        new = {each.subject for each in poisoned if "/" in each.subject and each.owner not in lock.servers}
        return new | {each.subject for each in poisoned if each.subject in changed}

    def _decide(self, lock: "Lock", subjects: Iterable[str], scanned: Iterable[_Scanned]) -> _Decision:
        taken = tuple(subjects)
        told = {*map(without_version, taken), *self.left_out}
        found = [each for each in scanned if each.subject in told or f"server/{each.owner}" in told]
        return _Decision(lock, taken, _list_findings(found), tuple(sorted(self.left_out)))

    def _without(
        self, refused: Collection[str], name: str, parts: "ServerParts", known: "LockedServer | None"
    ) -> "ServerParts":
        """Return the definitions of a server, with those of the lock in place of refused ones."""

        def choose(kind: str, offered: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
            out = {
                key for key in offered if f"{kind}/{name}/{key}" in refused and offered[key] != old.get(key)
            }
            self.left_out.update(f"{kind}/{name}/{key}" for key in out)
            chosen = {key: old.get(key) if key in out else offered[key] for key in offered}
            return {key: each for key, each in chosen.items() if each is not None}

        old = None if known is None else known.parts
        instructions = parts.instructions
        if f"server/{name}" in refused and (old is None or instructions != old.instructions):
            self.left_out.add(f"server/{name}")
            instructions = None if old is None else old.instructions
        return replace(
            parts,
            instructions=instructions,
            prompts=choose("prompt", parts.prompts, {} if old is None else old.prompts),
            templates=choose("template", parts.templates, {} if old is None else old.templates),
        )

    def _take_tool(self, lock: "Lock", subject: str, refused: Collection[str]) -> "Lock":
        """Approve a tool in all versions, and its server where the lock does not have it."""
        offers, name = self.offers, without_version(subject)
        tools = [tool for tool_id, tool in offers.tools.items() if without_version(tool_id) == name]
        if not tools and not any(without_version(str(each.id)) == name for each in lock.tools.values()):
            raise ToolNotFoundError(subject, _close_to(name, map(without_version, offers.tools)))
        lock = lock.remove(name).approve(*tools, by=self.by, at=self.at)
        server = name.partition(":")[0]
        if tools and server in offers.servers and server not in lock.servers:
            return self._take_server(
                lock, server, self._without(refused, server, offers.servers[server], None)
            )
        return lock

    def _take_part(self, lock: "Lock", subject: str, refused: Collection[str]) -> "Lock":
        """Approve a server, a prompt or a template."""
        kind, _, rest = subject.partition("/")
        name, _, key = (rest, "", "") if kind == "server" else rest.partition("/")
        parts, known = self.offers.servers.get(name), lock.servers.get(name)
        if kind not in {"server", "prompt", "template"}:
            reason = "an id with a slash is server/NAME, prompt/SERVER/NAME or template/SERVER/URI"
            raise ToolNotFoundError(subject, reason=reason)
        if name in self.offers.silent or not (parts or known):
            raise ToolNotFoundError(subject, *self._explain_server(name, subject))
        if parts is None:
            return lock.forget(name)
        if kind == "server":
            return self._take_server(lock, name, self._without(refused, name, parts, known))
        prompts, templates = ({}, {}) if known is None else (known.parts.prompts, known.parts.templates)
        prompts, templates = dict(prompts), dict(templates)
        locked, offered = (prompts, parts.prompts) if kind == "prompt" else (templates, parts.templates)
        if key not in locked and key not in offered:
            close = tuple(f"{kind}/{name}/{each}" for each in _close_to(key, (*locked, *offered)))
            raise ToolNotFoundError(subject, close, "neither its server nor the lock has it")
        if known is None:
            return self._take_server(lock, name, self._without(refused, name, parts, None))
        locked.pop(key, None)
        locked.update({key: dict(offered[key])} if key in offered else {})
        return self._take_server(lock, name, replace(known.parts, prompts=prompts, templates=templates))

    def _explain_server(self, name: str, subject: str) -> tuple[tuple[str, ...], str]:
        """Return the subjects that may be meant, and why nothing of this server can be approved."""
        from toolcrib.model.suggest import there_are  # noqa: PLC0415 - only for those who mistype

        offers = self.offers
        if name in offers.unanswered:
            return (), f"the server {name!r} does not answer"
        if name in offers.silent:
            return (), f"trust is off for {name!r}, so there is nothing to approve"
        close = tuple(subject.replace(name, each, 1) for each in _close_to(name, offers.servers))
        return close, f"no server is called {name!r}" + ("" if close else there_are(sorted(offers.servers)))

    def _take_server(self, lock: "Lock", name: str, parts: "ServerParts") -> "Lock":
        return lock.approve_server(name, parts, by=self.by, at=self.at)


def _close_to(name: str, ids: Iterable[str]) -> tuple[str, ...]:
    from toolcrib.model.suggest import nearest  # noqa: PLC0415 - only for those who mistype

    close = nearest(name, ids)
    return (close,) if close else ()


def _require(
    wanted: str,
    tools: Mapping[str, Tool],
    report: TrustReport,
    withheld: Mapping[str, str],
    faults: Mapping[str, str],
) -> TrustRequirement:
    """Return whether a tool is ready, and if not, why."""
    from toolcrib.trust import ToolParts  # noqa: PLC0415 - see the module

    ref, _, spec = wanted.partition("@")
    constraint = Constraint.parse(spec) if spec and not spec.startswith("sha256:") else None
    same = [(each, tool) for each, tool in tools.items() if ref in {without_version(each), tool.name, each}]
    if not same:
        space = ref.partition(":")[0]
        if space in faults or space in report.unanswered:
            reason = faults.get(space, "its server does not answer")
            return TrustRequirement(wanted=wanted, state="unavailable", reason=reason)
        hint = "".join(f"; did you mean {each!r}?" for each in _close_to(ref, map(without_version, tools)))
        return TrustRequirement(wanted=wanted, state="missing", reason=f"there is no such tool{hint}")
    digests = {each: ToolParts.of(tool).digest() for each, tool in same}
    fitting = [
        (each, tool)
        for each, tool in same
        if (constraint is None or (tool.version is not None and Version.parse(tool.version) in constraint))
        and (constraint or not spec or _is_digest(spec, digests[each]))
    ]
    ordered = sorted(fitting or same, key=lambda item: Version.parse(item[1].version or "0.0.0-0"))
    tool_id, tool = ordered[-1]
    state, level, reason = _state_of(tool_id, report, withheld)
    if not fitting:
        state, reason = "other", f"its digest is {digests[tool_id]}"
        if constraint is not None:
            reason = f"its version is {tool.version}" if tool.version else "it has no version"
    return TrustRequirement(
        wanted=wanted, state=state, level=level, reason=reason, id=tool_id, digest=digests[tool_id]
    )


def _state_of(
    tool_id: str, report: TrustReport, withheld: Mapping[str, str]
) -> tuple[RequirementState, Level, str]:
    """Return whether a tool is ready, how much it has changed, and why it is not ready."""
    drift = next((each for each in report.drifts if each.id == tool_id), None)
    level: Level = "none" if drift is None else drift.level
    for each in report.findings:
        if each.id == without_version(tool_id) and each.verdict == "poisoned":
            return "poisoned", level, withheld.get(tool_id, each.message)
    if tool_id in withheld:
        return "withheld", level, withheld[tool_id]
    return ("ready", level, "") if drift is None else ("changed", level, drift.changes[0].message)


def _is_digest(given: str, digest: str) -> bool:
    is_long_enough = len(given.removeprefix("sha256:")) >= _MIN_DIGEST
    return is_long_enough and digest.startswith(given.lower())
