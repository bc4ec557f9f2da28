"""Walls of Docker: a container without an image of its own, in which a server sees files of this machine.

What it sees is the same as behind bubblewrap, so that `npx` and `uvx` work here too and there is no image to
build. The image of the container is empty but for the folders and links of the root. Docker's own client runs
the container, and its pipes are the server's. A container is not a child of ours, so the launcher stays in it
as its first process, and ends it when the line to toolcrib is closed, also where toolcrib was killed.
"""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from itertools import count
from pathlib import Path

import anyio
from anyio import to_thread

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.execution.mcp.transport.process import Launch
from toolcrib.execution.mcp.walls.programs import SYSTEM
from toolcrib.execution.mcp.walls.view import MEMORY, SCRATCH, TASKS, Reach, ServerView
from toolcrib.isolation.bubblewrap import LISTENING
from toolcrib.isolation.owner import is_gone, own_mark
from toolcrib.isolation.seccomp import SERVER, docker_profile

KIND = "docker"
OWNER = "toolcrib.wall"
"""Label of a container: the process that it belongs to."""
_IMAGE = "toolcrib-wall"
_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp")
_ITS_OWN = frozenset(map(Path, ("/etc/hosts", "/etc/resolv.conf")))
"""Files that Docker makes for each container."""
_OF_CLIENT = ("DOCKER_", "GO", "LD_", "HOME", "PATH", "XDG_")
"""Beginnings of variables that Docker's client reads itself; none of them is a secret."""
_SECONDS = 30.0
_RECURSION = (25,)
"""The version of Docker from which on what is mounted below a read-only folder is read-only too."""
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class DockerWall:
    """The abilities of Docker on this machine."""

    program: str
    image: str
    is_rootless: bool
    """Whether the root of a container is the user that runs Docker."""
    plain_mount: str
    """The option of a folder under which nothing is mounted inside, where Docker needs it."""
    stays = True
    """Whether the launcher stays beside the server."""

    @property
    def limits(self) -> dict[str, int]:
        """The rlimits of a server: a container has the others."""
        return {"CORE": 0}

    def user(self, network: Reach) -> list[int] | None:
        """Return the user that the launcher has to become, where it begins as root; None where it does not.

        The root of a container has its capabilities, and others have none. With them the launcher prepares
        the network of the container, in which there is nothing but a loopback.
        """
        return [os.getuid(), os.getgid()] if network == "hosts" and not self.is_rootless else None

    @asynccontextmanager
    async def launch(
        self, view: ServerView, command: Sequence[str], *, network: Reach, line: tuple[Path, str]
    ) -> AsyncGenerator[Launch, None]:
        """Give the way to start a program in a container; afterwards nothing of it is left.

        Args:
            view: What it sees.
            command: The program and its arguments.
            network: What it reaches: all is the network of Docker.
            line: A folder of this machine with a socket, and where it is inside.
        """
        name = f"{_IMAGE}-{own_mark() or os.getpid()}-{next(_NUMBERS)}"
        is_root = self.is_rootless or network == "hosts"
        ids = "0:0" if is_root else f"{os.getuid()}:{os.getgid()}"
        capabilities = (*LISTENING, "CAP_SETUID", "CAP_SETGID") if network == "hosts" else ()
        client, passed = _share_variables(view.environment)
        options = [
            *("run", "--rm", "--interactive", "--pull=never", f"--name={name}", f"--user={ids}"),
            *(f"--label={OWNER}={own_mark() or ''}", "--hostname=guest", "--log-driver=none", "--read-only"),
            *(f"--cap-add={each}" for each in capabilities),
            *("--cap-drop=ALL", "--security-opt=no-new-privileges", f"--pids-limit={TASKS}"),
            f"--security-opt=seccomp={_write_profile(line[0])}",
            *(f"--memory={MEMORY}", f"--memory-swap={MEMORY}", f"--workdir={view.folder}"),
            f"--network={'bridge' if network == 'all' else 'none'}",
            *(f"--add-host={host}:{address}" for host, address in view.hosts.items()),
            f"--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={SCRATCH}",
            *(f"--mount={each}" for each in self._mounts(view, line)),
            *passed,
            self.image,
        ]
        try:
            yield Launch((self.program, *options, *command), client, "/", is_walled=True)
        finally:
            with anyio.CancelScope(shield=True):
                remove = [self.program, "rm", "--force", "--volumes", name]
                await to_thread.run_sync(partial(_ask, remove, check=False))

    def _mounts(self, view: ServerView, line: tuple[Path, str]) -> Iterator[str]:
        for mount in view.mounts:
            if mount.path not in _ITS_OWN:
                rights = [] if mount.is_writable else ["readonly", *filter(None, [self.plain_mount])]
                yield _join(
                    "type=bind", f"source={os.path.realpath(mount.source)}", f"target={mount.path}", *rights
                )
        folder, inside = line
        yield _join("type=bind", f"source={folder}", f"target={inside}", "readonly")
        for path, text in view.texts.items():
            if path not in _ITS_OWN:
                (file := folder / path.name).write_text(text, encoding="utf-8")
                yield _join("type=bind", f"source={file}", f"target={path}", "readonly")


