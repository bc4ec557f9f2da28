"""The `docker` and `gvisor` sandboxes: CPython in containers, one fresh container for each run."""

import base64
from functools import partial
from types import TracebackType
from typing import Any, ClassVar

import anyio
from anyio import to_thread

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.bubblewrap import GUEST_UID
from toolcrib.isolation.seccomp import FILTER_REMEDY, INTERPRETER, find_filter
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import BackendInfo, Limits, LimitsEnforced, Readiness
from toolcrib.runtime.sandboxes.docker.container import Container, start_container
from toolcrib.runtime.sandboxes.docker.engine import IMAGE, ContainerEngine, Image, Size, find_engine
from toolcrib.runtime.sandboxes.process.pool import PooledSandbox
from toolcrib.runtime.sandboxes.process.sandbox import converse, process_limits

_SPARE_ADDRESSES = 512 << 20
"""Address space that an interpreter reserves without using it."""
_OPEN_FILES = 128
_STACK_BYTES = 8 << 20
_MAX_BYTES = 1 << 46
"""More than any machine has; engines refuse larger numbers."""


class DockerSandbox(PooledSandbox[Container, Size]):
    """Runs CPython in a container without a network, privileges or files, as the user nobody.

    `warm` containers are kept booted; at most `concurrency` runs at once, others wait. `toolcrib sandbox
    build` makes the default `image`.
    """

    kind: ClassVar[str] = "docker"
    readiness: ClassVar[Readiness] = "prod"
    _runtime: ClassVar[str | None] = None
    _walls: ClassVar[tuple[str, ...]] = ("container", "docker seccomp")
    _spare: ClassVar[int] = 32 << 20
    """Memory of the interpreter and the container before any code runs."""
    _own_tasks: ClassVar[int] = 1

    def __init__(self, *, image: str = IMAGE, warm: int = 2, concurrency: int = 8) -> None:
        self._image_name = image
        super().__init__(warm=warm, concurrency=concurrency)
        self._ready: tuple[ContainerEngine, Image] | None = None

    def info(self) -> BackendInfo:
        """Return whether it can run here, its layers of isolation, and what to install if it cannot."""
        try:
            engine, image = found = self._ready or self._find_engine()
        except RuntimeUnavailableError as error:
            details: dict[str, Any] = {"available": False, "remedy": error.remedy}
            details |= {"isolation": [], "profiles": []}
            return BackendInfo(kind=self.kind, readiness=self.readiness, details=details)
        if found is not self._ready:
            engine.close()
        seccomp = find_filter(INTERPRETER) is not None
        walls = ["cgroup", *self._walls, "read-only root", "no network", "unprivileged uid"]
        details = {
            "available": True,
            **({} if seccomp or self._runtime else {"remedy": FILTER_REMEDY}),
            "isolation": [*walls, *(["seccomp"] if seccomp else []), "rlimits"],
            "profiles": ["dev", "standard", *(["hardened"] if seccomp or self._runtime else [])],
            "engine": f"{engine.version} at {engine.socket}",
            "image": image.id,
            "language": "Python",
            "host_uid": GUEST_UID,
            "memory": "a control group",
            "cpu": "CPU time, rounded up to whole seconds",
            "cgroup": True,
        }
        return BackendInfo(kind=self.kind, readiness=self.readiness, details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the same whatever they are
        """Return the enforced limits: all of them."""
        return LimitsEnforced(**dict.fromkeys(LimitsEnforced.model_fields, True))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        if self._ready is not None:
            engine, self._ready = self._ready[0], None
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(engine.close)

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return the value of `__out`; see `Sandbox`."""
        pool = self._pool
        guest = await pool.take(self._size(job.limits))
        try:
            rlimits = {
                **process_limits(job.limits, _SPARE_ADDRESSES),
                "NOFILE": _OPEN_FILES,
                "STACK": _STACK_BYTES,
            }
            return await converse(guest, job, bridge, rlimits)
        finally:
            pool.give_back(guest)

    def _size(self, limits: Limits) -> Size:
        memory = min(limits.memory_bytes, _MAX_BYTES) + self._spare
        return Size(memory, limits.pids + self._own_tasks, min(limits.disk_bytes, _MAX_BYTES))

    def _find_engine(self) -> tuple[ContainerEngine, Image]:
        engine = find_engine(self.kind)
        try:
            self._check_engine(engine)
            return engine, engine.image(self._image_name)
        except BaseException:
            engine.close()
            raise

    def _check_engine(self, engine: ContainerEngine) -> None:
        """Check that an engine has all that this sandbox needs."""

    def _find_engine_and_clean_up(self) -> tuple[ContainerEngine, Image]:
        found = self._find_engine()
        found[0].remove_abandoned()
        return found

    async def _start(self, size: Size) -> Container:
        if self._ready is None:
            found = await to_thread.run_sync(self._find_engine_and_clean_up)
            if self._ready is None:
                self._ready = found
            else:  # another guest has found the engine at the same time
                found[0].close()
        filtered = find_filter(INTERPRETER)
        payload = {"filter": base64.b64encode(filtered).decode()} if filtered else {}
        start = partial(start_container, runtime=self._runtime)
        return await start(*self._ready, size, payload)


class GvisorSandbox(DockerSandbox):
    """Runs CPython in a container with gVisor, whose own kernel handles most system calls."""

    kind: ClassVar[str] = "gvisor"
    readiness: ClassVar[Readiness] = "beta"
    _runtime: ClassVar[str | None] = "runsc"
    _walls: ClassVar[tuple[str, ...]] = ("container", "gVisor kernel")
    _spare: ClassVar[int] = 160 << 20
    _own_tasks: ClassVar[int] = 496
    """The threads of gVisor itself count as tasks of the container, some 500 of them."""

    def enforces(self, limits: Limits) -> LimitsEnforced:
        """Return the enforced limits: all but threads, which mix with those of gVisor."""
        return super().enforces(limits).replace(pids=False)

    def _check_engine(self, engine: ContainerEngine) -> None:
        """Check that an engine has the runtime of gVisor."""
        if self._runtime not in engine.runtimes:
            how = '"runtimes": {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--host-uds=open"]}}'
            remedy = f"install gVisor (apt install runsc), and name it in /etc/docker/daemon.json: {{{how}}}"
            raise RuntimeUnavailableError(self.kind, remedy)
