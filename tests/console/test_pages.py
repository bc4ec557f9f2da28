"""Every page, as people use it."""

import hashlib
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from console.screen import PAGES, Chromium, Screen, console
from gateway.little_face import serving
from playwright.async_api import expect
from waiting import until

from toolcrib.errors import PolicyDeniedError, RunStateError, ToolcribError
from toolcrib.execution import Principal
from toolcrib.execution.principal import local_user
from toolcrib.gateway import Gateway
from toolcrib.gateway.api.calls import CallFilter
from toolcrib.setup.demo import _CALLERS, _CALLS, _tools

pytestmark = [pytest.mark.anyio, pytest.mark.proof]
ASK = {
    "name": "ask before deleting",
    "tools": ["*:delete_*"],
    "effect": "ask",
    "reason": "It cannot be undone.",
}
REST = {"name": "the rest", "effect": "allow"}
BROKEN = {
    "command": sys.executable,
    "args": ["-c", "import sys; print('no disk', file=sys.stderr); sys.exit(3)"],
}
CLOCK = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}


async def play(gateway: Gateway) -> None:
    for place, (tool_id, args) in enumerate(_CALLS):
        with suppress(ToolcribError):  # some of them are wrong
            await gateway.crib.run(tool_id, args, principal=_CALLERS[place % 3])


LOOKS = {"light": (1280, 800), "dark": (1280, 800), "small": (360, 740)}


@pytest.mark.parametrize("look", LOOKS)
async def test_nothing_keeps_people_out_of_a_page(chromium: Chromium, look: str) -> None:
    width, height = LOOKS[look]
    scheme = "dark" if look == "dark" else "light"
    found: dict[str, list[str]] = {}
    async with console(servers={"broken": BROKEN, "clock": CLOCK}, policy=[ASK, REST]) as gateway:
        await play(gateway)
        await until(lambda: gateway.crib.status()["broken"].state == "failed")
        await until(lambda: gateway.crib.status()["clock"].state == "ready")
        async with (
            chromium.logged_in(gateway, width=width, height=height, scheme=scheme) as screen,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_call_quietly, gateway, "notes:delete_all")
            await until(gateway.approvals.waiting)
            last = gateway.console._calls.last_id
            places = (
                *PAGES,
                f"calls/{last}",
                "servers/broken",
                "tools?q=average%20of%20numbers",
                "tools/math%3Aconvert_length",
                "access?tab=rules",
                "access?tab=simulate",
                "access?tab=keys",
            )
            await screen.open("overview")
            await expect(screen.page.get_by_text("A call is waiting for you")).to_be_visible()
            for place in places:
                await screen.open(place)
                name = place.replace("/", "-").replace("?", "-")[:24]
                await screen.picture(f"{name}-{look}")
                found[place] = await screen.find_barriers()
                wide = await screen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, place
            gateway.approvals.answer(gateway.approvals.waiting()[0].id, approve=False, by="the test")
    assert {place: barriers for place, barriers in found.items() if barriers} == {}


async def _call_quietly(gateway: Gateway, tool_id: str) -> None:
    with suppress(PolicyDeniedError):  # it is refused at the end
        await gateway.crib.run(tool_id, {}, principal=_CALLERS[0])


async def test_a_newcomer_is_told_what_to_do(chromium: Chromium) -> None:
    async with console(tools=[]) as gateway, chromium.logged_in(gateway) as screen:
        for place, said in {
            "overview": "No calls yet",
            "servers": "No servers yet",
            "tools": "No tools yet",
            "calls": "No calls yet",
            "changes": "Nothing has changed",
            "approvals": "Nothing is waiting",
            "access?tab=rules": "No rules",
            "access?tab=keys": "No tokens",
            "runs": "No durable runs",
            "tokens": "No tools to count",
        }.items():
            await screen.open(place)
            await expect(screen.page.get_by_role("heading", name=said).first).to_be_visible()
            assert await screen.find_barriers() == []


