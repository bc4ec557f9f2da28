"""Documentation that a person wrote for a tool, validated and cut to the lengths that are shown."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from toolcrib.discovery.facts import cut
from toolcrib.errors import ArgsTooLargeError, InvalidToolError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.model.docs import ToolDoc, ToolExample
from toolcrib.model.record import Record, Text

MAX_SUMMARY = 200
"""Characters after which the summary of a tool is cut."""
MAX_NOTES = 2000
"""Characters after which the notes on a tool are cut."""
MAX_EXAMPLE_DESCRIPTION = 300
"""Characters after which the description of an example is cut."""
MAX_RESULT_HINT = 200
"""Characters after which the result hint of an example is cut."""
MAX_ARGS_DEPTH = 5
"""The maximum nesting of objects and arrays in the arguments of an example, themselves included."""
MAX_ARGS_SIZE = 50
"""The maximum number of members of all objects and arrays in the arguments of an example together."""
_MAX_COUNTED = 1_000
"""Depth and size of arguments are counted up to this number."""
_FIELDS = ("summary", "notes", "examples", "external_refs")


class DocEntry(Record):
    """Written documentation of a tool."""

    summary: Text | None = None
    """The purpose of the tool, at most `MAX_SUMMARY` characters."""
    notes: Text | None = None
    """When to use the tool, and its pitfalls, at most `MAX_NOTES` characters."""
    examples: tuple[ToolExample, ...] = ()
    """Example calls."""
    external_refs: tuple[Text, ...] = ()
    """Links to more documentation."""

    @field_validator("examples", mode="before")
    @classmethod
    def _check_is_list(cls, examples: Any) -> Any:
        if isinstance(examples, Record):  # pydantic would iterate it, as a list of its fields
            raise PydanticCustomError("tuple_type", "must be an array")
        return examples

    @classmethod
    def of(cls, doc: "DocEntry | ToolDoc | Mapping[str, Any] | None" = None, /, **fields: Any) -> "DocEntry":
        """Return a validated copy, with long texts cut.

        `doc` is an entry, a `ToolDoc` or a dict; fields given by name replace those of `doc`.

        >>> DocEntry.of({"summary": "Create an issue."}, notes="Needs a token.").notes
        'Needs a token.'

        Raises:
            InvalidToolError: it is malformed; with every problem found.
            ArgsTooLargeError: the arguments of an example are too deep or too many to show.
        """
        given = {**_fields_of(doc), **fields}
        if _is_series(given.get("examples")):
            given["examples"] = tuple(given["examples"])
            _check_args(given["examples"])
        entry = cls(**given)
        return cls.from_valid(
            summary=_cut_or_none(entry.summary, MAX_SUMMARY),
            notes=_cut_or_none(entry.notes, MAX_NOTES),
            examples=tuple(map(_shorten_example, entry.examples)),
            external_refs=entry.external_refs,
        )

    def over(self, other: "DocEntry") -> "DocEntry":
        """Return this entry, with empty fields taken from another."""
        return DocEntry.from_valid(**{name: getattr(self, name) or getattr(other, name) for name in _FIELDS})


def _fields_of(doc: Any) -> dict[str, Any]:
    """Return the fields of documentation in any of the accepted forms."""
    if doc is None:
        return {}
    if isinstance(doc, DocEntry | ToolDoc):
        return {name: getattr(doc, name) for name in _FIELDS}
    if not isinstance(doc, Mapping):
        message = f"it must be a DocEntry, a ToolDoc or a dict, not {type(doc).__name__}"
        raise InvalidToolError((Problem("", "type", message),), record="DocEntry")
    foreign = [
        Problem("", "type", f"has a key {short_repr(key)}, which is not text")
        for key in doc
        if type(key) is not str
    ]
    if foreign:
        raise InvalidToolError(tuple(foreign[:MAX_PROBLEMS]), record="DocEntry")
    return dict(doc)


def _cut_or_none(text: str | None, limit: int) -> str | None:
    return cut(text, limit) if text and not text.isspace() else None


def _shorten_example(example: ToolExample) -> ToolExample:
    """Return a copy of an example with long texts cut."""
    cuts = {
        "description": _cut_or_none(example.description, MAX_EXAMPLE_DESCRIPTION),
        "result_hint": _cut_or_none(example.result_hint, MAX_RESULT_HINT),
    }
    return example.model_copy(update=cuts)


def _is_series(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping | Record)


def _check_args(examples: tuple[Any, ...]) -> None:
    """Raise if the arguments of an example are too large; malformed examples are left to pydantic."""
    faults = [
        fault for index, example in enumerate(examples) if (fault := _explain_too_large(index, example))
    ]
    if faults:
        raise ArgsTooLargeError("; ".join(faults[:MAX_PROBLEMS]))


def _explain_too_large(index: int, example: Any) -> str:
    """Return the reason why an example is too large; empty if it is not."""
    is_map = isinstance(example, Mapping)
    args, title = (example.get(key) if is_map else getattr(example, key, None) for key in ("args", "title"))
    depth, size = _measure_args(args)
    if depth <= MAX_ARGS_DEPTH and size <= MAX_ARGS_SIZE:
        return ""
    named = f" ({short_repr(title)})" if title else ""
    return (
        f"example {index}{named} has depth {_format_count(depth)} (at most {MAX_ARGS_DEPTH} is shown) "
        f"and size {_format_count(size)} (at most {MAX_ARGS_SIZE})"
    )


def _format_count(number: int) -> str:
    return str(number) if number < _MAX_COUNTED else f"{_MAX_COUNTED} or more"


def _measure_args(args: Any) -> tuple[int, int]:
    """Return the depth of arguments, and the number of members on all levels."""
    depth = size = 0
    level = [args] if isinstance(args, dict | list) else []
    while level and depth < _MAX_COUNTED and size < _MAX_COUNTED:
        depth += 1
        size += sum(map(len, level))
        members = (
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
        )
        level = [member for member in members if isinstance(member, dict | list)]
    return depth, size
