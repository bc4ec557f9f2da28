"""The verb `worker`: does pieces of durable runs for Temporal."""

import logging

import click

from toolcrib.cli.screen import clean
from toolcrib.cli.state import State, common, wait_for


@click.command()
@common
@click.pass_obj
def worker(state: State) -> None:
    """Execute durable runs as a worker of a Temporal server.

    Any number of workers may run, on any number of machines, with the same configuration and the same store
    of runs. On Ctrl-C or SIGTERM, a worker exits once its calls have finished, or after
    `engine.shutdown_timeout`; another worker takes over what it leaves unfinished.

    Example: toolcrib worker --config toolcrib.toml
    """
    logging.getLogger().setLevel(logging.DEBUG if state.debug else logging.WARNING)
    wait_for(lambda: _serve(state))


async def _serve(state: State) -> None:
    import anyio  # noqa: PLC0415 - not needed to ask for help

    from toolcrib.crib import Crib  # noqa: PLC0415 - heavy
    from toolcrib.gateway.signals import stop_signals  # noqa: PLC0415

    crib = Crib(state.source())

    def show_start() -> None:
        engine = crib.settings.engine
        if engine is not None:
            click.echo(clean(f"worker for {engine.temporal}, queue {engine.queue}; Ctrl-C stops it"))

    async with state.enter(crib, crib), stop_signals() as stop, anyio.create_task_group() as tasks:

        async def end_when_asked() -> None:
            await stop.asked.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_when_asked)
        await crib.run_worker(on_started=show_start)
