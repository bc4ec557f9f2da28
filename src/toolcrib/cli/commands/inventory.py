"""The verb `inventory`: which MCP servers the clients on this machine use, and which go past the gateway."""

from pathlib import Path

import click

from toolcrib.cli.screen import note, show_json, show_table
from toolcrib.cli.state import State, common
from toolcrib.errors.base import count_noun

_STATUS = {
    "gateway": "is the gateway",
    "direct": "bypasses the gateway",
    "both": "bypasses the gateway, which also has it",
}


@click.command()
@click.option("--cyclonedx", is_flag=True, help="Write the list as a CycloneDX 1.6 document.")
@common
@click.pass_obj
def inventory(state: State, cyclonedx: bool) -> None:  # noqa: FBT001 - click gives it by name
    """List the MCP servers that the clients on this machine use.

    It reads the files of the known clients, including those in the current folder, and starts nothing. A
    server is behind the gateway if its client is configured to use toolcrib instead. Values that may be
    secret are left out.

    Example: toolcrib inventory --cyclonedx > servers.cdx.json
    """
    from toolcrib.crib.config.files import load  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.setup.inventory import take_inventory, to_cyclonedx  # noqa: PLC0415

    config = state.config_file()
    settings = load(config)
    found = take_inventory(Path.cwd(), settings.servers, port=settings.gateway.port or None)
    for each in found.notes:
        note(each)
    if cyclonedx:
        show_json(to_cyclonedx(found))
        return
    if state.json:
        show_json({"servers": [each.to_json() for each in found.items], "outside": len(found.outside)})
        return
    rows = [
        (each.client, each.name, each.origin, "off" if each.disabled else _STATUS[each.status])
        for each in found.items
    ]
    show_table(("CLIENT", "SERVER", "SOURCE", "STATUS"), rows)
    if not rows and not found.notes:
        note("no client here has an MCP server")
    elif found.outside:
        advice = "`toolcrib import CLIENT` imports them, and `toolcrib install CLIENT` adds the gateway"
        note(f"{count_noun(len(found.outside), 'server')} past the gateway; {advice}")
