"""An inventory of the MCP servers that the clients on this machine use, as records and as CycloneDX.

Arguments, variables and headers may hold secrets, and are left out: a server is told by its package or its
program, or by its address without user, query and fragment.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Literal
from urllib.parse import quote, urlsplit
from uuid import uuid4

import toolcrib
from toolcrib.errors import ToolcribError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.setup.installing.clients import CLIENTS
from toolcrib.setup.installing.imports import servers_of

Status = Literal["gateway", "direct", "both"]
"""`gateway`: it is toolcrib. `direct`: the client reaches the server past the gateway. `both`: it does so,
although the gateway has the server too."""
_LAUNCHERS = {
    "npx": "npm",
    "bunx": "npm",
    "uvx": "pypi",
    "pipx": "pypi",
    "docker": "docker",
    "podman": "docker",
}
_VALUES = frozenset(
    {"-p", "--package", "--from", "--with", "--python", "--registry", "--index", "-e", "--env", "-v"}
    | {"--volume", "--mount", "--name", "--network", "-w", "--workdir", "--user", "-u", "--env-file"}
)
"""Options of launchers that have a value."""
_WORDS = frozenset({"run", "exec", "x", "tool"})
_VERSIONED = re.compile(r"(?P<name>@?[^@=<>~!]+)(?:@|==)(?P<version>[^@]+)")


@dataclass(frozen=True, slots=True)
class Package:
    """The package that a server is started from."""

    kind: str
    """`npm`, `pypi` or `docker`."""
    name: str
    """Its name."""
    version: str | None = None
    """Its version; None if the newest is started."""

    @property
    def purl(self) -> str:
        """Its package URL.

        >>> Package("npm", "@acme/notes", "1.2.0").purl
        'pkg:npm/%40acme/notes@1.2.0'
        """
        parts = "/".join(quote(part, safe="") for part in self.name.split("/"))
        version = "" if self.version is None else f"@{quote(self.version, safe='')}"
        return f"pkg:{self.kind}/{parts}{version}"


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """One server of one client."""

    client: str
    """The client, as the command names it."""
    name: str
    """The name of the server there."""
    file: str
    """The file of the client."""
    status: Status
    """Whether it is behind the gateway."""
    disabled: bool = False
    """Whether the client has it switched off."""
    package: Package | None = None
    """The package that it is started from, if it is known."""
    program: str | None = None
    """The program that starts it; None for an address."""
    url: str | None = None
    """Its address, without what may be secret."""

    @property
    def origin(self) -> str:
        """What it is, in one word."""
        if self.package is not None:
            version = "" if self.package.version is None else f"@{self.package.version}"
            return f"{self.package.kind}:{self.package.name}{version}"
        return self.url or self.program or ""

    def to_json(self) -> dict[str, Any]:
        """Return the item as JSON."""
        found = {
            "client": self.client,
            "name": self.name,
            "file": self.file,
            "status": self.status,
            "disabled": self.disabled or None,
            "package": None if self.package is None else self.package.purl,
            "program": self.program,
            "url": self.url,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Inventory:
    """The servers of all clients, and what could not be read."""

    items: tuple[InventoryItem, ...]
    """The servers, by client and name."""
    notes: tuple[str, ...] = ()
    """Files that could not be read, and why."""

    @property
    def outside(self) -> tuple[InventoryItem, ...]:
        """The servers that a client reaches past the gateway, and that are switched on."""
        return tuple(each for each in self.items if each.status != "gateway" and not each.disabled)


def take_inventory(
    folder: Path,
    ours: Mapping[str, ServerConfig],
    *,
    environ: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Inventory:
    """Return the servers that the clients of this user have, in a project and for the user.

    Args:
        folder: the project.
        ours: the servers of the gateway.
        environ: where variables are looked up that move the files of clients.
        port: where our gateway listens; None for where it usually does.
    """
    items: list[InventoryItem] = []
    notes: list[str] = []
    behind = {_identity(server) for server in ours.values()}
    for client in CLIENTS.values():
        try:
            found = servers_of(client, folder, environ=environ, port=port)
        except ToolcribError as error:
            notes.append(f"{client.title}: {error}")
            continue
        file = ", ".join(str(path) for path in found.files)
        for name, server in found.servers.items():
            status: Status = "both" if _identity(server) in behind else "direct"
            items.append(_item(client.name, found.names.get(name, name), file, status, server))
        items += [InventoryItem(client.name, name, file, "gateway") for name in found.itself]
    return Inventory(tuple(sorted(items, key=lambda each: (each.client, each.name))), tuple(notes))


def _item(client: str, name: str, file: str, status: Status, server: ServerConfig) -> InventoryItem:
    url = None if server.url is None else _plain_url(server.url)
    program = None if server.command is None else PurePath(server.command.replace("\\", "/")).name
    package = None if server.command is None else find_package(server.command, server.args)
    return InventoryItem(client, name, file, status, server.disabled, package, program, url)


def _identity(server: ServerConfig) -> tuple[str, ...]:
    """Return what two entries of the same server have in common."""
    if server.url is not None:
        return ("url", _plain_url(server.url))
    package = find_package(server.command or "", server.args)
    if package is not None:
        return ("package", package.kind, package.name)
    return ("command", server.command or "", *server.args)


def _plain_url(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def find_package(command: str, args: Sequence[str]) -> Package | None:
    """Return the package that a command starts; None if it starts none of a known kind.

    >>> find_package("npx", ["-y", "@acme/notes@1.2.0", "--debug"])
    Package(kind='npm', name='@acme/notes', version='1.2.0')
    >>> find_package("docker", ["run", "-i", "-e", "KEY", "acme/notes:2.0"])
    Package(kind='docker', name='acme/notes', version='2.0')
    """
    words = [command, *args]
    program = PurePath(command.replace("\\", "/")).name.lower().removesuffix(".exe").removesuffix(".cmd")
    if program == "uv" and words[1:3] == ["tool", "run"]:
        program, words = "uvx", words[2:]
    elif program == "npm" and words[1:2] in (["exec"], ["x"]):
        program, words = "npx", words[1:]
    kind = _LAUNCHERS.get(program)
    if kind is None:
        return None
    word = _first_word(words[1:], is_image=kind == "docker")
    if word is None:
        return None
    if kind == "docker":
        name, at, digest = word.partition("@")
        base, colon, tag = name.rpartition(":")
        tagged = bool(colon) and "/" not in tag
        return Package(kind, base if tagged else name, digest if at else tag if tagged else None)
    found = _VERSIONED.fullmatch(word)
    if found is None or found["version"] == "latest":
        return Package(kind, word.removesuffix("@latest").partition("[")[0])
    return Package(kind, found["name"].partition("[")[0], found["version"])


def _first_word(words: Sequence[str], *, is_image: bool) -> str | None:
    """Return the package among the words of a launcher: the value of `--from` or `-p`, or the first word."""
    pending = iter(words)
    for word in pending:
        name, equals, value = word.partition("=")
        if not is_image and name in {"--from", "-p", "--package"}:
            return value if equals else next(pending, None)
        if name in _VALUES and not equals:
            next(pending, None)
        elif not word.startswith("-") and word not in _WORDS:
            return word
    return None


def to_cyclonedx(inventory: Inventory) -> dict[str, Any]:
    """Return an inventory as a CycloneDX 1.6 document.

    Packages and programs are its components, and addresses its services.
    """
    components: dict[str, dict[str, Any]] = {}
    services: dict[str, dict[str, Any]] = {}
    for item in inventory.items:
        if item.status == "gateway":
            continue
        made = dict(_described(item))
        place = services if item.url is not None else components
        known = place.setdefault(made["bom-ref"], made)
        known.setdefault("properties", []).extend(_properties(item))
    itself = {"type": "application", "name": "toolcrib", "version": toolcrib.__version__}
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "tools": {"components": [itself]},
        },
        "components": list(components.values()),
    }
    return document | ({"services": list(services.values())} if services else {})


def _described(item: InventoryItem) -> Iterator[tuple[str, Any]]:
    if item.url is not None:
        yield "bom-ref", f"service:{item.url}"
        yield "name", item.name
        yield "endpoints", [item.url]
        return
    package = item.package
    yield "type", "container" if package is not None and package.kind == "docker" else "application"
    if package is None:
        yield "bom-ref", f"program:{item.program}:{item.name}"
        yield "name", item.program or item.name
        return
    yield "bom-ref", package.purl
    yield "name", package.name
    if package.version is not None:
        yield "version", package.version
    yield "purl", package.purl


def _properties(item: InventoryItem) -> list[dict[str, str]]:
    found = {"client": item.client, "server": item.name, "file": item.file, "status": item.status}
    return [{"name": f"toolcrib:{key}", "value": value} for key, value in found.items()]
