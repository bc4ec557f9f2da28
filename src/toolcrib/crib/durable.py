"""Durable runs of a crib: they can be listed and resumed, also by another process."""

import asyncio  # noqa: TID251 - a client of Temporal belongs to one event loop
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, TypeVar

import anyio

from toolcrib.concurrency.background import await_future
from toolcrib.concurrency.threads import Threads
from toolcrib.crib.compose import Hooks, fill_address
from toolcrib.crib.config.settings import MEMORY, EngineSettings, Settings
from toolcrib.errors import (
    ChainError,
    CodeError,
    ConfigError,
    EngineUnavailableError,
    LimitExceededError,
    MissingExtraError,
    Problem,
    RunNotFoundError,
    RunStateError,
    RuntimeUnavailableError,
    ToolcribError,
)
from toolcrib.execution.chains import Around, RunTool
from toolcrib.execution.kept import unmark_handles
from toolcrib.execution.variables import Expansion
from toolcrib.model.record import Record
from toolcrib.paths import runs_file, runs_key
from toolcrib.postgres import is_postgres, public_address
from toolcrib.runs import MemoryRunStore, PostgresRunStore, RunRecord, RunStore, SqliteRunStore
from toolcrib.runs.journal import RunJournal, serialize_error
from toolcrib.runs.keeper import RunKeeper
from toolcrib.runs.pieces import PieceReply, RunTask
from toolcrib.runs.signing import Signer, check_key, load_key
from toolcrib.runs.temporal import ServerAddress, TemporalEngine

T = TypeVar("T", bound=Record)
_THREADS = 4
"""Threads for calls of the store, which may block."""


def runs_address(settings: Settings) -> str | None:
    """Return the address of the database of a configuration's durable runs; None if there is none."""
    named = settings.runs.store or settings.store or ""
    return named if is_postgres(named) else None


def runs_place(settings: Settings, environ: Mapping[str, str] | None = None) -> str:
    """Return where a configuration's durable runs are kept, for people; empty if they are in memory."""
    address = runs_address(settings)
    return public_address(address) if address else str(runs_path(settings, environ) or "")


