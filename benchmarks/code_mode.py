"""Measures code mode: our sandboxes beside the bare engine and the code modes of others, in wall-clock time.

`--write` puts the tables into docs/code-measurements.md.
"""

import argparse
import gc
import logging
import os
import platform
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles

import anyio
from code_mode_contenders import (
    ARRIVED,
    DOCKER,
    DURABLE,
    LANES,
    MONTY,
    NAMED,
    OURS,
    PAUSE,
    PROCESS,
    WASM,
    Contender,
    Ours,
    Run,
    Task,
    below,
    contenders,
    durable_contenders,
    make_crib,
)
from code_mode_tokens import tokens_part, two_talks
from turns import turns

from toolcrib import Crib
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.sandboxes.wasm.module import build_module, find_module

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "code-measurements.md"
sys.path.append(str(ROOT / "tests"))  # for what its modules share
ROUNDS = turns(11)
"""Rounds in which the contenders take turns; the median of the rounds is reported."""
COLD_ROUNDS = turns(5)
SLOW_ROUNDS = turns(3)
CALL_ROUNDS = turns(7)
DURABLE_ROUNDS = turns(21)
MANY = 60
"""Consecutive calls in the measurement of a single call's cost."""
AT_ONCE = 50
SUSTAINED = 0.4
"""For how many seconds runs follow each other without a pause, in a round."""
QUIET = 0.01
BEGAN = time.perf_counter()
LONGEST_WAIT = 3.0

PLAIN = Task("__out = 1 + 1", 2)
ONE = Task("i = 2\n__out = await {add}", 3)
GATHERED = Task(
    f"import asyncio\n__out = len(await asyncio.gather(*[{{wait}} for i in range({AT_ONCE})]))", AT_ONCE
)
LOOK = Task("__out = await {look}", None)

PACKAGES = ("pydantic-monty", "fastmcp", "pydantic-ai-harness", "anyio", "pydantic")

WARM_BARS = {MONTY: "ratio at most 1.5", PROCESS: "at most 5 ms", DOCKER: "at most 150 ms"}
CALL_BARS = {**dict.fromkeys(OURS, "at most 1 ms"), DOCKER: "at most 2 ms"}
COLD_BARS = {WASM: "at most 300 ms"}

Measure = Callable[[Contender, Run], Awaitable[float]]

INTRO = """\
# Code mode measurements

<!-- Made by `.venv/bin/python benchmarks/code_mode.py --write`; do not edit it by hand. -->
"""
MEANING = """\
Wall-clock milliseconds, including all processes of a run: the median of the rounds in
which the contenders take turns ({rounds} of them unless stated otherwise), and the best
of them. A ratio is relative to the contender in the first row of its table: the median
over the rounds, with the interquartile range. Before its turn, a contender waits until
its processes are idle, so that sandboxes that are started in advance are ready.
"""
WHO = """\
- **engine** is `pydantic_monty` itself: a session is checked out for each run and is fed one piece of
  code. *Checked* has its type check enabled, against toolcrib's stubs of the tools that the code mentions.
- **toolcrib** is `Runtime.execute`: stubs of the tools that the code mentions, type check, sandbox, and every
  call through policy, validation, deadline and audit. `monty` is a fresh session of that engine, whose
  worker is kept, within bubblewrap and seccomp; `process` is a fresh CPython for each run, within bubblewrap,
  seccomp and rlimits, as an unprivileged user; `docker` and `gvisor` are a fresh container for each run,
  and `wasm` a fresh process with wasmtime and CPython in it. Types are checked in a
  session that is kept for this purpose; code that can call no tool is not checked.
- **fastmcp** checks no types, and starts and ends a worker of the engine for each run. *Client* is its tool
  `execute`, called by its in-memory client; *provider* is its `MontySandboxProvider` alone, with plain
  functions as tools. Its limit of 50 calls is lifted.
- **harness** is the tool `run_code` of pydantic-ai-harness, its toolset called without an agent or a model.
  *Restarted* has a fresh, checked session for each run; *same session* keeps what earlier runs left behind,
  and type-checks only the first of them. Its limit of 1,000 exchanges in a session is raised.
"""
COLD = """\
From creating a runtime (a pool, a server, a toolset) to the value of its
first run, in a process that has done the same before: {rounds} rounds.
"""
CALLS = """\
The round trip of a call to a local coroutine: code makes {many} calls, one after the other, and the time
between the arrival of the first and of the last at the tool is divided by their number. {rounds} rounds.
"""
DURABLE_SAID = """\
The same call through `Crib.execute` in `monty`, where a signed record is written before and after each call,
to a SQLite file (WAL, `synchronous = NORMAL`, which survives the death of the process). The state of
code that reads the clock is also saved at each call, that of other code every 50 ms. {rounds} rounds.
"""
AT_ONCE_SAID = """\
Tools that each take {pause:.0f} ms, called with `asyncio.gather`; {rounds} rounds.
"""
MEMORY = """\
The descendants of this process while one piece of code waits for a tool, including those kept ready for
later runs: their number, the largest, and all of them, each at its peak (`VmHWM`, which counts
a page shared by several processes once for each). Processes in containers are descendants of the engine,
and are not counted.
"""
SUSTAINED_SAID = """\
Runs that call one tool and follow each other without a pause, {lanes} at once:
sandboxes that serve only one run have to be started in the meantime. {rounds} rounds.
"""


