"""JSON Pointers, and references within one schema: `#`, `#/$defs/a%20b`, `#anchor`, or these after its `$id`.

All code that reads schemas follows references here, so that documentation, stubs, chains, OpenAPI documents
and lint agree on their targets. Two modules have code of their own on purpose: `schema.graph`, which follows
plain pointers and uses the engine for the rest, and `adapter.rules.positions`, which checks converted schemas
and therefore shares no code with the conversion.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote

from toolcrib.model.plain import walk

_MISSING: Final = object()
_REFERENCES = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_MAX_DIGITS = 9


def parse_pointer(text: str) -> tuple[str, ...]:
    """Split a JSON Pointer into its keys.

    >>> parse_pointer("/labels/2/a~1b")
    ('labels', '2', 'a/b')
    """
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def lookup(document: Any, keys: Iterable[str], default: Any = None) -> Any:
    """Return the value at a path of keys in a document, or the default; an index has no leading zeros.

    >>> lookup({"a": [1, {"b": 2}]}, parse_pointer("/a/1/b"))
    2
    """
    for key in keys:
        if isinstance(document, dict):
            document = document.get(key, _MISSING)
        elif isinstance(document, list) and _is_index(key) and int(key) < len(document):
            document = document[int(key)]
        else:
            return default
    return default if document is _MISSING else document


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= _MAX_DIGITS and (key == "0" or key[0] != "0")


class LocalReferences:
    """Resolver of the references within one schema, which must not be modified meanwhile."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._id = str(root.get("$id", "")).partition("#")[0] if isinstance(root, dict) else ""
        self._ref_stands_alone = isinstance(root, dict) and "draft-07" in str(root.get("$schema", ""))
        self._found: dict[str, Any] = {}
        self._anchors: dict[str, Any] | None = None

    def find(self, reference: str, default: Any = None) -> Any:
        """Return the target of a reference within the schema, or the default."""
        if reference not in self._found:
            start, _, fragment = reference.partition("#")
            self._found[reference] = (
                self._resolve_fragment(unquote(fragment)) if start in {"", self._id} else _MISSING
            )
        found = self._found[reference]
        return default if found is _MISSING else found

    def all_of(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that apply to the same value: the targets of references, and `allOf`."""
        for word in _REFERENCES:
            if isinstance(reference := schema.get(word), str):
                yield self.find(reference)
        if self.reads_siblings(schema) and isinstance(members := schema.get("allOf"), list):
            yield from members

    def reads_siblings(self, schema: dict[str, Any]) -> bool:
        """Return whether the keywords beside a reference apply; in draft-07 they do not."""
        return not (self._ref_stands_alone and isinstance(schema.get("$ref"), str))

    def _resolve_fragment(self, fragment: str) -> Any:
        if not fragment or fragment.startswith("/"):
            return lookup(self.root, parse_pointer(fragment), _MISSING)
        if self._anchors is None:
            members = [member for member in walk(self.root) if isinstance(member, dict)]
            self._anchors = {
                member[word]: member
                for member in members
                for word in _ANCHORS
                if isinstance(member.get(word), str)
            }
        return self._anchors.get(fragment, _MISSING)
