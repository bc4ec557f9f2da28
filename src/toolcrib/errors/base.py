"""The root of the tree, and the problem that many errors are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.errors.text import truncate

MAX_MESSAGE = 500
"""How many characters the message of a problem has."""
MAX_PROBLEMS = 32
"""How many problems one error lists."""
_SHOWN = 120


class ToolcribError(Exception):
    """Base of every error that toolcrib raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Facts are keyword arguments, which the default pickling of exceptions would lose.
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[ToolcribError], args: tuple[Any, ...], facts: dict[str, Any]) -> ToolcribError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(facts)
    return error


def shown(value: object) -> str:
    """Return the repr of a value, cut to a length that fits a message."""
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str | bytes) else value)
    except (ValueError, RecursionError):  # an integer too long to print, or a container too deep
        text = f"a {type(value).__name__}"
    return truncate(text, _SHOWN)


def counted(count: int, noun: str) -> str:
    """Return a number of things: `1 tool`, `2,000 tools`.

    >>> counted(1, "tool"), counted(2000, "tool")
    ('1 tool', '2,000 tools')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def either(options: Sequence[str]) -> str:
    """Return options as a sentence offers them: `'a', 'b' or 'c'`."""
    quoted = [repr(option) for option in options]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a value."""

    path: str
    """Where, as a JSON Pointer into the value; empty for the value itself."""
    keyword: str
    """The schema keyword, or the rule, that refused it."""
    message: str
    """What is wrong and what would be right, in one sentence of at most `MAX_MESSAGE` characters."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
