"""One set of sandboxes for the tools of several gateways."""

from typing import Any

import pytest

from toolcrib import Crib
from toolcrib.errors import CodeError, RuntimeUnavailableError
from toolcrib.runtime import ExecuteRequest, Runtime
from toolcrib.runtime.sandboxes.monty import MontySandbox
from toolcrib.runtime.sandboxes.unsafe import UnsafeSandboxWarning

pytestmark = pytest.mark.anyio


class Counted(MontySandbox):
    """Counts how often it is entered."""

    entered = 0

    async def __aenter__(self) -> Any:
        self.entered += 1
        return await super().__aenter__()


def crib_with(namespace: str) -> Crib:
    crib = Crib()

    @crib.add(namespace=namespace)
    async def whose() -> str:
        return namespace

    return crib


async def test_serving_shares_sandboxes_between_gateways() -> None:
    one, two = crib_with("one"), crib_with("two")
    sandbox = Counted()
    prepared: list[str] = []

    async def prepare(code: str) -> None:
        prepared.append(code)

    async with Runtime(one, one.code_names, sandboxes=[sandbox]) as runtime:
        other = runtime.serving(two, two.code_names, prepare=prepare)
        assert (await other.execute("__out = await two.whose()")).value == "two"
        assert (await runtime.execute("__out = await one.whose()")).value == "one"
        with pytest.raises(CodeError, match="'one' is not defined"):
            await other.execute("__out = await one.whose()")
        assert (await runtime.serving(two).execute("__out = (await run_tool('two:whose'))")).value == "two"
    assert sandbox.entered == 1
    assert prepared == ["__out = await two.whose()", "__out = await one.whose()"]


async def test_serving_keeps_allow_unsafe_separate() -> None:
    crib = crib_with("one")
    unsafe = ExecuteRequest(code="__out = 1", backend="unsafe", profile="dev")
    async with Runtime(crib, allow_unsafe=True) as runtime:
        with pytest.raises(RuntimeUnavailableError, match="allow_unsafe"):
            await runtime.serving(crib).execute(unsafe)
        with pytest.warns(UnsafeSandboxWarning):
            assert (await runtime.serving(crib, allow_unsafe=True).execute(unsafe)).value == 1