async def test_a_page_without_a_login_says_how_to_get_one(chromium: Chromium) -> None:
    tokens = {"ann": {"hash": f"sha256:{'0' * 64}"}}
    async with console(gateway={"tokens": tokens}) as gateway:
        link = str(gateway.make_console_link())
        async with chromium.screen(link) as screen:
            await screen.page.goto(link.partition("/console/")[0])
            await expect(screen.page.get_by_text("toolcrib console", exact=True)).to_be_visible()
            assert await screen.find_barriers() == []
            await screen.picture("log-in-light")
            screen.expected = ["401"]
            await screen.page.get_by_text("Log in with a token").click()
            await screen.page.get_by_label("Token").fill("wrong")
            await screen.page.get_by_role("button", name="Log in").click()
            await expect(screen.page.get_by_role("alert")).to_contain_text("the token is not known here")
            await screen.page.goto(link)
            await screen.page.wait_for_selector("nav")
            assert "login=" not in screen.page.url
            await screen.page.reload()
            await screen.page.wait_for_selector("nav")
            await screen.page.get_by_role("button", name="Log out").click()
            await expect(screen.page.get_by_text("Open the console")).to_be_visible()
            await screen.page.goto(link)
            await expect(screen.page.get_by_role("alert")).to_contain_text("already been used")


async def test_a_tool_is_found_and_run(chromium: Chromium) -> None:
    async with console() as gateway, chromium.logged_in(gateway) as screen:
        page = screen.page
        await screen.open("tools")
        await page.keyboard.press("/")
        await page.keyboard.type("miles to kilometres")
        first = page.get_by_role("table", name="Tools").get_by_role("row").first
        await expect(first).to_contain_text("math:convert_length")
        await expect(first).to_contain_text("%")
        await expect(first).to_contain_text("“miles” in")
        await first.get_by_role("button").click()
        await page.get_by_role("tab", name="Run").click()
        await page.get_by_label("value").fill("26.2")
        await page.get_by_label("unit").select_option(label="mi")
        await page.locator("#arg-2").select_option(label="km")
        await page.get_by_role("button", name="Save the request").click()
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_contain_text("42.16")
        await screen.picture("tools-run-light")
        assert await screen.find_barriers() == []
        await page.reload()
        await page.get_by_role("list", name="Saved requests").get_by_role("button").first.click()
        await expect(page.get_by_label("value")).to_have_value("26.2")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_contain_text("42.16")
        await page.get_by_role("tab", name="Convert").click()
        await expect(page.get_by_role("region", name="Definition")).to_contain_text('"type": "function"')
        await page.get_by_role("tab", name="anthropic").click()
        await expect(page.get_by_role("region", name="Definition")).to_contain_text("input_schema")
        await screen.open("calls")
        await expect(page.get_by_role("table", name="Calls").get_by_role("row").nth(2)).to_contain_text(
            "convert_length"
        )


async def test_form_sends_arguments_of_the_schema(chromium: Chromium) -> None:
    got: list[Any] = []

    def order(
        items: list[str], count: int, ratio: float, fast: bool, where: dict[str, Any], note: str | None = None
    ) -> int:
        """Order things."""
        got.append([items, count, ratio, fast, where, note])
        return count

    async with console(tools=[order]) as gateway, chromium.logged_in(gateway) as screen:
        page = screen.page
        await screen.open("tools/order")
        await page.get_by_role("tab", name="Run").click()
        await page.get_by_label("items").fill("nail\nscrew")
        await page.get_by_label("count").fill("3")
        await page.get_by_label("ratio").fill("0.5")
        await page.get_by_label("fast").select_option(label="yes")
        await page.get_by_label("where").fill("{")
        await expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()
        await page.get_by_label("where").fill('{"city": "Lisbon"}')
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_contain_text("3")
        await page.get_by_role("button", name="As JSON").click()
        await expect(page.get_by_label("Arguments as JSON")).to_have_value(
            json.dumps(
                json.loads(
                    '{"items": ["nail", "screw"], "count": 3, "ratio": 0.5, "fast": true, "where": {"city": "Lisbon"}}'
                ),
                indent=2,
            )
        )
    assert got == [[["nail", "screw"], 3, 0.5, True, {"city": "Lisbon"}, None]]


