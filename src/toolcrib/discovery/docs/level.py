"""How much is said about a tool."""

from enum import StrEnum

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import either, shown
from toolcrib.model.suggest import did_you_mean

__all__ = ["DetailLevel"]


class DetailLevel(StrEnum):
    """How much is said about a tool; each level says what the one before it does, and more.

    >>> DetailLevel("schema")
    <DetailLevel.SCHEMA: 'schema'>

    Raises:
        ValidationError: it is no level, with the nearest one.
    """

    SUMMARY = "summary"
    """What the tool is for."""
    SCHEMA = "schema"
    """How it is called: the definition, and its arguments at a glance."""
    FULL = "full"
    """All there is: notes, examples and references too."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        levels = list(map(str, cls))
        hint = did_you_mean(value.strip().lower(), levels) if isinstance(value, str) else ""
        message = f"a level is {either(levels)}, not {shown(value)}{hint}"
        raise ValidationError((Problem("/level", "enum", message),), message)
