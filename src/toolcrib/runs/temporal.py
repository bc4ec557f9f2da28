"""Durable runs on Temporal: starts their workflows, waits for them, and serves the workers.

Temporal says which worker does the next piece of a run, and notices when one has died. What was done is in
the journal, in the store that all workers share.
"""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

from toolcrib.concurrency.background import Background
from toolcrib.errors import EngineUnavailableError, MissingExtraError, RunStateError
from toolcrib.runs.pieces import Piece, PieceReply, RunTask

if TYPE_CHECKING:
    from temporalio.client import Client

T = TypeVar("T")
_CONNECT_TIMEOUT = 10.0
"""Seconds in which the server must answer."""
_AWAY = 120.0
"""Seconds for which a caller who waits for a run goes on waiting while the server is away."""
_AWAY_SHORT = 3.0
"""The same for callers who list or cancel runs."""
_PAUSE = 0.2
"""Seconds between attempts to reach the server."""
_LONGEST_BEAT = 1.0
"""Seconds between heartbeats at most: their answers tell a worker that its piece was cancelled."""
_LONGEST_STICKY = 2.0
"""Seconds at most for which the next step of a workflow waits for the worker that has it in memory."""
_CLEANUP_TIMEOUT = 5.0
"""Seconds for the cancellation of a run whose caller was cancelled."""
_FEATURE = "an engine for durable runs"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """How a Temporal server is reached."""

    address: str
    """Its host and port."""
    namespace: str = "default"
    """The namespace of the workflows."""
    tls: bool = False
    """Whether the connection is encrypted."""
    ca: Path | None = None
    """A file with the authorities that are trusted instead of those of the system."""
    certificate: Path | None = None
    """The file of the client's certificate."""
    private_key: Path | None = None
    """The file of its key."""
    api_key: str | None = None
    """The key of an account at a hosted server."""

    def __repr__(self) -> str:
        return f"ServerAddress({self.address!r}, namespace={self.namespace!r})"


