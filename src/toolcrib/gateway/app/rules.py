"""The access rules of HTTP requests: allowed hosts, web origins and tokens."""

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
    """The access rules of some settings; created once for each version of them."""

    settings: GatewaySettings
    hosts: frozenset[str]
    """Allowed host names, without a port, or with the only one that is allowed."""
    origins: frozenset[str]
    any_origin: bool
    identities: Identities
    """Identifies principals by their tokens."""

    @classmethod
    def of(
        cls,
        settings: GatewaySettings,
        token: str | None,
        bound: str = "127.0.0.1",
        former: "AccessRules | None" = None,
    ) -> Self:
        """Return the rules of settings for an address; keys that the former rules fetched are kept."""
        own = () if bound in {"0.0.0.0", "::", ""} else (bound,)  # noqa: S104 - compared, not bound to
        public = urlsplit(settings.public_url or "").hostname
        named = (*own, *own_names(bound), *settings.allowed_hosts, *((public,) if public else ()))
        hosts = {*_LOCAL, *(name.lower().strip("[]") for name in named)}
        origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        identities = Identities.of(settings, token, None if former is None else former.identities)
        return cls(settings, frozenset(hosts), frozenset(origins), "*" in origins, identities)

    def allows_host(self, header: str | None, at: str | None = None) -> bool:
        """Return whether a `Host` header is allowed on a connection to the address `at`.

        The address itself is allowed: a web page that rebinds DNS would send the name of its own site.
        """
        if header is None:
            return False
        found = _AUTHORITY.fullmatch(header.lower())
        if found is None:
            return False
        name = found[1] or found[2]
        return (
            name in self.hosts
            or header.lower() in self.hosts
            or (at is not None and _is_same_address(name, at))
        )

    def allows_origin(self, header: str) -> bool:
        """Return whether the web page of an `Origin` header may call."""
        origin = header.lower().rstrip("/")
        if self.any_origin or origin in self.origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        authority = None if found is None else _AUTHORITY.fullmatch(found[2])
        return authority is not None and (authority[1] or authority[2]) in _LOCAL

    def is_own_origin(self, header: str, host: str | None) -> bool:
        """Return whether an `Origin` header is that of the pages of this gateway, at this very port.

        Behind a proxy its pages have another scheme than the request, or the origin of `public_url`.
        """
        found = _ORIGIN.fullmatch(header.lower())
        public = urlsplit(self.settings.public_url or "")
        own = {(host or "").lower(), public.netloc.lower()} - {""}
        return found is not None and found[2] in own


def _is_same_address(name: str, address: str) -> bool:
    """Return whether a name is the same IP address as another, in any notation.

    >>> _is_same_address("192.0.2.2", "::ffff:192.0.2.2"), _is_same_address("example.com", "192.0.2.2")
    (True, False)
    """
    try:
        first, second = (ipaddress.ip_address(each) for each in (name, address))
    except ValueError:
        return False
    return first == second or getattr(second, "ipv4_mapped", None) == first
