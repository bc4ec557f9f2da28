"""Base class of all errors, the record of a problem, and helpers for messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.errors.text import truncate

MAX_MESSAGE = 500
"""The maximum length of the message of a problem, in characters."""
MAX_PROBLEMS = 32
"""The maximum number of problems in one error."""
_SHOWN = 120


class ToolcribError(Exception):
    """Base of every error that toolcrib raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default pickling of exceptions calls the class with `args` alone, without keyword arguments.
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[ToolcribError], args: tuple[Any, ...], facts: dict[str, Any]) -> ToolcribError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(facts)
    return error


def short_repr(value: object) -> str:
    """Return the repr of a value, cut to a length that fits a message."""
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str | bytes) else value)
    except (ValueError, RecursionError):  # an integer too long to print, or a container too deep
        text = f"a {type(value).__name__}"
    return truncate(text, _SHOWN)


def count_noun(count: int, noun: str) -> str:
    """Return a number with a noun, in the plural if needed: `1 tool`, `2,000 tools`.

    >>> count_noun(1, "tool"), count_noun(2000, "tool")
    ('1 tool', '2,000 tools')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_options(options: Sequence[str]) -> str:
    """Join options for a sentence: `'a', 'b' or 'c'`."""
    quoted = [repr(option) for option in options]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem with a value."""

    path: str
    """The location as a JSON Pointer into the value; empty for the value itself."""
    keyword: str
    """The schema keyword or the rule that the value violates."""
    message: str
    """The problem and the remedy, in one sentence of at most `MAX_MESSAGE` characters."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
