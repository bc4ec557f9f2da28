"""What a server behind a wall sees and may use: files of this machine, a home of its own, its variables."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.transport.environment import certificate_files, walled_environment
from toolcrib.execution.mcp.walls.programs import SYSTEM, absolute, interpreter_files, is_below, program_files
from toolcrib.paths import data_folder

MEMORY = 4 << 30
"""Bytes that a server and all that it starts may use together or, without a control group, each process."""
TASKS = 1024
"""Processes and threads that it may have."""
SCRATCH = 1 << 30
"""Bytes of its own `/tmp`."""
_ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "fonts", "gitconfig", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "localtime", "machine-info", "mime.types", "nsswitch.conf", "os-release"),
    *("pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols"),
    *("services", "ssl/certs", "ssl/openssl.cnf", "timezone"),
)
"""Files of /etc that programs read, without data of users."""
_NETWORK_ETC = ("gai.conf", "host.conf", "hosts", "resolv.conf")
"""Files for name resolution, if the network of the machine is shared."""
Reach = Literal["none", "hosts", "all"]
"""The hosts that a server can reach: none, named hosts alone, or all."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_LOOPBACK = "127.0.0.1 localhost\n::1 localhost\n"


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine, as a server sees it."""

    path: Path
    """The path inside the wall."""
    source: Path
    """The path on this machine."""
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class ServerView:
    """All that a server sees."""

    mounts: tuple[Mount, ...]
    """The visible paths, a folder before its contents."""
    links: Mapping[Path, str]
    """Links of the root, such as `/bin` to `usr/bin`."""
    texts: Mapping[Path, str]
    """Small files that are made for it, with their contents."""
    hosts: Mapping[str, str]
    """The addresses of host names that it can resolve."""
    home: Path
    """Its own home, which stays from one start to the next."""
    folder: Path
    """Its working directory."""
    environment: Mapping[str, str] = field(repr=False)
    """All of its variables."""

    def with_variables(self, variables: Mapping[str, str]) -> "ServerView":
        """Return a view with more variables; those that it has stay as they are."""
        return replace(self, environment={**variables, **self.environment})


@dataclass(frozen=True, slots=True)
class WalledStart:
    """A server that is to be started behind a wall."""

    name: str
    """The name of the server."""
    config: ServerConfig
    """Its settings, with variables filled in."""
    program: Path
    """The path of its program."""
    path: str
    """The variable `PATH` that it gets."""
    folder: Path
    """Its working directory without a wall."""

    @property
    def variables(self) -> dict[str, str]:
        """The variables that it gets from its settings and from our environment."""
        return walled_environment(os.environ, self.config.env, self.config.inherit, home="", network=False)


def make_view(start: WalledStart, launcher: str, hosts: Mapping[str, str]) -> ServerView:
    """Return what a server sees; nothing is made.

    Args:
        start: The server.
        launcher: The interpreter that runs the launcher.
        hosts: The addresses of names that it knows.

    Raises:
        ServerUnavailableError: a path that it may read or write is not there.
    """
    name, config = start.name, start.config
    home = server_folder(name, config) / "home"
    shares = config.network == "all"
    environment = walled_environment(os.environ, config.env, config.inherit, home=str(home), network=shares)
    needed = program_files(start.program, config.args, start.path, start.folder)
    needed += [*interpreter_files(launcher), *map(Path, certificate_files(environment))]
    visible = [place for place in needed if place.exists()]
    mounts = {place: Mount(place, place) for place in _drop_inner([*_system_files(shares=shares), *visible])}
    mounts |= {place: Mount(place, place) for place in _named_paths(name, "read", config.read)}
    mounts |= {
        place: Mount(place, place, is_writable=True) for place in _named_paths(name, "write", config.write)
    }
    mounts[home] = Mount(home, home, is_writable=True)
    is_there = is_below(start.folder, [each for each in mounts if each.is_dir()])
    return ServerView(
        mounts=tuple(mounts[place] for place in sorted(mounts, key=lambda each: each.parts)),
        links={link: str(link.readlink()) for link in map(Path, SYSTEM) if link.is_symlink()},
        texts=_own_texts(home, None if shares else hosts),
        hosts=hosts,
        home=home,
        folder=start.folder if is_there else home,
        environment=environment,
    )


def server_folder(name: str, config: ServerConfig) -> Path:
    """Return the folder for what is kept of a server: each program that has its name, in each folder."""
    digest = sha256(json.dumps([name, config.command, config.cwd]).encode()).hexdigest()[:10]
    return data_folder() / "servers" / f"{_FOREIGN.sub('-', name)[:40]}-{digest}"


def make_home(name: str, home: Path) -> None:
    """Make the home of a server, where it has none yet.

    Raises:
        ServerUnavailableError: it cannot be made.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"its own home {str(home)!r} cannot be made: {error.strerror}; set TOOLCRIB_HOME"
        raise ServerUnavailableError(name, reason) from error


def _system_files(*, shares: bool) -> Iterator[Path]:
    """Yield the folders of the system that are no links, and harmless files of /etc."""
    yield from (place for place in map(Path, SYSTEM) if place.is_dir() and not place.is_symlink())
    for each in (*_ETC, *(_NETWORK_ETC if shares else ())):
        if os.access(place := Path("/etc", each), os.R_OK):
            yield place


def _own_texts(home: Path, hosts: Mapping[str, str] | None) -> dict[Path, str]:
    """Return the files that define the user and, in a network of its own, the known hosts."""
    user, group = os.getuid(), os.getgid()
    texts = {
        Path("/etc/passwd"): f"server:x:{user}:{group}::{home}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
        Path("/etc/group"): f"server:x:{group}:\nnogroup:x:65534:\n",
    }
    if hosts is None:
        return texts
    lines = "".join(f"{address} {name}\n" for name, address in hosts.items())
    return {**texts, Path("/etc/hosts"): f"{_LOOPBACK}{lines}"}


def _drop_inner(places: list[Path]) -> Iterator[Path]:
    """Yield places once, and none that lies in another."""
    kept: list[Path] = []
    for place in sorted(dict.fromkeys(places), key=lambda each: len(each.parts)):
        if not is_below(place, kept):
            kept.append(place)
            yield place


def _named_paths(name: str, key: str, paths: tuple[str, ...]) -> Iterator[Path]:
    for written in paths:
        place = absolute(written)
        if not place.exists():
            reason = (
                f"the setting {key!r} names {written!r}, which does not exist; create it, or correct {key!r}"
            )
            raise ServerUnavailableError(name, reason)
        yield place
