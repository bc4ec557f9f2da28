"""The verbs about the running gateway: `server`, `approvals` and `cancel`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from toolcrib.cli.choices import VerbGroup
from toolcrib.cli.completing import server_names
from toolcrib.cli.exits import NotFoundError
from toolcrib.cli.screen import clean, note, show_json, show_table
from toolcrib.cli.state import State, common, local_principal, wait_for

if TYPE_CHECKING:
    from toolcrib.execution.mcp import ServerStatus


@click.group(cls=VerbGroup)
@common
def server() -> None:
    """Start and stop servers of the running gateway.

    Example: toolcrib server stop github
    """


@server.command()
@click.argument("name", shell_complete=server_names)
@common
@click.pass_obj
def start(state: State, name: str) -> None:
    """Start or restart a server.

    Example: toolcrib server start github
    """
    gateway = state.running_gateway()

    async def work() -> "ServerStatus":
        await gateway.fleet.start_server(name)
        return gateway.crib.status()[name]

    _show_server(state, wait_for(work))


@server.command()
@click.argument("name", shell_complete=server_names)
@common
@click.pass_obj
def stop(state: State, name: str) -> None:
    """Stop a server when its calls have ended, and refuse new calls until it is started again.

    Example: toolcrib server stop github
    """
    gateway = state.running_gateway()

    async def work() -> "ServerStatus":
        await gateway.fleet.stop_server(name)
        return gateway.crib.status()[name]

    _show_server(state, wait_for(work))


def _show_server(state: State, status: "ServerStatus") -> None:
    said = "stopped" if status.paused else status.state
    if state.json:
        show_json({"name": status.name, "state": status.state, "paused": bool(status.paused)})
    else:
        click.echo(clean(f"{status.name} is {said}"))


@click.group(cls=VerbGroup)
@common
def approvals() -> None:
    """List, approve and deny calls waiting for approval.

    Example: toolcrib approvals list
    """


@approvals.command("list")
@common
@click.pass_obj
def list_(state: State) -> None:
    """List the waiting calls, oldest first, with all their arguments.

    Example: toolcrib approvals list --json
    """
    waiting = [each.to_json() for each in state.running_gateway().approvals.waiting()]
    if state.json:
        show_json({"calls": waiting})
    elif not waiting:
        note("no call is waiting for approval")
    else:
        rows = [
            (each["id"], each["toolId"], each["subject"] or each["client"], _time(each["ends"]), each["args"])
            for each in waiting
        ]
        show_table(("id", "tool", "caller", "until", "arguments"), rows, styles=("cyan",))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


@approvals.command()
@click.argument("call", metavar="ID")
@common
@click.pass_obj
def approve(state: State, call: str) -> None:
    """Approve a waiting call.

    Example: toolcrib approvals approve 3f2a9c51d07be864
    """
    _answer(state, call, is_approved=True)


@approvals.command()
@click.argument("call", metavar="ID")
@common
@click.pass_obj
def deny(state: State, call: str) -> None:
    """Deny a waiting call.

    Example: toolcrib approvals deny 3f2a9c51d07be864
    """
    _answer(state, call, is_approved=False)


def _answer(state: State, call: str, *, is_approved: bool) -> None:
    gateway = state.running_gateway()

    async def work() -> bool:
        return gateway.approvals.answer(call, approve=is_approved, by=local_principal().subject)

    if not wait_for(work):
        raise NotFoundError(f"no call {call!r} is waiting; `toolcrib approvals list` lists those that are")
    if state.json:
        show_json({"id": call, "approved": is_approved})
    else:
        click.echo(f"{'approved' if is_approved else 'denied'} {call}")


@click.command()
@click.argument("run", metavar="RUN")
@common
@click.pass_obj
def cancel(state: State, run: str) -> None:
    """Cancel a durable run in the running gateway.

    RUN is an id, as listed by `toolcrib runs`. `toolcrib resume` resumes it.

    Example: toolcrib cancel 390536bce7d7c564
    """
    gateway = state.running_gateway()
    wait_for(lambda: gateway.fleet.cancel_run(run, principal=local_principal()))
    if state.json:
        show_json({"id": run, "cancelled": True})
    else:
        click.echo(f"cancelled {run}; `toolcrib resume {run}` resumes it")
