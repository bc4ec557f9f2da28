"""The verb that serves all tools to MCP clients: `serve`."""

import gc
import json
import logging
import os
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from toolcrib.cli.browser import open_in_browser
from toolcrib.cli.resident.address import Address, ask
from toolcrib.cli.screen import clean, note
from toolcrib.cli.state import State, common, shared, this_command, wait_for
from toolcrib.errors import ToolcribError
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import GatewaySettings
    from toolcrib.gateway import Gateway
    from toolcrib.gateway.workers.supervisor import Worker

_LEVELS = ("debug", "info", "warning", "error")
_STDIO = """\
toolcrib serves MCP on standard input and output, for a client that starts it:
  claude mcp add toolcrib -- {program} serve{more}
For clients that connect: {here} serve --transport http. Ctrl-C stops it."""

_CONSOLE_SEES = """\
It shows the calls of clients that connect to {url}, not of those that start toolcrib over stdio."""
_CONSOLE_PORT = 8808

_DEMO_WAIT = 10.0
_NAMED = 5
"""Servers that are named while their tools are still being listed, at most."""
_FURTHER = "for another name, such as that of a proxy or a container's host, set gateway.allowed_hosts"


@click.command()
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="The transport.",
)
@click.option(
    "--host", metavar="ADDRESS", help="Address to listen on; by default the configuration's, else 127.0.0.1."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port that HTTP listens on; by default the configuration's, else 8808; 0 for any free one.",
)
@click.option(
    "--expose",
    type=click.Choice(["meta", "auto", "all"]),
    help="The tools that clients see: the meta-tools (meta), the tools themselves (all), or the tools "
    "themselves if there are few of them, else the meta-tools (auto); by default the configuration's, else "
    "meta. Over HTTP, meta and all always have addresses of their own.",
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="The log level."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    metavar="N",
    help="The number of processes that share the port; one that exits is restarted.",
)
@click.option("--open", "opens", is_flag=True, help="Open the console in the browser, if it is served.")
@shared
@click.pass_obj
def serve(  # noqa: PLR0913, PLR0917 - each is an option of the command
    state: State,
    transport: str,
    host: str | None,
    port: int | None,
    expose: str | None,
    log_level: str,
    workers: int,
    opens: bool,  # noqa: FBT001 - click gives it by name
) -> None:
    """Serve all tools to MCP clients at one endpoint.

    Over stdio, it serves the one client that starts it; standard output carries only the protocol, and
    everything else goes to standard error. Over HTTP it serves any number of clients at /mcp, and each
    toolset of the configuration at /mcp/NAME, with /health, /ready and /metrics beside them. Below /mcp and
    each /mcp/NAME, /all lists the tools themselves, and /meta the tools that find and run them. Another
    toolcrib gateway always gets the tools themselves.

    With --json, one line of JSON gives its address once it is ready: on standard output, or, over stdio, on
    standard error.

    With --workers N, N processes share the port, each with its own servers. The first also serves the
    console, and runs the commands that use this gateway. On SIGHUP, all of them read the configuration again.

    Example: toolcrib serve --transport http --port 8808
    """
    if transport == "stdio" and not (host is None and port is None):
        raise click.UsageError("--host and --port are for --transport http; stdio does not listen on a port")
    if transport == "http" and state.toolset is not None:
        raise click.UsageError(
            f"--toolset is for stdio; over HTTP that toolset is served at /mcp/{state.toolset}"
        )
    if not state.debug:
        logging.getLogger().setLevel(log_level.upper())
    source = state.source()
    place = {"host": host, "port": port}
    if workers > 1 and transport == "stdio":
        raise click.UsageError("--workers is for --transport http; over stdio one process serves one client")
    if workers > 1 and state.demo:
        raise click.UsageError("--workers is not for --demo, which makes its calls in one process")
    worker = _start_workers(source, place, workers) if workers > 1 else None
    wait_for(lambda: _serve(state, source, transport, place, expose, opens=opens, worker=worker))


