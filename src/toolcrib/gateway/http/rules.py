"""Who may call over HTTP: by which name, from which web pages, with which token."""

import hmac
import re
from dataclasses import dataclass
from typing import Self

from toolcrib.crib.config.gateway import GatewaySettings, is_loopback, token_of

__all__ = ["AccessRules", "is_loopback", "token_of"]

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/@?#\s]+))(?::(\d{1,5}))?")
_ORIGIN = re.compile(r"(https?)://(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What the settings allow; made once for each version of them."""

    hosts: frozenset[str]
    """Names, without a port, or with the only one that is allowed."""
    origins: frozenset[str]
    any_origin: bool
    token: bytes | None

    @classmethod
    def of(cls, settings: GatewaySettings, token: str | None, bound: str = "127.0.0.1") -> Self:
        """Return the rules of settings, for what listens at an address."""
        own = () if bound in {"0.0.0.0", "::", ""} else (bound,)  # noqa: S104 - compared, not bound to
        hosts = {*_LOCAL, *(name.lower().strip("[]") for name in (*own, *settings.allowed_hosts))}
        origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        return cls(
            frozenset(hosts), frozenset(origins), "*" in origins, None if token is None else token.encode()
        )

    def allows_host(self, header: str | None) -> bool:
        """Return whether it may be called by a name, as a `Host` header has it."""
        return header is not None and self._is_known(header)

    def allows_origin(self, header: str) -> bool:
        """Return whether a web page may call, as an `Origin` header names it."""
        origin = header.lower().rstrip("/")
        if self.any_origin or origin in self.origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        authority = None if found is None else _AUTHORITY.fullmatch(found[2])
        return authority is not None and (authority[1] or authority[2]) in _LOCAL

    def allows_token(self, header: str | None) -> bool:
        """Return whether an `Authorization` header has the token, if there is one; in constant time."""
        if self.token is None:
            return True
        scheme, _, given = (header or "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(errors="replace"), self.token)
        return right and scheme.lower() == "bearer"

    def _is_known(self, header: str) -> bool:
        lower = header.lower()
        found = _AUTHORITY.fullmatch(lower)
        return found is not None and ((found[1] or found[2]) in self.hosts or lower in self.hosts)
