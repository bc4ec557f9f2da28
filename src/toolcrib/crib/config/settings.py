"""All settings, as one record."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from toolcrib.crib.config.gateway import SURFACES, GatewaySettings, ToolsetSettings, is_loopback
from toolcrib.crib.config.section import Count, FilePath, Seconds, Section, Text
from toolcrib.discovery.search.semantic.named import BUILT_IN
from toolcrib.execution import RateRule, Rule
from toolcrib.execution.mcp.config import Patterns, ServerConfig, TrustMode
from toolcrib.model.findings import GuardedResults, ResultActions
from toolcrib.model.record import JsonObject
from toolcrib.model.toolid import name_fault
from toolcrib.postgres import address_fault, is_postgres, public_address
from toolcrib.redaction import host_of
from toolcrib.runtime.registry import DEFAULT
from toolcrib.runtime.request import ExecuteRequest, Limits, SecurityProfile

MEMORY = "memory"
"""Value of `store` for a catalogue that is not stored."""
LOCK_NAME = "tools.lock"
"""Name of the lock of approved tools, which stands beside the configuration file."""
NO_FILE = "configuration"
"""Name of settings that are in no file."""
_HOST = re.compile(r"[^\W_](?:[\w.-]*\w)?\.?|[0-9a-fA-F:.]+(?:%\w+)?")
"""The host of an address: a name, or an address of IPv6."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


def _file(path: str) -> str:
    if path.lower().startswith(("http://", "https://")):
        raise PydanticCustomError(
            "document", "a document is a file; `toolcrib add NAME --openapi URL` downloads it"
        )
    return path


def _store(place: str) -> str:
    scheme, separator, _ = place.partition("://")
    if is_postgres(place):
        if fault := address_fault(place):
            raise PydanticCustomError("store", "{fault}", {"fault": fault})
    elif separator and _SCHEME.fullmatch(scheme):
        message = "give the path of a file, or postgresql://...: no store is known for {scheme}://"
        raise PydanticCustomError("store", message, {"scheme": scheme})
    return place


class OpenApiSettings(Section):
    """An HTTP API whose operations become tools."""

    document: Annotated[FilePath, AfterValidator(_file)]
    """The OpenAPI document: a file in JSON or YAML."""
    base_url: str | None = None
    """The base URL of the API, if the document does not specify it."""
    secrets: dict[str, str] = Field(default={}, repr=False)
    """Secrets by security scheme; `${VAR}` allowed."""
    allow_private: bool | tuple[str, ...] = False
    """The private addresses that requests may go to: none, all, or these hosts and networks."""
    required: bool = False
    """Report the gateway as not ready without it."""
    results: GuardedResults | None = None
    """Handling of sensitive content in its responses, instead of the general `results`."""
    trust: TrustMode | None = None
    """The approval mode for its tools, instead of `trust.mode`."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, host_of(value) if name == "base_url" and value else value


class LimitSettings(Section):
    """Limits on results and concurrent calls."""

    result_bytes: Count = 16 * 2**20
    """Size limit of the value of one result."""
    concurrency: Count | None = None
    """Limit on concurrent calls to one backend; by default each server's `max_concurrency`."""


class SearchSettings(Section):
    """Search settings."""

    searcher: Literal["auto", "bm25", "hybrid"] = "auto"
    """Search by words only (`bm25`), or by words and meaning. If the packages of the model are not installed,
    `auto` uses the built-in model, and `hybrid` is an error."""
    model: FilePath = BUILT_IN
    """The model for search by meaning: `static`, which is built in, `minilm`, which
    `pip install toolcrib-minilm` installs, the name of another installed model, or the folder of one."""
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The default minimum confidence of a result."""
    learn: Literal["off", "principal", "shared"] = "principal"
    """Turn a question that is followed by a run of a tool into an example question of that tool: for searches
    by the same principal (`principal`), for those by everybody (`shared`), or not at all (`off`)."""

    def folder(self, beside: Path | None = None) -> Path | None:
        """Return the folder of the model, relative to `beside`; None if `model` is a name.

        A value with a path separator is a folder, and so is the path of an existing one; but `static` is
        always the built-in model.

        >>> SearchSettings(model="minilm").folder(), str(SearchSettings(model="models/mine").folder())
        (None, 'models/mine')
        """
        if self.model == BUILT_IN:
            return None
        path = (beside or Path()) / Path(self.model).expanduser()
        is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a name is too long
        return path if is_folder or Path(self.model).name != self.model else None


class CacheSettings(Section):
    """The cache for results of read-only tools."""

    ttl: Seconds = 60.0
    """Seconds that a result is cached."""
    entries: Count = 1024
    """Limit on cached results."""


class RetrySettings(Section):
    """Retries of calls whose backend was unavailable, if that is safe."""

    attempts: Count = 3
    """The number of attempts, including the first."""


class AuditSettings(Section):
    """The audit file, with one line for each call."""

    path: FilePath
    """The file that records are appended to."""
    arguments: bool = False
    """Record the arguments of calls."""
    required: bool = False
    """Refuse calls while they cannot be recorded; by default they run, and lost records are counted."""
    max_bytes: Annotated[int, Field(ge=4096)] | None = None
    """Size at which the file is rotated; its hash chain continues in the next file."""
    sign: bool = True
    """Sign the audit log at intervals, with the user's key."""


