"""The verbs that keep a gateway running for other commands: `up` and `down`."""

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.commands.running import TIMEOUT
from toolcrib.cli.exits import FailedError
from toolcrib.cli.resident.address import Address, ask, writable_folder
from toolcrib.cli.screen import clean, show_json, waiting
from toolcrib.cli.state import State, common, wait_for

_PATIENCE = 60.0
"""For how many seconds a gateway may take to start or to stop, beside its servers and its calls."""
_EVERY = 0.02


@click.command()
@click.option("--foreground", is_flag=True, help="Stay in the foreground, for service managers.")
@click.option(
    "--timeout",
    type=TIMEOUT,
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="Seconds to wait for the servers to answer.",
)
@common
@click.pass_obj
def up(state: State, foreground: bool, timeout: float) -> None:  # noqa: FBT001 - click gives it by name
    """Keep a gateway running in the background to speed up commands.

    With the same user and the same configuration, verbs that find, describe, run, read and write tools,
    resources and prompts then run in the gateway, so that no server has to be started. Servers keep the
    working directory and the environment of this command. A gateway whose configuration has since changed is
    replaced. `toolcrib serve --transport http` runs such commands too.

    Example: toolcrib up && toolcrib run github:list_issues
    """
    address = _address(state)
    if foreground:
        wait_for(lambda: _serve_commands(state, address))
        return
    known = ask(address, wait=timeout)
    if known is not None and not _is_current(address, known):
        _stop_gateway(address, known)
        known = None
    with waiting("starting the servers"):
        facts = known or _start_gateway(state, address, timeout)
    if state.json:
        show_json(facts)
        return
    missing = f"; missing: {', '.join(facts['missing'])}" if facts["missing"] else ""
    servers = f"{facts['servers']} server{'' if facts['servers'] == 1 else 's'}"
    running = "is up" if known is None else "was up already"
    message = f"toolcrib {running}: {facts['tools']:,} tools, {servers}{missing}; process {facts['pid']}"
    serves = known is not None and known["startedBy"] != "up"
    stop = (
        "It was started with `toolcrib serve`; stop it where that runs"
        if serves
        else "`toolcrib down` stops it"
    )
    click.echo(clean(f"{message}. {stop}."))


@click.command()
@common
@click.pass_obj
def down(state: State) -> None:
    """Stop the gateway that runs in the background.

    Commands that it is running may finish first, within `gateway.shutdown_timeout`.

    Example: toolcrib down
    """
    address = _address(state)
    known = ask(address, wait=0)
    if known is not None:
        _stop_gateway(address, known)
    elif (pid := _find_stuck_process(address)) is not None:
        raise click.ClickException(f"process {pid} does not answer; end it with `kill -9 {pid}`")
    if state.json:
        show_json({"stopped": None if known is None else known["pid"]})
    else:
        click.echo("nothing was running" if known is None else f"process {known['pid']} has stopped")


def _address(state: State) -> Address:
    if not hasattr(socket, "AF_UNIX"):
        raise click.UsageError("this needs Unix sockets, which this system does not have")
    source = state.source()
    if source is None and not state.demo:
        raise click.UsageError("a gateway in the background needs a configuration, and there is none")
    return Address(source, demo=state.demo)


def _is_current(address: Address, known: dict[str, Any]) -> bool:
    from toolcrib import __version__  # noqa: PLC0415 - for this alone

    return (known["version"], known["digest"]) == (__version__, address.digest())


def _stop_gateway(address: Address, known: dict[str, Any]) -> None:
    """Stop a gateway, and wait until it is gone.

    Raises:
        ClickException: something else than `toolcrib up` started it.
    """
    pid = int(known["pid"])
    if known["startedBy"] != "up":
        raise click.ClickException(
            f"`toolcrib down` stops only gateways that `toolcrib up` started; process {pid} was started by "
            f"`toolcrib serve` or `toolcrib console`; press Ctrl-C in its terminal, or run `kill {pid}`"
        )
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _PATIENCE
    while address.pid_file.exists() and time.monotonic() < end:
        time.sleep(_EVERY)
    if address.pid_file.exists():
        raise click.ClickException(f"process {pid} does not stop; see {address.log}")


def _find_stuck_process(address: Address) -> int | None:
    """Return the process id of a gateway that does not answer, or None."""
    import fcntl  # noqa: PLC0415 - not on every platform

    try:
        with address.pid_file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(address.pid_file.read_text() or 0)
    except OSError:
        return None
    return None


def _start_gateway(state: State, address: Address, limit: float) -> dict[str, Any]:
    """Start a gateway in the background, and return its facts when it answers."""
    command = [sys.executable, "-P", "-m", "toolcrib.cli", "up", "--foreground"]
    command += [] if address.config is None else ["--config", address.config]
    command += ["--demo"] if state.demo else []
    writable_folder(address.log.parent)
    handle = os.open(address.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as log:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        has_ended = child.poll() is not None  # where another was quicker, that one answers
        facts = ask(address, wait=limit)
        if facts is not None:
            child.returncode = 0  # it outlives us, which is no oversight
            return facts
        if has_ended:
            click.echo(clean(_log_tail(address.log)), err=True)
            raise FailedError(child.returncode or 1)
        time.sleep(_EVERY)
    child.terminate()
    child.wait()
    raise click.ClickException(f"it did not start within {_PATIENCE:g} s; see {address.log}")


def _log_tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]


async def _serve_commands(state: State, address: Address) -> None:
    """Run the commands of other processes until asked to stop."""
    from toolcrib.cli.memory import memory_upkeep  # noqa: PLC0415 - heavy, as the next
    from toolcrib.cli.resident.server import AlreadyRunningError, resident  # noqa: PLC0415
    from toolcrib.gateway import Gateway  # noqa: PLC0415
    from toolcrib.gateway.signals import stop_signals  # noqa: PLC0415

    logging.getLogger().setLevel(logging.DEBUG if state.debug else logging.WARNING)
    digest = address.digest()
    gateway = Gateway(address.config)
    try:
        async with memory_upkeep(), state.enter(gateway.crib, gateway):
            gc.freeze()  # as `serve` does
            async with resident(gateway, address, digest, "up"), stop_signals() as stop:
                await stop.asked.wait()
    except AlreadyRunningError as error:
        raise click.ClickException("another process serves this configuration to the commands") from error
