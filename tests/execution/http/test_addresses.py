"""Addresses to which requests may be sent."""

import socket
from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.execution.http.addresses import Addresses, AddressRefusedError, resolve_host

pytestmark = pytest.mark.anyio

PRIVATE = [
    "127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "0.0.0.0",  # noqa: S104 - it is to be refused
    "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.0.1",
    "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.7", "203.0.113.9",
    "::", "::1", "fe80::1", "fc00::1", "fd12:3456::1", "fec0::1", "ff02::1", "2001:db8::1", "2001::1", "3fff::1",
    "100::1", "4000::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1",
    "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111",
    "2a00:1450::5efe:808:808", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
]  # fmt: skip
ODD = [
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "0x7f.1",
    "0xa9fea9fe",
    "017700000001",
    "1.2.3.4.5",
]


class Names:
    """A resolver with fixed addresses, which counts the lookups."""

    def __init__(self, **names: Sequence[str]) -> None:
        self.names = {name.replace("_", "."): found for name, found in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(f"{host}:{port}")
        return self.names[host]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_private_address_is_refused_however_it_is_reached(address: str) -> None:
    names = Names(inner_example=[address])
    with pytest.raises(AddressRefusedError):
        await Addresses().resolve(address, 80)
    with pytest.raises(
        AddressRefusedError, match=r"'inner.example' has a .* address; name it in allow_private"
    ):
        await Addresses(lookup=names).resolve("inner.example", 80)


@pytest.mark.parametrize("address", PUBLIC)
async def test_a_public_address_passes(address: str) -> None:
    assert await Addresses().resolve(address, 80) == [address]
    assert await Addresses(lookup=Names(api_example=[address])).resolve("API.example.", 443) == [address]


@pytest.mark.parametrize("spelling", ODD)
async def test_an_odd_spelling_of_an_address_is_refused_without_a_lookup(spelling: str) -> None:
    names = Names()
    with pytest.raises(AddressRefusedError, match="odd spelling"):
        await Addresses(allow_private=True, lookup=names).resolve(spelling, 80)
    assert not names.asked


@pytest.mark.parametrize("spelling", ["127.0.0.1.", "[::1]", "::FFFF:7F00:1", "fe80::1%eth0"])
async def test_another_spelling_of_a_private_address_is_refused(spelling: str) -> None:
    with pytest.raises((AddressRefusedError, OSError)):
        await Addresses().resolve(spelling, 80)


async def test_only_public_ones_of_several_addresses_are_used() -> None:
    names = Names(mixed_example=["10.0.0.1", "8.8.8.8", "::1"])
    assert await Addresses(lookup=names).resolve("mixed.example", 80) == ["8.8.8.8"]


async def test_an_answer_that_is_no_address_is_refused() -> None:
    with pytest.raises(AddressRefusedError, match="malformed"):
        await Addresses(lookup=Names(bad_example=["not-an-address"])).resolve("bad.example", 80)


async def test_a_name_without_addresses_is_unknown() -> None:
    with pytest.raises(OSError, match="has no address"):
        await Addresses(lookup=Names(no_example=[])).resolve("no.example", 80)


@pytest.mark.parametrize(
    ("allowed", "host", "passes"),
    [
        (True, "10.0.0.1", True),
        (["10.0.0.0/8"], "10.9.9.9", True),
        (["10.0.0.0/8"], "192.168.0.1", False),
        (["127.0.0.1"], "127.0.0.1", True),
        (["127.0.0.1"], "127.0.0.2", False),
        (["127.0.0.1"], "::ffff:127.0.0.1", True),
        (["[::1]"], "::1", True),
        (["fd00::/8"], "fd00::5", True),
        (["Build.Example."], "build.example", True),
        (["other.example"], "build.example", False),
        (["10.0.0.7/8"], "build.example", True),
    ],
)
async def test_hosts_and_networks_can_be_allowed(allowed: bool | list[str], host: str, passes: bool) -> None:
    addresses = Addresses(allow_private=allowed, lookup=Names(build_example=["10.1.1.1"]))
    if passes:
        assert await addresses.resolve(host, 80)
    else:
        with pytest.raises(AddressRefusedError):
            await addresses.resolve(host, 80)


@pytest.mark.parametrize("entry", ["", " ", "a b", "10.0.0.0/99", "host:80", "user@host", 7, "10.0.0.1/8/9"])
def test_an_entry_that_is_neither_host_nor_network_is_refused(entry: object) -> None:
    with pytest.raises(ConfigError, match="allow_private"):
        Addresses(allow_private=[entry])  # type: ignore[list-item]


def test_one_text_instead_of_a_list_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be a list"):
        Addresses(allow_private="127.0.0.1")


async def test_the_system_knows_this_machine() -> None:
    assert "127.0.0.1" in await resolve_host("127.0.0.1", 80)
    with pytest.raises(socket.gaierror):
        await resolve_host("no-such-host.invalid", 80)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_like_the_address_itself(address: object) -> None:
    async def verdict(text: str) -> bool:
        try:
            return bool(await Addresses().resolve(text, 80))
        except AddressRefusedError:
            return False

    async def both() -> tuple[bool, bool, bool]:
        packed = int(address)  # type: ignore[call-overload]
        wrapped = f"64:ff9b::{packed >> 16:x}:{packed & 0xFFFF:x}"
        return await verdict(str(address)), await verdict(f"::ffff:{address}"), await verdict(wrapped)

    assert len(set(anyio.run(both))) == 1
