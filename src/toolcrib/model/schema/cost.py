"""What validating a value costs at most, known from the schema before the engine starts.

The engine cannot be stopped once it runs. A *step* is one look of one subschema at one value, some 20 ns.
`Cost` bounds the steps of any value from its size alone, which is enough for nearly every call; where that
bound is too high, a `Meter` counts them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import MAX_DEPTH
from toolcrib.model.schema.meter import MAX_STEPS, Meter, too_much
from toolcrib.model.schema.recursion import ENDLESS, Edges, edges, ordered, returns
from toolcrib.model.schema.weight import Node

__all__ = ["Cost", "assess"]

_MAX_FRAMES = 300
"""How deep the engine may recurse: with room to spare in a thread with a stack of 256 KiB."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bounds that hold for every value, from the shape of a schema's graph."""

    root: Node
    returns: Mapping[Node, int]
    """The references at which the engine looks up a verdict that it has given before."""
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
            return ENDLESS, 0
        growth = self._growth(levels)
        here = self.here * (levels + 1 if self.unique else 1)  # items are compared to their last level
        per_char = min(self.whole_per_char, self.here_per_char * growth)
        return min(self.whole, here * growth), per_char

    def _growth(self, levels: int) -> int:
        growth: int = self.fan**levels
        return min(growth, ENDLESS)

    def _frames(self, levels: int) -> int:
        return min(self.longest, (levels + 1) * self.chain)

    def meter(self, value: Any, levels: int) -> int:
        """Return how many steps the engine takes at most for its verdict on this very value.

        Raises:
            SchemaTooComplexError: more than `MAX_STEPS`, too deep, or a pattern gives up on a text.
        """
        if self._frames(levels) > _MAX_FRAMES:
            raise SchemaTooComplexError(
                "the schema chains too many references for a value nested this deep; "
                "send a flatter value, or shorten the chain of '$ref' and 'allOf'"
            )
        steps = Meter(self.returns).steps(self.root, value)
        if steps > MAX_STEPS:
            raise too_much(f"it would take {steps:,} steps")
        return steps

    def looks(self, value: Any) -> int:
        """Return how many looks it takes to list every error of a value; the engine remembers none then."""
        try:
            return Meter(None).steps(self.root, value)
        except SchemaTooComplexError:
            return ENDLESS


def assess(nodes: list[Node]) -> Cost:
    """Return the bounds of a graph, the root first.

    Raises:
        SchemaTooComplexError: it loops without going down, or even the smallest value costs too much.
    """
    order = ordered(nodes, lambda node: node.in_place)
    if order is None:
        raise SchemaTooComplexError(
            "the schema refers to itself without going down into the value, so it would never finish; "
            "let the reference stand under 'properties' or 'items'"
        )
    here = _totals(order, lambda node: node.in_place, lambda node: node.steps + node.slow)
    here_chars = _totals(order, lambda node: node.in_place, lambda node: node.per_char)
    chain = _longest(order, lambda node: node.in_place)
    if max(here.values()) > MAX_STEPS or max(chain.values()) > _MAX_FRAMES:
        raise SchemaTooComplexError(
            f"the schema multiplies to {max(here.values()):,} steps for a single value, in chains of up to "
            f"{max(chain.values()):,} references; share fewer definitions through 'allOf', 'anyOf' and '$ref'"
        )
    full = ordered(nodes, edges)
    return Cost(
        root=nodes[0],
        returns={} if full else returns(nodes),
        whole=_totals(full, edges, lambda node: node.steps + node.slow)[nodes[0]] if full else ENDLESS,
        here=max(here.values()),
        fan=max(1, *_totals(order, lambda node: node.in_place, lambda node: node.fan).values()),
        whole_per_char=_totals(full, edges, lambda node: node.per_char)[nodes[0]] if full else ENDLESS,
        here_per_char=max(here_chars.values()),
        longest=_longest(full, edges)[nodes[0]] if full else ENDLESS,
        chain=max(chain.values()),
        flat=_is_flat(nodes[0]) and not any(here_chars.values()),
        unique=any(node.unique for node in nodes),
        backtracking=any(node.backtracking for node in nodes),
    )


def _is_flat(root: Node) -> bool:
    members = root.properties.values()
    return not root.in_place and not any(member.in_place or member.down() for member in members)


def _totals(order: list[Node], edges_of: Edges, own: Callable[[Node], int]) -> dict[Node, int]:
    """Return for each node the sum over all ways that start from it."""
    totals: dict[Node, int] = {}
    for node in order:
        ways = [totals[target] for target in edges_of(node)]
        below = max(ways, default=0) if node.chooses else sum(ways) * node.repeats
        totals[node] = min(own(node) + below, ENDLESS)
    return totals


def _longest(order: list[Node], edges_of: Edges) -> dict[Node, int]:
    lengths: dict[Node, int] = {}
    for node in order:
        lengths[node] = 1 + max((lengths[target] for target in edges_of(node)), default=0)
    return lengths
