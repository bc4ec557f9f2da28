"""The command that diagnoses the setup: `doctor`."""

from typing import TYPE_CHECKING

import click

from toolcrib.cli.exits import FailedError
from toolcrib.cli.screen import clean, progress, show_json
from toolcrib.cli.state import State, common, wait_for
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.setup.doctor.findings import Diagnosis, Finding

_MARKS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "ok": ("✓", "green")}
_LAST_WORDS = 12
"""Lines of a server's standard error that are shown."""


@click.command()
@click.option("--offline", is_flag=True, help="Do not start or contact servers.")
@click.option(
    "--timeout", type=click.FloatRange(0.1), metavar="SECONDS", help="Seconds that each server may take."
)
@common
@click.pass_obj
def doctor(state: State, offline: bool, timeout: float | None) -> None:  # noqa: FBT001 - click gives it by name
    """Find what is broken, and say how to fix it.

    It reads the configuration, starts every server and asks for its tools, and looks at the catalogue, the
    sandboxes and what is installed. The exit code is 1 if something does not work; warnings do not count.

    Example: toolcrib doctor --offline
    """
    from toolcrib.setup.doctor import diagnose  # noqa: PLC0415 - not needed to ask for help

    async def work() -> "Diagnosis":
        with progress("examining") as advance:
            done = 0

            def tell(name: str) -> None:
                nonlocal done
                done += 1
                advance(done, None, name)

            return await diagnose(state.config_file(), offline=offline, limit=timeout, on_server=tell)

    found = wait_for(work)
    if state.json:
        show_json(found.to_json())
    else:
        _show(found)
    if not found.healthy:
        raise FailedError


def _show(found: "Diagnosis") -> None:
    for finding in found.findings:
        _show_one(finding)
    errors, warnings = len(found.errors), len(found.warnings)
    if errors or warnings:
        parts = [
            count_noun(errors, "error"),
            count_noun(warnings, "warning"),
        ]
        click.echo(f"\n{', '.join(parts)}")
    else:
        click.echo("\nall is well")


def _show_one(finding: "Finding") -> None:
    mark, colour = _MARKS[finding.severity]
    click.echo(f"{click.style(mark, fg=colour)} {clean(f'{finding.subject}: {finding.what}')}")
    if finding.why:
        click.echo(f"    {click.style('why:', dim=True)} {clean(finding.why)}")
    for line in str(finding.details.get("stderr", "")).splitlines()[-_LAST_WORDS:]:
        click.echo(f"    {click.style('|', dim=True)} {clean(line)}")
    if finding.remedy:
        click.echo(f"    {click.style('do:', dim=True)} {clean(finding.remedy)}")
