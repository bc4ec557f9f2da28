"""What every test may ask for, and how the suites are run and summed up."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import certifi
import coverage
import laws
import pytest
from _pytest.doctest import DoctestModule
from needs import bubblewrap_works, lack
from pytest_timeout import Settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
PUBLIC = ROOT.parent / "shared" / "data"
SAMPLE = Path(__file__).parent / "data"
CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""The variable by which processes that a test starts know that they are measured too."""
HANGS = Settings(timeout=300, method="signal", func_only=True, disable_debugger_detection=False)
"""The limit of one example of a law, as pyproject.toml has it for other tests: for hangs alone."""
ATTACKS_APART = 8
"""Of a table of attacks, `make test` runs one row in so many, and `make proof` all."""
TRACED_ROWS = 3
"""Of a table, the coverage of so many rows is measured, and none of a law: they go through the same lines again."""
LONGEST = (
    "tests/test_benchmarks.py",
    "tests/test_soak.py",
    "tests/runtime/test_attacks.py",
    "tests/runtime/test_contract.py",
    "tests/crib/test_auth_scenarios.py",
    "tests/cli/test_resident.py",
)
"""The files that take longest, which are started first, so that none of them runs on alone at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Look for doctests where there are some: to go through every module for them takes seconds."""
    found = yield
    if file_path.is_relative_to(Path(__file__).parent) or b">>>" not in file_path.read_bytes():
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; find the proofs; limit each example of a law, not their sum."""
    turns = {ROOT / path: turn for turn, path in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.path, len(turns)))
    rows: Counter[str] = Counter()
    for item in sorted(items, key=lambda item: item.nodeid):
        rows[table := item.nodeid.partition("[")[0]] += 1
        is_further_row = item.get_closest_marker("attack") and rows[table] % ATTACKS_APART != 1
        if is_further_row or "public_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.proof)
        is_law = hasattr(getattr(item, "obj", None), "hypothesis")
        if is_law:
            _limit_each_example(item)
        if is_law or rows[table] > TRACED_ROWS:
            item.add_marker(pytest.mark.untraced)


def _limit_each_example(item: Any) -> None:
    """Have the time limit of a law hold for the body of an example, and not while examples are generated."""
    item.add_marker(pytest.mark.timeout(0))
    law = item.obj.hypothesis
    if hasattr(law, "limited"):  # for another row of the same law
        return
    law.limited, body = True, law.inner_test

    @contextmanager
    def limit() -> Iterator[None]:
        item.config.hook.pytest_timeout_set_timer(item=item, settings=HANGS)
        try:
            yield
        finally:
            item.config.hook.pytest_timeout_cancel_timer(item=item)

    @wraps(body)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with limit():
            return body(*args, **kwargs)

    @wraps(body)
    async def limited_coroutine(*args: Any, **kwargs: Any) -> Any:
        with limit():
            return await body(*args, **kwargs)

    law.inner_test = limited_coroutine if iscoroutinefunction(body) else limited


def pytest_runtest_setup(item: Any) -> None:
    """Keep the counterexamples that `make proof` finds for its next run: with a seed, hypothesis keeps none."""
    if laws.THOROUGH >= 1 and hasattr(getattr(item, "obj", None), "hypothesis"):
        law = getattr(item.obj, "__func__", item.obj)
        law._hypothesis_internal_database_key = item.nodeid.encode()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Look for no garbage while tests are found, nor ever again among what was found: it is a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Keep what the tests of a file left in caches out of later collections of garbage, as some tests ask for one."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Do not measure the coverage of one of very many cases."""
    with _unmeasured() if item.get_closest_marker("untraced") else nullcontext():
        return (yield)


@contextmanager
def _unmeasured() -> Iterator[None]:
    """Do not measure coverage meanwhile: that takes twice the time."""
    measured = coverage.Coverage.current()
    if measured is None:
        yield
        return
    measured._warn_preimported_source = False  # else each start looks through all modules
    measured.stop()
    inherited = os.environ.pop(CHILDREN, None)
    try:
        yield
    finally:
        if inherited is not None:
            os.environ[CHILDREN] = inherited
        measured.start()


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the event loop that coroutines are tested on."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _data_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what a worker's tests store away from the user's own, which may be anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust a single authority: every client of the tests would read all of them, which takes 30 ms of CPU time."""
    bundle, end = Path(certifi.where()).read_text(encoding="utf-8"), "-----END CERTIFICATE-----"
    file = tmp_path_factory.mktemp("authority") / "one.pem"
    file.write_text(bundle[bundle.index("-----BEGIN") : bundle.index(end)] + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which state is kept, and keep it away from the user's."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TOOLCRIB_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Return the folder of public suites and real tools. What asks for it is a proof."""
    if not PUBLIC.is_dir():
        lack("public data")
    return PUBLIC


@pytest.fixture(scope="session", params=["sample", pytest.param("public", marks=pytest.mark.proof)])
def data(request: pytest.FixtureRequest) -> Path:
    """Return a folder of suites and tools: the small sample of our own making, and in proofs the public one."""
    return SAMPLE if request.param == "sample" else request.getfixturevalue("public_data")


@pytest.fixture(scope="session")
def needs_bubblewrap() -> None:
    """Skip where bubblewrap is missing or not allowed; fail in CI."""
    if not bubblewrap_works():
        lack("bubblewrap")


@pytest.fixture(scope="session")
def unprivileged() -> list[str]:
    """Return the words before a command that take its privileges away: none where the tests have none.

    The user of the command owns our files as we do, so that it starts wherever the checkout and the interpreter
    are: to another user, those below a private folder do not exist.
    """
    if os.geteuid() != 0:
        return []
    if not bubblewrap_works():
        lack("bubblewrap")
    user = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    return ["bwrap", *user, "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was left out for want of something, and how to get it."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"Left out {count}: {reason.removeprefix('Skipped: ')}")
    if not PUBLIC.is_dir():
        terminalreporter.line(
            "With the public data sets, `make proof` also runs the official suites of JSON Schema and SemVer, 1,163 "
            "real tools and the labelled searches: CONTRIBUTING.md, under Data, says where they are from."
        )


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End with one line that a person understands."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or not terminal.stats:
        return
    count = {kind: len(terminal.stats.get(kind, ())) for kind in ("passed", "failed", "error", "skipped")}
    bad = count["failed"] + count["error"]
    if bad:
        terminal.line(f"{bad} of {sum(count.values())} tests FAILED; each is explained above.")
    elif count["passed"]:
        left = f"; {count['skipped']} left out, see above" if count["skipped"] else ""
        terminal.line(f"All {count['passed']} tests passed{left}.")
