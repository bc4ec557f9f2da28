"""Every sandbox against the contract, with and without its second wall.

How runs end, which takes long to see, is tried on the backend with most processes, and on the others in proofs.
"""

from typing import Any, ClassVar

import pytest
from contracts.sandbox import SandboxContract, SandboxEndingContract
from runtime.backends import BACKENDS
from runtime.engines import running

from toolcrib.runtime import Sandbox
from toolcrib.runtime.sandboxes.docker import DockerSandbox, GvisorSandbox
from toolcrib.runtime.sandboxes.monty import MontySandbox
from toolcrib.runtime.sandboxes.process import ProcessSandbox
from toolcrib.runtime.sandboxes.unsafe import UnsafeSandbox

pytestmark = pytest.mark.filterwarnings("ignore:code runs without a sandbox")


class Monty:
    def make(self) -> Sandbox:
        return MontySandbox(bubblewrap=True)


class MontyAlone:
    def make(self) -> Sandbox:
        return MontySandbox(bubblewrap=False)


class Process:
    def make(self) -> Sandbox:
        return ProcessSandbox()


class Docker:
    def make(self) -> Sandbox:
        return DockerSandbox(warm=1)


class Gvisor:
    def make(self) -> Sandbox:
        return GvisorSandbox(warm=1)


class Wasm:
    def make(self) -> Sandbox:
        return BACKENDS["wasm"]()


class Contained:
    """Guests in containers, which are known to the engine but are no descendants of their host."""

    guests: ClassVar[str] = "__import__('runtime.engines').engines.running(own=True)"

    def alive(self, guest: Any) -> bool:
        return guest in running()


class Unsafe:
    def make(self) -> Sandbox:
        return UnsafeSandbox()


@pytest.mark.usefixtures("needs_bubblewrap")
class TestMonty(Monty, SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}
    lacks: ClassVar[set[str]] = {"a lone surrogate"}


@pytest.mark.proof
class TestMontyAlone(MontyAlone, SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard"}
    lacks: ClassVar[set[str]] = {"a lone surrogate"}


@pytest.mark.usefixtures("needs_bubblewrap")
class TestProcess(Process, SandboxContract):
    @property
    def profiles(self) -> set[str]:  # type: ignore[override]
        held = "cgroup" in ProcessSandbox().info().details["isolation"]
        return {"dev", "standard", "hardened"} if held else {"dev", "standard"}


@pytest.mark.proof
@pytest.mark.usefixtures("needs_docker")
class TestDocker(Docker, SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}


@pytest.mark.proof
@pytest.mark.usefixtures("needs_docker")
class TestGvisor(Gvisor, SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}


@pytest.mark.proof
@pytest.mark.usefixtures("needs_wasm")
class TestWasm(Wasm, SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}


@pytest.mark.proof
class TestUnsafe(Unsafe, SandboxContract):
    profiles: ClassVar[set[str]] = {"dev"}


@pytest.mark.proof
@pytest.mark.usefixtures("needs_bubblewrap")
class TestMontyEnding(Monty, SandboxEndingContract):
    pass


@pytest.mark.proof
class TestMontyAloneEnding(MontyAlone, SandboxEndingContract):
    pass


@pytest.mark.usefixtures("needs_bubblewrap")
class TestProcessEnding(Process, SandboxEndingContract):
    pass


@pytest.mark.proof
class TestUnsafeEnding(Unsafe, SandboxEndingContract):
    pass


@pytest.mark.proof
@pytest.mark.usefixtures("needs_docker")
class TestDockerEnding(Docker, Contained, SandboxEndingContract):
    pass


@pytest.mark.proof
@pytest.mark.usefixtures("needs_docker")
class TestGvisorEnding(Gvisor, Contained, SandboxEndingContract):
    pass


@pytest.mark.proof
@pytest.mark.usefixtures("needs_wasm")
class TestWasmEnding(Wasm, SandboxEndingContract):
    pass
