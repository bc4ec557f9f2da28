"""Texts of tools are only ever text: nothing in them runs, loads or leads away."""

import json
from pathlib import Path
from typing import Any

import pytest
from console.screen import Chromium, Screen, console
from playwright.async_api import expect

from toolcrib.errors import ToolcribError
from toolcrib.execution import Principal
from toolcrib.gateway import Gateway
from toolcrib.model import LocalBackend, LocalTool, Tool

pytestmark = [pytest.mark.anyio, pytest.mark.proof]

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=//evil.example/x.png>",
    "<svg onload=alert(1)>",
    "<svg><use href='//evil.example/x.svg#a'/></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>@import '//evil.example/x.css';</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<form action=//evil.example/><button>OK</button></form>",
    "<a href='javascript:alert(1)'>x</a>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "' onmouseover='alert(1)",
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "<!--<img src=--><img src=x onerror=alert(1)//>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "\u202egnp.exe\u2066<b>\u200b\ufeff",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "__proto__",
    "constructor",
)
EVIL = "evil.example"


def hostile_tool(number: int, text: str) -> Tool:
    """Return a tool with a given text in every field of text."""
    schema = {
        "type": "object",
        "title": text,
        "description": text,
        "properties": {
            text: {"type": "string", "title": text, "description": text, "default": text},
            "choice": {"enum": [text, "other"], "description": text},
            "nested": {"type": "object", "properties": {text: {"type": "string", "description": text}}},
            "odd": {"$ref": f"#/$defs/{number}"},
        },
        "$defs": {str(number): {"type": "string", "description": text}},
    }
    return Tool(
        name=f"hostile_{number}",
        namespace="evil",
        title=text,
        description=text,
        input_schema=schema,
        output_schema={"type": "object", "description": text},
        annotations={"title": text, "destructiveHint": True},
        tags=("evil",),
    )


async def give(**args: Any) -> Any:
    """Return the arguments."""
    return {"echo": args, "html": "<img src=//evil.example/r.png onerror=alert(2)>"}


def add(gateway: Gateway, tools: list[Tool]) -> None:
    for tool in tools:
        name = str(tool.id)
        gateway.crib.discovery.register(tool, LocalBackend(name=name), doc={"notes": tool.description})
        gateway.crib._engine.handlers.add(name, LocalTool(give, tool))


async def visit(screen: Screen, tool: Tool, text: str) -> None:
    """Open everything that shows a tool."""
    page = screen.page
    panel = page.get_by_label(str(tool.id), exact=True)
    for tab, name in {"run": "Run", "convert": "Convert", "docs": "What it does"}.items():
        await screen.open(f"tools/{str(tool.id).replace(':', '%3A')}?tab={tab}")
        await expect(panel.get_by_role("tabpanel", name=name, exact=True)).to_be_visible()
        await screen.settle()
    await expect(panel.locator(".description").first).to_be_visible()
    shown = await panel.locator(".description").first.inner_text()
    visible = "".join(letter for letter in text if letter.isprintable())
    assert " ".join(visible.split())[:20] in " ".join(shown.split()) or "U+" in shown


async def test_nothing_in_a_tool_runs(chromium: Chromium) -> None:
    tools = [hostile_tool(number, text) for number, text in enumerate(PAYLOADS)]
    async with console(tools=[]) as gateway:
        add(gateway, tools)
        for tool, text in zip(tools, PAYLOADS, strict=True):
            evil = Principal(issuer=text, subject=text, client=text)
            await gateway.crib.run(str(tool.id), {"choice": "other", text: text}, principal=evil)
            with pytest.raises(ToolcribError):
                await gateway.crib.run(text, {text: text}, principal=evil)
        async with chromium.logged_in(gateway) as screen:
            for tool, text in zip(tools, PAYLOADS, strict=True):
                await visit(screen, tool, text)
            for place in ("overview", "tools?q=hostile", "calls", "tokens", "access?tool=%3Cscript%3E"):
                await screen.open(place)
            await screen.open("calls")
            for row in range(1, 8):
                await (
                    screen.page.get_by_role("table", name="Calls")
                    .get_by_role("row")
                    .nth(row)
                    .get_by_role("button")
                    .click()
                )
                await screen.settle()
            await screen.page.get_by_role("tab", name="Lanes").click()
            await screen.check()
            assert (
                await screen.page.locator(
                    "main script, main iframe, main img, main form[action], main base"
                ).count()
                == 0
            )
            assert EVIL not in screen.page.url


