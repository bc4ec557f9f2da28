"""Connections to servers: success, and every kind of failure."""

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from execution.http.server import Talk, talking
from execution.http.support import LOCAL, run
from servers.launch import closed_port
from waiting import PATIENCE, until

from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    InputValidationError,
    PolicyDeniedError,
    ToolExecutionError,
)
from toolcrib.execution.http import Endpoint, HttpProvider

pytestmark = pytest.mark.anyio
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


def provider(url: str, **options: Any) -> HttpProvider:
    return HttpProvider("t", [Endpoint(name="op", url=url)], **({"allow_private": LOCAL} | options))


def listens(connection: socket.socket) -> bytes:
    """Read a request."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65536)
        if not part:
            break
        found += part
    return found


def says(answer: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        listens(connection)
        connection.sendall(answer)

    return talk


async def test_no_request_leaves_for_a_private_address() -> None:
    heard: list[bytes] = []
    with talking(lambda connection: heard.append(listens(connection))) as url:
        async with provider(url, allow_private=False) as api:
            with pytest.raises(PolicyDeniedError, match=r"was not sent: '127.0.0.1' has a loop") as caught:
                await run(api, "op")
    assert (caught.value.backend, caught.value.op) == ("provider:t", "execute")
    assert heard == []


async def test_the_name_is_looked_up_once_and_the_address_that_passed_is_connected_to() -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(f"{host}:{port}")
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    heard: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        heard.append(listens(connection))
        connection.sendall(OK)

    with talking(talk) as url:
        port = url.rpartition(":")[2]
        async with provider(f"http://api.example:{port}/x", lookup=rebinding) as api:
            assert await run(api, "op") == {}
            with pytest.raises(PolicyDeniedError, match=r"'api.example' has a link-local address"):
                await run(api, "op")
    assert asked == [f"api.example:{port}"] * 2
    assert f"Host: api.example:{port}".encode() in heard[0]
    assert len(heard) == 1


async def test_each_address_of_a_name_is_tried_in_turn() -> None:
    async def lookup(_: str, __: int) -> Sequence[str]:
        return ["127.0.0.2", "10.0.0.1", "127.0.0.1"]

    with talking(says(OK)) as url:
        port = url.rpartition(":")[2]
        allowed = ["127.0.0.0/8"]
        async with provider(f"http://api.example:{port}/", lookup=lookup, allow_private=allowed) as api:
            assert await run(api, "op") == {}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_only_a_safe_request_is_sent_again_where_the_server_closes_an_idle_connection(
    method: Literal["GET", "POST"],
) -> None:
    heard: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        heard.append(listens(connection))
        connection.sendall(OK.replace(b"Connection: close\r\n", b""))
        if len(heard) == 1:
            heard.append(listens(connection))  # and closes it without a word

    with talking(talk) as url:
        endpoint = Endpoint(name="op", url=url, method=method)
        async with HttpProvider("t", [endpoint], allow_private=LOCAL) as api:
            assert await run(api, "op") == {}
            if method == "GET":
                assert await run(api, "op") == {}
            else:
                with pytest.raises(BackendUnavailableError, match="disconnected"):
                    await run(api, "op")
    assert len(heard) == (3 if method == "GET" else 2)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
async def test_an_odd_spelling_of_an_address_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="odd spelling"):
        provider(f"http://{host}:9/")


@pytest.mark.parametrize("host", ["xn--a\u200d.example", "xn--a", "xn--"])
async def test_a_host_that_no_name_can_have_is_an_error_of_the_call(host: str) -> None:
    async with provider(f"http://{host}/") as api:
        with pytest.raises(ToolExecutionError, match="not an address that a request can be sent to"):
            await run(api, "op")


async def test_arguments_that_are_too_long_for_a_url_are_refused() -> None:
    async with provider("http://a.example/{x}") as api:
        with pytest.raises(InputValidationError, match="a URL of 70,017 characters"):
            await run(api, "op", x="y" * 70_000)


async def test_a_redirect_to_a_private_address_is_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/secret\r\nContent-Length: 0\r\n\r\n"
    with talking(says(answer)) as url:
        async with provider(url) as api:
            with pytest.raises(ToolExecutionError, match="redirects are not followed") as caught:
                await run(api, "op")
    assert caught.value.result["headers"]["location"] == "http://127.0.0.1:9/secret"


async def test_a_server_that_does_not_listen_was_not_sent_anything() -> None:
    with closed_port() as port:
        async with provider(f"http://127.0.0.1:{port}/") as api:
            with pytest.raises(BackendUnavailableError, match="connect error") as caught:
                await run(api, "op")
    assert caught.value.sent is False


async def test_a_host_that_nobody_knows_was_not_sent_anything() -> None:
    async def unknown(_: str, __: int) -> Sequence[str]:
        raise socket.gaierror(-2, "Name or service not known")

    async with provider("http://nowhere.example/", lookup=unknown) as api:
        with pytest.raises(BackendUnavailableError, match=r"'nowhere.example' cannot be looked up") as caught:
            await run(api, "op")
    assert caught.value.sent is False


async def test_a_lookup_that_hangs_is_given_up() -> None:
    async def hangs(_: str, __: int) -> Sequence[str]:
        await anyio.sleep_forever()
        return []

    async with provider("http://slow.example/", lookup=hangs, connect_timeout=0.05) as api:
        with pytest.raises(BackendUnavailableError, match="connect timeout: looking up") as caught:
            await run(api, "op")
    assert caught.value.sent is False


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    ids=["hangs up", "no http", "half an answer", "bad chunk"],
)  # fmt: skip
async def test_a_server_that_breaks_off_may_have_run_the_tool(answer: bytes) -> None:
    with talking(says(answer)) as url:
        async with provider(url, headers={"Authorization": "Bearer s3cret-token"}) as api:
            with pytest.raises(BackendUnavailableError) as caught:
                await run(api, "op")
    assert caught.value.sent is True
    assert caught.value.__cause__ is None
    assert "s3cret" not in str(caught.value)


async def test_a_server_that_died_can_be_called_again() -> None:
    answers = iter([b"", b"", OK])  # a safe request is sent twice

    def talk(connection: socket.socket) -> None:
        says(next(answers))(connection)

    with talking(talk) as url:
        async with provider(url) as api:
            with pytest.raises(BackendUnavailableError):
                await run(api, "op")
            assert await run(api, "op") == {}


async def test_an_answer_that_says_it_is_too_large_is_not_read() -> None:
    with talking(says(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")) as url:
        async with provider(url) as api:
            with pytest.raises(ToolExecutionError, match="larger than 16,777,216 bytes"):
                await run(api, "op")


async def test_a_compressed_answer_that_says_nothing_for_ever_is_given_up() -> None:
    def talk(connection: socket.socket) -> None:
        listens(connection)
        with suppress(OSError):  # the client hangs up
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
            connection.sendall(b"\x1f\x8b\x08\x08\0\0\0\0\0\xff")
            while True:
                connection.sendall(b"a" * 65536)

    with talking(talk) as url, anyio.fail_after(PATIENCE):
        async with provider(url, max_response_bytes=1_000_000) as api:
            with pytest.raises(ToolExecutionError, match="larger than 1,000,000 bytes"):
                await run(api, "op")


async def test_no_connection_is_left_open_after_calls_that_were_given_up() -> None:
    came, closed = threading.Semaphore(0), threading.Semaphore(0)

    def talk(connection: socket.socket) -> None:
        listens(connection)
        came.release()
        assert connection.recv(1) == b""
        closed.release()

    with talking(talk) as url:
        async with provider(url) as api:
            for _ in range(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, api, "op")
                    await anyio.to_thread.run_sync(came.acquire)
                    tasks.cancel_scope.cancel()
                assert await anyio.to_thread.run_sync(lambda: closed.acquire(timeout=PATIENCE))


async def test_a_handshake_that_is_given_up_leaves_no_connection_open() -> None:
    came, closed = threading.Event(), threading.Event()

    def talk(connection: socket.socket) -> None:
        while connection.recv(65536):
            came.set()
        closed.set()

    with talking(talk) as url:
        async with provider(url.replace("http:", "https:")) as api:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, api, "op")
                await until(came.is_set, "the handshake has begun")
                tasks.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(lambda: closed.wait(PATIENCE))


async def test_calls_that_are_given_up_while_they_wait_for_room_leave_room(url: str) -> None:
    endpoints = [Endpoint(name="slow", url=f"{url}/slow"), Endpoint(name="op", url=f"{url}/echo/x")]

    async def give_up(after: float) -> None:
        with anyio.move_on_after(after):
            await run(api, "slow")

    async with HttpProvider("t", endpoints, allow_private=LOCAL, max_connections=2) as api:
        for number in range(30):
            async with anyio.create_task_group() as tasks:
                for place in range(6):
                    tasks.start_soon(give_up, ((number * 7 + place * 3) % 10) / 300)
        with anyio.fail_after(PATIENCE):
            assert (await run(api, "op"))["method"] == "GET"


async def test_a_provider_that_is_closed_breaks_its_calls_off() -> None:
    came = threading.Event()

    def talk(connection: socket.socket) -> None:
        listens(connection)
        came.set()
        connection.recv(1)

    with talking(talk) as url:
        api = provider(url)

        async def call() -> None:
            with pytest.raises(BackendUnavailableError) as caught:
                await run(api, "op")
            assert caught.value.sent is True

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await anyio.to_thread.run_sync(came.wait)
                await api.aclose()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for `api.example`, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "api.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[tuple[str, list[str]]]:
    """Speak TLS, and record the server names that clients request."""
    asked: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _, name, __: asked.append(name)

    def talk(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as stream:
                listens(stream)
                stream.sendall(OK)
        except (ssl.SSLError, ConnectionError):
            return  # the client did not like the certificate

    with talking(talk) as url:
        yield url.rpartition(":")[2], asked


async def _here(_: str, __: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def test_the_certificate_is_checked_for_the_name_though_the_address_is_connected_to(
    certificate: Path, secure: tuple[str, list[str]]
) -> None:
    port, asked = secure
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with provider(f"https://api.example:{port}/", lookup=_here, ssl_context=trusting) as api:
        assert await run(api, "op") == {}
    async with provider(f"https://other.example:{port}/", lookup=_here, ssl_context=trusting) as api:
        with pytest.raises(BackendUnavailableError, match="connect error") as caught:
            await run(api, "op")
    assert caught.value.sent is False
    async with provider(f"https://api.example:{port}/", lookup=_here) as api:
        with pytest.raises(BackendUnavailableError, match="certificate"):
            await run(api, "op")
    assert asked[:2] == ["api.example", "other.example"]


async def test_a_secure_connection_that_is_garbled_may_have_run_the_tool(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as stream:
            listens(stream)
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi")
            os.write(stream.fileno(), b"\x17\x03\x03\x00\x20" + b"Z" * 32)
            with suppress(OSError):
                stream.recv(1)

    with talking(talk) as url:
        secure = f"https://api.example:{url.rpartition(':')[2]}/"
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with provider(secure, lookup=_here, ssl_context=trusting) as api:
            with pytest.raises(BackendUnavailableError, match="ssl error") as caught:
                await run(api, "op")
    assert caught.value.sent is True


@pytest.mark.proof
def test_a_provider_may_be_used_in_one_event_loop_after_another(url: str) -> None:
    code = """
