"""The way of a request: profile, sandbox, check, run, result."""

import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import pytest
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.errors import (
    CodeError,
    LimitExceededError,
    RuntimeUnavailableError,
    SandboxViolationError,
)
from toolcrib.runtime import (
    BackendInfo,
    Bridge,
    ExecuteRequest,
    ExecuteResult,
    Job,
    Limits,
    LimitsEnforced,
    Runtime,
    Sandbox,
    backends,
)

pytestmark = pytest.mark.anyio


def crib_of_tools() -> Crib:
    crib = Crib()

    @crib.add(namespace="shop")
    async def order(number: int, express: bool = False) -> dict[str, Any]:
        """Return an order."""
        return {"number": number, "express": express}

    @crib.add(namespace="shop")
    async def cancel(number: int) -> None:
        """Cancel an order."""
        raise RuntimeError(f"order {number} has left")

    @crib.add
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"hello {name}"

    return crib


class Scripted:
    """A sandbox that runs a function."""

    kind = "scripted"

    def __init__(self, script: Any, *, profiles: tuple[str, ...] = ("standard",), **details: Any) -> None:
        self._script = script
        self._details = {"available": True, "profiles": list(profiles), **details}
        self.entered = 0
        self.concurrency = 8

    def info(self) -> BackendInfo:
        return BackendInfo(kind=self.kind, readiness="stub", details=self._details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the protocol's signature
        return LimitsEnforced(memory=True)

    async def __aenter__(self) -> Self:
        self.entered += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered -= 1

    async def run(self, job: Job, bridge: Bridge) -> Any:
        return await self._script(job, bridge)


@pytest.fixture(scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    crib = crib_of_tools()
    async with Runtime(crib, crib.code_names) as opened:
        yield opened


async def ran(script: Any, code: str = "x = 1", **fields: Any) -> ExecuteResult:
    crib = crib_of_tools()
    async with Runtime(crib, crib.code_names, sandboxes=[Scripted(script)]) as opened:
        return await opened.execute(ExecuteRequest(code=code, backend="scripted", **fields))


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_execute_returns_the_value_and_the_calls(runtime: Runtime) -> None:
    code = """
found = await shop.order(7, express=True)
print(await greet("ann"))
__out = [found, await run_tool("shop:order", {"number": 8})]
"""
    for backend in ("monty", "process"):
        result = await runtime.execute(ExecuteRequest(code=code, backend=backend))
        assert result.value == [{"number": 7, "express": True}, {"number": 8, "express": False}]
        assert result.stdout == "hello ann\n"
        assert [call.tool_id for call in result.tool_calls] == ["shop:order", "greet", "shop:order"]
        assert (result.backend.kind, result.notes) == (backend, ())
        assert result.limits_enforced.timeout
        assert result.limits_enforced.tool_calls
        assert result.duration > 0
        assert ExecuteResult.from_json(result.to_json()).value == result.value


async def test_monty_is_the_default(runtime: Runtime) -> None:
    assert (await runtime.execute(ExecuteRequest(code="__out = 1"))).backend.kind == "monty"


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_type_check_reports_mistakes_before_any_tool_runs(runtime: Runtime) -> None:
    code = "await shop.order(number=1)\nawait shop.order(nummer=2)\nawait shop.cancle(number=1)"
    for backend in ("monty", "process"):
        with pytest.raises(CodeError) as caught:
            await runtime.execute(ExecuteRequest(code=code, backend=backend))
        assert caught.value.line == 2
        assert "did you mean 'number'?" in str(caught.value)
        assert "line 3: 'shop' has no tool 'cancle'; did you mean 'cancel'?" in str(caught.value)
        assert caught.value.result.tool_calls == ()


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_error_has_the_result_so_far(runtime: Runtime) -> None:
    code = "print('before')\nawait shop.order(number=1)\nawait shop.cancel(number=1)"
    for backend in ("monty", "process"):
        with pytest.raises(CodeError, match="order 1 has left") as caught:
            await runtime.execute(ExecuteRequest(code=code, backend=backend))
        result = caught.value.result
        assert result.stdout == "before\n"
        assert [call.error is None for call in result.tool_calls] == [True, False]
        assert result.backend.kind == backend
        assert caught.value.line == 3


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_timeout_stops_the_code_and_keeps_the_result_so_far(runtime: Runtime) -> None:
    code = "print('begun')\nawait shop.order(number=1)\nwhile True:\n    pass"
    for backend in ("monty", "process"):
        for timeout in (0.5, 5.0, 25.0):  # a busy machine may not come to the call so soon
            request = ExecuteRequest(code=code, backend=backend, timeout=timeout, limits=Limits(cpu=PATIENCE))
            with pytest.raises(LimitExceededError, match=f"within {timeout:g} s") as caught:
                await runtime.execute(request)
            assert caught.value.limit == "timeout"
            if caught.value.result.tool_calls:
                break
        assert caught.value.result.stdout == "begun\n"
        assert len(caught.value.result.tool_calls) == 1
        assert (await runtime.execute(ExecuteRequest(code="__out = 2", backend=backend))).value == 2


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_call_limit_ends_code_that_catches_everything(runtime: Runtime) -> None:
    code = """
while True:
    try:
        await greet("ann")
    except BaseException:
        pass
"""
    for backend in ("monty", "process"):
        with anyio.fail_after(PATIENCE), pytest.raises(LimitExceededError) as caught:
            await runtime.execute(ExecuteRequest(code=code, backend=backend, limits=Limits(max_tool_calls=3)))
        assert caught.value.limit == "max_tool_calls"
        assert len(caught.value.result.tool_calls) == 3


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_language_fallback_moves_unsupported_code_to_process(runtime: Runtime) -> None:
    code = "def numbers():\n    yield 1\n    yield 2\n__out = list(numbers())"
    with pytest.raises(CodeError, match="process") as caught:
        await runtime.execute(ExecuteRequest(code=code))
    assert caught.value.unsupported
    moved = await runtime.execute(ExecuteRequest(code=code, language_fallback=True))
    assert (moved.value, moved.backend.kind) == ([1, 2], "process")
    assert "moved from 'monty' to 'process'" in moved.notes[0]
    module = await runtime.execute(
        ExecuteRequest(code="import statistics\n__out = statistics.mean([1, 3])", language_fallback=True)
    )
    assert module.backend.kind == "process"


async def test_language_fallback_is_refused_after_a_call() -> None:
    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        await bridge.call("greet", ["ann"], {})
        raise CodeError("no generators here", unsupported=True)

    with pytest.raises(CodeError, match="no generators") as caught:
        await ran(script, "greet", language_fallback=True)
    assert len(caught.value.result.tool_calls) == 1


async def test_language_fallback_ignores_plain_mistakes(runtime: Runtime) -> None:
    with pytest.raises(CodeError, match="division by zero") as caught:
        await runtime.execute(ExecuteRequest(code="1 / 0", language_fallback=True))
    assert caught.value.result.backend.kind == "monty"


async def test_value_that_is_not_json_is_a_violation() -> None:
    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        return {1, 2}

    with pytest.raises(SandboxViolationError, match="not JSON"):
        await ran(script)


async def test_value_over_the_limit_is_refused() -> None:
    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        return "é" * 600

    with pytest.raises(LimitExceededError, match="1,202 bytes") as caught:
        await ran(script, limits=Limits(output_bytes=1000))
    assert caught.value.limit == "output_bytes"


async def test_bridge_failure_takes_precedence_over_the_guest_error() -> None:
    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        bridge.violation("it lied")
        raise CodeError("nothing happened")

    with pytest.raises(SandboxViolationError, match="it lied"):
        await ran(script)

    async def quiet(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        bridge.violation("it lied")

    with pytest.raises(SandboxViolationError, match="it lied"):
        await ran(quiet)


async def test_job_has_the_names_and_limits_of_the_request() -> None:
    jobs: list[Job] = []

    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        jobs.append(job)

    code = "await shop.order(1)\nawait greet('ann')"
    result = await ran(script, code, timeout=5.0, limits=Limits(pids=3))
    job = jobs[0]
    assert (job.code, job.names, job.functions[-1], job.limits.pids) == (code, ("shop",), "greet", 3)
    assert 0 < job.timeout <= 5
    assert result.limits_enforced == LimitsEnforced(
        timeout=True, tool_calls=True, chain_steps=True, output=True, memory=True
    )


async def test_execute_can_be_cancelled() -> None:
    begun = anyio.Event()

    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        begun.set()
        await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ran, script)
            await begun.wait()
            tasks.cancel_scope.cancel()


async def test_deadline_includes_preparation() -> None:
    async def never(code: str) -> None:  # noqa: ARG001 - the protocol's signature
        await anyio.sleep_forever()

    async with Runtime(crib_of_tools(), prepare=never) as runtime:
        with anyio.fail_after(PATIENCE), pytest.raises(LimitExceededError) as caught:
            await runtime.execute(ExecuteRequest(code="x = 1", timeout=0.1))
    assert caught.value.limit == "timeout"
    assert caught.value.result.backend.kind == "none"
    assert not caught.value.result.limits_enforced.memory


async def test_lost_sandbox_error_keeps_the_recorded_calls() -> None:
    async def script(job: Job, bridge: Bridge) -> Any:
        if "greet" in job.code:
            await bridge.call("greet", ["ann"], {})
        raise RuntimeUnavailableError("scripted", "it was closed while the code ran")

    with pytest.raises(SandboxViolationError, match="it was closed while the code ran") as caught:
        await ran(script, "await greet('ann')")
    assert [call.tool_id for call in caught.value.result.tool_calls] == ["greet"]
    with pytest.raises(RuntimeUnavailableError):
        await ran(script)


async def test_sandbox_is_entered_once_and_exited_with_the_runtime() -> None:
    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        return sandbox.entered

    sandbox = Scripted(script)
    assert isinstance(sandbox, Sandbox)
    async with Runtime(Crib(), sandboxes=[sandbox]) as runtime:
        assert sandbox.entered == 0
        results: list[Any] = []

        async def once() -> None:
            results.append((await runtime.execute(ExecuteRequest(code="x = 1", backend="scripted"))).value)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(once)
        assert results == [1] * 5
    assert sandbox.entered == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"backend": "montey"}, "did you mean 'monty'?"),
        ({"backend": "scripted", "profile": "hardened"}, "here it serves standard; get a wall"),
        ({"backend": "unsafe"}, "enabled twice; there is no `allow_unsafe`"),
        ({"backend": "unsafe", "profile": "dev"}, "enabled twice; there is no `allow_unsafe`"),
    ],
)
async def test_sandbox_refusal_has_a_remedy(fields: dict[str, Any], words: str) -> None:
    async with Runtime(Crib(), sandboxes=[Scripted(None, remedy="get a wall")]) as runtime:
        with pytest.raises(RuntimeUnavailableError, match=re.escape(words)):
            await runtime.execute(ExecuteRequest(code="x = 1", **fields))


