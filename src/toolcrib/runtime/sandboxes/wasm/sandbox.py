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
from toolcrib.runtime.sandboxes.process.child import GUEST_FILES, Child, boot, guest_program, spawn
from toolcrib.runtime.sandboxes.process.pool import PooledSandbox
from toolcrib.runtime.sandboxes.process.sandbox import converse, process_limits
from toolcrib.runtime.sandboxes.process.wall import interpreter
from toolcrib.runtime.sandboxes.wasm.module import engine_folder, engine_version, find_module, library_folder

_HERE = Path(__file__).parent
_INTERPRETER_BYTES = 32 << 20
"""Memory of the interpreter in the module before it runs any code."""
_ENGINE_BYTES = 160 << 20
"""Memory of the process around the module."""
_ENGINE_TASKS = 64
_MAX_MODULE_BYTES = (4 << 30) - (1 << 16)
"""Addresses have 32 bits; one page stays free."""


class WasmSandbox(PooledSandbox[Child, int]):
    """Runs CPython in WebAssembly, which has no files of the host, no sockets, processes or threads.

    The engine runs in a child process without privileges, where a filter allows few system calls. `warm`
    instances are kept booted; at most `concurrency` runs at once, others wait. `module` is a file made by
    `toolcrib sandbox build --backend wasm`, with its name (`python-ENGINE-MACHINE-DIGEST.cwasm`) and its
    folder `.lib` beside it; None finds it in the data folder.
    """

    kind: ClassVar[str] = "wasm"

    def __init__(self, *, module: Path | None = None, warm: int = 2, concurrency: int = 8) -> None:
        self._module = module
        super().__init__(warm=warm, concurrency=concurrency)

    def info(self) -> BackendInfo:
        """Return whether it can run here, its layers of isolation, and what to install if it cannot."""
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
            "cpu": "CPU time",
            "cgroup": bool(groups.parents),
        }
        return BackendInfo(kind=self.kind, readiness="beta", details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the same whatever they are
        """Return the enforced limits: all of them; it has no threads and no disk."""
        return LimitsEnforced(**dict.fromkeys(LimitsEnforced.model_fields, True))

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return the value of `__out`; see `Sandbox`."""
        pool = self._pool
        child = await pool.take(self._size(job.limits))
        try:
            return await converse(child, job, bridge, {"CPU": process_limits(job.limits, 0)["CPU"]})
        finally:
            pool.give_back(child)

    def _size(self, limits: Limits) -> int:
        return limits.memory_bytes

    def _find_module(self) -> tuple[Path, str]:
        """Return the path of the compiled module, and the folder of the engine."""
        if sys.platform != "linux":
            raise RuntimeUnavailableError(self.kind, "it needs Linux; use the 'monty' backend here")
        return find_module(self._module), engine_folder()

    async def _start(self, size: int) -> Child:
        module, installed = self._find_module()
        cgroup = _cgroups().make()
        try:
            child = spawn(
                self.kind,
                interpreter(),
                program=guest_program((*GUEST_FILES[:2], _HERE / "guest_host.py"), "_host_main"),
                cgroup=cgroup,
            )
        except OSError as error:
            if cgroup is not None:
                cgroup.remove()
            raise RuntimeUnavailableError(self.kind, f"a guest cannot be started ({error})") from error
        child.set_cgroup_limits(size + _INTERPRETER_BYTES + _ENGINE_BYTES, _ENGINE_TASKS)
        filtered, user = find_filter(INTERPRETER), GUEST_UID if os.geteuid() == 0 else None
        return await boot(
            child,
            {
                "packages": installed,
                "module": str(module),
                "library": str(library_folder(module)),
                "memory": min(size + _INTERPRETER_BYTES, _MAX_MODULE_BYTES),
                "die_with_parent": True,
                "uid": user,
                "gid": user,
                "filter": base64.b64encode(filtered).decode() if filtered else None,
            },
        )


@cache
def _cgroups() -> Cgroups:
    return find_cgroups()
