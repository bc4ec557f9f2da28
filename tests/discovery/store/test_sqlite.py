"""The file of a SQLite store: its contents, refused files, and failures of the disk."""

import gc
import os
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from contracts.store import stored
from servers.launch import python
from waiting import PATIENCE

from toolcrib.discovery import SqliteStore, StoredTool
from toolcrib.errors import StoreError

MANY = 3_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def fill(path: Path, count: int = 3) -> list[StoredTool]:
    """Keep so many tools in a file, and return them."""
    tools = [stored(f"{number:06}", "{" + "x" * 1_000) for number in range(count)]
    with SqliteStore(path) as store:
        store.write(tools)
    return tools


def tools_in(path: Path) -> list[StoredTool]:
    """Return the tools in a file."""
    with SqliteStore(path) as store:
        return list(store.tools())


def run(code: str, *args: object) -> str:
    """Run Python code in a separate process, and return its output."""
    command = python("-c", code, *map(str, args))
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def test_everything_is_there_after_a_restart(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([stored("a", '{"name":"é"}')])
        store.write_texts("docs", {"a": "{}"})
        store.save_derived("words", {"h": b"\0\xff"})
        store.count_usage({"a": 3})
    with SqliteStore(str(path)) as store:
        assert store.path == path
        assert list(store.tools()) == [stored("a", '{"name":"é"}')]
        assert list(store.texts("docs")) == [("a", "{}")]
        assert store.derived("words", ["h"]) == {"h": b"\0\xff"}
        store.count_usage({"a": 1})
        assert store.usage() == {"a": 4}


@pytest.mark.parametrize("count", [1, 499, 500, 501, 19_999, 25_000])
def test_derived_values_are_found_however_many_are_asked_for(path: Path, count: int) -> None:
    values = {f"{number:064x}": b"%d" % number for number in range(0, 60_000, 2)}
    wanted = [f"{number:064x}" for number in range(count)]
    with SqliteStore(path) as store:
        store.save_derived("words", values)
        store.save_derived("vectors", dict.fromkeys(wanted, b""))
        assert store.derived("words", wanted) == {name: values[name] for name in wanted if name in values}


def test_the_folders_are_made_and_one_file_is_left(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "b" / "store.db")
    assert [file.name for file in (tmp_path / "a" / "b").iterdir()] == ["store.db"]


@pytest.mark.parametrize("name", ["a b.db", "a?b#c%41.db", "é.db", ":memory:", "file:x", "-"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    fill(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert len(tools_in(tmp_path / name)) == 3


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteStore("store.db") as store:
        monkeypatch.chdir("/")
        store.write([stored("a")])
        assert len(list(store.tools())) == 1
    assert len(tools_in(tmp_path / "store.db")) == 1


def test_the_file_says_whose_it_is_and_keeps_a_log(path: Path) -> None:
    fill(path)
    reader = sqlite3.connect(path)
    pragmas = ("application_id", "user_version", "journal_mode")
    assert [reader.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas] == [0x54435242, 1, "wal"]
    reader.close()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    fill(path)
    assert len(tools_in(path)) == 3


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"name,description\n" * 1_000, "it is not a toolcrib store; choose another path"),
        (b"{}", "it is not a toolcrib store; choose another path"),
        (b"SQLite format 3\0" + b"\xff" * 5_000, "it is not a toolcrib store; choose another path"),
    ],
    ids=["text", "short", "magic"],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    path: Path, contents: bytes, reason: str
) -> None:
    path.write_bytes(contents)
    with pytest.raises(StoreError, match=reason) as caught:
        SqliteStore(path)
    assert caught.value.path == str(path)
    assert path.read_bytes() == contents


@pytest.mark.parametrize("pragma", ["application_id = 1", "user_version = 7", "cache_size = 1"])
def test_another_programs_database_is_refused_and_left_alone(path: Path, pragma: str) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE tools (id TEXT)")
    other.execute(f"PRAGMA {pragma}")
    other.close()
    contents = path.read_bytes()
    with pytest.raises(StoreError, match="it is a SQLite file but not a toolcrib store; choose another path"):
        SqliteStore(path)
    assert path.read_bytes() == contents


def test_a_file_of_a_later_release_is_refused_and_left_alone(path: Path) -> None:
    fill(path)
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    contents = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SqliteStore(path)
    said = "it has format 99, and this release reads up to 1; upgrade toolcrib, or choose another path"
    assert str(caught.value) == f"store {str(path)!r}: {said}"
    assert path.read_bytes() == contents


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="it is a directory; name a file in it"):
        SqliteStore(tmp_path)


def test_a_path_through_a_file_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(StoreError, match="its folder cannot be made"):
        SqliteStore(path / "store.db")


