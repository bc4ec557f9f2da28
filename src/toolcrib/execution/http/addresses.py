"""Which addresses a request may leave for: public ones, and those that were allowed by name.

A name is looked up, each address that it has is judged, and the connection is made to an address that passed:
what a second lookup would say does not matter.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import anyio

from toolcrib.errors import ConfigError, Problem

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, in the order to try them; raises `OSError` where it has none."""

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10", "64:ff9b:1::/48")),
    ("link-local", ("169.254.0.0/16", "fe80::/10")),
    ("shared", ("100.64.0.0/10",)),
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")),
    ("reserved", ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "2001::/23")),
)
_BLOCKED: tuple[tuple[_Network, str], ...] = tuple(
    (ip_network(text), kind) for kind, networks in _KINDS for text in networks
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
_LOW_32 = 0xFFFF_FFFF


class AddressRefusedError(Exception):
    """A host that no request may leave for; it is turned into the error of the call that asked."""

    def __init__(self, message: str, kind: str = "malformed", address: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        """What kind of address it has, such as `private`."""
        self.address = address
        """The first of its addresses."""


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses that the system knows for a host."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Addresses:
    """Judges hosts and addresses.

    Args:
        allow_private: True allows every address; host names, addresses and CIDR ranges allow those.
        lookup: asks for the addresses of a name; the system by default.

    Raises:
        ConfigError: an entry of `allow_private` is neither.
    """

    def __init__(self, *, allow_private: bool | Sequence[str] = False, lookup: Lookup | None = None) -> None:
        self._everything = allow_private is True
        entries = () if isinstance(allow_private, bool) else allow_private
        self._networks: list[_Network] = []
        self._hosts: set[str] = set()
        self._lookup = lookup or look_up
        if isinstance(entries, str):
            raise _refusal(f"must be a list of hosts and networks, not the text {entries!r:.80}")
        for entry in entries:
            self._allow(entry)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be connected to.

        Raises:
            AddressRefusedError: it has none of those.
            OSError: it is not known.
        """
        name = host.lower().removesuffix(".").strip("[]")
        found = [name] if _is_address(name) else await self._ask(name, port)
        faults: dict[str, str | None] = {
            address: None if name in self._hosts else self._fault(address) for address in found
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

    async def _ask(self, name: str, port: int) -> Sequence[str]:
        if is_odd_number(name):
            raise AddressRefusedError(f"{name!r:.200} is an odd spelling of an address; write it in full")
        found = await self._lookup(name, port)
        if not found:
            raise OSError(f"{name!r:.200} has no address")
        return found

    def _fault(self, text: str) -> str | None:
        """Return what kind of address it is, where no request may leave for it."""
        if self._everything:
            return None
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return "malformed"
        inner = list(_unwrap(address))
        if any(form in network for form in (address, *inner) for network in self._networks):
            return None
        return next((kind for form in (*inner, address) if (kind := _kind(form))), None)

    def _allow(self, entry: object) -> None:
        if not isinstance(entry, str) or not entry.strip() or any(sign in entry for sign in " \t\n@"):
            raise _refusal(f"holds {entry!r:.80}, which is neither a host nor a network")
        try:
            self._networks.append(ip_network(entry.strip("[]"), strict=False))
        except ValueError:
            if "/" in entry or ":" in entry:
                raise _refusal(
                    f"holds {entry!r:.80}, which is no network; a port or path is not part of it"
                ) from None
            self._hosts.add(entry.lower().removesuffix("."))


def _refusal(reason: str) -> ConfigError:
    return ConfigError("provider", (Problem("/allow_private", "address", reason),))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def private_kinds(host: str, port: int) -> frozenset[str]:
    """Return the kinds of those addresses of a host that are not public, such as `loopback`.

    Raises:
        OSError: the host is not known.
    """
    name = host.lower().removesuffix(".").strip("[]")
    found = [name] if _is_address(name) else await look_up(name, port)
    addresses = [ip_address(each.partition("%")[0]) for each in found]
    forms = [form for address in addresses for form in (address, *_unwrap(address))]
    return frozenset(kind for form in forms if (kind := _kind(form)))


def is_odd_number(name: str) -> bool:
    """Return whether a host is a number but no plain address, as `2130706433`, `0x7f.1` and `127.1` are.

    >>> is_odd_number("127.1"), is_odd_number("127.0.0.1"), is_odd_number("api.example")
    (True, False, False)
    """
    last = name.lower().removesuffix(".").rpartition(".")[2]
    return (last.isdigit() or last.startswith("0x")) and not _is_address(name.removesuffix("."))


def _unwrap(address: _Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return
    low = IPv4Address(int(address) & _LOW_32)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        yield low
    if (int(address) >> 32) & _LOW_32 in _ISATAP:
        yield low


def _kind(address: _Address) -> str | None:
    """Return what kind of address it is, where it is not a public one."""
    kind = next((kind for network, kind in _BLOCKED if address in network), None)
    if kind or isinstance(address, IPv4Address):
        return kind
    if address.ipv4_mapped is not None or address in _NAT64:
        return None  # judged by the address inside
    return None if address in _GLOBAL_V6 else "reserved"
