"""Counts the steps that a schema takes for one very value."""

from collections.abc import Iterable
from typing import Any

import jsonschema_rs

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import count_size, count_wide
from toolcrib.model.schema.pattern import MAX_BACKTRACKING_TEXT
from toolcrib.model.schema.weight import Node

__all__ = ["MAX_STEPS", "Meter", "too_much"]

MAX_STEPS = 25_000_000
"""The steps one validation may take: about half a second."""
_MAX_LOOKS = 200_000
"""How many pairs of subschema and value the meter itself may visit."""
_PAIR_STEPS = 50
"""What comparing two integers wider than 64 bits costs under `uniqueItems`."""
_BITS_PER_ROOT_STEP = 48
"""Arithmetic on wide integers takes the square of their length over this."""
_WORD = 64
_NODES_PER_LOOK, _CHARS_PER_LOOK = 20, 5_000
"""How much of a value is copied in the time of one look that ends in an error."""


class Meter:
    """One count for one value, each pair of subschema and value visited once.

    With `remembered` it counts the steps to a verdict, where the engine looks up what it already knows of
    those nodes. With None it counts the looks that listing all errors takes, where it looks up nothing and
    copies the value each time.
    """

    def __init__(self, *, remembered: frozenset[Node] | None) -> None:
        self._remembered = remembered or frozenset()
        self._prices_slow = remembered is not None
        self._known: dict[tuple[int, int], int] = {}
        self._again: dict[tuple[int, int], int] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._wide: dict[int, int] = {}
        self._looks = 0

    def steps(self, node: Node, value: Any) -> int:
        """Return the steps of one node at one value, and of all that it asks in turn.

        Raises:
            SchemaTooComplexError: there are too many to count, or a pattern gives up on a text.
        """
        try:
            return self._steps(node, value)
        except RecursionError:
            raise too_much("the schema and the value go too deep together") from None

    def _steps(self, node: Node, value: Any, *, again: bool = False) -> int:
        """Count one node at one value, for the first time or as it is asked again."""
        counted = self._again if again else self._known
        key = (id(node), id(value))
        if key in self._known and node in self._remembered:
            return 1
        if (known := counted.get(key)) is not None:
            return known
        self._looks += 1
        if self._looks > _MAX_LOOKS:
            raise too_much("the schema looks at it in too many ways")
        total = self._in_place(node, value, again=again)
        if self._prices_slow:
            total += node.steps + self._slow(node, value)
        else:
            total += node.steps * self._copying(value)
        if type(value) is dict:
            total += self._object(node, value, again=again)
        elif type(value) is list:
            total += self._array(node, value, again=again)
        counted[key] = total
        return total

    def _in_place(self, node: Node, value: Any, *, again: bool) -> int:
        ways = [self._steps(other, value, again=again) for other in node.in_place]
        if node.chooses:
            return max(ways, default=0)
        if node.repeats == 1 or again:
            return sum(ways) * node.repeats
        return sum(ways) + (node.repeats - 1) * sum(
            self._steps(other, value, again=True) for other in node.in_place
        )

    def _object(self, node: Node, value: dict[str, Any], *, again: bool) -> int:
        if not (node.properties or node.every_property or node.other_properties or node.names):
            return 0
        total = 0
        self._looks += len(value)
        for name, member in value.items():
            named = node.properties.get(name)
            lookers = node.every_property + ([named] if named else node.other_properties)
            total += sum(self._steps(looker, member, again=again) for looker in lookers)
            total += sum(self._steps(looker, name, again=again) for looker in node.names)
        return total

    def _array(self, node: Node, value: list[Any], *, again: bool) -> int:
        total = len(value)
        if not (node.prefix or node.other_items or node.every_item):
            return total
        self._looks += total
        for index, member in enumerate(value):
            lookers = [*(node.prefix[index : index + 1] or node.other_items), *node.every_item]
            total += sum(self._steps(looker, member, again=again) for looker in lookers)
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
                        f"the pattern {pattern[:120]!r} uses look-around or back-references, which are "
                        f"only tried on texts of up to {MAX_BACKTRACKING_TEXT:,} characters, and few of "
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
