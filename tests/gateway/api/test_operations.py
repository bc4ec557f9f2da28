"""Operations of the HTTP API, against a real gateway."""

import csv
import io
import json
import time
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import anyio
import pytest
from gateway.api.support import console, next_event, started
from pydantic import Field
from waiting import until

from toolcrib.errors import PolicyDeniedError
from toolcrib.execution import Principal
from toolcrib.gateway.api.calls import CallFilter, _size
from toolcrib.gateway.api.routes import find_operation

pytestmark = pytest.mark.anyio

ANN, BEN = (Principal(issuer="tokens", subject=name, client="editor") for name in ("ann", "ben"))
ASK = {"name": "ask", "tools": ["notes:delete_*"], "effect": "ask", "reason": "It cannot be undone."}
REST = {"name": "rest", "effect": "allow"}


async def test_the_user_of_this_machine_is_an_operator() -> None:
    async with console() as (_, browser):
        me = await browser.get("/me")
    assert (me["issuer"], me["client"], me["operator"]) == ("local", "console", True)
    assert "openai" in me["formats"]


async def test_tools_are_listed_page_by_page() -> None:
    async with console() as (_, browser):
        first = await browser.get("/tools", limit=5)
        second = await browser.get("/tools", limit=100, cursor=first["nextCursor"])
        some = await browser.get("/tools", namespace="math")
        spaces = await browser.get("/namespaces")
    ids = [each["id"] for each in (*first["items"], *second["items"])]
    assert len(first["items"]) == 5
    assert first["total"] == len(ids) == 12
    assert ids == sorted(ids)
    assert "nextCursor" not in second
    assert {each["namespace"] for each in some["items"]} == {"math"}
    assert spaces["items"] == ["math", "notes", "text", "time"]


async def test_a_search_says_why_each_tool_was_found() -> None:
    async with console() as (_, browser):
        found = await browser.get("/search", query="mean of some numbers", limit=3)
        nothing = await browser.get("/search", query="book a flight to Lisbon")
    best = found["items"][0]
    assert best["id"] == "math:describe_numbers"
    assert best["confidence"] > 0.5
    assert {"numbers", "mean"} <= {each["text"] for each in best["why"] if each["kind"] == "word"}
    assert "name" in next(each["fields"] for each in best["why"] if each["text"] == "numbers")
    assert sum(each["score"] for each in best["why"]) == pytest.approx(best["score"], abs=1e-4)
    assert "note" in nothing


async def test_a_tool_is_described_and_converted() -> None:
    async with console() as (_, browser):
        short = await browser.get("/tools/math:evaluate", level="summary")
        full = await browser.get("/tools/math%3Aevaluate", level="full")
        made = await browser.post("/convert", ids=["math:evaluate"], to="openai", options={"strict": True})
        unknown = await browser.send("GET", "/tools/math:evaluat")
    assert "tool" not in short
    assert full["tool"]["inputSchema"]["required"] == ["expression"]
    assert made["items"][0]["payload"]["function"]["name"] == "evaluate"
    assert unknown.status_code == 404
    assert "math:evaluate" in unknown.json()["error"]["details"]["suggestions"]


async def test_a_tool_runs_and_the_call_is_remembered_with_its_payload() -> None:
    async with console() as (_, browser):
        events = await browser.run("math:evaluate", {"expression": "6 * 7"})
        failed = await browser.run("math:evaluate", {"expression": "1 / 0"})
        wrong = await browser.run("math:evaluate", {})
        calls = await browser.get("/calls")
        details = [await browser.get(f"/calls/{call['id']}") for call in calls["items"]]
    assert events[-1][0] == "result"
    assert events[-1][1]["structured"] == 42.0
    assert failed[-1][0] == wrong[-1][0] == "error"
    assert wrong[-1][1]["details"]["problems"][0]["message"] == "required property 'expression' is missing"
    assert [call.get("error.type") for call in calls["items"]] == [
        "validation_input",
        "execution_failed",
        None,
    ]
    assert details[2]["payload"]["args"]["text"] == '{"expression":"6 * 7"}'
    assert details[2]["payload"]["result"]["text"] == "42.0"
    assert "1 / 0" in details[1]["payload"]["message"]


