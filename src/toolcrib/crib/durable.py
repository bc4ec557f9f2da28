"""Durable runs of a crib: begun, listed, and taken up again, also in another process."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import anyio

from toolcrib.concurrency.background import result_of
from toolcrib.concurrency.threads import Threads
from toolcrib.crib.compose import Hooks
from toolcrib.crib.config.settings import MEMORY, Settings
from toolcrib.crib.sources.waiting import Waiting
from toolcrib.discovery import Index, IndexView
from toolcrib.errors import (
    ChainError,
    CodeError,
    ConfigError,
    LimitExceededError,
    RunNotFoundError,
    RuntimeUnavailableError,
    ToolcribError,
    ValidationError,
)
from toolcrib.execution import Principal, Request
from toolcrib.execution.chain import PLACE, Around, ChainLimits, ChainProgress, ChainResult, RunTool, Steps
from toolcrib.execution.chain.chain import invalid, read_chain
from toolcrib.execution.pipeline import ask_validator
from toolcrib.execution.variables import Expansion
from toolcrib.model import SchemaValidator
from toolcrib.model.record import Record
from toolcrib.places import runs_file, runs_key
from toolcrib.runs import MemoryRunStore, RunRecord, RunStore, SqliteRunStore
from toolcrib.runs.journal import RunJournal
from toolcrib.runs.keeper import RunKeeper
from toolcrib.runs.signing import Signer, checked_key, key_in
from toolcrib.runtime import ExecuteRequest, ExecuteResult

T = TypeVar("T", bound=Record)
_THREADS = 4
"""How many durable runs wait for the store at once; the others wait for a thread."""
_SHOWN = 500
"""How many characters of an output schema are shown to whoever gave an answer that does not fit it."""


def runs_path(settings: Settings, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file that keeps the durable runs of a configuration; None where they are kept in memory."""
    if settings.runs.store is None:
        return runs_file(settings.source, environ)
    return None if settings.runs.store == MEMORY else Path(settings.runs.store).expanduser()


class DurableRuns:
    """The durable runs of a crib and of all its views; the store is opened when it is first needed."""

    def __init__(self, settings: Callable[[], Settings], hooks: Hooks) -> None:
        self._settings = settings
        self._environ = hooks.environ
        self._given = hooks.run_store
        self._lasting = self._given or MemoryRunStore()
        """A store that is not closed here."""
        self._opening = Lock()
        self._store: RunStore | None = None
        self._threads = Threads(_THREADS)

    @asynccontextmanager
    async def keeper(self, *, keep: bool) -> AsyncIterator[RunKeeper]:
        """Give what keeps the runs; its store stays open where `keep` says that somebody will `close` it."""
        settings = self._settings()
        with anyio.CancelScope(shield=True):  # a store that is opened is closed below
            signer, store = await result_of(self._threads.submit(partial(self._open, settings, keep=keep)))
        kept = settings.runs
        try:
            yield RunKeeper(
                store, signer, max_age=kept.max_age, max_runs=kept.max_runs, threads=self._threads
            )
        except RunNotFoundError as error:
            error.where = "" if self._given else str(runs_path(settings, self._environ) or "")
            raise
        finally:
            if store is not self._store and store is not self._lasting:
                with anyio.CancelScope(shield=True):
                    await result_of(self._threads.submit(store.close))

    async def close(self) -> None:
        """Close the store."""
        store, self._store = self._store, None
        if store is not None and store is not self._lasting:
            with anyio.CancelScope(shield=True):
                await result_of(self._threads.submit(store.close))

    def _open(self, settings: Settings, *, keep: bool) -> tuple[Signer, RunStore]:
        """Return the store, which is opened where it is not yet, and what signs; to be called in a thread."""
        signer = Signer(self._key(settings))
        with self._opening:
            if self._store is not None:
                return signer, self._store
            path = runs_path(settings, self._environ)
            is_lasting = self._given is not None or path is None
            store = self._lasting if is_lasting or path is None else SqliteRunStore(path)
            self._store = store if keep else None
            return signer, store

    def _key(self, settings: Settings) -> bytes:
        if settings.runs.key is None:
            return key_in(runs_key(self._environ))
        fill = Expansion(os.environ if self._environ is None else self._environ)
        key = fill.text(settings.runs.key, path="/runs/key")
        if fill.problems:
            raise ConfigError(settings.origin, tuple(fill.problems))
        return checked_key(key.encode(), settings.origin)


