"""Find problems, with their causes and advice."""

import os
import platform
import re
import shlex
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import anyio
from anyio import to_thread

from toolcrib.crib.compose import fill_address, open_store
from toolcrib.crib.config.files import Config, load
from toolcrib.crib.config.settings import MEMORY, Settings
from toolcrib.crib.durable import engine_address, runs_address
from toolcrib.crib.shaped import ShapedScope, ShapedTools, find_unused
from toolcrib.crib.visible import scope_of
from toolcrib.discovery import Bm25Searcher, Index
from toolcrib.errors import (
    ConfigError,
    EngineUnavailableError,
    ServerUnavailableError,
    StoreError,
    ToolcribError,
)
from toolcrib.errors.base import count_noun
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.model import DefaultValidator, Tool
from toolcrib.paths import catalogue_file, data_folder
from toolcrib.postgres import is_postgres, is_private, public_address
from toolcrib.redaction import hide_secrets, secrets_in
from toolcrib.runs.temporal import TemporalEngine
from toolcrib.runtime.registry import backends
from toolcrib.setup.doctor.config import (
    check_extras,
    check_gateway,
    check_lock,
    check_search,
    check_server,
    check_servers,
    check_shape_names,
    check_toolset_names,
)
from toolcrib.setup.doctor.findings import Diagnosis, Finding, error, good, warning
from toolcrib.setup.doctor.probe import Probe, probe, probe_apis
from toolcrib.setup.inventory import Package, find_package

_TAIL = 4 * 2**20
"""Bytes at the end of an audit file that are searched."""
_LOST = re.compile(rb'^\{"time":"([0-9T:.Z-]+)","lost":(\d+)\}$', re.MULTILINE)
_ADDRESS = re.compile(r"https?://\S+")
_ROOM = 2**20
"""Free bytes that an audit needs."""
_AT_ONCE = 8
"""Limit for servers that are started concurrently."""
_SHOWN = 5
_OnServer = Callable[[str], None]
_TELL = "report it to the author of the server; the other tools work"
_BY_HAND = "start it by hand to see what it"
_REMEDIES = (
    ("certificate", "install the certificate of its authority (SSL_CERT_FILE), or correct the address"),
    ("needs a login", "log in, with the command that it names; --device is for machines without a browser"),
    ("log in again", "log in, with the command that it names; --device is for machines without a browser"),
    ("sealed with another key", "set TOOLCRIB_VAULT_KEY to the key of the vault, or move it away and log in"),
    ("(answered|http) 401", 'give it a token: in `headers`, Authorization is "Bearer ${TOKEN}"'),
    ("(answered|http) 403", "the token may not do this; give it another"),
    ("(answered|http) 404", "the address is wrong; most end in /mcp"),
    ("refused", "start it, or correct the address"),
    ("nothing listens", "start it, or correct the address"),
    ("name or service", "correct the address, or check your network"),
    ("document", "correct the path or the document"),
    (
        "not mcp",
        "correct `command`: it is not an MCP server, or it logs to standard output instead of standard error",
    ),
    ("within", f"give it more time with `start_timeout`, or {_BY_HAND} waits for"),
)
_LOCK_TIME = 1.0


async def diagnose(
    config: Config = None,
    *,
    environ: Mapping[str, str] | None = None,
    offline: bool = False,
    limit: float | None = None,
    slow: float = 10.0,
    on_server: _OnServer | None = None,
) -> Diagnosis:
    """Check a configuration and this machine, and return the findings.

    Args:
        config: as for a crib; its problems are reported, not raised.
        environ: where variables are looked up, instead of the process's environment.
        offline: whether to check without starting or contacting any server.
        limit: the seconds that each server may take; None leaves it to its `start_timeout`.
        slow: the seconds after which a slow start gets a warning.
        on_server: called with the name of each server that has answered or failed.
    """
    known = os.environ if environ is None else environ
    findings = list(check_python())
    try:
        settings = load(config)
    except ConfigError as failure:
        findings += [_broken(failure, str(problem)) for problem in failure.problems]
        findings += await _run_blocking_checks(lambda: check_folder(known))
        return Diagnosis.of(findings)
    findings.append(good("configuration", f"{settings.source or 'no file'}: {_count_sources(settings)}"))
    port = settings.gateway.port
    faulty = {
        name: list(check_server(name, each, known, port)) for name, each in _enabled_servers(settings).items()
    }
    findings += [finding for each in faulty.values() for finding in each]
    findings += await _run_blocking_checks(lambda: _at_rest(settings, known))
    apis = await probe_apis(settings, known)
    findings += [found for each in apis for found in _judge_probe(each, f"API {each.name!r}", None, slow)]
    if offline:
        ids = [str(tool.id) for each in apis for tool in each.tools]
        findings += await _run_blocking_checks(lambda: check_shape_names(settings, ids))
    else:
        startable = [
            name for name, found in faulty.items() if all(each.severity != "error" for each in found)
        ]
        probes = await _probe_all(settings, startable, known, limit, on_server)
        findings += [
            found
            for each in probes
            for found in _judge_probe(each, f"server {each.name!r}", settings.servers[each.name], slow)
        ]
        if settings.engine is not None:
            findings.append(await _check_engine(settings, settings.engine.temporal, known))
        findings += await _run_blocking_checks(lambda: _check_tools(settings, [*probes, *apis]))
    return Diagnosis.of(findings)


