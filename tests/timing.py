"""Where the time of a suite goes: `make times` prints a table by folder, the slowest files and fixtures.

A row has the seconds that passed in workers, how many of them were computing, there and in processes that the tests
started and waited for; the rest is waiting, for other processes or for the other workers on this machine.
"""

from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import PurePath
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any

import pytest

ROWS = 25
started: dict[str, tuple[float, float, float]] = {}
fixtures: Counter[str] = Counter()


def now() -> tuple[float, float, float]:
    """Return the time: of the clock, of this process, and of the children that it waited for."""
    own, others = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return perf_counter(), own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    started[item.nodeid] = now()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    if call.when == "teardown" and item.nodeid in started:
        before = started.pop(item.nodeid)
        taken = [end - start for end, start in zip(now(), before, strict=True)]
        report.user_properties += [("seconds", taken), ("fixtures", dict(fixtures))]
        fixtures.clear()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    start = perf_counter()
    try:
        return (yield)
    finally:
        fixtures[fixturedef.argname] += perf_counter() - start


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[COLLECTED] = now()[1]


COLLECTED = pytest.StashKey[float]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the tables."""
    folders, files, total = defaultdict(list), defaultdict(list), Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            noted = dict(getattr(report, "user_properties", ()))
            if "seconds" in noted and report.when == "teardown":
                taken = noted["seconds"]
                total.update(noted["fixtures"])
                path = PurePath(report.nodeid.partition("::")[0])
                files[str(path)].append(taken)
                folders["/".join(path.parts[: min(3, len(path.parts) - 1)]) or str(path)].append(taken)
    line = terminalreporter.line
    line("")
    line("| where | tests | seconds | computing | in children | waiting |")
    line("|---|--:|--:|--:|--:|--:|")
    line(f"| finding the tests | | | {config.stash[COLLECTED]:.0f} | | |")
    for table in (folders, files):
        rows = {name: [len(taken), *map(sum, zip(*taken, strict=True))] for name, taken in table.items()}
        for name, (count, wall, own, children) in sorted(rows.items(), key=lambda row: -row[1][1])[:ROWS]:
            waiting = max(0.0, wall - own - children)
            line(f"| `{name}` | {count} | {wall:.0f} | {own:.0f} | {children:.0f} | {waiting:.0f} |")
        line("")
    line("Fixtures: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in total.most_common(12)))
