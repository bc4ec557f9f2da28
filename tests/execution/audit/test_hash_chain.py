"""Lines that name the one before: nothing can be changed, taken out or put in unseen."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.execution.audit import AuditFile
from toolcrib.execution.audit.hash_chain import (
    FIRST_PREVIOUS,
    ChainedLines,
    ChainReport,
    make_chained_line,
    read_chain,
)
from toolcrib.execution.audit.records import AuditRecord
from toolcrib.execution.audit.signing import make_signer, make_verifier, public_key


def record(number: int) -> AuditRecord:
    return AuditRecord(
        time="2026-01-01T00:00:00.000Z",
        tool_id=f"git:log{number}",
        transport="ok",
        protocol="ok",
        tool="ok",
        duration=0.1,
    )


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def whole_chain(path: Path) -> tuple[list[Path], ChainReport]:
    """Return an audit and its rotated files, and the result of reading them as one."""
    parts = [*sorted(path.parent.glob("audit-*.jsonl")), path]
    return parts, read_chain([line for part in parts if part.exists() for line in lines_of(part)])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return an audit of ten lines, signed at its end."""
    path = tmp_path / "audit.jsonl"
    lines = ChainedLines(path, sign=make_signer(tmp_path / "key"))
    for number in range(10):
        lines.write(record(number))
    lines.checkpoint()
    return path


def test_written_audit_is_intact_and_signed(written: Path) -> None:
    check = make_verifier(public_key(written.parent / "key"))
    report = read_chain(lines_of(written), check)
    assert (report.lines, report.problems, report.checkpoints, report.unsigned) == (11, (), 1, 0)
    assert report.first == FIRST_PREVIOUS


TAMPERING: dict[str, Callable[[list[str]], list[str]]] = {
    "changed": lambda lines: [line.replace("git:log4", "git:log5") for line in lines],
    "taken out": lambda lines: lines[:4] + lines[5:],
    "put in": lambda lines: [*lines[:4], lines[2], *lines[4:]],
    "swapped": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "cut short": lambda lines: [*lines[:4], lines[4][:-10], *lines[5:]],
    "made unreadable": lambda lines: [
        line.replace(',"toolcrib.previous', '"toolcrib.previous') for line in lines
    ],
    "not of the chain": lambda lines: [*lines[:4], '{"gen_ai.tool.name": "git:log"}', *lines[4:]],
}


@pytest.mark.parametrize("how", TAMPERING)
def test_a_line_that_is_not_as_it_was_shows(how: str, written: Path) -> None:
    assert read_chain(TAMPERING[how](lines_of(written))).problems


def test_a_chain_that_was_made_anew_has_no_right_signature(written: Path, tmp_path: Path) -> None:
    forged = ChainedLines(tmp_path / "forged.jsonl", sign=make_signer(tmp_path / "other key"))
    for number in range(10):
        forged.write(record(number + 1))
    forged.checkpoint()
    check = make_verifier(public_key(written.parent / "key"))
    report = read_chain(lines_of(tmp_path / "forged.jsonl"), check)
    assert report.problems[0] == (11, "its signature was not made with this key")
    assert report.checkpoints == 0


def test_lines_taken_from_the_end_leave_the_rest_unproven(written: Path) -> None:
    report = read_chain(lines_of(written)[:-3], make_verifier(public_key(written.parent / "key")))
    assert (report.unsigned, [line for line, _ in report.problems]) == (8, [1])


