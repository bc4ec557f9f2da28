"""How long what servers list stays fresh, and for whom: `ttlMs` and `cacheScope` of the modern era."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeGuard

_LONGEST = 365 * 24 * 3600.0
"""How many seconds a list may be kept at most, whatever its server says."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a server says of one of its lists."""

    ttl: float | None = None
    """For how many seconds it is fresh; None where the server does not say."""
    is_public: bool = False
    """Whether it is the same for everybody."""

    @classmethod
    def of(cls, pages: Sequence[Mapping[str, Any]]) -> Self:
        """Return what all pages of a list say together: the shortest time, and public where each is.

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
        """Return what is left of it after so many seconds."""
        return self if self.ttl is None else replace(self, ttl=max(0.0, self.ttl - age))


UNKNOWN = Freshness()
"""What a server says that does not say anything."""


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def together(parts: Sequence[Freshness], default: float) -> dict[str, Any]:
    """Return what a list of several servers says, as MCP writes it; `default` is for those that do not say.

    >>> together([Freshness(1.5, is_public=True), Freshness()], 60.0)
    {'ttlMs': 1500, 'cacheScope': 'private'}
    """
    shortest = min((default if part.ttl is None else part.ttl for part in parts), default=default)
    is_public = bool(parts) and all(part.is_public for part in parts)
    return {"ttlMs": int(1000 * shortest), "cacheScope": "public" if is_public else "private"}
