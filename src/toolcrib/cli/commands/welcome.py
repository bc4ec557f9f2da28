"""The first screen: the state of the setup and the next steps, in ten lines."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import toolcrib
from toolcrib.cli.resident.address import Address, ask
from toolcrib.cli.screen import clean, show_json
from toolcrib.cli.state import State
from toolcrib.errors import ToolcribError
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import Settings
    from toolcrib.setup.inventory import Inventory

_MAX_CLIENTS = 2
"""Clients whose servers are offered for import, at most."""


def show_welcome(state: State) -> None:
    """Show the state of the setup and the next steps; no server is started.

    Raises:
        ToolcribError: the configuration cannot be read.
    """
    from toolcrib.crib.config.files import load  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.inventory import take_inventory  # noqa: PLC0415

    config = state.config_file()
    settings = load(config)
    found = take_inventory(Path.cwd(), settings.servers, port=settings.gateway.port or None)
    running = None
    with suppress(ToolcribError):  # a process without a home has no such folder
        running = ask(Address(config, demo=state.demo), wait=0)
    steps = _next_steps(settings, found)
    if state.json:
        show_json(
            {
                "version": toolcrib.__version__,
                "config": config,
                "servers": len(settings.servers),
                "apis": len(settings.openapi),
                "toolsets": sorted(settings.toolsets),
                "gateway": running,
                "clients": {"gateway": _clients(found, is_behind=True), "outside": len(found.outside)},
                "next": [{"command": command, "what": what} for command, what in steps],
            }
        )
        return
    click.echo(f"toolcrib {toolcrib.__version__}: one endpoint for the tools of all your servers")
    click.echo(clean(f"configuration  {_describe_config(config, settings)}"))
    click.echo(f"gateway        {_describe_gateway(running)}")
    click.echo(clean(f"clients        {_describe_clients(found)}"))
    click.echo("\nNext:")
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        click.echo(clean(f"  {command:{width}}  {what}"))


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _describe_config(config: str | None, settings: "Settings") -> str:
    if config is None:
        return "none yet"
    numbers = {
        "server": len(settings.servers),
        "API": len(settings.openapi),
        "toolset": len(settings.toolsets),
    }
    counts = [count_noun(number, name) for name, number in numbers.items() if number]
    return f"{config}: {', '.join(counts) or 'no server yet'}"


def _describe_gateway(running: dict[str, Any] | None) -> str:
    if running is None:
        return "none in the background; servers are started for each command"
    return f"running in the background since {running.get('since')}; `toolcrib console` shows it"


def _clients(found: "Inventory", *, is_behind: bool) -> list[str]:
    status = {True: ("gateway",), False: ("direct", "both")}[is_behind]
    return list(dict.fromkeys(each.client for each in found.items if each.status in status))


def _describe_clients(found: "Inventory") -> str:
    behind = _clients(found, is_behind=True)
    parts = [f"{_join(behind)} {'use' if len(behind) > 1 else 'uses'} toolcrib"] if behind else []
    if found.outside:
        names = list(dict.fromkeys(each.client for each in found.outside))
        verb = "reaches" if len(names) == 1 else "reach"
        parts.append(f"{_join(names)} {verb} {count_noun(len(found.outside), 'server')} without toolcrib")
    return "; ".join(parts) or "no client on this machine has a server"


def _next_steps(settings: "Settings", found: "Inventory") -> list[tuple[str, str]]:
    """Return commands and their purposes, the most useful first."""
    is_empty = not (settings.servers or settings.openapi)
    direct = Counter(each.client for each in found.outside if each.status == "direct")
    at_most = _MAX_CLIENTS if is_empty else 1
    steps = [
        (f"toolcrib import {client} --user", f"import its {count_noun(count, 'server')}")
        for client, count in direct.most_common(at_most)
    ]
    if is_empty:
        if not steps:
            steps.append(
                (
                    "toolcrib add --user clock -- mcp-server-time",
                    "add a server (after pip install mcp-server-time)",
                )
            )
        steps.append(('toolcrib --demo search "days until friday"', "try a small built-in catalogue"))
    else:
        steps.append(("toolcrib status", "see servers, tools and the tokens saved"))
        steps.append(('toolcrib search "what it should do"', "find a tool"))
        if not _clients(found, is_behind=True) and not direct:
            steps.append(("toolcrib install cursor", "add it to a client: cursor, vscode, claude-desktop, …"))
    return [*steps, ("toolcrib --help", "see every command")]
