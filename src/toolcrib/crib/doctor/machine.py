"""What can be wrong with the machine: the catalogue's file, the folders, the sandboxes, Python itself."""

import os
import platform
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from toolcrib.crib.config.places import catalogue_file, data_folder
from toolcrib.crib.config.settings import MEMORY, Settings
from toolcrib.crib.doctor.findings import Finding, error, good, warning
from toolcrib.errors import ToolcribError
from toolcrib.runtime.choice import backends

__all__ = ["check_audit", "check_catalogue", "check_folder", "check_python", "check_sandboxes"]

_LOCK_TIME = 1.0


def check_python() -> Iterator[Finding]:
    """Yield what this Python is."""
    implementation = platform.python_implementation()
    yield good("python", f"{implementation} {platform.python_version()} at {sys.executable}")
    if sys.platform == "linux":
        found = shutil.which("bwrap")
        said = f"bubblewrap at {found}" if found else "bubblewrap is not installed"
        yield good("machine", f"{platform.system()} {platform.machine()}, {said}")


def check_sandboxes(settings: Settings) -> Iterator[Finding]:
    """Yield which sandboxes there are, and whether the one that the configuration wants is among them."""
    known = backends()
    there = sorted(kind for kind, info in known.items() if info.details.get("available"))
    yield good("code", f"sandboxes that can run here: {', '.join(there) or 'none'}", available=there)
    wanted = settings.code.backend
    if wanted in there or not settings.gateway.code:
        return
    info = known.get(wanted)
    remedy = str(info.details.get("remedy", "")) if info else f"choose one of {', '.join(sorted(known))}"
    report = warning if info else error
    why = "code cannot run where nothing else is asked for"
    yield report("code", f"the sandbox {wanted!r} cannot run here", why, remedy)


def check_folder(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the folder for what is kept can be used, and by nobody else."""
    try:
        folder = data_folder(environ)
    except ToolcribError as failure:
        yield error("data", "there is no folder for what is kept", str(failure), "set TOOLCRIB_HOME")
        return
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        yield from _check_writable("data", folder)
        return
    except OSError as failure:
        yield error("data", f"{folder} cannot be looked at", str(failure.strerror), "set TOOLCRIB_HOME")
        return
    if not stat.S_ISDIR(mode):
        yield error("data", f"{folder} is no folder", "nothing can be kept", "move it, or set TOOLCRIB_HOME")
    elif sys.platform != "win32" and mode & 0o022:
        why = "whoever changes the catalogue decides which tools there seem to be"
        yield warning("data", f"others may write to {folder}", why, f"chmod go-w {folder}")
    else:
        yield from _check_writable("data", folder)


def check_catalogue(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the file of the catalogue can be read and written."""
    if settings.store == MEMORY or (settings.store is None and settings.source is None):
        yield good("catalogue", "it is not kept between runs")
        return
    try:
        path = Path(settings.store) if settings.store else catalogue_file(str(settings.source), environ)
    except ToolcribError:
        return  # what is wrong with the folder is told
    if path.is_dir():
        yield error("catalogue", f"{path} is a folder", "a catalogue is one file", "mend `store`")
    elif not path.exists():
        yield from _check_writable("catalogue", path.parent)
        yield good("catalogue", "nothing is kept yet", file=str(path))
    else:
        yield _opened(path)


def _opened(path: Path) -> Finding:
    if not os.access(path, os.W_OK | os.R_OK):
        return error("catalogue", f"{path} cannot be written", "nothing can be kept", f"chmod u+rw {path}")
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_TIME, isolation_level=None)) as database:
            said = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if said != "ok":
                return _corrupt(path, said)
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as failure:
        why = f"{failure}; another process holds it"
        remedy = "wait for the other process, or end it"
        return warning("catalogue", f"{path} is locked", why, remedy)
    except sqlite3.DatabaseError as failure:
        return _corrupt(path, str(failure))
    return good("catalogue", f"{path.stat().st_size:,} bytes are kept", file=str(path))


def _corrupt(path: Path, why: str) -> Finding:
    remedy = f"delete it; it is made again: rm {path}"
    return error("catalogue", f"{path} is corrupt", why, remedy)


def check_audit(settings: Settings) -> Iterator[Finding]:
    """Yield whether calls can be written down where the configuration wants them to be."""
    if settings.audit is None:
        return
    path = Path(settings.audit.path)
    if path.is_dir():
        yield error("audit", f"{path} is a folder", "calls are written into a file", "mend `audit.path`")
    elif path.exists() and not os.access(path, os.W_OK):
        yield error("audit", f"{path} cannot be written", "no call would be noted", f"chmod u+w {path}")
    else:
        yield from _check_writable("audit", path.parent)


def _check_writable(subject: str, folder: Path) -> Iterator[Finding]:
    """Yield why nothing can be made in a folder, which need not be there."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield error(
            subject, f"{folder} cannot be made", f"{there} is no folder", "move it, or choose another"
        )
    elif not os.access(there, os.W_OK | os.X_OK):
        yield error(
            subject, f"{folder} cannot be written", f"{there} is not ours to write", f"chmod u+wx {there}"
        )
