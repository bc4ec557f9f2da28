"""Which alternative of a union a value fits, asked of the original schema."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.plain import copy_json
from toolcrib.model.schema.validator import DefaultValidator

__all__ = ["Alternatives"]

_URI = "toolcrib:original"


class Alternatives:
    """The alternatives of all unions of one schema, compiled when the first value is asked about."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._schemas: list[Any] = []
        self._validator: DefaultValidator | None = None
        self._lock = Lock()

    def add(self, schemas: Sequence[Any]) -> Callable[[int, Any], bool]:
        """Take the alternatives of one union, and return what says whether a value fits one of them."""
        start = len(self._schemas)
        if not self._schemas:
            self._root = copy_json(self._root)  # asked about long after, when the original may have changed
        self._schemas += copy_json(list(schemas))
        self._validator = None  # a default may have been encoded before all alternatives were known
        return lambda index, value: self._fits(start + index, value)

    def _fits(self, index: int, value: Any) -> bool:
        dialect = self._root.get("$schema")
        asked = {"$ref": f"{_URI}#/$defs/{_key(index)}"} | ({"$schema": dialect} if dialect else {})
        try:
            self._compiled().validate(asked, value)
        except (ValidationError, InvalidSchemaError):
            return False
        return True

    def _compiled(self) -> DefaultValidator:
        with self._lock:
            if self._validator is None:
                given = self._root.get("$defs")
                added = {_key(index): schema for index, schema in enumerate(self._schemas)}
                document = {**self._root, "$defs": {**(given if isinstance(given, dict) else {}), **added}}
                document.pop("$id", None)
                self._validator = DefaultValidator(documents={_URI: document})
            return self._validator


def _key(index: int) -> str:
    return f"toolcrib.alternative.{index}"
