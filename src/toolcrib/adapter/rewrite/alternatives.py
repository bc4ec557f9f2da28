"""Validation of values against the alternatives of unions in the original schema."""

import marshal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.schema.validator import DefaultValidator

_URI = "toolcrib:original"


class Alternatives:
    """The alternatives of all unions of one schema, compiled when the first value is checked."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._schemas: list[Any] = []
        self._validator: DefaultValidator | None = None

    def add(self, schemas: Sequence[Any]) -> "FitsAlternative":
        """Add the alternatives of one union; return a function that checks a value against one of them."""
        start = len(self._schemas)
        self._schemas += schemas
        self._validator = None  # it may exist already: a default is encoded before all unions are known
        return FitsAlternative(self, start)

    def copy_originals(self) -> None:
        """Copy the schemas, which are used long after the caller may have changed them."""
        self._root, self._schemas = _copy((self._root, self._schemas))
        self._validator = None

    def fits(self, index: int, value: Any) -> bool:
        """Return whether a value fits the alternative with this index."""
        asked = {"$ref": f"{_URI}#/$defs/{_key(index)}", **self._dialect()}
        try:
            self._make_validator().validate(asked, value)
        except (ValidationError, InvalidSchemaError):
            return False
        return True

    def _dialect(self) -> dict[str, Any]:
        """Return the `$schema` of the original if it is draft-07; 2020-12 is the default."""
        dialect = self._root.get("$schema")
        return {"$schema": dialect} if isinstance(dialect, str) and "draft-07" in dialect else {}

    def _make_validator(self) -> DefaultValidator:
        validator = self._validator
        if validator is None:
            given = self._root.get("$defs")
            added = {_key(index): schema for index, schema in enumerate(self._schemas)}
            document = {word: value for word, value in self._root.items() if word not in {"$id", "$schema"}}
            document |= {"$defs": {**(given if isinstance(given, dict) else {}), **added}, **self._dialect()}
            self._validator = validator = DefaultValidator(documents={_URI: document})
        return validator

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_validator": None}


@dataclass(frozen=True, slots=True)
class FitsAlternative:
    """Function that checks a value against an alternative of one union, by its index there."""

    alternatives: Alternatives
    start: int

    def __call__(self, index: int, value: Any) -> bool:
        return self.alternatives.fits(self.start + index, value)


def _copy(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - our own bytes, and the fastest copy of JSON


def _key(index: int) -> str:
    return f"toolcrib.alternative.{index}"
