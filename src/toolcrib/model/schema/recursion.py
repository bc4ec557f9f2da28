"""Where a recursive schema comes back to itself.

The engine looks up its verdict instead of computing it again where a `$ref` leads back to a subschema that is
being looked at: to one that every way from the root to the reference passes. Only those references count as
returns here, whatever the order in which the engine compiles the schema.
"""

from collections.abc import Callable, Iterator

from toolcrib.model.schema.weight import Node

__all__ = ["ENDLESS", "Edges", "edges", "ordered", "returns"]

ENDLESS = 1 << 62
Edges = Callable[[Node], list[Node]]


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

    The engine may keep its verdicts apart for each of these ways. Where cycles remain that no reference
    closes for certain, nothing is said to be looked up.
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