async def test_a_destructive_tool_asks_the_person_first(chromium: Chromium) -> None:
    async with console() as gateway, chromium.logged_in(gateway) as screen:
        await gateway.crib.run("notes:add", {"text": "keep"})
        page = screen.page
        await screen.open("tools/notes%3Adelete_all")
        await page.get_by_role("tab", name="Run").click()
        await page.get_by_role("button", name="Run", exact=True).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("may destroy")
        assert await screen.find_barriers() == []
        await page.keyboard.press("Escape")
        assert len((await gateway.crib.run("notes:show", {})).structured) == 1
        await page.get_by_role("button", name="Run", exact=True).click()
        await dialog.get_by_role("button", name="Run it", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_contain_text("1")
        assert (await gateway.crib.run("notes:show", {})).structured == []


async def test_a_run_shows_progress_and_is_cancelled(chromium: Chromium) -> None:
    from toolcrib.model.context import Context  # noqa: PLC0415 - for this tool alone

    ended = anyio.Event()

    async def climb(context: Context) -> None:
        """Climb for ever."""
        try:
            await context.progress(2, 5, "second floor")
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with console(tools=[climb]) as gateway, chromium.logged_in(gateway) as screen:
        await screen.open("tools/climb")
        await screen.page.get_by_role("tab", name="Run").click()
        await screen.page.get_by_role("button", name="Run", exact=True).click()
        await expect(screen.page.get_by_text("2 of 5")).to_be_visible()
        await expect(screen.page.get_by_text("1 running")).to_be_visible()
        await screen.page.get_by_role("button", name="Cancel").click()
        await expect(screen.page.get_by_text("you cancelled the call")).to_be_visible()
        await ended.wait()


async def _try(gateway: Gateway, outcome: list[str]) -> None:
    try:
        await gateway.crib.run("notes:delete_all", {}, principal=_CALLERS[0])
        outcome.append("ran")
    except PolicyDeniedError as error:
        outcome.append(str(error))


async def test_a_call_is_approved_and_another_denied_while_two_people_look(chromium: Chromium) -> None:
    outcome: list[str] = []
    async with (
        console(policy=[ASK, REST]) as gateway,
        chromium.logged_in(gateway) as one,
        chromium.logged_in(gateway) as two,
        anyio.create_task_group() as tasks,
    ):
        for screen in (one, two):
            await expect(screen.page.get_by_text("Live", exact=True)).to_be_visible()
            await screen.open("approvals")
        tasks.start_soon(_try, gateway, outcome)
        for screen in (one, two):
            await expect(screen.page.get_by_role("button", name="Approve")).to_be_visible()
            await expect(screen.page.get_by_text("It cannot be undone.")).to_be_visible()
        await one.page.get_by_role("button", name="Approve").click()
        for screen in (one, two):
            await expect(screen.page.get_by_role("heading", name="Nothing is waiting")).to_be_visible()
        tasks.start_soon(_try, gateway, outcome)
        await two.page.get_by_role("button", name="Deny").click()
        await expect(one.page.get_by_role("heading", name="Nothing is waiting")).to_be_visible()
    assert outcome[0] == "ran"
    assert "declined at the console" in outcome[1]


async def test_a_server_is_repaired_in_its_row(chromium: Chromium, tmp_path: Any) -> None:
    flag = tmp_path / "disk"
    code = f"import os, runpy, sys; os.path.exists({str(flag)!r}) or sys.exit('no disk'); runpy.run_module('mcp_server_time', run_name='__main__')"
    server = {"command": sys.executable, "args": ["-c", code]}
    async with console(servers={"clock": server}) as gateway:
        await until(lambda: gateway.crib.status()["clock"].state == "failed")
        async with chromium.logged_in(gateway) as screen:
            page = screen.page
            await screen.open("servers")
            row = page.get_by_role("listitem").filter(has_text="clock")
            await expect(row).to_contain_text("no disk")
            await row.get_by_role("button", name="Start again").click()
            await screen.settle()
            await expect(row).to_contain_text("no disk")
            flag.touch()
            await row.get_by_role("button", name="Start again").click()
            await expect(row).to_contain_text("Ready")
            await row.get_by_role("button", name="Stop").click()
            await expect(row).to_contain_text("Stopped")
            await row.get_by_role("button", name="Start").click()
            await expect(row).to_contain_text("Ready")
            await row.get_by_role("link", name="clock").click()
            await expect(page.get_by_label("clock", exact=True)).to_contain_text("Standard error")
            await page.keyboard.press("Escape")
            await expect(page.get_by_label("clock", exact=True)).to_have_count(0)


async def test_calls_appear_as_they_happen_and_are_filtered(chromium: Chromium) -> None:
    async with console() as gateway, chromium.logged_in(gateway) as screen:
        page = screen.page
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        await screen.open("calls")
        await play(gateway)
        rows = page.get_by_role("table", name="Calls").get_by_role("row")
        await expect(rows).to_have_count(len(_CALLS) + 1)
        await page.get_by_label("Any outcome").select_option("failed")
        await expect(rows).to_have_count(4)
        await rows.nth(1).get_by_role("button").click()
        await expect(page.get_by_role("complementary")).to_contain_text("Outcome")
        await page.keyboard.press("Escape")
        await page.get_by_label("Any outcome").select_option("")
        await page.get_by_label("Tool, caller or outcome").fill("ben")
        await expect(page.get_by_text("that match")).to_be_visible()
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="Export CSV").click()
        text = (await (await saved.value).path()).read_text()
        assert text.startswith("id,time,")
        assert "anna" not in text
        await page.get_by_role("tab", name="Lanes").click()
        await expect(page.get_by_role("group", name="One lane for each caller")).to_contain_text(
            "ben via cursor"
        )
        assert await screen.find_barriers() == []