def test_lines_taken_from_the_end_while_it_is_written_show(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = ChainedLines(path)
    for number in range(3):
        lines.write(record(number))
    os.truncate(path, len("".join(line + "\n" for line in lines_of(path)[:2])))
    for number in (3, 4):
        lines.write(record(number))
    assert read_chain(lines_of(path)).problems == ((3, "lines before it are missing, or in another order"),)


def test_the_chain_goes_on_over_restarts_and_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(40):
        ChainedLines(path, max_bytes=4096).write(record(number))
    parts, report = whole_chain(path)
    assert len(parts) > 2
    assert (report.lines, report.problems) == (40, ())


def move_file_away(folder: Path) -> tuple[ChainedLines, Path, Path]:
    """Write a line, move the file away, and write another; return the writer and both files."""
    path, moved = folder / "audit.jsonl", folder / "old.jsonl"
    lines = ChainedLines(path)
    lines.write(record(1))
    path.rename(moved)
    lines.write(record(2))
    return lines, path, moved


def test_chain_continues_after_the_file_was_moved_away(tmp_path: Path) -> None:
    _, path, moved = move_file_away(tmp_path)
    assert read_chain([*lines_of(moved), *lines_of(path)]).problems == ()


@pytest.mark.proof
@pytest.mark.parametrize("max_bytes", [None, 2048], ids=["one file", "files that are soon full"])
def test_several_processes_write_one_chain(max_bytes: int | None, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from tests.execution.audit.test_hash_chain import ChainedLines, record\n"
        f"lines = ChainedLines(sys.argv[1], max_bytes={max_bytes})\n"
        "for number in range(200): lines.write(record(number))\n"
    )
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", code, str(path), str(root), *filter(None, sys.path)]
    started = [subprocess.Popen(command, cwd=root, env=os.environ.copy()) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    parts, report = whole_chain(path)
    assert (report.lines, report.problems) == (600, ())
    assert (len(parts) > 1) is (max_bytes is not None)


def test_chain_continues_when_another_process_rotates_the_file_during_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    lines, other = ChainedLines(path), ChainedLines(path, max_bytes=1)
    lines.write(record(0))
    looks = [getattr(Path, name) for name in ("exists", "is_file", "stat")]
    number = 0

    def rotating(look: Any) -> Any:
        """Have the other rotate the file after the first look at it."""

        def looked(self: Path, *args: Any, **options: Any) -> Any:
            nonlocal number
            found = look(self, *args, **options)
            if self == path and not number:
                number = 1
                other.write(record(1))
            return found

        return looked

    for look in looks:
        monkeypatch.setattr(Path, look.__name__, rotating(look))
    lines.write(record(2))
    monkeypatch.undo()
    parts, report = whole_chain(path)
    assert (len(parts), report.problems) == (2, ())


def test_chain_continues_after_another_process_wrote_as_much_to_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    one, other = ChainedLines(path), ChainedLines(path)
    one.write(record(1))
    path.rename(tmp_path / "audit-20260101T000000Z.jsonl")
    other.write(record(2))
    one.write(record(3))
    report = read_chain([line for part in sorted(tmp_path.iterdir()) for line in lines_of(part)])
    assert (report.lines, report.problems) == (3, ())


MISSING = "lines before it are missing, or in another order"


def test_a_file_that_is_swapped_for_another_and_put_back_shows_in_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, hidden, other = (tmp_path / name for name in ("audit.jsonl", "hidden.jsonl", "other.jsonl"))
    foreign, lines = ChainedLines(other), ChainedLines(path)
    for number in (1, 2):
        foreign.write(record(number + 10))
        lines.write(record(number))
    path.rename(hidden)
    other.rename(path)
    lines.write(record(3))
    lines.write(record(4))
    path.rename(other)
    hidden.rename(path)
    lines.write(record(5))
    lines.write(record(6))
    assert read_chain(lines_of(other)).problems == ((3, MISSING),)
    assert read_chain(lines_of(path)).problems == ((3, MISSING),)
    assert [each.levelname for each in caplog.records] == ["ERROR", "ERROR"]
    assert str(path) in caplog.text


def test_a_file_that_is_away_for_a_while_shows_what_was_written_meanwhile(tmp_path: Path) -> None:
    lines, path, moved = move_file_away(tmp_path)
    path.unlink()
    moved.rename(path)
    lines.write(record(3))
    assert read_chain(lines_of(path)).problems == ((2, MISSING),)


def test_an_older_copy_in_the_place_of_a_file_shows(tmp_path: Path) -> None:
    path, copy = tmp_path / "audit.jsonl", tmp_path / "copy.jsonl"
    lines = ChainedLines(path)
    lines.write(record(1))
    copy.write_bytes(path.read_bytes())
    lines.write(record(2))
    copy.replace(path)
    lines.write(record(3))
    assert read_chain(lines_of(path)).problems == ((2, MISSING),)


def test_a_file_that_is_deleted_after_others_were_rotated_shows(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    ChainedLines(path, max_bytes=1).write(record(1))
    lines = ChainedLines(path)
    lines.write(record(2))
    path.unlink()
    lines.write(record(3))
    parts = [*tmp_path.glob("audit-*.jsonl"), path]
    assert read_chain([line for part in parts for line in lines_of(part)]).problems == ((2, MISSING),)


def test_a_whole_copy_in_the_place_of_a_file_is_gone_on_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, copy = tmp_path / "audit.jsonl", tmp_path / "copy.jsonl"
    lines, other = ChainedLines(path), ChainedLines(path)
    lines.write(record(1))
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    other.write(record(2))
    lines.write(record(3))
    assert (read_chain(lines_of(path)).problems, caplog.text) == ((), "")


def test_chain_continues_after_another_process_rotated_the_file_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    lines, other = ChainedLines(path), ChainedLines(path, max_bytes=1200)
    for writer, count in ((lines, 1), (other, 12), (lines, 2)):
        for number in range(count):
            writer.write(record(number))
    parts, report = whole_chain(path)
    assert len(parts) > 3
    assert (report.lines, report.problems, caplog.text) == (15, (), "")


@pytest.mark.parametrize("max_bytes", [1, None])
def test_chain_continues_when_a_rotated_file_disappears_during_the_search(
    max_bytes: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    lines, other = ChainedLines(path), ChainedLines(path, max_bytes=1)
    lines.write(record(0))
    other.write(record(1))
    ChainedLines(path, max_bytes=max_bytes).write(record(2))
    (tmp_path / "audit-99990101T000000Z.jsonl").symlink_to("moved-away.jsonl")
    lines.write(record(3))
    parts = [*sorted(tmp_path.glob("audit-2*.jsonl")), path]
    report = read_chain([line for part in parts for line in lines_of(part)])
    assert (report.lines, report.problems, caplog.text) == (4, (), "")


def test_rotated_files_of_an_audit_whose_name_begins_alike_are_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    ChainedLines(path, max_bytes=1).write(record(1))
    ChainedLines(tmp_path / "audit-eu.jsonl", max_bytes=1).write(record(10))
    (rotated,) = tmp_path.glob("audit-????????T*Z.jsonl")
    ChainedLines(path).write(record(2))
    assert read_chain([*lines_of(rotated), *lines_of(path)]).problems == ()


def test_partial_line_of_another_process_costs_no_further_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    ChainedLines(path).write(record(1))
    with path.open("a") as file:
        file.write('{"time":"20')
    ChainedLines(path).write(record(2))
    assert [json.loads(line)["gen_ai.tool.name"] for line in lines_of(path)[::2]] == ["git:log1", "git:log2"]
    assert read_chain(lines_of(path)).problems == ((2, "it is not a whole line of this chain"),)


def test_an_audit_file_signs_what_it_has_written_when_it_is_flushed(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.jsonl", sign=make_signer(tmp_path / "key"))
    file.write(record(1))
    assert file.flush(30)
    report = read_chain(lines_of(tmp_path / "audit.jsonl"), make_verifier(public_key(tmp_path / "key")))
    assert (report.checkpoints, report.unsigned) == (1, 0)


def test_a_key_is_the_users_alone_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key"
    make_signer(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("no key")
    with pytest.raises(ConfigError):
        make_signer(path)
    with pytest.raises(ConfigError, match="audit key"):
        make_verifier("no key")


def forge_chain(count: int, previous: str = FIRST_PREVIOUS) -> list[str]:
    """Return lines with right digests, as anybody can make them who has no key."""
    lines = []
    for number in range(count):
        line, previous = make_chained_line(f'{{"gen_ai.tool.name":"git:log{number}"}}', previous)
        lines.append(line)
    return lines


@pytest.mark.parametrize("count", [0, 1, 3, 2_001])
def test_lines_without_any_signature_are_unproven(count: int, tmp_path: Path) -> None:
    check = make_verifier(public_key(_key(tmp_path)))
    report = read_chain(forge_chain(count), check)
    assert (report.unsigned, len(report.problems)) == (count, 1)
    assert "no signature" in report.problems[0][1]


def test_lines_after_the_last_signature_are_named_as_unproven(written: Path) -> None:
    check = make_verifier(public_key(written.parent / "key"))
    signed = lines_of(written)
    forged = forge_chain(2, read_chain(signed).last)
    report = read_chain([*signed, *forged], check)
    assert [line for line, _ in report.problems] == [12]
    assert "2 lines from here to the end are unproven" in report.problems[0][1]


def test_a_dropped_signature_with_changed_lines_before_it_is_a_problem(written: Path) -> None:
    check = make_verifier(public_key(written.parent / "key"))
    kept = lines_of(written)[:5]
    report = read_chain([*kept, *forge_chain(5, read_chain(kept).last)], check)
    assert report.problems


def test_the_digest_of_a_line_that_was_kept_elsewhere_proves_all_before_it(written: Path) -> None:
    unsigned = lines_of(written)[:-1]
    head = read_chain(unsigned).last
    assert read_chain(unsigned, head=head).problems == ()
    assert read_chain(unsigned, make_verifier(public_key(written.parent / "key")), head).problems == ()
    assert "not here" in read_chain(unsigned[:-1], head=head).problems[0][1]
    longer = [*unsigned, *forge_chain(1, head)]
    assert [line for line, _ in read_chain(longer, head=head).problems] == [11]


def test_an_audit_that_is_never_silent_is_signed_by_time(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "audit.jsonl"
    lines = ChainedLines(path, sign=make_signer(tmp_path / "key"), clock=lambda: now)
    for number in range(4):
        lines.write(record(number))
        now += 3.0
    report = read_chain(lines_of(path), make_verifier(public_key(tmp_path / "key")))
    assert (report.checkpoints, report.unsigned) == (1, 1)


def _key(folder: Path) -> Path:
    make_signer(folder / "key")
    return folder / "key"
