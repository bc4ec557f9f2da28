"""Fixtures of all tests, and hooks that run and sum up the suites."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from needs import bubblewrap_works, lack

if TYPE_CHECKING:
    from servers.postgres import PostgresServer
    from servers.temporal import TemporalServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
PUBLIC = ROOT.parent / "shared" / "data"
SAMPLE = Path(__file__).parent / "data"
ATTACKS_APART = 8
"""Of a table of attacks, `make test` runs one row in so many, and `make proof` all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as proofs the tests that use certain fixtures, and further rows of a table of attacks."""
    rows: Counter[str] = Counter()
    for item in sorted(items, key=lambda item: item.nodeid):
        rows[table := item.nodeid.partition("[")[0]] += 1
        is_further_row = item.get_closest_marker("attack") and rows[table] % ATTACKS_APART != 1
        if is_further_row or "public_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.proof)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Pause garbage collection during test collection, and exempt the million objects that it makes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Exclude objects that the tests of a file left in caches from later garbage collections."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


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
    """Keep the data that tests store away from the user's own."""
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
    """Return the folder of public suites and real tools; a test that uses it is a proof."""
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


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, unprivileged: list[str]) -> Iterator["PostgresServer"]:
    """Return a PostgreSQL server, one for all tests of a worker."""
    from servers.postgres import PostgresServer  # noqa: PLC0415 - most tests need no database

    with PostgresServer(tmp_path_factory.mktemp("postgres"), unprivileged) as server:
        yield server


@pytest.fixture
def database(postgres: "PostgresServer") -> str:
    """Return the address of an empty schema of a database."""
    return postgres.make_schema()


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator["TemporalServer"]:
    """Return a Temporal server, one for all tests of a worker."""
    from servers.temporal import TemporalServer, find_program  # noqa: PLC0415 - most tests need none

    if find_program() is None:
        lack("the Temporal server")
    with TemporalServer(tmp_path_factory.mktemp("temporal")) as server:
        yield server


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the skipped tests by missing requirement, and how to install it."""
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
