"""Which alternative of a union a value fits, asked of the original schema."""

import marshal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.schema.validator import DefaultValidator

_URI = "toolcrib:original"


class Alternatives:
    """The alternatives of all unions of one schema, compiled when the first value is asked about."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._schemas: list[Any] = []
        self._validator: DefaultValidator | None = None

    def add(self, schemas: Sequence[Any]) -> "FitsAlternative":
        """Take the alternatives of one union, and return what says whether a value fits one of them."""
        start = len(self._schemas)
        self._schemas += schemas
        self._validator = None  # a default may have been encoded before all alternatives were known
        return FitsAlternative(self, start)

    def keep(self) -> None:
        """Copy what is asked about long after, when the original may have changed."""
        self._root, self._schemas = _copy((self._root, self._schemas))
        self._validator = None

    def fits(self, index: int, value: Any) -> bool:
        """Return whether a value fits one of all alternatives."""
        asked = {"$ref": f"{_URI}#/$defs/{_key(index)}", **self._dialect()}
        try:
            self._compiled().validate(asked, value)
        except (ValidationError, InvalidSchemaError):
            return False
        return True

    def _dialect(self) -> dict[str, Any]:
        """Return `$schema` as the original has it, if that is one that we know."""
        dialect = self._root.get("$schema")
        return {"$schema": dialect} if isinstance(dialect, str) and "draft-07" in dialect else {}

    def _compiled(self) -> DefaultValidator:
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
    """Whether a value fits one alternative of one union, by its index there."""

    alternatives: Alternatives
    start: int

    def __call__(self, index: int, value: Any) -> bool:
        return self.alternatives.fits(self.start + index, value)


def _copy(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - our own bytes, and the fastest copy of JSON


def _key(index: int) -> str:
    return f"toolcrib.alternative.{index}"