async def test_missing_sandbox_error_says_what_to_install() -> None:
    async with Runtime(
        Crib(), sandboxes=[Scripted(None, available=False, remedy="pip install it")]
    ) as runtime:
        with pytest.raises(RuntimeUnavailableError, match="pip install it"):
            await runtime.execute(ExecuteRequest(code="x = 1", backend="scripted"))


async def test_unsafe_needs_profile_and_permission_and_warns() -> None:
    from toolcrib.runtime.sandboxes.unsafe import UnsafeSandboxWarning  # noqa: PLC0415 - a plug-in's way

    async with Runtime(crib_of_tools(), allow_unsafe=True) as runtime:
        with pytest.raises(RuntimeUnavailableError):
            await runtime.execute(ExecuteRequest(code="x = 1", backend="unsafe"))
        request = ExecuteRequest(
            code="__out = await run_tool('greet', {'name': 'ann'})", backend="unsafe", profile="dev"
        )
        with pytest.warns(UnsafeSandboxWarning):
            result = await runtime.execute(request)
    assert result.value == "hello ann"
    assert result.backend.details["isolation"] == []
    assert not result.limits_enforced.disk


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_hardened_profile_has_two_walls(runtime: Runtime) -> None:
    able = [kind for kind, info in backends().items() if "hardened" in info.details["profiles"]]
    assert "monty" in able
    for backend in able:
        result = await runtime.execute(ExecuteRequest(code="__out = 1", backend=backend, profile="hardened"))
        assert len(result.backend.details["isolation"]) > 1