import sys, anyio
from toolcrib.execution.http import Endpoint, HttpProvider
from toolcrib.execution.call import Call

api = HttpProvider("t", [Endpoint(name="op", url=sys.argv[1])], allow_private=True)
tool, = api.tools()
for _ in range(3):
    print(anyio.run(api.call, Call(tool=tool, args={}, backend=tool.backend)).structured["method"])
anyio.run(api.aclose)
"""
    told = subprocess.run(
        [sys.executable, "-c", code, f"{url}/echo/x"],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert told.stdout.split() == ["GET"] * 3


@pytest.mark.proof
def test_importing_the_providers_loads_no_extra() -> None:
    code = (
        "import sys, toolcrib.execution.http as p; p.HttpProvider('a', []);"
        "sys.exit(', '.join({'httpx', 'httpcore', 'yaml', 'mcp'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.proof
def test_without_the_extra_a_call_and_yaml_say_what_to_install() -> None:
    code = """
import sys
sys.modules["httpx"] = sys.modules["yaml"] = None
import anyio
from toolcrib.errors import MissingExtraError
from toolcrib.execution.http import Endpoint, HttpProvider, OpenApiProvider
from toolcrib.execution.call import Call

api = HttpProvider("a", [Endpoint(name="x", url="http://a.example")])
tool, = api.tools()
for attempt in (
    lambda: anyio.run(api.call, Call(tool=tool, args={}, backend=tool.backend)),
    lambda: OpenApiProvider.from_document("openapi: 3.1.0", id="t"),
):
    try:
        attempt()
    except MissingExtraError as error:
        print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.splitlines() == [
        "calling an HTTP API needs the 'openapi' extra: pip install 'toolcrib[openapi]'",
        "reading YAML needs the 'openapi' extra: pip install 'toolcrib[openapi]'",
    ]
