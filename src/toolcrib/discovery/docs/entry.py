"""Documentation written for a tool, checked and cut to the lengths that are shown."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from toolcrib.discovery.facts import cut
from toolcrib.errors import ArgsTooLargeError, InvalidToolError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, shown
from toolcrib.model.docs import ToolDoc, ToolExample
from toolcrib.model.record import Record, Text

MAX_SUMMARY = 200
"""At how many characters the summary of a tool is cut."""
MAX_NOTES = 2000
"""At how many characters the notes on a tool are cut."""
MAX_EXAMPLE_DESCRIPTION = 300
"""At how many characters the description of an example is cut."""
MAX_RESULT_HINT = 200
"""At how many characters the hint at the result of an example is cut."""
MAX_ARGS_DEPTH = 5
"""How many objects and arrays deep the arguments of an example may be, themselves included."""
MAX_ARGS_SIZE = 50
"""How many members the objects and arrays in the arguments of an example may have together."""
_COUNTED = 1_000
"""How far the depth and the size of arguments are counted."""
_FIELDS = ("summary", "notes", "examples", "external_refs")


class DocEntry(Record):
    """What somebody wrote about a tool."""

    summary: Text | None = None
    """What the tool is for, in `MAX_SUMMARY` characters."""
    notes: Text | None = None
    """When to use it, and what to look out for, in `MAX_NOTES` characters."""
    examples: tuple[ToolExample, ...] = ()
    """Worked calls."""
    external_refs: tuple[Text, ...] = ()
    """Where more can be read."""

    @field_validator("examples", mode="before")
    @classmethod
    def _are_several(cls, examples: Any) -> Any:
        if isinstance(examples, Record):  # which pydantic would take for a list of its fields
            raise PydanticCustomError("tuple_type", "must be an array")
        return examples

    @classmethod
    def of(cls, doc: "DocEntry | ToolDoc | Mapping[str, Any] | None" = None, /, **fields: Any) -> "DocEntry":
        """Return an entry fit to be shown: longer texts are cut, and nothing is shared with what was given.

        It is given as an entry, as a store's answer about another tool, as a dict, by fields, or by fields
        that replace those of another entry.

        >>> DocEntry.of({"summary": "Create an issue."}, notes="Needs a token.").notes
        'Needs a token.'

        Raises:
            InvalidToolError: with every problem found.
            ArgsTooLargeError: the arguments of an example are too deep or too many to show.
        """
        given = {**_fields(doc), **fields}
        if _is_series(given.get("examples")):
            given["examples"] = tuple(given["examples"])
            _check_args(given["examples"])
        entry = cls(**given)
        return cls.of_checked(
            summary=_cut(entry.summary, MAX_SUMMARY),
            notes=_cut(entry.notes, MAX_NOTES),
            examples=tuple(map(_shorten_example, entry.examples)),
            external_refs=entry.external_refs,
        )

    def over(self, other: "DocEntry") -> "DocEntry":
        """Return the entry with what it does not say itself taken from another."""
        return DocEntry.of_checked(**{name: getattr(self, name) or getattr(other, name) for name in _FIELDS})


def _fields(doc: Any) -> dict[str, Any]:
    """Return the fields of whatever a doc was given as."""
    if doc is None:
        return {}
    if isinstance(doc, DocEntry | ToolDoc):
        return {name: getattr(doc, name) for name in _FIELDS}
    if not isinstance(doc, Mapping):
        message = f"it must be a DocEntry, a ToolDoc or a dict, not {type(doc).__name__}"
        raise InvalidToolError((Problem("", "type", message),), record="DocEntry")
    foreign = [
        Problem("", "type", f"has a key {shown(key)}, which is not text")
        for key in doc
        if type(key) is not str
    ]
    if foreign:
        raise InvalidToolError(tuple(foreign[:MAX_PROBLEMS]), record="DocEntry")
    return dict(doc)


def _cut(text: str | None, limit: int) -> str | None:
    return cut(text, limit) if text and not text.isspace() else None


def _shorten_example(example: ToolExample) -> ToolExample:
    """Return an example of one's own, within the lengths that are shown."""
    cuts = {
        "description": _cut(example.description, MAX_EXAMPLE_DESCRIPTION),
        "result_hint": _cut(example.result_hint, MAX_RESULT_HINT),
    }
    return example.model_copy(update=cuts)


def _is_series(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping | Record)


def _check_args(examples: tuple[Any, ...]) -> None:
    """Raise if the arguments of an example are too large; what is no example is left to the record."""
    faults = [fault for index, example in enumerate(examples) if (fault := _fault(index, example))]
    if faults:
        raise ArgsTooLargeError("; ".join(faults[:MAX_PROBLEMS]))


def _fault(index: int, example: Any) -> str:
    """Return why an example is too large, or nothing if it is not."""
    is_map = isinstance(example, Mapping)
    args, title = (example.get(key) if is_map else getattr(example, key, None) for key in ("args", "title"))
    depth, size = _extent(args)
    if depth <= MAX_ARGS_DEPTH and size <= MAX_ARGS_SIZE:
        return ""
    named = f" ({shown(title)})" if title else ""
    return (
        f"example {index}{named} has depth {_count(depth)} (at most {MAX_ARGS_DEPTH} is shown) "
        f"and size {_count(size)} (at most {MAX_ARGS_SIZE})"
    )


def _count(number: int) -> str:
    return str(number) if number < _COUNTED else f"{_COUNTED} or more"


def _extent(args: Any) -> tuple[int, int]:
    """Return how many levels deep arguments are, and how many members they have on all levels."""
    depth = size = 0
    level = [args] if isinstance(args, dict | list) else []
    while level and depth < _COUNTED and size < _COUNTED:
        depth += 1
        size += sum(map(len, level))
        members = (
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
        )
        level = [member for member in members if isinstance(member, dict | list)]
    return depth, size
