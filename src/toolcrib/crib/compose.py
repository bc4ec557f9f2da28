"""Makes the parts of a crib from its settings and the hooks of the program."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from toolcrib.crib.config.settings import MEMORY, SearchSettings, Settings
from toolcrib.discovery import (
    Bm25Searcher,
    Embedder,
    EmbeddingSearcher,
    HybridSearcher,
    LocalEmbedder,
    PostgresStore,
    Searcher,
    SqliteStore,
    Store,
    load_embedder,
)
from toolcrib.discovery.protocols import Derived
from toolcrib.discovery.search.semantic.named import embedder_in
from toolcrib.errors import ConfigError, EmbeddingError, MissingExtraError, Problem, StoreError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.execution import Middleware, Observer, Policy
from toolcrib.execution.audit import Audit, AuditFile
from toolcrib.execution.audit.hash_chain import Sign
from toolcrib.execution.audit.signing import make_signer
from toolcrib.execution.entries import FileEntries
from toolcrib.execution.mcp.config import WORKERS_FOLDER, OnInput
from toolcrib.execution.middleware import Cache, ConcurrencyLimit, ResultGuard, Retry
from toolcrib.execution.policy.rules import Approver, Rules
from toolcrib.execution.principal import Issuers
from toolcrib.execution.tracing import OpenTelemetry, available
from toolcrib.execution.variables import Expansion
from toolcrib.model import SchemaValidator
from toolcrib.model.findings import ResultActions, ResultCheck
from toolcrib.paths import audit_key, catalogue_file
from toolcrib.postgres import is_postgres
from toolcrib.runs import RunStore
from toolcrib.runtime import Sandbox

if TYPE_CHECKING:
    from toolcrib.adapter import Adapter

_LOG = logging.getLogger("toolcrib.crib.search")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Objects that a program adds to the settings, or uses in place of configured parts."""

    policy: Policy | None = None
    approve: Approver | None = None
    middleware: Sequence[Middleware] = ()
    observers: Sequence[Observer] = ()
    environ: Mapping[str, str] | None = None
    on_input: OnInput | None = None
    validator: SchemaValidator | None = None
    searcher: Searcher | None = None
    embedder: Embedder | None = None
    store: Store | None = None
    run_store: RunStore | None = None
    sandboxes: Sequence[Sandbox] = ()
    adapters: "Sequence[Adapter]" = ()
    on_demand: bool = False

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        for name in ("middleware", "observers", "sandboxes", "adapters"):
            given = getattr(self, name)
            if isinstance(given, Iterable) and not isinstance(given, str | bytes):
                object.__setattr__(self, name, tuple(given))
            else:
                problems.append(Problem(f"/{name}", "type", f"must be a list, not {type(given).__name__}"))
        if not problems:
            others = [one for one in self.sandboxes if isinstance(one, type) or not isinstance(one, Sandbox)]
            problems += [_hook_problem("/sandboxes", "Sandbox", one) for one in others]
        if self.policy is not None and not callable(self.policy):
            problems.append(_hook_problem("/policy", "function of a request", self.policy))
        if self.searcher is not None and self.embedder is not None:
            message = (
                "an embedder is part of the default searcher: put it into your own, or leave one of them out"
            )
            problems.append(Problem("/embedder", "exclusive", message))
        if problems:
            raise ConfigError("Crib", tuple(problems[:MAX_PROBLEMS]))


def _hook_problem(path: str, kind: str, given: object) -> Problem:
    name = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    return Problem(path, "type", f"must be a {kind}, not {name}")


