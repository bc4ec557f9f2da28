"""The verbs of code that calls tools: `code`, `runs`, `resume`, `saved` for tools of runs, and `sandbox`."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.choices import VerbGroup
from toolcrib.cli.commands.chaining import show_chain
from toolcrib.cli.commands.running import DURABLE, TIMEOUT, show_value
from toolcrib.cli.inputs import read_file, read_pairs
from toolcrib.cli.screen import clean, note, show_json, show_table, show_text, waiting
from toolcrib.cli.state import YES, State, common, local_principal, shared, wait_for
from toolcrib.errors import CallUncertainError

if TYPE_CHECKING:
    from toolcrib.crib.config.settings import Settings
    from toolcrib.crib.view import View
    from toolcrib.execution.principal import Principal
    from toolcrib.runs import RunRecord
    from toolcrib.runtime import ExecuteResult, ProfileName
    from toolcrib.runtime.sandboxes.docker.engine import Image

_BEGIN = (
    "`toolcrib code --durable` and `chain --durable` start them, and --config names another configuration,"
    " which has runs of its own"
)


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-c", "--code", metavar="CODE", help="The code itself, instead of a file.")
@click.option("--backend", metavar="KIND", help="The kind of sandbox, such as monty or process.")
@click.option(
    "--profile",
    type=click.Choice(["dev", "standard", "hardened"]),
    help="The isolation that the sandbox must provide.",
)
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", help="The time limit for the code and its tools.")
@DURABLE
@YES
@shared
@click.pass_obj
def code(  # noqa: PLR0913, PLR0917 - click gives them by name
    state: State,
    file: str | None,
    code: str | None,
    backend: str | None,
    profile: "ProfileName | None",
    timeout: float | None,
    durable: bool,  # noqa: FBT001
) -> None:
    """Run code that calls tools, in a sandbox.

    FILE is Python; `-` reads it from standard input, and -c takes it as an argument. Each namespace is a
    variable in the code, and the variable `__out` holds the result: `__out = await
    math.evaluate(expression="6 * 7")`. Printed output comes first, then the value. `toolcrib exec` is an
    alias.

    Example: toolcrib code -c '__out = await math.evaluate(expression="6 * 7")' --demo
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
                result = await view.execute(
                    source,
                    backend=backend,
                    profile=profile,
                    timeout=timeout,
                    context=state.call_context(),
                    durable=durable,
                )
            _show(state, result)

    wait_for(work)


def _check_backend(backend: str) -> None:
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.runtime.registry import kinds  # noqa: PLC0415

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


@click.command()
@common
@click.pass_obj
def runs(state: State) -> None:
    """List the durable runs, latest first.

    A suspended run can be resumed, even after a crash. `resume` of a finished run shows its result again.
    `runs` lists the runs that this user's commands started. Runs of programs that name no principal are
    included if they are stored in a local file, but not if they are in a shared database. Each configuration
    has runs of its own.

    Example: toolcrib runs
    """
    from toolcrib.crib.durable import runs_place  # noqa: PLC0415 - not needed to ask for help

    async def work() -> None:
        async with state.crib() as crib:
            owners = _owners(crib.settings)
            found = [run for owner in owners for run in await crib.runs(principal=owner)]
        found.sort(key=lambda run: -run.changed)
        if state.json:
            show_json({"runs": [run.to_json() for run in found]})
        elif found:
            head = ("run", "kind", "state", "calls", "began", "may have run")
            show_table(head, [_row(run) for run in found], styles=("cyan",))
        else:
            where = runs_place(crib.settings)
            note(f"there are no durable runs{f' in {where}' if where else ''}; {_BEGIN}")

    wait_for(work)


def _owners(settings: "Settings") -> "tuple[Principal | None, ...]":
    """Return whose runs the local user may resume: its own, and those that its programs start for nobody.

    In a database, runs for nobody may be those of other users' programs.
    """
    from toolcrib.crib.durable import runs_address  # noqa: PLC0415 - not needed to ask for help

    return (local_principal(),) if runs_address(settings) else (local_principal(), None)


async def _find_owner(view: "View", run_id: str) -> "Principal | None":
    """Return the owner of a run; the local user, if there is none."""
    for owner in _owners(view.settings):
        if any(run.id == run_id for run in await view.runs(principal=owner)):
            return owner
    return local_principal()


