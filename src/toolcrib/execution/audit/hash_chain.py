"""Hash-chained, signed, tamper-evident JSON Lines.

A line ends with `"toolcrib.previous"`, the digest of the line before, and `"toolcrib.chain"`, the digest of
that and of everything before these two. Some lines are checkpoints: a signature of the digest of the line
before, and so of the whole chain up to there.

Digests alone are no proof against somebody who can write the file: they can be computed again. So when a
chain is verified with a key, or with the digest of a line that was stored elsewhere, every line after the
last proof is a problem. A writer therefore signs every thousand lines, every few seconds, and before a pause.
"""

import base64
import contextlib
import glob
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolcrib.execution.audit.json_lines import JsonLines, serialize_record
from toolcrib.model.record import Record

_LOG = logging.getLogger("toolcrib.audit")
FIRST_PREVIOUS = "0" * 64
"""The previous digest in the first line of a chain."""
_PREVIOUS = '"toolcrib.previous":"'
_CHAIN = '"toolcrib.chain":"'
_CHECKPOINT_LINES = 1_000
_CHECKPOINT_SECONDS = 5.0
"""A checkpoint follows a line if the last one is older than this."""
_ROTATION_TIMES = f"{'[0-9]' * 8}T*Z"
"""Glob pattern of the times in the names of rotated files."""
_TAIL_BYTES = 1 << 16
"""The part at the end of a file in which its last line is searched."""
Sign = Callable[[bytes], bytes]
"""Returns the signature of some bytes."""
Verify = Callable[[bytes, bytes], bool]
"""Returns whether a signature, the first argument, is that of some bytes."""


class Checkpoint(Record):
    """A line that signs all lines before it."""

    time: str
    """Its time, in UTC."""
    signature: str
    """The signature of the digest of the line before, in base64."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of checking a chain of lines."""

    lines: int
    """The number of lines."""
    problems: tuple[tuple[int, str], ...]
    """The changed lines by number, each with its problem."""
    checkpoints: int
    """The number of valid signatures."""
    unsigned: int
    """The number of lines after the last valid signature, or after the expected head."""
    first: str
    """The previous digest in the first line."""
    last: str
    """The digest of the last line, with which the next file continues."""


def make_chained_line(body: str, previous: str) -> tuple[str, str]:
    """Return a line of JSON with its two digests, and its own digest.

    >>> line, digest = make_chained_line('{"a":1}', FIRST_PREVIOUS)
    >>> line.startswith('{"a":1,"toolcrib.previous":"000'), len(digest)
    (True, 64)
    """
    digest = hashlib.sha256(f"{previous}\n{body}".encode(errors="surrogatepass")).hexdigest()
    comma = "" if body == "{}" else ","
    return f'{body[:-1]}{comma}{_PREVIOUS}{previous}",{_CHAIN}{digest}"}}', digest


def _parse_line(line: str) -> tuple[str, str, str] | None:
    """Return the body of a line and its two digests; None if it has none."""
    body, found, rest = line.rpartition(_PREVIOUS)
    previous, _, digest = rest.partition(f'",{_CHAIN}')
    if not found or len(previous) != len(FIRST_PREVIOUS) or not digest.endswith('"}'):
        return None
    return f"{body.removesuffix(',')}}}", previous, digest.removesuffix('"}')


