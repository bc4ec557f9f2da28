"""Runs the files of a suite side by side, in workers that are forked once the tests are found: `pytest -p workers`.

To find them takes ten seconds of computing, and thirty the first time in a clone; pytest-xdist spends that in each worker.
Here the workers share what was found, and take one file after the other from a pipe until it is empty.
"""

import os
import signal
from collections import defaultdict
from contextlib import suppress
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from warnings import catch_warnings, simplefilter

import coverage
import pytest
from _pytest.capture import FDCapture
from _pytest.runner import runtestprotocol

FORK = get_context("fork")
NUMBER = 4
"""The bytes of a file's number in the pipe."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have three workers more than there are cores, since many tests wait for other processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    parser.addoption("--workers", type=int, default=min(8, cores + 3), help="how many files run side by side")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests, unless pytest itself has to: where nothing is to be run, or all of it in one process."""
    by_path: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in session.items:
        by_path[item.path].append(item)
    count = min(session.config.getoption("workers"), len(by_path))
    if session.testsfailed or session.config.option.collectonly or count < 2:
        return None
    session.config.pluginmanager.getplugin("terminalreporter").showfspath = False  # the files are mixed
    workers = _fork(session, list(by_path.values()), count)
    try:
        _report(session, workers)
    finally:
        for worker in workers.values():
            if worker.is_alive():
                os.kill(worker.pid, signal.SIGINT)
            worker.join()
    return True


def _fork(session: pytest.Session, files: list[list[pytest.Item]], count: int) -> dict[Connection, Any]:
    """Return new workers by the connections on which they report."""
    waiting, filling = os.pipe()
    os.write(filling, b"".join(number.to_bytes(NUMBER, "big") for number in range(len(files))))
    os.close(filling)
    folder = session.config._tmp_path_factory.getbasetemp()
    workers: dict[Connection, Any] = {}
    for number in range(count):
        receiving, sending = FORK.Pipe(duplex=False)
        parents = [*workers, receiving]
        arguments = (session, files, waiting, sending, parents, folder / str(number))
        workers[receiving] = FORK.Process(target=_work, args=arguments)
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # numpy has a thread, which it starts anew in a child
            workers[receiving].start()
        sending.close()
    os.close(waiting)
    return workers


def _report(session: pytest.Session, workers: dict[Connection, Any]) -> None:
    """Pass on how each test ended, until all workers have: a test of which nothing is heard has failed."""
    hook = session.config.hook
    unheard = {item.nodeid: item for item in session.items}
    running: dict[Any, str] = {}
    deaths = []
    reporting: set[Any] = set(workers)
    while reporting:
        for worker in wait(reporting):
            try:
                running[worker], reports = worker.recv()
            except EOFError:
                reporting.remove(worker)
                workers[worker].join()
                if workers[worker].exitcode:
                    deaths.append(f"A worker ended with {workers[worker].exitcode} in {running.get(worker)}.")
                continue
            for each in reports:
                report = hook.pytest_report_from_serializable(config=session.config, data=each)
                unheard.pop(report.nodeid, None)
                hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
    if deaths:
        for item in list(unheard.values()) or session.items[:1]:
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", " ".join(deaths), "call")
            hook.pytest_runtest_logreport(report=report)


def _work(
    session: pytest.Session,
    files: list[list[pytest.Item]],
    waiting: int,
    sending: Connection,
    parents: list[Connection],
    folder: Path,
) -> None:
    """Run the tests of one file after the other."""
    for connection in parents:
        connection.close()  # while a worker has one open, none sees that nobody receives its reports any more
    config = session.config
    captures = config.pluginmanager.getplugin("capturemanager")._global_capturing
    for capture in (captures.out, captures.err):
        if isinstance(capture, FDCapture):  # some modules keep its file, as the default of an argument
            with TemporaryFile() as own:
                os.dup2(own.fileno(), capture.tmpfile.fileno(), inheritable=False)
    folder.mkdir()
    config._tmp_path_factory._basetemp = folder
    reporting = _Reporting(sending)
    config.pluginmanager.register(reporting)
    file = []
    try:
        while number := os.read(waiting, NUMBER):
            file = files[int.from_bytes(number, "big")]
            # The session is all that the last test of a file shares with the next one.
            for item, following in pairwise([*file, session]):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if file:
            closing = pytest.CallInfo.from_call(partial(session._setupstate.teardown_exact, None), "teardown")
            reporting.send(file[-1], [file[-1].ihook.pytest_runtest_makereport(item=file[-1], call=closing)])
    except (KeyboardInterrupt, BrokenPipeError):
        with suppress(KeyboardInterrupt):
            session._setupstate.teardown_exact(None)
        raise SystemExit(os.EX_TEMPFAIL) from None
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.stop()
        measured.save()


class _Reporting:
    """Runs a test in a worker, and sends the parent what it reports."""

    def __init__(self, sending: Connection) -> None:
        self._sending = sending

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item) -> bool:
        """Send that it begins, and how it ended."""
        self.send(item, [])
        self.send(item, runtestprotocol(item, log=False, nextitem=nextitem))
        return True

    def send(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        """Send the reports on a test, but those on a setup and a teardown that tell nothing."""
        told = [
            item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
            for report in reports
            if report.when == "call" or not report.passed or report.user_properties
        ]
        self._sending.send((item.nodeid, told))
