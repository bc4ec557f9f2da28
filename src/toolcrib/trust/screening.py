"""Which of the tools, prompts and templates that a server lists may be used.

A mode says what is asked of them:

- `tofu`, trust on first use: what the lock has or, where the lock has nothing of that name, what was seen
  first. What is seen for the first time may be used.
- `strict`: what the lock has. What it does not have may not be used.

A change up to the allowed level passes. Words mislead a model, so words that nobody has approved are scanned
before they pass, whether they are changed, new, or stand under another name: what the scan calls poisoned, or
cannot read to its end, is withheld, unless the lock has accepted the findings. A blocked tool may not be used
at all.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from shlex import quote
from typing import Literal

from toolcrib.errors.text import truncate
from toolcrib.model.tool import Tool
from toolcrib.trust.drift import LEVELS, PREFIXES, Drift, Level
from toolcrib.trust.lock import Lock
from toolcrib.trust.parts import ServerParts
from toolcrib.trust.scanning import ScanReport, scan, scan_definition
from toolcrib.trust.scanning.scanner import MAX_CHARS, TOO_LONG

Mode = Literal["tofu", "strict"]
"""What is asked of what a server lists."""
_PLAIN_PATH = re.compile(r"[\w/.~$-]{1,80}")
"""A place that can be shown to a model; others may hold words of the server."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Something that may not be used, and the reason."""

    id: str
    """The id of a tool, or `prompt/SERVER/NAME` or `template/SERVER/URI`."""
    reason: str
    """The reason and the remedy; it contains no text from the server."""
    level: Level | None = None
    """The level of the change; None if something else is the reason."""
    tool: Tool | None = None
    """The tool, as its server lists it."""


@dataclass(frozen=True, slots=True)
class ScreenedTools:
    """The tools of a server, sorted into admitted and withheld ones."""

    admitted: tuple[Tool, ...]
    """Those that may be used."""
    withheld: Mapping[str, Withheld] = field(default_factory=dict)
    """The others, by id."""
    first_seen: tuple[Tool, ...] = ()
    """The admitted tools that were not known before."""


def may_pass(level: Level, allow: Level) -> bool:
    """Return whether a change of a level needs no approval."""
    return LEVELS.index(level) <= LEVELS.index(allow)


def screen_tools(tools: Iterable[Tool], lock: Lock, seen: Lock, *, mode: Mode, allow: Level) -> ScreenedTools:
    """Sort the tools that a server lists into admitted and withheld ones.

    Args:
        tools: the listed tools.
        lock: the approved definitions.
        seen: the definitions seen first, for names that the lock does not have.
        mode: the approval mode.
        allow: the greatest change that needs no approval.
    """
    listed = tuple(tools)
    by_seen: Sequence[Drift | None] = seen.judge(listed) if mode == "tofu" else [None] * len(listed)
    admitted: list[Tool] = []
    first: list[Tool] = []
    withheld: dict[str, Withheld] = {}
    for tool, approved, known in zip(listed, lock.judge(listed), by_seen, strict=True):
        drift = known if approved is None else approved
        name = unversioned(tool)
        reason = None
        if block := lock.blocked.get(name):
            reason = f"it is blocked: {block.reason}; {approval_of(name)}"
        elif drift is None and mode == "strict":
            reason = f"it is not approved; {approval_of(name)}"
        elif drift is not None and not may_pass(drift.level, allow):
            reason = describe_change(drift, name)
        elif drift is None or drift.level != "none":
            reason = find_poison(partial(scan, tool), lock, name)
        if reason is None:
            admitted.append(tool)
            if drift is None:
                first.append(tool)
        else:
            level = None if drift is None else drift.level
            withheld[str(tool.id)] = Withheld(str(tool.id), reason, level, tool)
    return ScreenedTools(tuple(admitted), withheld, tuple(first))


def screen_listed(
    server: str, parts: ServerParts, lock: Lock, seen: Lock, *, mode: Mode, allow: Level
) -> tuple[dict[str, Withheld], frozenset[str]]:
    """Return the prompts and templates of a server that may not be used, and those seen for the first time.

    Both are identified as `prompt/SERVER/NAME` or `template/SERVER/URI`. The arguments are those of
    `screen_tools`; only the prompts and templates of the parts are used.
    """
    approved = lock.judge_listed(server, parts)
    known = seen.judge_listed(server, parts) if mode == "tofu" else {}
    withheld: dict[str, Withheld] = {}
    first: set[str] = set()
    for kind, prefix in PREFIXES.items():
        for name, definition in getattr(parts, kind).items():
            subject = f"{prefix}/{server}/{name}"
            drift = approved.get(subject) or known.get(subject)
            if drift is not None and not may_pass(drift.level, allow):
                withheld[subject] = Withheld(subject, describe_change(drift, subject), drift.level)
            elif drift is None and mode == "strict":
                reason = f"it is not approved; {approval_of(subject)}"
                withheld[subject] = Withheld(subject, reason)
            elif (drift is None or drift.level != "none") and (
                poison := find_poison(partial(scan_definition, definition), lock, subject, server)
            ):
                withheld[subject] = Withheld(subject, poison, None if drift is None else drift.level)
            elif drift is None:
                first.add(subject)
    return withheld, frozenset(first)


def find_poison(
    scan_words: Callable[[], ScanReport], lock: Lock, subject: str, owner: str | None = None
) -> str | None:
    """Return why words that nobody has approved may not reach a model; None if they may.

    Args:
        scan_words: scans them.
        lock: has the findings that were accepted.
        subject: the tool, prompt, template or server that they belong to, as it is approved.
        owner: the name under which findings are accepted; else the subject.
    """
    accepted = [rule for known, rule in lock.suppressions if known == (owner or subject)]
    try:
        report = scan_words().without(accepted)
    except Exception as error:  # noqa: BLE001 - words that cannot be scanned are not passed on
        fault = type(error).__name__
        return f"its words are not approved, and cannot be scanned ({fault}); {approval_of(subject)}"
    if report.verdict != "poisoned":
        return None
    rules = dict.fromkeys(each.rule for each in report.findings)
    if TOO_LONG in rules:
        reason = f"its words are not approved, and too long to be scanned: more than {MAX_CHARS:,} characters"
    else:
        reason = f"its words are not approved, and may mislead a model ({', '.join(rules)})"
    return f"{reason}; {_diff_of(subject)}, {approval_of(subject)}"


def describe_change(drift: Drift, subject: str) -> str:
    """Return what has changed and how to approve it, without words of the server: a model may read this."""
    changes = [*_describe_kinds(drift)]
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return (
        f"it has changed since it was approved or first seen ({drift.level}: {changes[0]}{more}); "
        f"{_diff_of(subject)}, {approval_of(subject)}"
    )


def _describe_kinds(drift: Drift) -> Iterator[str]:
    for change in drift.changes:
        yield f"{change.kind} at {change.path}" if _PLAIN_PATH.fullmatch(change.path) else change.kind


def approval_of(subject: str) -> str:
    """Return the sentence that says how something is approved."""
    return f"`toolcrib approve {quote(truncate(subject, 200))}` approves it"


def _diff_of(subject: str) -> str:
    return f"`toolcrib diff {quote(truncate(subject, 200))}` shows it"


def unversioned(tool: Tool) -> str:
    """Return the id of a tool without its version, as decisions of a lock have it."""
    return tool.name if tool.namespace is None else f"{tool.namespace}:{tool.name}"