async def test_secrets_of_a_call_are_hidden() -> None:
    secret = "sk-proj-" + "a1B2" * 12

    def connect(
        url: str, api_key: str, pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})]
    ) -> str:
        """Connect."""
        return f"{url} with {secret}, {len(api_key) + len(pin)}"

    args = {"url": "db", "api_key": "of-mine", "pin": "1234"}
    async with console(tools=[connect]) as (gateway, browser):
        await browser.run("connect", args)
        payload = (await browser.get(f"/calls/{gateway.console._calls.last_id}"))["payload"]
    shown = json.loads(payload["args"]["text"])
    assert (shown["url"], shown["pin"]) == ("db", "(hidden)")
    assert shown["api_key"] in {"(hidden)", "[secret]"}
    assert secret not in payload["result"]["text"]
    assert payload["result"]["text"].startswith('"db with ')
    assert payload["args"]["bytes"] == len(json.dumps(args, separators=(",", ":")))


async def test_a_payload_is_cut_and_the_oldest_are_dropped() -> None:
    def repeat(text: str) -> str:
        """Return it."""
        return text

    async with console(tools=[repeat]) as (gateway, browser):
        text = "ä" * 20_000
        for _ in range(1_100):
            await gateway.crib.run("repeat", {"text": text})
        log = gateway.console._calls
        newest = (await browser.get(f"/calls/{log.last_id}"))["payload"]
        oldest = await browser.get(f"/calls/{log._rows[0].id}")
    assert newest["result"]["cut"]
    assert newest["result"]["bytes"] == 2 + 2 * len(text)
    assert len(newest["result"]["text"].encode()) <= 16 * 1024
    assert "payload" not in oldest
    assert sum(map(_size, log._payloads.values())) == log._payload_bytes <= 32 * 2**20


async def test_the_calls_of_a_chain_are_shown_together_with_their_stages() -> None:
    steps = [
        {"id": "sum", "toolId": "math:evaluate", "args": {"expression": "2 + 3"}},
        {"id": "note", "toolId": "notes:add", "args": {"text": "five"}},
    ]
    async with console() as (gateway, browser):
        await gateway.crib.run("time:current_time", {})
        await gateway.crib.run_chain(steps)
        call = await browser.get(f"/calls/{gateway.console._calls.last_id}")
    assert [each["gen_ai.tool.name"] for each in call["request"]] == ["math:evaluate", "notes:add"]
    stages = call["payload"]["stages"]
    assert [each["name"] for each in stages] == ["resolve", "check", "local:notes:add"]
    assert stages[0]["began"] >= 0
    assert all(one["ended"] == next_one["began"] for one, next_one in pairwise(stages))
    assert stages[-1]["ended"] == pytest.approx(call["toolcrib.duration"])


async def test_progress_is_sent_while_a_tool_runs() -> None:
    from toolcrib.model.context import Context  # noqa: PLC0415 - for this tool alone

    async def climb(context: Context) -> int:
        """Climb some stairs."""
        for step in range(3):
            await context.progress(step + 1, 3, f"step {step + 1}")
        return 3

    async with console([climb]) as (_, browser):
        events = await browser.run("climb")
    told = [data for kind, data in events if kind == "progress"]
    assert {"progress": 3.0, "total": 3.0, "message": "step 3"} in told
    assert events[-1] == ("result", events[-1][1])
    assert events[-1][1]["structured"] == 3


