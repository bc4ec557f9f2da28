"""References to what earlier steps gave: `steps.find/items/0`, `previous`, `item/name`, `index`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from toolcrib.errors.base import counted, shown
from toolcrib.execution.chains.steps import Spelling
from toolcrib.model.plain import pointer
from toolcrib.model.schema.references import parse_pointer
from toolcrib.model.suggest import did_you_mean

ABSENT: Final = object()
"""Stands where a value would, of a step that has not run."""
_LISTED = 8
_FORM = re.compile(r"(?:steps\.(?P<step>[^/]+)|(?P<root>previous|item|index))(?P<rest>/.*)?\Z", re.DOTALL)
_BAD_ESCAPE = re.compile(r"~(?![01])")
_WORD = re.compile(r"[^./\[\]]+")
_MAX_MEANT = 200
_PLACE = re.compile(r"0|[1-9][0-9]{0,8}")
_WRITE = (
    "write 'steps.<id or place>', 'previous', 'item' or 'index', and a JSON Pointer after it, "
    'as in {"$ref": "previous"}'
)

Root = Literal["step", "previous", "item", "index"]
_ROOTS: Final[tuple[Root, ...]] = ("previous", "item", "index")


class LeadsNowhereError(LookupError):
    """There is nothing where a reference leads; for those who resolve it, never for callers of a chain."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        """Where the reference stands in the value that it is a part of."""


@dataclass(slots=True)
class ReferenceScope:
    """What references are looked up in."""

    values: list[Any]
    """What each step gave, by its slot; `ABSENT` for those that did not run."""
    previous: Any = ABSENT
    item: Any = ABSENT
    index: Any = ABSENT
    compared: int = 0
    """How many values the condition that is being tested has compared."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in what a step gave."""

    text: str
    root: Root
    slot: int | None
    """Which step, where that is known."""
    parts: tuple[str, ...]
    """The keys and places of the pointer."""
    at: str
    """Where the reference stands, as a JSON Pointer into the value that it is a part of."""

    @property
    def name(self) -> str:
        """Return what the reference begins with, such as `steps.find`."""
        return self.text.partition("/")[0]

    @property
    def of_item(self) -> bool:
        """Return whether it means the item that a step runs for, or the place of that."""
        return self.root in {"item", "index"}

    def resolve(self, scope: ReferenceScope) -> Any:
        """Return what is there, the very object.

        Raises:
            LeadsNowhereError: nothing is; it says what there is instead.
        """
        value = self._start(scope)
        if value is ABSENT:
            why = "no step before this one ran" if self.root == "previous" else f"{self.name} did not run"
            raise LeadsNowhereError(self.at, f"{shown(self.text)} leads nowhere: {why}")
        for depth, part in enumerate(self.parts):
            if type(value) is dict and part in value:
                value = value[part]
            elif type(value) is list and _PLACE.fullmatch(part) and int(part) < len(value):
                value = value[int(part)]
            else:
                there = f"{self.name}{pointer(self.parts[:depth])}"
                why = f"{there[:200]} {_lacks(value, part)}"
                raise LeadsNowhereError(self.at, f"{shown(self.text)} leads nowhere: {why}")
        return value

    def _start(self, scope: ReferenceScope) -> Any:
        if self.root == "step":
            return ABSENT if self.slot is None else scope.values[self.slot]
        return getattr(scope, self.root)


def _lacks(value: Any, part: str) -> str:
    """Say what a value is that has no such part."""
    if type(value) is list:
        count = f"an array of {len(value):,} item{'' if len(value) == 1 else 's'}"
        return f"is {count}" if value else "is an empty array"
    if type(value) is not dict:
        return f"is {'null' if value is None else shown(value)}"
    if not value:
        return "is an empty object"
    listed = ", ".join(shown(key) for key in list(value)[:_LISTED])
    more = ", …" if len(value) > _LISTED else ""
    return f"has no {shown(part)}, only {listed}{more}{did_you_mean(part, value)}"


class StepPlace(NamedTuple):
    """The place of a step that references may name."""

    slot: int
    """Its place among all steps of the chain, those in groups included."""
    top: int
    """The place in the chain of the step, or of the outermost group that it is in."""


class StepNames:
    """The steps of a chain by what references call them, and which of them one step can see."""

    def __init__(
        self, by_name: Mapping[str, StepPlace], seen_by: StepPlace, spelling: Spelling, *, has_item: bool
    ) -> None:
        self._by_name = by_name
        self._seen_by = seen_by
        self._spelling = spelling
        self._has_item = has_item

    def read(self, text: Any, at: str) -> Reference | str:
        """Return a reference, or what is wrong with it."""
        found = _FORM.match(text) if isinstance(text, str) else None
        if found is None:
            if meant := self._meant(text):
                return f"{shown(text)} is no reference; {meant}"
            return f"{shown(text)} is no reference; {_WRITE}, or {{'$literal': ...}} around a plain value"
        rest = found["rest"] or ""
        if _BAD_ESCAPE.search(rest):
            return (
                f"{shown(text)} is no reference: in a JSON Pointer '~' is written '~0', and '/' in a key '~1'"
            )
        parts = parse_pointer(rest)
        for root in _ROOTS:
            if found["root"] == root:
                return self._fault_of_root(root) or Reference(text, root, None, parts, at)
        known = self._by_name.get(found["step"])
        if known is None and (meant := self._meant(text)):
            return f"{shown(text)} leads nowhere; {meant}"
        fault = self._fault_of_step(found["step"], known)
        return fault or Reference(text, "step", known.slot if known else None, parts, at)

    def _meant(self, text: Any) -> str:
        """Return how to write a reference whose parts are set off as in a program: `item.name`, `x[0]`."""
        if not isinstance(text, str) or len(text) > _MAX_MEANT or "~" in text:
            return ""
        words = _WORD.findall(text)
        if words[:1] == ["steps"]:
            heads = [".".join(words[1:end]) for end in range(len(words), 1, -1)]
            name = next((head for head in heads if head in self._by_name), None)
            words = [] if name is None else [f"steps.{name}", *words[2 + name.count(".") :]]
        elif words[:1] and words[0] not in _ROOTS:
            words = []
        meant = f"{words[0]}{pointer(words[1:])}" if words else ""
        return f"write {meant!r}" if meant not in {"", text} else ""

    def _fault_of_root(self, root: str) -> str:
        if root == "previous":
            return "" if self._seen_by.top else "'previous' leads nowhere: this is the first step"
        if self._has_item:
            return ""
        return f"{root!r} is known only to a step with {self._spelling['for_each']}"

    def _fault_of_step(self, name: str, known: StepPlace | None) -> str:
        reference = shown(f"steps.{name}")
        if known is None:
            count = sum(1 for each in self._by_name if each.isdecimal())
            total = (
                f"there {'is' if count == 1 else 'are'} {counted(count, 'step')}"
                if name.isdecimal()
                else "no step has that id"
            )
            return f"{reference} leads nowhere: {total}{did_you_mean(name, self._by_name)}"
        if known.slot == self._seen_by.slot:
            return f"{reference} is this step itself"
        if known.top > self._seen_by.top:
            return f"{reference} runs only after this step; refer to earlier ones"
        if known.top == self._seen_by.top:
            return f"{reference} is in the same group; steps that run side by side cannot refer to each other"
        return ""
