"""Upper bounds of the cost of validation, computed before the engine starts.

The engine cannot be stopped once it runs. The unit is a *step*: one subschema evaluated on one value, about
20 ns. `SchemaCost` has two bounds for a value of n nodes and depth d, of which the lower one holds:

- n times the steps of the whole schema, if it is not recursive: at worst, every subschema is evaluated on
  every node.
- n times the most steps that one subschema takes at one value (`max_steps`), times `fan_out` to the power d:
  every level down, a value may be reached by `fan_out` subschemas for each one above it.

Nearly every schema is cheap by one of them. For the others, such as a `$ref` that branches twice per level, a
`Meter` counts the steps for the value at hand.

A recursion that closes through a `$ref` is cheaper than its paths suggest, since the engine remembers the
result of a subschema that it is already checking. `find_recursions` finds those references for which this is
certain, by dominators in the graph.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.plain import MAX_DEPTH
from toolcrib.model.schema.meter import MAX_STEPS, Meter, too_costly_error
from toolcrib.model.schema.weight import Node

UNBOUNDED = 1 << 62
Edges = Callable[[Node], list[Node]]
_MAX_FRAMES = 300
"""The maximum recursion of the engine, which a thread with a stack of 256 KiB can still hold."""


def all_edges(node: Node) -> list[Node]:
    """Return every node that a node evaluates, on its own value or on a member."""
    return node.in_place + node.children()


def sort_topologically(nodes: list[Node], edges_of: Edges) -> list[Node] | None:
    """Return the nodes so that every edge points to an earlier one; None if there is a cycle."""
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


def find_recursions(nodes: list[Node]) -> dict[Node, int]:
    """Return the references that close a recursion, each with the number of paths to it from the root.

    If a `$ref` leads back to a subschema that is being checked, the engine looks up its result instead of
    computing it again. This is certain only for a subschema that every path from the root to the reference
    passes (a dominator), so only such references are returned; it then holds in whatever order the engine
    compiles the schema.

    The engine may keep one result for each path. If cycles remain that no such reference closes, the result
    is empty, and no lookup is counted on.
    """
    above = _find_dominators(nodes[0])
    back = {node for node in nodes if node in above and _dominates(node.refers_to, node, above)}

    def onward(node: Node) -> list[Node]:
        return [other for other in all_edges(node) if not (node in back and other is node.refers_to)]

    order = sort_topologically(nodes, onward)
    if order is None:
        return {}
    ways = dict.fromkeys(nodes, 0)
    ways[nodes[0]] = 1
    for node in reversed(order):
        for target in onward(node):
            ways[target] = min(ways[target] + ways[node], UNBOUNDED)
    return {node: max(ways[node], 1) for node in back}


def _dominates(target: Node | None, node: Node, above: dict[Node, Node]) -> bool:
    """Return whether every path from the root to a node passes the target."""
    while node is not target and above[node] is not node:
        node = above[node]
    return node is target


def _find_dominators(root: Node) -> dict[Node, Node]:
    """Return the immediate dominator of each node: the last one before it that every path passes."""
    # The iterative algorithm of Cooper, Harvey and Kennedy: simple, and fast enough for graphs of this size.
    order = _reverse_postorder(root)
    number = {node: index for index, node in enumerate(order)}
    sources: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for target in all_edges(node):
            sources[target].append(node)
    above = {root: root}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [source for source in sources[node] if source in above]
            nearest = known[0]
            for source in known[1:]:
                nearest = _nearest_common_dominator(nearest, source, above, number)
            changed |= above.get(node) is not nearest
            above[node] = nearest
    return above


def _nearest_common_dominator(
    one: Node, other: Node, above: dict[Node, Node], number: dict[Node, int]
) -> Node:
    while one is not other:
        while number[one] > number[other]:
            one = above[one]
        while number[other] > number[one]:
            other = above[other]
    return one


def _reverse_postorder(root: Node) -> list[Node]:
    """Return the nodes in reverse postorder: each, cycles aside, after all that lead to it."""
    # With a stack of its own, since a chain of references may be longer than Python's stack is deep.
    done: list[Node] = []
    way: dict[Node, Iterator[Node]] = {root: iter(all_edges(root))}
    seen = {root}
    while way:
        node, targets = next(reversed(way.items()))
        target = next((target for target in targets if target not in seen), None)
        if target is None:
            del way[node]
            done.append(node)
        else:
            seen.add(target)
            way[target] = iter(all_edges(target))
    return done[::-1]


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """Bounds of the cost of a schema that hold for every value."""

    root: Node
    recursions: Mapping[Node, int]
    """The references at which the engine looks up an earlier result; see `find_recursions`."""
    all_steps: int
    """Steps of all subschemas together on one value; unbounded if the schema is recursive."""
    max_steps: int
    """The most steps that any one subschema takes on one value, without those on its members."""
    fan_out: int
    """The maximum number of subschemas evaluated on a member, for each one evaluated on its parent."""
    all_steps_per_char: int
    """`all_steps` for each character of a text."""
    max_steps_per_char: int
    """`max_steps` for each character of a text."""
    longest_path: int
    """The longest path through the schema; unbounded if it is recursive."""
    longest_chain: int
    """The longest path of subschemas evaluated on the same value."""
    is_flat: bool
    """Whether it describes an object of simple values, whose cost does not depend on texts."""
    has_unique_items: bool
    """Whether it has `uniqueItems`, where integers of more than 64 bits are compared pairwise."""
    has_backtracking: bool
    """Whether it has patterns that must be tried on the texts at hand before the engine may run."""

    def bounds_by_depth(self) -> tuple[tuple[int, int], ...]:
        """Return, for each depth of a value, upper bounds of the steps per node and per character.

        They are unbounded if the steps must be counted for the value at hand.
        """
        return tuple(self._bound(levels) for levels in range(MAX_DEPTH + 1))

    def _bound(self, levels: int) -> tuple[int, int]:
        if self.has_backtracking or self._stack_frames(levels) > _MAX_FRAMES:
            return UNBOUNDED, 0
        growth = self._growth(levels)
        here = self.max_steps * (
            levels + 1 if self.has_unique_items else 1
        )  # items are compared to their last level
        per_char = min(self.all_steps_per_char, self.max_steps_per_char * growth)
        return min(self.all_steps, here * growth), per_char

    def _growth(self, levels: int) -> int:
        growth: int = self.fan_out**levels
        return min(growth, UNBOUNDED)

    def _stack_frames(self, levels: int) -> int:
        return min(self.longest_path, (levels + 1) * self.longest_chain)

    def count_steps(self, value: Any, levels: int) -> int:
        """Return an upper bound of the engine's steps for one value.

        Raises:
            SchemaTooComplexError: more than `MAX_STEPS`, too deep, or a pattern gives up on a text.
        """
        if self._stack_frames(levels) > _MAX_FRAMES:
            raise SchemaTooComplexError(
                "the schema chains too many references for a value nested this deep; "
                "send a flatter value, or shorten the chain of '$ref' and 'allOf'"
            )
        steps = Meter(self.recursions).count(self.root, value)
        if steps > MAX_STEPS:
            raise too_costly_error(f"it would take {steps:,} steps")
        return steps

    def count_looks(self, value: Any) -> int:
        """Return the cost of listing every error of a value; the engine reuses no results then."""
        try:
            return Meter(None).count(self.root, value)
        except SchemaTooComplexError:
            return UNBOUNDED


def assess_cost(nodes: list[Node]) -> SchemaCost:
    """Compute the bounds of a graph; the first node is the root.

    Raises:
        SchemaTooComplexError: the schema refers to itself on the same value, or even the smallest value costs
            too much.
    """
    order = sort_topologically(nodes, lambda node: node.in_place)
    if order is None:
        raise SchemaTooComplexError(
            "the schema refers to itself without going down into the value, so it would never finish; "
            "let the reference stand under 'properties' or 'items'"
        )
    here = _sum_over_paths(order, lambda node: node.in_place, lambda node: node.steps + node.extra_steps)
    here_chars = _sum_over_paths(order, lambda node: node.in_place, lambda node: node.per_char)
    chain = _longest_paths(order, lambda node: node.in_place)
    if max(here.values()) > MAX_STEPS or max(chain.values()) > _MAX_FRAMES:
        raise SchemaTooComplexError(
            f"the schema multiplies to {max(here.values()):,} steps for a single value, in chains of up to "
            f"{max(chain.values()):,} references; share fewer definitions through 'allOf', 'anyOf' and '$ref'"
        )
    full = sort_topologically(nodes, all_edges)
    return SchemaCost(
        root=nodes[0],
        recursions={} if full else find_recursions(nodes),
        all_steps=_sum_over_paths(full, all_edges, lambda node: node.steps + node.extra_steps)[nodes[0]]
        if full
        else UNBOUNDED,
        max_steps=max(here.values()),
        fan_out=max(
            1, *_sum_over_paths(order, lambda node: node.in_place, lambda node: node.fan_out).values()
        ),
        all_steps_per_char=_sum_over_paths(full, all_edges, lambda node: node.per_char)[nodes[0]]
        if full
        else UNBOUNDED,
        max_steps_per_char=max(here_chars.values()),
        longest_path=_longest_paths(full, all_edges)[nodes[0]] if full else UNBOUNDED,
        longest_chain=max(chain.values()),
        is_flat=_is_flat(nodes[0]) and not any(here_chars.values()),
        has_unique_items=any(node.unique for node in nodes),
        has_backtracking=any(node.backtracking for node in nodes),
    )


def _is_flat(root: Node) -> bool:
    members = root.properties.values()
    return not root.in_place and not any(member.in_place or member.children() for member in members)


def _sum_over_paths(order: list[Node], edges_of: Edges, own: Callable[[Node], int]) -> dict[Node, int]:
    """Return, for each node, the sum of a cost over all paths that begin with it."""
    totals: dict[Node, int] = {}
    for node in order:
        ways = [totals[target] for target in edges_of(node)]
        below = max(ways, default=0) if node.is_choice else sum(ways) * node.in_place_repeats
        totals[node] = min(own(node) + below, UNBOUNDED)
    return totals


def _longest_paths(order: list[Node], edges_of: Edges) -> dict[Node, int]:
    lengths: dict[Node, int] = {}
    for node in order:
        lengths[node] = 1 + max((lengths[target] for target in edges_of(node)), default=0)
    return lengths
