"""Sockets of the host, by which a test sees that nothing which runs inside a wall reaches it."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Ears:
    """Listens where a guest may try to reach the host."""

    folder: Path
    sockets: list[socket.socket] = field(default_factory=list)
    port: int = 0

    def open(self) -> None:
        stream = socket.create_server(("127.0.0.1", 0))
        self.port = stream.getsockname()[1]
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", self.port))
        self.sockets += [stream, datagrams]
        for address in (f"\0{self.abstract}", self.path):
            local = socket.socket(socket.AF_UNIX)
            local.bind(address)
            local.listen()
            self.sockets.append(local)
        for each in self.sockets:
            each.setblocking(False)

    @property
    def abstract(self) -> str:
        return f"toolcrib-ears-{os.getpid()}"

    @property
    def path(self) -> str:
        return str(self.folder / "ears.sock")

    def heard(self) -> list[str]:
        found = []
        for each in self.sockets:
            with suppress(BlockingIOError):
                if each.type == socket.SOCK_DGRAM:
                    each.recv(1)
                else:
                    each.accept()[0].close()
                found.append(str(each))
        return found

    def close(self) -> None:
        for each in self.sockets:
            each.close()
