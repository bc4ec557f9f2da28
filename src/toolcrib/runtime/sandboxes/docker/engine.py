"""Client of a container engine: any with Docker's API on a local unix socket, such as Podman.

The client library blocks, so every method is called in a worker thread. Threads cannot be cancelled: one that
waits for a container may outlive the run that asked for it. `_ThreadCounter` counts those, and `close` waits
for them before it closes the connections.

A container gets everything when it is made: no network, a read-only root, no capabilities, the user nobody,
and limits of memory, tasks and CPU by its control group. Containers carry a label with the mark of their
process, so that the next process can remove those of a killed one.

The client takes no proxies from the environment, and opens a new connection for each request, so that none
stays open between runs.
"""

import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from threading import Condition
from time import monotonic, sleep
from typing import Any, TypeVar

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.bubblewrap import GUEST_UID
from toolcrib.isolation.owner import is_gone, own_mark

IMAGE = "toolcrib-sandbox:latest"
"""The default image of guests."""
INTERPRETER_LABEL = "toolcrib.python"
"""Label of an image: the path of its interpreter."""
DIGEST_LABEL = "toolcrib.digest"
"""Label of an image: the digest of its content."""
OWNER_LABEL = "toolcrib.owner"
"""Label of a container: the mark of the process that made it."""
SOCKET_FOLDER = "/run/toolcrib"
HOME = "/tmp"  # noqa: S108 - a tmpfs of the guest's own
_REQUEST_TIMEOUT = 60
_KILLED = 137
"""Exit status of SIGKILL: 128 + 9."""
_OOM_REPORT_SECONDS = 1.0
"""An engine may report later that memory ran out than that the process was killed."""
_OPEN_FILES = 1024
_TASKS = 4096
_ONE_CORE = 10**9
"""In billionths of a core."""
_NUMBERS = count(1)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    """Resource limits fixed at container creation."""

    memory: int
    pids: int
    disk: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the engine."""

    id: str
    program: str
    """Its interpreter."""
    digest: str
    """Digest of its source; empty if the image has no such label."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The exit of a container."""

    status: int
    out_of_memory: bool


class _ThreadCounter:
    """Counts the threads that wait for the exit of a container, some for callers that were cancelled."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._number += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._number -= 1
            self._changed.notify_all()

    def wait_until_none(self) -> None:
        """Block until no thread waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._number == 0, _REQUEST_TIMEOUT)


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """Blocking client of one engine, for use in many threads."""

    kind: str
    """The kind of sandbox, for errors."""
    socket: str
    version: str
    runtimes: frozenset[str]
    client: Any = field(repr=False, compare=False)
    waiting_threads: _ThreadCounter = field(default_factory=_ThreadCounter, repr=False, compare=False)

    def close(self) -> None:
        """Close the connections when no thread uses one; call it after all containers were removed."""
        self.waiting_threads.wait_until_none()
        self.client.close()

    def image(self, name: str) -> Image:
        """Return an image.

        Raises:
            RuntimeUnavailableError: there is none; the message says how to build it.
        """
        from docker.errors import ImageNotFound  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra

        try:
            found = self._request(lambda: self.client.inspect_image(name))
        except ImageNotFound:
            remedy = f"there is no image {name!r}; build it: toolcrib sandbox build"
            raise RuntimeUnavailableError(self.kind, remedy) from None
        labels: Mapping[str, str] = (found.get("Config") or {}).get("Labels") or {}
        return Image(found["Id"], labels.get(INTERPRETER_LABEL, "python3"), labels.get(DIGEST_LABEL, ""))

    def start(
        self, image: Image, command: Sequence[str], folder: str, size: Size, runtime: str | None
    ) -> str:
        """Start a container with a folder of this machine mounted, and return its name.

        Raises:
            RuntimeUnavailableError: it cannot be started; it was removed again.
        """
        name = f"toolcrib-{own_mark() or os.getpid()}-{next(_NUMBERS)}"
        try:
            self._request(
                lambda: self.client.create_container_from_config(
                    self.container_config(image, command, folder, size, runtime), name
                )
            )
            self._request(lambda: self.client.start(name))
        except BaseException as error:
            with suppress(RuntimeUnavailableError):
                self.remove(name)
            if not isinstance(error, Exception) or isinstance(error, RuntimeUnavailableError):
                raise
            raise RuntimeUnavailableError(
                self.kind, f"a container cannot be started ({_read_reason(error)})"
            ) from error
        return name

    def container_config(
        self, image: Image, command: Sequence[str], folder: str, size: Size, runtime: str | None
    ) -> dict[str, Any]:
        """Return the configuration of a container: no network, no privileges, one writable folder."""
        # `MemorySwap` equal to `Memory` means no swap: it is the sum of both.
        ulimits = {"nofile": _OPEN_FILES, "nproc": _TASKS, "core": 0}
        scratch = {HOME: f"rw,noexec,nosuid,nodev,mode=1777,size={size.disk}"} if size.disk else {}
        return {
            "Image": image.id,
            "Entrypoint": [image.program],
            "Cmd": list(command),
            "User": f"{GUEST_UID}:{GUEST_UID}",
            "WorkingDir": HOME,
            "Hostname": "guest",
            "Env": [f"HOME={HOME}", "MALLOC_ARENA_MAX=2"],
            "NetworkDisabled": True,
            "Labels": {OWNER_LABEL: own_mark() or ""},
            "HostConfig": {
                "NetworkMode": "none",
                "IpcMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Memory": size.memory,
                "MemorySwap": size.memory,
                "PidsLimit": size.pids,
                "NanoCpus": _ONE_CORE,
                "Tmpfs": scratch,
                "Binds": [f"{folder}:{SOCKET_FOLDER}:ro"],
                "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in ulimits.items()],
                "LogConfig": {"Type": "none", "Config": {}},
                **({"Runtime": runtime} if runtime else {}),
            },
        }

    def wait_for_exit(self, name: str, within: float) -> Exit | None:
        """Wait for the exit of a container, and return it; None if it does not end in time.

        After a kill it waits up to a second longer for the engine to report whether memory had run out.

        Raises:
            RuntimeUnavailableError: the engine does not answer.
        """
        from docker.errors import NotFound  # noqa: PLC0415 - of an extra
        from requests.exceptions import ConnectionError, Timeout  # noqa: A004, PLC0415 - comes with it

        try:
            with self.waiting_threads:
                self.client.wait(name, timeout=within)
                state = self._inspect(name)
                latest = monotonic() + _OOM_REPORT_SECONDS
                while state["ExitCode"] == _KILLED and not state.get("OOMKilled") and monotonic() < latest:
                    sleep(_OOM_REPORT_SECONDS / 20)
                    state = self._inspect(name)
        except NotFound:  # it was removed, after which nobody asks for its status
            return Exit(0, out_of_memory=False)
        except (ConnectionError, Timeout):
            return None
        return Exit(int(state["ExitCode"]), bool(state.get("OOMKilled")))

    def _inspect(self, name: str) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self._request(lambda: self.client.inspect_container(name))["State"]
        return state

    def remove(self, name: str) -> None:
        """Kill and remove a container; do nothing if there is none.

        Raises:
            RuntimeUnavailableError: the engine does not answer.
        """
        from docker.errors import APIError  # noqa: PLC0415 - of an extra

        try:
            self._request(lambda: self.client.remove_container(name, force=True, v=True))
        except APIError as error:
            if error.status_code not in {404, 409}:  # it is gone, or is being removed already
                raise RuntimeUnavailableError(
                    self.kind, f"a container could not be removed ({_read_reason(error)})"
                ) from error

    def remove_abandoned(self) -> None:
        """Remove the containers of processes that have ended."""
        for found in self._request(lambda: self.client.containers(all=True, filters={"label": OWNER_LABEL})):
            if is_gone(found["Labels"].get(OWNER_LABEL, "")):
                self.remove(found["Id"])

    def _request(self, send: Callable[[], T]) -> T:
        """Send a request; raise `RuntimeUnavailableError` if the engine does not answer."""
        from requests.exceptions import ConnectionError, Timeout  # noqa: A004, PLC0415 - comes with docker

        try:
            return send()
        except (ConnectionError, Timeout) as error:
            raise RuntimeUnavailableError(
                self.kind, f"the engine at {self.socket} does not answer"
            ) from error


