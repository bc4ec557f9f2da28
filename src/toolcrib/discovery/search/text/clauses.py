"""The parts of a question that asks for several things."""

import re

_LONGEST = 10_000
"""How many characters of a question are read."""
_BREAK = re.compile(
    r"(?<![.;!?])[.;!?]+(?=\s|$)|,(?=\s)"
    r"|[\n\u3001\u3002\uff01\uff0c\uff1b\uff1f]+"  # the same in Chinese and Japanese
    r"|[\u060c\u061b\u061f\u06d4\u0964\u104b\u17d4]+"  # in Arabic, Urdu, Hindi, Burmese and Khmer
    r"|\b(?:and|then|also|but|while|plus|afterwards|finally)\b",
    re.IGNORECASE,
)


def clauses(question: str) -> list[str]:
    """Return the parts of a question, in order.

    >>> clauses("Book a table for two, and then send the address to Ann.")
    ['Book a table for two', 'send the address to Ann']
    """
    return [part.strip() for part in _BREAK.split(question[:_LONGEST]) if part and not part.isspace()]
