"""Which properties a schema requires, whichever of its alternatives is taken."""

from collections.abc import Iterable
from typing import Any

from toolcrib.discovery.docs.references import References

__all__ = ["Required"]

_MAX_LEVELS = 32
_MAX_WORK = 200_000
"""How many names are compared before no more is said to be required."""

Names = dict[str, None] | None
"""The names in the order in which they are met; None for what no object fits, or what loops."""


class Required:
    """Reads each subschema of one schema once."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._read: dict[int, Names] = {}
        self._left = _MAX_WORK

    def of(self, schema: Any) -> tuple[str, ...]:
        """Return the names of the required properties."""
        return tuple(self._names(schema, 0) or ())

    def _names(self, schema: Any, level: int) -> Names:
        if schema is False:
            return None
        if not isinstance(schema, dict) or level > _MAX_LEVELS:
            return {}
        key = id(schema)
        if key not in self._read:
            self._read[key] = None
            self._read[key] = self._of(schema, level + 1)
        return self._read[key]

    def _of(self, schema: dict[str, Any], level: int) -> Names:
        said: list[Names] = []
        if self._references.counts(schema):
            if not _may_be_object(schema):
                return None
            required = schema.get("required")
            own = required if isinstance(required, list) else ()
            said.append(dict.fromkeys(name for name in own if isinstance(name, str)))
        said += [self._names(member, level) for member in self._references.all_of(schema)]
        if self._references.counts(schema):
            said += [self._common(members, level) for members in _alternatives(schema)]
        return self._together(said)

    def _together(self, said: list[Names]) -> Names:
        """Return the names that are in any of some lists."""
        found = [names for names in said if names]
        if len(found) <= 1:
            return found[0] if found else None if None in said else {}
        together: dict[str, None] = {}
        for names in found:
            if self._spend(len(names)):
                together.update(names)
        return together

    def _common(self, schemas: Iterable[Any], level: int) -> Names:
        """Return the names that each alternative requires; one that no object fits is none."""
        common: Names = None
        for schema in schemas:
            names = self._names(schema, level)
            if names is None or names is common:
                continue
            if common is None:
                common = names
            elif self._spend(len(common)):
                common = {name: None for name in common if name in names}
            else:
                return {}
            if not common:
                break
        return common

    def _spend(self, work: int) -> bool:
        self._left -= work
        return self._left >= 0


def _alternatives(schema: dict[str, Any]) -> Iterable[list[Any]]:
    """Yield lists of schemas of which whatever fits a schema fits at least one."""
    for word in ("anyOf", "oneOf"):
        if isinstance(members := schema.get(word), list) and members:
            yield members
    if "then" in schema and "else" in schema and "if" in schema:
        yield [schema["then"], schema["else"]]


def _may_be_object(schema: dict[str, Any]) -> bool:
    types = schema.get("type", "object")
    return types == "object" or not isinstance(types, str | list) or "object" in types
