"""The commands for resources and prompts of servers: `resources`, `read`, `prompts` and `prompt`."""

import base64
import sys
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import server_names
from toolcrib.cli.screen import note, show_json, show_table, show_text, waiting
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.execution.mcp import ResourceContents


@click.command()
@shared
@click.pass_obj
def resources(state: State) -> None:
    """List the resources that servers offer, such as files and pages.

    An address with {braces} is a template: fill it in, and read it.

    Example: toolcrib resources
    """

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("asking the servers"):
                found = await view.resources()
                templates = await view.resource_templates()
            _note_failed(view)
            if state.json:
                listed = {"resources": found, "resourceTemplates": templates}
                show_json({key: [each.to_json() for each in items] for key, items in listed.items()})
                return
            rows = [(each.uri, each.server, each.description or each.title or each.name) for each in found]
            rows += [(each.uri_template, each.server, each.description or each.name) for each in templates]
            show_table(("URI", "SERVER", "DESCRIPTION"), rows)
            if not rows:
                note("no server has resources")

    wait_for(work)


def _note_failed(view: "View") -> None:
    """Report the servers that failed, whose resources and prompts are missing."""
    for server in view.status().values():
        if server.state == "failed" and server.transport != "openapi":
            why = server.describe_failure()
            note(f"server {server.name!r} is unavailable: {why}; its resources and prompts are missing")


@click.command()
@click.argument("uri", metavar="URI")
@click.option(
    "--server",
    metavar="NAME",
    shell_complete=server_names,
    help="The server to read it from, if several have it.",
)
@shared
@click.pass_obj
def read(state: State, uri: str, server: str | None) -> None:
    """Read a resource.

    Text is written unchanged. Binary content is written only to a file or a pipe, not to a terminal.

    Example: toolcrib read file:///notes/today.md
    """

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("reading"):
                contents = await view.read(uri, server=server)
            if state.json:
                show_json({"contents": [each.to_json() for each in contents]})
                return
            for each in contents:
                _write(each)

    wait_for(work)


def _write(contents: "ResourceContents") -> None:
    if contents.text is not None:
        show_text(contents.text)
        return
    data = base64.b64decode(contents.blob or "")
    if sys.stdout.isatty():
        kind = contents.mime_type or "application/octet-stream"
        note(f"{contents.uri} is {len(data):,} bytes of {kind}: send the output to a file or a pipe")
    else:
        sys.stdout.flush()  # text before it waits in another buffer
        sys.stdout.buffer.write(data)


@click.command()
@shared
@click.pass_obj
def prompts(state: State) -> None:
    """List the prompts that servers offer.

    Example: toolcrib prompts
    """

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("asking the servers"):
                found = await view.prompts()
            _note_failed(view)
            if state.json:
                show_json({"prompts": [each.to_json() for each in found]})
                return
            rows = [(each.id, _arguments(each.arguments or ()), each.description or "") for each in found]
            show_table(("PROMPT", "ARGUMENTS", "DESCRIPTION"), rows)
            if not rows:
                note("no server has prompts")

    wait_for(work)


def _arguments(arguments: Any) -> str:
    return " ".join(each.name if each.required else f"[{each.name}]" for each in arguments)


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@shared
@click.pass_obj
def prompt(state: State, name: str, pairs: tuple[str, ...]) -> None:
    """Fill in a prompt and print its messages.

    NAME is server:name, or just the name if only one server has it.

    Example: toolcrib prompt library:review title=Emma
    """
    args: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is not an argument; write key=value")
        args[key] = value

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("asking the server"):
                found = await view.prompt(name, args)
            if state.json:
                show_json(found.to_json())
                return
            for message in found.messages:
                content = message.get("content")
                text = content.get("text") if isinstance(content, dict) else None
                show_text(f"{message.get('role')}: {text if isinstance(text, str) else content}")

    wait_for(work)
