"""Worst-case cost of a regular expression in an untrusted schema.

The engine matches ordinary patterns in time proportional to the length of the text times the size of the
pattern with its repetitions written out: `(a{1,100}){1,100}` takes 10,000 steps per character. Look-around
and back-references need a backtracking engine instead. Its cost is bounded only for short texts, and only if
they are not inside a repetition or another look-around.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

MAX_BACKTRACKING_TEXT = 1_000
"""The maximum length, in characters, of a text for a pattern with look-around or back-references."""
_MAX_LENGTH = 8_192
_MAX_LOOKS = 16
_MAX_STEPS = 1_000_000

_TOKEN = re.compile(
    r"""
      (?P<look>\(\?(?:[=!]|<[=!]))                     # a look-around opens
    | (?P<atomic>\(\?>)                                # an atomic group opens
    | (?P<open>\((?:\?(?:[a-zA-Z-]{0,16}:|P?<[^>=!]{0,64}>))?)   # an ordinary group opens
    | (?P<close>\))
    | (?P<backref>\\(?:[1-9]|k[<'{]|[bB]))               # the engine needs backtracking for \b too
    | (?P<repeat>[*+?]|\{\d*,?\d*\})(?P<suffix>[?+]?)
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\]?)
    | (?P<escape>\\[pPuUx]\{[^}]{0,64}\}|\\.)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COUNTS = re.compile(r"\{(\d*)(,?)(\d*)\}")


class Pattern(NamedTuple):
    """The cost of matching a pattern."""

    steps: int
    """Steps per character in the worst case: the size of the pattern with its repetitions written out."""
    backtracks: bool
    """Whether it has look-around, back-references or atomic groups."""
    fault: str
    """The reason why it is refused; empty if it is not."""


@dataclass(slots=True)
class _Group:
    """A group that is being read: its steps so far, and whether it needs backtracking."""

    steps: int = 0
    last: int = 0
    looks: bool = False
    last_looks: bool = False
    is_look: bool = False


def read_pattern(text: str) -> Pattern:
    """Compute the cost of a pattern; the engine checks whether it is well formed.

    >>> read_pattern("^(ab){1,50}$").steps
    152
    >>> read_pattern("^(?!x)y").backtracks
    True
    """
    if len(text) > _MAX_LENGTH:
        return Pattern(0, backtracks=False, fault=f"it is longer than {_MAX_LENGTH:,} characters")
    reader = _Reader()
    for token in _TOKEN.finditer(text):
        reader.add_token(token)
    steps = sum(group.steps for group in reader.groups)
    fault = reader.fault
    if reader.looks > _MAX_LOOKS:
        fault = f"it has more than {_MAX_LOOKS} look-arounds and back-references"
    if steps > _MAX_STEPS:
        fault = f"its repetitions multiply to more than {_MAX_STEPS:,} steps"
    return Pattern(steps, backtracks=reader.looks > 0, fault=fault)


class _Reader:
    """Reads a pattern token by token."""

    def __init__(self) -> None:
        self.groups = [_Group()]
        self.looks = 0
        self.fault = ""

    def add_token(self, token: re.Match[str]) -> None:
        """Add one token to the innermost open group."""
        group = self.groups[-1]
        if token["look"] or token["atomic"] or token["backref"]:
            self._note_backtracking()
        if token["look"] or token["atomic"] or token["open"]:
            self.groups.append(_Group(is_look=bool(token["look"])))
        elif token["close"]:
            self._close_group()
        elif token["repeat"]:
            self._repeat_last(group, token)
        else:
            _add_steps(group, 1, looks=bool(token["backref"]))

    def _note_backtracking(self) -> None:
        self.looks += 1
        if self.looks <= _MAX_LOOKS and any(outer.is_look for outer in self.groups):
            self.fault = "look-around or a back-reference stands inside a look-around"

    def _close_group(self) -> None:
        if len(self.groups) > 1:
            group = self.groups.pop()
            _add_steps(self.groups[-1], group.steps + 1, looks=group.looks or group.is_look)

    def _repeat_last(self, group: _Group, token: re.Match[str]) -> None:
        times = _repetitions(token["repeat"])
        if group.last_looks and times > 1:
            self.fault = "look-around or a back-reference stands inside a repeated group"
        group.steps = min(group.steps + group.last * (times - 1), _MAX_STEPS + 1)
        self.looks += token["suffix"] == "+"  # a possessive repetition needs the backtracking engine too


def _add_steps(group: _Group, steps: int, *, looks: bool) -> None:
    group.steps = min(group.steps + steps, _MAX_STEPS + 1)
    group.last = steps
    group.last_looks = looks
    group.looks = group.looks or looks


def _repetitions(repeat: str) -> int:
    """Return the copies of the repeated part, written out: five for `x{2,5}`, two for `x*`."""
    counts = _COUNTS.fullmatch(repeat)
    if counts is None:
        return 1 if repeat == "?" else 2
    numbers = [int(number[:7]) for number in counts.group(1, 3) if number]
    return max([*numbers, 1]) + (counts[2] == "," and not counts[3])
