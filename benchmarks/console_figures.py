"""Measures the console: its bytes, the time until its first page is shown, and what remembering calls costs.

`--write` puts the table into docs/console.md. The times need Debian's chromium, and a machine that does
nothing else.
"""

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from turns import turns

ROOT = Path(__file__).parents[1]
sys.path[0] = str(
    ROOT / "tests"
)  # for what its modules share, instead of this folder, which has a gateway.py

from console.screen import Chromium, console  # noqa: E402 - as above
from playwright.async_api import async_playwright  # noqa: E402 - as above

from toolcrib import Crib  # noqa: E402 - as above
from toolcrib.console import ConsolePages  # noqa: E402 - as above
from toolcrib.errors import ToolcribError  # noqa: E402 - as above
from toolcrib.execution import Principal  # noqa: E402 - as above
from toolcrib.execution.call import Outcome  # noqa: E402 - as above
from toolcrib.gateway.api.calls import CallFilter, CallLog  # noqa: E402 - as above
from toolcrib.setup.demo import _CALLERS, _CALLS, _tools  # noqa: E402 - as above

PAGE = ROOT / "docs" / "console.md"
BEGIN = "<!-- figures -->\n"
END = "<!-- end of figures -->\n"
ROUNDS = turns(21)
KEPT = 100_000
CALLS = 500
LISTED = 500
ARGS = {"expression": "6 * 7"}
WHO = Principal(issuer="tokens", subject="ann", client="editor")
NOTE_SHOWN = """
new MutationObserver((_, observer) => {
  if (document.querySelector("main .figure")) { performance.mark("shown"); observer.disconnect(); }
}).observe(document, { childList: true, subtree: true });
"""
SHOWN = "performance.getEntriesByName('shown')[0]?.startTime ?? null"


class Last:
    """Observes calls, as the metrics of a gateway do, and keeps the last outcome."""

    outcome: Outcome

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - of all observers
        """Return the function that stores the outcome."""
        return self._keep

    def _keep(self, outcome: Outcome) -> None:
        self.outcome = outcome


async def cost_of_calls() -> tuple[float, float, Outcome]:
    """Return the CPU µs of a local call that is not remembered, the ratio of one that is, and an outcome."""
    log, last = CallLog(), Last()
    log.open(KEPT)
    plain, remembered = Crib({}, observers=[last]), Crib({}, observers=[last, log])
    for crib in (plain, remembered):
        for each in _tools():
            crib.add(each)

    async def spent(crib: Crib) -> float:
        gc.collect()
        began = time.process_time()
        for _ in range(CALLS):
            await crib.run("math:evaluate", ARGS, principal=WHO)
        return (time.process_time() - began) / CALLS * 1e6

    async with plain, remembered:
        await spent(plain)
        await spent(remembered)
        pairs = [(await spent(plain), await spent(remembered)) for _ in range(ROUNDS)]
    ratio = statistics.median(one / other for other, one in pairs)
    return statistics.median(other for other, _ in pairs), ratio, last.outcome


def memory_of_calls(outcome: Outcome) -> tuple[float, float]:
    """Return the MB that remembered calls take, and the ms in which their newest 500 are listed."""
    log = CallLog()
    log.open(KEPT)
    gc.collect()
    tracemalloc.start()
    for _ in range(KEPT):
        finish = log.begin("math:evaluate", WHO)
        assert finish is not None
        finish(outcome)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    began = time.process_time()
    page = [row.to_json() for row, _ in zip(log.newest(CallFilter()), range(LISTED), strict=False)]
    assert len(page) == LISTED
    return size / 1e6, (time.process_time() - began) * 1000


async def times_to_show() -> tuple[float, float] | None:
    """Return the ms until the overview is shown, at the first time and again; None without chromium."""
    try:
        program = Chromium.program()
    except BaseException:  # noqa: BLE001 - a test would be skipped by it
        return None
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        async with console() as gateway:
            for place, (tool_id, args) in enumerate(_CALLS):
                with suppress(ToolcribError):  # some of them are wrong
                    await gateway.crib.run(tool_id, args, principal=_CALLERS[place % 3])
            first, again = [], []
            for _ in range(max(3, ROUNDS // 3)):
                async with Chromium(browser).logged_in(gateway) as screen:
                    await screen.page.add_init_script(NOTE_SHOWN)
                    cdp = await screen.page.context.new_cdp_session(screen.page)
                    await cdp.send("Network.enable")
                    await cdp.send("Network.clearBrowserCache")
                    first.append(await _reload(screen.page))
                    again += [await _reload(screen.page) for _ in range(3)]
        await browser.close()
    return statistics.median(first), statistics.median(again)


async def _reload(page: Any) -> float:
    await page.reload(wait_until="commit")
    await page.wait_for_selector("main .figure")
    return float(await page.evaluate(SHOWN))


async def measure() -> str:
    """Return the table."""
    pages = {name: page for name, page in ConsolePages().all().items() if not name.startswith(".")}
    sent = sum(len(page.compressed) for page in pages.values())
    call, ratio, outcome = await cost_of_calls()
    memory, listing = memory_of_calls(outcome)
    shown = await times_to_show()
    rows = [
        ("all pages with their libraries, compressed", f"{sent / 1000:.0f} kB in {len(pages)} files"),
        (
            "time until the overview is shown on this machine, with an empty cache",
            "not measured" if shown is None else f"{shown[0]:.0f} ms",
        ),
        ("the same, the second time", "not measured" if shown is None else f"{shown[1]:.0f} ms"),
        (f"CPU time that recording adds to a local call of {call:.0f} µs", f"{(ratio - 1) * 100:+.0f}%"),
        (f"memory used by {KEPT:,} stored calls, including the payloads kept", f"{memory:.0f} MB"),
        ("CPU time to list the newest 500 of them", f"{listing:.1f} ms"),
    ]
    return "".join(f"| {name} | {value} |\n" for name, value in [("what", "figure"), ("---", "---:"), *rows])


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true", help="measure little, to see that it works")
    options = parser.parse_args()
    made = anyio.run(measure)
    print(made)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{made}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
