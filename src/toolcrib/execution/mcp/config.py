"""The settings of one MCP server, as users write them under `mcpServers`."""

import json
import os
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from toolcrib.errors import ConfigError, Problem, ToolcribError
from toolcrib.errors.base import join_options, short_repr
from toolcrib.execution.call import Call
from toolcrib.execution.mcp.walls.hosts import parse_host
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.variables import Expansion, has_variables
from toolcrib.model.findings import GuardedResults
from toolcrib.model.plain import pointer
from toolcrib.model.record import Record
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.paths import path_fault
from toolcrib.redaction import (
    KnownSecrets,
    address_secrets,
    hide_secrets,
    host_of,
    is_secret_name,
    is_setting,
    named_secrets,
)

Transport = Literal["stdio", "http", "sse"]
Sandbox = Literal["bubblewrap", "docker"]
"""The kind of sandbox that confines a server."""

_SPELLINGS: dict[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_CONNECTION = (
    *("command", "args", "env", "inherit", "cwd", "url", "headers", "auth", "transport"),
    *("sandbox", "read", "write", "network", "is_shared"),
)
_START_SECONDS, _DOWNLOAD_SECONDS = 30.0, 300.0  # npm too gives a download 300 s
_DOWNLOADERS = frozenset({"npx", "bunx", "pnpx", "uvx", "uv", "pipx", "docker", "podman"})
"""Programs that download what they start, the first time."""
_OF_WALLS = ("read", "write", "network")
_URL_NAMES = ("url", "serverUrl", "httpUrl")
WORKERS_FOLDER = "TOOLCRIB_WORKERS"
"""The variable with the folder in which the workers of a gateway meet; set for them alone."""
_SOURCE = "the settings of an mcp server"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile(r"[^\t\x20-\x7e]")
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
OnTools = Callable[[str, tuple[Tool, ...]], None]
"""Called with the tools of a server, by its name, after every complete listing; it must not block."""
OnInput = Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Gives a server the input that it asks for in the middle of a call: takes its requests, by key, as MCP has
them (`elicitation/create`, `sampling/createMessage`, `roots/list`), and returns the responses, by the same
keys. On a pipe, where a legacy server does not say which call it asks for, it is the latest."""
TrustMode = Literal["off", "tofu", "strict"]
"""What is asked of a server before its tools are used; `TrustSettings.mode` explains each."""
ChangeKind = Literal["resources", "prompts", "updated"]
"""What has changed: the list of resources, that of prompts, or the contents of one resource."""


@dataclass(frozen=True, slots=True)
class ContentChange:
    """A notification that resources or prompts of a server have changed."""

    server: str
    """The server."""
    kind: ChangeKind
    """The kind of change."""
    uri: str | None = None
    """The resource, for `updated`; it may be a part of the subscribed one."""
    owner: Hashable | None = None
    """The owner, if each person logs in separately; None if the content is shared by all."""


OnContent = Callable[[ContentChange], object]
"""Called with each change to resources and prompts; it must not block."""


def _fault(kind: Literal["type", "text", "name", "url", "path", "host"], message: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{message}", {"message": message})


def _text(value: Any) -> str:
    """Return a text; numbers, which people write without quotes, become one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        quotes = "; put it in quotes" if isinstance(value, bool) else ""
        raise _fault("type", f"must be a string, not {type(value).__name__}{quotes}")
    if "\0" in value:
        raise _fault("text", "must not contain a NUL character")
    return value


def _not_empty(text: str) -> str:
    if not text:
        raise _fault("text", "must not be empty")
    return text


def _variable_name(name: str) -> str:
    if not name or "=" in name:
        raise _fault("name", "is not the name of a variable: it must not be empty or contain '='")
    return name


def _header_name(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise _fault("name", "is not the name of a header: it may contain letters, digits and '-'")
    return name


def _header_value(value: str) -> str:
    stripped = value.strip()
    if _NOT_IN_A_HEADER.search(stripped):  # the value may be a secret, so it is not shown
        raise _fault("text", "may contain only printable ASCII characters")
    return stripped


def _url(url: str) -> str:
    if has_variables(url):
        return url  # what it is shows when they are filled in
    try:
        parts = urlsplit(url)
        right = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or half an IPv6 address
        right = False
    if not right:
        raise _fault(
            "url", "must begin with http:// or https:// and name a host, as in 'http://localhost:8000/mcp'"
        )
    return url


def _wall_path(path: str) -> str:
    if not path.startswith(("/", "~", "${")):
        raise _fault(
            "path",
            f"{short_repr(path)} is relative; write the whole path, which begins with '/', '~' or a "
            "variable such as ${HOME}",
        )
    if fault := path_fault(path):
        raise _fault("path", fault)
    if not Path(path).name and "$" not in path:
        raise _fault(
            "path", "is the root of all files, which would leave nothing protected; name folders in it"
        )
    return path


def _network(value: Any) -> Any:
    """Return what a server may reach; hosts are checked one by one, with what is wrong in each."""
    if value in ("none", "all"):
        return value
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise _fault("type", "must be 'none', 'all' or a list of hosts, as ['api.example.com']")
    for host in map(_text, value):
        if not has_variables(host):
            try:
                parse_host(host)
            except ValueError as error:
                raise _fault("host", str(error)) from error
    return tuple(map(_text, value))


Word = Annotated[str, BeforeValidator(_text)]
Filled = Annotated[Word, AfterValidator(_not_empty)]


WallPaths = tuple[Annotated[Filled, AfterValidator(_wall_path)], ...]
"""Files and folders, from `/` or `~` on."""
Patterns = tuple[Annotated[Word, AfterValidator(_variable_name)], ...]
"""Names of variables, in which `*` and `?` stand for any letters."""


def _shareable(text: str, secrets: Iterable[str], folder: Path | None) -> str:
    """Return a text of a configuration without secrets, and with paths in a folder relative to it."""
    for secret in secrets:
        if text == secret:
            return "[secret]"
        text = re.sub(rf"(?<=[=:]){re.escape(secret)}(?![^&@\s])", "[secret]", text)
    text = hide_secrets(text)
    if folder is None or len(folder.parts) < 2:  # noqa: PLR2004 - below the root of all files is everything
        return text
    place = re.escape(str(folder))
    return re.sub(rf"(?<![\w./\\-]){place}(?:(?=$)|[/\\])", "./", text)


class ServerConfig(Record):
    """One MCP server: a `command` to start, or a `url` to reach; unknown keys are kept.

    The transport follows from that, unless `transport` (or `type`) sets it: stdio for a command, http for a
    url. The spellings of other clients are read too: `streamable-http`, `serverUrl`, `httpUrl`.

    >>> ServerConfig(command="uvx", args=["mcp-server-time"]).transport
    'stdio'
    >>> ServerConfig.from_json({"type": "streamable-http", "url": "https://example.com/mcp"}).transport
    'http'

    Raises:
        ConfigError: it is invalid; with every problem found.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    command: Filled | None = None
    """The program to start."""
    args: tuple[Word, ...] = ()
    """Its arguments."""
    env: dict[Annotated[str, AfterValidator(_variable_name)], Word] = Field(default={}, repr=False)
    """Environment variables in addition to those that every server inherits: path, home, user, shell,
    language, XDG folders, proxies and certificates."""
    inherit: Patterns = ()
    """Further variables to inherit from toolcrib's environment: names or patterns such as `AWS_*`; `*` means
    all."""
    cwd: Filled | None = None
    """Its working directory; by default the folder of the configuration file."""
    sandbox: Sandbox | None = None
    """The sandbox that it runs in; without one, it has all permissions of the user."""
    read: WallPaths = ()
    """The files and folders that it may read in the sandbox, besides programs and its own packages."""
    write: WallPaths = ()
    """The files and folders that it may also write."""
    network: Annotated[Literal["none", "all"] | tuple[str, ...], BeforeValidator(_network)] = "none"
    """The hosts that it may reach from the sandbox, such as `api.example.com`, `*.example.com` or
    `10.0.0.7:8080`."""
    results: GuardedResults | None = None
    """Handling of secrets, personal data and instructions in the content that it sends, instead of the
    general `results`: `log`, `redact`, `block` or `off`, or an object with `secrets`, `personal`,
    `instructions`."""
    url: Annotated[Word, AfterValidator(_url)] | None = None
    """The address to reach, instead of a program."""
    headers: dict[
        Annotated[str, AfterValidator(_header_name)], Annotated[Word, AfterValidator(_header_value)]
    ] = Field(default={}, repr=False)
    """HTTP headers that are sent with every request to it."""
    auth: AuthConfig | None = None
    """Settings for logging in to it; most servers need none."""
    transport: Transport = "stdio"
    """The transport: `stdio` for a program, `http` for a URL, or `sse` for an old server."""
    required: bool = False
    """Make `ready()` raise an error, and `/ready` of a gateway answer 503, if it does not work."""
    is_shared: bool = Field(default=False, alias="shared")
    """Share one process among the workers of `toolcrib serve --workers`, for a server with state that callers
    share; by default each worker starts its own. A shared process is not stopped when idle."""
    disabled: bool = False
    """Ignore this server."""
    timeout: Seconds | None = None
    """Seconds that a call may take, unless the caller sets a timeout; by default the general `timeout`."""
    start_timeout: Seconds | None = None
    """Seconds that it may take to start and declare its capabilities; by default 30, or 300 if its program
    downloads it first, as `npx` and `uvx` do."""
    idle_timeout: Seconds | None = 600.0
    """Seconds without a call after which it is stopped until the next call; null in JSON keeps it running."""
    trust: TrustMode | None = None
    """The approval mode for its tools, prompts and instructions, instead of `trust.mode`."""
    max_concurrency: Annotated[int, Field(ge=1)] = 64
    """Limit on concurrent requests; others wait. One principal, or all clients without a token together, may
    use at most three quarters of the slots; if there is more than one slot, at least one stays free."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # Arguments, addresses and keys that only other clients know may hold secrets.
        for name, value in super().__repr_args__():
            if name == "args":
                yield name, f"<{len(value)} hidden>"
            elif name == "url":
                yield name, value and host_of(value)
            elif name in type(self).model_fields:
                yield name, value
        yield "others", sorted(self.model_extra or {})

    @property
    def start_limit(self) -> float:
        """Return the seconds that it may take to start: `start_timeout` or its default."""
        if self.start_timeout is not None:
            return self.start_timeout
        return _DOWNLOAD_SECONDS if self.download else _START_SECONDS

    @property
    def download(self) -> str:
        """Return a message for a start that a download delays, as with `npx`; empty for other programs."""
        program = PurePath(self.command or "").stem
        return f"{program} may still be downloading it" if program in _DOWNLOADERS else ""

    @property
    def is_personal(self) -> bool:
        """Return whether each person logs in to it separately."""
        return self.auth is not None and self.auth.mode in {"per_user", "exchange"}

    @property
    def identity(self) -> str:
        """Return a hash of the command or the URL, the same in every process and on every machine.

        It does not cover secrets: neither the environment nor the headers, nor the values of variables that
        are not filled in yet.
        """
        reached = [self.command, *self.args, self.cwd] if self.url is None else [self.url]
        return sha256(json.dumps(reached).encode()).hexdigest()

    def identity_in(self, folder: Path | None) -> str:
        """Return the same hash for a file that a team shares, wherever the project is on each machine.

        Paths in that folder are taken relative to it, and literal secrets count only by their position. The
        sandbox of a command is included, since a server without one may do more.

        >>> here, there = (ServerConfig(command="uv", args=["run", f"/{who}/tools/x.py"]) for who in "ab")
        >>> here.identity_in(Path("/a/tools")) == there.identity_in(Path("/b/tools"))
        True
        >>> here.identity_in(None) == here.replace(sandbox="docker").identity_in(None)
        False
        """
        reached = [self.command, *self.args, self.cwd] if self.url is None else [self.url]
        secrets = [value for _, value in named_secrets({"args": list(self.args)})]
        secrets += [value for value in address_secrets(self.url or "") if value]
        shared: list[Any] = [text and _shareable(text, secrets, folder) for text in reached]
        if self.sandbox is not None:
            network = [self.network] if isinstance(self.network, str) else sorted(self.network)
            paths = [
                sorted(_shareable(path, [], folder) for path in given) for given in (self.read, self.write)
            ]
            shared.append({"sandbox": self.sandbox, "paths": paths, "network": network})
        return sha256(json.dumps(shared).encode(errors="surrogatepass")).hexdigest()

    def reaches_as(self, other: "ServerConfig") -> bool:
        """Return whether it can use the connection of another: the same server, reached in the same way.

        Over HTTP the other must allow at least as many concurrent requests, since that is the size of its
        connection pool.

        >>> ServerConfig(command="a").reaches_as(ServerConfig(command="a", timeout=5))
        True
        """
        if self.url is not None and self.max_concurrency > other.max_concurrency:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in _CONNECTION)

    def expanded(self, environ: Mapping[str, str]) -> "ServerConfig":
        """Return the settings with `${NAME}` and `${NAME:-default}` filled in.

        Raises:
            ConfigError: variables are not set and have no default, and the error names all of them; or the
                result is invalid.
        """
        fill = Expansion(environ)
        changes = self._fill(fill)
        if fill.problems:
            raise ConfigError(_SOURCE, tuple(fill.problems))
        if self.auth is not None:
            changes["auth"] = self.auth.replace(**changes.get("auth", {}))
        return self.replace(**changes)

    def _fill(self, fill: Expansion) -> dict[str, Any]:
        """Return the settings that may hold variables, filled in; those of `auth` as a dictionary."""
        texts = {"auth": {} if self.auth is None else self.auth.texts}
        names = ("command", "args", "env", "cwd", "read", "write", "network", "url", "headers")
        texts |= {name: value for name in names if (value := getattr(self, name))}
        return {name: _filled(value, fill, path=(name,)) for name, value in texts.items() if value}

    def known_secrets(self, environ: Mapping[str, str], inherited: Mapping[str, str]) -> KnownSecrets:
        """Return the secrets that a server gets from its settings, with variables filled in.

        These are the values of `env`, `headers` and `auth`, arguments after a flag such as `--api-key`, the
        credentials in an address, and each variable, unless it is plainly an ordinary setting. Of the
        variables in `inherit`, only those whose names suggest a secret are included.
        """
        fill = Expansion(environ)
        filled = self._fill(fill)
        document = filled | {"args": list(filled.get("args", ()))}
        values = [value for _, value in named_secrets(document)]
        values += [value for name, value in fill.used.items() if not is_setting(name, value)]
        values += [
            value
            for name, value in inherited.items()
            if is_secret_name(name)
            and not is_setting("", value)
            and any(fnmatchcase(name, pattern) for pattern in self.inherit)
        ]
        return KnownSecrets([*values, *address_secrets(filled.get("url", ""))])

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, handler: ModelWrapValidatorHandler["ServerConfig"]) -> "ServerConfig":
        if not isinstance(data, dict):
            return handler(data)
        fields, found = _normal(data), list(_contradictions(data))
        try:
            record = handler(fields)
        except pydantic.ValidationError as error:
            found += [
                _detail(each["loc"], each["type"], each["msg"]) for each in error.errors(include_url=False)
            ]
        else:
            if not found:
                return record
        raise pydantic.ValidationError.from_exception_data(cls.__name__, found)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003
        return ConfigError(_SOURCE, problems)


