"""Every sandbox against the contract: those that are built in, with and without their second wall, and a plug-in's."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest
from contracts.sandbox import SandboxContract

from toolcrib.runtime.choice import make_sandbox
from toolcrib.runtime.monty import MontySandbox
from toolcrib.runtime.process import ProcessSandbox
from toolcrib.runtime.protocols import Sandbox
from toolcrib.runtime.unsafe import UnsafeSandbox

PLUGIN = str(Path(__file__).parent / "plugin")


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
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}

    def make(self) -> Sandbox:
        return ProcessSandbox()


@pytest.mark.filterwarnings("ignore:code runs without a sandbox")
class TestUnsafe(SandboxContract):
    profiles: ClassVar[set[str]] = {"dev"}

    def make(self) -> Sandbox:
        return UnsafeSandbox()


@pytest.mark.usefixtures("needs_bubblewrap")
class TestPlugin(SandboxContract):
    profiles: ClassVar[set[str]] = {"dev", "standard", "hardened"}

    def make(self) -> Sandbox:
        sys.path.append(PLUGIN)
        try:
            return make_sandbox("tiny")
        finally:
            sys.path.remove(PLUGIN)