def _write_profile(folder: Path) -> Path:
    """Write the system calls that a server may make, as Docker's client reads them."""
    (file := folder / "seccomp.json").write_text(json.dumps(docker_profile(SERVER)), encoding="utf-8")
    return file


def _share_variables(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables of Docker's client, and the options that pass those of the server on by name.

    So their values are not in its command line, which everybody can read.
    """
    client = {name: value for name, value in os.environ.items() if name.startswith(_OF_CLIENT)}
    passed: list[str] = []
    for name, value in environment.items():
        if name.startswith(_OF_CLIENT):
            passed.append(f"--env={name}={value}")
        else:
            client[name] = value
            passed.append(f"--env={name}")
    return client, passed


def _join(*fields: str) -> str:
    """Return fields as one line of CSV, as Docker reads its options."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def _ask(command: Sequence[str], *, check: bool = True, data: bytes | None = None) -> str:
    """Return the output of Docker's client.

    Raises:
        RuntimeUnavailableError: it has no answer.
    """
    try:
        ended = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS, input=data)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeUnavailableError(KIND, f"it does not answer ({error})") from error
    if check and ended.returncode:
        problem = ended.stderr.decode(errors="replace").strip()[-300:]
        raise RuntimeUnavailableError(
            KIND, f"it refuses ({problem}); start it, and give this user access to it"
        )
    return ended.stdout.decode(errors="replace").strip()


def find_docker() -> DockerWall:
    """Return the abilities of Docker here; detection is repeated until it succeeds.

    Raises:
        RuntimeUnavailableError: nothing, and what to install or to start.
    """
    if not sys.platform.startswith("linux"):
        raise RuntimeUnavailableError(KIND, "it needs Linux, whose files the server sees")
    program = shutil.which("docker")
    if program is None:
        raise RuntimeUnavailableError(KIND, "install it: apt install docker.io")
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        raise RuntimeUnavailableError(KIND, f"DOCKER_HOST is {host!r:.80}, and it has to be on this machine")
    return _try_docker(program, host)


@cache
def _try_docker(program: str, _: str) -> DockerWall:
    known = json.loads(_ask([program, "version", "--format", "{{json .}}"]))
    versions = [_version(known.get(side) or {}) for side in ("Client", "Server")]
    security = _ask([program, "info", "--format", "{{json .SecurityOptions}}"])
    _remove_abandoned(program)
    plain = "bind-recursive=disabled" if versions[0] >= _RECURSION else "bind-nonrecursive=true"
    return DockerWall(
        program,
        _find_image(program),
        is_rootless="name=rootless" in security,
        plain_mount="" if versions[1] >= _RECURSION else plain,
    )


def _version(side: Mapping[str, str]) -> tuple[int, ...]:
    first = str(side.get("Version", "")).partition(".")[0]
    return (int(first),) if first.isdigit() else (0,)


def _find_image(program: str) -> str:
    """Return the image of the containers, which is made where it is not there."""
    archive = _make_root()
    image = f"{_IMAGE}:{sha256(archive).hexdigest()[:16]}"
    if not _ask([program, "images", "--quiet", image]):
        _ask([program, "import", "-", image], data=archive)
    return image


def _make_root() -> bytes:
    """Return an archive of an empty root: folders to mount on, and the links of this machine."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in _FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for link in map(Path, SYSTEM):
            if link.is_symlink():
                entry = tarfile.TarInfo(link.name)
                entry.type, entry.linkname = tarfile.SYMTYPE, str(link.readlink())
                tar.addfile(entry)
    return archive.getvalue()


def _remove_abandoned(program: str) -> None:
    """Remove the containers of processes that have ended before these had started."""
    listing = [
        program,
        "ps",
        "--all",
        "--filter",
        f"label={OWNER}",
        "--format",
        f'{{{{.ID}}}} {{{{.Label "{OWNER}"}}}}',
    ]
    with suppress(RuntimeUnavailableError):
        for line in _ask(listing).splitlines():
            container, _, owner = line.partition(" ")
            if is_gone(owner):
                _ask([program, "rm", "--force", container], check=False)
