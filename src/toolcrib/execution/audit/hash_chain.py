"""Hash-chained, signed, tamper-evident JSON Lines.

A line ends with `"toolcrib.previous"`, the digest of the line before, and `"toolcrib.chain"`, the digest of
that and of everything before these two. Some lines are checkpoints: a signature of the digest of the line
before, and so of the whole chain up to there.

Digests alone prove nothing against somebody who can write the file: they can be computed anew. So with a
key, or with the digest of a line that was kept elsewhere, each line after the last proof is a problem. A
writer therefore signs every thousand lines, every few seconds, and when it falls silent.
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
FIRST = "0" * 64
"""The digest that the first line names as the one before it."""
_PREVIOUS = '"toolcrib.previous":"'
_CHAIN = '"toolcrib.chain":"'
_CHECKPOINT_LINES = 1_000
_CHECKPOINT_SECONDS = 5.0
"""A line that comes when the last checkpoint is older than this is followed by one."""
_STAMPS = f"{'[0-9]' * 8}T*Z"
"""The pattern of the times in the names of rotated files."""
_TAIL = 1 << 16
"""How much is read of the end of a file to find its last line."""
Sign = Callable[[bytes], bytes]
"""Makes a signature."""
Verify = Callable[[bytes, bytes], bool]
"""Says whether a signature, the first, is that of some bytes."""


class Checkpoint(Record):
    """A line that signs all lines before it."""

    time: str
    """When, in UTC."""
    signature: str
    """The signature of the digest of the line before, in base64."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of checking a chain of lines."""

    lines: int
    """How many there are."""
    problems: tuple[tuple[int, str], ...]
    """The lines that are not as they were written, by number, and what is wrong."""
    checkpoints: int
    """How many signatures are right."""
    unsigned: int
    """How many lines come after the last right signature, or after the head that was expected."""
    first: str
    """The digest that the first line names as the one before it."""
    last: str
    """The digest of the last line, by which the next file goes on."""


def chained_line(body: str, previous: str) -> tuple[str, str]:
    """Return a line of JSON with its place in the chain, and its digest.

    >>> line, digest = chained_line('{"a":1}', FIRST)
    >>> line.startswith('{"a":1,"toolcrib.previous":"000'), len(digest)
    (True, 64)
    """
    digest = hashlib.sha256(f"{previous}\n{body}".encode(errors="surrogatepass")).hexdigest()
    comma = "" if body == "{}" else ","
    return f'{body[:-1]}{comma}{_PREVIOUS}{previous}",{_CHAIN}{digest}"}}', digest


def _parse_line(line: str) -> tuple[str, str, str] | None:
    """Return what a line says, and the two digests; None where it has none."""
    body, found, rest = line.rpartition(_PREVIOUS)
    previous, _, digest = rest.partition(f'",{_CHAIN}')
    if not found or len(previous) != len(FIRST) or not digest.endswith('"}'):
        return None
    return f"{body.removesuffix(',')}}}", previous, digest.removesuffix('"}')


class ChainedLines(JsonLines):
    """Appends records to a file as a chain, which goes on where the file ends, whoever wrote it last.

    Several processes may share the file. With `max_bytes` a file that has grown so large is rotated: it is
    renamed with the time, and the chain goes on in a new one. Others may rotate it too. Where the line that
    this wrote last is in neither, the next one names it all the same, so that `read_chain` tells of the gap.

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
        self._last = FIRST
        self._unsigned, self._signed_at = 0, clock()
        self._seen: os.stat_result | None = None
        """The file as this left it; None where it is not known, or not a file that is kept."""

    def write(self, record: Record) -> None:
        """Write a record, as `JsonLines.write` does, and a checkpoint where it is time for one."""
        body = serialize_record(record)
        with self._lock, _locked(self._path):
            self._catch_up()
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
        """Sign what is written, if something is and there is a key."""
        if self._sign is None or not self._unsigned:
            return
        with self._lock, _locked(self._path):
            self._catch_up()
            self._write_checkpoint(self._sign)

    def _write_checkpoint(self, sign: Sign) -> None:
        signature = base64.b64encode(sign(self._last.encode())).decode()
        self._append(serialize_record(Checkpoint(time=_now(), signature=signature)))
        self._unsigned, self._signed_at = 0, self._clock()

    def _append(self, body: str) -> None:
        line, digest = chained_line(body, self._last)
        self._write(f"{line}\n")
        self._last = digest
        self._seen = self._found()

    def _found(self) -> os.stat_result | None:
        found = self._path.stat()
        return found if stat.S_ISREG(found.st_mode) else None

    def _catch_up(self) -> None:
        """Go on where the file ends: another process may have written, or rotated it."""
        try:
            found = self._found()
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
            return  # writing says what is wrong

    def _is_continued(self, end: int) -> bool:
        """Return whether the line that this wrote last, and that ended there, is here or in a file before."""
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
    """Return whether lines are as they were written, one after another.

    With `verify`, or `head`, the digest of a line that was kept elsewhere, each line must be proven: by a
    signature after it, or by that digest.

    >>> one, first = chained_line('{"a":1}', FIRST)
    >>> two, _ = chained_line('{"b":2}', first)
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
        if chained_line(body, previous) != (line, digest):
            problems.append((number, "it is not what was written"))
        signature = _signature(body)
        if signature is not None and verify is not None:
            if verify(signature, previous.encode()):
                checkpoints, proven = checkpoints + 1, number
            else:
                problems.append((number, "its signature is not that of this key"))
        if digest == head:
            has_head, proven = True, number
        last = digest
    if head is not None and not has_head:
        problems.append(
            (number, f"the line with the digest {head} is not here: lines were changed or taken away")
        )
    elif (verify is not None or head is not None) and (proven < number or not number):
        problems.append((proven + 1, _unproven(number - proven)))
    return ChainReport(number, tuple(problems), checkpoints, number - proven, first or FIRST, last or FIRST)


