"""Put a changed text in the place of a file: all of it or nothing, with what was there kept beside it."""

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.scrub import hide_secrets

__all__ = ["Edit", "backups", "read_text"]

_PRIVATE = 0o600
_NUMBER = re.compile(r"\.bak(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a file that is made and checked, and not written."""

    path: Path
    before: str | None
    """What the file says; None where there is none."""
    after: str
    private: bool = False
    """Whether secrets are written with it, so that nobody but the owner may read the file."""

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """What would change, as `diff -u` shows it, without secrets of known forms."""
        names = ("/dev/null" if self.before is None else str(self.path), str(self.path))
        lines = unified_diff((self.before or "").splitlines(), self.after.splitlines(), *names, lineterm="")
        return hide_secrets("\n".join(lines))

    def write(self) -> Path | None:
        """Write the file, and return the backup of what it said; None where there was no file, or no change.

        Raises:
            ConfigError: it cannot be written, or has changed since it was read; it is as it was.
        """
        if not self.changes:
            return None
        try:
            target = self.path.resolve()  # a link stays one
            target.parent.mkdir(parents=True, exist_ok=True)
            if read_text(target) != self.before:
                raise _refusal(self.path, "it has changed since it was read; try again")
            backup = None if self.before is None else _back_up(target)
            _replace(target, self.after.encode("utf-8", "strict"), private=self.private)
        except (OSError, RuntimeError, UnicodeEncodeError) as error:
            said = getattr(error, "strerror", None) or error
            raise _refusal(self.path, f"it cannot be written: {said}") from error
        return None if backup is None else self.path.with_name(backup.name)


def read_text(path: Path) -> str | None:
    """Return what a file says, with the ends of its lines as they are; None where there is none.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 text: {error.reason} at byte {error.start}"
        raise _refusal(path, reason) from error
    except OSError as error:
        raise _refusal(path, f"it cannot be read: {error.strerror or error}") from error


def backups(path: Path) -> list[Path]:
    """Return the backups of a file, the oldest first: `FILE.bak`, `FILE.bak.1` and so on."""
    numbered = {}
    with suppress(OSError):
        for each in path.parent.iterdir():
            found = each.name.startswith(path.name) and _NUMBER.fullmatch(each.name, len(path.name))
            if found:
                numbered[int(found[1] or 0)] = each
    return [numbered[number] for number in sorted(numbered)]


def _refusal(path: Path, reason: str) -> ConfigError:
    return ConfigError(str(path), (Problem("", "file", reason),))


def _back_up(target: Path) -> Path:
    """Keep a copy of a file, unless the last one is the same; none is ever written over."""
    content = target.read_bytes()
    known = backups(target)
    if known and known[-1].read_bytes() == content:
        return known[-1]
    last = _NUMBER.fullmatch(known[-1].name, len(target.name)) if known else None
    suffix = f".bak.{int(last[1] or 0) + 1}" if last else ".bak"
    backup = target.with_name(target.name + suffix)
    handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    _copy_rights(target, backup)
    return backup


def _replace(target: Path, content: bytes, *, private: bool) -> None:
    """Put content in the place of a file; whoever reads it meanwhile sees the one or the other."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            _copy_rights(target, made)
            if private:
                made.chmod(made.stat().st_mode & 0o700)
        elif not private:
            made.chmod(0o666 & ~_umask())
        made.replace(target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _copy_rights(source: Path, target: Path) -> None:
    known = source.stat()
    target.chmod(known.st_mode & 0o7777)
    if hasattr(os, "chown"):
        with suppress(PermissionError):  # only root may give files away
            os.chown(target, known.st_uid, known.st_gid)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
