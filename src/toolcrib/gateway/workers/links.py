"""The channel between the workers of one gateway.

Each worker listens on a Unix socket in their private folder. A request of HTTP that concerns what another
worker holds, such as a session, is relayed to it as a whole, and so is its response; what a worker asks the
others, such as for their metrics, is a request of HTTP too. The messages on a connection are those of ASGI:
the scope and the body there, `http.response.start` and bodies back. The end of the connection means that
the client has left, or that the worker has ended.
"""

import json
import math
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from toolcrib.errors import ToolcribError
from toolcrib.gateway.app.asgi import App, Message, Receive, Scope, Send
from toolcrib.gateway.workers.supervisor import Worker
from toolcrib.redaction import error_text

_HEAD = struct.Struct("!cI")
_REQUEST, _START, _MORE, _LAST, _COMMAND, _RESULT = b"Q", b"S", b"M", b"L", b"C", b"R"
_TAKEN = b"T"
"""Sent before a request is answered: where it does not come, the request was not begun."""
RunCommand = Callable[[dict[str, Any]], Awaitable[Any]]
"""Carries out a command of another worker, and returns what came of it as JSON."""
_CONNECT_TIMEOUT = 5.0
_ASK_TIMEOUT = 5.0
_LEFT_OUT = frozenset({b"origin"})
"""Headers that the first worker has checked and answered."""
_COPIED = ("type", "http_version", "method", "path", "root_path", "scheme")
_ENDED = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""Errors of reading from and writing to a connection whose other end is gone."""
OWN = "toolcrib.own"
"""Key of a scope whose request is for this worker alone, since another asks on behalf of all."""


class Links:
    """Relays requests to the other workers, and answers theirs."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    @property
    def others(self) -> list[int]:
        """The numbers of the other workers."""
        return [number for number in range(self.worker.count) if number != self.worker.number]

    async def listen(self, app: App, run_command: RunCommand, *, task_status: TaskStatus[None]) -> None:
        """Answer requests of the other workers by an application, and run their commands."""
        path = anyio.Path(self.worker.socket_of(self.worker.number))
        await path.unlink(missing_ok=True)  # of a worker that was killed
        async with await anyio.create_unix_listener(str(path), mode=0o600) as listener:
            task_status.started()
            await listener.serve(partial(_answer, app, run_command))

    async def relay(
        self, number: int, scope: Scope, body: bytes, receive: Receive, send: Send, *, own: bool = False
    ) -> bool:
        """Have another worker answer a request whose body was read; return False if it cannot be reached.

        Raises:
            WorkerEndedError: it ended before it had answered.
        """
        try:
            with anyio.fail_after(_CONNECT_TIMEOUT):
                stream = await anyio.connect_unix(self.worker.socket_of(number))
        except (OSError, TimeoutError):
            return False
        is_taken = has_ended = False
        async with stream, anyio.create_task_group() as tasks:

            async def watch_client() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch_client)
            try:
                await _put(stream, _REQUEST, _pack_scope(scope, own=own))
                await _put(stream, _LAST, body)
                reader = BufferedByteReceiveStream(stream)
                is_taken = (await _get(reader))[0] == _TAKEN
                await _pass_response(reader, send)
            except _ENDED:
                has_ended = True
            tasks.cancel_scope.cancel()
        if has_ended and is_taken:
            raise WorkerEndedError(number)
        return not has_ended

    async def ask(
        self, number: int, command: Mapping[str, Any], *, within: float = math.inf
    ) -> dict[str, Any] | None:
        """Return what came of a command at another worker: `done`, or why it `failed`; else None."""
        with anyio.move_on_after(within), suppress(OSError, *_ENDED):
            async with await anyio.connect_unix(self.worker.socket_of(number)) as stream:
                await _put(stream, _COMMAND, json.dumps(command).encode())
                answer: dict[str, Any] = json.loads((await _get(BufferedByteReceiveStream(stream)))[1])
                return answer
        return None

    async def fetch(self, number: int, scope: Scope) -> tuple[int, bytes] | None:
        """Return the status and the body with which another worker alone answers; None without an answer."""
        status, parts = 0, []

        async def collect(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        with anyio.move_on_after(_ASK_TIMEOUT), suppress(WorkerEndedError):
            if await self.relay(number, scope, b"", _never, collect, own=True):
                return status, b"".join(parts)
        return None

    async def fetch_all(self, scope: Scope) -> dict[int, tuple[int, bytes]]:
        """Return what each of the other workers answers, by number, as far as they answer."""
        found: dict[int, tuple[int, bytes]] = {}

        async def fetch(number: int) -> None:
            answer = await self.fetch(number, scope)
            if answer is not None:
                found[number] = answer

        async with anyio.create_task_group() as tasks:
            for number in self.others:
                tasks.start_soon(fetch, number)
        return found


class WorkerEndedError(Exception):
    """A worker ended before it had answered a request that was relayed to it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"worker {number} of the gateway ended before it had answered")


async def _answer(app: App, run_command: RunCommand, stream: SocketStream) -> None:
    """Answer one request of another worker, or run its command until it disconnects."""
    async with stream:
        with suppress(*_ENDED):
            reader = BufferedByteReceiveStream(stream)
            kind, head = await _get(reader)
            if kind == _COMMAND:
                await _run_and_reply(run_command, json.loads(head), stream, reader)
                return
            _, body = await _get(reader)
            await _put(stream, _TAKEN, b"")
            is_read = False

            async def receive() -> Message:
                nonlocal is_read
                if not is_read:
                    is_read = True
                    return {"type": "http.request", "body": body, "more_body": False}
                with suppress(*_ENDED):
                    await reader.receive(1)  # only the end of the stream can come
                return {"type": "http.disconnect"}

            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    pairs = [
                        (name.decode("latin-1"), value.decode("latin-1"))
                        for name, value in message.get("headers", ())
                    ]
                    facts = {"status": message["status"], "headers": pairs}
                    await _put(stream, _START, json.dumps(facts).encode())
                else:
                    kind = _MORE if message.get("more_body", False) else _LAST
                    await _put(stream, kind, message.get("body", b""))

            await app(_unpack_scope(head), receive, send)


async def _run_and_reply(
    run_command: RunCommand, command: dict[str, Any], stream: SocketStream, reader: BufferedByteReceiveStream
) -> None:
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            with suppress(*_ENDED):
                await reader.receive(1)  # only the end of the stream can come
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        try:
            answer = {"done": await run_command(command)}
        except ToolcribError as error:
            answer = {"failed": error_text(error)}
        with suppress(*_ENDED):
            await _put(stream, _RESULT, json.dumps(answer).encode())
        tasks.cancel_scope.cancel()


async def _pass_response(reader: BufferedByteReceiveStream, send: Send) -> None:
    kind = b""
    while kind != _LAST:
        kind, data = await _get(reader)
        if kind == _START:
            facts = json.loads(data)
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in facts["headers"]]
            await send({"type": "http.response.start", "status": facts["status"], "headers": headers})
        else:
            await send({"type": "http.response.body", "body": data, "more_body": kind == _MORE})


def _pack_scope(scope: Scope, *, own: bool) -> bytes:
    facts = {name: scope[name] for name in _COPIED if name in scope}
    facts["query_string"] = scope.get("query_string", b"").decode("latin-1")
    facts["headers"] = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in scope["headers"]
        if name not in _LEFT_OUT
    ]
    return json.dumps(
        {**facts, "server": scope.get("server"), "client": scope.get("client"), OWN: own}
    ).encode()


def _unpack_scope(data: bytes) -> Scope:
    scope: Scope = json.loads(data)
    scope["query_string"] = scope["query_string"].encode("latin-1")
    scope["headers"] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in scope["headers"]]
    scope["server"], scope["client"] = (each and tuple(each) for each in (scope["server"], scope["client"]))
    return {**scope, "asgi": {"version": "3.0"}}


async def _put(stream: SocketStream, kind: bytes, data: bytes) -> None:
    await stream.send(_HEAD.pack(kind, len(data)) + data)


async def _get(reader: BufferedByteReceiveStream) -> tuple[bytes, bytes]:
    kind, size = _HEAD.unpack(await reader.receive_exactly(_HEAD.size))
    return kind, await reader.receive_exactly(size) if size else b""


async def _never() -> Message:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")
