"""Every sandbox against the contract, with and without its second wall."""

from typing import ClassVar

import pytest
from contracts.sandbox import SandboxContract

from toolcrib.runtime.monty import MontySandbox
from toolcrib.runtime.process import ProcessSandbox
from toolcrib.runtime.protocols import Sandbox
from toolcrib.runtime.unsafe import UnsafeSandbox

pytestmark = pytest.mark.untraced


@pytest.mark.usefixtures("needs_bubblewrap")
class TestMonty(SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}
    lacks: ClassVar[set[str]] = {"a lone surrogate"}

    def make(self) -> Sandbox:
        return MontySandbox(bubblewrap=True)


class TestMontyAlone(SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard"}
    lacks: ClassVar[set[str]] = {"a lone surrogate"}

    def make(self) -> Sandbox:
        return MontySandbox(bubblewrap=False)


@pytest.mark.usefixtures("needs_bubblewrap")
class TestProcess(SandboxContract):
    @property
    def profiles(self) -> set[str]:  # type: ignore[override]
        held = "cgroup" in ProcessSandbox().info().details["isolation"]
        return {"dev", "standard", "hardened"} if held else {"dev", "standard"}

    def make(self) -> Sandbox:
        return ProcessSandbox()


@pytest.mark.filterwarnings("ignore:code runs without a sandbox")
class TestUnsafe(SandboxContract):
    profiles: ClassVar[set[str]] = {"dev"}

    def make(self) -> Sandbox:
        return UnsafeSandbox()
