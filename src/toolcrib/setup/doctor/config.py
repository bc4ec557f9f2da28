"""Checks of a configuration that start no server."""

import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from toolcrib.crib.compose import can_do_without, make_embedder
from toolcrib.crib.config.gateway import is_loopback, token_of
from toolcrib.crib.config.sections import SERVER_KEYS, THEIRS
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.shaped import ShapedScope
from toolcrib.crib.visible import scope_of
from toolcrib.errors import (
    ConfigError,
    EmbeddingError,
    LockError,
    MissingExtraError,
    ServerUnavailableError,
)
from toolcrib.errors.base import count_noun
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.transport.process import INSTALLS
from toolcrib.execution.mcp.walls.advice import check_wall, is_contained
from toolcrib.execution.variables import has_variables
from toolcrib.model.suggest import did_you_mean
from toolcrib.setup.doctor.findings import Finding, error, good, hint, warning
from toolcrib.setup.installing.clients import is_toolcrib

_LEAST_TOKEN = 16
_MAX_KEYS = 100
"""Limit for unknown keys of a server that are checked."""
_NOT_IDENTIFIER = re.compile(r"\W")


def check_servers(settings: Settings) -> Iterator[Finding]:
    """Yield the problems between servers."""
    disabled = sorted(name for name, server in settings.servers.items() if server.disabled)
    if disabled:
        yield good("servers", f"switched off: {', '.join(disabled)}")
    if not settings.servers and not settings.openapi:
        remedy = "add one: toolcrib add NAME -- COMMAND, or toolcrib import CLIENT"
        yield warning(
            "servers", "there are no servers and no APIs", "there is nothing to find or run", remedy
        )
    yield from _propose_walls(settings)
    alike: dict[str, list[str]] = defaultdict(list)
    for name in [*settings.servers, *settings.openapi]:
        alike[_NOT_IDENTIFIER.sub("_", name).lower()].append(name)
    for names in alike.values():
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            why = "code reaches a namespace by one Python name, and people mistake one for the other"
            yield warning("servers", f"the names {listed} are nearly the same", why, "rename one of them")


def _propose_walls(settings: Settings) -> Iterator[Finding]:
    """Yield the servers with all rights of the user, and the walls that would confine them."""
    bare = sorted(
        name
        for name, server in settings.servers.items()
        if server.command and server.sandbox is None and not server.disabled and not is_contained(server)
    )
    if bare and sys.platform == "linux":
        message = f"servers without one, with all rights of this user: {', '.join(bare)}"
        first = "" if shutil.which("bwrap") else "apt install bubblewrap; "
        remedy = f"{first}sandbox = 'bubblewrap' for each, with what it may read, write and reach"
        yield hint("walls", message, remedy)


def check_lock(settings: Settings) -> Iterator[Finding]:
    """Yield whether the lock of approved tools can be read, where there is one."""
    path = settings.lock_file
    if path is None or not os.path.lexists(path):
        return
    from toolcrib.trust import Lock  # noqa: PLC0415 - loads the scan, and most have no lock

    try:
        lock = Lock.load(path)
    except LockError as failure:
        what = f"{path} cannot be read, so nothing that it governs is used"
        remedy = "restore it from version control, or rewrite it with `toolcrib lock --force`"
        yield error("lock", what, failure.reason, remedy)
        return
    blocked = f", {len(lock.blocked)} blocked" if lock.blocked else ""
    yield good("lock", f"{count_noun(len(lock.tools), 'approved tool')}{blocked}", file=str(path))


def check_server(
    name: str, server: ServerConfig, environ: Mapping[str, str], port: int | None = None
) -> Iterator[Finding]:
    """Yield the problems that keep one server from starting; `port` is that of our gateway."""
    subject = f"server {name!r}"
    yield from _check_keys(subject, server)
    if is_toolcrib(server, port):
        why = "it would start itself over and over"
        yield error(subject, "it is toolcrib itself", why, f"remove it: toolcrib remove {name}")
        return
    try:
        meant = server.expanded(environ)
    except ConfigError as failure:
        for problem in failure.problems:
            where = problem.path.strip("/").replace("/", ".")
            remedy = "set it where toolcrib is started, or give it a default"
            yield error(subject, f"{where}: {problem.message}", "it cannot be started like this", remedy)
        if not any(map(has_variables, (server.command or "", server.cwd or "", server.env.get("PATH", "")))):
            yield from _check_command(subject, server, environ)
        return
    if meant.cwd and not Path(meant.cwd).expanduser().is_dir():
        yield error(
            subject, f"its folder {meant.cwd!r} does not exist", "", "create the folder, or correct `cwd`"
        )
    failed = False
    for found in _check_command(subject, meant, environ):
        failed = True
        yield found
    if meant.sandbox is not None and not failed:
        yield from _check_wall(name, meant)