class ChainedLines(JsonLines):
    """Appends records to a file as a chain, which continues after the last line of any writer.

    Several processes may share the file. With `max_bytes` a large file is rotated: it is renamed with the
    time, and the chain continues in a new one. Others may rotate it too. If the last line of this writer is
    in none of the files, the next line refers to it all the same, so that `read_chain` reports the gap.

    Raises:
        StoreError: the file cannot be opened for appending.
    """

    __slots__ = ("_clock", "_last", "_max_bytes", "_path", "_seen", "_sign", "_signed_at", "_unsigned")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sign: Sign | None = None,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(path)
        self._path = Path(path).expanduser()
        self._sign, self._max_bytes, self._clock = sign, max_bytes, clock
        self._last = FIRST_PREVIOUS
        self._unsigned, self._signed_at = 0, clock()
        self._seen: os.stat_result | None = None
        """The status of the file after the last write of this object; None if unknown, or no regular file."""

    def write(self, record: Record) -> None:
        """Write a record, as `JsonLines.write` does, and a checkpoint if one is due."""
        body = serialize_record(record)
        with self._lock, _lock_file(self._path):
            self._read_other_writes()
            self._append(body)
            self._unsigned += 1
            size = 0 if self._seen is None else self._seen.st_size
            is_full = self._max_bytes is not None and size >= self._max_bytes
            is_due = (
                self._unsigned >= _CHECKPOINT_LINES or self._clock() - self._signed_at >= _CHECKPOINT_SECONDS
            )
            if self._sign is not None and (is_due or is_full):
                self._write_checkpoint(self._sign)
            if is_full:
                self._path.rename(_rotated_name(self._path))

    def checkpoint(self) -> None:
        """Sign the lines since the last checkpoint, if there are any and there is a key."""
        if self._sign is None or not self._unsigned:
            return
        with self._lock, _lock_file(self._path):
            self._read_other_writes()
            self._write_checkpoint(self._sign)

    def _write_checkpoint(self, sign: Sign) -> None:
        signature = base64.b64encode(sign(self._last.encode())).decode()
        self._append(serialize_record(Checkpoint(time=_utc_now(), signature=signature)))
        self._unsigned, self._signed_at = 0, self._clock()

    def _append(self, body: str) -> None:
        line, digest = make_chained_line(body, self._last)
        self._write(f"{line}\n")
        self._last = digest
        self._seen = self._stat_regular_file()

    def _stat_regular_file(self) -> os.stat_result | None:
        found = self._path.stat()
        return found if stat.S_ISREG(found.st_mode) else None

    def _read_other_writes(self) -> None:
        """Read the end of the file if another process has written or rotated it."""
        try:
            found = self._stat_regular_file()
            if found is None or _is_same(found, self._seen):
                return
            if found.st_size:
                last, self._torn = _last_digest(self._path)
            else:
                last, self._torn = _last_rotated_digest(self._path), False
            if self._seen is None or self._is_continued(self._seen.st_size):
                self._last = last or self._last
            elif found.st_size:
                _LOG.error("%s is not the file that was written before, or lines of it are gone", self._path)
        except OSError:
            return  # the write that follows raises the error

    def _is_continued(self, end: int) -> bool:
        """Return whether the last line of this writer is still in the file, or in a rotated one before it."""
        if _has_line(self._path, end, self._last):
            return True
        expected = _first_previous(self._path)
        for file in reversed(rotated_files(self._path)):
            with contextlib.suppress(FileNotFoundError):  # it was moved away meanwhile
                if expected in {None, _last_digest(file)[0]}:
                    if _has_line(file, end, self._last):
                        return True
                    expected = _first_previous(file)
        return False


def read_chain(lines: Iterable[str], verify: Verify | None = None, head: str | None = None) -> ChainReport:
    """Verify that no line was changed, added, removed or reordered.

    With `verify`, or with `head` (the digest of a line that was stored elsewhere), each line must be proven
    by a signature after it, or by that digest.

    >>> one, first = make_chained_line('{"a":1}', FIRST_PREVIOUS)
    >>> two, _ = make_chained_line('{"b":2}', first)
    >>> read_chain([one, two]).problems, read_chain([two]).first == first
    ((), True)
    >>> read_chain([one, two.replace("2", "3", 1)]).problems
    ((2, 'it is not what was written'),)
    """
    problems: list[tuple[int, str]] = []
    first = last = ""
    number = checkpoints = proven = 0
    has_head = False
    for number, line in enumerate(lines, 1):
        found = _parse_line(line)
        if found is None:
            problems.append((number, "it is not a whole line of this chain"))
            continue
        body, previous, digest = found
        first = first or previous
        if last and previous != last:
            problems.append((number, "lines before it are missing, or in another order"))
        if make_chained_line(body, previous) != (line, digest):
            problems.append((number, "it is not what was written"))
        signature = _read_signature(body)
        if signature is not None and verify is not None:
            if verify(signature, previous.encode()):
                checkpoints, proven = checkpoints + 1, number
            else:
                problems.append((number, "its signature was not made with this key"))
        if digest == head:
            has_head, proven = True, number
        last = digest
    if head is not None and not has_head:
        problems.append(
            (number, f"the line with the digest {head} is not here: lines were changed or removed")
        )
    elif (verify is not None or head is not None) and (proven < number or not number):
        problems.append((proven + 1, _describe_unproven(number - proven)))
    return ChainReport(
        number, tuple(problems), checkpoints, number - proven, first or FIRST_PREVIOUS, last or FIRST_PREVIOUS
    )


