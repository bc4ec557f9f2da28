"""A load balancer that sends each request to the next gateway, whoever sends it."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import ClassVar

from gateway.support import Served
from waiting import PATIENCE

_PIECE = 65_536


@contextmanager
def balanced(gateways: Sequence[Served]) -> Iterator[int]:
    """Yield a port at which requests go to one gateway after the other, to the next where one is down."""
    turns = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.0"  # one request for each connection

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            kept = [
                f"{name}: {value}" for name, value in self.headers.items() if name.lower() != "connection"
            ]
            head = "\r\n".join((f"{self.command} {self.path} HTTP/1.1", *kept, "connection: close", "", ""))
            for _ in gateways:
                served = gateways[next(turns) % len(gateways)]
                with suppress(ConnectionRefusedError):
                    upstream = socket.create_connection(("127.0.0.1", served.port), PATIENCE)
                    break
            else:
                self.send_error(502)
                return
            with upstream, suppress(ConnectionError):
                upstream.sendall(head.encode("latin-1") + body)
                watching = Thread(target=self._leave_with_client, args=(upstream,), daemon=True)
                watching.start()
                found = b""
                while b"\r\n\r\n" not in found and (piece := upstream.recv(_PIECE)):
                    found += piece
                self.connection.sendall(found.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
                while piece := upstream.recv(_PIECE):
                    self.connection.sendall(piece)

        def _leave_with_client(self, upstream: socket.socket) -> None:
            with suppress(OSError):
                if not self.connection.recv(1, socket.MSG_PEEK):
                    upstream.shutdown(socket.SHUT_RDWR)

        do_GET = do_POST = do_DELETE = do_OPTIONS = _pass_on  # noqa: N815 - as the server calls them

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
