"""The verb that runs code which calls tools: `exec`."""

from typing import TYPE_CHECKING

import click

from toolcrib.cli.commands.running import TIMEOUT, show_value
from toolcrib.cli.inputs import read_file
from toolcrib.cli.screen import clean, note, show_json, show_text, waiting
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.runtime import ExecuteResult

__all__ = ["exec_"]


@click.command("exec")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-c", "--code", metavar="CODE", help="The code itself, instead of a file.")
@click.option("--backend", metavar="KIND", help="The kind of sandbox, such as monty or process.")
@click.option(
    "--profile", type=click.Choice(["dev", "standard", "hardened"]), help="How strong its wall must be."
)
@click.option(
    "--timeout", type=TIMEOUT, metavar="SECONDS", help="For how long the code and its tools may run."
)
@shared
@click.pass_obj
def exec_(
    state: State,
    file: str | None,
    code: str | None,
    backend: str | None,
    profile: str | None,
    timeout: float | None,
) -> None:
    """Run code that calls tools, in a sandbox.

    FILE holds Python; `-` reads it from standard input, and -c takes it as an argument. Each namespace is a
    name in it, and what it leaves in `__out` is the value: `__out = await math.evaluate(expression="6 *
    7")`. What the code prints comes first, then the value.

    Example: toolcrib exec -c '__out = await math.evaluate(expression="6 * 7")' --demo
    """
    if file is not None and code is not None:
        raise click.UsageError("give either a FILE or -c CODE, not both")
    source = code if file is None else read_file(file)
    if source is None:
        raise click.UsageError("there is no code: name a FILE, `-` for standard input, or -c CODE")
    if backend is not None:
        _check_backend(backend)

    async def work() -> None:
        async with state.view() as view:
            with waiting("running"):
                result = await view.execute(source, backend=backend, profile=profile, timeout=timeout)
            _show(state, result)

    wait_for(work)


def _check_backend(backend: str) -> None:
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.runtime.choice import kinds  # noqa: PLC0415

    if backend not in kinds():
        raise click.UsageError(f"there is no sandbox {backend!r}{choose(backend, kinds())}")


def _show(state: State, result: "ExecuteResult") -> None:
    if state.json:
        show_json(result.to_json())
        return
    if result.stdout:
        show_text(result.stdout)
    if result.stderr:
        click.echo(clean(result.stderr).rstrip("\n"), err=True)
    for text in result.notes:
        note(text)
    if result.value is not None:
        show_value(result.value)