def _start_workers(source: str | None, place: Mapping[str, Any], count: int) -> "Worker":
    """Bind the address and fork the workers; return in each of them."""
    if not hasattr(os, "fork"):
        raise click.UsageError("--workers needs a system that can fork, which Windows cannot")
    # All that workers load is loaded before they are forked, so that they share its memory.
    from toolcrib.crib import load  # noqa: PLC0415 - heavy, and not needed to ask for help
    from toolcrib.gateway import Gateway  # noqa: F401, PLC0415
    from toolcrib.gateway.app.server import listen  # noqa: PLC0415
    from toolcrib.gateway.workers.supervisor import run_workers  # noqa: PLC0415

    settings = load(source)
    host = settings.gateway.host if place["host"] is None else place["host"]
    port = settings.gateway.port if place["port"] is None else place["port"]
    return run_workers(count, listen(host, port, settings.origin))


@click.command()
@click.option("--no-open", is_flag=True, help="Only print the address.")
@common
@click.pass_obj
def console(state: State, no_open: bool) -> None:  # noqa: FBT001 - click gives it by name
    """Open the console in the browser.

    The running gateway of this configuration serves it (`toolcrib serve --transport http`). If none is
    running, one is started here; Ctrl-C stops it. The printed address logs one browser in, and works only
    once.

    Example: toolcrib console
    """
    source = state.source()
    known = None
    if hasattr(socket, "AF_UNIX"):
        with suppress(ToolcribError):  # a process without a home has no such folder
            known = ask(Address(source, demo=state.demo), wait=0, console=True)
    link = None if known is None else known.get("console")
    if known is not None and link is None and known["startedBy"] == "serve":
        reason = "set enabled = true below [console] in its configuration, or serve it with --open"
        raise click.UsageError(f"the running gateway (process {known['pid']}) shows no console: {reason}")
    if link is None:
        place = {"host": "127.0.0.1", "port": _find_free_port(_CONSOLE_PORT)}
        wait_for(lambda: _serve(state, source, "http", place, None, opens=not no_open, console=True))
    elif state.json:
        click.echo(json.dumps({"console": link}))
    else:
        click.echo(link)
        if not no_open:
            open_in_browser(link)


def _find_free_port(wanted: int) -> int:
    """Return a port of this machine if it is free, otherwise 0, which stands for any that is."""
    with socket.socket() as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted


async def _serve(  # noqa: PLR0913 - the options of a command
    state: State,
    source: str | None,
    transport: str,
    place: dict[str, Any],
    expose: Any,
    *,
    opens: bool,
    console: bool = False,
    worker: "Worker | None" = None,
) -> None:
    from toolcrib.cli.memory import memory_upkeep  # noqa: PLC0415 - heavy, and not needed to ask for help
    from toolcrib.gateway import Gateway  # noqa: PLC0415

    is_first = worker is None or worker.number == 0
    shared_at = _find_address(state, source) if transport == "http" and is_first else None
    wanted = True if console or opens or state.demo else None  # else the configuration says it
    async with AsyncExitStack() as stack:
        config: Any = source
        if state.demo and source is None:
            from tempfile import TemporaryDirectory  # noqa: PLC0415 - only where it is asked for

            from toolcrib.setup.demo import DEMO, write_demo_config  # noqa: PLC0415 - the same

            config = DEMO
            if transport == "http":
                folder = stack.enter_context(TemporaryDirectory(prefix="toolcrib-demo-"))
                config = write_demo_config(Path(folder))
        gateway = Gateway(config, expose=expose, console=wanted, worker=worker)
        await stack.enter_async_context(memory_upkeep())
        chosen = None if transport == "stdio" else place
        await _serve_with(state, gateway, source, chosen, shared_at, opens=opens, console=console)


