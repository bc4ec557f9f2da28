"""Audit records that are written off the event loop."""

import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from execution.audit.test_json_lines import lines, record
from waiting import PATIENCE, wait_until

from toolcrib import Crib
from toolcrib.errors import PolicyDeniedError, StoreError
from toolcrib.execution.audit import AuditFile
from toolcrib.execution.audit.hash_chain import read_chain

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return a file on a disk that is full, until `make_room` is called."""
    path = tmp_path / "audit.jsonl"
    path.symlink_to(FULL)
    return path


def make_room(path: Path) -> None:
    other = path.with_name("other")
    other.touch()
    other.replace(path)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """Yield a pipe, and the descriptor of a reader that reads nothing."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reader
    os.close(reader)


def test_records_are_written_in_their_order(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    for number in range(100):
        audit.write(record(f"t{number}"))
    assert audit.flush(PATIENCE)
    assert [line["gen_ai.tool.name"] for line in lines(tmp_path / "audit.jsonl")] == [
        f"t{n}" for n in range(100)
    ]
    assert audit.status.to_json() == {"lost": 0, "waiting": 0}


def test_a_full_disk_is_counted_and_logged_once(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditFile(disk)
    for _ in range(3):
        audit.write(record())
    assert audit.flush(PATIENCE)
    assert (audit.status.lost, audit.status.fault) == (3, "No space left on device")
    assert [(each.levelno, "are lost: No space left" in each.message) for each in caplog.records] == [
        (logging.ERROR, True)
    ]


def test_a_line_says_how_many_records_are_missing_in_its_place(
    disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditFile(disk)
    for _ in range(3):
        audit.write(record("lost"))
    assert audit.flush(PATIENCE)
    make_room(disk)
    audit.write(record("first"))
    audit.write(record("second"))
    assert audit.flush(PATIENCE)
    gap, *rest = lines(disk)
    assert (list(gap)[:2], gap["lost"]) == (["time", "lost"], 3)
    assert [line["gen_ai.tool.name"] for line in rest] == ["first", "second"]
    assert (audit.status.lost, audit.status.fault) == (3, None)
    assert "written to" in caplog.records[-1].message
    assert "3 were lost" in caplog.records[-1].message


def test_where_records_are_required_none_is_lost(disk: Path) -> None:
    audit = AuditFile(disk, required=True)
    for number in range(3):
        audit.write(record(f"t{number}"))
    wait_until(lambda: audit.status.fault)
    assert (audit.status.lost, audit.status.waiting) == (0, 3)
    assert not audit.flush(0)
    make_room(disk)
    assert audit.flush(PATIENCE)
    assert [line["gen_ai.tool.name"] for line in lines(disk)] == ["t0", "t1", "t2"]
    assert audit.status.fault is None


@pytest.mark.anyio
async def test_where_records_are_required_calls_are_refused_until_they_can_be_written(disk: Path) -> None:
    ran: list[str] = []
    crib = Crib({"audit": {"path": str(disk), "required": True}})

    @crib.add
    def work(name: str) -> str:
        ran.append(name)
        return name

    async with crib:
        await crib.run("work", {"name": "before it is known"})
        assert crib.audit_status is not None
        wait_until(lambda: crib.audit_status and crib.audit_status.fault)
        with pytest.raises(PolicyDeniedError, match=r"the audit cannot be written \(No space left"):
            await crib.run("work", {"name": "refused"})
        make_room(disk)
        wait_until(lambda: crib.audit_status and not crib.audit_status.fault)
        await crib.run("work", {"name": "after"})
    assert ran == ["before it is known", "after"]
    assert [line.get("error.type") for line in lines(disk)] == [None, "denied", None]


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="cannot be appended to: No such device or address"):
        AuditFile(tmp_path / "pipe")


def test_a_pipe_whose_reader_has_gone_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    audit = AuditFile(tmp_path / "pipe")
    os.close(reader)
    audit.write(record())
    assert audit.flush(PATIENCE)
    assert (audit.status.lost, audit.status.fault) == (1, "No such device or address")


def test_a_pipe_whose_reader_reads_nothing_costs_records_and_no_time(pipe: tuple[Path, int]) -> None:
    audit = AuditFile(pipe[0], capacity=1000, patience=0.0)
    for _ in range(3000):
        audit.write(record("x" * 1000))
    wait_until(lambda: audit.status.waiting == 0)
    assert audit.status.lost > 2000
    assert audit.status.fault is not None


def test_a_reader_that_is_slow_loses_nothing(pipe: tuple[Path, int]) -> None:
    audit = AuditFile(pipe[0], patience=PATIENCE)
    for _ in range(200):
        audit.write(record("x" * 1000))
    heard = b""

    def all_read() -> bool:
        nonlocal heard
        with contextlib.suppress(BlockingIOError):
            heard += os.read(pipe[1], 65536)
        return heard.count(b"\n") == 200

    wait_until(all_read)
    assert audit.status.lost == 0
    assert all(json.loads(line)["gen_ai.tool.name"] == "x" * 1000 for line in heard.splitlines())


@pytest.mark.proof
def test_queued_lines_are_written_when_the_process_ends(tmp_path: Path) -> None:
    program = """
import sys
from toolcrib.execution.audit import AuditFile, AuditRecord
audit = AuditFile(sys.argv[1])
for number in range(500):
    audit.write(AuditRecord(time="", tool_id="t", duration=1, transport="ok", protocol="ok", tool="ok"))
"""
    subprocess.check_call([sys.executable, "-c", program, tmp_path / "audit.jsonl"])
    assert len(lines(tmp_path / "audit.jsonl")) == 500


def test_a_record_that_is_no_json_is_lost_even_where_records_are_required(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", required=True)
    odd: Any = record(args={"a": object()})
    audit.write(odd)
    audit.write(record("sound"))
    assert audit.flush(PATIENCE)
    assert (audit.status.lost, audit.status.fault) == (1, None)


@pytest.mark.parametrize("required", [True, False])
def test_a_subject_with_a_lone_surrogate_is_written_down(tmp_path: Path, required: bool) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", required=required)
    audit.write(record("before").model_copy(update={"subject": "Ann \ud800"}))
    audit.write(record("after"))
    assert audit.flush(PATIENCE)
    assert audit.status.to_json() == {"lost": 0, "waiting": 0}
    written = lines(tmp_path / "audit.jsonl")
    assert [line.get("user.id") for line in written] == ["Ann \ud800", None]
    with (tmp_path / "audit.jsonl").open(encoding="utf-8") as file:
        assert read_chain(line.rstrip("\n") for line in file).problems == ()
