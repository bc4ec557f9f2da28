"""Records as lines of JSON."""

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from servers.launch import python

from toolcrib.errors import StoreError
from toolcrib.execution.audit import AuditRecord, JsonLines


def record(tool_id: str = "github:star", **fields: object) -> AuditRecord:
    levels = {"transport": "ok", "protocol": "ok", "tool": "ok"}
    return AuditRecord(
        **{"time": "2026-01-01T00:00:00.000Z", "tool_id": tool_id, "duration": 0.1, **levels, **fields}
    )


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_record_is_a_line_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(2):  # a second sink appends to what the first one wrote
        sink = JsonLines(path)
        sink(record(f"é{number}\n"))
        assert sink.lost == 0
    assert [line["gen_ai.tool.name"] for line in lines(path)] == ["é0\n", "é1\n"]
    assert path.read_bytes().endswith(b"}\n")


def test_only_the_user_may_read_the_file(tmp_path: Path) -> None:
    JsonLines(tmp_path / "audit.jsonl")
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be appended to: No such file or directory"):
        JsonLines(str(tmp_path / "missing" / "audit.jsonl"))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a\0b", "cannot be appended to: embedded null byte"),
        ("~nosuchuser/x", "cannot be appended to: Could not determine home directory"),
        ("a\ud800b\0", "cannot be appended to: "),
        ("x" * 5000, "cannot be appended to: File name too long"),
    ],
    ids=["a null byte", "nobody's home", "a surrogate", "too long"],
)
def test_a_name_that_no_file_can_have_is_refused_at_once(path: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        JsonLines(path)


def test_the_home_of_the_user_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    JsonLines("~/audit.jsonl")(record())
    assert len(lines(tmp_path / "audit.jsonl")) == 1


def test_a_file_may_be_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = JsonLines(path)
    sink(record("a"))
    path.rename(tmp_path / "old.jsonl")
    sink(record("b"))
    assert [line["gen_ai.tool.name"] for line in lines(path)] == ["b"]


def test_a_line_that_cannot_be_written_is_counted_and_the_next_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = JsonLines(path)
    path.unlink()
    path.mkdir()
    sink(record("a"))
    path.rmdir()
    sink(record("b"))
    assert sink.lost == 1
    assert [line["gen_ai.tool.name"] for line in lines(path)] == ["b"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_counted() -> None:
    sink = JsonLines("/dev/full")
    sink(record())
    assert sink.lost == 1


def test_record_that_is_no_text_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = JsonLines(path)
    sink(record(args={"a": object()}))
    assert (sink.lost, path.read_text()) == (1, "")
    sink(record("half a pair: \ud800"))
    assert (sink.lost, "half a pair: \\ud800" in path.read_text()) == (1, True)


def test_a_line_that_broke_off_does_not_run_into_the_next(tmp_path: Path) -> None:
    """A limit on the size of files breaks a line off, as a full disk does."""
    program = """
import os, resource, signal, sys
from toolcrib.execution.audit import AuditRecord, JsonLines
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
record = lambda tool_id: AuditRecord(time="", tool_id=tool_id, duration=1, transport="ok", protocol="ok", tool="ok")
sink = JsonLines(sys.argv[1])
sink(record("a"))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(sys.argv[1]) + 50, hard))
sink(record("b" * 100))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
sink(record("c"))
print(sink.lost)
"""
    path = tmp_path / "audit.jsonl"
    lost = subprocess.check_output([sys.executable, "-c", program, path], text=True)
    assert int(lost) == 1
    first, torn, last = path.read_text().splitlines()
    assert json.loads(first)["gen_ai.tool.name"] == "a"
    assert json.loads(last)["gen_ai.tool.name"] == "c"
    with pytest.raises(json.JSONDecodeError):
        json.loads(torn)


def test_many_threads_may_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = JsonLines(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: sink(record(f"t{number}")), range(400)))
    assert sorted(line["gen_ai.tool.name"] for line in lines(path)) == sorted(
        f"t{number}" for number in range(400)
    )


def test_several_processes_may_share_a_file(tmp_path: Path) -> None:
    program = """
import sys
from toolcrib.execution.audit import AuditRecord, JsonLines
sink = JsonLines(sys.argv[1])
for number in range(200):
    levels = {"transport": "ok", "protocol": "ok", "tool": "ok"}
    sink(AuditRecord(time="", tool_id=sys.argv[2] + "x" * 5000, duration=number, **levels))
"""
    path = tmp_path / "audit.jsonl"
    children = [subprocess.Popen(python("-c", program, str(path), name)) for name in "abc"]
    assert [child.wait() for child in children] == [0, 0, 0]
    seen = [(str(line["gen_ai.tool.name"])[0], line["toolcrib.duration"]) for line in lines(path)]
    assert sorted(seen) == [(name, number) for name in "abc" for number in range(200)]


def test_a_stream_gets_the_same_lines_at_once() -> None:
    stream = io.StringIO()
    sink = JsonLines(stream)
    sink(record("a"))
    assert json.loads(stream.getvalue())["gen_ai.tool.name"] == "a"
    stream.close()
    sink(record("b"))
    assert sink.lost == 1


def test_a_stream_is_flushed() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w") as writer:
        JsonLines(writer)(record("a"))
        assert json.loads(reader.readline())["gen_ai.tool.name"] == "a"
