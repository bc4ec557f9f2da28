"""Builds the image of the container sandboxes: from a Dockerfile, or from this machine's own interpreter.

The second way needs no registry: an archive gets the interpreter, its standard library and the shared
libraries that they load, at the same paths as here, and nothing else.
"""

import hashlib
import io
import os
import re
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, cast

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.sandboxes.docker.engine import DIGEST_LABEL, INTERPRETER_LABEL, ContainerEngine, Image
from toolcrib.runtime.sandboxes.process.wall import interpreter

_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "usr/share/zoneinfo")
_TIME_ZONES = Path("/usr/share/zoneinfo")
_EXCLUDED = {
    *("site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter"),
    *("turtledemo", "pydoc_data", "distutils", "venv"),
}
"""Folders of the standard library that no guest needs."""
_LDD_LINE = re.compile(r"(?:=>\s*|^\s*)(/\S+) \(0x")


def build_from_dockerfile(engine: ContainerEngine, dockerfile: Path, name: str) -> Image:
    """Build an image and return it; the context is the folder of the file.

    Guests run its `python3`, or the interpreter in its label `toolcrib.python`.

    Raises:
        RuntimeUnavailableError: it cannot be built.
    """
    digest = hashlib.sha256(dockerfile.read_bytes()).hexdigest()
    stream = engine.client.build(
        path=str(dockerfile.parent),
        dockerfile=dockerfile.name,
        tag=name,
        labels={DIGEST_LABEL: f"sha256:{digest}"},
        rm=True,
        decode=True,
    )
    for line in stream:
        if "error" in line:
            raise RuntimeUnavailableError(engine.kind, f"the image cannot be built: {line['error']}")
    return engine.image(name)


def build_from_host(engine: ContainerEngine, name: str) -> Image:
    """Build an image with this machine's interpreter, and return it.

    Raises:
        RuntimeUnavailableError: it cannot be built.
    """
    program, files = interpreter()[0], host_files()
    folders = sorted({str(path.parent) for path in files if ".so" in path.name})
    with TemporaryFile() as archive:
        digest = write_archive(archive, files)
        archive.seek(0)
        changes = [
            f"LABEL {INTERPRETER_LABEL}={program}",  # one label a line: podman reads a line as one label
            f"LABEL {DIGEST_LABEL}=sha256:{digest}",
            f"ENV LD_LIBRARY_PATH={':'.join(folders)}",
        ]
        repository, _, tag = name.partition(":")
        answer = engine.client.import_image_from_data(
            archive, repository=repository, tag=tag or "latest", changes=changes
        )
    if '"error"' in answer:
        raise RuntimeUnavailableError(engine.kind, f"the image cannot be built: {answer[:500]}")
    return engine.image(name)


def host_files() -> list[Path]:
    """Return the files of this interpreter, its standard library, and the libraries that they load."""
    program = Path(interpreter()[0])
    library = {
        path
        for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        for path in _list_below(Path(os.path.realpath(place)))
    }
    loading = [program, *sorted(path for path in library if path.suffix == ".so")]
    zones = list(_list_below(_TIME_ZONES)) if _TIME_ZONES.is_dir() else []
    return sorted({program, *library, *_find_libraries(loading), *zones})


def _list_below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path.name not in _EXCLUDED and not path.name.startswith("config-"):
                yield from _list_below(path)
        elif path.is_file() and os.access(path, os.R_OK) and path.suffix != ".a":
            yield path


def _find_libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that programs load, and the dynamic loader."""
    found: set[Path] = set()
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        found |= {Path(path) for line in listed.stdout.splitlines() for path in _LDD_LINE.findall(line)}
    return found


def write_archive(archive: IO[bytes], files: Iterable[Path]) -> str:
    """Write files to a tar archive at their own paths, readable for everybody; return its digest."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        made: set[Path] = set()
        for folder in (*map(Path, _FOLDERS), *(path.relative_to("/").parent for path in files)):
            for parent in (*reversed(folder.parents[:-1]), folder):
                if parent not in made and parent != Path():
                    made.add(parent)
                    tar.addfile(_make_entry(parent, type=tarfile.DIRTYPE, mode=0o755))
        for path in files:
            content = path.read_bytes()  # links are stored as the files that they lead to
            facts = {"size": len(content), "mtime": int(path.stat().st_mtime), "mode": 0o755}
            tar.addfile(_make_entry(path.relative_to("/"), **facts), io.BytesIO(content))
    archive.seek(0)
    return hashlib.file_digest(cast("Any", archive), "sha256").hexdigest()


def _make_entry(path: Path, **facts: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(path))
    for name, value in facts.items():
        setattr(entry, name, value)
    return entry
