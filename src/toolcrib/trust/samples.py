"""Numbers and strings that show a difference between two schemas: intervals, patterns, and values in them."""

import re
from math import ceil, floor, lcm
from typing import Final

from toolcrib.errors import InvalidSchemaError
from toolcrib.model.schema.compiled import CompiledSchema
from toolcrib.model.schema.engine import Documents

Number = int | float
_MAX_LISTED = 64
"""An interval of at most so many integers is looked at as a whole."""
_MAX_SAMPLES = 4
_MAX_REPEATS = 100
_MAX_LENGTH = 2_000
"""The longest text that is made."""
_LETTERS: Final = "aA0_-. /@:zZ9éあ\n"
"""Characters to choose from, one of nearly every class that a pattern names."""
_QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(,?)(\d*)\}")
_ATOM = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDwWsS\W])|[^\\()|]", re.DOTALL
)


class Interval:
    """The numbers between two bounds, each of which may be missing."""

    def __init__(self) -> None:
        self.low: Number | None = None
        self.high: Number | None = None
        self._above_low = False
        self._below_high = False

    def at_least(self, number: Number, *, strict: bool) -> None:
        """Take out smaller numbers; if strict, the number too."""
        if self.low is None or (number, strict) > (self.low, self._above_low):
            self.low, self._above_low = number, strict

    def at_most(self, number: Number, *, strict: bool) -> None:
        """Take out larger numbers; if strict, the number too."""
        if self.high is None or (number, not strict) < (self.high, not self._below_high):
            self.high, self._below_high = number, strict

    def holds(self, number: Number) -> bool:
        """Return whether a number is in it."""
        if self.low is not None and (number < self.low or (self._above_low and number == self.low)):
            return False
        return self.high is None or not (number > self.high or (self._below_high and number == self.high))

    @property
    def is_empty(self) -> bool:
        """Whether no number at all is in it."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and not self.holds(self.low))


def sample_numbers(interval: Interval, steps: list[int], *, whole: bool) -> tuple[list[Number], bool] | None:
    """Return numbers of an interval, and whether these are all; None if there are none.

    Args:
        interval: the numbers to choose from.
        steps: each number must be a multiple of all of these.
        whole: whether to return integers; else, numbers with a fraction.
    """
    return _sample_integers(interval, lcm(*steps)) if whole else _sample_fractions(interval, steps)


def _sample_integers(interval: Interval, step: int) -> tuple[list[Number], bool] | None:
    low = None if interval.low is None else -(-ceil(interval.low) // step) * step
    high = None if interval.high is None else floor(interval.high) // step * step
    while low is not None and not interval.holds(low) and low == interval.low:
        low += step  # the bound itself is left out
    while high is not None and not interval.holds(high) and high == interval.high:
        high -= step
    if low is not None and high is not None:
        if low > high:
            return None
        if (high - low) // step < _MAX_LISTED:
            return list(range(low, high + 1, step)), True
    near = [
        start + step * place for start in (low, high, 0) if start is not None for place in (0, 1, -1, 2, -2)
    ]
    return [each for each in dict.fromkeys(near) if interval.holds(each)], False


def _sample_fractions(interval: Interval, steps: list[int]) -> tuple[list[Number], bool] | None:
    if steps or interval.is_empty:
        return None
    low, high = interval.low, interval.high
    if low is not None and low == high:
        return ([low], True) if isinstance(low, float) and not low.is_integer() else None
    near: list[Number] = [0.5, -0.5]
    try:
        for bound in (low, high):
            near += (
                []
                if bound is None
                else [float(bound), bound + 0.5, bound - 0.5, bound + 0.001, bound - 0.001]
            )
        near += [] if low is None or high is None else [low + (high - low) / 2, low + (high - low) / 3]
    except OverflowError:  # integers that no float holds
        return [], False
    return [each for each in near if interval.holds(each) and not float(each).is_integer()], False


class Patterns:
    """Regular expressions, each compiled once by the validator's engine, with its limits."""

    def __init__(self) -> None:
        self._compiled: dict[str, CompiledSchema | None] = {}

    def matches(self, pattern: str, text: str) -> bool | None:
        """Return whether a text matches; None where that takes too long to know."""
        if pattern not in self._compiled:
            try:
                self._compiled[pattern] = CompiledSchema({"pattern": pattern}, Documents({}))
            except InvalidSchemaError:
                self._compiled[pattern] = None
        compiled = self._compiled[pattern]
        try:
            return None if compiled is None else compiled.is_valid(text)
        except InvalidSchemaError:
            return None

    def sample(self, pattern: str) -> list[str]:
        """Return texts that may match a pattern; none for patterns of unusual syntax."""
        reader = _Reader(pattern, self)
        try:
            found = reader.alternatives()
        except (_UnusualPatternError, RecursionError):
            return []
        return found if reader.place == len(pattern) else []


