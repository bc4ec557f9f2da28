"""The `wasm` sandbox: CPython compiled to WebAssembly, one fresh instance in a fresh process for each run."""

import base64
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.bubblewrap import GUEST_UID
from toolcrib.isolation.cgroup import Cgroups, find_cgroups
from toolcrib.isolation.seccomp import FILTER_REMEDY, INTERPRETER, find_filter
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import BackendInfo, Limits, LimitsEnforced
from toolcrib.runtime.sandboxes.process.child import GUEST, Child, boot, guest_program, spawn
from toolcrib.runtime.sandboxes.process.pool import PooledSandbox
from toolcrib.runtime.sandboxes.process.sandbox import converse, process_limits
from toolcrib.runtime.sandboxes.process.wall import interpreter
from toolcrib.runtime.sandboxes.wasm.module import engine_version, find_module, library, packages

_HERE = Path(__file__).parent
_INTERPRETER = 32 << 20
"""Bytes that the interpreter in the module takes before it runs anything."""
_ENGINE = 160 << 20
"""Bytes that the process around it takes."""
_ENGINE_TASKS = 64
_MOST = (4 << 30) - (1 << 16)
"""Bytes that a module can address."""


class WasmSandbox(PooledSandbox[Child, int]):
    """Runs CPython in WebAssembly, which has no way to name a file, a socket, a process or a thread.

    The engine is in a child process without rights, where a filter lets few system calls through. `warm`
    instances are kept booted; at most `concurrency` runs go on at once, and others wait. `module` is what
    `toolcrib sandbox build --backend wasm` makes, unless another is named: a file that such a build made,
    under the same name (`python-ENGINE-MACHINE-DIGEST.cwasm`), with its folder `.lib` beside it.
    """

    kind: ClassVar[str] = "wasm"

    def __init__(self, *, module: Path | None = None, warm: int = 2, concurrency: int = 8) -> None:
        self._module = module
        super().__init__(warm=warm, concurrency=concurrency)

    def info(self) -> BackendInfo:
        """Return whether it can run here, its walls, and what to do if it cannot."""
        try:
            module, _ = self._find_module()
        except RuntimeUnavailableError as error:
            details: dict[str, Any] = {"available": False, "remedy": error.remedy}
            details |= {"isolation": [], "profiles": []}
            return BackendInfo(kind=self.kind, readiness="beta", details=details)
        seccomp, groups = find_filter(INTERPRETER) is not None, _cgroups()
        walls = ["cgroup"] if groups.memory else []
        walls += ["unprivileged uid"] if os.geteuid() == 0 else []
        details = {
            "available": True,
            **({} if seccomp else {"remedy": FILTER_REMEDY}),
            "isolation": [*walls, *(["seccomp"] if seccomp else []), "WebAssembly"],
            "profiles": ["dev", "standard", *(["hardened"] if seccomp else [])],
            "engine": f"wasmtime {engine_version()}",
            "module": str(module),
            "language": "Python 3.12 for WASI",
            "host_uid": GUEST_UID if os.geteuid() == 0 else os.geteuid(),
            "memory": "the engine",
            "cpu": "the time of the processor",
            "cgroup": bool(groups.parents),
        }
        return BackendInfo(kind=self.kind, readiness="beta", details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the same whatever they are
        """Return which limits are kept: all of them; it has no thread and no disk to limit."""
        return LimitsEnforced(**dict.fromkeys(LimitsEnforced.model_fields, True))

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return what it left in `__out`; see `Sandbox`."""
        pool = self._pool
        child = await pool.take(self._size(job.limits))
        try:
            return await converse(child, job, bridge, {"CPU": process_limits(job.limits, 0)["CPU"]})
        finally:
            pool.give_back(child)

    def _size(self, limits: Limits) -> int:
        return limits.memory_bytes

    def _find_module(self) -> tuple[Path, str]:
        """Return the compiled module, and where the engine is installed."""
        if sys.platform != "linux":
            raise RuntimeUnavailableError(self.kind, "it needs Linux; use the 'monty' backend here")
        return find_module(self._module), packages()

    async def _start(self, size: int) -> Child:
        module, installed = self._find_module()
        cgroup = _cgroups().make()
        try:
            child = spawn(
                self.kind,
                interpreter(),
                program=guest_program((*GUEST[:2], _HERE / "guest_host.py"), "_hold"),
                cgroup=cgroup,
            )
        except OSError as error:
            if cgroup is not None:
                cgroup.remove()
            raise RuntimeUnavailableError(self.kind, f"a guest cannot be started ({error})") from error
        child.hold(size + _INTERPRETER + _ENGINE, _ENGINE_TASKS)
        filtered, user = find_filter(INTERPRETER), GUEST_UID if os.geteuid() == 0 else None
        return await boot(
            child,
            {
                "packages": installed,
                "module": str(module),
                "library": str(library(module)),
                "memory": min(size + _INTERPRETER, _MOST),
                "mortal": True,
                "uid": user,
                "gid": user,
                "filter": base64.b64encode(filtered).decode() if filtered else None,
            },
        )


@cache
def _cgroups() -> Cgroups:
    return find_cgroups()