class TrustSettings(Section):
    """Approval of the tools of servers and APIs before they are used."""

    mode: TrustMode | None = None
    """`off`: no approval. `tofu`, trust on first use: definitions that have changed since they were approved
    or first seen are withheld. `strict`: definitions that nobody has approved are withheld too. By default
    `tofu` if there is a `tools.lock` beside the configuration, else `off`."""
    allow: Literal["none", "patch", "minor", "major"] | None = None
    """The largest change that needs no approval: `none`, one in wording (`patch`), one that breaks no call
    (`minor`), or any (`major`). By default `patch` for `tofu` and `none` for `strict`."""


def _check_hook(url: str) -> str:
    fault = PydanticCustomError("url", "must be an address with a host, like https://hooks.example.com/ask")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:  # such as a port that is no number
        raise fault from error
    host = parts.hostname or ""
    if not _HOST.fullmatch(host) or re.search(r"\s", url) or port == 0:
        raise fault
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return url
    raise PydanticCustomError("url", "must be an https address, or an http one of this machine")


class WebhookSettings(Section):
    """A webhook that waiting calls are posted to, so that they can be answered outside the console."""

    url: Annotated[Text, AfterValidator(_check_hook)]
    """The URL that they are posted to."""
    secret: Text = Field(repr=False)
    """The key that signs them and the answers: at least 24 characters, or `whsec_` and base64; `${VAR}` is
    allowed."""


class ConsoleSettings(Section):
    """The console in the browser, and the JSON API below `/api/`."""

    enabled: bool | None = None
    """Serve both; by default only if no other machine can reach the gateway (it listens on a loopback
    address, and has no `gateway.public_url`). A change needs a restart of the gateway."""
    operators: tuple[Text, ...] = ()
    """The callers who see everybody's calls, answer those that are waiting, and start and stop servers,
    besides the user of this machine: `token:NAME`, `user:SUBJECT`, `group:NAME`, as in rules."""
    auditors: tuple[Text, ...] = ()
    """The callers who see everybody's calls with their arguments and results, those that are waiting, and
    the rules, but change nothing; named like `operators`."""
    calls: Count = 20_000
    """Limit on the calls that it shows."""
    approval_timeout: Seconds = 300.0
    """Seconds that a call waits for an operator, if a rule asks about it, its client cannot ask,
    and an operator has the console open or `webhook` is set."""
    webhook: WebhookSettings | None = None
    """The webhook that calls waiting for approval are posted to."""


class CodeSettings(Section):
    """Settings of code mode."""

    backend: Text = DEFAULT
    """The kind of sandbox that is used unless the caller names one."""
    profile: SecurityProfile = SecurityProfile.STANDARD
    """The required isolation."""
    timeout: Seconds = 30.0
    """Seconds that a run may take, including its tool calls."""
    limits: Limits = Limits.from_valid()
    """The resources that one run may use."""
    language_fallback: bool = False
    """Run code in `process` instead if it uses Python features that its sandbox lacks."""
    allow_unsafe: bool = False
    """Allow code to run without a sandbox, if the caller asks for that."""

    def request(self, code: str, options: dict[str, Any]) -> ExecuteRequest:
        """Return the request to a runtime: the caller's options, with these settings as defaults.

        Raises:
            ValidationError: the request is invalid; the error lists every problem.
        """
        fields = ExecuteRequest.model_fields.keys() & type(self).model_fields.keys()
        usual = {name: getattr(self, name) for name in fields}
        asked = {name: value for name, value in options.items() if value is not None}
        limits = asked.get("limits")
        if isinstance(limits, Limits):
            limits = limits.model_dump(include=limits.model_fields_set)
        if isinstance(limits, Mapping):
            asked["limits"] = self.limits.model_dump(include=self.limits.model_fields_set) | dict(limits)
        return ExecuteRequest(code=code, **usual | asked)


