"""How much work a regular expression from a stranger's schema can cause.

The engine matches ordinary patterns in time proportional to the text times the expanded pattern, so the
expanded size is what matters: `(a{1,100}){1,100}` is 10,000 steps per character. Look-around and
back-references leave that engine for a backtracking one, where cost is bounded only while the text is short
and they stand at the top of the pattern.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

MAX_BACKTRACKING_TEXT = 1_000
"""The longest text, in characters, that a pattern with look-around or back-references is tried on."""
_MAX_LENGTH = 8_192
_MAX_LOOKS = 16
_MAX_STEPS = 1_000_000

_TOKEN = re.compile(
    r"""
      (?P<look>\(\?(?:[=!]|<[=!]))                     # a look-around opens
    | (?P<atomic>\(\?>)                                # an atomic group opens
    | (?P<open>\((?:\?(?:[a-zA-Z-]{0,16}:|P?<[^>=!]{0,64}>))?)   # an ordinary group opens
    | (?P<close>\))
    | (?P<backref>\\(?:[1-9]|k[<'{]|[bB]))               # the engine leaves word boundaries to backtracking
    | (?P<repeat>[*+?]|\{\d*,?\d*\})(?P<suffix>[?+]?)
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\]?)
    | (?P<escape>\\[pPuUx]\{[^}]{0,64}\}|\\.)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COUNTS = re.compile(r"\{(\d*)(,?)(\d*)\}")


class Pattern(NamedTuple):
    """What matching one pattern costs."""

    steps: int
    """Steps per character in the worst case: the size of the pattern with its repetitions written out."""
    backtracks: bool
    """It needs look-around, back-references or atomic groups."""
    fault: str
    """Why it is refused, or empty."""


@dataclass(slots=True)
class _Group:
    """A group being read: the steps in it so far, and what of it only a backtracking engine can do."""

    steps: int = 0
    last: int = 0
    looks: bool = False
    last_looks: bool = False
    is_look: bool = False


def read_pattern(text: str) -> Pattern:
    """Return what a pattern costs; whether it is well formed is the engine's to say.

    >>> read_pattern("^(ab){1,50}$").steps
    152
    >>> read_pattern("^(?!x)y").backtracks
    True
    """
    if len(text) > _MAX_LENGTH:
        return Pattern(0, backtracks=False, fault=f"it is longer than {_MAX_LENGTH:,} characters")
    reader = _Reader()
    for token in _TOKEN.finditer(text):
        reader.take(token)
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

    def take(self, token: re.Match[str]) -> None:
        """Add one token to the group it stands in."""
        group = self.groups[-1]
        if token["look"] or token["atomic"] or token["backref"]:
            self._look()
        if token["look"] or token["atomic"] or token["open"]:
            self.groups.append(_Group(is_look=bool(token["look"])))
        elif token["close"]:
            self._close()
        elif token["repeat"]:
            self._repeat(group, token)
        else:
            _add(group, 1, looks=bool(token["backref"]))

    def _look(self) -> None:
        self.looks += 1
        if self.looks <= _MAX_LOOKS and any(outer.is_look for outer in self.groups):
            self.fault = "look-around or a back-reference stands inside a look-around"

    def _close(self) -> None:
        if len(self.groups) > 1:
            group = self.groups.pop()
            _add(self.groups[-1], group.steps + 1, looks=group.looks or group.is_look)

    def _repeat(self, group: _Group, token: re.Match[str]) -> None:
        times = _times(token["repeat"])
        if group.last_looks and times > 1:
            self.fault = "look-around or a back-reference stands inside a repeated group"
        group.steps = min(group.steps + group.last * (times - 1), _MAX_STEPS + 1)
        self.looks += token["suffix"] == "+"  # a possessive repetition never gives back


def _add(group: _Group, steps: int, *, looks: bool) -> None:
    group.steps = min(group.steps + steps, _MAX_STEPS + 1)
    group.last = steps
    group.last_looks = looks
    group.looks = group.looks or looks


def _times(repeat: str) -> int:
    """Return how often the part before is written out: `x{2,5}` five times, `x*` twice."""
    counts = _COUNTS.fullmatch(repeat)
    if counts is None:
        return 1 if repeat == "?" else 2
    numbers = [int(number[:7]) for number in counts.group(1, 3) if number]
    return max([*numbers, 1]) + (counts[2] == "," and not counts[3])
