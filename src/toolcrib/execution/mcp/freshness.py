"""How long what servers list stays fresh, and for whom: `ttlMs` and `cacheScope` of the modern era."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeGuard

_LONGEST = 365 * 24 * 3600.0
"""Seconds that a list may be kept at most, whatever its server declares."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """The declared freshness of one list of a server."""

    ttl: float | None = None
    """Seconds for which it is fresh; None if not declared."""
    is_public: bool = False
    """Whether it is the same for all users."""

    @classmethod
    def of(cls, pages: Sequence[Mapping[str, Any]]) -> Self:
        """Return the freshness of all pages of a list together: the shortest time, public if each is.

        >>> Freshness.of([{"ttlMs": 5000, "cacheScope": "public"}, {"ttlMs": 1500, "cacheScope": "public"}])
        Freshness(ttl=1.5, is_public=True)
        >>> Freshness.of([{"ttlMs": "soon"}])
        Freshness(ttl=None, is_public=False)
        """
        known = [time for page in pages if _is_time(time := page.get("ttlMs"))]
        if not known or len(known) < len(pages):
            return cls()
        is_public = all(page.get("cacheScope") == "public" for page in pages)
        return cls(min(_LONGEST, *(time / 1000 for time in known)), is_public)

    def after(self, age: float) -> "Freshness":
        """Return the freshness that remains after so many seconds."""
        return self if self.ttl is None else replace(self, ttl=max(0.0, self.ttl - age))


UNKNOWN = Freshness()
"""The freshness of a server that declares none."""


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def together(parts: Sequence[Freshness], default: float) -> dict[str, Any]:
    """Return the joint freshness of several lists, as in MCP; `default` is for those without one.

    >>> together([Freshness(1.5, is_public=True), Freshness()], 60.0)
    {'ttlMs': 1500, 'cacheScope': 'private'}
    """
    shortest = min((default if part.ttl is None else part.ttl for part in parts), default=default)
    is_public = bool(parts) and all(part.is_public for part in parts)
    return {"ttlMs": int(1000 * shortest), "cacheScope": "public" if is_public else "private"}