async def _serve_with(  # noqa: PLR0913 - the options of a command
    state: State,
    gateway: "Gateway",
    source: str | None,
    place: dict[str, Any] | None,
    shared_at: tuple[Address, str] | None,
    *,
    opens: bool,
    console: bool,
) -> None:
    """Serve over HTTP at a place, or over stdio where there is none."""
    async with state.enter(gateway.crib, gateway):
        gc.freeze()  # what was loaded until now stays, and need not be looked through again and again
        if not gateway.crib.status() and not len(gateway.crib.index):
            adding = f"`{this_command()} add` adds a server"
            note(f"it serves 0 tools; {adding}, and --demo a catalogue to try it with")
        if place is None:
            if state.json:
                _print_json(gateway, {"transport": "stdio"})
            elif sys.stdin.isatty():
                here, program = this_command(), this_command(absolute=True)
                text = _STDIO.format(here=here, program=program, more=_absolute_options(state, source))
                click.echo(clean(text), err=True)
            await gateway.serve_stdio(state.toolset)
        else:
            if state.demo and source is None:
                await gateway.crib.ready(_DEMO_WAIT)
                await gateway.crib.trust.lock(by="demo")  # so that a tool that changes has to be approved
            async with _accept_commands(gateway, shared_at), _playing(state, gateway):
                show = partial(_show_addresses, state, gateway, opens=opens, console=console)
                worker = None if gateway.links is None else gateway.links.worker
                is_shown = worker is None or (worker.number == 0 and worker.is_first_start)
                await gateway.serve_http(**place, on_ready=show if is_shown else None)


@asynccontextmanager
async def _playing(state: State, gateway: "Gateway") -> AsyncIterator[None]:
    """Have the demonstration make its calls meanwhile."""
    if not state.demo:
        yield
        return
    import anyio  # noqa: PLC0415 - heavy, as above

    from toolcrib.setup.demo import play_demo  # noqa: PLC0415 - only where it is asked for

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play_demo, gateway.crib, gateway.approvals.ask)
        yield
        tasks.cancel_scope.cancel()


def _find_address(state: State, source: str | None) -> tuple[Address, str] | None:
    """Return the address for commands and the digest of the configuration; None if they cannot use it."""
    if state.no_daemon or not hasattr(socket, "AF_UNIX"):
        return None
    try:
        address = Address(source, demo=state.demo)
        return address, address.digest()
    except (OSError, ToolcribError):  # the gateway says what is wrong with its configuration
        return None


@asynccontextmanager
async def _accept_commands(gateway: "Gateway", place: tuple[Address, str] | None) -> AsyncIterator[None]:
    """Run the commands of this user in the gateway, unless another gateway does."""
    async with AsyncExitStack() as stack:
        if place is not None:
            from toolcrib.cli.resident.server import AlreadyRunningError, resident  # noqa: PLC0415 - heavy

            with suppress(AlreadyRunningError, OSError):
                await stack.enter_async_context(resident(gateway, *place, "serve"))
        yield


def _absolute_options(state: State, source: str | None) -> str:
    """Return the options that serve the same from any other folder."""
    config = "" if source is None else f" --config {shlex.quote(str(Path(source).expanduser().absolute()))}"
    toolset = "" if state.toolset is None else f" --toolset {shlex.quote(state.toolset)}"
    return f"{config}{toolset}{' --demo' if state.demo else ''}"


def _show_addresses(state: State, gateway: "Gateway", url: str, *, opens: bool, console: bool) -> None:
    """Print the addresses, and open the console if that is wanted."""
    link = gateway.make_console_link()
    if console and link is not None and not state.json:
        lines = (
            _headline(gateway, f"{url}/mcp"),
            "The console, at an address that opens it once:",
            f"  {link}",
            _CONSOLE_SEES.format(url=f"{url}/mcp"),
            "Ctrl-C stops it.",
        )
        click.echo(clean("\n".join(lines)), err=True)
    else:
        _print_addresses(state, gateway, url, link)
    if (
        opens and (second := gateway.make_console_link()) is not None
    ):  # the printed one is for another browser
        open_in_browser(second)