def _unproven(count: int) -> str:
    if not count:
        return "there is no line, and so no signature; was the file emptied?"
    lines = "1 line" if count == 1 else f"{count:,} lines"
    again = f"verify again in {_CHECKPOINT_SECONDS:g} s if calls are being written"
    return f"{lines} from here to the end are unproven: no signature of this key follows; {again}"


def _signature(body: str) -> bytes | None:
    """Return the signature of a line that is a checkpoint."""
    if '"signature":"' not in body:
        return None
    try:
        record: Any = json.loads(body)
        is_checkpoint = isinstance(record, dict) and record.keys() == {"time", "signature"}
        return base64.b64decode(record["signature"]) if is_checkpoint else None
    except ValueError:
        return b""


def _now() -> str:
    moment = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{moment}Z"


def _is_same(found: os.stat_result, seen: os.stat_result | None) -> bool:
    """Return whether a file is the one that was seen, and nobody has written to it since."""
    return seen is not None and all(
        getattr(found, each) == getattr(seen, each) for each in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    )


def _last_digest(path: Path) -> tuple[str | None, bool]:
    """Return the digest of the last line of a file that has one, and whether a part of another follows."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        tail = file.read()
    found = (_parse_line(line) for line in reversed(tail.decode(errors="surrogateescape").splitlines()))
    return next((each[2] for each in found if each is not None), None), not tail.endswith(b"\n")


def _has_line(path: Path, end: int, digest: str) -> bool:
    """Return whether a line with a digest ends at a place of a file."""
    closing = f'{_CHAIN}{digest}"}}\n'.encode()
    with path.open("rb") as file:
        file.seek(max(0, end - len(closing)))
        return file.read(len(closing)) == closing


def _first_previous(path: Path) -> str | None:
    """Return the digest that the first line of a file names as the one before it."""
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        found = _parse_line(file.readline().rstrip("\n"))
    return None if found is None else found[1]


def _last_rotated_digest(path: Path) -> str | None:
    """Return the digest of the last line of the newest file that was rotated and is still there."""
    for file in reversed(rotated_files(path)):
        with contextlib.suppress(FileNotFoundError):  # it was moved away meanwhile
            return _last_digest(file)[0]
    return None


def rotated_files(path: Path) -> list[Path]:
    """Return the files that were rotated and are still beside the one that is written, oldest first."""
    return sorted(path.parent.glob(f"{glob.escape(path.stem)}-{_STAMPS}{glob.escape(path.suffix)}"))


def _rotated_name(path: Path) -> Path:
    """Return the new name of a file that is full."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    return path.with_name(f"{path.stem}-{stamp}{path.suffix}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing; a pipe has one reader, and no chain to go on with."""
    handle = _lock_of(path) if os.name == "posix" else None
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock_of(path: Path) -> int | None:
    """Return the locked file; None where it is not one that can be locked, and writing says why."""
    import fcntl  # noqa: PLC0415 - not on every platform

    while _is_lockable(path):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Another process may have moved the file away before its lock was to be had.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except OSError:
            os.close(handle)
            return None
        os.close(handle)
    return None


def _is_lockable(path: Path) -> bool:
    """Return whether a path is that of a file, or of none yet: by one look, for it may be moved away."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False
