"""Learning from use behind a gateway: a client that searches and then runs a tool, in both eras."""

import json
from typing import Any

import pytest
from gateway.little_face import serving
from mcp import Client
from waiting import PATIENCE

from toolcrib import tool
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
RAIN = "shall I take an umbrella along"


@tool(namespace="weather")
def forecast(city: str) -> str:
    """Tell the weather of a city."""
    return f"rain in {city}"


@tool(namespace="shops")
def umbrella_shops(city: str) -> str:
    """List shops where you can take an umbrella from."""
    return city


async def call(client: Client, name: str, **args: Any) -> dict[str, Any]:
    result = await client.call_tool(name, args)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content or {}
    return found


def score_of(found: dict[str, Any], tool_id: str) -> float:
    (score,) = (each["score"] for each in found["tools"] if each["id"] == tool_id)
    return float(score)


@pytest.mark.parametrize("mode", ["legacy", "auto"], ids=["handshake", "stateless"])
async def test_client_that_searches_and_runs_teaches(mode: Any) -> None:
    async with Gateway({}, expose="meta") as gateway, serving(gateway) as url:
        gateway.crib.add(forecast)
        gateway.crib.add(umbrella_shops)
        async with Client(f"{url}/mcp", mode=mode, read_timeout_seconds=PATIENCE) as client:
            before = await call(client, "search_tools", query=RAIN)
            await call(client, "run_tool", tool_id="weather:forecast", args={"city": "Oslo"})
            (row,) = await gateway.crib.learned()
            assert (row.tool_id, row.question, row.uses) == ("weather:forecast", RAIN, 1)
            after = await call(client, "search_tools", query=RAIN)
            assert score_of(after, "weather:forecast") > score_of(before, "weather:forecast")
            described = await call(client, "describe_tool", tool_id="weather:forecast", detail_level="full")
            assert described["learned"] == [RAIN]
        assert RAIN in json.dumps(described)


async def test_sessions_of_the_handshake_era_are_kept_apart() -> None:
    async with Gateway({}, expose="meta") as gateway, serving(gateway) as url:
        gateway.crib.add(forecast)
        async with (
            Client(f"{url}/mcp", mode="legacy", read_timeout_seconds=PATIENCE) as one,
            Client(f"{url}/mcp", mode="legacy", read_timeout_seconds=PATIENCE) as other,
        ):
            await call(one, "search_tools", query=RAIN)
            await call(other, "run_tool", tool_id="weather:forecast", args={"city": "Oslo"})
            assert await gateway.crib.learned() == ()
            await call(one, "run_tool", tool_id="weather:forecast", args={"city": "Oslo"})
            assert len(await gateway.crib.learned()) == 1
