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
    """The base URL of the API, if the document does not have it."""
    secrets: dict[str, str] = Field(default={}, repr=False)
    """Secrets by security scheme; `${VAR}` allowed."""
    allow_private: bool | tuple[str, ...] = False
    """To which private addresses requests may go: none, all, or these hosts and networks."""
    required: bool = False
    """Whether the gateway is not ready without it."""
    results: GuardedResults | None = None
    """What is done about what it sends, instead of the general `results`."""
    trust: TrustMode | None = None
    """How its tools are approved, instead of `trust.mode`."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, host_of(value) if name == "base_url" and value else value


class LimitSettings(Section):
    """Limits of results and concurrent calls."""

    result_bytes: Count = 16 * 2**20
    """Size limit of the value of one result."""
    concurrency: Count | None = None
    """Limit for concurrent calls of one backend; by default each server's `max_concurrency`."""


class SearchSettings(Section):
    """How tools are found."""

    searcher: Literal["auto", "bm25", "hybrid"] = "auto"
    """By words only (`bm25`), or by words and meaning. If the packages of the model are not installed, `auto`
    uses the built-in model, and `hybrid` is an error."""
    model: FilePath = BUILT_IN
    """The model for search by meaning: `static`, which is built in, `minilm`, which
    `pip install toolcrib-minilm` installs, the name of another installed model, or the folder of one."""
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The lowest confidence of a result, by default."""
    learn: Literal["off", "principal", "shared"] = "principal"
    """Whether a question that is followed by a run of a tool becomes an example question of it: for searches
    of the same principal, for those of all (`shared`), or not at all."""

    def folder(self, beside: Path | None = None) -> Path | None:
        """Return the folder of the model, relative to another; None where the model is called by its name.

        What has a separator is a folder, and so is what is one; but `static` is always what is built in.

        >>> SearchSettings(model="minilm").folder(), str(SearchSettings(model="models/mine").folder())
        (None, 'models/mine')
        """
        if self.model == BUILT_IN:
            return None
        path = (beside or Path()) / Path(self.model).expanduser()
        is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a name is too long
        return path if is_folder or Path(self.model).name != self.model else None


class CacheSettings(Section):
    """For how long results of read-only tools are cached."""

    ttl: Seconds = 60.0
    """Seconds that a result is cached."""
    entries: Count = 1024
    """Limit for cached results."""


class RetrySettings(Section):
    """Retries of calls whose backend was unavailable, if that is safe."""

    attempts: Count = 3
    """The number of attempts, including the first."""


class AuditSettings(Section):
    """The audit file, with one line for each call."""

    path: FilePath
    """The file that records are appended to."""
    arguments: bool = False
    """Whether the arguments of calls are recorded."""
    required: bool = False
    """Whether calls are refused while they cannot be recorded; by default they run, and lost records are
    counted."""
    max_bytes: Annotated[int, Field(ge=4096)] | None = None
    """Size at which the file is rotated; its hash chain continues in the next file."""
    sign: bool = True
    """Whether the audit is signed at intervals, with the user's key."""


