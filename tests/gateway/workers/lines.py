"""Connections to a gateway with several workers, each of which stays with the worker that accepted it."""

import json
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from gateway.support import Served
from servers.launch import children
from waiting import PATIENCE, wait_until

VERSION = "2026-07-28"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NUMBERS = count(1)


class Line:
    """One connection, and so one worker."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        self.connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        self._served = served
        self._headers = HEADERS if token is None else {**HEADERS, "authorization": f"Bearer {token}"}

    def send(
        self, message: Any, session: str | None = None, path: str = "/mcp/all", **headers: str
    ) -> HTTPResponse:
        """Send a message, and return the response, whose body is still to be read."""
        named = {} if session is None else {"mcp-session-id": session}
        body = json.dumps({"jsonrpc": "2.0", **message})
        self.connection.request("POST", path, body, {**self._headers, **named, **headers})
        return self.connection.getresponse()

    def ask(self, message: Any, session: str | None = None, **headers: str) -> Any:
        """Send a message, and return the JSON of the answer, the last event where it is a stream."""
        response = self.send(message, session, **headers)
        return last(response)

    def begin(self, **capabilities: Any) -> str:
        """Begin a session of the handshake era, and return its id."""
        about = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "line", "version": "1"}}
        params = {**about, "capabilities": capabilities}
        response = self.send({"id": 0, "method": "initialize", "params": params})
        session = response.headers["mcp-session-id"]
        assert last(response)["result"]["protocolVersion"] == "2025-11-25"
        response = self.send({"method": "notifications/initialized"}, session)
        response.read()
        assert response.status == 202
        return session

    def call(self, name: str, session: str, **arguments: Any) -> Any:
        """Call a tool in a session, and return the answer."""
        return self.ask(calling(name, **arguments), session)

    def call_stateless(
        self, name: str, more: Any = None, can: Any = None, path: str = "/mcp/all", **arguments: Any
    ) -> Any:
        """Call a tool in the stateless era, and return the answer."""
        message = calling(name, **arguments)
        return self._ask_stateless(message, name, {**message["params"], **(more or {})}, can, path)

    def ask_about_task(self, method: str, task_id: str, can: Any, path: str = "/mcp/all") -> Any:
        """Send a request about a task, and return the answer."""
        message = {"id": next(NUMBERS), "method": method}
        return self._ask_stateless(message, task_id, {"taskId": task_id}, can, path)

    def _ask_stateless(self, message: Any, name: str, params: Any, can: Any, path: str) -> Any:
        about = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "line", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": can or {},
        }
        headers = {"mcp-protocol-version": VERSION, "mcp-method": message["method"], "mcp-name": name}
        return self.ask({**message, "params": {**params, "_meta": about}}, path=path, **headers)

    def get(self, address: str, cookie: str = "") -> tuple[HTTPResponse, str]:
        """Return the response to a request for a page, and its text."""
        parts = urlsplit(address)
        headers = {"cookie": cookie} if cookie else {}
        self.connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        response = self.connection.getresponse()
        return response, response.read().decode()

    def end(self, session: str) -> int:
        """End a session, and return the status of the answer."""
        self.connection.request("DELETE", "/mcp/all", headers={"mcp-session-id": session})
        response = self.connection.getresponse()
        response.read()
        return response.status

    @property
    def worker(self) -> int:
        """The process of the worker at the other end."""
        return worker_of(self._served, self.pid_of("tiny__echo"))

    def pid_of(self, tool: str) -> int:
        """Return the process that a tool gives."""
        answer = self.call_stateless(tool)
        assert "result" in answer, answer
        found = answer["result"]["structuredContent"]
        return int(found["pid"] if "pid" in found else found["result"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the message that calls a tool."""
    params = {"name": name, "arguments": arguments}
    return {"id": next(NUMBERS), "method": "tools/call", "params": params}


def events(response: HTTPResponse) -> Iterator[Any]:
    """Yield the messages of a stream, one after the other."""
    while line := response.readline():
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def last(response: HTTPResponse) -> Any:
    """Return the answer in a response."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        *_, found = events(response)
        return found
    text = response.read()
    return json.loads(text) if text else None


def workers(served: Served) -> set[int]:
    """Return the processes of the workers."""
    return children(served.pid)


def worker_of(served: Served, pid: int) -> int:
    """Return the worker that a process descends from."""
    known = workers(served)
    while pid not in known:
        assert pid > 1, known
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def count_allowed(lines: Iterable[Line], tool: str) -> int:
    """Return how many of these calls of a tool a rate limit lets through; the others say when to try again."""
    answers = [line.call_stateless(tool)["result"] for line in lines]
    refused = [answer for answer in answers if answer.get("isError")]
    for answer in refused:
        facts = answer["_meta"]["toolcrib/error"]
        assert (facts["code"], facts["retryable"]) == ("limit_exceeded", True)
        assert facts["details"]["retry_after"] > 0
        assert "try again in" in answer["content"][0]["text"]
    return len(answers) - len(refused)


def lines_to_both(served: Served, tool: str = "tiny__echo", token: str | None = None) -> dict[int, Line]:
    """Return a connection to each of two workers, found by a tool that gives the process of its server."""
    found: dict[int, Line] = {}

    def connect() -> bool:
        line = Line(served, token)
        with suppress(OSError, HTTPException):
            if found.setdefault(worker_of(served, line.pid_of(tool)), line) is line:
                return len(found) == 2
        line.connection.close()
        return False

    wait_until(connect, "both workers accept connections")
    return found


def kill(worker: int) -> None:
    """Kill a worker, as the system would that is out of memory."""
    os.kill(worker, signal.SIGKILL)
