"""A crib with real MCP servers: start-up order, and the effects of one bad server on the others."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.launch import alive
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.errors import (
    BackendUnavailableError,
    ChainError,
    CribStateError,
    InvalidChainError,
    ServerUnavailableError,
    ToolNotFoundError,
    ToolTimeoutError,
    explain,
)
from toolcrib.execution import Principal

pytestmark = pytest.mark.anyio


def ids(page: Any) -> list[str]:
    return [item.id if hasattr(item, "id") else item.summary.id for item in page]


async def test_crib_on_demand_starts_the_servers_that_calls_need(little: Any) -> None:
    servers = {name: little() for name in ("a", "b", "c", "d")}

    async with Crib({"mcpServers": servers}, on_demand=True) as crib:

        def started() -> list[str]:
            return [name for name, status in crib.status().items() if status.starts]

        with anyio.fail_after(PATIENCE):
            assert started() == []
            assert (await crib.run("b:shout", {"text": "a"})).structured == {"result": "A"}
            assert "shout" in await crib.stubs(["b:shout"])
            assert (await crib.session("openai", tools=["c:shout"])).tools
            assert started() == ["b", "c"]
            assert len(await crib.tools(limit=100)) == 20
            assert started() == ["a", "b", "c", "d"]


class Seen:
    """Notes the calls that were watched to their end."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def begin(self, tool_id: str, principal: Principal | None) -> Any:  # noqa: ARG002 - a protocol's
        return lambda outcome: self.outcomes.append(outcome.tool_id)


async def test_the_tools_of_a_server_are_found_described_and_run_at_once(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        with anyio.fail_after(PATIENCE):
            assert ids(await crib.search("capital letters"))[0] == "text:shout"
            assert (await crib.describe("text:shout", "full")).summary == "Write a text in capital letters."
            result = await crib.run("text:shout", {"text": "hello"})
            assert result.structured == {"result": "HELLO"}
            assert result.backend.to_json() == {"kind": "mcp", "serverName": "text"}
            assert ids(await crib.tools()) == [
                "text:crash",
                "text:get_pid",
                "text:learn",
                "text:shout",
                "text:wait_long",
            ]
            assert await crib.namespaces() == ("text",)
            assert [made.tool_id for made in crib.convert("openai", tools=["text:shout"])] == ["text:shout"]
            kinds = [event.kind async for event in crib.stream("text:shout", {"text": "x"})]
            assert kinds[-1] == "done"
            assert crib.status()["text"].state == "ready"


async def test_the_first_run_waits_for_the_server_that_it_needs_alone(little: Any) -> None:
    servers = {"text": little(), "slow": little("hang", startTimeout=600)}
    async with Crib({"mcpServers": servers}) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.run("text:shout", {"text": "a"})).structured == {"result": "A"}
            assert ids(await crib.search("capital letters", namespace="text"))[0] == "text:shout"
            chain = [{"toolId": "text:shout", "args": {"text": "a"}}]
            assert (await crib.run_chain(chain)).final == {"result": "A"}


async def test_a_server_that_is_slow_or_broken_does_not_fail_a_search(little: Any) -> None:
    servers = {
        "text": little(),
        "slow": little("hang", startTimeout=1),
        "broken": little("fail"),
        "absent": {"command": "/no/such/program"},
        "unset": little(env={"TOKEN": "${NO_SUCH_VARIABLE}"}),
    }
    async with Crib({"mcpServers": servers}) as crib:
        with anyio.fail_after(PATIENCE):
            assert ids(await crib.search("capital letters"))[0] == "text:shout"
            status = await crib.ready()
            assert status["text"].state == "ready"
            for name, said in (
                ("broken", "it exited with status 1$"),
                ("absent", "there is no program '/no/such/program'"),
                ("unset", "/env/TOKEN: the variable 'NO_SUCH_VARIABLE' is not set"),
                ("slow", "did not start within 1 s"),
            ):
                with pytest.raises(BackendUnavailableError, match=said) as error:
                    await crib.run(f"{name}:shout", {"text": "a"})
                assert (error.value.backend, error.value.op, error.value.sent) == (
                    f"mcp:{name}",
                    "resolve",
                    False,
                )
            with pytest.raises(BackendUnavailableError, match=r"it exited with status 1$"):
                await crib.describe("broken:shout")
            with pytest.raises(ToolNotFoundError, match="did you mean 'text:shout'"):
                await crib.run("text:shot", {"text": "a"})


SPILT = "token=sk-SECRET at /home/anna/.config/key.json"


async def test_stderr_of_a_server_is_hidden_from_models_and_shown_to_people(little: Any) -> None:
    servers = {"broken": little("fail", SPILT), "text": little()}
    chain = [{"toolId": "broken:x"}]
    async with Crib({"mcpServers": servers}) as crib:
        with anyio.fail_after(PATIENCE):
            for verb in (crib.run("broken:x"), crib.describe("broken:x"), crib.run("text:crash")):
                with pytest.raises(BackendUnavailableError) as error:
                    await verb
                assert "SECRET" not in json.dumps(explain(error.value))
                assert "anna" not in json.dumps(explain(error.value))
                cause = error.value.__cause__
                assert isinstance(cause, ServerUnavailableError)
                assert "anna" in f"{cause.reason} {cause.stderr}"
            with pytest.raises(InvalidChainError) as invalid:
                await crib.run_chain(chain)
            assert "anna" not in json.dumps(explain(invalid.value))
            events = [event.data async for event in crib.stream("broken:x")]
            assert "anna" not in json.dumps(events)


