"""Losses of a conversion, and the warnings that report them."""

from dataclasses import dataclass, field
from typing import Literal

Part = Literal["definition", "input", "output"]
_ORDER = {"definition": 0, "input": 1, "output": 2}


@dataclass(frozen=True, slots=True)
class FeatureLossWarning:
    """A feature of the source definition that the converted one lacks or expresses differently."""

    feature: str
    """The schema keyword (a value of `SchemaFeature`, if it is known), or the field of the definition."""
    path: str
    """Its location in that part of the source definition, as a JSON Pointer; empty for the part itself."""
    message: str
    """The change, in one sentence without its subject."""
    adapter: str
    """The adapter whose format cannot express the feature."""
    part: Part
    """The part of the source definition: one of the two schemas, or the definition around them."""

    def __str__(self) -> str:
        return f"{self.part} {self.path or '(root)'}, {self.feature}: {self.message}"


@dataclass(slots=True)
class Losses:
    """Collects the losses of one conversion.

    Losses are noted as plain tuples, since most callers never read them; `warnings` sorts them and makes the
    records.
    """

    adapter: str
    """The name of the adapter."""
    part: Part = "definition"
    """The part of the definition that is being converted."""
    _noted: list[tuple[Part, str, str, str, list[str] | None]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of losses so far."""
        return len(self._noted)

    def is_any_in(self, *keywords: str) -> bool:
        """Return whether there is a loss in the subschemas under some keywords of the root."""
        return any(path.startswith(f"/{word}/") for _, path, *_ in self._noted for word in keywords)

    def __bool__(self) -> bool:
        return bool(self._noted)

    def note(self, feature: str, path: str, message: str) -> None:
        """Add one loss."""
        self._noted.append((self.part, path, feature, message, None))

    def note_in(self, feature: str, path: str, message: str, names: list[str]) -> None:
        """Add the same loss for several properties of the object at a path."""
        self._noted.append((self.part, path, feature, message, names))

    def clear(self) -> None:
        """Drop all losses, before the conversion is tried in another way."""
        self._noted.clear()

    def warnings(self) -> tuple[FeatureLossWarning, ...]:
        """Return the losses as warnings, sorted by part, path and feature, without duplicates."""
        noted: set[tuple[Part, str, str, str]] = set()
        for part, path, feature, message, names in self._noted:
            if names is None:
                noted.add((part, path, feature, message))
            else:
                noted |= {(part, step(path, "properties", name), feature, message) for name in names}
        ordered = sorted(noted, key=lambda loss: (_ORDER[loss[0]], *loss[1:]))
        return tuple(
            FeatureLossWarning(feature, path, message, self.adapter, part)
            for part, path, feature, message in ordered
        )


def step(path: str, key: str | int, inner: str | int | None = None) -> str:
    """Append a key, or a keyword and a key in it, to a JSON Pointer.

    >>> step("/a", "properties", "b/c")
    '/a/properties/b~1c'
    """
    if inner is not None:
        path, key = f"{path}/{key}", inner
    if type(key) is str and ("~" in key or "/" in key):
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{key}"