async def test_long_lists_hold_few_rows(chromium: Chromium) -> None:
    from toolcrib.model import LocalBackend, Tool  # noqa: PLC0415 - for this alone

    async with console(console={"calls": 100_000}) as gateway:
        log = gateway.console._calls
        await gateway.crib.run("math:evaluate", {"expression": "1"}, principal=_CALLERS[0])
        row = next(log.newest(CallFilter()))
        log._rows.extend(row._replace(id=number) for number in range(10, 100_010))
        backend = LocalBackend(name="math:evaluate")
        tools = [
            Tool(name=f"tool_{n:05}", namespace="many", description=f"Does {n}.", input_schema={})
            for n in range(10_000)
        ]
        gateway.crib.discovery.register_many([(tool, backend) for tool in tools])
        async with chromium.logged_in(gateway) as screen:
            for name, end in (("calls", 100_000), ("tools", 10_012)):
                await screen.open(name)
                await expect(screen.page.get_by_text(f"{end:,}")).to_be_visible()
                drawn = await screen.page.locator(".list-body [role=row]").count()
                assert drawn < 100
                for _ in range(4):
                    await screen.page.evaluate("document.querySelector('.list-body').scrollTo(0, 1e9)")
                    await screen.settle()
                assert await screen.page.locator(".list-body [role=row]").count() < 100


async def test_the_page_comes_back_after_the_gateway(chromium: Chromium) -> None:
    first = Gateway({}, tools=_tools())
    async with first:
        async with serving(first) as url:
            port = int(url.rpartition(":")[2])
            link = str(first.make_console_link())
            context = chromium.screen(link)
            screen: Screen = await context.__aenter__()
            await screen.page.goto(link)
            await expect(screen.page.get_by_text("Live", exact=True)).to_be_visible()
        await expect(screen.page.get_by_text("Connection lost")).to_be_visible()
        ready = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: first.serve_http(port=port, on_ready=lambda _: ready.set()))
            await ready.wait()
            await expect(screen.page.get_by_text("Live", exact=True)).to_be_visible()
            await screen.open("tools")
            await expect(screen.page.get_by_text("12 tools")).to_be_visible()
            tasks.cancel_scope.cancel()
    await context.__aexit__(None, None, None)


CODE = """\
length = await math.convert_length(value=26.2, unit="mi", to="km")
for text in ["one", "two"]:
    await notes.add(text=text)
__out = round(length, 1)
"""
CHAIN = [
    {"id": "length", "toolId": "math:convert_length", "args": {"value": 26.2, "unit": "mi", "to": "km"}},
    {
        "parallel": [
            {"id": "a", "toolId": "notes:add", "args": {"text": "x"}},
            {"id": "b", "toolId": "text:make_slug", "args": {"title": "A b"}},
        ]
    },
    {"id": "page", "toolId": "text:make_slug", "args": {"title": {"$ref": "steps.b"}}},
]