async def test_a_secret_in_the_configuration_is_not_in_the_text_of_an_error() -> None:
    async with Crib({"mcpServers": {"absent": {"command": "/opt/run token=4f8a91c2"}}}) as crib:
        with (
            anyio.fail_after(PATIENCE),
            pytest.raises(BackendUnavailableError, match=r"'/opt/run token=\[secret\]"),
        ):
            await crib.run("absent:x")


async def test_waiting_for_a_server_counts_as_running_its_tool(little: Any) -> None:
    seen = Seen()
    async with Crib({"mcpServers": {"slow": little("hang")}}, observers=[seen]) as crib:
        with anyio.fail_after(PATIENCE):
            with pytest.raises(
                BackendUnavailableError, match=r"its server was not ready within 0.2 s"
            ) as error:
                await crib.run("slow:x", timeout=0.2)
            assert error.value.op == "resolve"
            (event,) = [event async for event in crib.stream("slow:x", timeout=0.2)]
            assert (event.kind, type(event.error)) == ("error", BackendUnavailableError)
            with pytest.raises(BackendUnavailableError, match=r"its server was not ready within 0.2 s"):
                await crib.run_chain([{"toolId": "slow:x"}], timeout=0.2)
    assert seen.outcomes == ["slow:x", "slow:x"]


async def test_a_tool_that_is_late_after_its_server_was_is_told_with_the_time_of_the_caller(
    little: Any,
) -> None:
    for seconds in (1.0, 10.0, 100.0):  # which a busy machine may need to start the server
        async with Crib({"mcpServers": {"text": little()}}) as crib:
            with pytest.raises((ToolTimeoutError, BackendUnavailableError)) as caught:
                await crib.run("text:wait_long", timeout=seconds)
            if caught.type is BackendUnavailableError:
                continue
            assert f"within {seconds:g} s" in str(caught.value)
            with anyio.fail_after(PATIENCE), pytest.raises(ChainError, match=r"within 0\.5 s"):
                await crib.run_chain([{"toolId": "text:wait_long"}], timeout=0.5)
            return
    pytest.fail("its server never started in time")


async def test_a_required_server_that_fails_is_told_by_ready(little: Any) -> None:
    servers = {"text": little(), "broken": little("fail", required=True)}
    async with Crib({"mcpServers": servers}) as crib:
        with (
            anyio.fail_after(PATIENCE),
            pytest.raises(ServerUnavailableError, match="the licence has expired") as error,
        ):
            await crib.ready()
        assert error.value.server == "broken"


async def test_a_required_server_that_is_late_is_told_by_ready(little: Any) -> None:
    servers = {"slow": little("hang", required=True)}
    async with Crib({"mcpServers": servers}) as crib:
        with (
            anyio.fail_after(PATIENCE),
            pytest.raises(ServerUnavailableError, match="it has not listed its tools"),
        ):
            await crib.ready(timeout=0.1)


async def test_an_optional_server_that_is_late_is_not_waited_for_longer(little: Any) -> None:
    async with Crib({"mcpServers": {"slow": little("hang")}}) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.ready(timeout=0.1))["slow"].state in {"stopped", "starting"}


async def test_a_disabled_server_is_not_started(little: Any) -> None:
    async with Crib({"mcpServers": {"off": little(disabled=True)}}) as crib:
        assert (await crib.search("capital letters")).total == 0
        assert (await crib.ready())["off"].state == "disabled"
        with pytest.raises(
            BackendUnavailableError, match="server 'off' is disabled in the configuration"
        ) as error:
            await crib.run("off:shout", {"text": "a"})
        assert error.value.backend == "mcp:off"


async def test_a_run_asks_a_server_again_that_was_not_there_at_first(little: Any, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    servers = {"late": little("unless", str(switch))}
    async with Crib({"mcpServers": servers}) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
            with pytest.raises(BackendUnavailableError, match="it exited with status 1"):
                await crib.run("late:shout", {"text": "a"})
            switch.write_text("on")

            async def answers() -> bool:
                with suppress(BackendUnavailableError):  # it is left alone for a moment after each failure
                    return (await crib.run("late:shout", {"text": "a"})).structured == {"result": "A"}
                return False

            await until(answers)
            assert (await crib.search("capital letters")).total > 0


async def test_tools_that_come_and_go_are_followed(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.run("text:learn")

            async def follows() -> bool:
                names = ("crash", "get_pid", "learn", "shout", "whisper")
                return ids(await crib.tools()) == [f"text:{name}" for name in names]

            await until(follows)
            assert (await crib.run("text:whisper", {"text": "A"})).structured == {"result": "a"}


async def test_closing_stops_a_server_in_the_middle_of_a_call(little: Any) -> None:
    ended: list[BaseException] = []

    async def run(crib: Crib) -> None:
        try:
            await crib.run("text:wait_long")
        except Exception as error:  # noqa: BLE001 - which one is looked at below
            ended.append(error)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks, Crib({"mcpServers": {"text": little()}}) as crib:
            pid = (await crib.run("text:get_pid")).structured["result"]
            tasks.start_soon(run, crib)
            await until(lambda: crib.status()["text"].in_flight == 1)
        assert len(ended) == 1
        await until(lambda: not alive(pid))
    with pytest.raises(CribStateError):
        await crib.run("text:shout", {"text": "a"})


async def test_cancelling_the_entering_task_stops_everything(little: Any) -> None:
    with anyio.fail_after(PATIENCE):
        with anyio.CancelScope() as scope:
            async with Crib({"mcpServers": {"slow": little("hang")}}) as crib:
                scope.cancel()
                await crib.search("anything")
        assert scope.cancelled_caught
    assert "closed" in repr(crib)
