"""Scope of a view: conditions on the tools of a catalogue that the view shows."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool, field_validator
from pydantic_core import PydanticCustomError

from toolcrib.discovery.index.filters import (
    ID,
    NAMESPACE,
    NONE_OF,
    Filter,
    hint_name,
    make_filter,
    read_filter,
)
from toolcrib.discovery.keys import is_exact, key_of, namespace_of
from toolcrib.errors import InvalidToolIdError, Problem, ToolcribError, ValidationError
from toolcrib.model.record import Record
from toolcrib.model.toolid import without_version


class Scope(Record):
    """Conditions on tools that must all hold; an absent condition admits every tool.

    >>> Scope(namespaces=["github"], exclude=["github:delete_repo"]).may_admit("github:create_issue:^1")
    True
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(ignored_types=(cached_property,))

    namespaces: tuple[str, ...] | None = None
    """One of these namespaces; an empty string means the tools without one."""
    tags: tuple[str, ...] | None = None
    """At least one of these tags."""
    ids: tuple[str, ...] | None = None
    """These tools alone, in all their versions where none is written."""
    exclude: tuple[str, ...] = ()
    """Not these tools, written as in `ids`."""
    annotations: dict[str, StrictBool] = Field(default={})
    """Hints that the tool itself gives, such as `readOnlyHint`."""

    @field_validator("ids", "exclude", mode="after")
    @classmethod
    def _are_ids(cls, ids: tuple[str, ...] | None) -> tuple[str, ...] | None:
        try:
            return None if ids is None else tuple(dict.fromkeys(map(key_of, ids)))
        except InvalidToolIdError as error:
            raise PydanticCustomError("tool_id", "{reason}", {"reason": str(error)}) from None

    @field_validator("annotations", mode="after")
    @classmethod
    def _are_hints(cls, annotations: dict[str, bool]) -> dict[str, bool]:
        return {_hint(name): value for name, value in annotations.items()}

    @cached_property
    def conditions(self) -> Filter:
        """The scope as a filter."""
        return make_filter(self._conditions())

    def _conditions(self) -> Iterator[frozenset[str]]:
        yield from read_filter({"tags": self.tags, "annotations": self.annotations})
        if self.namespaces is not None:
            yield frozenset(NAMESPACE + name for name in self.namespaces)
        if self.ids is not None:
            yield frozenset(ID + tool_id for tool_id in self.ids)
        if self.exclude:
            yield frozenset({NONE_OF, *(ID + tool_id for tool_id in self.exclude)})

    @cached_property
    def spaces(self) -> frozenset[str] | None:
        """The namespaces that its tools can be in; None for any."""
        named = None if self.namespaces is None else frozenset(self.namespaces)
        if self.ids is None:
            return named
        of_ids = frozenset(map(namespace_of, self.ids))
        return of_ids if named is None else of_ids & named

    def may_admit(self, ref: str) -> bool:
        """Return whether a reference can mean a tool of this scope, judged by the reference alone."""
        if self.spaces is None and not self.exclude:  # with `ids`, `spaces` is never None
            return True
        ref, is_one = _parse_reference(ref)
        if self.spaces is not None and namespace_of(ref) not in self.spaces:
            return False
        named = without_version(ref)
        if self.exclude and not {ref, named}.isdisjoint(self.exclude):
            return False
        return self.ids is None or any(
            tool_id in {ref, named} or (not is_one and without_version(tool_id) == named)
            for tool_id in self.ids
        )

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - the base's signature
        return ValidationError(problems)


def _hint(name: str) -> str:
    found = hint_name(name)
    if found is None:
        raise PydanticCustomError("name", "{name} is not a hint", {"name": repr(name)})
    return found


def _parse_reference(ref: str) -> tuple[str, bool]:
    """Return the canonical key of a reference, and whether it names one version."""
    try:
        key = key_of(ref)
    except InvalidToolIdError:  # for example a reference with a version constraint
        return ref, False
    return key, is_exact(key)
