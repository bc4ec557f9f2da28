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
from toolcrib.redaction import hide_secrets, is_public, is_secret_name, is_setting
from toolcrib.setup.installing.clients import CLIENTS
from toolcrib.setup.installing.imports import servers_of

Status = Literal["gateway", "direct", "both"]
"""`gateway`: it is toolcrib. `direct`: the client reaches the server past the gateway. `both`: it does so,
although the gateway has the server too."""


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The options of a program that starts packages."""

    kind: str
    packages: frozenset[str] = frozenset()
    """Options whose value is the package."""
    valued: frozenset[str] = frozenset()
    """Options with another value."""
    flags: frozenset[str] | None = None
    """Options without a value, where all others have one; None where `valued` has all that do."""

    def takes_value(self, option: str) -> bool:
        """Return whether the word after an option is its value."""
        if option in self.packages or option.endswith("-url"):  # whatever it is the address of
            return True
        if is_secret_name(option.lstrip("-")):  # of the program, most likely, and misplaced
            return option not in (self.flags or ())
        return option in self.valued if self.flags is None else option not in self.flags


_NPX = _Launcher(  # npm takes the word after any option that it does not know as its value
    "npm",
    frozenset({"-p", "--package"}),
    flags=frozenset({"-y", "--yes", "--no", "-n", "-q", "--quiet", "-s", "--silent", "-d", "--verbose", "-f"})
    | {"--force", "--no-install", "--ignore-existing", "--ignore-scripts", "--offline", "--prefer-offline"}
    | {"--prefer-online", "-ws", "--workspaces", "--include-workspace-root", "-g", "--global", "--bun"}
    | {"--legacy-peer-deps", "--foreground-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "-h"}
    | {"--help", "-v", "--version"},
)
_UVX = _Launcher(
    "pypi",
    frozenset({"--from"}),
    frozenset({"-p", "--python", "-w", "--with", "--with-editable", "--with-requirements", "--env-file"})
    | {"--index", "--default-index", "-i", "-f", "--find-links"}
    | {"-c", "--constraints", "--overrides", "-b", "--build-constraints", "-P", "--upgrade-package"}
    | {"-C", "--config-setting", "--no-build-package", "--no-binary-package", "--reinstall-package"}
    | {"--refresh-package", "--python-platform", "--torch-backend", "--prerelease", "--resolution"}
    | {"--index-strategy", "--keyring-provider", "--link-mode", "--exclude-newer", "--color"}
    | {"--allow-insecure-host", "--directory", "--project", "--config-file", "--cache-dir"},
)
_PIPX = _Launcher(
    "pypi",
    frozenset({"--spec"}),
    frozenset({"--python", "--pip-args", "-i", "--with", "--backend"}),
)
_DOCKER = _Launcher(
    "docker",
    flags=frozenset({"-d", "--detach", "--disable-content-trust", "--help", "--init", "-i", "--interactive"})
    | {"--no-healthcheck", "--oom-kill-disable", "--privileged", "-P", "--publish-all", "-q", "--quiet"}
    | {"--read-only", "--rm", "--rmi", "--replace", "--sig-proxy", "-t", "--tty", "--use-api-socket"}
    | {"--no-hosts", "--no-hostname", "--env-host", "--http-proxy", "--passwd", "--tls-verify", "--tls"}
    | {"-D", "--debug"},
)
_LAUNCHERS = {
    "npx": _NPX,
    "bunx": _NPX,
    "uvx": _UVX,
    "pipx": _PIPX,
    "docker": _DOCKER,
    "podman": _DOCKER,
}
_VERSIONED = re.compile(r"(?P<name>@?[^@=<>~!]+)(?:@|==)(?P<version>[^@]+)")
_NAMES = {
    "npm": re.compile(r"(?:github:)?(?:@?[\w.~-]+/)?[\w.~-]+"),
    "pypi": re.compile(r"[A-Za-z0-9][\w.-]*"),
    "docker": re.compile(r"[\w.-]+(?::\d+)?(?:/[\w.-]+)*"),
}
"""Patterns for names of packages of each kind; other words are not shown."""
_VERSION = re.compile(r"[\w.+!*~^<>=, -]{1,100}")
_DIGEST = re.compile(r"[a-z0-9]{2,10}:[a-f0-9]+")
_ASSIGNMENTS = re.compile(r"""\s*(?:[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|\S*)(?:\s+|$))*""")
"""Variables that a command line sets before its program."""


@dataclass(frozen=True, slots=True)
class Package:
    """The package that a server is started from."""

    kind: str
    """`npm`, `pypi` or `docker`; `generic` for an address."""
    name: str
    """Its name, or its address without possibly secret parts."""
    version: str | None = None
    """Its version; None if the newest is started."""

    @property
    def purl(self) -> str:
        """Its package URL.

        >>> Package("npm", "@acme/notes", "1.2.0").purl
        'pkg:npm/%40acme/notes@1.2.0'
        """
        if self.kind == "generic":
            last = quote(self.name.rstrip("/").rpartition("/")[2], safe="")
            return f"pkg:generic/{last}?download_url={quote(self.name, safe='')}"
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
    """Its address, without possibly secret parts."""

    @property
    def origin(self) -> str:
        """Its package, program or address, as one word."""
        if self.package is not None:
            if self.package.kind == "generic":
                return self.package.name
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
    """The servers of all clients, and the unreadable files."""

    items: tuple[InventoryItem, ...]
    """The servers, by client and name."""
    notes: tuple[str, ...] = ()
    """Files and servers that could not be read, and why."""

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
        notes += [f"{client.title}: {hide_secrets(reason)}" for reason in found.unread]
        file = ", ".join(str(path) for path in found.files)
        for name, server in found.servers.items():
            status: Status = "both" if _identity(server) in behind else "direct"
            items.append(_item(client.name, found.names.get(name, name), file, status, server))
        items += [InventoryItem(client.name, name, file, "gateway") for name in found.itself]
    return Inventory(tuple(sorted(items, key=lambda each: (each.client, each.name))), tuple(notes))


def _item(client: str, name: str, file: str, status: Status, server: ServerConfig) -> InventoryItem:
    url = None if server.url is None else _plain_url(server.url)
    program, package = None, None
    if server.command is not None:
        command, args = _split_command(server.command, server.args)
        program = hide_secrets(PurePath(command.replace("\\", "/")).name)
        package = find_package(command, args)
    return InventoryItem(client, name, file, status, server.disabled, package, program, url)


def _split_command(command: str, args: Sequence[str]) -> tuple[str, Sequence[str]]:
    r"""Return a program and its arguments, where some clients have a whole command line as the program.

    >>> _split_command("API_KEY=sk-1 npx acme", ["--debug"])
    ('npx', ['acme', '--debug'])
    >>> _split_command("C:\\Program Files\\nodejs\\npx.cmd", ["acme"])
    ('C:\\Program Files\\nodejs\\npx.cmd', ['acme'])
    """
    found = _ASSIGNMENTS.match(command)
    rest = command[found.end() :] if found else command
    words = rest.split()
    is_line = any(word.startswith("-") or "=" in word for word in words[1:])
    if len(words) < 2 or not (is_line or " " in PurePath(rest.replace("\\", "/")).name):  # noqa: PLR2004 - a program, and an argument
        return rest.strip(), args
    return words[0], [*words[1:], *args]


def _identity(server: ServerConfig) -> tuple[str, ...]:
    """Return a key that is equal for two entries of the same server."""
    if server.url is not None:
        return ("url", *_split_url(server.url))
    package = find_package(*_split_command(server.command or "", server.args))
    if package is not None:
        return ("package", package.kind, package.name)
    return ("command", server.command or "", *server.args)


def _plain_url(url: str) -> str:
    """Return an address without user, query and fragment, and without what may be secret in its path.

    >>> _plain_url("https://me:pw@[::1]:${PORT}/mcp/k3y8a91c2?key=1")
    'https://[::1]:${PORT}/mcp/[secret]'
    """
    base, path = _split_url(url)
    parts = (each if is_public(each) or is_setting("", each) else "[secret]" for each in path.split("/"))
    return base + "/".join(parts)


def _split_url(url: str) -> tuple[str, str]:
    """Return the scheme, host and port of an address, as they are written, and its path."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as brackets without an end
        return "…", ""
    place = parts.netloc.rpartition("@")[2]
    place = place if "${" in place else place.lower()
    return f"{parts.scheme}://{place}" if parts.scheme else place, parts.path


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
    launcher = _LAUNCHERS.get(program)
    if launcher is None:
        return None
    kind, words = launcher.kind, words[1:]
    if program in {"docker", "podman", "pipx"}:  # other verbs start no package
        verb, words = _first_word(launcher, words)
        if verb == "container":
            verb, words = _first_word(launcher, words)
        if verb != "run":
            return None
    word, rest = _first_word(launcher, words)
    if word is None:
        return None
    before = words[: len(words) - len(rest)]
    if hide_secrets(" ".join(before)) != " ".join(before) and "://" not in word:
        return None  # it may be the value of an option that is not known here
    if "://" in word:
        return _package_at(word)
    found = _read_package(kind, word)
    is_plain = found is not None and _NAMES[kind].fullmatch(found.name) and hide_secrets(word) == word
    return found if is_plain else None