def _row(run: "RunRecord") -> tuple[str, ...]:
    began = datetime.fromtimestamp(run.began, UTC).strftime("%Y-%m-%d %H:%M:%S")
    uncertain = ", ".join(f"{key} ({tool})" for key, tool in run.uncertain.items())
    return run.id, run.kind, run.state, str(run.step), began, "" if run.state == "running" else uncertain


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--repeat", is_flag=True, help="Repeat calls that may have run.")
@click.option(
    "--answer",
    "answers",
    metavar="KEY=VALUE",
    multiple=True,
    help="Use this answer, JSON or text, for a call that may have run, instead of repeating it.",
)
@YES
@shared
@click.pass_obj
def resume(state: State, run: str, repeat: bool, answers: tuple[str, ...]) -> None:  # noqa: FBT001 - click gives it by name
    """Resume a durable run.

    RUN is an id, as listed by `toolcrib runs`. Calls with a recorded result are not made again. A call
    that was started and has no recorded result may have run. It is repeated automatically if its tool is
    read-only or idempotent; otherwise choose --repeat or --answer.

    Example: toolcrib resume 390536bce7d7c564 --answer '3={"sent": true}'
    """
    given = read_pairs(answers, {})

    async def work() -> None:
        async with state.view() as view:
            context = replace(state.call_context(), principal=await _find_owner(view, run))
            with waiting("running"):
                result: Any = await view.resume(run, repeat=repeat, answers=given, context=context)
            if hasattr(result, "final"):
                show_chain(state, result)
            else:
                _show(state, result)

    try:
        wait_for(work)
    except CallUncertainError as error:
        answer = f"--answer {next(iter(error.calls))}=VALUE"
        error.remedy = f"--repeat to make it again, or with {answer} to go on with that answer"
        raise


@click.group(cls=VerbGroup)
@shared
def saved() -> None:
    """List and delete the tools saved from runs.

    Programs create them with `Crib.save_as_tool`. They are kept with the catalogue of a configuration, and
    are found and run like any other tool.

    Example: toolcrib saved list
    """


@saved.command("list")
@shared
@click.pass_obj
def list_(state: State) -> None:
    """List the tools saved from runs.

    Example: toolcrib saved list
    """

    async def work() -> None:
        async with state.crib() as crib:
            found = crib.saved_tools()
        if state.json:
            show_json({"tools": [{"id": str(tool.id), "description": tool.description} for tool in found]})
        elif found:
            show_table(
                ("id", "description"),
                [(str(tool.id), tool.description or "") for tool in found],
                styles=("cyan",),
            )
        else:
            note("there are no saved tools; a program makes one from a run with `Crib.save_as_tool`")

    wait_for(work)


@saved.command()
@click.argument("tool_id", metavar="ID")
@shared
@click.pass_obj
def delete(state: State, tool_id: str) -> None:
    """Delete a tool that was saved from a run.

    Calls that are already running continue. Other gateways keep serving the tool until they are restarted.

    Example: toolcrib saved delete my:forecast:1.0.0
    """

    async def work() -> None:
        async with state.crib() as crib:
            meant = str(crib.index.resolve(tool_id).id)
            crib.delete_saved_tool(meant)
        if state.json:
            show_json({"id": meant, "deleted": True})
        else:
            note(f"the saved tool {meant} is deleted")

    wait_for(work)


@click.group(cls=VerbGroup)
@common
def sandbox() -> None:
    """Build the image or the module that a sandbox needs.

    `monty` and `process` need nothing; `docker` and `gvisor` share an image, and `wasm` has a module.

    Example: toolcrib sandbox build --backend docker
    """


@sandbox.command()
@click.option(
    "--backend",
    type=click.Choice(["docker", "wasm"]),
    default="docker",
    show_default=True,
    help="Build the image for docker and gvisor, or the module for wasm.",
)
@click.option(
    "--dockerfile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Build the image from this file; its python3 runs the code.",
)
@click.option(
    "--from-host",
    is_flag=True,
    help="Build the image from the interpreter of this machine, which is the default.",
)
@click.option(
    "--module",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A CPython built for WASI, instead of the one that npm fetches.",
)
@common
@click.pass_obj
def build(
    state: State,
    backend: str,
    dockerfile: Path | None,
    from_host: bool,  # noqa: FBT001 - click gives it by name
    module: Path | None,
) -> None:
    """Build the image or the module that code runs in.

    An image made from this machine needs no registry: it contains the interpreter, its standard library and
    the libraries that these load. A module is started and compiled for this machine once, which takes half
    a minute.

    Example: toolcrib sandbox build --backend wasm
    """
    if (dockerfile and from_host) or (backend == "wasm" and (dockerfile or from_host)):
        raise click.UsageError("--dockerfile and --from-host cannot be combined")
    if module and backend != "wasm":
        raise click.UsageError("--module is for --backend wasm")
    facts: dict[str, Any] = {"backend": backend}
    with waiting("building"):
        if backend == "wasm":
            from toolcrib.runtime.sandboxes.wasm.module import build_module  # noqa: PLC0415 - not needed to ask for help

            facts["module"] = str(build_module(module, progress=note))
        else:
            image = _image(dockerfile)
            facts |= {"image": image.id, "digest": image.digest, "python": image.program}
    if state.json:
        show_json(facts)
    else:
        note(f"built {facts.get('module') or facts['image']}")


def _image(dockerfile: Path | None) -> "Image":
    from toolcrib.runtime.sandboxes.docker.engine import IMAGE, find_engine  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.runtime.sandboxes.docker.image import build_from_dockerfile, build_from_host  # noqa: PLC0415

    engine = find_engine("docker")
    try:
        return (
            build_from_host(engine, IMAGE)
            if dockerfile is None
            else build_from_dockerfile(engine, dockerfile, IMAGE)
        )
    finally:
        engine.close()