async def test_hidden_characters_in_text_are_shown(chromium: Chromium) -> None:
    tool = hostile_tool(0, "safe\u202egnp.exe")
    async with console(tools=[]) as gateway:
        add(gateway, [tool])
        async with chromium.logged_in(gateway) as screen:
            await screen.open("tools/evil%3Ahostile_0")
            await expect(screen.page.locator(".description .hidden-character").first).to_have_text("U+202E")
            await screen.open("tools")
            await expect(screen.page.get_by_role("table", name="Tools")).to_contain_text("U+202E")


async def test_a_call_that_waits_shows_all_of_its_arguments_as_text(chromium: Chromium) -> None:
    import anyio  # noqa: PLC0415 - for this alone

    rule = {"name": PAYLOADS[0], "tools": ["*"], "effect": "ask", "reason": PAYLOADS[1]}
    tool = hostile_tool(0, "says nothing")
    args = {text: text for text in PAYLOADS}
    async with console(tools=[], policy=[rule]) as gateway:
        add(gateway, [tool])
        async with chromium.logged_in(gateway) as screen, anyio.create_task_group() as tasks:
            await expect(screen.page.get_by_text("Live", exact=True)).to_be_visible()

            async def call() -> None:
                evil = Principal(issuer="tokens", subject=PAYLOADS[1], client=PAYLOADS[3])
                await gateway.crib.run(str(tool.id), args, principal=evil)

            tasks.start_soon(call)
            await screen.open("approvals")
            block = screen.page.get_by_role("region", name="All arguments")
            await expect(block).to_contain_text("<svg onload=alert(1)>")
            await expect(block).to_contain_text("U+202E")
            await screen.page.get_by_role("button", name="Approve").click()
            await expect(screen.page.get_by_role("heading", name="Nothing is waiting")).to_be_visible()


@pytest.mark.parametrize("part", range(4))
async def test_no_poisoned_tool_does_anything(chromium: Chromium, public_data: Path, part: int) -> None:
    lines = (public_data / "poison" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["tool"] for line in lines][part::4]
    tools = []
    for number, raw in enumerate(texts):
        text = json.dumps(raw, ensure_ascii=False) if number % 2 else str(raw.get("description") or raw)
        tools.append(hostile_tool(number, text))
    async with console(tools=[]) as gateway:
        add(gateway, tools)
        async with chromium.logged_in(gateway) as screen:
            for tool in tools:
                await visit(screen, tool, tool.description or "")
            await screen.check()


async def test_another_page_can_neither_frame_nor_call_it(chromium: Chromium) -> None:
    import anyio  # noqa: PLC0415 - for this alone

    async def answer(stream: Any) -> None:
        async with stream:
            with_headers = await stream.receive(65536)
            heard.append(with_headers.decode(errors="replace"))
            body = f"<!doctype html><iframe id=frame src='{url}'></iframe>".encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            await stream.send(head.encode() + body)

    heard: list[str] = []
    async with console() as gateway:
        url = str(gateway.make_console_link()).partition("#")[0]
        api = url.replace("/console/", "/api/v1")
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - nothing of Django's
        async with listener, anyio.create_task_group() as tasks, chromium.logged_in(gateway) as victim:
            tasks.start_soon(listener.serve, answer)
            key = await victim.page.evaluate("localStorage.getItem('toolcrib-key')")
            other = await victim.page.context.new_page()
            await other.goto(f"http://127.0.0.1:{port}/api/")
            framed = other.frames[-1]
            assert framed.url.startswith("chrome-error://") or not await framed.query_selector("#app nav")
            ask = "async ([url, headers]) => { try { return (await fetch(url, {credentials: 'include', headers})).status } catch { return 0 } }"
            write = "async (url) => { try { return (await fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'})).status } catch { return 0 } }"
            assert await other.evaluate(ask, [f"{api}/me", {"x-toolcrib-key": key}]) == 0  # even with the key
            assert await other.evaluate(ask, [f"{api}/me", {}]) == 0
            assert await other.evaluate(write, f"{api}/run") == 0
            assert await other.evaluate("localStorage.getItem('toolcrib-key')") is None
            tasks.cancel_scope.cancel()
        assert len(gateway.console._calls) == 0
    assert "toolcrib-" in "".join(
        heard
    )  # it is sent the cookie, since a port is no other site: the key it has not
    assert key not in "".join(heard)
