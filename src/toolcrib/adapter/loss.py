"""Warnings of a conversion: each part that could not be carried over, with its place."""

from dataclasses import dataclass, field
from typing import Literal

Part = Literal["definition", "input", "output"]
_ORDER = {"definition": 0, "input": 1, "output": 2}


@dataclass(frozen=True, slots=True)
class FeatureLossWarning:
    """One thing that the converted definition no longer says, or says in another way."""

    feature: str
    """The schema keyword, a value of `SchemaFeature` where we know it, or the field of the definition."""
    path: str
    """Where in that part of the source definition, as a JSON Pointer; empty for the part itself."""
    message: str
    """What became of it."""
    adapter: str
    """The adapter whose format could not say it."""
    part: Part
    """Which of the two schemas it is about, or the definition around them."""

    def __str__(self) -> str:
        return f"{self.part} {self.path or '(root)'}, {self.feature}: {self.message}"


@dataclass(slots=True)
class Losses:
    """The losses of one conversion, noted on the way and reported in order at the end."""

    adapter: str
    """The adapter that loses it."""
    part: Part = "definition"
    """What is being converted."""
    _noted: list[tuple[Part, str, str, str, list[str] | None]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many were noted so far."""
        return len(self._noted)

    def is_any_in(self, *keywords: str) -> bool:
        """Return whether something was lost in the root's subschemas under some keywords."""
        return any(path.startswith(f"/{word}/") for _, path, *_ in self._noted for word in keywords)

    def __bool__(self) -> bool:
        return bool(self._noted)

    def note(self, feature: str, path: str, message: str) -> None:
        """Add one loss."""
        self._noted.append((self.part, path, feature, message, None))

    def note_in(self, feature: str, path: str, message: str, names: list[str]) -> None:
        """Add the same loss for several properties of the object at a path."""
        self._noted.append((self.part, path, feature, message, names))

    def forget(self) -> None:
        """Drop what was noted about a conversion that is tried in another way."""
        self._noted.clear()

    def warnings(self) -> tuple[FeatureLossWarning, ...]:
        """Return them by part, path and feature, whatever order they were found in."""
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
    """Return a JSON Pointer lengthened by a key, or by a keyword and a key in it.

    >>> step("/a", "properties", "b/c")
    '/a/properties/b~1c'
    """
    if inner is not None:
        path, key = f"{path}/{key}", inner
    if type(key) is str and ("~" in key or "/" in key):
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{key}"