async def test_runs_are_begun_and_shown_with_their_calls(chromium: Chromium) -> None:
    async with console(runs={"store": "memory"}) as gateway, chromium.logged_in(gateway) as screen:
        page = screen.page
        await screen.open("runs")
        await page.get_by_role("button", name="New run").click()
        await page.get_by_label("Python that calls tools").fill(CODE)
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_contain_text("42.2")
        await page.get_by_role("button", name="Show its calls").click()
        code = page.get_by_role("list", name="Code")
        await expect(code.get_by_role("listitem").nth(0)).to_contain_text("done")
        await expect(code.get_by_role("listitem").nth(2)).to_contain_text("2 calls")
        await code.get_by_role("button", name="2 calls").click()
        await expect(page.get_by_role("heading", name="Calls of line 3")).to_be_visible()
        await expect(page.get_by_role("region", name="Arguments of call")).to_have_count(2)
        assert await screen.find_barriers() == []
        await screen.picture("runs-code-light")
        await gateway.crib.run_chain(CHAIN, durable=True, principal=local_user("console"))
        await page.get_by_role("button", name="Read again").click()
        lines = page.get_by_role("list").locator(".run-line")
        await expect(lines).to_have_count(2)
        await lines.first.get_by_role("button").click()
        steps = page.get_by_role("list", name="Steps").get_by_role("listitem")
        await expect(steps).to_have_count(5)
        await expect(steps.nth(4)).to_contain_text("uses b")
        await steps.nth(4).get_by_role("button").click()
        await expect(page.get_by_role("region", name="Result of the step")).to_contain_text("a-b")
        assert await screen.find_barriers() == []
        await screen.picture("runs-chain-light")


async def test_a_run_is_cancelled_and_resumed(chromium: Chromium) -> None:
    held: list[str] = []

    async def hold(text: str) -> str:
        """Hold."""
        held.append(text)
        await anyio.sleep_forever()
        return text

    async with (
        console(tools=[hold], runs={"store": "memory"}) as gateway,
        chromium.logged_in(gateway) as screen,
        anyio.create_task_group() as tasks,
    ):
        page = screen.page
        ends: list[str] = []

        async def run() -> None:
            try:
                await gateway.crib.execute(
                    '__out = await hold(text="x")', durable=True, principal=local_user("console")
                )
            except RunStateError as error:
                ends.append(str(error))

        tasks.start_soon(run)
        await until(lambda: held)
        await screen.open("runs")
        await page.locator(".run-line").get_by_role("button").click()
        await expect(page.get_by_role("list", name="Code")).to_contain_text("running")
        await page.reload()
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("list", name="Code")).to_contain_text("may have run")
        await until(lambda: ends)
        assert "can be resumed" in ends[0]
        assert await screen.find_barriers() == []
        await page.get_by_label("Answer of").fill('"by hand"')
        await page.get_by_role("button", name="Go on").click()
        await expect(page.get_by_role("region", name="Result of the run")).to_contain_text("by hand")


async def test_a_call_shows_where_its_time_went(chromium: Chromium) -> None:
    async with console(runs={"store": "memory"}) as gateway, chromium.logged_in(gateway) as screen:
        await gateway.crib.run_chain(CHAIN)
        await screen.open(f"calls/{gateway.console._calls.last_id}")
        fall = screen.page.get_by_role("region", name="Where the time went")
        await expect(fall.get_by_role("link")).to_have_count(3)
        await expect(fall).to_contain_text("Rules and arguments")
        await expect(fall).to_contain_text("On local:text:make_slug")
        assert await screen.find_barriers() == []
        await screen.picture("calls-trace-light")
        await fall.get_by_role("link").first.click()
        await expect(fall).to_contain_text("On local:math:convert_length")


