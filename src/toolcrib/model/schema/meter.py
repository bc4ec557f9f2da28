"""Counting of the validation steps of one schema on one value."""

from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema_rs

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import count_size, count_wide
from toolcrib.model.schema.pattern import MAX_BACKTRACKING_TEXT
from toolcrib.model.schema.weight import Node

MAX_STEPS = 25_000_000
"""The maximum number of steps of one validation: about half a second."""
_MAX_VISITS = 200_000
"""The maximum number of pairs of subschema and value that the meter itself visits."""
_STEPS_PER_PAIR = 50
"""Steps to compare two integers of more than 64 bits under `uniqueItems`."""
_BITS_PER_ROOT_STEP = 48
"""Arithmetic on an integer of b bits takes (b / 48)² steps."""
_WIDE_BITS = 64
# An error has a copy of the value. These are the values and characters copied in the time of one step.
_NODES_PER_ERROR = 20
_CHARS_PER_ERROR = 5_000


class Occurrence:
    """A value at one place of the instance.

    The same Python object may occur in several places. The engine treats these as different values, so they
    must be counted separately.
    """

    __slots__ = ("_members", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._members: dict[Any, Occurrence] = {}

    def member(self, key: Any, value: Any) -> "Occurrence":
        """Return the occurrence of a member, the same object each time."""
        if key not in self._members:
            self._members[key] = Occurrence(value)
        return self._members[key]


class Meter:
    """Counts the steps for one value; each pair of subschema and occurrence is visited once.

    With `recursions` it counts the steps to a result: at a reference that closes a recursion, the engine
    computes the result for an occurrence once, and looks it up afterwards. With None it counts the cost of
    listing all errors, where the engine reuses nothing and copies the value into each error.
    """

    def __init__(self, returns: Mapping[Node, int] | None) -> None:
        self._recursions = returns or {}
        self._counts_extra = returns is not None
        self._known: dict[tuple[Node, Occurrence], int] = {}
        self._recursive: dict[tuple[Node, Occurrence], None] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._wide: dict[int, int] = {}
        self._visits = 0

    def count(self, root: Node, value: Any) -> int:
        """Return the steps of a schema on a value, or some number above `MAX_STEPS`.

        Raises:
            SchemaTooComplexError: there are too many to count, or a pattern backtracks too much on a text.
        """
        try:
            # Recursions are counted after the rest, once for each path; counting one may find further ones.
            total = self._visit(root, Occurrence(value))
            returned = 0
            while len(self._recursive) > returned and total <= MAX_STEPS:
                for node, place in list(self._recursive)[returned:]:
                    returned += 1
                    if node.refers_to is not None:
                        total += self._recursions[node] * self._visit(node.refers_to, place)
        except RecursionError:
            raise too_costly_error("the schema and the value go too deep together") from None
        return total

    def _visit(self, node: Node, place: Occurrence) -> int:
        key = (node, place)
        if (known := self._known.get(key)) is not None:
            return known
        self._visits += 1
        if self._visits > _MAX_VISITS:
            raise too_costly_error("the schema looks at it in too many ways")
        value = place.value
        ways = [self._visit_in_place(node, other, place) for other in node.in_place]
        total = max(ways, default=0) if node.is_choice else sum(ways) * node.in_place_repeats
        if self._counts_extra:
            total += node.steps + self._extra_cost(node, value)
        else:
            total += node.steps * self._copy_cost(value)
        if type(value) is dict:
            total += self._visit_members(node, place)
        elif type(value) is list:
            total += self._visit_items(node, place)
        self._known[key] = total
        return total

    def _visit_in_place(self, node: Node, other: Node, place: Occurrence) -> int:
        if other is node.refers_to and node in self._recursions:
            self._recursive[node, place] = None
            return 1
        return self._visit(other, place)

    def _visit_members(self, node: Node, place: Occurrence) -> int:
        if not (node.properties or node.every_property or node.other_properties or node.names):
            return 0
        total = 0
        self._visits += len(place.value)
        for name, member in place.value.items():
            named = node.properties.get(name)
            lookers = node.every_property + ([named] if named else node.other_properties)
            if lookers:
                there = place.member(name, member)
                total += sum(self._visit(looker, there) for looker in lookers)
            total += sum(self._visit(looker, place.member((name,), name)) for looker in node.names)
        return total

    def _visit_items(self, node: Node, place: Occurrence) -> int:
        total = len(place.value)
        if not (node.prefix or node.other_items or node.every_item):
            return total
        self._visits += total
        for index, member in enumerate(place.value):
            there = place.member(index, member)
            lookers = [*(node.prefix[index : index + 1] or node.other_items), *node.every_item]
            total += sum(self._visit(looker, there) for looker in lookers)
        return total

    def _extra_cost(self, node: Node, value: Any) -> int:
        """Return the steps of comparisons, arithmetic and pattern matching of a node on a value."""
        total = node.extra_steps
        if type(value) is str:
            total += node.per_char * len(value)
            self._try_patterns(node, [value])
        elif type(value) is dict:
            total += node.per_char * sum(map(len, value)) if node.per_char else 0
            self._try_patterns(node, value)
        elif type(value) is list and node.unique:
            total += self._size(value)[0] + self._wide_integers(value) ** 2 * _STEPS_PER_PAIR
        elif type(value) is int and value.bit_length() >= _WIDE_BITS:
            total += node.numeric * (value.bit_length() // _BITS_PER_ROOT_STEP) ** 2
        return total

    def _copy_cost(self, value: Any) -> int:
        """Return the cost of an error about a value, which contains a copy of it."""
        nodes, chars = self._size(value)
        return 1 + nodes // _NODES_PER_ERROR + chars // _CHARS_PER_ERROR

    def _size(self, value: Any) -> tuple[int, int]:
        """Return the numbers of values and of characters in a value."""
        if type(value) is not dict and type(value) is not list:
            return 1, len(value) if type(value) is str else 0
        if id(value) not in self._sizes:
            self._sizes[id(value)] = count_size(value)
        return self._sizes[id(value)]

    def _wide_integers(self, value: Any) -> int:
        if id(value) not in self._wide:
            self._wide[id(value)] = count_wide(value)
        return self._wide[id(value)]

    def _try_patterns(self, node: Node, texts: Iterable[str]) -> None:
        """Try backtracking patterns on texts; raise if one would be slow or exceed the backtrack limit."""
        for pattern, engine in node.backtracking:
            for text in texts:
                self._visits += len(text) ** 2 // 100
                if len(text) > MAX_BACKTRACKING_TEXT or self._visits > _MAX_VISITS:
                    raise SchemaTooComplexError(
                        f"the pattern {pattern[:120]!r} uses look-around, back-references or '\\b', and "
                        f"is only tried on texts of up to {MAX_BACKTRACKING_TEXT:,} characters, and few of "
                        "those; simplify the pattern"
                    )
                try:
                    engine.validate(text)
                except jsonschema_rs.ValidationError as error:
                    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded):
                        reason = f"the pattern {pattern[:120]!r} backtracks without end on it"
                        raise too_costly_error(reason) from None


def too_costly_error(reason: str) -> SchemaTooComplexError:
    """Return the error of a schema and a value that would take too long together."""
    return SchemaTooComplexError(
        f"the schema cannot be checked against this value in reasonable time: {reason}; "
        "send a smaller value, or simplify the schema"
    )
