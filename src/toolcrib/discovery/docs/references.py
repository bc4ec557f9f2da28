"""Where the references of a schema lead, within that schema."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from toolcrib.model.plain import walk

__all__ = ["References"]

_WORDS = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_MAX_DIGITS = 9


class References:
    """The references of one schema, which is JSON and is read, never changed."""

    def __init__(self, root: Any) -> None:
        self._root = root
        head = root if isinstance(root, dict) else {}
        self._id = head.get("$id")
        self._ref_stands_alone = "draft-07" in str(head.get("$schema", ""))
        self._found: dict[str, Any] = {}
        self._anchors: dict[str, Any] | None = None

    def all_of(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that what fits this one must fit too: what it refers to, and its `allOf`."""
        for word in _WORDS:
            if isinstance(reference := schema.get(word), str):
                yield self._find(reference)
        if self.counts(schema) and isinstance(members := schema.get("allOf"), list):
            yield from members

    def counts(self, schema: dict[str, Any]) -> bool:
        """Return whether what stands beside a reference says anything; in draft-07 it does not."""
        return not (self._ref_stands_alone and isinstance(schema.get("$ref"), str))

    def _find(self, reference: str) -> Any:
        """Return the subschema that a reference leads to; None where it leads nowhere within the schema."""
        if reference not in self._found:
            start, _, fragment = reference.partition("#")
            is_here = not start or start == str(self._id).partition("#")[0]
            self._found[reference] = self._at(unquote(fragment)) if is_here else None
        return self._found[reference]

    def _at(self, fragment: str) -> Any:
        if fragment and not fragment.startswith("/"):
            return self._anchored(fragment)
        value = self._root
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and _is_index(key) and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
        return value

    def _anchored(self, name: str) -> Any:
        if self._anchors is None:
            members = (member for member in walk(self._root) if isinstance(member, dict))
            self._anchors = {
                member[word]: member
                for member in members
                for word in _ANCHORS
                if isinstance(member.get(word), str)
            }
        return self._anchors.get(name)


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < _MAX_DIGITS