def _normal(data: dict[str, Any]) -> dict[str, Any]:
    """Return the settings under the field names of the record."""
    fields = {name: value for name, value in data.items() if name not in {"type", "serverUrl", "httpUrl"}}
    url = next((data[name] for name in _URL_NAMES if data.get(name) is not None), None)
    if url is not None:
        fields["url"] = url
    if isinstance(fields.get("trust"), bool):  # Gemini CLI's: whether it asks before each call
        del fields["trust"]
    if fields.get("auth") == "oauth":  # as other clients write it
        fields["auth"] = {}
    transport = next(iter(_declared_transports(data).values()), None)
    derived = "stdio" if url is None else "http"
    fields["transport"] = derived if transport is None else _SPELLINGS.get(str(transport), derived)
    return fields


def _declared_transports(data: dict[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in ("transport", "type") if data.get(name) is not None}


def _contradictions(data: dict[str, Any]) -> Iterator[InitErrorDetails]:
    """Yield contradictory settings, and a transport that does not exist."""
    urls = [name for name in _URL_NAMES if data.get(name) is not None]
    if len(urls) > 1:
        yield _detail(
            (urls[1],), "url", f"is given beside {urls[0]!r}, which means the same; keep one of them"
        )
    commanded = data.get("command") is not None
    if commanded and urls:
        yield _detail((), "command", f"it has both a 'command' and a {urls[0]!r}; keep one of them")
    if not commanded and not urls:
        yield _detail((), "command", "it needs a 'command' to start, or a 'url' to reach")
    if data.get("shared") is True and (urls or data.get("sandbox") is not None):
        reason = (
            "is for a server that a 'command' starts without a sandbox: one with a 'url' is always shared"
        )
        yield _detail(("shared",), "shared", reason)
    yield from _misplaced(data, is_started=commanded)
    yield from _impersonal(data)
    transports = _declared_transports(data)
    for name, value in transports.items():
        if not isinstance(value, str) or value not in _SPELLINGS:
            choice = f"choose {join_options(tuple(dict.fromkeys(_SPELLINGS.values())))}"
            message = (
                f"{short_repr(value)} is not a transport; {choice}{did_you_mean(str(value), _SPELLINGS)}"
            )
            yield _detail((name,), "transport", message)
    known = {
        _SPELLINGS[value] for value in transports.values() if isinstance(value, str) and value in _SPELLINGS
    }
    if len(known) > 1:
        message = f"{transports['type']!r} contradicts transport {transports['transport']!r}"
        yield _detail(("type",), "transport", message)
    elif known == {"stdio"} and urls and not commanded:
        yield _detail(("command",), "command", "is required by the transport 'stdio'")
    elif known - {"stdio"} and commanded and not urls:
        yield _detail(("url",), "url", f"is required by the transport {known.pop()!r}")


def _misplaced(data: dict[str, Any], *, is_started: bool) -> Iterator[InitErrorDetails]:
    """Yield settings for servers of the other kind: those with a command, or those with a URL."""
    if is_started and data.get("auth") is not None:
        yield _detail(("auth",), "auth", "is for a server that is reached at a 'url'")
    for name in ("inherit", "sandbox", *_OF_WALLS):
        given = data.get(name)
        if not given or given == "none":
            continue
        if not is_started:
            yield _detail((name,), name, "is for a server that a 'command' starts")
        elif name in _OF_WALLS and data.get("sandbox") is None:
            message = "is for a server in a sandbox; add sandbox = 'bubblewrap' or 'docker'"
            yield _detail((name,), name, message)


def _impersonal(data: dict[str, Any]) -> Iterator[InitErrorDetails]:
    """Yield an access in the settings that would be used for everybody, where each person has their own."""
    auth, headers = data.get("auth"), data.get("headers")
    mode = auth.get("mode") if isinstance(auth, dict) else getattr(auth, "mode", None)
    named = [str(name).lower() for name in headers] if isinstance(headers, dict) else []
    has_user = any("@" in str(data.get(name)).partition("://")[2].partition("/")[0] for name in _URL_NAMES)
    if mode in {"per_user", "exchange"} and ("authorization" in named or has_user):
        message = f"{mode!r} uses each person's own login, but the settings give another"
        yield _detail(("auth", "mode"), "auth", message)


def _detail(loc: tuple[str | int, ...], kind: str, message: str) -> InitErrorDetails:
    return InitErrorDetails(
        type=PydanticCustomError(kind, "{message}", {"message": message}), loc=loc, input=None
    )


def _filled(value: Any, fill: Expansion, *, path: tuple[str | int, ...]) -> Any:
    """Return a text, or the texts in a value, with the variables filled in."""
    if isinstance(value, str):
        return fill.text(value, path=pointer(path))
    if isinstance(value, tuple):
        return tuple(_filled(member, fill, path=(*path, place)) for place, member in enumerate(value))
    return {name: _filled(member, fill, path=(*path, name)) for name, member in value.items()}


def named_config(name: str, config: ServerConfig | Mapping[str, Any]) -> ServerConfig:
    """Return the settings of a server; problems are reported with its name."""
    if not name:
        raise ConfigError("mcpServers", (Problem("", "name", "the name of a server must not be empty"),))
    if isinstance(config, ServerConfig):
        return config
    try:
        return ServerConfig(**config)
    except ConfigError as error:
        raise ConfigError(f"server {name!r}", error.problems) from error
