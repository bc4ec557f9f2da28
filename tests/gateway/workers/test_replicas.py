"""Three gateways on one PostgreSQL database, behind a load balancer without sticky sessions."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from gateway import test_conformance as conformance
from gateway.support import Place, Served
from gateway.workers.balancer import balanced
from gateway.workers.lines import Line, calling, count_allowed, events, last
from gateway.workers.test_workers import FORMS, RATE_LIMITS, SHOP, confirmed, pid_of
from servers.launch import shifting, tiny
from servers.postgres import PostgresServer
from servers.suite import REVISIONS, run_server_scenarios
from waiting import PATIENCE, wait_until


class Balanced:
    """What clients see of several gateways."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"

    def line(self) -> Line:
        """Return a client whose requests go to one gateway after the other."""
        return Line(cast("Served", self))


@pytest.fixture
def gateways(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[list[Served]]:
    """Three gateways with folders of their own, and with one key and one database; a parameter names servers."""
    monkeypatch.setenv("TOOLCRIB_VAULT_KEY", "a key of many characters")
    (tmp_path / "shop.json").write_text(json.dumps(SHOP), encoding="utf-8")
    servers = {
        "tiny": tiny(start_timeout=PATIENCE),
        "shop": shifting(tmp_path / "shop.json", start_timeout=PATIENCE),
    }
    wanted = getattr(request, "param", tuple(servers))
    servers = {name: servers[name] for name in wanted}
    with ExitStack() as stack:
        running = []
        for name in "abc":
            (tmp_path / name).mkdir()
            place = Place(tmp_path / name, servers, store=database, timeout=PATIENCE, rate_limits=RATE_LIMITS)
            running.append(stack.enter_context(Served(place)))
        yield running


@pytest.fixture
def site(gateways: list[Served]) -> Iterator[Balanced]:
    """All of them at one port."""
    with balanced(gateways) as port:
        yield Balanced(port)


def test_session_is_answered_by_every_gateway(site: Balanced) -> None:
    with site.line() as line:
        session = line.begin()
        assert len({pid_of(line.call("tiny__echo", session)) for _ in range(6)}) == 3


def test_session_of_another_key_or_that_was_ended_is_not_restored(site: Balanced) -> None:
    with site.line() as line:
        session = line.begin()
        assert line.end(session) == 200
        unused = line.begin()
        assert line.end(unused) == 200  # at a gateway that has never seen it
        for name in (unused, session[:-4] + "AAAA", "x" * 5_000, "é"):
            response = line.send(calling("tiny__echo"), name)
            assert response.status == 404, name
            response.read()


def test_answer_to_the_question_of_another_gateway_is_refused(gateways: list[Served]) -> None:
    with Line(gateways[0]) as one, Line(gateways[1]) as other:
        session = one.begin(**FORMS)
        stream = events(one.send(calling("shop__wipe"), session))
        question = next(each for each in stream if each.get("method") == "elicitation/create")
        answer = {"id": question["id"], "result": {"action": "accept", "content": {"confirm": True}}}
        assert other.call("tiny__echo", session)["result"]  # it is restored there
        refused = other.send(answer, session)
        assert refused.status == 409
        assert "another gateway" in last(refused)["error"]["message"]
        with Line(gateways[0]) as right:
            taken = right.send(answer, session)
            taken.read()
            assert taken.status == 202
        *_, done = stream
        assert done["result"]["structuredContent"] == {"called": "wipe"}


def test_confirmation_counts_once_at_all_gateways(site: Balanced) -> None:
    with site.line() as line:
        given = confirmed(line.call_stateless("shop__wipe", can=FORMS))
        answers = [line.call_stateless("shop__wipe", given, FORMS)["result"] for _ in range(4)]
    assert [each["resultType"] for each in answers[1:]] == ["input_required"] * 3
    assert answers[0]["structuredContent"] == {"called": "wipe"}


def test_rate_limit_holds_for_all_gateways_together(site: Balanced) -> None:
    with site.line() as line:
        assert count_allowed([line] * 9, "shop__count") == 5


def test_killed_gateway_costs_only_its_own_calls(site: Balanced, gateways: list[Served]) -> None:
    with site.line() as line, Line(gateways[0]) as doomed:
        session, own = line.begin(), doomed.begin(**FORMS)
        stream = events(doomed.send(calling("shop__wipe"), own))
        assert next(stream)["method"] == "elicitation/create"
        gateways[0].kill()
        assert list(stream) == []  # it breaks off
        for name in (session, own):
            assert len({pid_of(line.call("tiny__echo", name)) for _ in range(4)}) == 2
        gateways[0].start()
        wait_until(lambda: len({pid_of(line.call("tiny__echo", own)) for _ in range(3)}) == 3)


@dataclass
class Load:
    """What clients have done while the database was restarted."""

    done: Event = field(default_factory=Event)
    rounds: int = 0
    """Rounds in which everything was acknowledged."""
    ended: list[str] = field(default_factory=list)
    """The sessions whose end was acknowledged."""
    used: list[Any] = field(default_factory=list)
    """The answers of people that were acknowledged by the result of the call."""
    errors: list[Any] = field(default_factory=list)

    def run(self, site: Balanced) -> None:
        """Begin sessions, use and end them, and confirm calls, until it is done."""
        with site.line() as line:
            while not self.done.is_set():
                self.rounds += self._call(line) + self._confirm(line) == 2

    def _call(self, line: Line) -> bool:
        session = line.begin()
        answer = line.call("tiny__echo", session)
        is_ended = line.end(session)
        if is_ended == 200:
            self.ended.append(session)
        else:
            assert is_ended == 503
        return self._is_done(answer) and is_ended == 200

    def _confirm(self, line: Line) -> bool:
        given = confirmed(line.call_stateless("shop__wipe", can=FORMS))
        answer = line.call_stateless("shop__wipe", given, FORMS)
        if self._is_done(answer):
            self.used.append(given)
            return True
        return False

    def _is_done(self, answer: Any) -> bool:
        found = answer.get("result", {})
        if "structuredContent" in found and not found.get("isError"):
            return True
        self.errors.append(answer)
        return False


def test_restarted_database_loses_nothing_that_was_acknowledged(
    site: Balanced, gateways: list[Served], postgres: PostgresServer
) -> None:
    load = Load()
    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(load.run, site) for _ in range(4)]
        try:
            for restart in (postgres.restart, stop_and_start(postgres, load)):
                before = load.rounds
                wait_until(lambda before=before: load.rounds >= before + 4 or any_failed(running))
                restart()
            before = load.rounds
            wait_until(lambda: load.rounds >= before + 8 or any_failed(running), "it goes on")
        finally:
            load.done.set()
        for each in running:
            each.result(PATIENCE)
    assert all(is_typed(error) for error in load.errors), load.errors
    with ExitStack() as stack:
        lines = [stack.enter_context(Line(gateway)) for gateway in gateways]
        for line in lines:
            assert [is_known(line, session) for session in load.ended] == [False] * len(load.ended)
            for given in load.used:
                answer = line.call_stateless("shop__wipe", given, FORMS)
                assert answer["result"]["resultType"] == "input_required"


