"""References to the results of earlier steps: `steps.find/items/0`, `previous`, `item/name`, `index`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from toolcrib.errors.base import count_noun, short_repr
from toolcrib.execution.chains.steps import Spelling
from toolcrib.model.plain import pointer
from toolcrib.model.schema.references import parse_pointer
from toolcrib.model.suggest import did_you_mean

ABSENT: Final = object()
"""The value of a step that has not run; null would be a possible result."""
_MAX_LISTED_KEYS = 8
_REFERENCE = re.compile(
    r"(?:steps\.(?P<step>[^/]+)|(?P<root>previous|item|index))(?P<rest>/.*)?\Z", re.DOTALL
)
_BAD_ESCAPE = re.compile(r"~(?![01])")
_WORD = re.compile(r"[^./\[\]]+")
_MAX_SUGGESTED = 200
"""Longer texts get no suggestion, which searches among all steps."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_SYNTAX_HINT = (
    "write 'steps.<id or place>', 'previous', 'item' or 'index', and a JSON Pointer after it, "
    'as in {"$ref": "previous"}'
)

Root = Literal["step", "previous", "item", "index"]
_ROOTS: Final[tuple[Root, ...]] = ("previous", "item", "index")


class NoReferencedValueError(LookupError):
    """A referenced value does not exist. Internal: callers of a chain get another error."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        """JSON Pointer of the reference in its template."""


@dataclass(slots=True)
class ReferenceScope:
    """The values that references can mean while one step runs."""

    values: list[Any]
    """The result of each step, by its slot; `ABSENT` if it did not run."""
    previous: Any = ABSENT
    item: Any = ABSENT
    index: Any = ABSENT
    compared: int = 0
    """The number of values that the current condition has compared."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a result or a part of it."""

    text: str
    root: Root
    slot: int | None
    """The slot of the step; None if it is unknown."""
    parts: tuple[str, ...]
    """The keys and indexes of the pointer."""
    at: str
    """JSON Pointer of the reference in its template."""

    @property
    def name(self) -> str:
        """The reference without its pointer, such as `steps.find`."""
        return self.text.partition("/")[0]

    @property
    def uses_item(self) -> bool:
        """Whether it refers to the item or index of `for_each`."""
        return self.root in {"item", "index"}

    def resolve(self, scope: ReferenceScope) -> Any:
        """Return the referenced value, not a copy.

        Raises:
            NoReferencedValueError: it does not exist; the message says what is there instead.
        """
        value = self._root_value(scope)
        if value is ABSENT:
            why = "no step before this one ran" if self.root == "previous" else f"{self.name} did not run"
            raise NoReferencedValueError(self.at, f"{short_repr(self.text)} leads nowhere: {why}")
        for depth, part in enumerate(self.parts):
            if type(value) is dict and part in value:
                value = value[part]
            elif type(value) is list and _INDEX.fullmatch(part) and int(part) < len(value):
                value = value[int(part)]
            else:
                there = f"{self.name}{pointer(self.parts[:depth])}"
                why = f"{there[:200]} {_describe_without(value, part)}"
                raise NoReferencedValueError(self.at, f"{short_repr(self.text)} leads nowhere: {why}")
        return value

    def _root_value(self, scope: ReferenceScope) -> Any:
        if self.root == "step":
            return ABSENT if self.slot is None else scope.values[self.slot]
        return getattr(scope, self.root)


def _describe_without(value: Any, part: str) -> str:
    """Describe a value that does not have a member."""
    if type(value) is list:
        count = f"an array of {len(value):,} item{'' if len(value) == 1 else 's'}"
        return f"is {count}" if value else "is an empty array"
    if type(value) is not dict:
        return f"is {'null' if value is None else short_repr(value)}"
    if not value:
        return "is an empty object"
    listed = ", ".join(short_repr(key) for key in list(value)[:_MAX_LISTED_KEYS])
    more = ", …" if len(value) > _MAX_LISTED_KEYS else ""
    return f"has no {short_repr(part)}, only {listed}{more}{did_you_mean(part, value)}"


class StepPlace(NamedTuple):
    """The place of a step that references can name."""

    slot: int
    """Its number among all steps of the chain, with those in groups."""
    top: int
    """The index in the chain of the step, or of the outermost group that it is in."""


class StepNames:
    """The steps of a chain by the names in references, and which of them one step may refer to."""

    def __init__(
        self, by_name: Mapping[str, StepPlace], reader: StepPlace, spelling: Spelling, *, has_item: bool
    ) -> None:
        self._by_name = by_name
        self._reader = reader
        self._spelling = spelling
        self._has_item = has_item

    def parse(self, text: Any, at: str) -> Reference | str:
        """Return the reference for a text, or a message about its fault."""
        found = _REFERENCE.match(text) if isinstance(text, str) else None
        if found is None:
            fault = f"{short_repr(text)} is no reference"
            if meant := self._suggest(text):
                return f"{fault}; {meant}"
            return f"{fault}; {_SYNTAX_HINT}, or {{'$literal': ...}} around a plain value"
        rest = found["rest"] or ""
        if _BAD_ESCAPE.search(rest):
            fault = f"{short_repr(text)} is no reference"
            return f"{fault}: in a JSON Pointer '~' is written '~0', and '/' in a key '~1'"
        parts = parse_pointer(rest)
        for root in _ROOTS:
            if found["root"] == root:
                return self._check_root(root) or Reference(text, root, None, parts, at)
        known = self._by_name.get(found["step"])
        if known is None and (meant := self._suggest(text)):
            return f"{short_repr(text)} leads nowhere; {meant}"
        fault = self._check_step(found["step"], known)
        return fault or Reference(text, "step", known.slot if known else None, parts, at)

    def _suggest(self, text: Any) -> str:
        """Return a hint for a reference in the syntax of programs: `item.name`, `x[0]`."""
        if not isinstance(text, str) or len(text) > _MAX_SUGGESTED or "~" in text:
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

    def _check_root(self, root: str) -> str:
        if root == "previous":
            return "" if self._reader.top else "'previous' leads nowhere: this is the first step"
        if self._has_item:
            return ""
        return f"{root!r} is known only to a step with {self._spelling['for_each']}"

    def _check_step(self, name: str, known: StepPlace | None) -> str:
        reference = short_repr(f"steps.{name}")
        if known is None:
            count = sum(1 for each in self._by_name if each.isdecimal())
            total = (
                f"there {'is' if count == 1 else 'are'} {count_noun(count, 'step')}"
                if name.isdecimal()
                else "no step has that id"
            )
            return f"{reference} leads nowhere: {total}{did_you_mean(name, self._by_name)}"
        if known.slot == self._reader.slot:
            return f"{reference} is this step itself"
        if known.top > self._reader.top:
            return f"{reference} runs only after this step; refer to earlier ones"
        if known.top == self._reader.top:
            return f"{reference} is in the same group; steps that run side by side cannot refer to each other"
        return ""