def _read_reason(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error)[:500]


def find_engine(kind: str) -> ContainerEngine:
    """Return the engine of this machine: that of `DOCKER_HOST`, else the first that listens.

    Raises:
        RuntimeUnavailableError: there is none; the message says what to install or to start.
    """
    if sys.platform != "linux":
        raise RuntimeUnavailableError(kind, "it needs Linux; use the 'monty' backend here")
    path = next(_list_sockets(kind), None)
    if path is None:
        what, packages = ("one, and gVisor", " runsc") if kind == "gvisor" else ("and start one", "")
        remedy = f"no container engine listens here; install {what}: apt install docker.io{packages}"
        raise RuntimeUnavailableError(kind, remedy)
    if not os.access(path, os.R_OK | os.W_OK):
        raise RuntimeUnavailableError(kind, f"this user may not use {path}; add them to its group")
    try:
        import docker  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise RuntimeUnavailableError(kind, "pip install 'toolcrib[docker]'") from error
    # `requests` would read proxies from the environment at each request, which is not safe while another
    # thread changes the environment; a unix socket needs none.
    direct: Any = type(
        "Client", (docker.APIClient,), {"trust_env": property(lambda _: False, lambda *_: None)}
    )
    try:
        with socket.socket(
            socket.AF_UNIX
        ) as probe:  # tried first, because the client leaves a refused socket open
            probe.connect(path)
        client = direct(base_url=f"unix://{path}", version="auto", timeout=_REQUEST_TIMEOUT)
        client.close()  # drops the connection of its first request, for the version
        client.headers["Connection"] = "close"  # a new connection costs little beside a container
        about = client.info()
    except (OSError, docker.errors.DockerException) as error:
        raise RuntimeUnavailableError(kind, f"the engine at {path} does not answer; start it") from error
    runtimes = frozenset(about.get("Runtimes") or ())
    return ContainerEngine(kind, path, str(about.get("ServerVersion", "")), runtimes, client)


def _list_sockets(kind: str) -> Iterator[str]:
    """Yield the paths of sockets on which an engine may listen."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    places = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"]
    places += [f"{own}/docker.sock", f"{own}/podman/podman.sock"] if own else []
    if given := os.environ.get("DOCKER_HOST"):
        scheme, _, path = given.partition("://")
        if scheme != "unix":
            remedy = "DOCKER_HOST must name a unix socket, as unix:///run/docker.sock"
            raise RuntimeUnavailableError(kind, remedy)
        places = [path]
    for place in places:
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(place).st_mode):  # noqa: PTH116 - the path is a str
                yield place
