"""A gateway whose files are locked by another process goes on answering."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway.little_face import serving
from mcp import Client
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio


def look(text: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - so that what it gives back is learnt
    """Look something up."""
    return {text: True}


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of writers, as a stopped process or an open transaction does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def test_gateway_answers_while_another_process_holds_the_catalogue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "catalogue.db"
    with caplog.at_level(logging.WARNING):
        async with (
            Gateway({"store": str(path)}, tools=[look]) as gateway,
            serving(gateway) as url,
            httpx.AsyncClient(timeout=PATIENCE) as http,
            Client(f"{url}/mcp") as client,
        ):

            async def is_told() -> Any:
                return (await http.get(f"{url}/ready")).json().get("catalogue")

            with hold_lock(path):
                for name in ("a", "b", "c"):
                    await client.call_tool("run_tool", {"tool_id": "look", "args": {"text": name}})
                assert (await http.get(f"{url}/health")).status_code == 200
                told = await until(is_told)
                ready = await http.get(f"{url}/ready")
            await until(lambda: gateway.crib.catalogue_status.waiting == 0)
            assert await is_told() is None
    assert told["waiting"] > 0
    assert "another process" in told["fault"]
    assert ready.status_code == 200
    assert "Traceback" not in caplog.text
    assert "not learned" not in caplog.text
    with closing(sqlite3.connect(path)) as read:
        [kept] = read.execute("SELECT text FROM texts WHERE collection = 'observed'").fetchone()
        [uses] = read.execute("SELECT uses FROM usage WHERE tool = 'look'").fetchone()
    assert all(f'"{name}"' in kept for name in "abc")
    assert uses == 3