def _package_at(word: str) -> Package | None:
    """Return the package at an address, such as `name @ git+https://host/path`, without secrets."""
    address = re.search(r"(?:git\+)?([a-z][a-z0-9+.-]*://\S+)", word)
    return None if address is None else Package("generic", _plain_url(address[1]))


def _read_package(kind: str, word: str) -> Package | None:
    """Return the package that a word names with its version; None if it has no such form."""
    if kind == "docker":
        name, at, digest = word.partition("@")
        base, colon, tag = name.rpartition(":")
        tagged = bool(colon) and "/" not in tag
        if at and not _DIGEST.fullmatch(digest):
            return None
        return Package(kind, base if tagged else name, digest if at else tag if tagged else None)
    found = _VERSIONED.fullmatch(word)
    if found is None or found["version"] == "latest":
        return Package(kind, word.removesuffix("@latest").partition("[")[0])
    if not _VERSION.fullmatch(found["version"]):
        return None
    return Package(kind, found["name"].partition("[")[0], found["version"])


def _first_word(launcher: _Launcher, words: list[str]) -> tuple[str | None, list[str]]:
    """Return the package that an option names, or else the first word that is no option; and what follows."""
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word == "--":
            continue
        if not word.startswith("-"):
            return word, words[place:]
        option, value = _split_option(launcher, word)
        if value is None and launcher.takes_value(option):
            value = words[place] if place < len(words) else None
            place += 1
        if option in launcher.packages:
            return value, words[place:]
    return None, []


def _split_option(launcher: _Launcher, word: str) -> tuple[str, str | None]:
    """Return an option and its value, where that stands in the same word: `--name=x`, `-ex`, `-itex`."""
    if word.startswith("--"):
        option, equals, value = word.partition("=")
        return option, value if equals else None
    for place, letter in enumerate(word[1:], 2):
        if launcher.takes_value(f"-{letter}"):
            return f"-{letter}", word[place:].removeprefix("=") or None
    return word[:1] + word[-1:], None


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
