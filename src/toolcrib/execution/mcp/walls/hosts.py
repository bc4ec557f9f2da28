"""The hosts that a server behind a wall may reach: names, all below a name, and addresses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from toolcrib.execution.http.addresses import is_unusual_number

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_MAX_PORT = 65535
PORT = 3128
"""The port of the proxy, on the loopback of the server's own network."""
_MAX_FORWARDS = 200
"""Forwards, at most: one message can carry somewhat more sockets."""


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """One host, or all below a name, that a server may reach."""

    name: str
    """A name or an address, in small letters and ASCII; with `*.` before it, all names below it."""
    port: int | None = None
    """The one port that may be reached; None for all."""
    is_address: bool = False

    def covers(self, name: str, port: int) -> bool:
        """Return whether a request to a host, as `plain_name` has it, may pass.

        >>> parse_host("*.example.com").covers("api.example.com", 443)
        True
        >>> parse_host("*.example.com").covers("example.com", 443), parse_host("a.b:80").covers("a.b", 443)
        (False, False)
        """
        if self.port is not None and port != self.port:
            return False
        if self.name == "*":
            return not is_address(name) and not is_unusual_number(name)
        return name.endswith(self.name[1:]) if self.name.startswith("*.") else name == self.name


EVERY_NAME = AllowedHost("*")
"""All hosts by their names, and none by its address."""


def parse_host(text: str) -> AllowedHost:
    """Return the host that a text names.

    >>> parse_host("API.example.com:8443"), parse_host("[::1]:80").name, parse_host("10.0.0.7").is_address
    (AllowedHost(name='api.example.com', port=8443, is_address=False), '::1', True)

    Raises:
        ValueError: it names none; its text says what is wrong, and what would be right.
    """
    if "://" in text or "/" in text:
        raise ValueError(f"{text!r:.80} is more than a host; write only the host, such as 'api.example.com'")
    host, port = _split_port(text)
    name = plain_name(host.removeprefix("*."))
    if is_address(name):
        if host.startswith("*."):
            raise ValueError(f"{text!r:.80} has '*.' before an address; that is only for names")
        return AllowedHost(name, port, is_address=True)
    if is_unusual_number(name):
        raise ValueError(f"{text!r:.80} is an odd spelling of an address; write it in full")
    if not name or not all(map(_LABEL.fullmatch, name.split("."))):
        raise ValueError(f"{text!r:.80} is not a host; write a name, '*.' and a name, or an address")
    return AllowedHost(f"*.{name}" if host.startswith("*.") else name, port)


@dataclass(frozen=True, slots=True)
class Forward:
    """An address inside the wall that is forwarded to a named host."""

    address: str
    port: int
    name: str
    """The host, which is reached at the same port."""


def forwards_of(hosts: Sequence[AllowedHost]) -> list[Forward]:
    """Return what is forwarded to hosts: a name has an address of its own, for programs that use no proxy.

    It is one that looks public, since programs that fetch what they are told to refuse others; it is known in
    the network of the server alone. Names below a name, and addresses of others than this machine, have none:
    they are reached by the proxy.

    >>> forwards_of([parse_host("db.example.com:5432")])
    [Forward(address='11.77.0.1', port=5432, name='db.example.com')]
    """
    found: dict[tuple[str, int], Forward] = {}
    addresses: dict[str, str] = {}
    for host in hosts:
        ports = (80, 443) if host.port is None else (host.port,)
        if host.is_address and (host.port is None or not host.name.startswith("127.")):
            continue
        if host.name.startswith("*"):
            continue
        number = len(addresses)
        own = host.name if host.is_address else f"11.77.{number // 250}.{number % 250 + 1}"
        address = addresses.setdefault(host.name, own)
        found |= {(address, port): Forward(address, port, host.name) for port in ports}
    free = [each for each in found.values() if (each.address, each.port) != ("127.0.0.1", PORT)]
    return free[:_MAX_FORWARDS]


def plain_name(host: str) -> str:
    """Return the one spelling of a name or an address that is compared."""
    name = host.strip("[]").lower().removesuffix(".")
    try:
        return str(ip_address(name))
    except ValueError:
        pass
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return name


def is_address(name: str) -> bool:
    """Return whether a host is an address, and no name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _split_port(text: str) -> tuple[str, int | None]:
    host, colon, digits = text.rpartition(":")
    if not colon or is_address(text) or text.endswith("]"):
        return text, None
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) <= _MAX_PORT):
        raise ValueError(f"{text!r:.80} has no port after its colon: a number from 1 to {_MAX_PORT}")
    return host, int(digits)