def _check_wall(name: str, server: ServerConfig) -> Iterator[Finding]:
    """Yield why the wall of a server cannot be set up, and the paths that the server cannot read."""
    subject = f"server {name!r}"
    try:
        hidden = check_wall(name, server)
    except ServerUnavailableError as failure:
        yield error(subject, failure.reason, f"it does not start without its sandbox, {server.sandbox!r}")
        return
    if hidden:
        why = "its settings name that, but its sandbox hides it"
        yield warning(subject, f"it does not see {', '.join(hidden)}", why, "name it in `read` or `write`")


def _check_keys(subject: str, server: ServerConfig) -> Iterator[Finding]:
    for key in sorted((server.model_extra or {}).keys() - THEIRS)[:_MAX_KEYS]:
        hint = did_you_mean(key, SERVER_KEYS)
        if hint:
            yield warning(
                subject, f"the key {key!r} is not read{hint}", "it resembles a known key", "correct it"
            )


def _check_command(subject: str, server: ServerConfig, environ: Mapping[str, str]) -> Iterator[Finding]:
    if server.command is None:
        return
    command = server.command
    path = server.env.get("PATH") or environ.get("PATH")
    base = Path(server.cwd).expanduser() if server.cwd else None
    is_path = "/" in command or "\\" in command
    if is_path and base and not Path(command).expanduser().is_absolute():
        command = str(base / command)
    if shutil.which(str(Path(command).expanduser()) if is_path else command, path=path) is not None:
        return
    if is_path:
        there = Path(command).expanduser().exists()
        what = f"{command!r} is {'there, and cannot be run' if there else 'not there'}"
        yield error(subject, what, "", "chmod +x it" if there else "correct `command`, or install it")
        return
    if " " in command:
        yield error(
            subject,
            f"there is no program {command!r}",
            "a command is one program; what follows it belongs in `args`",
            "write the first word as `command` and the rest as `args`",
        )
        return
    remedy = INSTALLS.get(command, "install it, or write its full path")
    known = command in INSTALLS
    hint = "" if known else did_you_mean(command, [*INSTALLS, *_similar_programs(command, path)])
    yield error(subject, f"there is no program {command!r} on the PATH{hint}", "it cannot be started", remedy)


def _similar_programs(command: str, path: str | None) -> Iterator[str]:
    """Yield programs on the PATH that begin like one that is not there."""
    for folder in (path or "").split(os.pathsep)[:50]:
        try:
            yield from (each.name for each in Path(folder).glob(f"{re.escape(command[:1])}*"))
        except (OSError, ValueError):
            continue


def check_extras(settings: Settings) -> Iterator[Finding]:
    """Yield the extras that a configuration needs and that are not installed."""
    active = any(not server.disabled for server in settings.servers.values())
    yaml = any(not api.document.endswith(".json") for api in settings.openapi.values())
    wanted = [
        ("mcp", "servers", ("mcp",) if active else ()),
        ("openapi", "APIs", (*(("httpx",) if settings.openapi else ()), *(("yaml",) if yaml else ()))),
        ("code", "code", ("pydantic_monty",) if settings.gateway.code else ()),
        ("cli", "gateway", ("uvicorn", "prometheus_client")),
    ]
    for extra, subject, modules in wanted:
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            report = error if extra in {"mcp", "openapi"} else warning
            why = f"{', '.join(missing)} cannot be imported"
            yield report(
                subject, f"the extra {extra!r} is not installed", why, f"pip install 'toolcrib[{extra}]'"
            )