def _describe_unproven(count: int) -> str:
    if not count:
        return "there is no line, and so no signature; was the file emptied?"
    lines = "1 line" if count == 1 else f"{count:,} lines"
    again = f"verify again in {_CHECKPOINT_SECONDS:g} s if calls are being written"
    return f"{lines} from here to the end are unproven: no signature of this key follows; {again}"


def _read_signature(body: str) -> bytes | None:
    """Return the signature in a checkpoint; None for other lines."""
    if '"signature":"' not in body:
        return None
    try:
        record: Any = json.loads(body)
        is_checkpoint = isinstance(record, dict) and record.keys() == {"time", "signature"}
        return base64.b64decode(record["signature"]) if is_checkpoint else None
    except ValueError:
        return b""


def _utc_now() -> str:
    moment = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{moment}Z"


def _is_same(found: os.stat_result, seen: os.stat_result | None) -> bool:
    """Return whether a file is unchanged since its last known status."""
    return seen is not None and all(
        getattr(found, each) == getattr(seen, each) for each in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    )


def _last_digest(path: Path) -> tuple[str | None, bool]:
    """Return the last digest in a file, and whether an incomplete line follows it."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read()
    found = (_parse_line(line) for line in reversed(tail.decode(errors="surrogateescape").splitlines()))
    return next((each[2] for each in found if each is not None), None), not tail.endswith(b"\n")


def _has_line(path: Path, end: int, digest: str) -> bool:
    """Return whether a line with a digest ends at an offset of a file."""
    closing = f'{_CHAIN}{digest}"}}\n'.encode()
    with path.open("rb") as file:
        file.seek(max(0, end - len(closing)))
        return file.read(len(closing)) == closing


def _first_previous(path: Path) -> str | None:
    """Return the previous digest in the first line of a file."""
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        found = _parse_line(file.readline().rstrip("\n"))
    return None if found is None else found[1]


def _last_rotated_digest(path: Path) -> str | None:
    """Return the last digest in the newest rotated file that still exists."""
    for file in reversed(rotated_files(path)):
        with contextlib.suppress(FileNotFoundError):  # it was moved away meanwhile
            return _last_digest(file)[0]
    return None


def rotated_files(path: Path) -> list[Path]:
    """Return the rotated files that still exist beside the current one, oldest first."""
    return sorted(path.parent.glob(f"{glob.escape(path.stem)}-{_ROTATION_TIMES}{glob.escape(path.suffix)}"))


def _rotated_name(path: Path) -> Path:
    """Return the name for a file that is rotated now."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    return path.with_name(f"{path.stem}-{stamp}{path.suffix}")


@contextlib.contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Lock the file against other processes; a pipe is not locked, since it has no lines to continue."""
    handle = _open_locked(path) if os.name == "posix" else None
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _open_locked(path: Path) -> int | None:
    """Return a handle of the locked file; None if it cannot be locked."""
    import fcntl  # noqa: PLC0415 - not on every platform

    while _is_lockable(path):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Another process may have rotated the file while this one waited for the lock: then lock the new
            # one.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except OSError:
            os.close(handle)
            return None
        os.close(handle)
    return None


def _is_lockable(path: Path) -> bool:
    """Return whether a path is a regular file, or does not exist yet.

    One call of `stat`, since the file may be rotated between two.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False
