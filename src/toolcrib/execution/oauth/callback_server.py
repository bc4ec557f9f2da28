"""A small HTTP server on this machine, to which the browser is redirected after a login.

Any page in the browser can send requests to it, so it accepts only the redirect with the right state, host
and path, echoes nothing in its pages, and limits connections, sizes and times.
"""

import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import anyio
from anyio.abc import SocketAttribute, SocketStream

CALLBACK_PATH = "/callback"
_HOST = "127.0.0.1"
_MAX_REQUEST_BYTES = 16 * 1024
_MAX_FIELDS = 50
_MAX_CONNECTIONS = 32
_READ_TIMEOUT = 5.0
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>toolcrib</title>"
    "<body style='font-family:sans-serif;margin:4em'><p>{text}</p></body></html>"
)
_DONE = "Logged in. You can close this page, and go back to the terminal."
_FAILED = "The login was refused. The terminal says why; you can close this page."
_HEADERS = (
    "content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
    "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
    "x-content-type-options: nosniff\r\nconnection: close\r\n"
)


@dataclass(frozen=True, slots=True)
class CallbackAnswer:
    """The parameters that an authorization server added to the redirect."""

    code: str = field(default="", repr=False)
    state: str = field(default="", repr=False)
    iss: str | None = None
    """The issuer, if the server sends it (RFC 9207)."""
    error: str = ""
    """The error code; empty if there is a code."""


@dataclass(slots=True)
class Callback:
    """Waits for the redirect with the state of the login.

    Every other request is refused without ending the wait: another path, method, host or state, or a
    parameter given twice. Pages contain no text of the request, and no links.
    """

    port: int
    _state: str | None = None
    _answer: CallbackAnswer | None = None
    _arrived: anyio.Event = field(default_factory=anyio.Event)
    _reading: list[anyio.CancelScope] = field(default_factory=list)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._reading)

    @property
    def address(self) -> str:
        """The redirect URI."""
        return f"http://{_HOST}:{self.port}{CALLBACK_PATH}"

    def expect(self, state: str) -> None:
        """Accept a redirect with this state from now on."""
        self._state = state

    async def wait(self) -> CallbackAnswer:
        """Wait for the redirect, and return its parameters."""
        await self._arrived.wait()
        assert self._answer is not None  # noqa: S101 - set before the event
        return self._answer

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection; with too many, the oldest is closed."""
        async with stream:
            with (
                anyio.move_on_after(_READ_TIMEOUT) as scope,
                suppress(anyio.BrokenResourceError, anyio.EndOfStream),
            ):
                self._reading.append(scope)
                if len(self._reading) > _MAX_CONNECTIONS:
                    self._reading.pop(0).cancel()
                request = await _read_head(stream)
                status, text = self._check_request(request)
                page = _PAGE.format(text=text).encode()
                head = f"HTTP/1.1 {status}\r\n{_HEADERS}content-length: {len(page)}\r\n\r\n"
                await stream.send(head.encode() + page)
        if scope in self._reading:
            self._reading.remove(scope)
        if self._answer is not None:
            self._arrived.set()

    def _check_request(self, request: str) -> tuple[str, str]:
        """Return the status and the page for a request, and store the parameters of the expected one."""
        line, *headers = request.split("\r\n")
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        hosts = [each.partition(":")[2].strip() for each in headers if each.lower().startswith("host:")]
        # against DNS rebinding, by which a page of another site could reach this server under its own name
        if hosts not in ([f"{_HOST}:{self.port}"], [f"localhost:{self.port}"]):
            return "421 Misdirected Request", "This is not the address of a login."
        path, _, query = target.partition("?")
        if method != "GET" or path != CALLBACK_PATH:
            return "404 Not Found", "There is nothing here."
        try:
            given = parse_qs(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            return "400 Bad Request", "This is not the login that was begun. Nothing was done."
        values = {name: found[0] for name, found in given.items() if len(found) == 1}
        state = values.get("state", "")
        if self._state is None or not hmac.compare_digest(state.encode(), self._state.encode()):
            return "400 Bad Request", "This is not the login that was begun. Nothing was done."
        if self._answer is not None or any(len(found) > 1 for found in given.values()):
            return "400 Bad Request", "This login was used already, or is not complete. Nothing was done."
        self._answer = CallbackAnswer(
            values.get("code", ""), state, values.get("iss"), values.get("error", "")[:60]
        )
        return "200 OK", _FAILED if self._answer.error or not self._answer.code else _DONE


async def _read_head(stream: SocketStream) -> str:
    """Read the head of a request, up to a limit."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_REQUEST_BYTES:
        head += await stream.receive()
    return head.partition(b"\r\n\r\n")[0].decode("latin-1")


@asynccontextmanager
async def listen_for_callback(port: int | None) -> AsyncGenerator[Callback, None]:
    """Listen on this machine until the block ends, on a free port if none is given.

    Raises:
        OSError: the port is taken.
    """
    listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port or 0)
    failure: Exception | None = None
    async with listener, anyio.create_task_group() as tasks:
        callback = Callback(listener.extra(SocketAttribute.local_port))  # noqa: S610 - a method of anyio
        tasks.start_soon(listener.serve, callback.serve)
        try:
            yield callback
        except Exception as error:  # noqa: BLE001 - raised below, since the task group would wrap it
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