def _print_addresses(state: State, gateway: "Gateway", url: str, console: str | None) -> None:
    """Print the addresses, and commands to try."""
    settings = gateway.crib.settings
    closed = settings.gateway.closed_reason()
    if closed is not None:
        note(f"nobody can call it: {closed}; {settings.gateway.opening_remedy}")
    if state.json:
        addresses: dict[str, Any] = {} if closed is None else {"closed": closed}
        addresses |= {path: f"{url}/{path}" for path in ("health", "ready", "metrics")}
        addresses |= {} if console is None else {"console": console}
        toolsets = {name: f"{url}/mcp/{name}" for name in settings.toolsets}
        surfaces = {name: f"{url}/mcp/{name}" for name in ("all", "meta")}
        serving = {"transport": "http", "url": f"{url}/mcp", "surfaces": surfaces, "toolsets": toolsets}
        _print_json(gateway, {**serving, **addresses})
        return
    also = [
        f"  the tools themselves at {url}/mcp/all, those that find and run them at {url}/mcp/meta",
        *(f"  and its toolset {name} at {url}/mcp/{name}" for name in settings.toolsets),
    ]
    token = settings.gateway.token or ("<your token>" if settings.gateway.tokens else "")
    header = f' --header "Authorization: Bearer {_token_placeholder(token)}"' if token else ""
    asked = '--demo search "how many days until christmas"' if state.demo else 'search "what you want to do"'
    lines = (
        _headline(gateway, f"{url}/mcp"),
        *also,
        *_host_names(url, settings.gateway),
        *(() if console is None else ("", "The console, at an address that opens it once:", f"  {console}")),
        "",
        "Try next:",
        f"  curl {url}/health",
        f"  claude mcp add --transport http toolcrib {url}/mcp{header}",
        f"  {this_command()} {asked}",
        "",
        "Ctrl-C stops it.",
    )
    click.echo(clean("\n".join(lines)), err=True)


def _pending_names(gateway: "Gateway") -> list[str]:
    """Return the servers and APIs that have yet to list their tools."""
    return [each.name for each in gateway.crib.absent() if each.state != "failed" and not each.kept]


def _headline(gateway: "Gateway", address: str) -> str:
    """Return the headline: the number of tools, the address, and the servers that are still starting."""
    known, pending = len(gateway.crib.index), _pending_names(gateway)
    if not pending:
        return f"toolcrib serves {count_noun(known, 'tool')} at {address}"
    names = f"{', '.join(pending[:_NAMED])}{', ...' if len(pending) > _NAMED else ''}"
    if not known:
        return f"toolcrib serves the tools of {names} at {address}, as soon as they are listed"
    return (
        f"toolcrib serves {count_noun(known, 'tool')} at {address}, and those of {names} when they are listed"
    )


def _print_json(gateway: "Gateway", addresses: dict[str, Any]) -> None:
    """Print the same as one line of JSON, on the output that the protocol does not use."""
    line = json.dumps({**addresses, "tools": len(gateway.crib.index), "pending": _pending_names(gateway)})
    click.echo(line, err=addresses["transport"] == "stdio")


def _host_names(url: str, settings: "GatewaySettings") -> tuple[str, ...]:
    """Return the host names by which other machines reach it."""
    from toolcrib.crib.config.gateway import is_loopback, own_names  # noqa: PLC0415 - heavy, as above

    host = urlsplit(url).hostname or ""
    if is_loopback(host):
        return ()
    names = ", ".join(dict.fromkeys((*own_names(host), *settings.allowed_hosts)))
    return (f"  other machines may call it by its addresses and as {names};", f"  {_FURTHER}")


def _token_placeholder(token: str) -> str:
    """Return a placeholder for a token: the variable in the configuration, never the token itself."""
    variable = re.fullmatch(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}", token)
    return "<your token>" if variable is None else f"${variable[1]}"