def sample_strings(
    least: int, most: int | None, wanted: list[str], known: list[str], patterns: Patterns
) -> list[str]:
    """Return texts of a length, some of them made for the patterns that they should match."""
    usual = [max(least, 1), least, least + 1, least + 8]
    lengths = usual if most is None else [min(each, most) for each in (*usual, most)]
    made = [each for pattern in wanted for each in patterns.sample(pattern)]
    padded = [text + text[-1:] * (least - len(text)) for text in made if len(text) < least]
    plain = [letter * length for length in lengths if length <= _MAX_LENGTH for letter in "xa0 A-é"]
    texts = dict.fromkeys([*made, *padded, *plain, *known])
    return [text for text in texts if len(text) >= least and (most is None or len(text) <= most)]


class _UnusualPatternError(Exception):
    """A pattern that no samples are made of."""


class _Reader:
    """Reads a pattern, and returns a few texts for each part of it."""

    def __init__(self, pattern: str, patterns: Patterns) -> None:
        self.place = 0
        self._pattern = pattern
        self._patterns = patterns

    def alternatives(self) -> list[str]:
        """Return texts for alternatives, up to the end of the pattern or of a group."""
        found = self._sequence()
        while self._next() == "|":
            self.place += 1
            found = [*found, *self._sequence()]
        return list(dict.fromkeys(found))[:_MAX_SAMPLES]

    def _next(self) -> str:
        return self._pattern[self.place : self.place + 1]

    def _sequence(self) -> list[str]:
        found = [""]
        while self._next() not in {"", "|", ")"}:
            part = self._repeated(self._part())
            found = [
                found[min(place, len(found) - 1)] + part[min(place, len(part) - 1)]
                for place in range(max(len(found), len(part)))
            ]
            if any(len(text) > _MAX_LENGTH for text in found):
                raise _UnusualPatternError
        return found

    def _part(self) -> list[str]:
        if self._next() in {"^", "$"}:
            self.place += 1
            return [""]
        if self._next() == "(":
            return self._group()
        atom = _ATOM.match(self._pattern, self.place)
        if atom is None or atom[0] in {"*", "+", "?"}:
            raise _UnusualPatternError
        self.place = atom.end()
        text = atom[0]
        if len(text) == 1 and text != ".":
            return [text]
        pool = [*_LETTERS, *text]
        fitting = [each for each in dict.fromkeys(pool) if self._patterns.matches(f"^(?:{text})$", each)]
        if not fitting:
            raise _UnusualPatternError
        return fitting[:1]

    def _group(self) -> list[str]:
        start = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)").match(self._pattern, self.place)
        if start is None:
            raise _UnusualPatternError
        self.place = start.end()
        found = self.alternatives()
        if self._next() != ")":
            raise _UnusualPatternError
        self.place += 1
        return found

    def _repeated(self, part: list[str]) -> list[str]:
        sign = _QUANTIFIER.match(self._pattern, self.place)
        if sign is None:
            return part
        self.place = sign.end()
        if self._next() in {"?", "+"}:
            self.place += 1
        least = int(sign[1]) if sign[1] else int(sign[0] == "+")
        most = int(sign[3]) if sign[3] else least if sign[1] and not sign[2] else least + 1
        most = 1 if sign[0] == "?" else most
        if most > _MAX_REPEATS and least > _MAX_REPEATS:
            raise _UnusualPatternError
        counts = dict.fromkeys([max(least, min(1, most)), least, min(most, least + 1)])
        return [each * count for count in counts for each in part][:_MAX_SAMPLES]
