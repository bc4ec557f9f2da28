"""Runs the files of a suite side by side, in workers that are forked once the tests are found: `pytest -p workers`.

To find them takes ten seconds of computing, and thirty the first time in a clone; pytest-xdist spends that in each worker.
Here the workers share what was found, and take one file after the other from a pipe until it is empty.
"""

import atexit
import os
import signal
from collections import defaultdict
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
from waiting import PATIENCE

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
        _end(workers)
    return True


def _end(workers: dict[Connection, Any]) -> None:
    """End the workers that still run, each after it has closed what its tests hold."""
    for connection in workers:
        connection.close()  # which ends one that misses the signal
    running = [worker for worker in workers.values() if worker.is_alive()]
    for worker in running:
        os.kill(worker.pid, signal.SIGINT)
    for worker in running:
        worker.join(PATIENCE)
        worker.kill()
        worker.join()


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
    """Pass on how each test ended, until all workers have; one that was not reported has failed."""
    hook = session.config.hook
    items = {item.nodeid: item for item in session.items}
    unreported = dict(items)
    last: dict[Any, str] = {}
    crashes = []
    connections: set[Any] = set(workers)
    while connections:
        for connection in wait(connections):
            try:
                message = connection.recv()
            except EOFError:
                workers[connection].join()
                at = last.get(connection, session.items[0].nodeid)
                crashes.append(f"A worker exited with {workers[connection].exitcode} in {at}.")
                when = "call" if unreported.pop(at, None) else "teardown"
                hook.pytest_runtest_logreport(report=_failed(items[at], crashes[-1], when))
                message = None
            if message is None:
                connections.remove(connection)
                continue
            last[connection], reports = message
            for each in reports:
                report = hook.pytest_report_from_serializable(config=session.config, data=each)
                unreported.pop(report.nodeid, None)
                hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
    for item in unreported.values():
        hook.pytest_runtest_logreport(report=_failed(item, f"It was not run: {' '.join(crashes)}", "call"))


def _failed(item: pytest.Item, reason: str, when: Any) -> pytest.TestReport:
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, when)


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
    atexit._clear()  # what is there is the parent's
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
    try:
        _run(session, files, waiting, reporting)
        finished = True
    except (KeyboardInterrupt, BrokenPipeError):
        finished = False
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal and the parent both send one
    signal.alarm(int(PATIENCE))
    session._setupstate.teardown_exact(None)
    atexit._run_exitfuncs()
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.stop()
        measured.save()
    if finished:
        sending.send(None)  # at last: the parent ends whoever is still there when all have sent it
    os._exit(0)  # without waiting for threads that a test has left


def _run(
    session: pytest.Session, files: list[list[pytest.Item]], waiting: int, reporting: "_Reporting"
) -> None:
    """Run the tests of one file after the other, until none is left; then close what they share."""
    file = []
    while number := os.read(waiting, NUMBER):
        file = files[int.from_bytes(number, "big")]
        # The session is all that the last test of a file shares with the next one.
        for item, following in pairwise([*file, session]):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    if file:
        signal.alarm(int(PATIENCE))
        closing = pytest.CallInfo.from_call(partial(session._setupstate.teardown_exact, None), "teardown")
        report = file[-1].ihook.pytest_runtest_makereport(item=file[-1], call=closing)
        reporting.send(file[-1], [report])


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
        """Send the reports on a test, but those on a setup and a teardown that passed."""
        serialized = [
            item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
            for report in reports
            if report.when == "call" or not report.passed or report.user_properties
        ]
        self._sending.send((item.nodeid, serialized))