class TemporalEngine:
    """A connection to a Temporal server, which belongs to the event loop that it was made in."""

    def __init__(self, client: "Client", address: str) -> None:
        self._client, self._address = client, address

    @classmethod
    async def connect(cls, to: ServerAddress) -> Self:
        """Connect to a server.

        Raises:
            EngineUnavailableError: it cannot be reached, or refuses the client.
            MissingExtraError: temporalio is not installed.
        """
        try:
            from temporalio.client import Client, TLSConfig  # noqa: PLC0415 - an extra
            from temporalio.service import RPCError  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError(_FEATURE, "temporal") from error

        tls: Any = to.tls
        try:
            if to.tls and (to.ca or to.certificate):
                tls = TLSConfig(
                    server_root_ca_cert=_read_file(to.ca),
                    client_cert=_read_file(to.certificate),
                    client_private_key=_read_file(to.private_key),
                )
            with anyio.fail_after(_CONNECT_TIMEOUT):
                client = await Client.connect(
                    to.address, namespace=to.namespace, tls=tls, api_key=to.api_key, identity=_identity()
                )
        except TimeoutError as error:
            raise EngineUnavailableError(to.address, f"no answer within {_CONNECT_TIMEOUT:g} s") from error
        except (OSError, RuntimeError, ValueError, RPCError) as error:
            raise EngineUnavailableError(to.address, _first_line(error)) from error
        return cls(client, to.address)

    async def run_workflow(self, task: RunTask, workflow: str, queue: str) -> PieceReply:
        """Start the workflow of a run by an id of its own, wait until it ends, and return how.

        A caller that is cancelled cancels the workflow. `queue` is its task queue.

        Raises:
            EngineUnavailableError: the server cannot be reached. A workflow that was started goes on.
            RunStateError: the workflow was cancelled or terminated; the run can be resumed.
        """
        from temporalio.exceptions import WorkflowAlreadyStartedError  # noqa: PLC0415 - an extra

        from toolcrib.runs.workflow import WORKFLOW  # noqa: PLC0415 - needs the extra

        async def start() -> None:
            # `WorkflowAlreadyStartedError`: an attempt whose answer was lost has started it.
            with suppress(WorkflowAlreadyStartedError):
                await self._client.start_workflow(
                    WORKFLOW,
                    task,
                    id=workflow,
                    task_queue=queue,
                    task_timeout=timedelta(seconds=task.heartbeat),
                )

        try:
            await self._reach(start)
            return await self._reach(partial(self._wait_for_end, workflow, task.run_id))
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLEANUP_TIMEOUT, shield=True), suppress(EngineUnavailableError):
                await self.cancel_workflow(workflow)
            raise

    async def cancel_workflow(self, workflow: str) -> None:
        """Cancel a workflow, and wait until it has released its run.

        Raises:
            EngineUnavailableError: the server cannot be reached.
        """
        await self._reach(self._client.get_workflow_handle(workflow).cancel, _AWAY_SHORT)
        with suppress(RunStateError):
            await self._reach(partial(self._wait_for_end, workflow, ""), _AWAY_SHORT)

    async def is_running(self, workflow: str) -> bool:
        """Return whether a workflow has not ended.

        Raises:
            EngineUnavailableError: the server cannot be reached.
        """
        from temporalio.client import WorkflowExecutionStatus  # noqa: PLC0415 - an extra
        from temporalio.service import RPCError, RPCStatusCode  # noqa: PLC0415

        async def describe() -> bool:
            try:
                described = await self._client.get_workflow_handle(workflow).describe()
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return False
                raise
            return described.status == WorkflowExecutionStatus.RUNNING

        return await self._reach(describe, _AWAY_SHORT)

    @asynccontextmanager
    async def serve_pieces(
        self,
        queues: Collection[str],
        do_piece: Callable[[Piece], Awaitable[PieceReply]],
        release: Callable[[Piece], Awaitable[None]],
        *,
        heartbeat: float,
        shutdown_timeout: float,
    ) -> AsyncIterator[None]:
        """Serve workers for task queues, the first of which also has the workflows, until the block ends.

        Then pieces that run have `shutdown_timeout` seconds to end.
        """
        from temporalio import activity  # noqa: PLC0415 - an extra
        from temporalio.worker import UnsandboxedWorkflowRunner, Worker  # noqa: PLC0415

        from toolcrib.runs.workflow import DO_PIECE, RELEASE, RunWorkflow  # noqa: PLC0415 - needs the extra

        beat = min(heartbeat / 4, _LONGEST_BEAT)

        async def send_heartbeats() -> None:
            while True:
                activity.heartbeat()
                await anyio.sleep(beat)

        @activity.defn(name=DO_PIECE)
        async def do_piece_alive(piece: Piece) -> PieceReply:
            alive = Background(send_heartbeats)
            try:
                return await do_piece(piece)
            finally:
                await alive.stop()

        @activity.defn(name=RELEASE)
        async def release_run(piece: Piece) -> None:
            await release(piece)

        first, *others = dict.fromkeys(queues)
        sticky = timedelta(seconds=min(heartbeat / 2, _LONGEST_STICKY))
        common: Mapping[str, Any] = {
            "graceful_shutdown_timeout": timedelta(seconds=shutdown_timeout),
            "max_heartbeat_throttle_interval": timedelta(seconds=beat),
            "workflow_runner": UnsandboxedWorkflowRunner(),
        }
        stack = AsyncExitStack()
        try:
            for queue in others:
                worker = Worker(self._client, task_queue=queue, activities=[do_piece_alive], **common)
                await stack.enter_async_context(worker)
            everything = Worker(
                self._client,
                task_queue=first,
                workflows=[RunWorkflow],
                activities=[do_piece_alive, release_run],
                sticky_queue_schedule_to_start_timeout=sticky,
                **common,
            )
            await stack.enter_async_context(everything)
            yield
        finally:
            with anyio.CancelScope(shield=True):  # what runs has its time to end
                await stack.aclose()

    async def _wait_for_end(self, workflow: str, run_id: str) -> PieceReply:
        from temporalio.client import WorkflowFailureError  # noqa: PLC0415 - an extra
        from temporalio.exceptions import CancelledError, TerminatedError  # noqa: PLC0415

        try:
            handle = self._client.get_workflow_handle(workflow, result_type=PieceReply)
            reply: PieceReply = await handle.result()
        except WorkflowFailureError as error:
            ends: dict[type, str] = {CancelledError: "cancelled", TerminatedError: "terminated in Temporal"}
            how = ends.get(type(error.cause), f"ended by Temporal: {_first_line(error.cause)}")
            raise RunStateError(run_id, f"it was {how}, and can be resumed") from error
        return reply

    async def _reach(self, ask: Callable[[], Awaitable[T]], patience: float = _AWAY) -> T:
        """Ask the server for something, and ask again while it is away, for so many seconds.

        Raises:
            EngineUnavailableError: it was away for too long, or refuses.
        """
        from temporalio.service import RPCError, RPCStatusCode  # noqa: PLC0415 - an extra

        refusals = {
            RPCStatusCode.INVALID_ARGUMENT,
            RPCStatusCode.NOT_FOUND,
            RPCStatusCode.PERMISSION_DENIED,
            RPCStatusCode.UNAUTHENTICATED,
            RPCStatusCode.UNIMPLEMENTED,
        }
        away_since = None
        while True:
            asked = monotonic()
            try:
                return await ask()
            except RPCError as error:
                if away_since is None or monotonic() - asked > _CONNECT_TIMEOUT:  # it was there meanwhile
                    away_since = asked
                if error.status in refusals or monotonic() - away_since > patience:
                    raise EngineUnavailableError(self._address, _first_line(error)) from error
            await anyio.sleep(_PAUSE)


def _first_line(error: BaseException | None) -> str:
    return str(error or "unknown").partition("\n")[0][:300]


def _identity() -> str:
    """Return the name of this process, as the pages of Temporal show it."""
    return f"toolcrib-{os.getpid()}@{socket.gethostname()}"


def _read_file(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()
