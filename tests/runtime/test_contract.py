"""Every sandbox against the contract, with and without its second wall.

How runs end, which takes long to see, is tried on the backend with most processes, and on the others in proofs.
"""

from typing import ClassVar

import pytest
from contracts.sandbox import SandboxContract, SandboxEndingContract

from toolcrib.runtime import Sandbox
from toolcrib.runtime.monty import MontySandbox
from toolcrib.runtime.process import ProcessSandbox
from toolcrib.runtime.unsafe import UnsafeSandbox

pytestmark = [pytest.mark.filterwarnings("ignore:code runs without a sandbox"), pytest.mark.untraced]


class Monty:
    def make(self) -> Sandbox:
        return MontySandbox(bubblewrap=True)


class MontyAlone:
    def make(self) -> Sandbox:
        return MontySandbox(bubblewrap=False)


class Process:
    def make(self) -> Sandbox:
        return ProcessSandbox()


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
