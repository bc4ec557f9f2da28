"""Checks the addresses of hosts: requests may go to public ones, and to private ones that are allowed.

This prevents server-side request forgery: a document or an argument must not make this process send requests
into its own network. A name is resolved once, each of its addresses is checked, and the connection goes to a
checked one, so that a second lookup with another result has no effect. IPv6 addresses that contain an IPv4
address (mapped, 6to4, NAT64, ISATAP) are checked in both forms.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import anyio

from toolcrib.errors import ConfigError, Problem

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, in the order to try them; raises `OSError` if there are none."""

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_NETWORKS_OF_KIND: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10", "64:ff9b:1::/48")),
    ("link-local", ("169.254.0.0/16", "fe80::/10")),
    ("shared", ("100.64.0.0/10",)),
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")),
    ("reserved", ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "2001::/23")),
)
_PRIVATE_NETWORKS: tuple[tuple[_Network, str], ...] = tuple(
    (ip_network(text), kind) for kind, networks in _NETWORKS_OF_KIND for text in networks
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_ISATAP_PREFIXES = frozenset({0x00005EFE, 0x02005EFE})
_LOW_32 = 0xFFFF_FFFF


class AddressRefusedError(Exception):
    """A host without an allowed address; converted to the error of the call."""

    def __init__(self, message: str, kind: str = "malformed", address: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        """What kind of address it has, such as `private`."""
        self.address = address
        """The first of its addresses."""


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a host, from the resolver of the system."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Addresses:
    """Resolves hosts to allowed addresses.

    Args:
        allow_private: True allows every address; a list allows host names, addresses and CIDR ranges.
        lookup: resolves names; the resolver of the system by default.

    Raises:
        ConfigError: an entry of `allow_private` is no host name, address or range.
    """

    def __init__(self, *, allow_private: bool | Sequence[str] = False, lookup: Lookup | None = None) -> None:
        self._everything = allow_private is True
        entries = () if isinstance(allow_private, bool) else allow_private
        self._networks: list[_Network] = []
        self._hosts: set[str] = set()
        self._lookup = lookup or resolve_host
        if isinstance(entries, str):
            raise _config_error(f"must be a list of hosts and networks, not the text {entries!r:.80}")
        for entry in entries:
            self._add_allowed(entry)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the allowed addresses of a host.

        Raises:
            AddressRefusedError: none is allowed.
            OSError: the host is unknown.
        """
        name = host.lower().removesuffix(".").strip("[]")
        found = [name] if _is_address(name) else await self._look_up(name, port)
        faults: dict[str, str | None] = {
            address: None if name in self._hosts else self._find_refused_kind(address) for address in found
        }
        allowed = [address for address, fault in faults.items() if fault is None]
        if not allowed:
            kind = next((fault for fault in faults.values() if fault), "unknown")
            raise AddressRefusedError(
                f"{name!r:.200} has a {kind} address; name it in allow_private to allow it",
                kind,
                found[0],
            )
        return allowed

    async def _look_up(self, name: str, port: int) -> Sequence[str]:
        if is_unusual_number(name):
            raise AddressRefusedError(f"{name!r:.200} is an odd spelling of an address; write it in full")
        found = await self._lookup(name, port)
        if not found:
            raise OSError(f"{name!r:.200} has no address")
        return found

    def _find_refused_kind(self, text: str) -> str | None:
        """Return the kind of an address that is not allowed; None if it is allowed."""
        if self._everything:
            return None
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return "malformed"
        inner = list(_contained_addresses(address))
        if any(form in network for form in (address, *inner) for network in self._networks):
            return None
        return next((kind for form in (*inner, address) if (kind := _private_kind(form))), None)

    def _add_allowed(self, entry: object) -> None:
        if not isinstance(entry, str) or not entry.strip() or any(sign in entry for sign in " \t\n@"):
            raise _config_error(f"holds {entry!r:.80}, which is neither a host nor a network")
        try:
            self._networks.append(ip_network(entry.strip("[]"), strict=False))
        except ValueError:
            if "/" in entry or ":" in entry:
                raise _config_error(
                    f"holds {entry!r:.80}, which is not a network; a port or path is not part of it"
                ) from None
            self._hosts.add(entry.lower().removesuffix("."))


def _config_error(reason: str) -> ConfigError:
    return ConfigError("provider", (Problem("/allow_private", "address", reason),))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def private_kinds(host: str, port: int) -> frozenset[str]:
    """Return the kinds of a host's addresses that are not public, such as `loopback`.

    Raises:
        OSError: the host is unknown.
    """
    name = host.lower().removesuffix(".").strip("[]")
    found = [name] if _is_address(name) else await resolve_host(name, port)
    addresses = [ip_address(each.partition("%")[0]) for each in found]
    forms = [form for address in addresses for form in (address, *_contained_addresses(address))]
    return frozenset(kind for form in forms if (kind := _private_kind(form)))


def is_unusual_number(name: str) -> bool:
    """Return whether a host is a number in an unusual form, such as `2130706433`, `0x7f.1` and `127.1`.

    Resolvers read these as addresses, each in its own way, so they could hide a private one.

    >>> is_unusual_number("127.1"), is_unusual_number("127.0.0.1"), is_unusual_number("api.example")
    (True, False, False)
    """
    last = name.lower().removesuffix(".").rpartition(".")[2]
    return (last.isdigit() or last.startswith("0x")) and not _is_address(name.removesuffix("."))


def _contained_addresses(address: _Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address contains."""
    if isinstance(address, IPv4Address):
        return
    low = IPv4Address(int(address) & _LOW_32)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        yield low
    if (int(address) >> 32) & _LOW_32 in _ISATAP_PREFIXES:
        yield low


def _private_kind(address: _Address) -> str | None:
    """Return the kind of an address that is not public; None if it is public."""
    kind = next((kind for network, kind in _PRIVATE_NETWORKS if address in network), None)
    if kind or isinstance(address, IPv4Address):
        return kind
    if address.ipv4_mapped is not None or address in _NAT64:
        return None  # the contained address is checked instead
    return None if address in _GLOBAL_V6 else "reserved"
