"""Fixtures of the console's tests: a browser, and gateways with a console."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from console.screen import Chromium
from playwright.async_api import async_playwright


@pytest.fixture(autouse=True)
def home(home: Path) -> Path:
    """Have no test touch the user's state."""
    return home


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    """Return Debian's chromium; skip without it."""
    program = Chromium.program()
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield Chromium(browser)
        await browser.close()
