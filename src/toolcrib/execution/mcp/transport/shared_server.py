"""Runs a server on stdio once for several processes, each of which starts this program in its place.

`python -S -I shared_server.py PLACE COMMAND ARGUMENT...`: the first that locks the file `PLACE.lock` starts
the server and listens on the socket `PLACE.sock`; the others pass their standard streams on to it. The lock
is the lease: it ends with its holder, even one that is killed. So do the server, and the streams of the
others, whose processes start them again, and so choose the next holder.

The server sees one client. Ids of requests, progress tokens and subscriptions are renumbered; `initialize` is
answered once by the server, and then from memory. A question of the server goes to the client whose requests
are under way. Where those of several are, it is refused: nothing says whose it is. Only the standard library
is used, so that it starts at once.
"""

import asyncio  # noqa: TID251 - the standard library alone
import fcntl
import json
import os
import sys
from contextlib import suppress
from itertools import count
from typing import Any

_LIMIT = 80 * 2**20
"""Longest message, in bytes; toolcrib itself takes less."""
_PAUSE = 0.02
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_NOBODY = {
    "code": -32603,
    "message": "requests of several clients are running: it is not known whose question this is",
}
Message = dict[str, Any]


class SharingProcess:
    """One process that uses the server, which is one of its clients."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.running: set[int] = set()
        """The requests of it that the server has not answered, by their ids there."""

    def send(self, message: Message) -> None:
        """Send it a message."""
        with suppress(OSError, RuntimeError):  # it has gone
            self._writer.write(
                json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
            )

    async def drain(self) -> None:
        """Wait until it has read most of what it was sent."""
        with suppress(OSError, RuntimeError):
            await self._writer.drain()


class SharedServer:
    """The server and its clients."""

    def __init__(self, server: asyncio.StreamWriter) -> None:
        self._server, self._numbers = server, count(1)
        self._clients: set[SharingProcess] = set()
        self._running: dict[int, tuple[SharingProcess, Any, str]] = {}
        """The client of each request, its id there, and its method."""
        self._tokens: dict[int, tuple[SharingProcess, Any]] = {}
        """Progress tokens by the ids of their requests."""
        self._asked: dict[Any, SharingProcess] = {}
        """The client of each question of the server."""
        self._watched: dict[str, set[SharingProcess]] = {}
        self._hello: Message | None = None
        self._is_initialized = False
        self._greeting: list[tuple[SharingProcess, Any]] | None = None
        """The clients that wait for the answer to `initialize`."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a client sends, until it leaves; then cancel what it has under way."""
        client = SharingProcess(writer)
        self._clients.add(client)
        try:
            while line := await reader.readline():
                with suppress(ValueError):  # no message
                    self._pass_on(client, json.loads(line))
                    await self._server.drain()
        finally:
            self._clients.discard(client)
            for number in client.running:
                self._running.pop(number, None)
                self._tokens.pop(number, None)
                self._tell_server({"method": "notifications/cancelled", "params": {"requestId": number}})
            for uri in [uri for uri, clients in self._watched.items() if client in clients]:
                self._unwatch(client, uri)
            writer.close()

    def _tell_server(self, message: Message) -> None:
        self._server.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    def _pass_on(self, client: SharingProcess, message: Message) -> None:
        """Pass on a message of a client."""
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            if self._asked.get(message.get("id")) is client:
                del self._asked[message["id"]]
                self._tell_server(message)
        elif "id" not in message:
            self._note(client, method, params, message)
        elif method == "initialize" and (self._hello is not None or self._greeting is not None):
            if self._greeting is not None:
                self._greeting.append((client, message["id"]))
            else:
                client.send({"id": message["id"], **(self._hello or {})})
        elif method == "resources/unsubscribe" and len(self._watched.get(str(params.get("uri")), ())) > 1:
            self._watched[params["uri"]].discard(client)
            client.send({"id": message["id"], "result": {}})
        else:
            self._request(client, method, params, message)

    def _note(self, client: SharingProcess, method: str, params: Message, message: Message) -> None:
        """Pass on a notification of a client; that it is initialized only once."""
        if method == "notifications/initialized":
            if self._is_initialized:
                return
            self._is_initialized = True
        if method == "notifications/cancelled":
            found = next((n for n in client.running if self._running[n][1] == params.get("requestId")), None)
            if found is None:
                return
            message = {**message, "params": {**params, "requestId": found}}
        self._tell_server(message)

    def _request(self, client: SharingProcess, method: str, params: Message, message: Message) -> None:
        number = next(self._numbers)
        self._running[number] = client, message["id"], method
        client.running.add(number)
        if method == "initialize":
            self._greeting = []
        elif method == "resources/subscribe" and isinstance(params.get("uri"), str):
            self._watched.setdefault(params["uri"], set()).add(client)
        elif method == "resources/unsubscribe":
            self._watched.pop(params.get("uri", ""), None)
        meta = params.get("_meta") or {}
        if "progressToken" in meta:
            self._tokens[number] = client, meta["progressToken"]
            message = {**message, "params": {**params, "_meta": {**meta, "progressToken": number}}}
        self._tell_server({**message, "id": number})

    def _unwatch(self, client: SharingProcess, uri: str) -> None:
        """End the subscription of a client that has left, and at the server with the last one."""
        self._watched[uri].discard(client)
        if not self._watched[uri]:
            del self._watched[uri]
            self._tell_server(
                {"id": next(self._numbers), "method": "resources/unsubscribe", "params": {"uri": uri}}
            )

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the server sends, until it ends."""
        while line := await reader.readline():
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                for client in self._answer(message):
                    await client.drain()

    def _answer(self, message: Message) -> list[SharingProcess]:
        """Pass on a message of the server, and return who was sent it."""
        if "method" not in message:
            return self._answer_request(message)
        active = [client for client in self._clients if client.running]
        if "id" in message:
            if len(active) != 1:
                self._tell_server({"id": message["id"], "error": _NOBODY})
                return []
            self._asked[message["id"]] = active[0]
            receivers = active
        else:
            message, receivers = self._route(message, active)
        for client in receivers:
            client.send(message)
        return receivers

    def _answer_request(self, message: Message) -> list[SharingProcess]:
        number = message.get("id")
        if not isinstance(number, int) or (found := self._running.pop(number, None)) is None:
            return []
        client, name, method = found
        client.running.discard(number)
        self._tokens.pop(number, None)
        client.send({**message, "id": name})
        if method == "initialize":
            waiting, self._greeting = self._greeting or [], None
            self._hello = {key: value for key, value in message.items() if key == "result"} or None
            for each, its in waiting:
                each.send({**message, "id": its})
        return [client]

    def _route(self, message: Message, active: list[SharingProcess]) -> tuple[Message, list[SharingProcess]]:
        """Return a notification as its receivers know it, and them."""
        method, params = message["method"], message.get("params") or {}
        meta = params.get("_meta") or {}
        if method == "notifications/progress":
            number = params.get("progressToken")
            client, token = (
                self._tokens.get(number, (None, None)) if isinstance(number, int) else (None, None)
            )
            return {**message, "params": {**params, "progressToken": token}}, _listed(client)
        if isinstance(meta.get(_SUBSCRIPTION), int):
            listener, name, _ = self._running.get(meta[_SUBSCRIPTION], (None, None, ""))
            renamed = {**params, "_meta": {**meta, _SUBSCRIPTION: name}}
            return {**message, "params": renamed}, _listed(listener)
        if method == "notifications/cancelled":
            asked = self._asked.pop(params.get("requestId"), None)
            return message, _listed(asked)
        if method == "notifications/message":  # it may have data of whoever's request is under way
            return message, active if len(active) == 1 else [] if active else list(self._clients)
        if method == "notifications/resources/updated":
            return message, list(self._watched.get(params.get("uri", ""), ()))
        return message, list(self._clients)


def _listed(client: SharingProcess | None) -> list[SharingProcess]:
    return [] if client is None else [client]


async def host(place: str, command: list[str]) -> int:
    """Start the server, serve this process and others, and return the status of the server."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_LIMIT)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("asyncio has opened no pipes")
    shared = SharedServer(process.stdin)
    with suppress(FileNotFoundError):
        os.unlink(f"{place}.sock")  # noqa: PTH108 - of a holder that was killed
    listener = await asyncio.start_unix_server(shared.serve, f"{place}.sock", limit=_LIMIT)
    own = asyncio.create_task(shared.serve(*await standard_streams()))
    reading = asyncio.create_task(shared.read(process.stdout))
    async with listener:
        await asyncio.wait({own, reading}, return_when=asyncio.FIRST_COMPLETED)
    if own.done():  # whoever started this has closed its input, as to any server
        process.stdin.close()
    return await process.wait()


async def follow(place: str) -> int:
    """Pass the standard streams on to the holder, until it or whoever started this ends."""
    found = None
    while found is None:
        try:
            found = await asyncio.open_unix_connection(f"{place}.sock", limit=_LIMIT)
        except (FileNotFoundError, ConnectionRefusedError):
            if (handle := lease(place)) is not None:  # the holder has ended before it listened
                os.close(handle)
                return 1
            await asyncio.sleep(_PAUSE)
    reader, writer = found
    stdin, stdout = await standard_streams()

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()

    ways = {asyncio.create_task(copy(stdin, writer)), asyncio.create_task(copy(reader, stdout))}
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    return 0


async def standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the standard input and output of this process."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def lease(place: str) -> int | None:
    """Return the descriptor of the lock, which is held until it is closed; None if another process has it."""
    handle = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def main(place: str, *command: str) -> int:
    """Be the server, or a way to it."""
    if lease(place) is not None:
        return asyncio.run(host(place, list(command)))
    return asyncio.run(follow(place))


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    os._exit(status if status >= 0 else 128 - status)
