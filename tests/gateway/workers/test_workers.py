"""Two workers on one port, as `toolcrib serve --workers 2` starts them."""

import json
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway.api.test_webhook import SECRET, receiver
from gateway.support import Place, Served
from gateway.workers.lines import (
    Line,
    calling,
    count_allowed,
    events,
    kill,
    last,
    lines_to_both,
    worker_of,
    workers,
)
from servers.launch import alive, asking, command, little, shifting, tiny
from waiting import PATIENCE, wait_until

FORMS = {"elicitation": {"form": {}}}
RATE_LIMITS = [{"name": "counts", "tools": ["shop:count"], "limit": "5/hour", "each": []}]
SHOP = {
    "tools": [
        {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
        {"name": "count", "inputSchema": {"type": "object"}},
    ]
}
"""The tools of the server `shop`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A configuration with a server that tells its process, and one with a destructive tool."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "shop.json").write_text(json.dumps(SHOP), encoding="utf-8")
    servers = {
        "tiny": tiny(start_timeout=PATIENCE),
        "asking": asking("--handshake"),
        "shop": shifting(folder / "shop.json", start_timeout=PATIENCE),
    }
    return Place(folder, servers, timeout=PATIENCE, rate_limits=RATE_LIMITS)


@pytest.fixture(scope="module")
def served(place: Place) -> Iterator[Served]:
    """A gateway with two workers."""
    with Served(place, "--workers", "2") as served:
        yield served


@pytest.fixture
def lines(served: Served) -> Iterator[list[Line]]:
    """A connection to each worker."""
    found = lines_to_both(served)
    yield list(found.values())
    for line in found.values():
        line.connection.close()


def pid_of(answer: Any) -> int:
    pid: int = answer["result"]["structuredContent"]["pid"]
    return pid


def confirmed(question: Any) -> dict[str, Any]:
    """Return the part of a repeated request that agrees to a question."""
    yes = {"action": "accept", "content": {"confirm": True}}
    found = question["result"]
    return {
        "inputResponses": dict.fromkeys(found["inputRequests"], yes),
        "requestState": found["requestState"],
    }


def test_ready_and_metrics_are_of_all_workers(served: Served, lines: list[Line]) -> None:
    assert lines[0].worker != lines[1].worker
    ready = json.loads(served.get("/ready") or "{}")
    assert ready["workers"] == ["ready", "ready"]
    metrics = served.get("/metrics") or ""
    for number in range(2):
        assert f'toolcrib_tools{{worker="{number}"}} 17.0' in metrics


def test_session_is_answered_at_any_worker_where_it_is_held(lines: list[Line]) -> None:
    here, there = lines
    session = here.begin()
    first = pid_of(here.call("tiny__echo", session))
    assert pid_of(there.call("tiny__echo", session)) == first
    assert there.end(session) == 200
    for line in lines:
        assert line.send(calling("tiny__echo"), session).status == 404
        line.connection.close()


def test_session_of_a_client_that_says_much_of_itself_is_answered_at_any_worker(lines: list[Line]) -> None:
    about = {"name": "line", "version": "1", "title": secrets.token_hex(20_000)}
    params = {"protocolVersion": "2025-11-25", "clientInfo": about, "capabilities": {}}
    response = lines[0].send({"id": 0, "method": "initialize", "params": params})
    session = response.headers["mcp-session-id"]
    assert "result" in last(response)
    assert len({pid_of(line.call("tiny__echo", session)) for line in lines}) == 1


def test_question_in_a_session_is_answered_over_another_worker(lines: list[Line]) -> None:
    here, there = lines
    session = here.begin(**FORMS)
    response = here.send(calling("shop__wipe"), session)
    stream = events(response)
    question = next(each for each in stream if each.get("method") == "elicitation/create")
    answer = {"action": "accept", "content": {"confirm": True}}
    taken = there.send({"id": question["id"], "result": answer}, session)
    taken.read()
    assert taken.status == 202
    *_, done = stream
    assert done["result"]["structuredContent"] == {"called": "wipe"}


def test_answer_to_a_question_that_nobody_asked_is_refused(lines: list[Line]) -> None:
    session = lines[0].begin(**FORMS)
    for line in lines:
        response = line.send({"id": 17, "result": {"action": "accept", "content": {}}}, session)
        assert response.status == 409
        assert "no question with this id was asked here" in last(response)["error"]["message"]


def test_cancellation_reaches_the_worker_that_runs_the_call(lines: list[Line]) -> None:
    here, there = lines
    session = here.begin(**FORMS)
    message = calling("shop__wipe")
    response = here.send(message, session)
    stream = events(response)
    next(each for each in stream if each.get("method") == "elicitation/create")
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": message["id"]}}
    taken = there.send(cancelled, session)
    taken.read()
    assert taken.status == 202
    *_, ended = stream
    assert "error" in ended


def test_confirmation_counts_once_at_all_workers(lines: list[Line]) -> None:
    here, there = lines
    question = here.call_stateless("shop__wipe", can=FORMS)
    assert question["result"]["resultType"] == "input_required"
    given = confirmed(question)
    done = there.call_stateless("shop__wipe", given, FORMS)
    assert done["result"]["structuredContent"] == {"called": "wipe"}
    for line in lines:
        again = line.call_stateless("shop__wipe", given, FORMS)
        assert again["result"]["resultType"] == "input_required"


def test_rate_limit_holds_for_all_workers_and_commands_together(lines: list[Line], place: Place) -> None:
    assert count_allowed(lines * 2, "shop__count") == 4
    toolcrib(place, "run", "shop:count")
    assert count_allowed(lines * 2, "shop__count") == 0


def test_confirmation_of_a_chain_counts_at_another_worker(lines: list[Line]) -> None:
    here, there = lines
    steps = [{"tool_id": "tiny:echo"}, {"tool_id": "shop:wipe"}]
    question = here.call_stateless("run_chain", can=FORMS, steps=steps, path="/mcp/meta")
    assert question["result"]["resultType"] == "input_required"
    done = there.call_stateless("run_chain", confirmed(question), FORMS, steps=steps, path="/mcp/meta")
    assert not done["result"].get("isError"), done


@pytest.mark.parametrize("name", ["Ann", "initialize"])
def test_held_call_is_continued_over_another_worker(lines: list[Line], name: str) -> None:
    here, there = lines
    question = here.call_stateless("asking__form", can=FORMS)
    assert question["result"]["resultType"] == "input_required", question
    answers = {
        key: {"action": "accept", "content": {"name": name}} for key in question["result"]["inputRequests"]
    }
    more = {"inputResponses": answers, "requestState": question["result"]["requestState"]}
    done = there.call_stateless("asking__form", more, FORMS)
    assert name in done["result"]["content"][0]["text"], done


def test_task_of_another_worker_is_not_looked_for_in_a_session(lines: list[Line]) -> None:
    here, _ = lines
    session = here.begin()
    for number in (0, 1):
        question = {"id": number, "method": "tasks/get", "params": {"taskId": f"{number}.none"}}
        assert here.ask(question, session)["error"]["message"] == "Method not found"


def test_killed_worker_costs_only_its_own_calls(served: Served, lines: list[Line]) -> None:
    victim, other = lines
    doomed, living = victim.worker, other.worker
    session, kept = victim.begin(**FORMS), other.begin()
    stream = events(victim.send(calling("shop__wipe"), session))
    assert next(stream)["method"] == "elicitation/create"
    before = workers(served)
    kill(doomed)
    assert list(stream) == []  # it breaks off
    assert worker_of(served, pid_of(other.call("tiny__echo", kept))) == living
    assert pid_of(other.call("tiny__echo", session))  # it is restored
    wait_until(lambda: len(workers(served)) == 2 and workers(served) != before, "it was started anew")
    assert workers(served) & before == {living}


def test_call_that_was_relayed_to_a_killed_worker_ends_with_an_error(lines: list[Line]) -> None:
    victim, other = lines
    doomed = victim.worker
    session = victim.begin(**FORMS)
    stream = events(other.send(calling("shop__wipe"), session))
    assert next(stream)["method"] == "elicitation/create"
    kill(doomed)
    *_, ended = stream
    assert "ended before it had answered" in ended["error"]["message"]


def test_reload_reaches_all_workers(served: Served, place: Place, lines: list[Line]) -> None:
    text = place.config.read_text(encoding="utf-8")
    try:
        place.config.write_text(
            f'{text}gateway = {{expose = "all", content_tools = true}}\n', encoding="utf-8"
        )
        os.kill(served.pid, signal.SIGHUP)
        for line in lines:
            wait_until(
                lambda line=line: "result" in line.call_stateless("list_resources"), "it lists resources"
            )
    finally:
        place.config.write_text(text, encoding="utf-8")


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    # It has a place of its own: commands of the others go to the gateway that began last with theirs.
    with Served(Place(tmp_path, {"tiny": tiny()}), "--workers", "2") as served:
        wait_until(lambda: len(workers(served)) == 2, "both have started")
        known = workers(served)
        served.kill()
        wait_until(lambda: not any(map(alive, known)), "the workers have ended")


def test_first_worker_that_cannot_start_ends_the_command(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text('[gateway]\nhost = "0.0.0.0"\nport = 0\n', encoding="utf-8")
    command = [sys.executable, "-m", "toolcrib.cli", "serve", "--transport", "http", "--workers", "3"]
    ended = subprocess.run(
        [*command, "--config", str(config)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.count("it needs a token") == 1


def toolcrib(place: Place, *arguments: str) -> Any:
    """Run a command in the gateway, and return what it prints."""
    program = [*command(), *arguments, "--config", str(place.config), "--json"]
    done = subprocess.run(
        program, env=place.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_commands_reach_all_workers(served: Served, place: Place, lines: list[Line]) -> None:
    # The first worker, which runs commands, may be a new one that does not yet.
    wait_until(lambda: "workers" in toolcrib(place, "status"), "the gateway runs commands")
    status = toolcrib(place, "status")
    assert {each["pid"] for each in status["workers"]} == workers(served)
    assert [each["number"] for each in status["workers"]] == [0, 1]
    toolcrib(place, "server", "stop", "tiny")
    for line in lines:
        refused = line.call_stateless("tiny__echo")["result"]
        assert refused["isError"], refused
        assert "stopped" in str(refused), refused
    toolcrib(place, "server", "start", "tiny")
    assert {line.worker for line in lines} == workers(served)


@contextmanager
def signed_in(place: Place, served: Served) -> Iterator[httpx.Client]:
    """Yield a browser that the user of this machine has signed in to the console."""
    code = toolcrib(place, "console", "--no-open")["console"].partition("#login=")[2]
    with httpx.Client(base_url=served.url.removesuffix("/mcp"), timeout=PATIENCE) as client:
        login = client.post("/api/v1/login", json={"code": code}, headers={"x-toolcrib-key": "login"})
        client.headers["x-toolcrib-key"] = login.raise_for_status().json()["key"]
        yield client


def test_console_shows_the_calls_of_all_workers(place: Place, served: Served, lines: list[Line]) -> None:
    link = toolcrib(place, "console", "--no-open")["console"]
    code = link.partition("#login=")[2]
    pids = {line.worker for line in lines}
    assert len(pids) == 2
    with ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(base_url=served.url.removesuffix("/mcp"))) for _ in lines]
        login = clients[0].post("/api/v1/login", json={"code": code}, headers={"x-toolcrib-key": "login"})
        headers = {"x-toolcrib-key": login.raise_for_status().json()["key"]}
        for client in clients:
            client.cookies = clients[0].cookies
        mark = [line.call_stateless("tiny__echo", mark=number) for number, line in enumerate(lines)]
        assert all("result" in answer for answer in mark)

        def shown() -> bool:
            rows = clients[1].get("/api/v1/calls", params={"tool": "tiny:echo"}, headers=headers).json()
            calls = [clients[0].get(f"/api/v1/calls/{row['id']}", headers=headers) for row in rows["items"]]
            found = {
                call.json()["payload"]["args"]["text"] for call in calls if "args" in call.json()["payload"]
            }
            return {'{"mark":0}', '{"mark":1}'} <= found

        wait_until(shown, "the calls of both are shown")


def test_console_shows_the_running_calls_of_all_workers(
    place: Place, served: Served, lines: list[Line]
) -> None:
    with signed_in(place, served) as browser, ExitStack() as stack:
        streams = []
        for line in lines:
            streams.append(line.send(calling("shop__wipe"), line.begin(**FORMS)))
            stack.callback(streams[-1].close)

        def wiping() -> list[Any]:
            items = browser.get("/api/v1/calls/running").raise_for_status().json()["items"]
            return [each for each in items if each["toolId"] == "shop:wipe"]

        found = wait_until(lambda: both(wiping()), "both are shown")
        assert len({each["id"] for each in found}) == 2
        assert found == sorted(found, key=lambda each: each["began"])
        assert browser.get("/api/v1/overview").json()["running"] >= 2
        with browser.stream("GET", "/api/v1/events") as events_of:
            told = events_of.iter_lines()
            assert "event: hello" in told
            for line in lines:
                line.connection.close()
            assert "event: running" in told
        wait_until(lambda: not wiping(), "they have ended")


def test_operator_answers_calls_of_all_workers(tmp_path: Path) -> None:
    ask = {"name": "ask", "tools": ["tiny:echo"], "effect": "ask", "reason": "Look first."}
    rules = [ask, {"name": "rest", "effect": "allow"}]
    servers = {"tiny": tiny(start_timeout=PATIENCE), "little": little(start_timeout=PATIENCE)}
    with receiver() as (url, _):
        webhook = {"url": url, "secret": SECRET}
        place = Place(tmp_path, servers, timeout=PATIENCE, console={"webhook": webhook}, policy=rules)
        with Served(place, "--workers", "2") as served, ThreadPoolExecutor(2) as pool:
            found = lines_to_both(served, "little__get_pid")
            calls = [pool.submit(line.call_stateless, "tiny__echo") for line in found.values()]
            waiting = wait_until(lambda: both(toolcrib(place, "approvals", "list")["calls"]))
            assert {each["toolId"] for each in waiting} == {"tiny:echo"}
            for each in waiting:
                toolcrib(place, "approvals", "approve", each["id"])
            answers = [call.result(PATIENCE) for call in calls]
            for line in found.values():
                line.connection.close()
    assert len({pid_of(answer) for answer in answers}) == 2


def test_shared_server_runs_once_and_its_lease_passes_on(tmp_path: Path) -> None:
    servers = {"tiny": tiny(start_timeout=PATIENCE, shared=True), "little": little(start_timeout=PATIENCE)}
    with Served(Place(tmp_path, servers, timeout=PATIENCE), "--workers", "2") as served:
        lines = lines_to_both(served, "little__get_pid")
        (shared,) = {line.pid_of("tiny__echo") for line in lines.values()}
        holder = worker_of(served, shared)
        kill(holder)
        other = next(line for worker, line in lines.items() if worker != holder)
        wait_until(lambda: not alive(shared), "it ends with its holder")

        def call() -> Any:
            return other.call_stateless("tiny__echo").get("result", {}).get("structuredContent")

        assert wait_until(lambda: (call() or {}).get("pid")) != shared
        for line in lines.values():
            line.connection.close()
        fresh = lines_to_both(served, "little__get_pid")
        assert len({line.pid_of("tiny__echo") for line in fresh.values()}) == 1
        for line in fresh.values():
            line.connection.close()


def test_workers_write_one_audit_and_one_catalogue(tmp_path: Path) -> None:
    settings = {"audit": {"path": str(tmp_path / "audit.jsonl")}, "store": str(tmp_path / "tools.db")}
    servers = {"tiny": tiny(start_timeout=PATIENCE), "little": little(start_timeout=PATIENCE)}
    place = Place(tmp_path, servers, timeout=PATIENCE, **settings)
    with Served(place, "--workers", "2") as served, ThreadPoolExecutor(2) as pool:
        lines = lines_to_both(served)
        victim, other = lines.values()
        before = calls_in(served)

        def call(line: Line) -> None:
            for _ in range(_CALLS):
                assert "result" in line.call_stateless("little__get_pid")

        list(pool.map(call, lines.values()))
        assert calls_in(served) - before == 2 * _CALLS
        wait_until(lambda: written(tmp_path).count("little:get_pid") == 2 * _CALLS)
        kill(victim.worker)
        for _ in range(_CALLS):
            assert "result" in other.call_stateless("little__get_pid")
        for line in lines.values():
            line.connection.close()
    report = toolcrib(place, "audit", "verify")
    assert report["problems"] == []
    assert written(tmp_path).count("little:get_pid") == 3 * _CALLS
    with closing(sqlite3.connect(tmp_path / "tools.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


_CALLS = 50


def written(folder: Path) -> str:
    return (folder / "audit.jsonl").read_text(encoding="utf-8")


def calls_in(served: Served) -> int:
    """Return how many calls of the little server ended well at all workers."""
    metrics = served.get("/metrics") or ""
    pattern = r'toolcrib_calls_total\{(?=.*namespace="little")(?=.*outcome="ok").*\} ([\d.]+)'
    return sum(int(float(count)) for count in re.findall(pattern, metrics))


def both(calls: list[Any]) -> list[Any] | None:
    return calls if len(calls) == 2 else None
