"""The requirement manifest, in a run of all tests: each row names a test that was run and has passed.

A row without one is reported as a failed test of its own, `tests/contracts/requirements.toml::ID`. A test that the
run deselects, such as a proof in `make test`, is left to the suite that selects it. One that was skipped for want of
something that this machine lacks (`tests/needs.py`) is named at the end of the output, and fails where `CI` is set;
every other skip leaves the promise without a test.
"""

import inspect
import tomllib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import is_lack

MANIFEST = Path("tests", "contracts", "requirements.toml")
PLACE = "promises"
"""Where the controller of pytest-xdist and its workers keep what they tell each other about promises."""

Row = dict[str, Any]


def read_rows(root: Path) -> list[Row]:
    """Return the rows of the manifest."""
    rows: list[Row] = tomllib.loads((root / MANIFEST).read_text(encoding="utf-8"))["requirement"]
    return rows


def name_of(item: pytest.Function) -> str:
    """Return how a row names a test: by the file, and the class if any, that define it, without its parameters."""
    name, path = item.originalname or item.name, item.path
    if item.cls is not None:
        owner = next(each for each in item.cls.__mro__ if name in vars(each))
        name = f"{owner.__qualname__.replace('.', '::')}::{name}"
        path = Path(inspect.getfile(owner))
    return f"{path.relative_to(item.config.rootpath).as_posix()}::{name}"


def pytest_configure(config: pytest.Config) -> None:
    """Watch a run of all tests; one that names files, or repeats what failed, shows no promise."""
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        if config.workerinput.get(PLACE):
            config.pluginmanager.register(_Tests(read_rows(config.rootpath)))
        return
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.getoption(
        "lf", default=False
    )
    if is_whole and not config.option.collectonly and (config.rootpath / MANIFEST).is_file():
        config.pluginmanager.register(_Watch(read_rows(config.rootpath)))


class _Tests:
    """Notes the tests that rows name, and those that name rows; a worker sends that to the controller at its end."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self._named = {row["test"] for row in rows}
        self._nodes: dict[str, set[str]] = {}
        """The collected items of each test that a row names."""
        self._marks: set[tuple[str, str]] = set()
        """Each test that a mark names a row for, with the id of the row."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what there is, before some of it is deselected."""
        for item in items:
            if isinstance(item, pytest.Function):
                name = name_of(item)
                if name in self._named:
                    self._nodes.setdefault(name, set()).add(item.nodeid)
                self._marks.update(
                    (name, each) for mark in item.iter_markers("requirement") for each in mark.args
                )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Have a worker send the notes."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[PLACE] = self._nodes, self._marks


class _Watch(_Tests):
    """Notes how tests end, and reports the rows that none of them shows: in the controller, where there are workers."""

    def __init__(self, rows: list[Row]) -> None:
        super().__init__(rows)
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._skipped: dict[str, str] = {}
        """Why an item was skipped."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Have a worker take notes."""
        node.workerinput[PLACE] = True

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the notes of a worker: all find the same tests, and one that crashed has sent none."""
        self._nodes, self._marks = getattr(node, "workeroutput", {}).get(PLACE, (self._nodes, self._marks))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped:
            self._skipped[report.nodeid] = (
                report.longrepr[2].removeprefix("Skipped: ")
                if isinstance(report.longrepr, tuple)
                else f"expected to fail: {getattr(report, 'wasxfail', '')}"
            )
        elif report.when == "call":
            self._passed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Report the rows that no test has shown, once all have ended."""
        result = yield
        for row, fault in self._faults():
            place = f"{MANIFEST.as_posix()}::{row}"
            location = (MANIFEST.as_posix(), None, row)
            report = pytest.TestReport(place, location, {}, "failed", f"{row}: {fault}", "call")
            session.config.hook.pytest_runtest_logreport(report=report)
        return result

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Yield the id of each row that is not shown, and why."""
        for row in self._rows:
            nodes = self._nodes.get(row["test"], set())
            if not nodes:
                yield row["id"], f"there is no test {row['test']} in this run"
            elif not nodes & (self._passed | self._failed):
                reasons = sorted({self._skipped[each] for each in nodes & self._skipped.keys()})
                if reasons and not all(map(is_lack, reasons)):
                    yield row["id"], f"its test {row['test']} was skipped: {'; '.join(reasons)}"
        named = {row["id"]: row["test"] for row in self._rows}
        for test, each in sorted(self._marks):
            if named.get(each) != test:
                yield each, f"{test} is marked with this row, which names {named.get(each, 'no test')}"
