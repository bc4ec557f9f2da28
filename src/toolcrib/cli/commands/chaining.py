"""The verb that runs the steps of a file: `chain`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.commands.running import DURABLE, TIMEOUT, show_value
from toolcrib.cli.exits import FailedError, error_payload, exit_code
from toolcrib.cli.inputs import read_document
from toolcrib.cli.screen import clean, note, progress, show_json, show_table
from toolcrib.cli.state import YES, State, shared, wait_for
from toolcrib.errors import ChainError

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.execution.chains import ChainResult, Plan, PlannedStep, StepResult


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--dry-run", is_flag=True, help="Only check the steps, and show what they would do.")
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", help="The time limit for all steps together.")
@DURABLE
@YES
@shared
@click.pass_obj
def chain(  # click gives them by name
    state: State,
    file: str,
    dry_run: bool,  # noqa: FBT001
    timeout: float | None,
    durable: bool,  # noqa: FBT001
) -> None:
    """Run the steps in a file one after another.

    FILE is JSON, TOML or YAML: a list of steps, or an object with `steps`; `-` reads JSON from standard
    input. A step is {"toolId": ..., "args": {...}, "usePrevious": true, ...}. The final value goes to
    standard output, and the outcome of each step to standard error.

    Example: toolcrib chain release.json --dry-run
    """
    steps = read_document(file)
    if not (steps.get("steps", True) if isinstance(steps, dict) else steps):
        raise click.UsageError(f"{file} has no steps; write a list of them, or an object with `steps`")

    async def work() -> None:
        async with state.view() as view:
            if dry_run:
                _show_plan(state, await view.run_chain(steps, dry_run=True))
            else:
                show_chain(state, await _run_steps(state, view, steps, timeout=timeout, durable=durable))

    wait_for(work)


async def _run_steps(state: State, view: "View", steps: Any, **options: Any) -> "ChainResult":
    try:
        with progress("chain") as advance:
            context = state.call_context()
            result: ChainResult = await view.run_chain(steps, progress=advance, context=context, **options)
            return result
    except ChainError as error:
        if not state.json:
            _tell_steps(error.results)
            raise
        payload = {"error": error_payload(error), "results": [step.to_json() for step in error.results]}
        show_json(payload)
        raise FailedError(exit_code(error)) from error


def show_chain(state: State, result: "ChainResult") -> None:
    """Print the outcome of each step, and the final value."""
    if state.json:
        show_json(result.to_json())
        return
    _tell_steps(result.results)
    show_value(result.final)


def _tell_steps(results: "Iterable[StepResult]") -> None:
    for step in results:
        what = "skipped" if step.skipped else "failed" if step.error else "ok"
        colour = {"ok": "green", "failed": "red"}.get(what, "yellow")
        named = step.id or step.tool_id or "group"
        place = f"{step.index}. {clean(named)}"
        click.echo(f"{place}  {click.style(what, fg=colour)}  {step.duration:.2f} s", err=True)


def _show_plan(state: State, plan: "Plan") -> None:
    if state.json:
        more = {"readOnly": plan.read_only, "calls": plan.calls, "destructive": list(plan.destructive)}
        show_json({**plan.to_json(), **more})
        return
    rows = [row for step in plan.steps for row in _plan_rows(step, "")]
    show_table(("step", "does", "calls", "uses"), rows, styles=("", "cyan"))
    if plan.destructive:
        note(f"these may destroy something: {', '.join(plan.destructive)}")
    elif plan.read_only:
        click.echo("It changes nothing.")


def _plan_rows(step: "PlannedStep", before: str) -> list[tuple[str, str, str, str]]:
    place = f"{before}{step.index}"
    what = step.tool_id or "side by side"
    each = " for each item" if step.kind == "for_each" else ""
    maybe = " if its condition is met" if step.conditional else ""
    calls = "?" if step.calls is None else str(step.calls)
    own = (place, f"{what}{each}{maybe}", calls, ", ".join(step.depends_on))
    return [own, *(row for part in step.parts for row in _plan_rows(part, f"{place}."))]
