"""Servers from a registry of MCP servers, or from a file in the format of its API.

A registry says which package or address a server has, and what has to be known to start it. `read_entry`
finds a server there, and `plan_server` makes a server of a configuration of it. What a registry says is
somebody else's text: nothing of it is run here, versions must be exact, no variable of the user is filled
into it, and the package host that it names is not used.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from anyio import fail_after, run

from toolcrib.crib.config.reading import file_refusal
from toolcrib.errors import ConfigError, MissingExtraError, Problem, ServerUnavailableError
from toolcrib.errors.base import join_options
from toolcrib.model.plain import parse_json
from toolcrib.model.suggest import choose
from toolcrib.redaction import host_of

KINDS = ("npm", "pypi", "oci", "remote")
"""The kinds of packages and addresses that can be used."""
_VERSIONS = ("v0.1", "v0")
"""Versions of the API, the newest first."""
_MAX_BYTES = 8 * 2**20
_MAX_PAGES = 50
_SECONDS = 30.0
"""The seconds that each read may take."""
_SECONDS_IN_ALL = 90.0
_PAGE = 100
_OFFICIAL = "io.modelcontextprotocol.registry/official"
_NAME = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_SEMVER = r"v?(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
_EXACT = {
    "npm": re.compile(_SEMVER),
    "pypi": re.compile(
        r"v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:alpha|a|beta|b|preview|pre|c|rc)[-_.]?\d*)?"
        r"(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
        re.IGNORECASE,
    ),
    "oci": re.compile(r"v?\d+\.\d+\.\d+(?:[._-][\w.-]*)?"),
}
"""The versions that mean one package each: all parts of npm's, any of PyPI's, where `1` means `1.0`, and
tags of images with three numbers, since those with fewer follow what is released."""
_BRACES = re.compile(r"\{([A-Za-z_][\w-]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NPM_WORD = r"[A-Za-z0-9~][\w.~-]*"
_PACKAGES = {
    "npm": re.compile(rf"(?:@{_NPM_WORD}/)?{_NPM_WORD}"),
    "pypi": re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"),
}
_FLAG = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
"""The name of a header, as HTTP has it."""
_LONGEST_VERSION = 255
_RUNTIME_OPTIONS = {
    "npm": re.compile(r"-y|--yes|-q|--quiet"),
    "pypi": re.compile(r"-q|--quiet|--no-progress|--isolated"),
    "oci": re.compile(
        r"-i|--interactive|--rm|--init|--read-only|-q|--quiet|--env=[A-Za-z_]\w*(?:=.*)?", re.DOTALL
    ),
}
"""Options of a launcher that a registry may give: none changes what is started, or opens this machine."""
_EXTRAS = re.compile(r"\[[A-Za-z0-9._,-]+\](?===)")
"""The extras in a requirement of an exact version."""
_VALUE_OPTIONS: dict[str, frozenset[str]] = {
    "npm": frozenset(),
    "pypi": frozenset({"--with"}),
    "oci": frozenset({"-e", "--env"}),
}
"""Options whose value follows, and may be given if it is a variable or an extra of the package."""
_SET = re.compile(r"[A-Za-z_]\w*(?:=.*)?", re.DOTALL)
_REPEATED = frozenset({"-y", "--yes", "-i", "--interactive", "--rm"})
"""Options that are given anyway."""
_STEERING = re.compile(
    r"(?:LD|DYLD|NPM_CONFIG|UV|PIP|PIPX|PNPM|YARN|BUN|DENO|COREPACK|DOCKER|CONTAINERS?|PODMAN|BUILDKIT|NODE)_\w*"
    r"|(?:GIT|SSL_CERT|OPENSSL|CONDA|DOTNET|CORECLR|COR|CARGO|GLIBC|MALLOC|XDG|BASH|TOOLCRIB|GEM|BUNDLE)_\w*"
    r"|(?:PYTHON|RUBY|PERL5|JAVA_|_JAVA_|JDK_)\w*"
    r"|(?:HTTPS?|ALL|NO|FTP)_PROXY|\w+_CA_(?:BUNDLE|CERTS?)|SSLKEYLOGFILE|SSH_ASKPASS|SUDO_ASKPASS"
    r"|PATH|PATHEXT|HOME|USERPROFILE|(?:LOCAL)?APPDATA|TMPDIR|TEMP|TMP|SHELL|COMSPEC|SYSTEMROOT|WINDIR|ENV|IFS"
    r"|SHELLOPTS|BASHOPTS|PS4|CLASSPATH|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|NETRC"
    r"|SSH_AUTH_SOCK|VIRTUAL_ENV|ELECTRON_RUN_AS_NODE|GOFLAGS|GOPROXY|EDITOR|VISUAL|PAGER|BROWSER",
    re.IGNORECASE,
)
"""Variables that steer the loader, an interpreter, a shell, or what fetches and starts a package: they decide
what runs here, or from where it comes. npm and some systems read names in any case."""
_HARMLESS = frozenset({"NODE_ENV", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8"})
_SHOWN = 80
"""Characters of a registry's value in a note."""
_OURS = "\0"
"""Stands for the `${` of a variable that is ours or the user's, until the text around it is escaped."""
_IMAGE = re.compile(r"[a-z0-9][\w./:-]*(?:@sha256:[a-f0-9]{64})?")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A server in a registry."""

    source: str
    """The file or the address of the registry, without secrets."""
    server: dict[str, Any] = field(repr=False)
    """Its description: a `server.json`."""
    status: str = "active"
    """`active`, `deprecated` or `deleted`."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return str(self.server.get("name"))

    @property
    def version(self) -> str:
        """Its version."""
        return str(self.server.get("version", ""))