@pytest.mark.usefixtures("needs_bubblewrap")
def test_backends_lists_every_kind_with_its_availability() -> None:
    listed = backends()
    assert {"monty", "process", "docker", "gvisor", "wasm", "unsafe"} <= listed.keys()
    for kind, info in listed.items():
        assert info.kind == kind
        assert info.readiness in {"prod", "beta", "stub"}
        if kind in {"monty", "process", "unsafe"}:  # the others need an engine, or say how to get it
            assert info.details["available"] is True
        assert info.details["available"] or info.details["remedy"]
        assert "standard" in info.details["profiles"] or kind == "unsafe" or not info.details["available"]


PLUG_IN = """
from toolcrib.runtime import BackendInfo, LimitsEnforced

class Echo:
    kind = "echo"
    def info(self):
        return BackendInfo(kind="echo", readiness="stub", details={"available": True, "profiles": ["standard"]})
    def enforces(self, limits):
        return LimitsEnforced()
    async def __aenter__(self):
        return self
    async def __aexit__(self, *error):
        pass
    async def run(self, job, bridge):
        return job.code

def broken():
    raise OSError("no engine")
"""


@pytest.fixture
def plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution that offers sandboxes."""
    info = tmp_path / "echo_sandbox-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-sandbox\nVersion: 1.0\n")
    points = "echo = echo_sandbox:Echo\nbroken = echo_sandbox:broken\nnone = echo_sandbox:dict"
    (info / "entry_points.txt").write_text(
        f"[toolcrib.sandboxes]\n{points.replace('dict', '__name__.upper')}\n"
    )
    (tmp_path / "echo_sandbox.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("echo_sandbox", None)


@pytest.mark.usefixtures("plugged_in")
async def test_entry_point_adds_a_sandbox() -> None:
    async with Runtime(Crib()) as runtime:
        assert (await runtime.execute(ExecuteRequest(code="x = 1", backend="echo"))).value == "x = 1"
        with pytest.raises(RuntimeUnavailableError, match="does not load: no engine"):
            await runtime.execute(ExecuteRequest(code="x = 1", backend="broken"))
        with pytest.raises(RuntimeUnavailableError, match="gives str, which is not a sandbox"):
            await runtime.execute(ExecuteRequest(code="x = 1", backend="none"))


async def test_stubs_renders_tools_with_and_without_a_runtime(runtime: Runtime) -> None:
    tools = crib_of_tools().code_names.tools(["shop:order", "greet"]).values()
    text = Runtime.stubs(tools)
    assert "async def order(" in text
    assert "number: int" in text
    assert len(runtime.stubs(tools, budget=30)) < len(text)