class RunVerbs(ABC):
    """The methods of a view for durable runs."""

    @property
    @abstractmethod
    def _durable(self) -> DurableRuns:
        """The runs of the crib."""

    @property
    @abstractmethod
    def _keeps(self) -> bool:
        """Whether somebody will close what is opened."""

    @abstractmethod
    async def _execute(
        self, request: ExecuteRequest, principal: Principal | None, journal: RunJournal | None = None
    ) -> ExecuteResult: ...

    @abstractmethod
    async def _run_steps(self, steps: Steps, principal: Principal | None, **options: Any) -> ChainResult: ...

    @property
    @abstractmethod
    def index(self) -> Index | IndexView:
        """The catalogue."""

    @property
    @abstractmethod
    def _waiting(self) -> Waiting:
        """What a verb waits with."""

    async def _repeatable(self, tool_id: str) -> bool:
        """Return whether to run a tool twice does no more than to run it once."""
        await self._waiting.for_tool(tool_id)
        try:
            return Request(tool=self.index.resolve(tool_id), args={}).repeatable
        except ToolcribError:  # it is gone
            return False

    @property
    @abstractmethod
    def validator(self) -> SchemaValidator:
        """The validator of the crib."""

    async def _check_answer(self, key: str, tool_id: str, answer: Any) -> None:
        """Refuse what a tool cannot have answered a call with: the code that goes on with it would fail."""
        await self._waiting.for_tool(tool_id)
        tool = self.index.resolve(tool_id)
        try:
            ask_validator(self.validator.validate_output, tool, answer, "validate_output")
        except ValidationError as error:
            schema = json.dumps(tool.output_schema, ensure_ascii=False)
            wanted = schema if len(schema) <= _SHOWN else f"{schema[:_SHOWN]}…"
            reason = f"the answer to call {key} of {tool_id!r} does not fit its output schema"
            text = f"{reason}, and was not recorded: {error}; what it must fit: {wanted}"
            raise ValidationError(error.problems, text) from error

    @abstractmethod
    def _whose(self, principal: Principal | None) -> Principal | None:
        """Return who is meant where nobody is named."""

    async def runs(self, *, principal: Principal | None = None) -> tuple[RunRecord, ...]:
        """Return the durable runs, the latest first: those of a principal, or of the program itself."""
        async with self._durable.keeper(keep=self._keeps) as keeper:
            return await keeper.runs(self._whose(principal))

    async def resume(
        self,
        run_id: str,
        *,
        repeat: bool = False,
        answers: Mapping[str, Any] | None = None,
        principal: Principal | None = None,
    ) -> ExecuteResult | ChainResult:
        """Go on with a durable run, and return what came of it; of one that is done, what did.

        Calls that were answered are not made again. Those that were begun, and whose answers are not known,
        are made again where the tool is read-only or idempotent by its annotations.

        Args:
            run_id: the run, as `runs` lists it.
            repeat: make the other calls again, too, that may have run.
            answers: what such calls gave, by key: they are not made.
            principal: whose run it is.

        Raises:
            RunNotFoundError: there is none, or it is somebody else's.
            RunStateError: it is running, or it has failed; or it is done, and answers were given.
            ToolNotFoundError: an answer is for a tool that is not there; the run is as it was.
            ValidationError: an answer does not fit the output schema of its tool; the run is as it was.
            SnapshotError: what is stored was changed, signed with another key, or is too old.
            CallUncertainError: calls may have run, and it may do harm to repeat them.
        """
        who = self._whose(principal)
        async with self._durable.keeper(keep=self._keeps) as keeper:
            run = await keeper.resume(
                run_id,
                who,
                is_repeatable=self._repeatable,
                check_answer=self._check_answer,
                repeat=repeat,
                answers=answers,
            )
            kind = ExecuteResult if run.kind == "code" else ChainResult
            if run.journal is None:
                return kind.from_json(run.result)
            if run.kind == "code":
                return await self._go_on_with_code(keeper, run.journal, run.request, who)
            return await self._go_on_with_chain(keeper, run.journal, run.request, who)

    async def _execute_durably(self, request: ExecuteRequest, principal: Principal | None) -> ExecuteResult:
        async with self._durable.keeper(keep=self._keeps) as keeper:
            asked = request.model_dump(mode="json")
            journal = await keeper.begin("code", asked, principal)
            return await self._go_on_with_code(keeper, journal, asked, principal)

    async def _go_on_with_code(
        self, keeper: RunKeeper, journal: RunJournal, asked: dict[str, Any], principal: Principal | None
    ) -> ExecuteResult:
        run = partial(self._execute, ExecuteRequest(**asked), principal, journal)
        return await _until_its_end(keeper, journal, run)

    async def _run_steps_durably(
        self,
        steps: Steps,
        *,
        timeout: float | None,  # noqa: ASYNC109 - the chain's
        progress: ChainProgress | None,
        limits: ChainLimits | None,
        principal: Principal | None,
    ) -> ChainResult:
        chain, problems = read_chain(steps, limits)
        if problems:
            raise invalid(problems)
        asked = {
            "steps": [node.step.to_json() for node in chain.nodes],
            "timeout": timeout,
            "limits": None if limits is None else asdict(limits),
        }
        async with self._durable.keeper(keep=self._keeps) as keeper:
            journal = await keeper.begin("chain", asked, principal)
            return await self._go_on_with_chain(keeper, journal, asked, principal, progress)

    async def _go_on_with_chain(
        self,
        keeper: RunKeeper,
        journal: RunJournal,
        asked: dict[str, Any],
        principal: Principal | None,
        progress: ChainProgress | None = None,
    ) -> ChainResult:
        limits = None if asked["limits"] is None else ChainLimits(**asked["limits"])

        async def run() -> ChainResult:
            result = await self._run_steps(
                asked["steps"],
                principal,
                timeout=asked["timeout"],
                progress=progress,
                limits=limits,
                around=_journaled(journal),
            )
            return result.replace(run_id=journal.run_id)

        return await _until_its_end(keeper, journal, run)


def _journaled(journal: RunJournal) -> Around:
    """Return what has each call of a chain written down."""

    def around(run: RunTool) -> RunTool:
        async def follow(tool_id: str, args: dict[str, Any], within: float | None) -> Any:
            return await journal.call(PLACE.get(), tool_id, args, partial(run, tool_id, args, within))

        return follow

    return around


async def _until_its_end(keeper: RunKeeper, journal: RunJournal, run: Callable[[], Awaitable[T]]) -> T:
    """Return what a run gives; one that breaks off for another reason than its own can be resumed."""
    async with keeper.held(journal):
        try:
            result = await run()
        except ToolcribError as error:
            if _is_over(error, journal):
                await journal.end("failed", str(error))
            raise
        await journal.end("done", result.model_dump(mode="json", by_alias=True))
        return result


def _is_over(error: ToolcribError, journal: RunJournal) -> bool:
    """Return whether to go on would only fail again."""
    if isinstance(error, LimitExceededError):
        return error.limit != "timeout"
    if isinstance(error, RuntimeUnavailableError):  # with nothing done there is nothing to go on with
        return not journal.changed
    return isinstance(error, CodeError | ChainError) and not journal.uncertain
