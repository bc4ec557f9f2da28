"""Copies of records that share nothing with the original, so that neither holder can change the other's."""

from typing import Any, TypeVar

from toolcrib.model.plain import copy_json
from toolcrib.model.record import Record

__all__ = ["own"]

R = TypeVar("R", bound=Record)


def own(record: R) -> R:
    """Return a copy of a record, of the records in it and of the JSON in them.

    >>> from toolcrib.model import ToolExample
    >>> example = ToolExample(args={"labels": ["bug"]})
    >>> own(example).args["labels"].append("wontfix")
    >>> example.args
    {'labels': ['bug']}
    """
    copied = record.model_copy()
    for fields in (copied.__dict__, copied.__pydantic_extra__ or {}):
        fields.update({name: _own(value) for name, value in fields.items()})
    return copied


def _own(value: Any) -> Any:
    if isinstance(value, Record):
        return own(value)
    if isinstance(value, tuple):
        return tuple(map(_own, value))
    return copy_json(value) if isinstance(value, dict | list) else value
