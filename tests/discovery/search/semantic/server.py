"""An embedding server on this machine, which can simulate failures."""

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler", dict[str, Any]], None]
WIDTH = 26


def vector(text: str) -> list[float]:
    """Return how often each letter occurs: a model that anyone can check."""
    letters = Counter(text.lower())
    return [float(letters[chr(code)]) for code in range(ord("a"), ord("z") + 1)]


class Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.book.requests.append((self.path, dict(self.headers), request))
        try:
            answer = self.server.book.script.popleft()
        except IndexError:
            answer = self.server.book.usual or vectors
        answer(self, request)

    def reply(self, status: int, body: bytes | str, **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@dataclass
class Book:
    """Requests that the server received, and scripted responses; after these it responds normally."""

    url: str = ""
    script: deque[Answer] = field(default_factory=deque)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    usual: Answer | None = None
    """The answer where nothing else is to be done; vectors by default."""

    def will(self, *answers: Answer) -> None:
        self.script.extend(answers)


class _Server(ThreadingHTTPServer):
    book: Book


@contextmanager
def serving() -> Iterator[Book]:
    """Serve until the end of the block."""
    with _Server(("127.0.0.1", 0), Handler) as server:
        server.book = Book(f"http://127.0.0.1:{server.server_port}/v1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.book
        finally:
            server.book.closing.set()
            server.shutdown()
            thread.join()


def vectors(handler: Handler, request: dict[str, Any]) -> None:
    """Answer as OpenAI does, but backwards, as it may."""
    size = request.get("dimensions", WIDTH)
    data = [
        {"object": "embedding", "index": index, "embedding": vector(text)[:size]}
        for index, text in enumerate(request["input"])
    ]
    handler.reply(200, json.dumps({"object": "list", "data": data[::-1], "model": request["model"]}))


def says(status: int, body: bytes | str = "", **headers: str) -> Answer:
    return lambda handler, _: handler.reply(status, body, **headers)


def gives(*embeddings: Any, **more: Any) -> Answer:
    """Respond with these vectors to any request."""
    data = [{"index": index, "embedding": embedding, **more} for index, embedding in enumerate(embeddings)]
    return says(200, json.dumps({"data": data}))


def hangs(handler: Handler, _: dict[str, Any]) -> None:
    handler.server.book.closing.wait()


def drips(handler: Handler, _: dict[str, Any]) -> None:
    """Begin an answer, and never end it."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.server.book.closing.wait()


def hangs_up(handler: Handler, _: dict[str, Any]) -> None:
    handler.close_connection = True
    handler.connection.close()


def echoes(handler: Handler, _: dict[str, Any]) -> None:
    """Refuse, and repeat the key, as careless servers do."""
    handler.reply(401, json.dumps({"error": {"message": f"bad header {handler.headers['Authorization']}"}}))
