"""Upper bounds of the cost of validating a value, known before the engine starts.

The engine cannot be stopped once it runs. A *step* is one look of one subschema at one value, some 20 ns.
`SchemaCost` bounds the steps of any value from its size alone, which is enough for nearly every call; where
that bound is too high, a `Meter` counts them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import MAX_DEPTH
from toolcrib.model.schema.meter import MAX_STEPS, Meter, too_much
from toolcrib.model.schema.weight import Node

ENDLESS = 1 << 62
Edges = Callable[[Node], list[Node]]
_MAX_FRAMES = 300
"""How deep the engine may recurse: with room to spare in a thread with a stack of 256 KiB."""


def edges(node: Node) -> list[Node]:
    """Return every node that a node asks, at its own value or at a member."""
    return node.in_place + node.down()


def ordered(nodes: list[Node], edges_of: Edges) -> list[Node] | None:
    """Return the nodes with every edge pointing backwards, or None where the edges make a circle."""
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for target in edges_of(node):
            waiting[target] += 1
    ready = [node for node, count in waiting.items() if not count]
    for node in ready:
        for target in edges_of(node):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ready[::-1] if len(ready) == len(nodes) else None


def returns(nodes: list[Node]) -> dict[Node, int]:
    """Return the references that lead back, each with the number of ways on which it is met.

    The engine looks up its verdict instead of computing it again where a `$ref` leads back to a subschema
    that is being checked, one that every way from the root to the reference passes. Only those count
    here, whatever the order in which the engine compiles the schema.

    The engine may keep its verdicts apart for each of these ways. Where cycles remain that no reference
    closes for certain, no lookup is counted.
    """
    above = _dominators(nodes[0])
    back = {node for node in nodes if node in above and _passes(node.refers_to, node, above)}

    def onward(node: Node) -> list[Node]:
        return [other for other in edges(node) if not (node in back and other is node.refers_to)]

    order = ordered(nodes, onward)
    if order is None:
        return {}
    ways = dict.fromkeys(nodes, 0)
    ways[nodes[0]] = 1
    for node in reversed(order):
        for target in onward(node):
            ways[target] = min(ways[target] + ways[node], ENDLESS)
    return {node: max(ways[node], 1) for node in back}


def _passes(target: Node | None, node: Node, above: dict[Node, Node]) -> bool:
    """Return whether every way from the root to a node passes the target."""
    while node is not target and above[node] is not node:
        node = above[node]
    return node is target


def _dominators(root: Node) -> dict[Node, Node]:
    """Return for each node the last one, before it, that every way from the root passes."""
    order = _walk_order(root)
    number = {node: index for index, node in enumerate(order)}
    sources: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for target in edges(node):
            sources[target].append(node)
    above = {root: root}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [source for source in sources[node] if source in above]
            nearest = known[0]
            for source in known[1:]:
                nearest = _meet(nearest, source, above, number)
            changed |= above.get(node) is not nearest
            above[node] = nearest
    return above


def _meet(one: Node, other: Node, above: dict[Node, Node], number: dict[Node, int]) -> Node:
    while one is not other:
        while number[one] > number[other]:
            one = above[one]
        while number[other] > number[one]:
            other = above[other]
    return one


def _walk_order(root: Node) -> list[Node]:
    """Return the nodes in reverse postorder: each, cycles aside, after all that lead to it."""
    done: list[Node] = []
    way: dict[Node, Iterator[Node]] = {root: iter(edges(root))}
    seen = {root}
    while way:
        node, targets = next(reversed(way.items()))
        target = next((target for target in targets if target not in seen), None)
        if target is None:
            del way[node]
            done.append(node)
        else:
            seen.add(target)
            way[target] = iter(edges(target))
    return done[::-1]


@dataclass(frozen=True, slots=True)
class SchemaCost:
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


def assess(nodes: list[Node]) -> SchemaCost:
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
    return SchemaCost(
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