class TrustSettings(Section):
    """Which servers and APIs need approval before their tools are used."""

    mode: TrustMode | None = None
    """`off`: no approval. `tofu`, trust on first use: what has changed since it was approved or first seen is
    withheld. `strict`: what nobody has approved is withheld too. By default `tofu` if there is a `tools.lock`
    beside the configuration, else `off`."""
    allow: Literal["none", "patch", "minor", "major"] | None = None
    """The greatest change that needs no approval: `none`, one in wording (`patch`), one that breaks no call
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
    """Where calls that wait for a person are posted, so that they can be answered outside the console."""

    url: Annotated[Text, AfterValidator(_check_hook)]
    """The URL that they are posted to."""
    secret: Text = Field(repr=False)
    """The key that signs them and the answers: at least 24 characters, or `whsec_` and base64; `${VAR}` is
    allowed."""


class ConsoleSettings(Section):
    """The console in the browser, and the JSON API below `/api/`."""

    enabled: bool | None = None
    """Whether they are served; by default only if no other machine can reach the gateway (it listens on a
    loopback address, and has no `gateway.public_url`). A change needs a restart of the gateway."""
    operators: tuple[Text, ...] = ()
    """Who sees everybody's calls, answers those that wait, and starts and stops servers, besides the user
    of this machine: `token:NAME`, `user:SUBJECT`, `group:NAME`, as in rules."""
    auditors: tuple[Text, ...] = ()
    """Who sees the calls of everybody with their arguments and results, those that wait, and the rules, but
    changes nothing; named as operators are."""
    calls: Count = 20_000
    """Limit for the calls that it shows."""
    approval_timeout: Seconds = 300.0
    """Seconds that a call waits for an operator, if a rule asks about it, its client cannot ask,
    and an operator has the console open or `webhook` is set."""
    webhook: WebhookSettings | None = None
    """Posts calls that wait for a person."""


class CodeSettings(Section):
    """How code that calls tools is run."""

    backend: Text = DEFAULT
    """The kind of sandbox that is used unless the caller names one."""
    profile: SecurityProfile = SecurityProfile.STANDARD
    """The required isolation."""
    timeout: Seconds = 30.0
    """Seconds that a run may take, including its tool calls."""
    limits: Limits = Limits.from_valid()
    """The resources that one run may use."""
    language_fallback: bool = False
    """Whether code that uses Python features that its sandbox lacks is run in `process` instead."""
    allow_unsafe: bool = False
    """Whether code may run without a sandbox, if the caller asks for that."""

    def request(self, code: str, options: dict[str, Any]) -> ExecuteRequest:
        """Return the request to a runtime: the options of the caller, and these settings for the rest.

        Raises:
            ValidationError: with everything that is wrong with it.
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
    """How durable runs are kept."""

    key: Text | None = Field(default=None, repr=False)
    """The key that signs them: at least 32 characters, `${VAR}` allowed; else the file `runs.key` in the
    user's data folder, which is created when it is needed."""
    store: Annotated[FilePath, AfterValidator(_store)] | None = None
    """The file that they are kept in, `memory`, or the address of a PostgreSQL database; else the database of
    `store` if that is one, or a file in the user's data folder. Other machines can resume them only with the
    same `key`."""
    max_age: Seconds = 604_800.0
    """Seconds after its last call during which a run can be resumed; then it is deleted."""
    max_runs: Count = 1000
    """Limit for stored runs; finished ones are deleted first."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, public_address(value) if name == "store" and value and is_postgres(value) else value


class EngineSettings(Section):
    """Where durable runs are executed: by a Temporal server and its workers."""

    temporal: Text
    """The address of the server, such as `temporal.example.com:7233`. Runs then need a store that all workers
    share (`runs.store`), and at least one `toolcrib worker`."""
    namespace: Text = "default"
    """The namespace on the server."""
    queue: Text = "toolcrib"
    """The task queue of workers and workflows. Pieces that need a certain sandbox go to a queue that is
    named after it, such as `toolcrib-monty`."""
    tls: bool = False
    """Whether the connection is encrypted."""
    ca: FilePath | None = None
    """A file with trusted certificate authorities, instead of those of the system."""
    certificate: FilePath | None = None
    """The file of the client certificate, if the server requires one."""
    private_key: FilePath | None = None
    """The file of the key of that certificate."""
    api_key: Text | None = Field(default=None, repr=False)
    """The key of an account on a hosted server, `${VAR}` allowed."""
    heartbeat: Annotated[float, Field(ge=0.5, le=3600)] = 2.0
    """Seconds without a heartbeat after which a worker counts as dead and another one takes over."""
    shutdown_timeout: Seconds = 10.0
    """Seconds that the calls of a stopping worker have to finish."""

    @model_validator(mode="after")
    def _is_whole(self) -> "EngineSettings":
        if (self.certificate is None) != (self.private_key is None):
            raise PydanticCustomError("tls", "certificate and private_key belong together")
        if not self.tls and (self.ca or self.certificate or self.api_key):
            raise PydanticCustomError("tls", "ca, certificate and api_key need tls = true")
        return self


class PostgresSettings(Section):
    """How a PostgreSQL database is used."""

    connections: Count = 8
    """Limit for connections in the pool of one gateway."""
    timeout: Seconds = 10.0
    """Seconds that one query may take."""
    poll: Seconds = 0.5
    """Seconds between checks for changes by other gateways, if the database does not announce them."""


class Settings(Section):
    """Top-level settings.

    >>> Settings(timeout=5, servers={"time": {"command": "mcp-server-time"}}).servers["time"].transport
    'stdio'

    Raises:
        ConfigError: with every problem found.
    """

    servers: dict[str, ServerConfig] = Field(default={})
    """MCP servers by name; the name is the namespace of their tools."""
    inherit: Patterns = ()
    """The environment variables that every started server inherits, besides its own `inherit`; in a
    `toolcrib.toml` it is under `[servers]`."""
    openapi: dict[str, OpenApiSettings] = Field(default={})
    """HTTP APIs by name; the name is the namespace of their tools."""
    registry: Text | None = None
    """The registry of MCP servers that `toolcrib add --from` asks: a file, or the address of an API."""
    store: Annotated[FilePath, AfterValidator(_store)] | None = None
    """The catalogue's file (by default one per configuration, in the user's data folder), `memory`, or the
    address of a PostgreSQL database that gateways share, such as
    `postgresql://toolcrib:${PASSWORD}@db.example.com/toolcrib?sslmode=verify-full`, with the parameters that
    libpq knows; `${VAR}` is allowed."""
    postgres: PostgresSettings = PostgresSettings.from_valid()
    """How a PostgreSQL database is used, if `store` is the address of one."""
    timeout: Seconds = 60.0
    """Seconds that a call may run, unless the caller sets another timeout."""
    limits: LimitSettings = LimitSettings.from_valid()
    """Limits of results and concurrent calls."""
    search: SearchSettings = SearchSettings.from_valid()
    """How tools are found."""
    code: CodeSettings = CodeSettings.from_valid()
    """How code that calls tools is run."""
    runs: RunSettings = RunSettings.from_valid()
    """How durable runs are kept."""
    engine: EngineSettings | None = None
    """Where durable runs are executed; without this section, by the process that starts them."""
    toolsets: dict[str, ToolsetSettings] = Field(default={})
    """Parts of the catalogue by name, each served at its own address."""
    gateway: GatewaySettings = GatewaySettings.from_valid()
    """How MCP clients reach the tools."""
    console: ConsoleSettings = ConsoleSettings.from_valid()
    """The console in the browser."""
    cache: CacheSettings | None = None
    """Caches results of read-only tools; without this section, nothing is cached."""
    retry: RetrySettings | None = None
    """Retries calls if that is safe; without this section, calls are not retried."""
    policy: tuple[Rule, ...] = ()
    """Who may run what: the first matching rule decides, and everything that no rule allows is refused.
    Without rules, everybody may run everything."""
    rate_limits: tuple[RateRule, ...] = ()
    """How many calls of which tools may run in a period. A call must be within all limits that apply to
    it."""
    results: GuardedResults = ResultActions.from_valid()
    """How secrets, personal data and instructions to the model in tool results are handled: `log`,
    `redact`, `block`, or a table with one of them for each. Without it, results are not checked."""
    audit: AuditSettings | None = None
    """Records each call; without this section, nothing is recorded."""
    trust: TrustSettings = TrustSettings.from_valid()
    """Which servers and APIs need approval before their tools are used."""
    source: str | None = None
    """The file that it was read from."""
    others: JsonObject = Field(default={}, repr=False)
    """The rest of a client's file beside its servers, such as `inputs`, unchanged."""

    @property
    def started_servers(self) -> dict[str, ServerConfig]:
        """The servers as they are started: each inherits also what all of them do."""
        return {
            name: server.replace(inherit=(*self.inherit, *server.inherit))
            if self.inherit and server.command is not None
            else server
            for name, server in self.servers.items()
        }

    @property
    def lock_file(self) -> Path | None:
        """Where the lock of approved tools is, if there is one; None of settings that are in no file."""
        return None if self.source is None else Path(self.source).with_name(LOCK_NAME)

    @property
    def asks_for_trust(self) -> bool:
        """Whether anything is asked of any server before its tools are used."""
        modes = {self.trust.mode, *(each.trust for each in self.servers.values())}
        modes |= {each.trust for each in self.openapi.values()}
        has_lock = self.lock_file is not None and os.path.lexists(self.lock_file)
        return not modes <= {None, "off"} or (has_lock and self.trust.mode is None)

    @property
    def origin(self) -> str:
        """Its name in errors: the file that it was read from, else just the configuration."""
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
