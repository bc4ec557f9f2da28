"""Counts the steps that a schema takes for one very value."""

from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema_rs

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import count_size, count_wide
from toolcrib.model.schema.pattern import MAX_BACKTRACKING_TEXT
from toolcrib.model.schema.weight import Node

MAX_STEPS = 25_000_000
"""The steps one validation may take: about half a second."""
_MAX_LOOKS = 200_000
"""How many pairs of subschema and value the meter itself may visit."""
_PAIR_STEPS = 50
"""What comparing two integers wider than 64 bits costs under `uniqueItems`."""
_BITS_PER_ROOT_STEP = 48
"""Arithmetic on wide integers takes the square of their length over this."""
_WORD = 64
_NODES_PER_LOOK = 20
"""So many values are copied in the time of one look that ends in an error."""
_CHARS_PER_LOOK = 5_000


class Occurrence:
    """A value in one place of the whole; the engine keeps places apart where Python shares an object."""

    __slots__ = ("_members", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._members: dict[Any, Occurrence] = {}

    def member(self, key: Any, value: Any) -> "Occurrence":
        """Return the place of a member, the same one each time."""
        if key not in self._members:
            self._members[key] = Occurrence(value)
        return self._members[key]


class Meter:
    """One count for one value, each pair of subschema and place visited once.

    With `returns` it counts the steps to a verdict: where a reference comes back, the engine computes its
    verdict on a place once, and looks it up afterwards. With None it counts the looks that listing all errors
    takes, where it looks up nothing and copies the value each time.
    """

    def __init__(self, returns: Mapping[Node, int] | None) -> None:
        self._returns = returns or {}
        self._prices_slow = returns is not None
        self._known: dict[tuple[Node, Occurrence], int] = {}
        self._returned: dict[tuple[Node, Occurrence], None] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._wide: dict[int, int] = {}
        self._looks = 0

    def steps(self, root: Node, value: Any) -> int:
        """Return the steps that a schema takes at a value, or a number above `MAX_STEPS`.

        Raises:
            SchemaTooComplexError: there are too many to count, or a pattern gives up on a text.
        """
        try:
            total = self._steps(root, Occurrence(value))
            returned = 0
            while len(self._returned) > returned and total <= MAX_STEPS:
                for node, place in list(self._returned)[returned:]:
                    returned += 1
                    if node.refers_to is not None:
                        total += self._returns[node] * self._steps(node.refers_to, place)
        except RecursionError:
            raise too_much("the schema and the value go too deep together") from None
        return total

    def _steps(self, node: Node, place: Occurrence) -> int:
        key = (node, place)
        if (known := self._known.get(key)) is not None:
            return known
        self._looks += 1
        if self._looks > _MAX_LOOKS:
            raise too_much("the schema looks at it in too many ways")
        value = place.value
        ways = [self._in_place(node, other, place) for other in node.in_place]
        total = max(ways, default=0) if node.chooses else sum(ways) * node.repeats
        if self._prices_slow:
            total += node.steps + self._slow(node, value)
        else:
            total += node.steps * self._copying(value)
        if type(value) is dict:
            total += self._object(node, place)
        elif type(value) is list:
            total += self._array(node, place)
        self._known[key] = total
        return total

    def _in_place(self, node: Node, other: Node, place: Occurrence) -> int:
        if other is node.refers_to and node in self._returns:
            self._returned[node, place] = None
            return 1
        return self._steps(other, place)

    def _object(self, node: Node, place: Occurrence) -> int:
        if not (node.properties or node.every_property or node.other_properties or node.names):
            return 0
        total = 0
        self._looks += len(place.value)
        for name, member in place.value.items():
            named = node.properties.get(name)
            lookers = node.every_property + ([named] if named else node.other_properties)
            if lookers:
                there = place.member(name, member)
                total += sum(self._steps(looker, there) for looker in lookers)
            total += sum(self._steps(looker, place.member((name,), name)) for looker in node.names)
        return total

    def _array(self, node: Node, place: Occurrence) -> int:
        total = len(place.value)
        if not (node.prefix or node.other_items or node.every_item):
            return total
        self._looks += total
        for index, member in enumerate(place.value):
            there = place.member(index, member)
            lookers = [*(node.prefix[index : index + 1] or node.other_items), *node.every_item]
            total += sum(self._steps(looker, there) for looker in lookers)
        return total

    def _slow(self, node: Node, value: Any) -> int:
        """Return what a look costs beyond a step: comparing, arithmetic, matching."""
        total = node.slow
        if type(value) is str:
            total += node.per_char * len(value)
            self._try_patterns(node, [value])
        elif type(value) is dict:
            total += node.per_char * sum(map(len, value)) if node.per_char else 0
            self._try_patterns(node, value)
        elif type(value) is list and node.unique:
            total += self._size(value)[0] + self._wide_integers(value) ** 2 * _PAIR_STEPS
        elif type(value) is int and value.bit_length() >= _WORD:
            total += node.numeric * (value.bit_length() // _BITS_PER_ROOT_STEP) ** 2
        return total

    def _copying(self, value: Any) -> int:
        """Return what an error about a value costs, since it comes with a copy of it."""
        nodes, chars = self._size(value)
        return 1 + nodes // _NODES_PER_LOOK + chars // _CHARS_PER_LOOK

    def _size(self, value: Any) -> tuple[int, int]:
        """Return how many values, and how many characters, a value holds."""
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
        """Refuse texts on which a backtracking pattern would be slow, or would give up."""
        for pattern, engine in node.backtracking:
            for text in texts:
                self._looks += len(text) ** 2 // 100
                if len(text) > MAX_BACKTRACKING_TEXT or self._looks > _MAX_LOOKS:
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
                        raise too_much(reason) from None


def too_much(reason: str) -> SchemaTooComplexError:
    """Return the error for a schema and a value that would take too long together."""
    return SchemaTooComplexError(
        f"the schema cannot be checked against this value in reasonable time: {reason}; "
        "send a smaller value, or simplify the schema"
    )