async def test_a_destructive_tool_runs_when_the_person_has_agreed_to_this_very_call() -> None:
    async with console() as (_, browser):
        await browser.run("notes:add", {"text": "keep me"})
        (asked,) = await browser.run("notes:delete_all")
        left = await browser.run("notes:show")
        other = await browser.run("notes:delete_all", confirmed="run-of-something-else")
        done = await browser.run("notes:delete_all", confirmed=asked[1]["key"])
    assert asked[0] == other[-1][0] == "question"
    assert "may destroy" in asked[1]["text"]
    assert len(left[-1][1]["structured"]) == 1
    assert done[-1][1]["structured"] == 1


async def test_a_call_ends_when_the_browser_leaves() -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def wait() -> None:
        """Wait."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with console([wait]) as (_, browser), anyio.create_task_group() as tasks:
        tasks.start_soon(browser.run, "wait")
        await started.wait()
        running = await browser.get("/calls/running")
        tasks.cancel_scope.cancel()
    assert [each["toolId"] for each in running["items"]] == ["wait"]
    assert ended.is_set()


async def test_calls_are_filtered_paged_and_exported() -> None:
    async with console() as (gateway, browser):
        for number in range(7):
            await gateway.crib.run(
                "math:evaluate", {"expression": str(number)}, principal=(ANN, BEN)[number % 2]
            )
        await gateway.crib.run("text:make_slug", {"title": "=1+1"}, principal=ANN)
        first = await browser.get("/calls", limit=3, tool="math:*")
        second = await browser.get("/calls", limit=100, tool="math:*", cursor=first["nextCursor"])
        own = await browser.get("/calls", who="ann")
        text = await browser.get("/calls", text="SLUG")
        later = await browser.get("/calls", since=time.time() + 60)
        callers = await browser.get("/calls/callers")
        table = await browser.send("GET", "/calls/export", params={"format": "csv", "who": "ann"})
        whole = await browser.get("/calls/export", format="json")
    ids = [call["id"] for call in (*first["items"], *second["items"])]
    assert first["total"] == len(ids) == 7
    assert ids == sorted(ids, reverse=True)
    assert (own["total"], text["total"], later["total"]) == (5, 1, 0)
    assert callers["who"] == ["ann", "ben"]
    assert callers["outcomes"] == ["ok"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == 5
    assert {row["user.id"] for row in rows} == {"ann"}
    assert table.headers["content-disposition"] == 'attachment; filename="calls.csv"'
    assert len(whole["calls"]) == 8


async def test_no_cell_of_an_export_is_a_formula() -> None:
    async with console() as (gateway, browser):
        evil = Principal(issuer="tokens", subject="=HYPERLINK(1)", client="+1")
        await gateway.crib.run("notes:show", {}, principal=evil)
        table = await browser.send("GET", "/calls/export", params={"format": "csv"})
    (row,) = csv.DictReader(io.StringIO(table.text))
    assert (row["user.id"], row["toolcrib.client"]) == ("'=HYPERLINK(1)", "'+1")


async def test_an_overview_counts_what_was_called() -> None:
    async with console() as (gateway, browser):
        for expression in ("1", "2", "1 / 0"):
            await browser.run("math:evaluate", {"expression": expression})
        overview = await browser.get("/overview", minutes=5)
        tokens = await browser.get("/tokens")
    assert (overview["calls"], overview["failed"], overview["tools"]) == (3, 1, 12)
    assert sum(overview["series"]["calls"]) == 3
    assert overview["top"][0]["toolId"] == "math:evaluate"
    assert overview["p95"] >= overview["p50"] > 0
    assert tokens["tools"] == len(tokens["items"]) == 12
    assert tokens["direct"] == sum(each["tokens"] for each in tokens["items"])
    assert gateway.crib.audit_status is None


async def test_a_server_that_fails_says_why_and_what_repairs_it() -> None:
    code = "import sys; print('the disk is full', file=sys.stderr); sys.exit(3)"
    broken = started("-c", code)
    off = {"command": "true", "disabled": True}
    async with console(servers={"broken": broken, "off": off}) as (gateway, browser):
        await until(lambda: gateway.crib.status()["broken"].state == "failed")
        lines = {each["name"]: each for each in (await browser.get("/servers"))["items"]}
        log = await browser.get("/servers/broken/log")
        again = await browser.post("/servers/broken/start")
        unknown = await browser.send("POST", "/servers/nothing/start")
        overview = await browser.get("/overview")
    line = lines["broken"]
    assert (line["healthy"], line["repair"]) == (False, "start")
    assert line["why"].endswith("the disk is full")
    assert lines["off"]["repair"] == "config"
    assert log["text"].strip() == "the disk is full"
    assert again["healthy"] is False
    assert unknown.status_code == 503
    assert overview["unhealthy"] == ["broken"]


async def test_a_server_is_stopped_and_started() -> None:
    server = started("-m", "mcp_server_time")
    async with console(servers={"clock": server}) as (gateway, browser):
        await until(lambda: gateway.crib.status()["clock"].state == "ready")
        stopped = await browser.post("/servers/clock/stop")
        refused = await browser.run("clock:get_current_time", {"timezone": "UTC"})
        await until(lambda: not gateway.crib.status()["clock"].pid)
        again = await browser.post("/servers/clock/start")
        done = await browser.run("clock:get_current_time", {"timezone": "UTC"})
    assert stopped["paused"] is True
    assert refused[-1][0] == "error"
    assert "stopped at the console" in refused[-1][1]["message"]
    assert (again["state"], again.get("paused", False)) == ("ready", False)
    assert done[-1][0] == "result"


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_that_a_rule_asks_about_waits_for_an_operator(approve: bool) -> None:
    outcome: list[Any] = []

    async def call(gateway: Any) -> None:
        try:
            outcome.append((await gateway.crib.run("notes:delete_all", {}, principal=ANN)).structured)
        except PolicyDeniedError as error:
            outcome.append(str(error))

    async with console(policy=[ASK, REST]) as (gateway, browser), browser.events() as events:
        await next_event(events, "hello")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, gateway)
            (waits,) = (await next_event(events, "approvals"))["items"]
            listed = await browser.get("/approvals")
            await browser.post(f"/approvals/{waits['id']}", approve=approve)
        late = await browser.send("POST", f"/approvals/{waits['id']}", json={"approve": True})
        assert (await next_event(events, "approvals"))["items"] == []
    assert (waits["toolId"], waits["rule"], waits["subject"]) == ("notes:delete_all", "ask", "ann")
    assert listed["items"] == [waits]
    assert late.status_code == 404
    assert outcome == [0] if approve else "declined at the console" in outcome[0]


async def test_call_of_a_shaped_tool_waits_as_its_caller_made_it_and_as_it_is_sent() -> None:
    shape = {"name": "order", "rename": {"number": "order_number"}, "fix": {"currency": "EUR"}}
    rules = [{"name": "ask", "tools": ["shop:buy"], "effect": "ask"}, REST]
    toolsets = {"team": {"tools": {"shop:buy": shape}}}
    sent: list[Any] = []

    def buy(number: int, currency: str) -> None:
        """Buy an item by its number."""
        sent.append((number, currency))

    async with console(policy=rules, toolsets=toolsets) as (gateway, browser), browser.events() as events:
        gateway.crib.add(buy, namespace="shop")
        await next_event(events, "hello")
        async with anyio.create_task_group() as tasks:
            team = gateway.crib.view("team")
            tasks.start_soon(partial(team.run, "shop:order", {"order_number": 7}, principal=ANN))
            (waits,) = (await next_event(events, "approvals"))["items"]
            await browser.post(f"/approvals/{waits['id']}", approve=True)
    assert (waits["toolId"], json.loads(waits["args"])) == ("shop:buy", {"number": 7, "currency": "EUR"})
    assert waits["seenAs"]["toolId"] == "shop:order"
    assert json.loads(waits["seenAs"]["args"]) == {"order_number": 7}
    assert sent == [(7, "EUR")]


async def test_a_call_does_not_wait_where_nobody_looks() -> None:
    async with console(policy=[ASK, REST]) as (gateway, _):
        with pytest.raises(PolicyDeniedError, match="no operator has the console open"):
            await gateway.crib.run("notes:delete_all", {}, principal=ANN)


async def test_a_call_that_nobody_answers_is_refused() -> None:
    settings = {"policy": [ASK, REST], "console": {"approval_timeout": 0.05}}
    async with console(**settings) as (gateway, browser), browser.events() as events:
        await next_event(events, "hello")
        with pytest.raises(PolicyDeniedError, match=r"no operator of the console answered within 0\.05 s"):
            await gateway.crib.run("notes:delete_all", {}, principal=ANN)


async def test_access_is_explained_and_rules_are_simulated() -> None:
    deny = {"name": "no writing", "who": ["token:ben"], "tools": ["notes:*"], "effect": "deny"}
    tokens = {"ben": {"hash": "sha256:" + "0" * 64}}
    async with console(policy=[deny, ASK, REST], gateway={"tokens": tokens}) as (gateway, browser):
        no = await browser.post("/access", toolId="notes:add", subject="token:ben")
        yes = await browser.post("/access", toolId="notes:add", subject="token:ann")
        await gateway.crib.run("notes:show", {}, principal=ANN)
        rules = await browser.get("/access/rules")
        kept = await browser.post("/access/simulate")
        other = await browser.post("/access/simulate", rules=[{"name": "closed", "effect": "deny"}])
        wrong = await browser.send(
            "POST", "/access/simulate", json={"rules": [{"name": "x", "effect": "maybe"}]}
        )
        named = await browser.get("/access/tokens")
    assert (no["effect"], no["rule"]) == ("deny", "no writing")
    assert (yes["effect"], yes["rule"]) == ("allow", "rest")
    assert [rule["name"] for rule in rules["items"]] == ["no writing", "ask", "rest"]
    assert [each["effect"] for each in kept["decisions"]] == ["allow"]
    assert [each["effect"] for each in other["decisions"]] == ["deny"]
    assert wrong.status_code == 400
    assert [each["name"] for each in named["items"]] == ["ben"]
    assert "sha256" not in str(named)


async def test_the_configuration_is_shown_without_secrets() -> None:
    server = {"command": "true", "args": ["--key", "s3cret"], "env": {"KEY": "s3cret"}, "disabled": True}
    settings = {"servers": {"one": server}, "gateway": {"token": "s3cret-token"}, "timeout": 7}
    async with console(**settings) as (_, browser):
        shown = await browser.get("/config")
    assert "s3cret" not in str(shown)
    general = {each["name"]: each for each in shown["sections"][0]["settings"]}
    assert general["timeout"] == {"name": "timeout", "value": 7.0, "set": True}
    assert {"servers.one", "gateway", "console"} <= {section["name"] for section in shown["sections"]}


async def test_events_are_sent_to_listeners() -> None:
    async with console() as (gateway, browser), browser.events() as events:
        await next_event(events, "hello")
        await gateway.crib.run("notes:show", {}, principal=ANN)
        calls = await next_event(events, "calls")

        def added() -> None:
            """Do nothing."""

        gateway.crib.add(added)
        assert (await next_event(events, "catalogue"))["tools"] == 13
    assert [call["gen_ai.tool.name"] for call in calls["items"]] == ["notes:show"]


async def test_bad_requests_say_what_is_wrong() -> None:
    async with console() as (_, browser):
        answers = {
            "no query": await browser.send("GET", "/search"),
            "limit": await browser.send("GET", "/tools", params={"limit": 0}),
            "unknown": await browser.send("GET", "/tools", params={"limits": 1}),
            "no json": await browser.send("POST", "/run", content=b"{"),
            "no tool": await browser.send("POST", "/run", json={"args": {}}),
            "level": await browser.send("GET", "/tools/math:evaluate", params={"level": "deep"}),
            "cursor": await browser.send("GET", "/tools", params={"cursor": "nonsense"}),
            "method": await browser.send("POST", "/tools"),
            "path": await browser.send("GET", "/nothing"),
            "call": await browser.send("GET", "/calls/99999"),
        }
    statuses = {name: answer.status_code for name, answer in answers.items()}
    assert statuses == {
        "no query": 400,
        "limit": 400,
        "unknown": 400,
        "no json": 400,
        "no tool": 400,
        "level": 400,
        "cursor": 400,
        "method": 405,
        "path": 404,
        "call": 404,
    }
    assert all(answer.json()["error"]["message"] for answer in answers.values())
    assert answers["method"].headers["allow"] == "GET"


async def test_the_document_describes_every_operation(tmp_path: Any) -> None:
    async with console() as (gateway, browser):
        document = (await browser.http.get("/api/openapi.json")).json()
        site = gateway.console
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                found = find_operation(
                    site._routes,
                    method.upper(),
                    path.removeprefix("/api/v1").replace("{", "").replace("}", ""),
                )
                assert not isinstance(found, set), path
                assert found[0].summary == operation["summary"]
        assert sum(len(methods) for methods in document["paths"].values()) == len(site._routes)
        assert document == site.document()
    file = tmp_path / "api.json"
    import json  # noqa: PLC0415 - for this alone

    file.write_text(json.dumps(document))
    from toolcrib.crib import Crib  # noqa: PLC0415 - as above

    address = {"document": str(file), "base_url": browser.url, "allow_private": True}
    async with Crib({"openapi": {"console": address}}) as crib:
        await crib.ready()
        names = {each.name for each in crib.index.list_all()}
    assert {"search", "describe", "overview"} <= names  # our own reader of such documents takes it


async def test_answers_fit_the_document() -> None:
    from toolcrib.model import DefaultValidator  # noqa: PLC0415 - for this alone

    server = started("-c", "raise SystemExit(1)")
    async with console(servers={"broken": server}, policy=[ASK, REST]) as (gateway, browser):
        await until(lambda: gateway.crib.status()["broken"].state == "failed")
        await browser.run("math:evaluate", {"expression": "1"})
        document = gateway.console.document()
        for path, methods in document["paths"].items():
            if "get" not in methods or "{" in path or path.endswith(("/events", "/export")):
                continue
            query = {"query": "numbers"} if path.endswith("/search") else {}
            answer = await browser.get(path.removeprefix("/api/v1"), **query)
            schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            DefaultValidator().validate(_closed(schema, document), answer)


def _closed(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the definitions that it refers to."""
    import json  # noqa: PLC0415 - for this alone

    text = json.dumps({**schema, "$defs": document["components"]["schemas"]})
    return json.loads(text.replace("#/components/schemas/", "#/$defs/"))


async def test_a_hundred_thousand_calls_are_listed_in_no_time() -> None:
    async with console(console={"calls": 100_000}) as (gateway, browser):
        log = gateway.console._calls
        await browser.run("math:evaluate", {"expression": "1"})
        row = next(log.newest(CallFilter()))
        log._rows.extend(row._replace(id=number) for number in range(10, 100_010))
        page = await browser.get("/calls", limit=500)
        last = await browser.get("/calls", limit=500, cursor=200)
    assert page["total"] == 100_000
    assert len(page["items"]) == 500
    assert last["items"][0]["id"] == 199


async def test_a_gateway_that_stops_ends_the_streams() -> None:
    async with console() as (gateway, browser), browser.events() as events:
        await next_event(events, "hello")
        gateway.end_listening()
        assert [kind async for kind, _ in events] in ([], ["alive"])