@dataclass(slots=True)
class ServerPlan:
    """The command or the address of a server in a registry."""

    kind: str
    """One of `KINDS`."""
    settings: dict[str, Any]
    """The server, as a configuration has it."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables that the user has to set, with their descriptions."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user."""


def read_entry(source: str, name: str) -> RegistryEntry:
    """Return a server of a registry: a file, or the base address of a registry; `name@1.2.3` is one version.

    Raises:
        ConfigError: the registry cannot be read, or has no such server.
        ServerUnavailableError: the registry cannot be reached.
        MissingExtraError: httpx is not installed.
    """
    wanted, _, version = name.partition("@")
    if not _NAME.fullmatch(wanted):
        reason = f"{name[:80]!r} is not the name of a server there; names are like 'io.github.acme/weather'"
        raise _error(source, reason)
    if source.lower().startswith(("http://", "https://")):
        return _read_remote(source, wanted, version)
    path = Path(source).expanduser()
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise file_refusal(path, f"it cannot be read: {error.strerror or error}") from error
    return _choose(str(path), list(_entries_in(str(path), content)), wanted, version)


def _read_remote(source: str, name: str, version: str) -> RegistryEntry:
    if source.partition("?")[0].endswith(".json"):  # a file on a web server
        content = _download(source)
        return _choose(host_of(source), list(_entries_in(host_of(source), content or b"")), name, version)
    base = source.rstrip("/")
    for api in _VERSIONS:
        path = f"/{api}/servers/{quote(name, safe='')}/versions/{quote(version or 'latest', safe='')}"
        content = _download(base + path)
        if content is not None:
            return _choose(host_of(source), list(_entries_in(host_of(source), content)), name, version)
    found, cursor = list[RegistryEntry](), ""
    for _ in range(_MAX_PAGES):  # older registries have the list alone
        asked = {"search": name, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
        content = _download(f"{base}/{_VERSIONS[-1]}/servers?{urlencode(asked)}")
        if content is None:
            break
        found += _entries_in(host_of(source), content)
        metadata = _parse(host_of(source), content).get("metadata")
        cursor = str(metadata.get("nextCursor") or "") if isinstance(metadata, Mapping) else ""
        if not cursor:
            break
    return _choose(host_of(source), found, name, version)


def _download(url: str, limit: float = _SECONDS_IN_ALL) -> bytes | None:
    """Return the content at an address; None if there is none.

    Raises:
        ServerUnavailableError: it cannot be reached, or takes longer than `limit` in seconds.
    """
    try:
        import httpx  # noqa: PLC0415 - behind an extra
    except ImportError as error:
        raise MissingExtraError("reading a registry", "openapi") from error
    options: Any = {"headers": {"Accept": "application/json"}, "timeout": _SECONDS, "follow_redirects": True}

    async def download() -> bytes | None:
        content = bytearray()
        with fail_after(limit):
            async with httpx.AsyncClient(**options) as client, client.stream("GET", url) as response:
                if response.status_code == httpx.codes.NOT_FOUND:
                    return None
                if response.status_code != httpx.codes.OK:
                    reason = f"the registry answers {response.status_code}"
                    raise ServerUnavailableError(host_of(url), reason)
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > _MAX_BYTES:
                        raise _error(host_of(url), f"it is larger than {_MAX_BYTES:,} bytes")
        return bytes(content)

    try:
        return run(download)  # with a deadline for the whole, which the timeouts of httpx are not
    except TimeoutError as error:
        reason = f"the registry did not send its answer within {limit:g} s"
        raise ServerUnavailableError(host_of(url), reason) from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise ServerUnavailableError(host_of(url), str(error) or type(error).__name__) from error


def _parse(source: str, content: bytes) -> dict[str, Any]:
    if len(content) > _MAX_BYTES:
        raise _error(source, f"it is larger than {_MAX_BYTES:,} bytes")
    try:
        found = parse_json(content)
    except ValueError as error:
        raise _error(source, f"it is not JSON: {error}") from error
    return found if isinstance(found, dict) else {"servers": found}


def _entries_in(source: str, content: bytes) -> Iterator[RegistryEntry]:
    """Yield the servers in an answer or a file: a list, one with its metadata, or a bare `server.json`."""
    parsed = _parse(source, content)
    listed = parsed.get("servers", [parsed])
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict):
            continue
        server = each.get("server", each)
        if not isinstance(server, dict):
            continue
        meta = each.get("_meta")
        official = meta.get(_OFFICIAL) if isinstance(meta, Mapping) else None
        status = official.get("status") if isinstance(official, Mapping) else server.get("status")
        if isinstance(server.get("name"), str):
            yield RegistryEntry(source, server, str(status or "active"))


