"""Who may call over HTTP: by which name, from which web pages, with which token."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from toolcrib.crib.config.gateway import GatewaySettings, own_names
from toolcrib.gateway.identity.identities import Identities

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
    identities: Identities
    """Knows who calls."""

    @classmethod
    def of(
        cls,
        settings: GatewaySettings,
        token: str | None,
        bound: str = "127.0.0.1",
        former: "AccessRules | None" = None,
    ) -> Self:
        """Return the rules of settings, for what listens at an address, after others."""
        own = () if bound in {"0.0.0.0", "::", ""} else (bound,)  # noqa: S104 - compared, not bound to
        public = urlsplit(settings.public_url or "").hostname
        named = (*own, *own_names(bound), *settings.allowed_hosts, *((public,) if public else ()))
        hosts = {*_LOCAL, *(name.lower().strip("[]") for name in named)}
        origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        identities = Identities.of(settings, token, None if former is None else former.identities)
        return cls(frozenset(hosts), frozenset(origins), "*" in origins, identities)

    def allows_host(self, header: str | None, at: str | None = None) -> bool:
        """Return whether it may be called by the name in a `Host` header, on a connection to an address.

        That address itself is right: a web page that was lured here would send the name of its own site.
        """
        if header is None:
            return False
        found = _AUTHORITY.fullmatch(header.lower())
        if found is None:
            return False
        name = found[1] or found[2]
        return name in self.hosts or header.lower() in self.hosts or (at is not None and _same(name, at))

    def allows_origin(self, header: str) -> bool:
        """Return whether a web page may call, as an `Origin` header names it."""
        origin = header.lower().rstrip("/")
        if self.any_origin or origin in self.origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        authority = None if found is None else _AUTHORITY.fullmatch(found[2])
        return authority is not None and (authority[1] or authority[2]) in _LOCAL


def _same(name: str, address: str) -> bool:
    """Return whether a name is an address, however the two are written.

    >>> _same("192.0.2.2", "::ffff:192.0.2.2"), _same("example.com", "192.0.2.2")
    (True, False)
    """
    try:
        first, second = (ipaddress.ip_address(each) for each in (name, address))
    except ValueError:
        return False
    return first == second or getattr(second, "ipv4_mapped", None) == first
