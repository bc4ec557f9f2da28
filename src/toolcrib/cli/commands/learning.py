"""The commands for learned questions: `learned list` and `learned forget`."""

import click

from toolcrib.cli.choices import VerbGroup
from toolcrib.cli.completing import tool_ids
from toolcrib.cli.exits import NotFoundError
from toolcrib.cli.screen import clean, note, show_json, show_table
from toolcrib.cli.state import State, shared, wait_for


@click.group(cls=VerbGroup)
@shared
def learned() -> None:
    """List and delete the questions that were learned from use.

    If a question finds a tool and that tool is then run, the question becomes an example question of the
    tool, with values such as names and numbers removed. Learned questions are kept in this machine's
    catalogue and are never sent anywhere. `search.learn` in the configuration can turn learning off.

    Example: toolcrib learned list
    """


@learned.command("list")
@click.argument("tool_id", metavar="[ID]", required=False, shell_complete=tool_ids)
@shared
@click.pass_obj
def list_(state: State, tool_id: str | None) -> None:
    """List the learned questions, of one tool or of all.

    USES counts the runs that succeeded after a question, and MISSES counts those that failed because of their
    arguments or were followed by a run of another tool.

    Example: toolcrib learned list github:create_issue
    """

    async def work() -> None:
        async with state.crib() as crib:
            rows = await crib.learned(_base(tool_id))
            if state.json:
                show_json({"learned": [row.to_json() for row in rows], "total": len(rows)})
            elif rows:
                shown = [(row.tool_id, str(row.uses), str(row.misses), clean(row.question)) for row in rows]
                show_table(
                    ("tool", "uses", "misses", "question"), shown, styles=("cyan", "green", "yellow", "")
                )
            else:
                click.echo(_nothing(tool_id))

    wait_for(work)


@learned.command()
@click.argument("tool_id", metavar="[ID]", required=False, shell_complete=tool_ids)
@click.option("--question", metavar="TEXT", help="Only this question, as `learned list` shows it.")
@click.option("--all", "everything", is_flag=True, help="The questions of all tools.")
@shared
@click.pass_obj
def forget(
    state: State,
    tool_id: str | None,
    question: str | None,
    everything: bool,  # noqa: FBT001 - click gives it by name
) -> None:
    """Delete the learned questions of a tool, or all of them.

    Example: toolcrib learned forget github:create_issue
    """
    if (tool_id is None) == (not everything):
        raise click.UsageError("name a tool, or use --all for the questions of all tools, not both")

    async def work() -> None:
        async with state.crib() as crib:
            count = await crib.forget_learned(_base(tool_id), question)
            if not count and not everything:
                raise NotFoundError(_nothing(tool_id))
            if state.json:
                show_json({"forgotten": count})
            else:
                note(f"deleted {count} question{'' if count == 1 else 's'}")

    wait_for(work)


def _base(tool_id: str | None) -> str | None:
    """Return an id without a version, as questions are kept."""
    from toolcrib.model.toolid import without_version  # noqa: PLC0415 - not needed to ask for help

    return None if tool_id is None else without_version(tool_id)


def _nothing(tool_id: str | None) -> str:
    return f"nothing has been learned{'' if tool_id is None else f' for {clean(tool_id)}'}"