def _enabled_servers(settings: Settings) -> dict[str, ServerConfig]:
    return {name: server for name, server in settings.servers.items() if not server.disabled}


def _count_sources(settings: Settings) -> str:
    servers, apis = len(settings.servers), len(settings.openapi)
    message = count_noun(servers, "server")
    return f"{message}, {count_noun(apis, 'API')}" if apis else message


def _broken(failure: ConfigError, text: str) -> Finding:
    remedy = "correct it there" if "did you mean" not in text else "write what was meant"
    return error("configuration", text, f"in {failure.source}", remedy)


async def _run_blocking_checks(checks: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Run the checks that read files and start programs, in a worker thread."""
    return await to_thread.run_sync(lambda: list(checks()))


def _at_rest(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    yield from check_servers(settings)
    yield from check_extras(settings)
    yield from check_search(settings)
    yield from check_gateway(settings, environ)
    yield from check_toolset_names(settings)
    yield from check_lock(settings)
    yield from check_folder(environ)
    yield from check_catalogue(settings, environ)
    yield from check_audit(settings)
    yield from check_sandboxes(settings)


async def _probe_all(
    settings: Settings,
    names: Iterable[str],
    environ: Mapping[str, str],
    limit: float | None,
    on_server: _OnServer | None,
) -> list[Probe]:
    """Probe the servers, a few concurrently."""
    probes: dict[str, Probe] = {}
    free = anyio.CapacityLimiter(_AT_ONCE)

    async def ask(name: str) -> None:
        async with free:
            probes[name] = await probe(name, settings.started_servers[name], environ=environ, limit=limit)
        if on_server is not None:
            on_server(name)

    names = list(names)
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(ask, name)
    return [probes[name] for name in names]


def _judge_probe(found: Probe, subject: str, server: ServerConfig | None, slow: float) -> Iterator[Finding]:
    """Yield the findings of the probe of one server or API."""
    if found.error is not None:
        reason = found.error.reason if isinstance(found.error, ServerUnavailableError) else str(found.error)
        advice = found.error.advice if isinstance(found.error, ServerUnavailableError) else ""
        remedy = _suggest_remedy(reason, found.stderr, advice, server)
        yield error(subject, "it does not work", reason, remedy, stderr=found.stderr)
        return
    count = len(found.tools)
    yield good(subject, f"{count_noun(count, 'tool')} in {found.seconds:.1f} s", tools=count)
    if not found.tools:
        why = "it answered, and listed none"
        yield warning(subject, "it has no tools", why, "look at its settings, or remove it")
    if found.seconds > slow:
        why = f"it took {found.seconds:.1f} s to start and to list its tools"
        is_fetched = _find_package(server) is not None
        remedy = (
            "install it beforehand, so that nothing is downloaded when it starts"
            if is_fetched
            else "the machine is busy, or the server is slow to start; `start_timeout` gives it more time"
        )
        yield warning(subject, "it is slow to start", why, remedy)
    if found.refused:
        listed = [f"{name}: {reason}" for name, reason in found.refused.items()]
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        yield warning(subject, "some of its tools cannot be used", "; ".join(listed[:_SHOWN]) + more, _TELL)


def _suggest_remedy(reason: str, stderr: str, advice: str, server: ServerConfig | None) -> str:
    """Return what to do about a failure: the advice that it came with, or one for the words of its reason."""
    package = _find_package(server)
    if package is not None and package.kind == "npm" and "ERR_MODULE_NOT_FOUND" in stderr:
        return "delete ~/.npm/_npx, where npx keeps what it downloads, which is incomplete; then try again"
    lowered = _ADDRESS.sub("", reason).lower()
    fitting = (remedy for sign, remedy in _REMEDIES if re.search(sign, lowered))
    remedy = f"{advice}; or {_BY_HAND} says" if advice else next(fitting, f"{_BY_HAND} says")
    if _BY_HAND not in remedy or server is None or server.command is None:
        return remedy
    return f"{remedy}: {_show_command(server.command, server.args)}"


def _find_package(server: ServerConfig | None) -> Package | None:
    """Return the package that is fetched to start a server; None if there is none."""
    if server is None or server.command is None:
        return None
    return find_package(server.command, server.args)


def _show_command(command: str, args: Iterable[str]) -> str:
    """Return a command line as a shell takes it, without secrets.

    >>> _show_command("npx", ["-y", "notes", "--api-key", "abc", "--token=s3cret", "my notes"])
    "npx -y notes --api-key '[secret]' '--token=[secret]' 'my notes'"
    """
    words = [command, *args]
    secrets = frozenset(secrets_in({"args": words}))
    shown = []
    for word in words:
        flag, sign, value = word.partition("=")
        hidden = f"{flag}=[secret]" if sign and value in secrets else hide_secrets(word)
        shown.append("[secret]" if word in secrets else hidden)
    return shlex.join(shown)


def _check_tools(settings: Settings, probes: Iterable[Probe]) -> Iterator[Finding]:
    """Yield the tools that a catalogue refuses, and the toolsets that have none."""
    index = Index()
    complete = True
    for found in probes:
        complete = complete and found.error is None
        for tool in found.tools:
            refusal = _refusal(index, tool)
            if refusal:
                why = f"{tool.name}: {refusal}"
                yield warning(f"server {found.name!r}", "one of its tools cannot be used", why, _TELL)
    if not complete:
        return  # what is missing may be in what did not answer
    for name, toolset in settings.toolsets.items():
        scope = scope_of(name, settings)
        members = index.view(scope_of(toolset.replace(tools={}), settings))
        for reason in find_unused(toolset.tools, index, members).values():
            what = "a shape has no effect"
            yield warning(
                f"toolset {name!r}", what, reason, "correct the id, or use 'toolcrib shape --remove'"
            )
        if isinstance(scope, ShapedScope):
            shaped = ShapedTools(index, scope, Index(Bm25Searcher()), DefaultValidator())
            for tool_id, reason in shaped.faults().items():
                what = f"{tool_id} is left out because a shape does not fit its tool"
                yield warning(f"toolset {name!r}", what, reason, "correct it with 'toolcrib shape'")
        if not len(index.view(scope)):
            why = "a tool must meet all its conditions"
            yield warning(
                f"toolset {name!r}", "it has no tools", why, "use fewer conditions, or correct the names"
            )


def _refusal(index: Index, tool: Tool) -> str | None:
    try:
        index.register(tool, tool.backend)
    except ToolcribError as failure:
        return str(failure)
    return None


def check_python() -> Iterator[Finding]:
    """Yield the finding about this Python."""
    implementation = platform.python_implementation()
    yield good("python", f"{implementation} {platform.python_version()} at {sys.executable}")
    if sys.platform == "linux":
        found = shutil.which("bwrap")
        message = f"bubblewrap at {found}" if found else "bubblewrap is not installed"
        yield good("machine", f"{platform.system()} {platform.machine()}, {message}")


def check_sandboxes(settings: Settings) -> Iterator[Finding]:
    """Yield the available sandboxes, and an error if the configured one is not among them."""
    known = backends()
    there = sorted(kind for kind, info in known.items() if info.details.get("available"))
    yield good("code", f"sandboxes that can run here: {', '.join(there) or 'none'}", available=there)
    for kind in sorted(known.keys() - set(there)):
        yield good("code", f"to have {kind!r} too: {known[kind].details.get('remedy', 'it gives no reason')}")
    wanted = settings.code.backend
    if wanted in there or not settings.gateway.code:
        return
    info = known.get(wanted)
    remedy = str(info.details.get("remedy", "")) if info else f"choose one of {', '.join(sorted(known))}"
    report = warning if info else error
    why = "code cannot run unless another sandbox is requested"
    yield report("code", f"the sandbox {wanted!r} cannot run here", why, remedy)


def check_folder(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about the folder for persistent state: usable, and private."""
    try:
        folder = data_folder(environ)
    except ToolcribError as failure:
        yield error("data", "there is no folder for persistent state", str(failure), "set TOOLCRIB_HOME")
        return
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        yield from _check_writable("data", folder)
        return
    except OSError as failure:
        yield error("data", f"{folder} cannot be read", str(failure.strerror), "set TOOLCRIB_HOME")
        return
    if not stat.S_ISDIR(mode):
        yield error(
            "data", f"{folder} is not a folder", "nothing can be stored", "move it, or set TOOLCRIB_HOME"
        )
    elif sys.platform != "win32" and mode & 0o022:
        why = "others who change the catalogue decide which tools appear to exist"
        yield warning("data", f"others may write to {folder}", why, f"chmod go-w {folder}")
    else:
        yield from _check_writable("data", folder)


def check_catalogue(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the file or the database of the catalogue can be read and written."""
    if settings.store is not None and is_postgres(settings.store):
        yield from _check_postgres(settings, settings.store, environ)
        return
    if settings.store == MEMORY or (settings.store is None and settings.source is None):
        yield good("catalogue", "it is not stored between runs")
        return
    try:
        path = Path(settings.store) if settings.store else catalogue_file(str(settings.source), environ)
    except ToolcribError:
        return  # the folder's own check reports it
    if path.is_dir():
        yield error("catalogue", f"{path} is a folder", "a catalogue is one file", "correct `store`")
    elif not path.exists():
        yield from _check_writable("catalogue", path.parent)
        yield good("catalogue", "nothing is stored yet", file=str(path))
    else:
        yield _check_database(path)


async def _check_engine(settings: Settings, address: str, environ: Mapping[str, str]) -> Finding:
    try:
        await TemporalEngine.connect(engine_address(settings, environ))
    except ToolcribError as failure:
        reason = failure.reason if isinstance(failure, EngineUnavailableError) else str(failure)
        what = f"Temporal at {address} cannot be used"
        return error("runs", what, reason, "correct `engine`, or start the server")
    return good("runs", f"they are executed by Temporal at {address}")


def _check_postgres(settings: Settings, url: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    name = public_address(url)
    try:
        store = open_store(settings, environ)
    except ToolcribError as failure:
        reason = failure.reason if isinstance(failure, StoreError) else str(failure)
        yield error("catalogue", f"{name} cannot be used", reason, "correct `store`, or start the database")
        return
    if store is not None:
        with store:
            yield good("catalogue", f"it is stored in {name}")
    if not is_private(fill_address(settings, url, environ)):
        why = "anybody in between can read and change the traffic"
        remedy = "add ?sslmode=verify-full to its address, and sslrootcert=FILE or =system"
        yield warning("catalogue", f"the certificate of {name} is not verified", why, remedy)
    if runs_address(settings) is not None and settings.runs.key is None:
        why = "durable runs in the database are signed with a key that only this machine has"
        remedy = "set `runs.key` to the same ${VARIABLE} on all machines"
        yield warning("catalogue", "no other machine can resume the runs of this one", why, remedy)


def _check_database(path: Path) -> Finding:
    if not os.access(path, os.W_OK | os.R_OK):
        return error("catalogue", f"{path} cannot be written", "nothing can be stored", f"chmod u+rw {path}")
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_TIME, isolation_level=None)) as database:
            verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                return _corrupt(path, verdict)
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as failure:
        why = f"{failure}; another process holds it"
        remedy = "wait for the other process, or end it"
        return warning("catalogue", f"{path} is locked", why, remedy)
    except sqlite3.DatabaseError as failure:
        return _corrupt(path, str(failure))
    return good("catalogue", f"{path.stat().st_size:,} bytes are stored", file=str(path))


def _corrupt(path: Path, why: str) -> Finding:
    remedy = f"delete it; it will be recreated: rm {path}"
    return error("catalogue", f"{path} is corrupt", why, remedy)


def check_audit(settings: Settings) -> Iterator[Finding]:
    """Yield a problem if the configured audit file cannot be written."""
    if settings.audit is None:
        return
    path = Path(settings.audit.path)
    if path.is_dir():
        yield error("audit", f"{path} is a folder", "calls are written into a file", "correct `audit.path`")
    elif path.exists() and not os.access(path, os.W_OK):
        yield error("audit", f"{path} cannot be written", "no call would be recorded", f"chmod u+w {path}")
    elif path.is_fifo() and not _is_read(path):
        yield error("audit", f"nobody reads {path}", "no call would be recorded", "start its reader first")
    else:
        yield from _check_writable("audit", path.parent)
        yield from _check_lost_calls(path)


def _is_read(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _check_lost_calls(path: Path) -> Iterator[Finding]:
    """Yield findings about calls that an audit file has lost, and about free space."""
    if path.is_file():
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            found = [(moment.decode(), int(lost)) for moment, lost in _LOST.findall(file.read())]
        if found:
            text = f"{sum(lost for _, lost in found)} calls are missing in {path}"
            why = f"they could not be written, the last of them before {found[-1][0]}"
            yield warning("audit", text, why, "check the disk, or set audit.required to refuse calls instead")
    if path.parent.is_dir() and shutil.disk_usage(path.parent).free < _ROOM:
        yield error("audit", f"the disk of {path} is full", "calls are not recorded", "free some space on it")


def _check_writable(subject: str, folder: Path) -> Iterator[Finding]:
    """Yield an error if files cannot be created in a folder, which need not exist yet."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield error(
            subject, f"{folder} cannot be made", f"{there} is not a folder", "move it, or choose another"
        )
    elif not os.access(there, os.W_OK | os.X_OK):
        yield error(
            subject,
            f"{folder} cannot be written",
            f"this user may not write to {there}",
            f"chmod u+wx {there}",
        )