def runs_path(settings: Settings, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file of a configuration's durable runs; None if they are in memory."""
    if settings.runs.store is None:
        return runs_file(settings.source, environ)
    return None if settings.runs.store == MEMORY else Path(settings.runs.store).expanduser()


def engine_address(settings: Settings, environ: Mapping[str, str] | None = None) -> ServerAddress:
    """Return how the Temporal server of a configuration is reached.

    Raises:
        ConfigError: there is none, or a variable is not set.
    """
    engine = _engine_of(settings)
    fill = Expansion(os.environ if environ is None else environ)
    key = None if engine.api_key is None else fill.text(engine.api_key, path="/engine/api_key")
    if fill.problems:
        raise ConfigError(settings.origin, tuple(fill.problems))
    return ServerAddress(
        engine.temporal,
        namespace=engine.namespace,
        tls=engine.tls,
        ca=None if engine.ca is None else Path(engine.ca),
        certificate=None if engine.certificate is None else Path(engine.certificate),
        private_key=None if engine.private_key is None else Path(engine.private_key),
        api_key=key,
    )


def _engine_of(settings: Settings) -> EngineSettings:
    if settings.engine is None:
        reason = "names no Temporal server; without one, the process that starts a run executes it"
        raise ConfigError(settings.origin, (Problem("/engine", "missing", reason),))
    return settings.engine


class DurableRuns:
    """The durable runs of a crib and its views; the store is opened at first use."""

    def __init__(self, settings: Callable[[], Settings], hooks: Hooks) -> None:
        self._settings = settings
        self._environ = hooks.environ
        self._given = hooks.run_store
        self._lasting = self._given or MemoryRunStore()
        """A store of the program or in memory, which is not closed here."""
        self._opening = Lock()
        self._store: RunStore | None = None
        self._threads = Threads(_THREADS)
        self._connected: tuple[asyncio.AbstractEventLoop, ServerAddress, TemporalEngine] | None = None
        self._connecting = anyio.Lock()
        self._running: dict[str, anyio.CancelScope] = {}

    @asynccontextmanager
    async def keeper(self, *, keep: bool) -> AsyncIterator[RunKeeper]:
        """Yield the keeper of the runs; with `keep`, its store stays open until `close`."""
        settings = self._settings()
        with anyio.CancelScope(shield=True):  # else a store that the thread has opened would never be closed
            signer, store = await await_future(self._threads.submit(partial(self._open, settings, keep=keep)))
        kept = settings.runs
        try:
            yield RunKeeper(
                store, signer, max_age=kept.max_age, max_runs=kept.max_runs, threads=self._threads
            )
        except RunNotFoundError as error:
            error.where = "" if self._given else runs_place(settings, self._environ)
            raise
        finally:
            if store is not self._store and store is not self._lasting:
                with anyio.CancelScope(shield=True):
                    await await_future(self._threads.submit(store.close))

    async def run_to_end(self, keeper: RunKeeper, journal: RunJournal, run: Callable[[], Awaitable[T]]) -> T:
        """Run a durable run and record its end; one that fails for an external reason stays resumable.

        Raises:
            RunStateError: `cancel` was called.
        """
        with anyio.CancelScope() as scope:
            self._running[journal.run_id] = scope
            try:
                async with keeper.release_after(journal):
                    try:
                        result = await run()
                    except ToolcribError as error:
                        if is_final(error, journal):
                            await journal.end(
                                "failed", {"message": str(error), "error": serialize_error(error)}
                            )
                        raise
                    await journal.end("done", result.model_dump(mode="json", by_alias=True))
                    return result
            finally:
                del self._running[journal.run_id]
        raise RunStateError(journal.run_id, "it was cancelled, and can be resumed")

    async def new_workflow(self) -> str | None:
        """Return the id of a new workflow, for a run that Temporal is to do; None without an engine.

        Raises:
            EngineUnavailableError: Temporal cannot be reached.
        """
        if self._settings().engine is None:
            return None
        await self.connect()
        return f"toolcrib-{token_hex(8)}"

    async def connect(self) -> TemporalEngine:
        """Return the connection to the Temporal server of the settings, one for each event loop.

        Raises:
            EngineUnavailableError: it cannot be reached, or there is none in the settings.
        """
        to = engine_address(self._settings(), self._environ)
        async with self._connecting:
            loop = asyncio.get_running_loop()
            if self._connected is None or self._connected[:2] != (loop, to):
                self._connected = (loop, to, await TemporalEngine.connect(to))
            return self._connected[2]

    async def run_workflow(self, keeper: RunKeeper, task: RunTask, workflow: str) -> PieceReply:
        """Have Temporal do a run that the workflow holds, and return how it ended.

        A run whose workflow ends without a word is released.

        Raises:
            EngineUnavailableError: the server cannot be reached.
            RunStateError: the workflow was cancelled or terminated; the run can be resumed.
        """
        engine = await self.connect()
        try:
            return await engine.run_workflow(task, workflow, self.engine.queue)
        except RunStateError:
            await keeper.release_workflow(task.run_id, workflow)
            raise

    async def find_ended(self, runs: Iterable[RunRecord]) -> frozenset[str]:
        """Return the workflows that hold runs, and have ended without releasing them.

        While the server is away, none has.
        """
        held = [run.workflow for run in runs if run.workflow is not None]
        if not held or self._settings().engine is None:
            return frozenset()
        try:
            engine = await self.connect()
            return frozenset([each for each in held if not await engine.is_running(each)])
        except (EngineUnavailableError, MissingExtraError):
            return frozenset()

    async def cancel_workflow(self, workflow: str) -> None:
        """Cancel a workflow, and wait until it has released its run."""
        await (await self.connect()).cancel_workflow(workflow)

    @property
    def engine(self) -> EngineSettings:
        """The engine of the settings.

        Raises:
            ConfigError: there is none.
        """
        return _engine_of(self._settings())

    def cancel(self, run_id: str) -> bool:
        """Cancel a run that this process runs; return False if it does not."""
        scope = self._running.get(run_id)
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def close(self) -> None:
        """Close the store."""
        store, self._store = self._store, None
        if store is not None and store is not self._lasting:
            with anyio.CancelScope(shield=True):
                await await_future(self._threads.submit(store.close))

    def _open(self, settings: Settings, *, keep: bool) -> tuple[Signer, RunStore]:
        """Return the signer and the store, opened if necessary; blocks, so it is called in a thread."""
        signer = Signer(self._read_key(settings))
        with self._opening:
            if self._store is not None:
                return signer, self._store
            store = self._open_store(settings)
            self._store = store if keep else None
            return signer, store

    def _open_store(self, settings: Settings) -> RunStore:
        address = runs_address(settings)
        if self._given is not None:
            return self._given
        if address is not None:
            url = fill_address(settings, address, self._environ)
            return PostgresRunStore(url, timeout=settings.postgres.timeout)
        path = runs_path(settings, self._environ)
        return self._lasting if path is None else SqliteRunStore(path)

    def _read_key(self, settings: Settings) -> bytes:
        if settings.runs.key is None:
            return load_key(runs_key(self._environ))
        fill = Expansion(os.environ if self._environ is None else self._environ)
        key = fill.text(settings.runs.key, path="/runs/key")
        if fill.problems:
            raise ConfigError(settings.origin, tuple(fill.problems))
        return check_key(key.encode(), settings.origin)


def journal_calls(journal: RunJournal) -> Around:
    """Return a wrapper for chains that records each call in a journal."""

    def around(run: RunTool) -> RunTool:
        async def run_recorded(tool_id: str, args: dict[str, Any], within: float | None, step: str) -> Any:
            make = partial(run, tool_id, args, within, step)
            return await journal.call(step, tool_id, unmark_handles(args), make)

        return run_recorded

    return around


def is_final(error: ToolcribError, journal: RunJournal) -> bool:
    """Return whether a resumed run would fail with the same error."""
    if isinstance(error, LimitExceededError):
        return error.limit != "timeout"
    if isinstance(error, RuntimeUnavailableError):  # without a recorded call there is nothing to resume
        return not journal.changed
    return isinstance(error, CodeError | ChainError) and not journal.uncertain
