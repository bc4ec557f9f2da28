"""Atomic changes of a file, with backups of the old content."""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from toolcrib.crib.config.reading import file_refusal, read_text
from toolcrib.paths import TEMPORARY_PREFIX, data_folder, file_rights, lock_path, replace_file
from toolcrib.setup.editing.secrets import without_secrets

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LAST = "last"
_LEFT_BEHIND = re.compile(rf"\..+\.{TEMPORARY_PREFIX}[a-z0-9_]{{8}}")
"""Temporary files that a killed edit leaves in the folder."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to a file that is computed and checked, but not written."""

    path: Path
    """The file."""
    before: str | None = field(repr=False)
    """The current text; None if the file does not exist."""
    after: str = field(repr=False)
    """The new text."""
    private: bool = False
    """Whether secrets are written with it, so that nobody but the owner may read the file."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that are never shown."""
    again: "Callable[[], Edit] | None" = field(default=None, repr=False, compare=False)
    """Makes the same change to the current content of the file; None if that is not possible."""

    @property
    def changes(self) -> bool:
        """Whether there is a change to write."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """The change in the form of `diff -u`; each secret is replaced by a different number."""
        names = ("/dev/null" if self.before is None else str(self.path), str(self.path))
        before, after = (without_secrets(text, self.secrets) for text in (self.before or "", self.after))
        return "\n".join(unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))

    def write(self) -> Path | None:
        """Write the file, and return the backup of the old one; None if there was no file, or no change.

        If another program has changed the file in the meantime, the change is made to the new content, if
        possible.

        Raises:
            ConfigError: it cannot be written, or has changed since it was read; it is left as it was.
        """
        if not self.changes:
            return None
        try:
            target = self.path.resolve()  # a link stays one
            target.parent.mkdir(parents=True, exist_ok=True)
            with lock_path(target.parent):
                _clean_up(target.parent)
                edit = self if read_text(target) == self.before else self._afresh()
                return edit._put(target) if edit.changes else None  # noqa: SLF001 - of the same kind
        except (OSError, RuntimeError, UnicodeEncodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise file_refusal(self.path, f"it cannot be written: {reason}") from error

    def _afresh(self) -> "Edit":
        if self.again is None:
            raise file_refusal(self.path, "it has changed since it was read; try again")
        return self.again()

    def _put(self, target: Path) -> Path | None:
        content = self.after.encode("utf-8", "strict")
        backup = None if self.before is None else _back_up(target)
        replace_file(
            target, content, rights=file_rights(target) & (0o700 if self.private else 0o7777), like=target
        )
        return backup


def backups(path: Path) -> list[Path]:
    """Return the backups of a file, the oldest first: one for each day on which it was changed, and the last.

    The backup of a day holds the file as it was before the first change of that day; the last one, as it was
    before the last change.
    """
    folder = _backup_folder(path)
    with suppress(OSError):
        days = sorted(each for each in folder.iterdir() if _DAY.fullmatch(each.name))
        return [*days, *([last] if (last := folder / _LAST).is_file() else [])]
    return []


def _backup_folder(path: Path) -> Path:
    """Return the folder of the backups, apart from the file: clients read every file in some folders."""
    digest = sha256(os.fsencode(path)).hexdigest()[:16]
    return data_folder() / "backups" / f"{path.name}-{digest}"


def _back_up(target: Path) -> Path:
    """Keep a copy of a file as the last backup, and as that of this day where there is none; return one."""
    content, rights = target.read_bytes(), target.stat().st_mode & 0o7777
    folder = _backup_folder(target)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    day, last = folder / time.strftime("%Y-%m-%d"), folder / _LAST
    is_first = not day.exists()
    for backup in (day, last) if is_first else (last,):
        replace_file(backup, content, rights=rights, like=target)
    return day if is_first else last


def _clean_up(folder: Path) -> None:
    """Remove the temporary files of edits that were killed; the caller holds the lock of the folder."""
    for each in folder.iterdir():
        if _LEFT_BEHIND.fullmatch(each.name):
            each.unlink(missing_ok=True)
