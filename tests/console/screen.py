"""Pages of the console in a browser, and everything that goes wrong in them."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from gateway.little_face import serving
from needs import lack
from playwright.async_api import Browser, ConsoleMessage, Dialog, Page, Request, expect
from servers.launch import PACKAGES
from waiting import PATIENCE

from toolcrib.gateway import Gateway
from toolcrib.setup.demo import _tools

PAGES = (
    "overview",
    "servers",
    "tools",
    "changes",
    "calls",
    "approvals",
    "access",
    "runs",
    "tokens",
    "config",
)
expect.set_options(timeout=PATIENCE * 1000)
_SHOTS = os.environ.get("TOOLCRIB_SCREENSHOTS")
"""The folder that pictures of the pages are written to."""
_REPORTS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""


class Screen:
    """A page of the console, which records errors."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.problems: list[str] = []
        self.expected: list[str] = []
        """Parts of messages that a test expects."""
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._note_message)
        page.on("dialog", self._note_dialog)
        page.on("request", self._note_request)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    async def _note_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _note_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith("blob:"):
            self.problems.append(f"request: {request.url}")

    async def open(self, place: str) -> None:
        """Go to a page of the console, and wait until it is loaded."""
        await self.page.evaluate("place => { location.hash = place; }", f"#/{place}")
        name = place.partition("/")[0].partition("?")[0]
        await self.page.wait_for_selector(f"main.page-{name} h1")
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is loading."""
        await expect(self.page.locator(".busy, [aria-busy=true]")).to_have_count(0)
        await self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    async def check(self) -> None:
        """Fail if anything went wrong so far."""
        violations = await self.page.evaluate("window.violations")
        unexpected = [each for each in self.problems if not any(part in each for part in self.expected)]
        assert violations == []
        assert unexpected == []

    async def find_barriers(self) -> list[str]:
        """Return the accessibility violations that axe finds."""
        axe = PACKAGES / "axe-core" / "axe.min.js"
        if not axe.exists():
            lack("npm")
        if not await self.page.evaluate("Boolean(window.axe)"):
            await self.page.evaluate(axe.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = await self.page.evaluate("axe.run().then(found => found.violations)")
        return [f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]

    async def picture(self, name: str) -> None:
        """Save a screenshot of the page, if a folder for them is set."""
        if _SHOTS:
            await self.page.screenshot(path=f"{_SHOTS}/{name}.png")


class Chromium:
    """The browser."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    @staticmethod
    def program() -> str:
        """Return where it is; skip without it."""
        return shutil.which("chromium") or shutil.which("chromium-browser") or lack("chromium")

    @asynccontextmanager
    async def screen(
        self, url: str, *, width: int = 1280, height: int = 800, scheme: Any = "light"
    ) -> AsyncIterator[Screen]:
        """Yield a page in a browser profile of its own."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        try:
            await context.add_init_script(_REPORTS)
            page = await context.new_page()
            yield Screen(page, url)
        finally:
            await context.close()

    @asynccontextmanager
    async def logged_in(self, gateway: Gateway, **options: Any) -> AsyncIterator[Screen]:
        """Yield a page of the console on which the user of this machine is logged in; it must go well."""
        link = gateway.make_console_link()
        assert link is not None
        async with self.screen(link, **options) as screen:
            await screen.page.goto(link)
            await screen.page.wait_for_selector("nav", state="attached")
            await screen.settle()
            yield screen
            await screen.check()


@asynccontextmanager
async def console(tools: Any = None, **config: Any) -> AsyncIterator[Gateway]:
    """Serve a gateway with the tools of the demonstration."""
    config["console"] = {"enabled": True, **config.get("console", {})}
    gateway = Gateway(config, tools=_tools() if tools is None else tools)
    async with gateway, serving(gateway):
        yield gateway
