"""The verb that shows how everything is doing: `status`."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.commands.running import TIMEOUT
from toolcrib.cli.resident.address import Address, ask
from toolcrib.cli.resident.terminal import REMOTE
from toolcrib.cli.screen import clean, heading, note, show_json, show_table, waiting
from toolcrib.cli.state import State, shared, wait_for
from toolcrib.errors import ServerUnavailableError, ToolcribError
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import Crib, View
    from toolcrib.execution.mcp import ServerStatus

_MAX_REFUSED_SHOWN = 3
_MAX_REASON_LENGTH = 120
_PASSING = frozenset({"pid", "in_flight", "starts", "next_try_in"})
"""Facts of a server that hold only while it runs."""


@click.command()
@click.option(
    "--timeout",
    type=TIMEOUT,
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="Seconds that servers may take to answer.",
)
@shared
@click.pass_obj
def status(state: State, timeout: float) -> None:
    """Show the tokens saved, what needs attention, and the servers.

    If a gateway runs with this configuration, it answers. Otherwise every server is started, asked for its
    tools, and stopped again. The state of a server is `answered`, `failed`, `late` (it did not answer in
    time) or `kept` (its tools are from an earlier run).

    The tokens saved are those of all definitions, which a client would otherwise load, minus those of the
    tools that it gets instead.

    Example: toolcrib status --json
    """

    async def work() -> None:
        async with state.crib() as crib:
            with waiting("asking the servers"), suppress(ServerUnavailableError):  # the table tells it
                await crib.ready(timeout)
            view = crib if state.toolset is None else crib.view(state.toolset)
            facts = {**_facts(crib, view), "tokens": await _count_tokens(view), **_gateway_facts(state)}
            if REMOTE.get() is not None:
                workers = await state.running_gateway().fleet.describe_workers()
                facts |= {"workers": workers} if workers else {}
            if state.json:
                show_json(facts)
            else:
                _show(facts)

    wait_for(work)


def _gateway_facts(state: State) -> dict[str, Any]:
    """Return the facts of the running gateway, and the number of calls that wait there.

    `used` says whether it runs commands.
    """
    terminal = REMOTE.get()
    if terminal is not None:
        waiting = len(state.running_gateway().approvals.waiting())
        return {"gateway": {**terminal.facts(), "used": True}, "waiting": waiting}
    known = None
    with suppress(ToolcribError):  # a process without a home has no such folder
        known = ask(Address(state.config_file(), demo=state.demo), wait=0)
    return {} if known is None else {"gateway": {**known, "used": False}}


def _facts(crib: "Crib", view: "View") -> dict[str, Any]:
    logins = _login_facts(crib)
    servers = [{**_server_facts(each), **logins.get(each.name, {})} for each in view.status().values()]
    kept_in = getattr(crib.discovery.index.store, "path", None)
    return {
        "config": crib.settings.source,
        "servers": servers,
        "catalogue": {
            "tools": len(view.index),
            "namespaces": [name for name in view.index.namespaces() if name],
            "keptIn": None if kept_in is None else str(kept_in),
        },
        "toolsets": sorted(crib.settings.toolsets),
        "expose": {
            "gateway": crib.settings.gateway.expose,
            "toolsets": {
                name: toolset.expose or crib.settings.gateway.expose
                for name, toolset in sorted(crib.settings.toolsets.items())
            },
        },
    }


def _login_facts(crib: "Crib") -> dict[str, dict[str, Any]]:
    """Return the public facts of the logins to servers, by name."""
    from toolcrib.cli.commands.servers import login_facts, until  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.execution.oauth.vault import LoginVault  # noqa: PLC0415

    reached = {name: each.url for name, each in crib.settings.servers.items() if each.url is not None}
    found: dict[str, dict[str, Any]] = {}
    try:
        vault = LoginVault() if reached else None
        for name, url in reached.items():
            login = None if vault is None else vault.get(name, url)
            if login is not None:
                found[name] = {"login": {**login_facts(login), "words": f"logged in {until(login)}"}}
    except ToolcribError as error:  # without a home there is none; with another key it cannot be read
        note(str(error))
    return found


def _server_facts(status: "ServerStatus") -> dict[str, Any]:
    """Return the facts of a server; its process has ended, unless a gateway runs it."""
    why = {"why": status.describe_failure()} if status.last_error else {}
    return {
        **status.to_json(without=_PASSING if REMOTE.get() is None else ()),
        "state": _describe_state(status),
        **why,
    }


def _describe_state(status: "ServerStatus") -> str:
    if status.state in {"failed", "disabled"}:
        return status.state
    if status.kept:
        return "kept"
    return "late" if status.tools is None else "answered"


async def _count_tokens(view: "View") -> dict[str, Any]:
    """Return the tokens of all definitions, and of the meta-tools that replace them."""
    from anyio import to_thread  # noqa: PLC0415 - not needed to ask for help

    from toolcrib.gateway.frontends.meta import MetaTools  # noqa: PLC0415

    frontend = MetaTools(view, view.settings.gateway)
    measured = await to_thread.run_sync(frontend.measure_tokens)
    return {**measured._asdict(), "saved": round(measured.saved, 4)}


def _show(facts: dict[str, Any]) -> None:
    if facts["tokens"]["tools"]:
        click.echo(f"tokens saved   {_describe_tokens(facts['tokens'])}")
    failed = [each["name"] for each in facts["servers"] if each["state"] == "failed"]
    if failed:
        advice = "`toolcrib doctor` says how to fix it"
        click.echo(
            clean(f"failed         {count_noun(len(failed), 'server')}: {', '.join(failed)}; {advice}")
        )
    if facts.get("waiting"):
        waiting = count_noun(facts["waiting"], "call")
        click.echo(f"waiting        {waiting} for a person; `toolcrib approvals list` shows them")
    if "gateway" in facts:
        click.echo(f"gateway        {_describe_gateway(facts['gateway'])}")
    for each in facts.get("workers", ()):
        failed = [name for name, state in each["servers"].items() if state == "failed"]
        note_of_it = f", failed: {', '.join(failed)}" if failed else ""
        click.echo(clean(f"worker {each['number']}       process {each['pid']}{note_of_it}"))
    click.echo(clean(f"configuration  {facts['config'] or 'none'}"))
    catalogue = facts["catalogue"]
    kept = f", kept in {catalogue['keptIn']}" if catalogue["keptIn"] else ", kept in memory only"
    spaces = catalogue["namespaces"]
    tools, namespaces = count_noun(catalogue["tools"], "tool"), count_noun(len(spaces), "namespace")
    click.echo(clean(f"catalogue      {tools} in {namespaces}{kept}"))
    if facts["toolsets"]:
        shown = facts["expose"]["toolsets"]
        click.echo(f"toolsets       {', '.join(f'{name} ({shown[name]})' for name in facts['toolsets'])}")
    if facts["servers"]:
        heading("Servers", before=1)
        rows = [
            (each["name"], each["state"], each["transport"], str(each.get("tools", "")), _word(each))
            for each in facts["servers"]
        ]
        show_table(("name", "state", "transport", "tools", "note"), rows, styles=("cyan",))


def _describe_gateway(gateway: dict[str, Any]) -> str:
    """Return a sentence about the running gateway."""
    message = f"running since {gateway['since']}, process {gateway['pid']}, in {gateway['folder']}"
    if gateway["used"]:
        return message
    return f"{message}; not asked: it has another configuration or version, or --no-daemon was given"


def _describe_tokens(tokens: dict[str, Any]) -> str:
    """Return a sentence about the tokens saved."""
    direct, surface = tokens["direct"], tokens["surface"]
    message = f"{direct:,} for all definitions, {surface:,} for the tools that stand for them"
    if direct <= surface:
        remedy = 'set gateway.expose = "auto"'
        return f"none: {message}; listing so few tools directly costs less: {remedy}"
    return f"{tokens['saved']:.0%}: {message}"


def _word(server: dict[str, Any]) -> str:
    refused = server.get("refused", {})
    parts = [str(server["why"])] if "why" in server else []
    if "login" in server:
        parts.append(str(server["login"]["words"]))
    if refused:
        several = "1 tool is left out" if len(refused) == 1 else f"{len(refused)} tools are left out"
        named = [
            f"{name}: {reason[:_MAX_REASON_LENGTH]}"
            for name, reason in list(refused.items())[:_MAX_REFUSED_SHOWN]
        ]
        parts.append("; ".join([f"{several}: {named[0]}", *named[1:]]))
    return "; ".join(parts)
