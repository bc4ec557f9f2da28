"""The sandboxes that the tests run code in, by the names under which the tables show them."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from zlib import crc32

from runtime.workbench import Bench

from toolcrib.runtime import Sandbox
from toolcrib.runtime.sandboxes.process.pool import PooledSandbox

MODULE = "WASM_MODULE"
"""The variable that leads to the compiled module, once a fixture has made it."""


def _monty() -> Sandbox:
    from toolcrib.runtime.sandboxes.monty import MontySandbox  # noqa: PLC0415 - each is made on its own

    return MontySandbox()


def _process() -> Sandbox:
    from toolcrib.runtime.sandboxes.process import ProcessSandbox  # noqa: PLC0415 - each is made on its own

    return ProcessSandbox()


def _docker() -> Sandbox:
    from toolcrib.runtime.sandboxes.docker import DockerSandbox  # noqa: PLC0415 - each is made on its own

    return DockerSandbox()


def _gvisor() -> Sandbox:
    from toolcrib.runtime.sandboxes.docker import GvisorSandbox  # noqa: PLC0415 - each is made on its own

    return GvisorSandbox()


def _wasm() -> Sandbox:
    from toolcrib.runtime.sandboxes.wasm import WasmSandbox  # noqa: PLC0415 - each is made on its own

    return WasmSandbox(module=Path(os.environ[MODULE]))


def _unsafe() -> Sandbox:
    from toolcrib.runtime.sandboxes.unsafe import UnsafeSandbox  # noqa: PLC0415 - each is made on its own

    return UnsafeSandbox()


BACKENDS: dict[str, Callable[[], Sandbox]] = {
    "monty": _monty,
    "process": _process,
    "docker": _docker,
    "gvisor": _gvisor,
    "wasm": _wasm,
    "unsafe": _unsafe,
}
"""The backends of code mode, by kind."""
HEAVY = {"docker", "gvisor", "wasm"}
"""Those that need an engine: they are tried in proofs alone."""
SHARES = 8
"""Of how many rows one is tried on each of those in `make proof`: another for each commit."""
NEEDS = {"docker": "needs_docker", "gvisor": "needs_docker", "wasm": "needs_wasm"}
"""The fixture that a backend needs, else `needs_bubblewrap`."""


def is_tried(kind: str, name: str) -> bool:
    """Return whether a row of a table is tried now; without a SEED in the environment all are."""
    seed = os.environ.get("SEED")
    return kind not in HEAVY or seed is None or crc32(name.encode()) % SHARES == int(seed) % SHARES


class Benches:
    """Sandboxes that are entered on first use, and left together."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._open: dict[str, Bench] = {}

    async def get(self, kind: str, request: Any) -> Bench:
        """Return the bench of a kind, after the fixture for its requirements has run."""
        request.getfixturevalue(NEEDS.get(kind, "needs_bubblewrap"))
        if kind not in self._open:
            self._open[kind] = Bench(await self._stack.enter_async_context(BACKENDS[kind]()))
        return self._open[kind]

    async def settle(self) -> None:
        """Wait until no guest of theirs is being booted for runs to come."""
        for bench in self._open.values():
            if isinstance(bench.sandbox, PooledSandbox):
                await bench.sandbox.warm()

    async def close(self) -> None:
        """Leave all sandboxes; a later use enters them anew."""
        self._open.clear()
        await self._stack.aclose()
