"""Health, readiness and metrics of a gateway."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway.little_face import serving
from mcp import Client, MCPError
from prometheus_client.parser import text_string_to_metric_families
from servers.launch import little
from waiting import PATIENCE, until

import toolcrib
from toolcrib.errors import PolicyDeniedError
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio


def fine(text: str) -> str:
    """Give it back."""
    return text


def bad() -> str:
    """Fail."""
    raise OSError("broken")


def refused() -> str:
    """Refuse."""
    raise PolicyDeniedError(tool_id="refused", reason="no")


BEGUN: list[str] = []


async def slow() -> str:
    """Wait."""
    BEGUN.append("slow")
    await anyio.sleep_forever()
    return ""


async def numbers(url: str) -> dict[tuple[str, ...], float]:
    """Return the metrics, by name and labels."""
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        text = (await client.get(f"{url}/metrics")).text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "_bucket" not in sample.name and "_created" not in sample.name
    }


async def run(client: Client, tool_id: str, args: dict[str, Any], **more: Any) -> None:
    await client.call_tool("run_tool", {"tool_id": tool_id, "args": args, **more})


async def test_calls_are_counted_by_what_became_of_them() -> None:
    own = toolcrib.tool(namespace="mine")(fine)
    async with Gateway(tools=[fine, own, bad, slow]) as gateway, serving(gateway) as url:
        with anyio.fail_after(PATIENCE):
            async with Client(f"{url}/mcp", mode="legacy") as client:
                await client.list_tools()
                await run(client, "fine", {"text": "a"})
                await run(client, "mine:fine", {"text": "a"})
                await run(client, "fine", {"text": 1})
                await run(client, "bad", {})
                await run(client, "nobody", {})
                await run(client, "slow", {}, timeout_ms=50)
                with pytest.raises(MCPError):
                    await client.call_tool("nobody", {})
                BEGUN.clear()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, client, "slow", {})
                    await until(lambda: BEGUN)
                    tasks.cancel_scope.cancel()

                async def is_cancelled() -> Any:
                    told = await numbers(url)
                    return told if ("toolcrib_calls_total", "", "cancelled") in told else None

                told = await until(is_cancelled)
    assert {key[1:]: value for key, value in told.items() if key[0] == "toolcrib_calls_total"} == {
        ("", "ok"): 1,
        ("other", "ok"): 1,
        ("", "invalid"): 1,
        ("", "tool_error"): 1,
        ("unknown", "not_found"): 1,
        ("", "timeout"): 1,
        ("", "cancelled"): 1,
    }
    assert told["toolcrib_call_seconds_count", ""] == 5
    assert told["toolcrib_requests_total", "tools/call", "ok"] == 2
    assert told["toolcrib_requests_total", "tools/call", "tool_error"] == 4
    assert told["toolcrib_requests_total", "tools/call", "refused"] == 1
    assert told["toolcrib_requests_total", "tools/call", "cancelled"] == 1
    assert told["toolcrib_requests_total", "initialize", "ok"] == 1
    assert told["toolcrib_tools",] == 4
    assert told["toolcrib_sessions",] == 1
    assert told["toolcrib_index_version",] >= 1
    assert told["process_cpu_seconds_total",] > 0


async def test_methods_that_nobody_knows_are_counted_together() -> None:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with (
        Gateway() as gateway,
        serving(gateway) as url,
        httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client,
    ):
        for number in range(3):
            method = f"made/up{number}"
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": about}}
            answer = await client.post(f"{url}/mcp", json=message, headers={"mcp-method": method})
            assert answer.status_code == 404
        told = await numbers(url)
    assert told["toolcrib_requests_total", "other", "refused"] == 3


async def test_gateway_is_ready_when_required_servers_are_well() -> None:
    well = little(required=True)
    lost = {"command": "/no/such/program", "env": {"TOKEN": "secret"}}
    servers = {"well": well, "lost": lost, "off": {**lost, "disabled": True}}
    async with (
        Gateway({"mcpServers": servers}) as gateway,
        serving(gateway) as url,
        httpx.AsyncClient(timeout=PATIENCE) as client,
    ):
        await gateway.crib.ready()
        ready = await client.get(f"{url}/ready")
        told = await numbers(url)
    assert ready.status_code == 200
    assert ready.json()["status"] == "ready"
    assert ready.json()["servers"]["failed"] == ["lost"]
    assert told["toolcrib_servers", "failed"] == 1
    assert told["toolcrib_servers", "disabled"] == 1
    broken = {"lost": {**lost, "required": True}}
    async with (
        Gateway({"mcpServers": broken}) as gateway,
        serving(gateway) as url,
        httpx.AsyncClient(timeout=PATIENCE) as client,
    ):

        async def is_unready() -> httpx.Response | None:
            answer = await client.get(f"{url}/ready")
            return answer if answer.status_code != 200 else None

        unready = await until(is_unready)
        alive = await client.get(f"{url}/health")
    assert unready.status_code == 503
    assert unready.json() == {
        "status": "unready",
        "servers": {"failed": ["lost"]},
        "missing": {"lost": "failed"},
    }
    assert alive.json() == {"status": "ok", "version": toolcrib.__version__}
    assert "secret" not in unready.text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("required", [False, True], ids=["lost", "refused"])
async def test_an_audit_that_cannot_be_written_is_told_by_ready_and_metrics(required: bool) -> None:
    config = {"audit": {"path": "/dev/full", "required": required}}
    async with (
        Gateway(config, tools=[fine]) as gateway,
        serving(gateway) as url,
        httpx.AsyncClient(timeout=PATIENCE) as client,
    ):
        async with Client(f"{url}/mcp") as caller:
            await run(caller, "fine", {"text": "a"})

            async def is_told() -> Any:
                answer = await client.get(f"{url}/ready")
                return answer if "audit" in answer.json() else None

            ready = await until(is_told)
            later = await caller.call_tool("run_tool", {"tool_id": "fine", "args": {"text": "b"}})

        async def is_counted() -> Any:  # the record of the later call may not have been tried yet
            counted = await numbers(url)
            return counted if (counted["toolcrib_audit_waiting",] > 0) is required else None

        counted = await until(is_counted)
    assert ready.json()["audit"]["fault"] == "No space left on device"
    assert ready.status_code == (503 if required else 200)
    assert ready.json().get("missing") == ({"audit": "No space left on device"} if required else None)
    assert later.is_error is required
    assert (counted["toolcrib_audit_lost",] > 0) is not required