async def test_a_link_lets_somebody_without_a_login_answer_one_call(chromium: Chromium) -> None:
    outcome: list[str] = []
    hook = {"url": "https://localhost:1/", "secret": "of-the-webhook-and-nobody-else"}
    async with (
        console(policy=[ASK, REST], console={"webhook": hook}) as gateway,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_try, gateway, outcome)
        await until(gateway.approvals.waiting)
        (call,) = gateway.approvals.waiting()
        url = str(gateway.make_console_link()).partition("#")[0]
        async with chromium.screen(url) as screen:
            page = screen.page
            await page.goto(f"{url}#/answer/{call.id}/guess")
            screen.expected = ["404"]
            await expect(page.get_by_text("It is no longer waiting")).to_be_visible()
            await page.goto(f"{url}#/answer/{call.id}/{call.link_token}")
            await expect(page.get_by_text("notes:delete_all")).to_be_visible()
            assert await screen.find_barriers() == []
            assert not outcome
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("You can close this page")).to_be_visible()
            await screen.check()
        await until(lambda: outcome)
    assert outcome == ["ran"]


def delete_for(number: int, reason: str) -> str:
    """Delete what has a number."""
    return f"{number} {reason}"


async def test_call_of_a_shaped_tool_is_shown_as_it_was_made_and_as_it_is_sent(chromium: Chromium) -> None:
    shape = {"name": "wipe", "fix": {"reason": "of the team"}}
    toolsets = {"team": {"tools": {"notes:delete_for": shape}}}
    rules = [{"name": "ask", "tools": ["notes:delete_for"], "effect": "ask"}, REST]
    async with console(policy=rules, toolsets=toolsets) as gateway, anyio.create_task_group() as tasks:
        gateway.crib.add(delete_for, namespace="notes")
        async with chromium.logged_in(gateway) as screen:
            await screen.open("approvals")
            await expect(screen.page.get_by_text("Live", exact=True)).to_be_visible()
            tasks.start_soon(partial(gateway.crib.view("team").run, "notes:wipe", {"number": 7}))
            await expect(screen.page.get_by_role("heading", name="notes:wipe")).to_be_visible()
            made = screen.page.get_by_role("region", name="Arguments of the caller")
            await expect(made).to_contain_text("7")
            await expect(made).not_to_contain_text("of the team")
            sent = screen.page.get_by_role("region", name="What is sent to notes:delete_for")
            await expect(sent).to_contain_text("of the team")
            await screen.check()
            (call,) = gateway.approvals.waiting()
            url = str(gateway.make_console_link()).partition("#")[0]
            await screen.page.goto(f"{url}#/answer/{call.id}/{call.link_token}")
            await expect(made).to_contain_text("7")
            await expect(sent).to_contain_text("of the team")
            await screen.page.get_by_role("button", name="Approve").click()


async def test_an_auditor_sees_the_calls_of_all_and_answers_none(chromium: Chromium) -> None:
    tokens = {"ben": {"hash": f"sha256:{hashlib.sha256(b'of-ben').hexdigest()}"}}
    config = {"gateway": {"tokens": tokens}, "console": {"auditors": ["token:ben"]}, "policy": [ASK, REST]}
    outcome: list[str] = []
    async with console(**config) as gateway, anyio.create_task_group() as tasks:
        await gateway.crib.run("notes:add", {"text": "private"}, principal=_CALLERS[0])
        url = str(gateway.make_console_link()).partition("#")[0]
        async with chromium.logged_in(gateway) as operator, chromium.screen(url) as screen:
            page = screen.page
            await page.goto(url)
            await page.get_by_text("Log in with a token").click()
            await page.get_by_label("Token").fill("of-ben")
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_text("auditor: sees all")).to_be_visible()
            await screen.open(f"calls/{gateway.console._calls.last_id}")
            await expect(page.get_by_role("region", name="Arguments")).to_contain_text("private")
            await page.keyboard.press("Escape")
            await page.get_by_label("Anybody").select_option(label="Only me")
            await expect(page.get_by_role("heading", name="No call matches")).to_be_visible()
            await expect(operator.page.get_by_text("Live", exact=True)).to_be_visible()
            tasks.start_soon(_try, gateway, outcome)
            await screen.open("approvals")
            await expect(page.get_by_role("region", name="All arguments")).to_be_visible()
            assert await page.get_by_role("button", name="Approve").count() == 0
            await screen.check()
            await operator.open("approvals")
            await operator.page.get_by_role("button", name="Deny").click()
        await until(lambda: outcome)


