"""The address on this machine that a browser is sent back to after a login."""

import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import anyio
from anyio.abc import SocketAttribute, SocketStream

CALLBACK_PATH = "/callback"
_HOST = "127.0.0.1"
_MAX_REQUEST = 16 * 1024
_MAX_FIELDS = 50
_MAX_CONNECTIONS = 32
_READ_TIME = 5.0
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
    """What an authorization server sent with the browser."""

    code: str = field(default="", repr=False)
    state: str = field(default="", repr=False)
    iss: str | None = None
    """Who it says it is (RFC 9207)."""
    error: str = ""
    """Why there is no code."""


@dataclass(slots=True)
class Callback:
    """Waits for one browser, with the state that the login began with.

    Everything else is refused, and it waits on: other paths, methods or hosts, another state, a parameter
    twice. Nothing that a request says comes back in a page, and no page leads anywhere.
    """

    port: int
    _state: str | None = None
    _answer: CallbackAnswer | None = None
    _come: anyio.Event = field(default_factory=anyio.Event)
    _reading: list[anyio.CancelScope] = field(default_factory=list)

    @property
    def connections(self) -> int:
        """How many connections it is reading from."""
        return len(self._reading)

    @property
    def address(self) -> str:
        """The address to be sent back to."""
        return f"http://{_HOST}:{self.port}{CALLBACK_PATH}"

    def expect(self, state: str) -> None:
        """Begin to accept the browser that brings this state."""
        self._state = state

    async def wait(self) -> CallbackAnswer:
        """Return what came."""
        await self._come.wait()
        assert self._answer is not None  # noqa: S101 - it is set before
        return self._answer

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection; where there are too many, the oldest ends."""
        async with stream:
            with (
                anyio.move_on_after(_READ_TIME) as scope,
                suppress(anyio.BrokenResourceError, anyio.EndOfStream),
            ):
                self._reading.append(scope)
                if len(self._reading) > _MAX_CONNECTIONS:
                    self._reading.pop(0).cancel()
                request = await _request(stream)
                status, text = self._judge(request)
                page = _PAGE.format(text=text).encode()
                head = f"HTTP/1.1 {status}\r\n{_HEADERS}content-length: {len(page)}\r\n\r\n"
                await stream.send(head.encode() + page)
        if scope in self._reading:
            self._reading.remove(scope)
        if self._answer is not None:
            self._come.set()

    def _judge(self, request: str) -> tuple[str, str]:
        """Return the status and the text for a request; the right one is kept."""
        line, *headers = request.split("\r\n")
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        hosts = [each.partition(":")[2].strip() for each in headers if each.lower().startswith("host:")]
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


async def _request(stream: SocketStream) -> str:
    """Return the head of a request, as far as it is one."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_REQUEST:
        head += await stream.receive()
    return head.partition(b"\r\n\r\n")[0].decode("latin-1")


@asynccontextmanager
async def listening(port: int | None) -> AsyncGenerator[Callback, None]:
    """Listen on this machine for the length of the block, on a free port where none is given.

    Raises:
        OSError: the port is taken.
    """
    listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port or 0)
    failure: Exception | None = None
    async with listener, anyio.create_task_group() as tasks:
        callback = Callback(listener.extra(SocketAttribute.local_port))  # noqa: S610 - anyio's, of no database
        tasks.start_soon(listener.serve, callback.serve)
        try:
            yield callback
        except Exception as error:  # noqa: BLE001 - the block's own, which the task group would wrap
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
