import socket
import ssl

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from toolcrib.errors import ConfigError, Problem, ServerUnavailableError
from toolcrib.execution.mcp.errors import (
    marked,
    never_sent,
    place,
    reason_of,
    reason_of_status,
    reason_of_type,
)

REQUEST = httpx2.Request("POST", "https://me:pw@example.com/mcp?key=k", headers={"Authorization": "s3cret"})
PLACE = "https://example.com/mcp"


def connect(cause: BaseException | None = None) -> httpx2.ConnectError:
    error = httpx2.ConnectError("odd", request=REQUEST)
    error.__cause__ = cause
    return error


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.verify_message = "expired"
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ServerUnavailableError("x", "it exited with status 1", "noise"), "it exited with status 1"),
        (ConfigError("file", (Problem("/a", "b", "is wrong"),)), "file: /a: is wrong"),
        (MCPError(-32000, "Connection closed"), "the connection was closed"),
        (MCPError(-32603, "no\n  such thing"), "no such thing"),
        (MCPError(-32700, "Failed to parse JSON response: long"), "it gave an answer that is not JSON-RPC"),
        (connect(), f"{PLACE} cannot be reached: odd"),
        (connect(ConnectionRefusedError(111, "refused")), f"nothing listens at {PLACE}"),
        (connect(OSError(113, "No route to host")), f"{PLACE} cannot be reached: odd"),
        (connect(socket.gaierror(-2, "unknown")), f"the host of {PLACE} could not be found: unknown"),
        (connect(untrusted()), f"the certificate of {PLACE} is not trusted: expired; SSL_CERT_FILE may name a file with the authority that signed it"),
        (connect(ssl.SSLError(1, "handshake")), f"no secure connection to {PLACE} could be made: handshake"),
        (httpx2.ConnectTimeout("", request=REQUEST), f"{PLACE} could not be reached in time"),
        (httpx2.WriteTimeout("", request=REQUEST), f"{PLACE} could not answer in time"),
        (httpx2.PoolTimeout("", request=REQUEST), f"all connections to {PLACE} are in use"),
        (httpx2.ProxyError("407 denied", request=REQUEST), f"the proxy on the way to {PLACE} refused: 407 denied"),
        (httpx2.ReadError("", request=REQUEST), f"{PLACE} broke off the connection"),
        (httpx2.RemoteProtocolError("", request=REQUEST), f"{PLACE} broke off the connection"),
        (httpx2.DecodingError("bad gzip", request=REQUEST), f"the request to {PLACE} failed: bad gzip"),
        (httpx2.SSEError("too large", request=REQUEST), "too large"),
        (TimeoutError(), "it did not answer in time"),
        (TimeoutError("30 s are over"), "30 s are over"),
        (ValueError("x" * 1000), "x" * 500),
        (ValueError(), "ValueError"),
    ],
)  # fmt: skip
def test_an_exception_becomes_one_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    nested = ExceptionGroup("one", [ExceptionGroup("two", [error])])
    assert reason_of(nested) == (
        reason if str(error) or not isinstance(error, ValueError) else "ExceptionGroup"
    )
    assert "s3cret" not in reason
    assert "pw" not in reason


def test_reason_of_a_group_is_its_first_error_with_a_message() -> None:
    assert reason_of(ExceptionGroup("g", [ValueError(), KeyError("k"), ValueError("v")])) == "'k'"


def test_request_that_certainly_never_arrived_is_recognized() -> None:
    assert never_sent(connect())
    assert never_sent(httpx2.ConnectTimeout("", request=REQUEST))
    assert never_sent(MCPError(-32000, "nothing listens", marked(sent=False)))
    assert not never_sent(MCPError(-32000, "nothing listens", {"sent": False}))
    assert never_sent(ExceptionGroup("g", [connect()]))
    assert not never_sent(ExceptionGroup("g", [connect(), ValueError()]))
    assert not never_sent(httpx2.ReadError("", request=REQUEST))
    assert not never_sent(MCPError(-32000, "broke off", marked(sent=True)))
    assert not never_sent(MCPError(-32000, "Connection closed"))


def test_a_place_has_no_secrets() -> None:
    assert place(REQUEST.url) == PLACE
    assert place("http://h:1/a#b") == "http://h:1/a"


def test_errors_by_status_and_content_type() -> None:
    often, denied = (httpx2.Response(status, request=REQUEST) for status in (429, 401))
    assert reason_of_status(often) == f"{PLACE} answered 429 Too Many Requests; it gets too many requests"
    assert reason_of_status(denied).endswith("; its Authorization header was not accepted")
    assert reason_of_type("Image/PNG", REQUEST.url).startswith(
        f"{PLACE} answered with 'image/png', not with MCP"
    )
