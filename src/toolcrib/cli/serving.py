"""The verb that serves all tools to MCP clients: `serve`."""

import gc
import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.screen import clean
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.gateway import Gateway

__all__ = ["serve"]

_LEVELS = ("debug", "info", "warning", "error")
_STDIO = """\
toolcrib serves MCP on standard input and output, for a client that starts it:
  claude mcp add toolcrib -- toolcrib serve
For clients that connect: toolcrib serve --transport http. Ctrl-C stops it."""


@click.command()
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="How to serve.",
)
@click.option("--host", metavar="ADDRESS", help="Where HTTP listens; the configuration's, else 127.0.0.1.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port of it; the configuration's, else 8808; 0 for any that is free.",
)
@click.option(
    "--expose", type=click.Choice(["meta", "auto", "all"]), help="What clients see: meta, the default."
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="What is logged."
)
@shared
@click.pass_obj
def serve(
    state: State, transport: str, host: str | None, port: int | None, expose: str | None, log_level: str
) -> None:
    """Serve all tools to MCP clients, at one endpoint.

    Over stdio, for one client that starts it, standard output carries the protocol alone; everything else
    goes to standard error. Over HTTP it serves any number of clients at /mcp, and each toolset of the
    configuration at /mcp/NAME, with /health, /ready and /metrics beside them.

    Example: toolcrib serve --transport http --port 8808
    """
    if transport == "stdio" and not (host is None and port is None):
        raise click.UsageError("--host and --port are for --transport http; stdio listens nowhere")
    if transport == "http" and state.toolset is not None:
        raise click.UsageError(
            f"--toolset is for stdio; over HTTP that toolset is served at /mcp/{state.toolset}"
        )
    if state.json:
        raise click.UsageError("serve has no --json; over stdio its output is the protocol")
    if not state.debug:
        logging.getLogger().setLevel(log_level.upper())
    gateway = _gateway(state, expose)
    wait_for(lambda: _serve(state, gateway, transport, {"host": host, "port": port}))


def _gateway(state: State, expose: str | None) -> "Gateway":
    from toolcrib.crib import GatewaySettings  # noqa: PLC0415 - heavy, and not needed to ask for help
    from toolcrib.gateway import Gateway  # noqa: PLC0415

    if expose is not None:
        GatewaySettings(expose=expose)  # says what is wrong with it
    tools: tuple[Any, ...] = ()
    if state.demo:
        from toolcrib.cli.demo import demo_tools  # noqa: PLC0415 - only where it is asked for

        tools = demo_tools()
    return Gateway(state.config_file(), tools=tools)


async def _serve(state: State, gateway: "Gateway", transport: str, place: dict[str, Any]) -> None:
    async with gateway:
        gc.freeze()  # what was loaded until now stays, and need not be looked through again and again
        if state.demo:
            from toolcrib.cli.demo import add_examples  # noqa: PLC0415 - as above

            add_examples(gateway.crib)
        if transport == "stdio":
            if sys.stdin.isatty():
                click.echo(_STDIO, err=True)
            await gateway.serve_stdio(state.toolset)
        else:
            await gateway.serve_http(**place, on_ready=lambda url: _tell(state, gateway, url))


def _tell(state: State, gateway: "Gateway", url: str) -> None:
    """Say where it listens, and what to try."""
    settings = gateway.crib.settings
    toolsets = [f"  and its toolset {name} at {url}/mcp/{name}" for name in settings.toolsets]
    header = ' --header "Authorization: Bearer $TOOLCRIB_TOKEN"' if settings.gateway.token else ""
    asked = '--demo search "how many days until christmas"' if state.demo else 'search "what you want to do"'
    lines = (
        f"toolcrib serves {len(gateway.crib.index):,} tools at {url}/mcp",
        *toolsets,
        "",
        "Try next:",
        f"  curl {url}/health",
        f"  claude mcp add --transport http toolcrib {url}/mcp{header}",
        f"  toolcrib {asked}",
        "",
        "Ctrl-C stops it.",
    )
    click.echo(clean("\n".join(lines)), err=True)
