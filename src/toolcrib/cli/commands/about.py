"""The verbs about the command itself: `version` and `completion`."""

import platform

import click

import toolcrib
from toolcrib.cli.completing import BASH
from toolcrib.cli.screen import show_json
from toolcrib.cli.state import State, common


@click.command()
@common
@click.pass_obj
def version(state: State) -> None:
    """Show the version.

    Example: toolcrib version --json
    """
    python = platform.python_version()
    if state.json:
        show_json({"version": toolcrib.__version__, "python": python, "platform": platform.platform()})
    else:
        click.echo(f"toolcrib {toolcrib.__version__} (Python {python})")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    It completes verbs, options, servers, toolsets and the ids of tools that were last listed, without
    starting a server.

    Example: toolcrib completion bash > ~/.local/share/bash-completion/completions/toolcrib
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete  # noqa: PLC0415 - for this alone

    kind = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}[shell]
    root = context.find_root()
    writer = kind(root.command, {}, "toolcrib", "_TOOLCRIB_COMPLETE")
    script = BASH % writer.source_vars() if shell == "bash" else writer.source()
    state = context.ensure_object(State)
    if state.json:
        show_json({"shell": shell, "script": script})
    else:
        click.echo(script)