class RunSettings(Section):
    """Storage of durable runs."""

    key: Text | None = Field(default=None, repr=False)
    """The key that signs them: at least 32 characters, `${VAR}` allowed; by default the file `runs.key` in
    the user's data folder, which is created when it is needed."""
    store: Annotated[FilePath, AfterValidator(_store)] | None = None
    """The file that they are kept in, `memory`, or the address of a PostgreSQL database; by default the
    database of `store` if that is one, or else a file in the user's data folder. Other machines can resume
    them only with the same `key`."""
    max_age: Seconds = 604_800.0
    """Seconds after its last call during which a run can be resumed; then it is deleted."""
    max_runs: Count = 1000
    """Limit on stored runs; finished ones are deleted first."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, public_address(value) if name == "store" and value and is_postgres(value) else value


class EngineSettings(Section):
    """Execution of durable runs by a Temporal server and its workers."""

    temporal: Text
    """The address of the server, such as `temporal.example.com:7233`. Runs then need a store that all workers
    share (`runs.store`), and at least one `toolcrib worker`."""
    namespace: Text = "default"
    """The namespace on the server."""
    queue: Text = "toolcrib"
    """The task queue of workers and workflows. Work that needs a particular sandbox goes to a queue that
    is named after it, such as `toolcrib-monty`."""
    tls: bool = False
    """Encrypt the connection."""
    ca: FilePath | None = None
    """A file with trusted certificate authorities, instead of those of the system."""
    certificate: FilePath | None = None
    """The file with the client certificate, if the server requires one."""
    private_key: FilePath | None = None
    """The file with the private key of that certificate."""
    api_key: Text | None = Field(default=None, repr=False)
    """The key of an account on a hosted server, `${VAR}` allowed."""
    heartbeat: Annotated[float, Field(ge=0.5, le=3600)] = 2.0
    """Seconds without a heartbeat after which a worker counts as dead and another one takes over."""
    shutdown_timeout: Seconds = 10.0
    """Seconds that a stopping worker gives its calls to finish."""

    @model_validator(mode="after")
    def _is_whole(self) -> "EngineSettings":
        if (self.certificate is None) != (self.private_key is None):
            raise PydanticCustomError("tls", "certificate and private_key belong together")
        if not self.tls and (self.ca or self.certificate or self.api_key):
            raise PydanticCustomError("tls", "ca, certificate and api_key need tls = true")
        return self


class PostgresSettings(Section):
    """Settings of a PostgreSQL database."""

    connections: Count = 8
    """Limit on connections in the pool of one gateway."""
    timeout: Seconds = 10.0
    """Seconds that one query may take."""
    poll: Seconds = 0.5
    """Seconds between checks for changes by other gateways, if the database does not announce them."""


class Settings(Section):
    """Top-level settings.

    >>> Settings(timeout=5, servers={"time": {"command": "mcp-server-time"}}).servers["time"].transport
    'stdio'

    Raises:
        ConfigError: the settings are invalid; the error lists every problem.
    """

    servers: dict[str, ServerConfig] = Field(default={})
    """MCP servers by name; the name is the namespace of their tools."""
    inherit: Patterns = ()
    """The environment variables that every started server inherits, besides its own `inherit`; in a
    `toolcrib.toml` it is under `[servers]`."""
    openapi: dict[str, OpenApiSettings] = Field(default={})
    """HTTP APIs by name; the name is the namespace of their tools."""
    registry: Text | None = None
    """The registry of MCP servers for `toolcrib add --from`: a file, or the address of an API."""
    store: Annotated[FilePath, AfterValidator(_store)] | None = None
    """The catalogue's file (by default one per configuration, in the user's data folder), `memory`, or the
    address of a PostgreSQL database that gateways share, such as
    `postgresql://toolcrib:${PASSWORD}@db.example.com/toolcrib?sslmode=verify-full`, with the parameters that
    libpq knows; `${VAR}` is allowed."""
    postgres: PostgresSettings = PostgresSettings.from_valid()
    """Settings of the PostgreSQL database, if `store` is the address of one."""
    timeout: Seconds = 60.0
    """Seconds that a call may run, unless the caller sets another timeout."""
    limits: LimitSettings = LimitSettings.from_valid()
    """Limits on results and concurrent calls."""
    search: SearchSettings = SearchSettings.from_valid()
    """Search settings."""
    code: CodeSettings = CodeSettings.from_valid()
    """Settings of code mode."""
    runs: RunSettings = RunSettings.from_valid()
    """Storage of durable runs."""
    engine: EngineSettings | None = None
    """Execution of durable runs by a Temporal server; without this section, the process that starts a run
    executes it."""
    toolsets: dict[str, ToolsetSettings] = Field(default={})
    """Parts of the catalogue by name, each served at its own address."""
    gateway: GatewaySettings = GatewaySettings.from_valid()
    """Settings of the gateway, through which MCP clients reach the tools."""
    console: ConsoleSettings = ConsoleSettings.from_valid()
    """The console in the browser."""
    cache: CacheSettings | None = None
    """Caches results of read-only tools; without this section, nothing is cached."""
    retry: RetrySettings | None = None
    """Retries calls if that is safe; without this section, calls are not retried."""
    policy: tuple[Rule, ...] = ()
    """Access rules: the first matching rule decides, and everything that no rule allows is refused. Without
    rules, everybody may run everything."""
    rate_limits: tuple[RateRule, ...] = ()
    """Rate limits for calls. A call must be within all limits that apply to it."""
    results: GuardedResults = ResultActions.from_valid()
    """Handling of secrets, personal data and instructions to the model in tool results: `log`, `redact`,
    `block`, or a table with one of them for each. Without it, results are not checked."""
    audit: AuditSettings | None = None
    """Records each call; without this section, nothing is recorded."""
    trust: TrustSettings = TrustSettings.from_valid()
    """Approval of the tools of servers and APIs before they are used."""
    source: str | None = None
    """The file that it was read from."""
    others: JsonObject = Field(default={}, repr=False)
    """The rest of a client's file besides its servers, such as `inputs`, unchanged."""

    @property
    def started_servers(self) -> dict[str, ServerConfig]:
        """The servers as they are started: each also inherits the variables in `inherit`."""
        return {
            name: server.replace(inherit=(*self.inherit, *server.inherit))
            if self.inherit and server.command is not None
            else server
            for name, server in self.servers.items()
        }

    @property
    def lock_file(self) -> Path | None:
        """The path of the lock of approved tools, which may not exist; None if the settings have no file."""
        return None if self.source is None else Path(self.source).with_name(LOCK_NAME)

    @property
    def asks_for_trust(self) -> bool:
        """Whether approval is on for any server or API."""
        modes = {self.trust.mode, *(each.trust for each in self.servers.values())}
        modes |= {each.trust for each in self.openapi.values()}
        has_lock = self.lock_file is not None and os.path.lexists(self.lock_file)
        return not modes <= {None, "off"} or (has_lock and self.trust.mode is None)

    @property
    def origin(self) -> str:
        """The name of the settings in errors: the file that they were read from, or else a generic name."""
        return self.source or NO_FILE

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # Arguments, addresses and keys that only other clients know may hold secrets.
        for name, value in super().__repr_args__():
            if name == "store" and value and is_postgres(value):
                value = public_address(value)  # noqa: PLW2901 - without the password
            yield name, list(value) if name in {"servers", "openapi"} else value

    @field_validator("servers", "openapi", "toolsets", mode="after")
    @classmethod
    def _named(cls, parts: dict[str, Any]) -> dict[str, Any]:
        for name in parts:
            if fault := name_fault(name):
                shown = {"name": repr(name[:80]), "fault": fault}
                raise PydanticCustomError("name", "the name {name} {fault}", shown)
        return parts

    @field_validator("toolsets", mode="after")
    @classmethod
    def _are_no_surfaces(cls, toolsets: dict[str, ToolsetSettings]) -> dict[str, ToolsetSettings]:
        for name in sorted(SURFACES.intersection(toolsets)):
            raise PydanticCustomError(
                "name",
                "the name {name} is taken: /mcp/{name} shows everything another way; choose another name",
                {"name": name},
            )
        return toolsets

    @field_validator("policy", mode="before")
    @classmethod
    def _is_not_cedar(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "cedar" in given:
            message = "policies in Cedar are no longer supported; write them as rules, in [[policy]] tables"
            raise PydanticCustomError("removed", message)
        return given

    @field_validator("policy", "rate_limits", mode="after")
    @classmethod
    def _have_own_names(cls, rules: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        names = [rule.name for rule in rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            kind = "rules" if info.field_name == "policy" else "rate limits"
            shown = {"names": ", ".join(map(repr, twice)), "kind": kind}
            raise PydanticCustomError("name", "{names} is the name of several {kind}", shown)
        return rules

    @model_validator(mode="after")
    def _share_runs(self) -> "Settings":
        if self.engine is not None and self.runs.store == MEMORY:
            message = "workers share the store of the runs; name a file or a database in runs.store"
            raise PydanticCustomError("store", message)
        return self

    @model_validator(mode="after")
    def _apart(self) -> "Settings":
        if twice := sorted(self.servers.keys() & self.openapi.keys()):
            shown = {"names": ", ".join(map(repr, twice))}
            raise PydanticCustomError("name", "{names} cannot be both a server and an API", shown)
        return self