def _choose(source: str, found: list[RegistryEntry], name: str, version: str) -> RegistryEntry:
    """Return the newest entry of a name, or the one of a version."""
    named = [each for each in found if each.name == name]
    if not named:
        raise _error(
            source, f"there is no server {name!r}{choose(name, [each.name for each in found])}", "name"
        )
    if any(len(each.version) > _LONGEST_VERSION for each in named):
        raise _error(source, f"a version of {name!r} has more than {_LONGEST_VERSION} characters", "version")
    same = [each for each in named if each.version == version] if version else named
    if not same:
        versions = sorted({each.version for each in named})
        reason = f"there is no version {version!r} of {name!r}{choose(version, versions)}"
        raise _error(source, reason, "version")
    chosen = max(same, key=lambda each: _version_key(each.version))
    if chosen.status == "deleted":
        raise _error(source, f"{name!r} {chosen.version} was deleted there", "status")
    return chosen


_PARTS = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)[-_.]?([^+]*)")
_RUNS = re.compile(r"\d+|[A-Za-z]+")
_LATER = re.compile(r"(?:post|rev|r)[-_.]?\d*", re.IGNORECASE)
_STAGES = {"dev": "", "alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def _version_key(version: str) -> tuple[bool, list[int], list[tuple[bool, int, str]]]:
    """Return a key by which newer versions are greater, by SemVer or PEP 440; any release is above any other.

    >>> max("9.0.0", "10.0.0-alpha", key=_version_key), max("1.0rc2", "1.0rc10", "1.0b11", key=_version_key)
    ('9.0.0', '1.0rc10')
    """
    found = _PARTS.fullmatch(version.partition("+")[0])
    if found is None:
        return False, [], [(True, 0, version)]
    numbers, rest = [int(part) for part in found[1].split(".")], found[2]
    runs = [
        (False, int(run), "") if run.isdecimal() else (True, 0, _STAGES.get(run.lower(), run))
        for run in _RUNS.findall(rest)
    ]
    return not rest or _LATER.fullmatch(rest) is not None, numbers, runs


def plan_server(
    entry: RegistryEntry, *, kind: str | None = None, values: Mapping[str, str] | None = None
) -> ServerPlan:
    """Return how a server is started or reached.

    Args:
        entry: the server.
        kind: which of its packages or addresses, by `KINDS`; the first that can be used without it.
        values: values for variables, arguments and headers, by their names.

    Raises:
        ConfigError: none can be used, its version is not exact, or values are missing; with all of these.
    """
    filling = _Filling(dict(values or {}))
    options = [*_offered(entry, "packages", "registryType"), *_offered(entry, "remotes", "")]
    usable = [(name, each) for name, each in options if name in KINDS and (kind is None or name == kind)]
    if not usable:
        there = sorted({name for name, _ in options}) or ["nothing"]
        wanted = "" if kind is None else f" of the kind {kind!r}"
        reason = f"{entry.name!r} has no package{wanted} that can be started here; it has {', '.join(there)}"
        raise _error(entry.source, f"{reason}, and {join_options(KINDS)} can be", "kind")
    chosen, package = usable[0]
    settings = _reach(package, filling) if chosen == "remote" else _start(chosen, package, entry, filling)
    filling.finish(entry)
    plan = ServerPlan(chosen, settings, filling.variables)
    if entry.status != "active":
        plan.notes.append(f"the registry calls it {entry.status}")
    if filling.foreign:
        listed = ", ".join(f"{name}={text[:_SHOWN]!r}" for name, text in filling.foreign.items())
        plan.notes.append(f"the registry sets these variables of the server: {listed}")
    if isinstance(package.get("registryBaseUrl"), str) and chosen in _PACKAGES:
        host = host_of(package["registryBaseUrl"])
        plan.notes.append(f"the registry names the package host {host}; the one that is set up here is used")
    return plan


def _offered(entry: RegistryEntry, field_name: str, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    listed = entry.server.get(field_name)
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict):
            continue
        if not kind:
            yield "remote", each
            continue
        transport = each.get("transport")
        spoken = transport.get("type", "stdio") if isinstance(transport, Mapping) else "stdio"
        name = str(each.get(kind) or each.get("registry_name") or "unknown")
        yield (name if spoken == "stdio" else f"{name} over {spoken}"), each


def _start(kind: str, package: dict[str, Any], entry: RegistryEntry, filling: "_Filling") -> dict[str, Any]:
    """Return the settings of a server that is started from a package."""
    identifier = str(package.get("identifier") or "")
    version = str(package.get("version") or entry.version)
    before = _runtime_options(
        kind, filling.arguments(package.get("runtimeArguments")), filling, f"{identifier}=={version}"
    )
    after = filling.arguments(package.get("packageArguments"))
    env = filling.environment(package.get("environmentVariables"))
    if kind in _PACKAGES:
        if not _PACKAGES[kind].fullmatch(identifier):
            raise _error(
                entry.source, f"{identifier[:80]!r} is not a valid {kind} package name", "identifier"
            )
        _check_version(entry, kind, version)
        launcher = ["npx", "-y"] if kind == "npm" else ["uvx"]
        command = [*launcher, *before, f"{identifier}@{version}", *after]
    else:
        if not _IMAGE.fullmatch(identifier):
            raise _error(entry.source, f"{identifier[:80]!r} is not the name of an image", "identifier")
        tag = identifier.rpartition("/")[2]
        if "@" not in tag and ":" not in tag:
            _check_version(entry, kind, version)
            identifier = f"{identifier}:{version}"
        elif "@" not in tag:
            _check_version(entry, kind, tag.partition(":")[2])
        passed = [word for name in env for word in ("-e", name)]
        command = ["docker", "run", "-i", "--rm", *passed, *before, identifier, *after]
    settings: dict[str, Any] = {"command": command[0], "args": command[1:]}
    return settings | ({"env": env} if env else {})


def _runtime_options(kind: str, words: list[str], filling: "_Filling", started: str) -> list[str]:
    """Return the options for a launcher that may stand before the package; refuse all others.

    Extras of the package that is started are no other package.
    """
    kept: list[str] = []
    pending = iter(words)
    for word in pending:
        if word in _VALUE_OPTIONS[kind]:
            value = next(pending, "")
            if _SET.fullmatch(value) if kind == "oci" else _EXTRAS.sub("", value) == started:
                kept += [word, value]
                continue
            word = f"{word} {value}"  # noqa: PLW2901 - named as it stands there
        if not _RUNTIME_OPTIONS[kind].fullmatch(word):
            reason = f"the option {word[:80]!r} for what starts the package is not taken from a registry"
            filling.refuse(f"{reason}; add the server by hand to accept it: toolcrib add NAME -- COMMAND")
        elif word not in _REPEATED:
            kept.append(word)
    return kept


def _check_version(entry: RegistryEntry, kind: str, version: str) -> None:
    """Refuse a version that is not exact: what is started must not change by itself."""
    if not _EXACT[kind].fullmatch(version):
        reason = f"{entry.name!r} has no exact version, but {version[:40]!r}; add it by hand to accept that"
        raise _error(entry.source, reason, "version")


def _reach(remote: dict[str, Any], filling: "_Filling") -> dict[str, Any]:
    """Return the settings of a server that is reached at an address."""
    variables = remote.get("variables")
    url = filling.template(str(remote.get("url") or ""), variables if isinstance(variables, dict) else {})
    headers: dict[str, str] = {}
    listed = remote.get("headers")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            if not _HEADER.fullmatch(each["name"]):
                filling.refuse(f"{each['name'][:80]!r} is not the name of a header")
                continue
            value = filling.value(each, each["name"], variable=_variable_name(each["name"]))
            if value is not None:
                headers[each["name"]] = value
    settings: dict[str, Any] = {"url": url}
    if remote.get("type") == "sse":
        settings["transport"] = "sse"
    return settings | ({"headers": headers} if headers else {})


def _variable_name(text: str) -> str:
    """Return the name of an environment variable for what a text names.

    >>> _variable_name("X-API-Key")
    'X_API_KEY'
    """
    return re.sub(r"\W+", "_", text).upper().strip("_")


class _Filling:
    """Fills in the values that a description leaves open, and notes those that are missing."""

    def __init__(self, values: dict[str, str]) -> None:
        self.variables: dict[str, str] = {}
        self.foreign: dict[str, str] = {}
        """The environment variables whose values are the registry's."""
        self._values = values
        self._used: set[str] = set()
        self._missing: dict[str, str] = {}
        self._refused: list[Problem] = []

    def refuse(self, reason: str) -> None:
        """Note something that is not taken from a registry, for `finish` to raise."""
        self._refused.append(Problem("", "registry", reason))

    def finish(self, entry: RegistryEntry) -> None:
        """Raise if something was refused, and if values are missing or unknown."""
        problems = self._refused + [
            Problem(
                "/values", "missing", f"it needs {name!r}{f': {text}' if text else ''}; give --set {name}=..."
            )
            for name, text in self._missing.items()
        ]
        unused = sorted(self._values.keys() - self._used)
        known = sorted({*self._missing, *self._used, *self.variables})
        problems += [
            Problem("/values", "unknown", f"it has no {name!r}{choose(name, known)}") for name in unused
        ]
        if problems:
            raise ConfigError(entry.source, tuple(problems))

    def arguments(self, listed: Any) -> list[str]:
        """Return the words of a command line."""
        words: list[str] = []
        for each in listed if isinstance(listed, list) else ():
            if not isinstance(each, dict):
                continue
            named = each.get("type") == "named"
            flag = str(each.get("name") or "") if named else ""
            if named and not _FLAG.fullmatch(flag):
                self.refuse(f"{flag[:80]!r} is not the name of an argument")
                continue
            name = flag.lstrip("-") if named else str(each.get("valueHint") or "argument")
            if named and name not in self._values and each.get("isRequired") is True and _is_switch(each):
                words.append(flag)
                continue
            value = self.value(each, name)
            if value is not None:
                words += [flag, value] if named and value else [flag if named else value]
        return words

    def environment(self, listed: Any) -> dict[str, str]:
        """Return the environment variables of a server."""
        found: dict[str, str] = {}
        for each in listed if isinstance(listed, list) else ():
            name = each.get("name") if isinstance(each, dict) else None
            if isinstance(name, str) and _VARIABLE.fullmatch(name):
                value = self.value(each, name, variable=name)
                if value is None:
                    continue
                if self._is_of_registry(each, name):
                    if _STEERING.fullmatch(name) and name not in _HARMLESS:
                        what = f"the variable {name[:_SHOWN]!r} decides what runs on this machine"
                        remedy = f"give it yourself: --set {name[:_SHOWN]}=..."
                        self.refuse(f"{what}, and its value is not taken from a registry; {remedy}")
                        continue
                    self.foreign[name] = value
                found[name] = value
        return found

    def _is_of_registry(self, described: dict[str, Any], name: str) -> bool:
        """Return whether the value of an input is the registry's, at least in part."""
        if isinstance(described.get("value"), str):
            return True
        return name not in self._values and isinstance(described.get("default"), str)

    def value(self, described: dict[str, Any], name: str, *, variable: str | None = None) -> str | None:
        """Return the value of an input: as given, fixed or by default; None if it may stay open.

        One that the user has to know becomes a variable of the environment, where that can be.
        """
        marked = self._value(described, name, variable)
        return None if marked is None else _settle(marked)

    def _value(self, described: dict[str, Any], name: str, variable: str | None) -> str | None:
        """Return the same before it is escaped, with `_OURS` in variables that are not the registry's."""
        fixed = described.get("value")
        if isinstance(fixed, str):
            inner = described.get("variables")
            return self._fill(fixed, inner if isinstance(inner, dict) else {})
        if name in self._values:
            self._used.add(name)
            return self._values[name].replace("${", _OURS)
        if isinstance(described.get("default"), str):
            return str(described["default"]).replace(_OURS, "")
        if described.get("isRequired") is not True:
            return None
        about = str(described.get("description") or "")[:200]
        if variable is None:
            self._missing[name] = about
            return ""
        self.variables[variable] = about
        return f"{_OURS}{variable}}}"

    def template(self, text: str, variables: dict[str, Any]) -> str:
        """Return a text with its `{names}` replaced by the values of the inputs that describe them."""
        return _settle(self._fill(text, variables))

    def _fill(self, text: str, variables: dict[str, Any]) -> str:
        def fill(found: re.Match[str]) -> str:
            described = variables.get(found[1])
            if not isinstance(described, dict):
                return found[0]
            secret = described.get("isSecret") is True
            needed = {"isRequired": True, **described}
            return self._value(needed, found[1], _variable_name(found[1]) if secret else None) or ""

        return _BRACES.sub(fill, text.replace(_OURS, ""))


def _is_switch(argument: dict[str, Any]) -> bool:
    """Return whether a named argument has no value: nothing describes one, or it is a boolean."""
    if argument.get("format") == "boolean":
        return not {"value", "default"} & argument.keys()
    return argument.keys() <= {"type", "name", "isRequired", "isRepeated", "format"}


def _settle(marked: str) -> str:
    """Return a filled text as a configuration has it: of its variables, only ours and the user's are some.

    >>> _settle("${HOME}/x"), _settle(f"{_OURS}KEY}}/x")
    ('$${HOME}/x', '${KEY}/x')
    """
    return marked.replace("${", "$${").replace(_OURS, "${")


def _error(source: str, reason: str, keyword: str = "registry") -> ConfigError:
    return ConfigError(source, (Problem("", keyword, reason[:500]),))
