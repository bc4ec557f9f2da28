"""The base of every record: frozen, camelCase in JSON, and refused with our own errors."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

import pydantic
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from toolcrib.errors import InvalidToolError, Problem, ToolcribError
from toolcrib.model.plain import copy_json, parse_json, pointer

__all__ = ["Record"]


class Record(BaseModel):
    """A value that does not change once made; bad input raises a `ToolcribError` with every problem in it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        arbitrary_types_allowed=True,
    )

    if not TYPE_CHECKING:  # type checkers derive the constructor from the fields

        def __init__(self, /, **data: Any) -> None:
            try:
                super().__init__(**data)
            except pydantic.ValidationError as error:
                raise self._refusal(_problems(error), data) from None

        # Pydantic validates nested records itself, so that their problems keep their paths.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any]) -> Self:
        """Return the record that JSON, as text or as a dict, describes.

        Raises:
            InvalidToolError: it is not JSON, not an object, or not such a record.
        """
        data: Any = source
        if isinstance(source, str | bytes | bytearray):
            try:
                data = parse_json(source)
            except ValueError as error:
                raise cls._refusal((Problem("", "json", f"it is not JSON: {error}"[:500]),), {}) from error
        if not isinstance(data, dict):
            problem = Problem("", "type", f"it must be a JSON object, not {type(data).__name__}")
            raise cls._refusal((problem,), {})
        try:
            return cls.model_validate(data, by_alias=True, by_name=False)
        except pydantic.ValidationError as error:
            raise cls._refusal(_problems(error), data) from None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: camelCase, absent fields left out, nothing shared with the record."""
        known = {
            field.alias or name: _json(value)
            for name, field in type(self).model_fields.items()
            if (value := getattr(self, name)) is not None
        }
        copied: dict[str, Any] = copy_json({**known, **(self.model_extra or {})})
        return copied

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        """Return the error that says these problems."""
        return InvalidToolError(problems, data.get("name"))


def _json(value: Any) -> Any:
    """Return a field's value in JSON."""
    if isinstance(value, Record):
        return value.to_json()
    return [_json(member) for member in value] if isinstance(value, tuple) else value


def _problems(error: pydantic.ValidationError) -> tuple[Problem, ...]:
    """Return pydantic's complaints as ours."""
    problems = []
    for detail in error.errors(include_url=False, include_context=False):
        message = detail["msg"].removeprefix("Value error, ")
        message = {"missing": "is required", "extra_forbidden": "is not a field of this record"}.get(
            detail["type"], message
        )
        problems.append(Problem(pointer(detail["loc"]), detail["type"], message[:500]))
    return tuple(problems)
