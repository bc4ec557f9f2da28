"""Patterns, matched by an engine whose time grows with the text and never explodes."""

import math
import re
from dataclasses import dataclass, field

import jsonschema_rs

from toolcrib.model.argschema.wording import shown

_SIZE_LIMIT = 1 << 20
_COUNT = re.compile(r"(?<=[{,])[0-9]{1,6}(?=})")
_MOST_STATES = 20_000
"""More than the size limit leaves room for."""
_STATES_PER_VALUE = 50
"""How many states the engine can follow through one character in the time that checking a value takes."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One compiled pattern."""

    text: str
    _validator: jsonschema_rs.Draft202012Validator = field(compare=False, repr=False)
    _states: int = field(compare=False, repr=False)

    @classmethod
    def compile(cls, text: str) -> "Pattern":
        """Return a pattern ready to match.

        Raises:
            ValueError: it is not a pattern, is too large, or looks around or back, which has no time limit.
        """
        options = jsonschema_rs.RegexOptions(size_limit=_SIZE_LIMIT, dfa_size_limit=_SIZE_LIMIT)
        # Its ValidationError, like the error for text that is not Unicode, is a ValueError.
        schema = {"pattern": text}
        validator = jsonschema_rs.Draft202012Validator(schema, offline=True, pattern_options=options)
        return cls(text, validator, _estimated_states(text))

    @property
    def shown(self) -> str:
        """The pattern as a message quotes it."""
        return f"'{shown(self.text)}'"

    def cost(self, length: int) -> int:
        """Return how many values could be checked while matching a text of this length, at worst."""
        return length * (1 + min(self._states, length) // _STATES_PER_VALUE)

    def found_in(self, text: str) -> bool:
        """Say whether the pattern matches anywhere in a text; text that is not Unicode matches nothing."""
        try:
            return self._validator.is_valid(text)
        except UnicodeEncodeError:
            return False


def _estimated_states(text: str) -> int:
    counts = [int(count) for count in _COUNT.findall(text[:_MOST_STATES])]
    nested = "){" in text or "}{" in text
    repeated = math.prod(counts) if nested else sum(counts)
    return min(_MOST_STATES, len(text) + repeated)