def stop_and_start(postgres: PostgresServer, load: Load) -> Callable[[], None]:
    """Return a function that has the database away until some calls have failed."""

    def restart() -> None:
        postgres.stop()
        try:
            before = len(load.errors)
            wait_until(lambda: len(load.errors) > before, "a call needs the database")
        finally:
            postgres.start()

    return restart


def any_failed(running: list[Future[None]]) -> bool:
    return any(each.done() for each in running)


def is_typed(answer: Any) -> bool:
    """Return whether a call was refused because the database was away, and says so."""
    told = answer["error"] if "error" in answer else answer["result"]["_meta"]["toolcrib/error"]
    return "not known" in told["message"] or told.get("code") in {"limit_exceeded", "backend_unavailable"}


def is_known(line: Line, session: str) -> bool:
    response = line.send(calling("tiny__echo"), session)
    response.read()
    return response.status != 404


@pytest.mark.proof
@pytest.mark.parametrize("gateways", [("tiny",)], indirect=True, ids=["tiny"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_conformance_suite_passes_as_behind_one(site: Balanced, revision: str, tmp_path: Path) -> None:
    outcome: Any = run_server_scenarios(site.url, revision, tmp_path)
    failed = {
        name: found
        for name in outcome.checks
        if not conformance.is_apart(name) and (found := conformance.failures(outcome, name))
    }
    assert failed == {}
    assert {name for name in conformance.GENERIC[revision] if outcome.checks.get(name)} == (
        conformance.GENERIC[revision]
    )
