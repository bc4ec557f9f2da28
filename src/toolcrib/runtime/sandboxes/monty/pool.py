"""Pool of the engine's workers, and runs of code in them.

The engine keeps its own processes; this pool limits the runs, and handles two facts of the engine. A start or
an end of a worker that is cancelled halfway leaves a process behind, so both are shielded with a timeout. And
the engine's threads may print and hold objects after a run, so the output is closed first, and the program
waits a moment at its exit.
"""

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
    has_syntax_error,
    is_value_error,
    read_failure,
)
from toolcrib.runtime.sandboxes.monty.values import (
    EXPLAIN_VALUE_CODE,
    RETURN_OUTSIDE_FUNCTION,
    read_value,
    with_value,
)
from toolcrib.runtime.sandboxes.monty.wall import worker_script

_KILL_DELAY = 0.5
"""Seconds after the CPU limit when the engine kills a worker that has not stopped by itself."""
_WORKER_TIMEOUT = 10.0
"""Seconds to wait for a worker to start, or to end a run."""
_RUNS_PER_WORKER = 1000
"""Then a worker is replaced, so that memory that it may leak has a limit."""
_POLICY: OSPolicy = {"sleep": "system", "sleep_system_max": float("inf"), "process_time": "elapsed"}
_EXIT_DELAY = 0.05
_CONVERSION_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
"""Raised by the engine for a value that it cannot convert to Python."""
_UNDEFINED_NAME = "__toolcrib_never__"
"""Code that begins with it is parsed, fails with NameError, and so does not run."""
_THREAD_CHARACTERS = 1 << 18
"""Longer values are parsed in a thread, so that they do not block the event loop."""


@cache
def _delay_exit() -> None:
    """Delay the exit of the interpreter: the engine's threads would abort it while they hold objects."""
    atexit.register(sleep, _EXIT_DELAY)


class WorkerPool:
    """Keeps workers ready; each serves one run at a time."""

    def __init__(self, files: ExitStack, engine: AsyncMonty, workers: int) -> None:
        self._files = files
        self._engine = engine
        self._slots = anyio.Semaphore(workers, fast_acquire=True)

    @classmethod
    async def start(cls, walls: Collection[str], *, workers: int) -> Self:
        """Start a first worker.

        Raises:
            RuntimeUnavailableError: none can be started.
        """
        _delay_exit()
        files = ExitStack()
        with anyio.CancelScope(
            shield=True
        ):  # a start that is cancelled halfway would leave its worker behind
            try:
                script = await to_thread.run_sync(files.enter_context, worker_script(walls))
                engine = AsyncMonty(
                    binary_path=script,
                    max_processes=workers,
                    max_checkouts_per_worker=_RUNS_PER_WORKER,
                    feed_duration_limit_grace=_KILL_DELAY,
                )
                await engine.__aenter__()
            except Exception as error:  # the engine documents no exceptions of a start
                await to_thread.run_sync(files.close)
                raise RuntimeUnavailableError("monty", f"its worker does not start: {error}") from error
        return cls(files, engine, workers)

    async def close(self) -> None:
        """End all workers."""
        await self._engine.__aexit__(None, None, None)
        await to_thread.run_sync(self._files.close)

    async def run(self, job: Job, calls: Calls) -> Any:
        """Run code in a worker; see `Sandbox`.

        Raises:
            RuntimeUnavailableError: workers do not start; the pool cannot be used any more.
        """
        if unsupported := find_unsupported(job.code):
            line, feature = unsupported
            raise CodeError(unsupported_message(feature), line, unsupported=True)
        async with self._slots:
            session = await self._start_session(job)
            try:
                value = await _run_code(session, job, calls)
            except BaseException:
                with anyio.move_on_after(
                    _WORKER_TIMEOUT, shield=True
                ):  # a worker that is still busy is killed
                    await session.__aexit__(None, None, None)
                raise
            else:
                await session.__aexit__(None, None, None)
            finally:
                job.output.close()  # the engine may print from its threads until the worker has ended
                await calls.close()
        limit = job.limits.output_bytes
        if type(value) is tuple and any(
            type(part) is str and len(part) > _THREAD_CHARACTERS for part in value[:2]
        ):
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
            # a start that is cancelled halfway would leave its worker behind
            with anyio.move_on_after(_WORKER_TIMEOUT, shield=True):
                await session.__aenter__()
                return session
        except (MontyError, OSError, RuntimeError) as error:
            raise RuntimeUnavailableError("monty", f"its worker does not start: {error}") from error
        raise RuntimeUnavailableError("monty", f"its worker does not start within {_WORKER_TIMEOUT:g} s")


async def _run_code(session: AsyncMontySession, job: Job, calls: Calls) -> Any:
    """Run the code, and return its value as the guest wrote it."""
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
    except _CONVERSION_ERRORS as error:  # our own code returns texts, so the guest code has returned
        raise CodeError(RETURN_OUTSIDE_FUNCTION) from error
    try:
        return await session.feed_run(EXPLAIN_VALUE_CODE, print_callback=write, os=environment)
    except MontyError as error:
        raise read_failure(error, job) from error


async def _explain_failure(session: AsyncMontySession, error: MontyError, job: Job) -> ToolcribError:
    """Return the error for a failed run.

    Our own lines after the code may change the message of a syntax error, so it is parsed again without them.
    """
    if has_syntax_error(error):
        try:
            await session.feed_run(f"{_UNDEFINED_NAME}\n{job.code}")
        except MontySyntaxError as alone:
            return read_failure(alone, job, before=1)
        except MontyError:  # NameError at the first line: the code alone has no syntax error
            pass
    return read_failure(error, job)
