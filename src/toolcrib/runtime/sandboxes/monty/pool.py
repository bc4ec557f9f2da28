"""Workers of the engine, and one run in one of them."""

import atexit
from collections.abc import Collection
from contextlib import ExitStack
from functools import cache
from threading import Lock
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
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.records import Output, Stream
from toolcrib.runtime.sandboxes.monty.calls import Calls
from toolcrib.runtime.sandboxes.monty.durable import Drive, environment
from toolcrib.runtime.sandboxes.monty.failures import bounds, check_foreseen, failure, in_value, is_unread
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


class Printed:
    """Passes on what the guest prints; the engine calls it from threads of its own."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._lock = Lock()
        self._closed = False

    def write(self, stream: Stream, text: str) -> None:
        """Keep what fits, until the end of the run."""
        with self._lock:
            if not self._closed:
                self._output.write(stream, text)

    def close(self) -> None:
        """Take no more."""
        with self._lock:
            self._closed = True


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
        check_foreseen(job.code)
        async with self._turns:
            return await _read(await self._run(job, calls), job.limits.output_bytes)

    async def _run(self, job: Job, calls: Calls) -> Any:
        session = await self._session(job)
        printed = Printed(job.output)
        try:
            outcome = await _outcome(session, job, calls, printed)
        except BaseException:
            with anyio.move_on_after(_PATIENCE, shield=True):  # a worker in the middle of something is killed
                await session.__aexit__(None, None, None)
            raise
        else:
            await session.__aexit__(None, None, None)
        finally:
            printed.close()
            await calls.close()
        return outcome

    async def _session(self, job: Job) -> AsyncMontySession:
        session = self._engine.checkout(
            limits=bounds(job.limits, job.timeout), os_policy=_POLICY, assert_message_annotations=False
        )
        try:
            # a start given up halfway would leave its worker behind
            with anyio.move_on_after(_PATIENCE, shield=True):
                await session.__aenter__()
                return session
        except (MontyError, OSError, RuntimeError) as error:
            raise RuntimeUnavailableError("monty", f"its worker does not start: {error}") from error
        raise RuntimeUnavailableError("monty", f"its worker does not start within {_PATIENCE:g} s")


async def _outcome(session: AsyncMontySession, job: Job, calls: Calls, printed: Printed) -> Any:
    """Return the value that the code left, in the form in which it leaves."""
    try:
        if job.journal is not None and job.journal.state is not None:
            return await Drive(session, job, job.journal, calls, printed.write).resume(job.journal.state)
        if prelude := calls.prelude(job):
            await session.feed_run(prelude, external_lookup=calls.functions)
        if job.journal is not None:
            return await Drive(session, job, job.journal, calls, printed.write).start()
        return await session.feed_run(
            with_value(job.code),
            inputs={"__out": None},
            external_lookup=calls.functions,
            print_callback=printed.write,
            os=environment,
        )
    except MontyError as error:
        if job.journal is not None and isinstance(error, MontyCrashedError) and not error.timed_out:
            raise SandboxViolationError("its worker died; the run can be resumed") from error
        if not in_value(error, job.code):
            raise await _failure(session, error, job) from error
    except _UNREADABLE as error:  # what our own code returns can be read
        raise CodeError(RETURNED) from error
    try:
        return await session.feed_run(EXPLAINING, print_callback=printed.write, os=environment)
    except MontyError as error:
        raise failure(error, job) from error


async def _failure(session: AsyncMontySession, error: MontyError, job: Job) -> ToolcribError:
    """Return what went wrong; a syntax error is that of the code alone, without what we add."""
    if is_unread(error):
        try:
            await session.feed_run(f"{_NEVER}\n{job.code}")
        except MontySyntaxError as alone:
            return failure(alone, job, before=1)
        except MontyError:  # it has ended at the first line: what we add is to blame
            pass
    return failure(error, job)


async def _read(value: Any, limit: int) -> Any:
    if type(value) is tuple and any(type(part) is str and len(part) > _LARGE for part in value[:2]):
        return await to_thread.run_sync(read_value, value, limit)
    return read_value(value, limit)
