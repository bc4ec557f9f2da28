"""Where the references of a schema lead, within that schema."""

from collections.abc import Iterator
from typing import Any

from toolcrib.model.schema.references import LocalReferences

__all__ = ["SchemaReferences"]

_WORDS = ("$ref", "$dynamicRef")


class SchemaReferences:
    """The references of one schema, which is JSON and is read, never changed."""

    def __init__(self, root: Any) -> None:
        self._local = LocalReferences(root)
        head = root if isinstance(root, dict) else {}
        self._ref_stands_alone = "draft-07" in str(head.get("$schema", ""))

    def all_of(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that what fits this one must fit too: what it refers to, and its `allOf`."""
        for word in _WORDS:
            if isinstance(reference := schema.get(word), str):
                yield self._local.find(reference)
        if self.counts(schema) and isinstance(members := schema.get("allOf"), list):
            yield from members

    def counts(self, schema: dict[str, Any]) -> bool:
        """Return whether what stands beside a reference says anything; in draft-07 it does not."""
        return not (self._ref_stands_alone and isinstance(schema.get("$ref"), str))
