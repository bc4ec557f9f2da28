"""Entries of `network`: their syntax, and the hosts that each covers."""

import pytest

from toolcrib.execution.mcp.walls.hosts import forwards_of, parse_host, plain_name


@pytest.mark.parametrize(
    ("text", "name", "port", "is_address"),
    [
        ("api.example.com", "api.example.com", None, False),
        ("API.Example.com.", "api.example.com", None, False),
        ("api.example.com:8443", "api.example.com", 8443, False),
        ("*.example.com", "*.example.com", None, False),
        ("*.example.com:443", "*.example.com", 443, False),
        ("localhost", "localhost", None, False),
        ("my_host", "my_host", None, False),
        ("bücher.example", "xn--bcher-kva.example", None, False),
        ("10.0.0.7", "10.0.0.7", None, True),
        ("10.0.0.7:5432", "10.0.0.7", 5432, True),
        ("::1", "::1", None, True),
        ("[::1]", "::1", None, True),
        ("[0:0::1]:80", "::1", 80, True),
    ],
)
def test_a_host_is_read(text: str, name: str, port: int | None, is_address: bool) -> None:
    found = parse_host(text)
    assert (found.name, found.port, found.is_address) == (name, port, is_address)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://api.example.com", "write only the host"),
        ("api.example.com/v1", "write only the host"),
        ("10.0.0.0/8", "write only the host"),
        ("", "is not a host"),
        ("*", "is not a host"),
        ("a b", "is not a host"),
        ("-a.example", "is not a host"),
        ("a..b", "is not a host"),
        ("api.*.com", "is not a host"),
        ("*.10.0.0.7", "before an address"),
        ("api.example.com:", "no port after its colon"),
        ("api.example.com:0", "no port after its colon"),
        ("api.example.com:70000", "no port after its colon"),
        ("api.example.com:https", "no port after its colon"),
        ("127.1", "odd spelling"),
        ("0x7f.0.0.1", "odd spelling"),
        ("2130706433", "odd spelling"),
    ],
)
def test_invalid_host_is_refused_with_a_valid_form(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_host(text)


@pytest.mark.parametrize(
    ("written", "host", "port", "covered"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "EXAMPLE.com.", 22, True),
        ("example.com", "api.example.com", 443, False),
        ("example.com", "example.com.evil.example", 443, False),
        ("example.com", "notexample.com", 443, False),
        ("*.example.com", "api.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "evilexample.com", 443, False),
        ("example.com:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
        ("10.0.0.7", "10.0.0.7", 80, True),
        ("10.0.0.7", "10.0.0.70", 80, False),
        ("::1", "[0::1]", 80, True),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
    ],
)
def test_a_host_covers_itself_and_no_other(written: str, host: str, port: int, covered: bool) -> None:
    assert parse_host(written).covers(plain_name(host), port) is covered


def test_a_name_has_an_address_of_its_own_for_each_of_its_ports() -> None:
    written = [
        "a.example",
        "b.example:5432",
        "b.example:22",
        "*.c.example",
        "10.0.0.7:80",
        "127.0.0.1:8000",
        "::1",
    ]
    assert [(each.address, each.port, each.name) for each in forwards_of([*map(parse_host, written)])] == [
        ("11.77.0.1", 80, "a.example"),
        ("11.77.0.1", 443, "a.example"),
        ("11.77.0.2", 5432, "b.example"),
        ("11.77.0.2", 22, "b.example"),
        ("127.0.0.1", 8000, "127.0.0.1"),
    ]


def test_so_many_names_have_an_address_as_sockets_can_be_sent_at_once() -> None:
    found = forwards_of([parse_host(f"h{number}.example:80") for number in range(300)])
    assert len(found) == len({each.address for each in found}) == 200
    assert all(0 < int(part) < 255 for part in [each.address.rpartition(".")[2] for each in found])