def check_search(settings: Settings) -> Iterator[Finding]:
    """Yield why tools are not found with the model that a configuration asks for."""
    search = settings.search
    try:
        if search.searcher != "bm25":
            make_embedder(search)
    except (EmbeddingError, MissingExtraError) as failure:
        remedy = "install it, or correct search.model"
        if isinstance(failure, MissingExtraError):
            remedy = f"pip install 'toolcrib[{failure.extra}]'"
        report = warning if can_do_without(search, failure) else error
        yield report("search", f"the model {search.model!r} cannot be used", str(failure), remedy)


def check_gateway(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the unsafe settings of the gateway."""
    gateway = settings.gateway
    token = ""
    try:
        token = token_of(gateway, settings.origin, environ) or ""
    except ConfigError as failure:
        for problem in failure.problems:
            yield error("gateway", f"token: {problem.message}", "it would not start", "correct gateway.token")
    if closed := gateway.closed_reason():
        yield warning("gateway", "nobody can call it over HTTP", closed, gateway.opening_remedy)
    if not is_loopback(gateway.host) and not gateway.asks_for_token:
        why = f"it listens on {gateway.host!r}, which others can reach, and would not start"
        yield error("gateway", "there is no token", why, "set gateway.token = '${TOOLCRIB_TOKEN}'")
    for name in gateway.allowed_hosts:
        if "://" in name or set("/*") & set(name):
            why = "names are compared as they are, so requests would be refused"
            remedy = "write only the names, such as 'crib.example.com'"
            yield error("gateway", f"allowed_hosts has {name!r}, which is not a host name", why, remedy)
    if 0 < len(token) < _LEAST_TOKEN:
        why = f"it has {len(token)} characters, and can be guessed"
        yield warning("gateway", "the token is short", why, "make one: openssl rand -hex 32")
    if gateway.token and not has_variables(gateway.token) and _others_read(settings.source):
        why = f"others on this machine can read {settings.source}"
        yield warning("gateway", "the token is in plain sight", why, f"chmod 600 {settings.source}")
    if any(origin.rstrip("/") == "*" for origin in gateway.allowed_origins):
        why = "any web page could then call the tools of this machine"
        yield warning("gateway", "allowed_origins lets everything in", why, "name those that may call")


def _others_read(source: str | None) -> bool:
    try:
        return source is not None and bool(Path(source).stat().st_mode & 0o044)
    except OSError:
        return False


def check_toolset_names(settings: Settings) -> Iterator[Finding]:
    """Yield the toolsets that speak of namespaces which nothing has."""
    known = {*settings.servers, *settings.openapi}
    for name, toolset in settings.toolsets.items():
        named = [
            *(toolset.namespaces or ()),
            *(each.partition(":")[0] for each in toolset.ids or () if ":" in each),
        ]
        for namespace in dict.fromkeys(named):
            if namespace not in known:
                hint = did_you_mean(namespace, known)
                why = "no server or API has that name; only tools that a program adds could be in it"
                what = f"there is no namespace {namespace!r}{hint}"
                yield warning(f"toolset {name!r}", what, why, "correct the name, or add the server")


def check_shape_names(settings: Settings, ids: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield the tools that share a name in a toolset with another, as far as no server need be started.

    They are looked for among `ids`, the tools that the lock has, and those that the toolset itself names.
    """
    known = [*ids, *_locked_ids(settings)]
    for name, toolset in settings.toolsets.items():
        scope = scope_of(name, settings)
        if isinstance(scope, ShapedScope):
            listed = filter(scope.may_admit, [*known, *(toolset.ids or ()), *toolset.tools])
            for reason in dict.fromkeys(scope.find_collisions(listed).values()):
                what = "two of its tools have one name, and are left out"
                yield warning(
                    f"toolset {name!r}", what, reason, "give one another name with 'toolcrib shape'"
                )


def _locked_ids(settings: Settings) -> Iterable[str]:
    path = settings.lock_file
    if (
        path is None
        or not os.path.lexists(path)
        or not any(each.tools for each in settings.toolsets.values())
    ):
        return ()
    from toolcrib.trust import Lock  # noqa: PLC0415 - as in `check_lock`

    try:
        return tuple(Lock.load(path).tools)
    except LockError:  # `check_lock` reports it
        return ()
