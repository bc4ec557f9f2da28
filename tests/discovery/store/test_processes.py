"""Several processes with one file: they read together, write in turns, and may die at any moment."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from contracts.store import stored

from toolcrib.discovery import SqliteStore
from toolcrib.errors import StoreError

# How often to try for a kill in the middle of a round, on a machine that is busy with something else.
KILLS = 12
MAX_KILLS = 60
ROWS = 1_000
ROUND_SIZE = 5_000_000
"""Approximate number of bytes that a round writes to the log: the kills are spread over it."""

OPEN_AT_ONCE = """if True:
    import sys
    from toolcrib.discovery.store import SqliteStore, StoredTool
    print("ready", flush=True)
    sys.stdin.readline()
    with SqliteStore(sys.argv[1]) as store:
        store.write([StoredTool(sys.argv[2], "{}", "[]", "{}", "[]", "h")])
        store.count_usage({"all": 1})
"""
HOLD = """if True:
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM tools")
    print("held", flush=True)
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    connection.close()
"""
# Round n replaces every row of the round before in each table, the counts last, and is then announced.
# A round that was broken off is done again by the next process.
WRITE_FOR_EVER = """if True:
    import sys
    from toolcrib.discovery.store import SqliteStore, StoredTool
    store, rows = SqliteStore(sys.argv[1]), int(sys.argv[2])
    number = max(store.usage().values(), default=0)
    while True:
        number += 1
        names = [f"{number}:{row}" for row in range(rows)]
        old = [f"{number - 1}:{row}" for row in range(rows)]
        text = f"{number}," * 200
        store.write([StoredTool(name, text, "[]", "{}", "[]", name) for name in names], delete=old)
        store.write_texts("docs", dict.fromkeys(names, text), delete=old)
        store.save_derived("words", dict.fromkeys(map(str, range(rows)), text.encode()))
        store.count_usage(dict.fromkeys(map(str, range(rows)), 1))
        print(number, flush=True)
"""


@contextmanager
def child(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in a process that is gone at the end."""
    command = [sys.executable, "-c", code, *map(str, args)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def pipe(end: IO[str] | None) -> IO[str]:
    assert end is not None
    return end


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.mark.proof
def test_processes_that_make_the_file_at_once_agree(path: Path) -> None:
    with (
        child(OPEN_AT_ONCE, path, "a") as a,
        child(OPEN_AT_ONCE, path, "b") as b,
        child(OPEN_AT_ONCE, path, "c") as c,
    ):
        together = [a, b, c]
        for process in together:
            assert pipe(process.stdout).readline() == "ready\n"
        for process in together:
            pipe(process.stdin).write("\n")
            pipe(process.stdin).flush()
        assert [process.wait(30) for process in together] == [0, 0, 0]
    with SqliteStore(path) as store:
        assert [tool.id for tool in store.tools()] == ["a", "b", "c"]
        assert store.usage() == {"all": 3}


def test_a_writer_waits_for_its_turn_and_then_gives_up_while_readers_go_on(path: Path) -> None:
    with SqliteStore(path, timeout=0.05) as store:
        store.write([stored("a")])
        with child(HOLD, path) as process:
            assert pipe(process.stdout).readline() == "held\n"
            with SqliteStore(path, timeout=0.05) as other:
                assert list(other.tools()) == [stored("a")]
            with pytest.raises(StoreError) as caught:
                store.write([stored("b")])
            said = "another process has been writing to it for 0.05 s; try again, or allow a longer timeout"
            assert caught.value.reason == said
            assert list(store.tools()) == [stored("a")]
            pipe(process.stdin).write("\n")
            pipe(process.stdin).close()
            assert process.wait(30) == 0
        store.write([stored("b")])
        assert [tool.id for tool in store.tools()] == ["a", "b"]


def test_a_writer_gets_its_turn_when_the_other_is_done(path: Path) -> None:
    with SqliteStore(path, timeout=30) as store:
        store.write([stored("a")])
        with child(HOLD, path) as process:
            assert pipe(process.stdout).readline() == "held\n"
            pipe(process.stdin).write("\n")
            pipe(process.stdin).flush()
            store.write([stored("b")])
        assert [tool.id for tool in store.tools()] == ["a", "b"]


def test_one_process_sees_what_another_wrote(path: Path) -> None:
    with SqliteStore(path) as one, SqliteStore(path) as two:
        one.write([stored("a")])
        assert list(two.tools()) == [stored("a")]
        two.write(delete=["a"])
        assert list(one.tools()) == []


def only(values: Collection[Any]) -> Any:
    """Return the one value that the rows of a table have in common."""
    assert len(values) == ROWS
    assert len(set(values)) == 1
    return next(iter(values))


def rounds(path: Path) -> list[int]:
    """Return which round each table holds, having checked that it holds all of that round and no other."""
    rows = [str(row) for row in range(ROWS)]
    with SqliteStore(path) as store:
        tools, texts = list(store.tools()), list(store.texts("docs"))
        values, usage = store.derived("words", rows), store.usage()
    tool, text, value = (
        only([tool.definition for tool in tools]),
        only(dict(texts).values()),
        only(values.values()),
    )
    found = [int(kept.split(",")[0]) for kept in (tool, text, value.decode())]
    assert {tool.id for tool in tools} == {f"{found[0]}:{row}" for row in rows}
    assert dict(texts).keys() == {f"{found[1]}:{row}" for row in rows}
    return [*found, only(usage.values())]


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.mark.proof
def test_a_process_that_is_killed_while_it_writes_leaves_whole_batches(path: Path) -> None:
    with child(WRITE_FOR_EVER, path, ROWS) as process:
        assert pipe(process.stdout).readline() == "1\n"
    kept = rounds(path)
    log, broken_off = path.with_name("store.db-wal"), 0
    for kill in range(MAX_KILLS):
        if kill >= KILLS and broken_off:
            break
        assert size(log) == 0
        with child(WRITE_FOR_EVER, path, ROWS) as process:
            while size(log) < 250_000 + kill % KILLS * ROUND_SIZE // KILLS:
                assert process.poll() is None
            process.kill()
            announced = re.findall(r"(\d+)\n", pipe(process.stdout).read())
        before, kept = kept, rounds(path)
        assert kept == sorted(kept, reverse=True)
        assert kept[0] - kept[-1] <= 1
        assert kept[-1] >= max([before[-1], *map(int, announced)])
        broken_off += kept[0] != kept[-1]
    assert broken_off > 0
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()
