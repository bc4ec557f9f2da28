"""Pool of the engine's workers, and the run of code in one of them."""

import atexit
from collections.abc import Collection
from contextlib import ExitStack
from functools import cache
from time import sleep
from typing import Any, Self

import anyio
from anyio import to_thread
from pydantic_monty import (
    AsyncMonty,
    AsyncMontySession,
    MontyCrashedError,
    MontyError,
    MontySyntaxError,
    OSPolicy,
)

from toolcrib.errors import CodeError, RuntimeUnavailableError, SandboxViolationError, ToolcribError
from toolcrib.runtime.guest_errors import unsupported_message
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.sandboxes.monty.calls import Calls
from toolcrib.runtime.sandboxes.monty.durable import DurableDriver, environment
from toolcrib.runtime.sandboxes.monty.failures import (
    engine_limits,
    find_unsupported,
    is_unread,
    is_value_error,
    read_failure,
)
from toolcrib.runtime.sandboxes.monty.values import EXPLAINING, RETURNED, read_value, with_value
from toolcrib.runtime.sandboxes.monty.wall import worker_script

_GRACE = 0.5
"""Seconds after its limit at which a worker that does not end by itself is killed."""
_PATIENCE = 10.0
"""Seconds for which a worker that is given back is waited for."""
_RUNS_PER_WORKER = 1000
_POLICY: OSPolicy = {"sleep": "system", "sleep_system_max": float("inf"), "process_time": "elapsed"}
_SETTLING = 0.05
_UNREADABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What the engine raises for a value that it cannot turn into one of Python."""
_NEVER = "__toolcrib_never__"
"""A name that is not there: code after it is read, and does not run."""
_LARGE = 1 << 18
"""How long a text is that is not read between two turns of the event loop."""


@cache
def _settle_at_exit() -> None:
    """Let the engine's threads drop what they hold before the interpreter ends, for else they abort it."""
    atexit.register(sleep, _SETTLING)


class WorkerPool:
    """Keeps workers ready; each serves one run at a time."""

    def __init__(self, files: ExitStack, engine: AsyncMonty, workers: int) -> None:
        self._files = files
        self._engine = engine
        self._turns = anyio.Semaphore(workers, fast_acquire=True)

    @classmethod
    async def start(cls, walls: Collection[str], *, workers: int) -> Self:
        """Start a first worker.

        Raises:
            RuntimeUnavailableError: none can be started.
        """
        _settle_at_exit()
        files = ExitStack()
        with anyio.CancelScope(shield=True):  # a start that is given up halfway would leave its worker behind
            try:
                script = await to_thread.run_sync(files.enter_context, worker_script(walls))
                engine = AsyncMonty(
                    binary_path=script,
                    max_processes=workers,
                    max_checkouts_per_worker=_RUNS_PER_WORKER,
                    feed_duration_limit_grace=_GRACE,
                )
                await engine.__aenter__()
            except Exception as error:  # whatever the engine raises, there is none
                await to_thread.run_sync(files.close)
                raise RuntimeUnavailableError("monty", f"its worker does not start: {error}") from error
        return cls(files, engine, workers)

    async def close(self) -> None:
        """End all workers."""
        await self._engine.__aexit__(None, None, None)
        await to_thread.run_sync(self._files.close)

    async def run(self, job: Job, calls: Calls) -> Any:
        """Run code in a worker of its own; see `Sandbox`.

        Raises:
            RuntimeUnavailableError: there is no worker, and this pool will have none again.
        """
        if unsupported := find_unsupported(job.code):
            line, feature = unsupported
            raise CodeError(unsupported_message(feature), line, unsupported=True)
        async with self._turns:
            session = await self._start_session(job)
            try:
                value = await _run_code(session, job, calls)
            except BaseException:
                with anyio.move_on_after(
                    _PATIENCE, shield=True
                ):  # a worker in the middle of something is killed
                    await session.__aexit__(None, None, None)
                raise
            else:
                await session.__aexit__(None, None, None)
            finally:
                job.output.close()  # the engine may print from its threads until the worker has ended
                await calls.close()
        limit = job.limits.output_bytes
        if type(value) is tuple and any(type(part) is str and len(part) > _LARGE for part in value[:2]):
            return await to_thread.run_sync(read_value, value, limit)
        return read_value(value, limit)

    async def _start_session(self, job: Job) -> AsyncMontySession:
        """Start a worker for a job, with its limits.

        Raises:
            RuntimeUnavailableError: it does not start.
        """
        session = self._engine.checkout(
            limits=engine_limits(job.limits, job.timeout), os_policy=_POLICY, assert_message_annotations=False
        )
        try:
            # a start given up halfway would leave its worker behind
            with anyio.move_on_after(_PATIENCE, shield=True):
                await session.__aenter__()
                return session
        except (MontyError, OSError, RuntimeError) as error:
            raise RuntimeUnavailableError("monty", f"its worker does not start: {error}") from error
        raise RuntimeUnavailableError("monty", f"its worker does not start within {_PATIENCE:g} s")


async def _run_code(session: AsyncMontySession, job: Job, calls: Calls) -> Any:
    """Run the code, and return the value that it left, still in the form in which the guest wrote it."""
    write, journal = job.output.write, job.journal
    try:
        if journal is not None and journal.state is not None:
            return await DurableDriver(session, job, journal, calls).resume(journal.state)
        if prelude := calls.prelude(job):
            await session.feed_run(prelude, external_lookup=calls.functions)
        if journal is not None:
            return await DurableDriver(session, job, journal, calls).start()
        return await session.feed_run(
            with_value(job.code),
            inputs={"__out": None},
            external_lookup=calls.functions,
            print_callback=write,
            os=environment,
        )
    except MontyError as error:
        if journal is not None and isinstance(error, MontyCrashedError) and not error.timed_out:
            raise SandboxViolationError("its worker died; the run can be resumed") from error
        if not is_value_error(error, job.code):
            raise await _explain_failure(session, error, job) from error
    except _UNREADABLE as error:  # what our own code returns can be read
        raise CodeError(RETURNED) from error
    try:
        return await session.feed_run(EXPLAINING, print_callback=write, os=environment)
    except MontyError as error:
        raise read_failure(error, job) from error


async def _explain_failure(session: AsyncMontySession, error: MontyError, job: Job) -> ToolcribError:
    """Return the error for a failed run; a syntax error is read from the code alone, without what we add."""
    if is_unread(error):
        try:
            await session.feed_run(f"{_NEVER}\n{job.code}")
        except MontySyntaxError as alone:
            return read_failure(alone, job, before=1)
        except MontyError:  # it has ended at the first line: what we add is to blame
            pass
    return read_failure(error, job)
