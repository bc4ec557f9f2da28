"""The places of a schema where subschemas are expected, and the targets of its references."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from toolcrib.model.plain import pointer
from toolcrib.model.schema.keywords import DEFINITIONS, LISTS, MAPS, SINGLES

REFERENCES: Final = ("$ref", "$dynamicRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_MAX_PLACES: Final = 20_000
_MAX_INDEX_DIGITS: Final = 9

Step = str | int


@dataclass(slots=True, eq=False)
class Place:
    """A place where a subschema is expected, with the value there, which may not be one."""

    value: Any
    parent: "Place | None" = None
    word: str = ""
    """The keyword that contains it, `$ref` if it is only a target of references; empty for the root."""
    steps: tuple[Step, ...] = ()
    """The path from the parent."""

    @property
    def path(self) -> str:
        """The path from the root, as a JSON Pointer."""
        ways: list[tuple[Step, ...]] = []
        place: Place | None = self
        while place is not None:
            ways.append(place.steps)
            place = place.parent
        return pointer(step for way in reversed(ways) for step in way)


class Places:
    """All places of one schema, in the order of the document; a shared definition is listed once."""

    def __init__(self, root: Any) -> None:
        self.all: list[Place] = []
        self.is_cut = False
        """Whether there are more places than the limit."""
        self._by_id: dict[int, Place] = {}
        self._anchors: dict[str, Any] = {}
        self._root = Place(root)
        self._add_subtree(self._root)
        for place in self.all:
            for reference in references_of(place.value):
                value = self.find(reference)
                if type(value) is dict and id(value) not in self._by_id:
                    self._add_subtree(Place(value, self._root, "$ref", tuple(_keys(reference))))

    def find(self, reference: str) -> Any:
        """Return the target of a reference; None if there is none within the schema."""
        if reference == "#":
            return self._root.value
        if not reference.startswith("#/"):
            return self._anchors.get(unquote(reference[1:])) if reference.startswith("#") else None
        value = self._root.value
        for key in _keys(reference):
            value = _member(value, key)
        return value if type(value) is dict or type(value) is bool else None

    def circular(self) -> set[Place]:
        """Return the places whose reference is part of a cycle."""
        edges = {place: self._targets(place) for place in self.all}
        referring = [place for place, targets in edges.items() if targets]
        for place in self.all:
            if place.parent is not None and place.word not in DEFINITIONS and place.word != "$ref":
                edges[place.parent].append(place)
        circle = _strong_components(edges)
        return {
            place
            for place in referring
            if any(circle[place] is circle[target] for target in self._targets(place))
        }

    def _targets(self, place: Place) -> list[Place]:
        values = map(self.find, references_of(place.value))
        return [
            self._by_id[id(value)] for value in values if type(value) is dict and id(value) in self._by_id
        ]

    def _add_subtree(self, start: Place) -> None:
        """Add a place and all places below it."""
        way = [(start, self._inner_places(start))]
        while way:
            parent, inner = way[-1]
            found = next(inner, None)
            if found is None:
                way.pop()
            elif len(self.all) >= _MAX_PLACES:
                self.is_cut = True
                return
            else:
                word, steps, value = found
                place = Place(value, parent, word, steps)
                way.append((place, self._inner_places(place)))

    def _inner_places(self, place: Place) -> Iterator[tuple[str, tuple[Step, ...], Any]]:
        self.all.append(place)
        schema = place.value
        if type(schema) is dict:
            self._by_id.setdefault(id(schema), place)
            for word in _ANCHORS:
                if type(schema.get(word)) is str:
                    self._anchors.setdefault(schema[word], schema)
            return _inner(schema)
        return iter(())


def references_of(schema: Any) -> list[str]:
    """Return the references of a schema itself, without those of its subschemas."""
    if type(schema) is not dict:
        return []
    return [schema[word] for word in REFERENCES if type(schema.get(word)) is str]


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the names in `type`, a string or a list."""
    kinds = schema.get("type")
    return [kind for kind in (kinds if type(kinds) is list else [kinds]) if type(kind) is str]


def _inner(schema: dict[str, Any]) -> Iterator[tuple[str, tuple[Step, ...], Any]]:
    """Yield the subschemas of a schema: the keyword, the path, and the value."""
    for word, held in schema.items():
        if type(held) is dict and word in MAPS:
            for name, member in held.items():
                if word != "dependencies" or type(member) is not list:
                    yield word, (word, name), member
        elif type(held) is list and (word in LISTS or word == "items"):
            for index, member in enumerate(held):
                yield word, (word, index), member
        elif word in SINGLES and (type(held) is dict or type(held) is bool):
            yield word, (word,), held


def _keys(reference: str) -> list[str]:
    """Return the keys of a reference that is a JSON Pointer."""
    parts = unquote(reference[1:]).split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _member(value: Any, key: str) -> Any:
    if type(value) is dict:
        return value.get(key)
    if type(value) is list and key.isascii() and key.isdecimal() and len(key) <= _MAX_INDEX_DIGITS:
        return value[int(key)] if int(key) < len(value) else None
    return None


def _strong_components(edges: dict[Place, list[Place]]) -> dict[Place, Place]:
    """Return for each place a representative of its strongly connected component (Kosaraju's algorithm)."""
    sources: dict[Place, list[Place]] = {place: [] for place in edges}
    for place, targets in edges.items():
        for target in targets:
            sources[target].append(place)
    circle: dict[Place, Place] = {}
    for start in reversed(_postorder(edges)):
        pending = [start]
        while pending:
            place = pending.pop()
            if place not in circle:
                circle[place] = start
                pending += sources[place]
    return circle


def _postorder(edges: dict[Place, list[Place]]) -> list[Place]:
    """Return the places in postorder of a depth-first search."""
    done: list[Place] = []
    seen: set[Place] = set()
    for start, first in edges.items():
        way = [] if start in seen else [(start, iter(first))]
        seen.add(start)
        while way:
            place, targets = way[-1]
            target = next((target for target in targets if target not in seen), None)
            if target is None:
                done.append(place)
                way.pop()
            else:
                seen.add(target)
                way.append((target, iter(edges[target])))
    return done