def open_store(settings: Settings, environ: Mapping[str, str] | None = None) -> Store | None:
    """Open the store of the catalogue; None if it lasts only as long as the crib.

    Raises:
        StoreError: the file or the database cannot be used.
        ConfigError: the folder for our own cannot be meant, or a variable of an address is not set.
        MissingExtraError: psycopg is not installed.
    """
    if settings.store == MEMORY:
        return None
    if settings.store is not None and is_postgres(settings.store):
        return PostgresStore(
            fill_address(settings, settings.store, environ),
            timeout=settings.postgres.timeout,
            connections=settings.postgres.connections,
        )
    if settings.store is not None:
        return SqliteStore(Path(settings.store).expanduser())
    if settings.source is None:
        return None
    path = catalogue_file(settings.source, environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(str(path), f"its folder cannot be made ({error.strerror or error})") from error
    return SqliteStore(path)


def open_buckets(settings: Settings, environ: Mapping[str, str] | None = None) -> FileEntries | None:
    """Open the token buckets that all processes with this configuration share; None if it stores nothing.

    Those of a database are the database's own.

    Raises:
        StoreError: the file cannot be used.
        ConfigError: the folder for our own cannot be meant.
    """
    if settings.store is not None and settings.store != MEMORY:
        path = Path(settings.store).expanduser()
    elif settings.store is None and settings.source is not None:
        path = catalogue_file(settings.source, environ)
    elif folder := (environ or {}).get(WORKERS_FOLDER):
        path = Path(folder) / "tools.db"
    else:
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(str(path), f"its folder cannot be made ({error.strerror or error})") from error
    return FileEntries(path.with_name(f"{path.name}.rates"))


def fill_address(settings: Settings, url: str, environ: Mapping[str, str] | None) -> str:
    """Return the address of a database with the variables in it replaced, which are quoted as in addresses.

    Raises:
        ConfigError: a variable is not set.
    """
    known = os.environ if environ is None else environ
    fill = Expansion({name: quote(value, safe="") for name, value in known.items()})
    filled = fill.text(url, path="/store")
    if fill.problems:
        raise ConfigError(settings.origin, tuple(fill.problems))
    return filled


def make_embedder(settings: SearchSettings) -> LocalEmbedder:
    """Make the embedder that the settings name, or the one in their folder.

    Raises:
        EmbeddingError: there is no such model, or what offers it is broken.
        MissingExtraError: what runs it is not installed.
    """
    folder = settings.folder()
    return load_embedder(settings.model) if folder is None else embedder_in(folder)


def can_do_without(settings: SearchSettings, error: EmbeddingError | MissingExtraError) -> bool:
    """Return whether the built-in embedder replaces one that failed.

    What is installed differs from machine to machine; a folder that is no model is a mistake.
    """
    wrong_folder = isinstance(error, EmbeddingError) and settings.folder() is not None
    return settings.searcher == "auto" and not wrong_folder


def choose_embedder(settings: SearchSettings, given: Embedder | None) -> Embedder | None:
    """Return the embedder of the program, or else of the settings; None if words alone are searched."""
    if given is not None or settings.searcher == "bm25":
        return given
    try:
        return make_embedder(settings)
    except (EmbeddingError, MissingExtraError) as error:
        if not can_do_without(settings, error):
            raise
        _LOG.warning("tools are found with the built-in model: %s", error)
        return load_embedder()


def make_searcher(embedder: Embedder | None, cache: Derived | None) -> Searcher:
    """Make a searcher by words, and by the embedder if there is one."""
    words = Bm25Searcher(cache=cache)
    return words if embedder is None else HybridSearcher(words, EmbeddingSearcher(embedder, cache=cache))


def make_middleware(settings: Settings) -> list[Middleware]:
    """Make the middleware of calls, the outermost first."""
    layers: list[Middleware] = []
    checks = make_checks(settings)
    default = _make_check(settings.results)
    if default is not None or any(checks.values()):
        layers.append(ResultGuard(checks, default))
    if settings.cache is not None:
        layers.append(Cache(ttl=settings.cache.ttl, max_entries=settings.cache.entries))
    if settings.retry is not None:
        layers.append(Retry(attempts=settings.retry.attempts))
    if settings.limits.concurrency is not None:
        layers.append(ConcurrencyLimit(settings.limits.concurrency))
    return layers


def make_checks(settings: Settings) -> dict[str, ResultCheck | None]:
    """Make the checks of results of the servers and APIs, by the labels of their backends."""
    kinds = (("mcp", settings.servers), ("provider", settings.openapi))
    return {
        f"{kind}:{name}": _make_check(settings.results if each.results is None else each.results)
        for kind, parts in kinds
        for name, each in parts.items()
    }


def _make_check(actions: ResultActions) -> ResultCheck | None:
    """Make the check of some results; None if nothing is looked for."""
    named = {name: action for name, action in actions if action is not None}
    if not named:
        return None
    from toolcrib.trust import ResultScan  # noqa: PLC0415 - few look for anything, and it takes a while to load

    return ResultScan(**named)


def open_audit(settings: Settings, environ: Mapping[str, str] | None = None) -> AuditFile | None:
    """Open the audit file; None if there is none.

    Raises:
        StoreError: the file cannot be appended to.
        ConfigError: the key that signs it cannot be used.
    """
    audit = settings.audit
    if audit is None:
        return None
    return AuditFile(
        Path(audit.path).expanduser(),
        required=audit.required,
        sign=_make_signer(environ) if audit.sign and settings.source else None,
        max_bytes=audit.max_bytes,
    )


def _make_signer(environ: Mapping[str, str] | None) -> Sign | None:
    try:
        return make_signer(audit_key(environ))
    except MissingExtraError as error:
        _LOG.info("the audit is not signed: %s", error)
        return None


def make_rules(settings: Settings, hooks: Hooks, validator: SchemaValidator) -> Rules | None:
    """Make the policy of the settings; None if they have no rules."""
    rules, issuers = settings.policy, issuers_of(settings)
    return Rules(rules, validator=validator, approve=hooks.approve, issuers=issuers) if rules else None


def issuers_of(settings: Settings) -> Issuers:
    """Return the issuers by which names in rules are resolved."""
    gateway = settings.gateway
    authority = None if gateway.auth is None else gateway.auth.issuer
    return Issuers(frozenset(gateway.tokens or ()), authority)


def must_write(audit: AuditFile | None) -> Sequence[Middleware]:
    """Make the policy that denies calls if the audit is required and cannot be written."""
    return () if audit is None or not audit.required else (audit,)


def make_observers(settings: Settings, audit: AuditFile | None) -> Sequence[Observer]:
    """Make the observers: OpenTelemetry if it is installed, and the audit if there is one."""
    observers: list[Observer] = [OpenTelemetry()] if available() else []
    if audit is not None and settings.audit is not None:
        observers.append(Audit(audit.write, include_args=settings.audit.arguments))
    return observers
