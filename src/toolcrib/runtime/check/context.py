"""What the type checker found in a piece of code, and the code to look it up in."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from toolcrib.runtime.check.source import Source
from toolcrib.runtime.check.vocabulary import Vocabulary

__all__ = ["Context", "Engine", "Finding", "Problem"]

Engine = Literal["monty", "python"]
"""What the code is for: Monty's subset of Python, or a full one."""

_TICKED = re.compile(r"`([^`]*)`")
_FUNCTION = re.compile(r"(?:function|bound method) `([^`]*)`")
_MAX_BEFORE = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the code."""

    line: int
    column: int
    said: str
    unsupported: bool = False
    """Whether a full Python has what this engine lacks."""


@dataclass(frozen=True)
class Finding:
    """One thing that the type checker says."""

    rule: str
    message: str
    line: int
    column: int

    @cached_property
    def ticked(self) -> tuple[str, ...]:
        """What it names: functions, types, arguments."""
        return tuple(_TICKED.findall(self.message))

    @property
    def subject(self) -> str:
        """What it names first."""
        return self.ticked[0] if self.ticked else ""

    def say(self, said: str, *, unsupported: bool = False) -> Problem:
        """Return a problem at this place."""
        return Problem(self.line, self.column, said, unsupported)


@dataclass(frozen=True)
class Context:
    """The code, what its names mean, and all that was found."""

    code: str
    words: Vocabulary
    engine: Engine
    findings: Sequence[Finding]
    shadowed: Collection[str] = ()
    """Names that the code gives a meaning of its own."""
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """All tools of namespaces, where they are known: a stub may have only those that the code mentions."""
    echoes: set[tuple[int, str]] = field(default_factory=set)
    """Lines, and what is said of them that follows from what is said anyway."""

    @cached_property
    def source(self) -> Source:
        """The code as a tree."""
        return Source(self.code)

    @property
    def lines(self) -> list[str]:
        """The lines of the code."""
        return self.source.lines

    @cached_property
    def unknown_keys(self) -> Counter[tuple[int, int]]:
        """How often a key is called unknown at each place: once for each type that lacks it."""
        return Counter((found.line, found.column) for found in self.findings if found.rule == "invalid-key")

    def at(self, finding: Finding) -> str:
        """Return the code from where a finding points to the end of the line."""
        return self.lines[finding.line - 1][finding.column - 1 :] if finding.line <= len(self.lines) else ""

    def before(self, finding: Finding) -> str:
        """Return the code of the line before the place that a finding points at."""
        if finding.line > len(self.lines):
            return ""
        return self.lines[finding.line - 1][: finding.column - 1][-_MAX_BEFORE:]

    def called(self, finding: Finding) -> str | None:
        """Return which tool a finding is about, or which function of the code itself that nothing wraps."""
        found = _FUNCTION.search(finding.message)
        if found is None:
            return None
        own = re.search(
            rf"^([^\n]*\n)?[ \t]*+(?:async[ \t]++)?def[ \t]++{re.escape(found[1])}\b", self.code, re.MULTILINE
        )
        if own is None:
            return self.words.path(found[1])
        return None if (own[1] or "").lstrip().startswith("@") else found[1]
