"""Requests that only one of two workers can answer: tasks, pages of logins, durable runs."""

import html
import re
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from hashlib import sha256
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from execution.oauth.accounts import ACCOUNT, Accounts, accounts
from gateway.support import Place, Served
from gateway.tasks.raw import ENDED, KNOWS
from gateway.workers.lines import Line, lines_to_both
from servers.launch import conformance, tiny
from waiting import PATIENCE, until, wait_until

from toolcrib.errors import RunStateError
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin
from toolcrib.gateway import Gateway
from toolcrib.gateway.workers.supervisor import Worker

TOKENS = {"ann": "of-ann", "bob": "of-bob"}


@pytest.fixture(scope="module")
def authority() -> Iterator[Accounts]:
    with accounts() as running:
        yield running


@pytest.fixture(scope="module")
def served(authority: Accounts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway with two workers, at which persons log in to a server."""
    tokens = {
        name: {"hash": f"sha256:{sha256(token.encode()).hexdigest()}"} for name, token in TOKENS.items()
    }
    servers = {
        "tiny": tiny(start_timeout=PATIENCE),
        "jobs": conformance(start_timeout=PATIENCE),
        "notes": {"url": authority.url, "auth": {"mode": "per_user"}},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCRIB_VAULT_KEY", "a key of many characters")
        folder = tmp_path_factory.mktemp("relays")
        place = Place(folder, servers, timeout=PATIENCE, gateway={"tokens": tokens})
        operator = StoredLogin(
            server="notes",
            url=authority.url,
            token_endpoint=f"{authority.issuer}/token",
            client_id="someone",
            access_token=authority.token_of("operator"),
        )
        LoginVault(place.environ).put(operator)  # the tools are listed with it
        with Served(place, "--workers", "2") as served:
            yield served


@pytest.fixture(params=["first worker", "second worker"])
def lines(served: Served, request: pytest.FixtureRequest) -> Iterator[list[Line]]:
    """A connection to each worker, both orders."""
    found = lines_to_both(served, token=TOKENS["ann"])
    ordered = [found[worker] for worker in sorted(found)]
    yield ordered if request.param == "first worker" else ordered[::-1]
    for line in found.values():
        line.connection.close()


def status_of(line: Line, task_id: str, path: str = "/mcp/all") -> str:
    answer = line.ask_about_task("tasks/get", task_id, KNOWS, path)
    assert "result" in answer, answer
    status: str = answer["result"]["status"]
    return status


def test_task_of_a_server_is_asked_about_and_cancelled_over_another_worker(lines: list[Line]) -> None:
    here, there = lines
    short = here.call_stateless("jobs__slow_compute", can=KNOWS, seconds=0.05, label="x")["result"]
    assert short["resultType"] == "task"
    wait_until(lambda: status_of(there, short["taskId"]) == "completed")
    ended = there.ask_about_task("tasks/get", short["taskId"], KNOWS)["result"]
    assert ended["result"]["content"] == [{"type": "text", "text": "computed x"}]
    long = here.call_stateless("jobs__slow_compute", can=KNOWS, seconds=3600, label="x")["result"]
    assert status_of(there, long["taskId"]) == "working"
    assert "result" in there.ask_about_task("tasks/cancel", long["taskId"], KNOWS)
    wait_until(lambda: status_of(here, long["taskId"]) == "cancelled")


def test_task_of_the_gateway_is_asked_about_and_cancelled_over_another_worker(lines: list[Line]) -> None:
    here, there = lines
    steps = [{"tool_id": "tiny:hang"}]
    task = here.call_stateless("run_chain", can=KNOWS, path="/mcp/meta", steps=steps)["result"]
    assert task["resultType"] == "task"
    assert status_of(there, task["taskId"], "/mcp/meta") == "working"
    assert "result" in there.ask_about_task("tasks/cancel", task["taskId"], KNOWS, "/mcp/meta")
    wait_until(lambda: status_of(here, task["taskId"], "/mcp/meta") in ENDED)
    assert status_of(there, task["taskId"], "/mcp/meta") == "cancelled"


def test_task_of_another_principal_is_not_found_over_another_worker(
    lines: list[Line], served: Served
) -> None:
    task = lines[0].call_stateless("jobs__slow_compute", can=KNOWS, seconds=3600, label="x")["result"]
    for stranger in lines_to_both(served, token=TOKENS["bob"]).values():
        refused = stranger.ask_about_task("tasks/get", task["taskId"], KNOWS)
        assert "no such task" in refused["error"]["message"].lower(), refused
        stranger.connection.close()


def cookie_of(response: HTTPResponse) -> str:
    return (response.headers["set-cookie"] or "").partition(";")[0]


@pytest.mark.parametrize("name", TOKENS)
def test_login_page_is_answered_by_each_worker(name: str, served: Served) -> None:
    lines = [*lines_to_both(served, token=TOKENS[name]).values()]
    page = lines[name == "bob"]  # one of both is not the worker that serves the pages
    refused = lines[0].call_stateless("notes__whoami", note="hello")["result"]
    link = refused["_meta"]["toolcrib/error"]["details"]["url"]
    response, text = page.get(link)
    assert response.status == 200
    (target,) = re.findall(r"href='([^']+)'", text)
    cookie = cookie_of(response)
    response, _ = page.get(httpx.URL(link).join(html.unescape(target)).raw_path.decode(), cookie)
    assert response.status == 302
    cookie = cookie_of(response) or cookie
    back = httpx.get(response.headers["location"], headers={ACCOUNT: f"account of {name}"}, timeout=PATIENCE)
    response, text = page.get(back.headers["location"], cookie)
    assert "You are logged in" in text, text
    for line in lines:
        answer = line.call_stateless("notes__whoami", note="hello")["result"]
        assert answer["structuredContent"]["result"] == f"account of {name}: hello"
        line.connection.close()


@pytest.mark.anyio
async def test_durable_run_of_another_worker_is_cancelled(tmp_path: Path) -> None:
    holding = anyio.Event()

    async def hold() -> None:
        """Wait without end."""
        holding.set()
        await anyio.sleep_forever()

    async with AsyncExitStack() as stack:
        gateways: list[Gateway] = []
        with socket.socket() as listener:
            for number in range(2):
                gateway = Gateway(
                    {"runs": {"store": str(tmp_path / "runs.db"), "key": "k" * 32}},
                    worker=Worker(number, 2, listener, tmp_path, b"k" * 32, "one", True, -1, -1),
                )
                gateways.append(await stack.enter_async_context(gateway))
            gateways[1].crib.add(namespace="office")(hold)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            for gateway in gateways:
                assert gateway.links is not None
                await tasks.start(gateway.links.listen, _answer_nothing, gateway.fleet.run_command)
            ended: list[RunStateError] = []

            async def run() -> None:
                with pytest.raises(RunStateError, match="was cancelled, and can be resumed") as caught:
                    await gateways[1].crib.run_chain([{"toolId": "office:hold"}], durable=True)
                ended.append(caught.value)

            tasks.start_soon(run)
            await holding.wait()
            (found,) = await gateways[0].crib.runs()
            assert found.state == "running"
            await gateways[0].fleet.cancel_run(found.id)
            await until(lambda: ended, "it has ended")
            assert ended[0].run_id == found.id
            with pytest.raises(RunStateError):
                await gateways[0].fleet.cancel_run(found.id)
            tasks.cancel_scope.cancel()


async def _answer_nothing(*_: Any) -> None:
    raise AssertionError("no request is relayed here")
