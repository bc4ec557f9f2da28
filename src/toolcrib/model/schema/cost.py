"""What validating a value costs, known before the engine starts, because the engine cannot be stopped.

A *step* is one look of one subschema at one value, some 20 ns. `Cost` bounds the steps of any value from
its size alone, which is enough for nearly every call; where that bound is too high, `Cost.meter` counts them,
each pair of subschema and value once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import MAX_DEPTH, count_wide
from toolcrib.model.schema.graph import Node
from toolcrib.model.schema.pattern import MAX_BACKTRACKING_TEXT

__all__ = ["MAX_STEPS", "Cost", "assess"]

MAX_STEPS = 25_000_000
"""The steps one validation may take: about half a second."""
_MAX_FRAMES = 400
"""How deep the engine may recurse: half of what fits a thread with a stack of 512 KiB."""
_MAX_LOOKS = 200_000
"""How many pairs of subschema and value the meter itself may visit."""
_PAIR_STEPS = 50
"""What comparing two integers wider than 64 bits costs under `uniqueItems`."""
_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class Cost:
    """Bounds that hold for every value, from the shape of a schema's graph."""

    root: Node
    whole: int
    """Steps if every subschema looked at one and the same value; endless where the schema is recursive."""
    here: int
    """Most steps that any one subschema takes at one value, without going down."""
    fan: int
    """How many subschemas, at most, look at each member for one that looks at the whole."""
    whole_per_char: int
    here_per_char: int
    longest: int
    """The longest way through the schema; endless where it is recursive."""
    chain: int
    """The longest way that stays at one value."""
    flat: bool
    """It describes an object of simple values, none of which is priced by its text."""
    unique: bool
    """It holds `uniqueItems`, where integers wider than 64 bits are compared pair by pair."""
    backtracking: bool
    """It holds patterns that must be tried on the very texts before the engine may."""

    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Return, for values of each depth, the steps per node and per character that are never exceeded.

        Where only the value itself can tell, they are endless.
        """
        return tuple(self._bound(levels) for levels in range(MAX_DEPTH + 1))

    def _bound(self, levels: int) -> tuple[int, int]:
        if self.backtracking or self._frames(levels) > _MAX_FRAMES:
            return _ENDLESS, 0
        growth = self._growth(levels)
        return min(self.whole, self.here * growth), min(self.whole_per_char, self.here_per_char * growth)

    def _growth(self, levels: int) -> int:
        growth: int = self.fan**levels
        return min(growth, _ENDLESS)

    def _frames(self, levels: int) -> int:
        return min(self.longest, (levels + 1) * self.chain)

    def meter(self, value: Any, levels: int) -> int:
        """Return how many steps the engine takes at most to validate this very value.

        Raises:
            SchemaTooComplexError: more than `MAX_STEPS`, too deep, or a pattern gives up on a text.
        """
        if self._frames(levels) > _MAX_FRAMES:
            raise SchemaTooComplexError(
                "the schema chains too many references for a value nested this deep; "
                "send a flatter value, or shorten the chain of '$ref' and 'allOf'"
            )
        steps = _Meter().steps(self.root, value)
        if steps > MAX_STEPS:
            raise _too_much(f"it would take {steps:,} steps")
        return steps


def assess(nodes: list[Node]) -> Cost:
    """Return the bounds of a graph, the root first.

    Raises:
        SchemaTooComplexError: it loops without going down, or even the smallest value costs too much.
    """
    order = _ordered(nodes, lambda node: node.in_place)
    if order is None:
        raise SchemaTooComplexError(
            "the schema refers to itself without going down into the value, so it would never finish; "
            "let the reference stand under 'properties' or 'items'"
        )
    here = _totals(order, lambda node: node.in_place, lambda node: node.steps)
    here_chars = _totals(order, lambda node: node.in_place, lambda node: node.per_char)
    chain = _longest(order, lambda node: node.in_place)
    if max(here.values()) > MAX_STEPS or max(chain.values()) > _MAX_FRAMES:
        raise SchemaTooComplexError(
            f"the schema multiplies to {max(here.values()):,} steps for a single value, in chains of up to "
            f"{max(chain.values()):,} references; share fewer definitions through 'allOf', 'anyOf' and '$ref'"
        )
    full = _ordered(nodes, _edges)
    return Cost(
        root=nodes[0],
        whole=_totals(full, _edges, lambda node: node.steps)[nodes[0]] if full else _ENDLESS,
        here=max(here.values()),
        fan=max(1, *_totals(order, lambda node: node.in_place, lambda node: node.fan).values()),
        whole_per_char=_totals(full, _edges, lambda node: node.per_char)[nodes[0]] if full else _ENDLESS,
        here_per_char=max(here_chars.values()),
        longest=_longest(full, _edges)[nodes[0]] if full else _ENDLESS,
        chain=max(chain.values()),
        flat=_is_flat(nodes[0]) and not any(here_chars.values()),
        unique=any(node.unique for node in nodes),
        backtracking=any(node.backtracking for node in nodes),
    )


def _is_flat(root: Node) -> bool:
    return not any(member.in_place or member.down() for member in root.properties.values())


_Edges = Callable[[Node], list[Node]]


def _edges(node: Node) -> list[Node]:
    return node.in_place + node.down()


def _ordered(nodes: list[Node], edges: _Edges) -> list[Node] | None:
    """Return the nodes with every edge pointing backwards, or None where the edges make a circle."""
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for target in edges(node):
            waiting[target] += 1
    ready = [node for node, count in waiting.items() if not count]
    for node in ready:
        for target in edges(node):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ready[::-1] if len(ready) == len(nodes) else None


def _totals(order: list[Node], edges: _Edges, own: Callable[[Node], int]) -> dict[Node, int]:
    """Return for each node the sum over all ways that start from it."""
    totals: dict[Node, int] = {}
    for node in order:
        ways = [totals[target] for target in edges(node)]
        totals[node] = min(own(node) + (max(ways, default=0) if node.chooses else sum(ways)), _ENDLESS)
    return totals


def _longest(order: list[Node], edges: _Edges) -> dict[Node, int]:
    lengths: dict[Node, int] = {}
    for node in order:
        lengths[node] = 1 + max((lengths[target] for target in edges(node)), default=0)
    return lengths


class _Meter:
    """One count of the steps for one value."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}
        self._looks = 0

    def steps(self, node: Node, value: Any) -> int:
        key = (id(node), id(value))
        if (known := self._known.get(key)) is not None:
            return known
        self._looks += 1
        if self._looks > _MAX_LOOKS:
            raise _too_much("the schema looks at it in too many ways")
        ways = [self.steps(other, value) for other in node.in_place]
        total = node.steps + (max(ways, default=0) if node.chooses else sum(ways))
        if type(value) is str:
            total += node.per_char * len(value)
            self._try_patterns(node, [value])
        elif type(value) is dict:
            total += self._object(node, value)
        elif type(value) is list:
            total += self._array(node, value)
        self._known[key] = total
        return total

    def _object(self, node: Node, value: dict[str, Any]) -> int:
        total = node.per_char * sum(map(len, value)) if node.per_char else 0
        self._try_patterns(node, value)
        for name, member in value.items():
            named = node.properties.get(name)
            lookers = node.every_property + ([named] if named else node.other_properties)
            total += sum(self.steps(looker, member) for looker in lookers)
            total += sum(self.steps(looker, name) for looker in node.names)
        return total

    def _array(self, node: Node, value: list[Any]) -> int:
        total = len(value)
        if node.unique:
            total += count_wide(value) ** 2 * _PAIR_STEPS
        for index, member in enumerate(value):
            lookers = node.prefix[index : index + 1] or node.other_items
            total += sum(self.steps(looker, member) for looker in lookers + node.every_item)
        return total

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
                        raise _too_much(
                            f"the pattern {pattern[:120]!r} backtracks without end on it"
                        ) from None


def _too_much(reason: str) -> SchemaTooComplexError:
    return SchemaTooComplexError(
        f"the schema cannot be checked against this value in reasonable time: {reason}; "
        "send a smaller value, or simplify the schema"
    )