async def test_a_change_is_approved_and_a_tool_blocked(chromium: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.toml"
    server = f'command = {json.dumps(sys.executable)}\nargs = ["-m", "toolcrib.setup.demo_server"]\n'
    file.write_text(f'store = "memory"\n[servers.library]\n{server}', encoding="utf-8")
    gateway = Gateway(str(file))
    async with gateway, serving(gateway):
        await gateway.crib.ready()
        async with chromium.logged_in(gateway) as screen:
            page = screen.page
            await screen.open("changes")
            await expect(page.get_by_role("heading", name="Nothing is locked yet")).to_be_visible()
            assert await screen.find_barriers() == []
            await page.get_by_role("button", name="Approve all and lock").click()
            await expect(page.get_by_role("heading", name="Nothing has changed")).to_be_visible()
            for _ in range(4):
                await gateway.crib.run("library:find", {"text": "the"})
            change = page.get_by_role("listitem").filter(has_text="library:lend").first
            await expect(change).to_contain_text("compatible change")
            await expect(page.get_by_text("Locked: what servers offer")).to_have_count(0)
            await expect(page.get_by_role("region", name="What an approval of library:lend")).to_contain_text(
                "days"
            )
            assert await screen.find_barriers() == []
            await screen.picture("changes-light")
            await change.get_by_role("button", name="Block").click()
            await page.get_by_label("Why may nobody use it?").fill("not from here")
            await page.get_by_role("dialog").get_by_role("button", name="Block").click()
            await expect(page.get_by_text("not from here")).to_be_visible()
            with pytest.raises(ToolcribError):
                await gateway.crib.run("library:lend", {"title": "Invisible Cities"})
            await page.get_by_role("button", name="Approve library:lend again").click()
            await expect(page.get_by_role("heading", name="Blocked")).to_have_count(0)
            await expect(page.get_by_role("heading", name="Nothing has changed")).to_be_visible()
            lent = await gateway.crib.run("library:lend", {"title": "Invisible Cities", "days": 3})
            assert lent.structured == {"lent": "Invisible Cities", "left": 0}


async def test_everything_can_be_done_with_the_keyboard(chromium: Chromium) -> None:
    async with console() as gateway, chromium.logged_in(gateway) as screen:
        page = screen.page
        await screen.open("tools")
        await page.get_by_role("table", name="Tools").get_by_role("button").first.focus()
        await page.keyboard.press("ArrowDown")
        await expect(page.get_by_role("button", name="math:describe_numbers")).to_be_focused()
        await page.keyboard.press("Enter")
        panel = page.get_by_label("math:describe_numbers", exact=True)
        await expect(panel).to_be_focused()
        await page.get_by_role("tab", name="What it does").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name="Run")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)


async def test_users_without_operator_rights_have_fewer_pages(chromium: Chromium) -> None:
    tokens = {"ben": {"hash": f"sha256:{hashlib.sha256(b'of-ben').hexdigest()}"}}
    async with console(gateway={"tokens": tokens}) as gateway:
        ann = Principal(issuer="tokens", subject="ann", client="ann")
        await gateway.crib.run("notes:add", {"text": "private"}, principal=ann)
        url = str(gateway.make_console_link()).partition("#")[0]
        async with chromium.screen(url) as screen:
            page = screen.page
            await page.goto(url)
            await page.get_by_text("Log in with a token").click()
            await page.get_by_label("Token").fill("of-ben")
            await page.get_by_role("button", name="Log in").click()
            await page.wait_for_selector("nav")
            assert await page.locator("nav a").all_inner_texts() == [
                "Overview",
                "Servers",
                "Tools",
                "Calls",
                "Runs",
                "Tokens",
            ]
            await screen.open("calls")
            await expect(page.get_by_role("heading", name="No calls yet")).to_be_visible()
            await expect(page.get_by_text("own calls only")).to_be_visible()
            await screen.check()
