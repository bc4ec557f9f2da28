"""The workflow of a durable run in Temporal.

It knows nothing of chains and code. One activity finds the next calls of the run and begins them in its
journal; each call is an activity; and so on until the run ends. A single call and the advance after it are
one activity, so that a chain of six steps takes seven.

What is in the journal decides, and the history of Temporal only says which pieces are done by whom. So this
module seldom changes. A change of the commands that it gives, in their order too, needs
`workflow.patched("name")` around it, since runs that are under way are replayed by it: the tests replay
histories of released versions.
"""

import asyncio  # noqa: TID251 - Temporal runs workflows in an asyncio event loop of its own
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityCancellationType

from toolcrib.runs.pieces import NextCall, Piece, PieceReply, RunTask

WORKFLOW = "toolcrib.run"
"""The name of the workflow."""
DO_PIECE = "toolcrib.piece"
"""The name of the activity that does a `Piece`."""
RELEASE = "toolcrib.release"
"""The name of the activity that releases a run, so that it can be resumed."""
NOT_MADE = "CallNotMadeError"
"""The type of the failure of a call that was certainly not made."""
NOT_HELD = "RunStateError"
"""The type of the failure of a piece whose run this workflow does not hold any more."""
_LONGEST = timedelta(days=30)
"""Limit of one call, which has a timeout of its own; a dead worker is noticed by its heartbeat."""
_SAFE = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    maximum_interval=timedelta(seconds=5),
    maximum_attempts=30,
    non_retryable_error_types=[NOT_HELD],
)
"""For what may be done twice."""
_ONCE = RetryPolicy(maximum_attempts=1)
_PAUSE = 0.5
"""Seconds before a call that was not made is tried again."""


@workflow.defn(name=WORKFLOW, sandboxed=False)
class RunWorkflow:
    """Has the pieces of one durable run done until it ends, and returns how it ended."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[PieceReply]] = {}
        """The activities that run, by the key of the call; that of the advance is empty."""
        self._began = workflow.time()

    @workflow.run
    async def run(self, task: RunTask) -> PieceReply:
        """Return how the run ended."""
        try:
            end = await self._run_to_end(task)
        except asyncio.CancelledError:
            await self._stop(task)
            raise
        if end.end not in {"done", "failed"}:
            await self._stop(task)
        return end

    async def _run_to_end(self, task: RunTask) -> PieceReply:
        lost: list[str] = []
        must_advance = True
        while True:
            if must_advance and "" not in self._running and not (lost and self._running):
                self._start(task, None, lost=lost)
                must_advance, lost = False, []
            left = None if task.timeout is None else max(0.0, task.timeout - self._elapsed)
            done, _ = await workflow.wait(
                [*self._running.values()], timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                return PieceReply(end="timeout")
            for key in [key for key, each in self._running.items() if each in done]:
                try:
                    reply = self._running.pop(key).result()
                except ActivityError:  # it was tried again and again
                    return PieceReply(end="lost")
                if reply.end:
                    return reply
                must_advance = must_advance or not reply.advanced
                lost += [key] if reply.lost else []
                only = len(reply.calls) == 1 and not self._running and not must_advance
                for call in reply.calls:
                    self._start(task, call, advances=only and call.queue == task.queue)

    @property
    def _elapsed(self) -> float:
        return workflow.time() - self._began

    def _start(
        self, task: RunTask, call: NextCall | None, *, advances: bool = True, lost: list[str] | None = None
    ) -> None:
        """Start the activity of a call, or the one that finds the next calls."""
        piece = Piece(
            task.run_id,
            workflow.info().workflow_id,
            task.principal,
            elapsed=self._elapsed,
            key=None if call is None else call.key,
            within=None if call is None else call.within,
            advances=advances,
            running=tuple(self._running),
            lost=tuple(lost or ()),
        )
        made = self._make_call(task, call, piece) if call is not None else self._advance(task, piece)
        self._running["" if call is None else call.key] = asyncio.create_task(made)

    async def _advance(self, task: RunTask, piece: Piece) -> PieceReply:
        return await self._execute(task, piece, task.queue, _SAFE, "advance")

    async def _make_call(self, task: RunTask, call: NextCall, piece: Piece) -> PieceReply:
        retry = _SAFE if call.repeatable else _ONCE
        try:
            return await self._execute(task, piece, call.queue, retry, call.tool_id)
        except ActivityError as error:
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.type == NOT_MADE:
                await asyncio.sleep(_PAUSE)
                return PieceReply(advanced=False)
            return PieceReply(advanced=False, lost=True)

    async def _execute(
        self, task: RunTask, piece: Piece, queue: str, retry: RetryPolicy, what: str
    ) -> PieceReply:
        reply: PieceReply = await workflow.execute_activity(
            DO_PIECE,
            piece,
            result_type=PieceReply,
            task_queue=queue,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=timedelta(seconds=task.heartbeat),
            retry_policy=retry,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=what[:200],
        )
        return reply

    async def _stop(self, task: RunTask) -> None:
        """Cancel what still runs, and release the run, so that it can be resumed."""
        running = [*self._running.values()]
        for each in running:
            each.cancel()
        if running:
            await workflow.wait(running)
            await asyncio.gather(*running, return_exceptions=True)
        piece = Piece(task.run_id, workflow.info().workflow_id, task.principal)
        await workflow.execute_activity(
            RELEASE, piece, start_to_close_timeout=timedelta(seconds=30), retry_policy=_SAFE
        )