@dataclass
class Row:
    """The results of one contender, by round."""

    name: str
    taken: list[float] = field(default_factory=list)


@dataclass
class Table:
    """The results of all contenders in one contest; the first is the baseline."""

    title: str
    said: str
    rows: list[Row]
    unit: str = "ms"
    best: Callable[[Sequence[float]], float] = min
    bars: dict[str, str] = field(default_factory=dict)
    """The bar of each contender, by its name."""

    def text(self) -> str:
        """Return it in Markdown."""
        first = self.rows[0]
        lines = []
        for row in self.rows:
            ratios = [mine / base for mine, base in zip(row.taken, first.taken, strict=True)]
            low, middle, high = quantiles(ratios, n=4)
            shown = "1" if row is first else f"{middle:.2f} ({low:.2f}-{high:.2f})"
            best = number(self.best(row.taken))
            lines.append((row.name, number(median(row.taken)), best, shown, self.bars.get(row.name, "")))
        return section(
            self.title, self.said, table(("", self.unit, "best", "ratio to first", "target"), lines)
        )


def number(value: float) -> str:
    """Return a number with as many places as mean something.

    >>> number(0.1234), number(12.34), number(1234.5)
    ('0.12', '12.3', '1,234')
    """
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    rule = ("---", *["--:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def section(title: str, said: str, body: str) -> str:
    """Return a part of the page."""
    return "\n\n".join(part for part in (f"## {title}", said.rstrip(), body) if part)


def progress(text: str) -> None:
    """Print the current step on standard error."""
    print(f"{time.perf_counter() - BEGAN:5.0f} s  {text}", file=sys.stderr)


class Unchecked(logging.Handler):
    """Keeps the errors of code that ran without a type check, which is a race of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.said.append(record.getMessage())


def child_cpu_times() -> dict[int, str]:
    """Return the CPU time of each child process."""
    found = {}
    for pid in below(os.getpid()):
        try:
            found[pid] = Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0]
        except OSError:  # it has ended
            continue
    return found


async def settle() -> None:
    """Wait until the processes below this one do nothing."""
    with anyio.move_on_after(LONGEST_WAIT):
        calm, before = 0, child_cpu_times()
        while calm < 2:  # noqa: PLR2004 - twice in a row
            await anyio.sleep(QUIET)
            after = child_cpu_times()
            calm, before = (calm + 1 if after == before else 0), after


class Contest:
    """Lets contenders that are open take turns."""

    def __init__(self, open_all: list[tuple[Contender, Run]]) -> None:
        self._opened = open_all

    async def rounds(self, measure: Measure, rounds: int) -> list[Row]:
        """Return the values of `measure` for each contender, round by round."""
        taking = [(each, run, Row(each.name)) for each, run in self._opened]
        for turn in range(rounds):
            for each, run, row in taking if turn % 2 else taking[::-1]:
                gc.collect()
                await settle()
                row.taken.append(await measure(each, run))
                if isinstance(run, Ours):  # the processes of containers are not below this one
                    await run.warm()
        return [row for *_, row in taking]


def one_run(task: Task) -> Measure:
    """Return a function that measures a run."""

    async def measure(contender: Contender, run: Run) -> float:
        began = time.perf_counter()
        await contender.once(run, task)
        return (time.perf_counter() - began) * 1e3

    return measure


async def one_call(contender: Contender, run: Run) -> float:
    """Return the milliseconds from one call of a tool to the next."""
    ARRIVED.clear()
    await contender.once(run, Task(f"for i in range({MANY}):\n    await {{add}}\n__out = {MANY}", MANY))
    return (ARRIVED[-1] - ARRIVED[0]) / (MANY - 1) * 1e3


async def per_second(contender: Contender, run: Run) -> float:
    """Return the runs per second without a pause between them."""
    made, began = 0, time.perf_counter()

    async def lane() -> None:
        nonlocal made
        while time.perf_counter() - began < SUSTAINED:
            await contender.once(run, ONE)
            made += 1

    async with anyio.create_task_group() as lanes:
        for _ in range(LANES):
            lanes.start_soon(lane)
    return made / (time.perf_counter() - began)


async def cold(contender: Contender, _: Run) -> float:
    """Return the milliseconds of the first run of a fresh contender."""
    began = time.perf_counter()
    async with contender.open() as run:
        await contender.once(run, ONE)
        return (time.perf_counter() - began) * 1e3


async def memory(every: list[Contender]) -> str:
    """Return the table of the memory of each contender's processes."""
    rows = []
    for contender in every:
        before = set(below(os.getpid()))  # what toolcrib keeps for the life of this process
        async with contender.open() as run:
            await contender.once(run, ONE)
            await settle()
            seen = await contender.once(run, LOOK)
            found = [size for pid, size in seen.items() if int(pid) not in before]
        rows.append(
            (
                contender.name,
                str(len(found)),
                f"{max(found, default=0) / 1024:.0f}",
                f"{sum(found) / 1024:.0f}",
            )
        )
    head = ("", "processes", "the largest, MiB", "all, MiB")
    return section("Guest memory", MEMORY, table(head, rows))


async def available_contenders(every: list[Contender]) -> tuple[list[Contender], list[str]]:
    """Return the contenders that run on this machine, and notes about the others."""
    found, failed = [], []
    for each in every:
        try:
            async with each.open() as run:
                await each.once(run, ONE)
        except Exception as error:  # noqa: BLE001 - most of this is foreign, and may raise anything
            failed.append(f"- {each.name}: `{type(error).__name__}`, {str(error).splitlines()[0]}")
        else:
            found.append(each)
    return found, ["These did not run here:\n\n" + "\n".join(failed)] if failed else []


@asynccontextmanager
async def open_all(every: list[Contender]) -> AsyncIterator[Contest]:
    """Start every contender."""
    async with AsyncExitStack() as stack:
        started = [(each, await stack.enter_async_context(each.open())) for each in every]
        for each, run in started:
            await each.once(run, ONE)  # what is made once and kept is made here
        yield Contest(started)


async def race(crib: Crib) -> list[str]:
    """Run every contest and return the parts of the page."""
    every, absent = await available_contenders(contenders(crib))
    async with open_all(every) as contest:
        parts = [
            *absent,
            await warm(contest, "A run that calls nothing, warm", PLAIN),
            await warm(contest, "A run that calls one tool, warm", ONE),
            await calls(contest),
            await measure_gathered(contest),
            await measure_sustained(contest),
            await started(contest),
        ]
    parts.append(await durable_calls())
    progress("memory")
    return [*parts, await memory(every)]


async def warm(contest: Contest, title: str, task: Task) -> str:
    """Compare single runs."""
    progress(title)
    rows = await contest.rounds(one_run(task), ROUNDS)
    said = f"```text\n{task.spelt(NAMED)}\n```"
    return Table(title, said, rows, bars=WARM_BARS).text()


async def calls(contest: Contest) -> str:
    """Compare the time of a call."""
    progress("calls")
    rows = await contest.rounds(one_call, CALL_ROUNDS)
    said = CALLS.format(many=MANY, rounds=CALL_ROUNDS)
    return Table("A tool call", said, rows, bars=CALL_BARS).text()


async def durable_calls() -> str:
    """Compare the time of a recorded call."""
    progress("durable calls")
    async with open_all(durable_contenders()) as contest:
        rows = await contest.rounds(one_call, DURABLE_ROUNDS)
    said = DURABLE_SAID.format(rounds=DURABLE_ROUNDS)
    return Table("A durable tool call", said, rows, bars={DURABLE: "ratio at most 1.5"}).text()


async def measure_gathered(contest: Contest) -> str:
    """Compare concurrent calls."""
    progress("gathered")
    rows = await contest.rounds(one_run(GATHERED), SLOW_ROUNDS)
    said = AT_ONCE_SAID.format(pause=PAUSE * 1e3, rounds=SLOW_ROUNDS)
    return Table(f"{AT_ONCE} calls at once", said, rows, bars=dict.fromkeys(OURS, "at most 250 ms")).text()


async def measure_sustained(contest: Contest) -> str:
    """Compare how many runs there are in a second."""
    progress("sustained")
    rows = await contest.rounds(per_second, SLOW_ROUNDS)
    said = SUSTAINED_SAID.format(lanes=LANES, rounds=SLOW_ROUNDS)
    return Table("Runs without a pause", said, rows, unit="runs per second", best=max).text()


async def started(contest: Contest) -> str:
    """Compare first runs."""
    progress("cold")
    rows = await contest.rounds(cold, COLD_ROUNDS)
    said = COLD.format(rounds=COLD_ROUNDS)
    return Table("A run that calls one tool, cold", said, rows, bars=COLD_BARS).text()


async def measure() -> list[str]:
    """Return every part of the page that is measured."""
    async with make_crib() as crib:
        parts = await race(crib)
    return [*parts, section("What a model reads and writes", "", tokens_part(*await two_talks()))]


@contextmanager
def engines() -> Iterator[None]:
    """Start the engines of containers and WebAssembly; contenders without one are not measured."""
    try:
        find_module()
    except RuntimeUnavailableError:
        if shutil.which("npm"):
            build_module()
    if "DOCKER_HOST" in os.environ or os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "runsc"))):
        yield
        return
    with runpy.run_path(str(ROOT / "tests" / "runtime" / "engines.py"))["dockerd"]():
        yield


def main() -> None:
    """Print the tables, and write them into the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="measure just enough to show that it runs")
    wanted = parser.parse_args()
    logging.disable(logging.INFO)  # the peers would print every request
    unchecked = Unchecked()
    logging.getLogger("toolcrib.runtime").addHandler(unchecked)
    with nullcontext() if wanted.quick else engines():
        parts = anyio.run(measure)
    if unchecked.said:
        parts.insert(0, f"The type check was given up in {len(unchecked.said)} runs: {unchecked.said[0]}.")
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()})"
    head = [
        INTRO.rstrip(),
        MEANING.format(rounds=ROUNDS).rstrip(),
        WHO.rstrip(),
        f"{machine}, {versions}, {bubblewrap()}.",
    ]
    page = "\n\n".join([*head, *parts]) + "\n"
    print(page)
    if wanted.write:
        PAGE.write_text(page, encoding="utf-8")
        progress(f"wrote {PAGE}")


def bubblewrap() -> str:
    """Return the version of bubblewrap."""
    found = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    main()
