"""The words of messages: names, numbers and places, shown safely and kept short."""

from collections.abc import Iterable
from difflib import get_close_matches

Place = tuple[str | int, ...]
"""The keys and indices that lead to a value, outermost first."""

_LONGEST_NAME = 200
_LONGEST_NUMBER = 64
_LONGEST_GUESS = 64
_MOST_GUESSES = 200
_DEEPEST_PLACE = 64
_DECIMAL_BITS = 2048
"""Longer integers are not written out: the digits would fill a message, and cost more than linear time."""


def shown(text: str) -> str:
    r"""Return text that prints anywhere: control characters escaped, long text cut.

    >>> shown("a\nb")
    'a\\nb'
    """
    cut = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
    safe = cut if cut.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in cut)
    return safe if len(safe) <= _LONGEST_NAME else f"{safe[: _LONGEST_NAME - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def label(place: Place) -> str:
    """Return a place as a caller would write it.

    >>> label(("people", 2, "name"))
    'people[2].name'
    """
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place[:_DEEPEST_PLACE])
    return shown("".join(parts).removeprefix("."))


def pointer(place: Place) -> str:
    """Return a place as a JSON Pointer; one that is very deep points at an ancestor.

    >>> pointer(("tags", 2)), pointer(("a/b~c",))
    ('/tags/2', '/a~1b~0c')
    """
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in place[:_DEEPEST_PLACE])
    text = "".join(f"/{step}" for step in steps)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def number_text(number: float) -> str:
    """Return a number as a message shows it: whole numbers without a fraction, long ones cut.

    >>> number_text(100.0), number_text(0.5)
    ('100', '0.5')
    """
    if isinstance(number, float):
        return number_text(int(number)) if number.is_integer() else repr(number)
    if number.bit_length() > _DECIMAL_BITS:
        return f"an integer of {number.bit_length()} bits"
    text = str(number)
    return text if len(text) <= _LONGEST_NUMBER else f"{text[:_LONGEST_NUMBER]}…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known word, or nothing.

    >>> did_you_mean("qurey", ["limit", "query"])
    "; did you mean 'query'?"
    """
    if len(word) > _LONGEST_GUESS:
        return ""
    candidates = [name for name, _ in zip(known, range(_MOST_GUESSES), strict=False)]
    near = get_close_matches(word, [name for name in candidates if len(name) <= _LONGEST_GUESS], n=1)
    return f"; did you mean '{shown(near[0])}'?" if near else ""