def test_a_place_that_makes_no_files_is_refused() -> None:
    with pytest.raises(StoreError, match="it cannot be opened; check that its folder is there"):
        SqliteStore("/proc/store.db")


@pytest.mark.parametrize(
    ("locked", "reason"),
    [
        ("store.db", "it is not readable and writable; allow both, or choose another path"),
        (".", "it or its folder is not writable; make it writable, or choose another path"),
    ],
    ids=["file", "folder"],
)
def test_read_only_file_or_folder_is_refused_and_unchanged(
    path: Path, unprivileged: list[str], locked: str, reason: str
) -> None:
    code = """if True:
        import sys
        from toolcrib.discovery.store import SqliteStore
        from toolcrib.errors import StoreError
        try:
            SqliteStore(sys.argv[1])
        except StoreError as error:
            print(error)
    """
    tools = fill(path)
    target = path.parent / locked
    mode = target.stat().st_mode
    target.chmod(mode & ~0o222)
    try:
        command = [*unprivileged, sys.executable, "-c", code, str(path)]
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    finally:
        target.chmod(mode)
    assert reason in ended.stdout
    assert tools_in(path) == tools


def test_a_disk_that_takes_no_more_loses_the_batch_and_nothing_else(path: Path) -> None:
    code = """if True:
        import resource, sys
        from toolcrib.discovery.store import SqliteStore, StoredTool
        from toolcrib.errors import StoreError
        def tool(name):
            return StoredTool(name, "x" * 1_000, "[]", "{}", "[]", name)
        with SqliteStore(sys.argv[1]) as store:
            store.write(map(tool, "abc"))
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
            for _ in range(3):
                try:
                    store.write((tool(str(number)) for number in range(2_000)), delete=["a"])
                except StoreError as error:
                    print(error.path == sys.argv[1], error.reason)
                print(*(tool.id for tool in store.tools()))
            store.write([tool("d")])
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            store.write((tool(str(number)) for number in range(2_000)), delete=["a"])
            print(sum(1 for tool in store.tools()))
    """
    *failures, last = run(code, path).splitlines()
    assert failures[1::2] == ["a b c"] * 3
    assert all(
        line.startswith("True the disk failed; check that it has free space") for line in failures[::2]
    )
    assert int(last) == 2_003
    assert len(tools_in(path)) == 2_003


def damage(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xfe" * length)


def test_a_damaged_file_says_so_when_the_damage_is_read(path: Path) -> None:
    fill(path, MANY)
    damage(path, 20 * 8192, path.stat().st_size)
    with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="it is damaged; restore a copy, or move the file away"):
            list(store.tools())
        with pytest.raises(StoreError, match="it is damaged"):
            store.write(map(stored, map(str, range(MANY))))
        assert store.usage() == {}


def test_a_text_that_is_none_any_more_is_damage(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([stored("a", "x" * 6_000)])
    at = path.read_bytes().index(b"xxxxxx")
    damage(path, at, 100)
    with SqliteStore(path) as store, pytest.raises(StoreError, match="it is damaged"):
        list(store.tools())


def test_a_file_that_was_cut_off_is_damage(path: Path) -> None:
    fill(path, MANY)
    os.truncate(path, 100_000)
    with pytest.raises(StoreError, match="it is damaged"):
        tools_in(path)


def test_a_file_that_vanished_is_reported_by_the_next_reader(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([stored("a")])
        path.unlink()
        with pytest.raises(StoreError, match="it cannot be opened"):
            store.tools()
        assert not path.exists()


def test_closed_store_leaves_no_connection_open(path: Path) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        store = SqliteStore(path)
        store.write(stored(f"{number:06}") for number in range(MANY))
        unread, begun, finished = store.tools(), store.texts("docs"), store.tools()
        assert next(begun, None) is None
        assert len(list(finished)) == MANY
        next(store.tools())
        del unread
        kept = store.tools()
        next(kept)
        store.close()
        del store, begun, finished, kept
        gc.collect()
    assert seen == []
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]


def test_a_reader_in_a_cycle_is_collected_whatever_is_going_on(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write(stored(f"{number:06}") for number in range(MANY))
        for _ in range(50):
            cycle: list[object] = [store.tools()]
            cycle.append(cycle)
            next(cycle[0])  # type: ignore[call-overload]
            del cycle
        gc.collect()
        store.write([stored("a")])
        assert len(list(store.tools())) == MANY + 1


def test_the_log_does_not_stay_as_long_as_the_longest_batch(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write(stored(f"{number:06}", "x" * 2_000) for number in range(20_000))
        for turn in range(3):
            store.write([stored("a", str(turn))])
        assert path.with_name("store.db-wal").stat().st_size <= 16 * 2**20
