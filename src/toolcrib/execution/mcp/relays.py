"""Relays what a server asks and reports during a request to the client behind that request."""

import json
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args
from weakref import ref

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    LoggingLevel,
)

from toolcrib.errors import ToolExecutionError
from toolcrib.execution.call import Call, CallClient, Emit, PageNotifier, Update
from toolcrib.execution.mcp.config import OnInput

LOG_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The levels of log messages, the most verbose first."""
_DEFAULT_LEVEL = "info"
APPS = "io.modelcontextprotocol/ui"
"""The extension by which tools name pages that a client shows with their results."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension by which a server may answer a call with a task, which goes on without a request."""
_Result = TypeVar("_Result")
_MAX_QUESTIONS = 16
"""How many questions of a server about one request wait for an answer at once."""
_GIVEN_UP_SECONDS = 60.0
"""So long may a server go on with a request that was given up."""
_MAX_GIVEN_UP = 1_000
_MAX_PAGES = 256
"""Of so many pages that clients were sent to it is known for which request."""
_MAX_PAGE_ID_LENGTH = 1_000
_ROOM = 64
"""How many updates wait for a slow listener; of more, the oldest are dropped."""


class Updates:
    """The updates of one call that its listener has not yet taken.

    The connection's reader puts them here and never waits, since it serves other calls too; the listener
    takes them at its own pace. One that is slower than the server loses the oldest, because of progress only
    the latest counts, and memory stays bounded.
    """

    def __init__(self) -> None:
        self._waiting: deque[Update] = deque(maxlen=_ROOM)
        self._wake = anyio.Event()
        self._over = False

    def put(self, update: Update) -> None:
        """Add an update; once the call is over, nothing is added any more."""
        if not self._over:
            self._waiting.append(update)
            self._wake.set()

    async def put_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Add what a progress notification says."""
        self.put(progress_update(progress, total, message))

    async def relay(self, emit: Emit, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Return what the work gives, and pass updates on while it runs, all of them before this returns.

        Raises:
            Exception: what the work raised, or what the listener did, in which case the work is cancelled.
        """
        outcome: list[_Result] = []
        failures: list[Exception] = []

        async def deliver() -> None:
            try:
                await self._pass_on(emit)
            except Exception as error:  # noqa: BLE001 - the listener is the caller's code: it is raised below
                failures.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver)
            try:
                outcome.append(await work())
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group that would wrap it
                failures.append(error)
            self._over = True
            self._wake.set()
        if failures:
            raise failures[0]
        return outcome[0]

    async def _pass_on(self, emit: Emit) -> None:
        while True:
            while self._waiting:
                await emit(self._waiting.popleft())
            if self._over:
                return
            self._wake = anyio.Event()
            await self._wake.wait()


def progress_update(progress: float, total: float | None, message: str | None) -> Update:
    """Return the update for a progress notification.

    >>> progress_update(1.0, 4.0, None).data
    {'progress': 1.0, 'total': 4.0}
    """
    payload = {"progress": progress, "total": total, "message": message}
    return Update(kind="progress", data={key: value for key, value in payload.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUpdate(Update):
    """A log message; as progress it is its text and its level."""

    params: dict[str, Any]
    """The parameters of the notification, as they came."""


def log_update(params: dict[str, Any]) -> LogUpdate:
    """Return the update for a log notification, whose data may be anything.

    >>> log_update({"level": "info", "data": {"msg": "half way", "extra": None}}).data
    {'message': 'half way', 'level': 'info'}
    """
    value = data = params.get("data")
    if isinstance(data, dict):
        texts = (data.get(key) for key in ("message", "msg"))
        value = next((text for text in texts if isinstance(text, str)), data)
    message = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return LogUpdate(kind="progress", data={"message": message, "level": params.get("level")}, params=params)


_RUNNING: ContextVar["RelayedCall | None"] = ContextVar("toolcrib_running", default=None)
"""The call in whose task, or on whose HTTP stream, something is sent or received."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class RelayedCall:
    """A request to a server that is under way."""

    call: Call
    on_input: OnInput | None = None
    logs: bool = False
    """Whether the server declares that it logs."""
    is_listing: bool = False
    """Whether it asks for a list, which is nobody's: what a server asks and logs is about other requests."""
    updates: Updates | None = None
    was_asked: bool = False
    """Whether the server has been given input, so that the answer is for this client alone."""
    questions: set[anyio.CancelScope] = field(default_factory=set)
    """What the server waits for an answer to."""
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the clock of the server's own limit."""
    token: Token["RelayedCall | None"] | None = None

    @property
    def client(self) -> CallClient | None:
        """The client behind the request; a list is asked for in nobody's name."""
        return None if self.is_listing else self.call.context.client

    def __post_init__(self) -> None:
        if self.call.emit is not None or self._client_logs:
            self.updates = Updates()

    @property
    def _client_logs(self) -> bool:
        """Whether log messages are for the client, and may come."""
        client = self.client
        return client is not None and client.log_level is not None and (self.logs or client.has_set_level)

    @property
    def log_level(self) -> str | None:
        """Which messages the server is asked for; None: none."""
        if self.updates is None:
            return None
        return _DEFAULT_LEVEL if self.client is None else self.client.log_level

    @property
    def peer(self) -> object:
        """Whoever is asked and told."""
        return None if self.client is None else self.client.peer

    def make_emit(self) -> Emit:
        """Return what passes an update on: a log message to a client that takes those, all else as it is."""
        emit, client = self.call.emit, self.client

        async def deliver(update: Update) -> None:
            if isinstance(update, LogUpdate) and client is not None and client.log_level is not None:
                await client.log(update.params)
            elif emit is not None:
                await emit(update)

        return deliver

    def note_asked(self) -> None:
        """Note that the answer depends on what the client says."""
        self.was_asked = True
        if self.call.on_asked is not None:
            self.call.on_asked()

    def offer_task(self, handle: dict[str, Any]) -> bool:
        """Return whether the client takes the task that the server has begun, which it is given then."""
        if self.client is None or not self.client.takes_tasks:
            return False
        self.client.note_task(self.call, handle)
        return True

    async def ask(self, requests: dict[str, Any]) -> dict[str, Any]:
        """Return what the client answers, by the same keys.

        Raises:
            ToolExecutionError: nobody can answer.
        """
        assert self.on_input is not None  # noqa: S101 - whoever asks has looked
        self.note_asked()
        with self.call.pause() if self.call.pause else nullcontext(), self.pause():
            return await self.on_input(self.call, requests)


class RunningCalls:
    """The requests to one server that are under way, and which of them a message of the server is about.

    Over streamable HTTP the stream that a message comes on says it. On a pipe nothing does: there a message
    is only relayed where all requests under way are of one client, and those that were given up of late.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls: dict[RelayedCall, None] = {}
        self._clock = clock
        self._given_up: deque[tuple[float, object]] = deque(maxlen=_MAX_GIVEN_UP)
        """Until when the server may still ask about requests that it did not answer, and their clients."""
        self._pages: OrderedDict[str, tuple[ref[RelayedCall], PageNotifier]] = OrderedDict()
        """Nothing of a request is kept: a server need not be done with the pages that it sends clients to."""

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, running: RelayedCall) -> None:
        """Note that a request runs, in the task that sends it."""
        self._calls[running] = None
        running.token = _RUNNING.set(running)

    def finish(self, running: RelayedCall, *, answered: bool = True) -> None:
        """Note that it has ended, and whether the server answered; its questions need no answer any more."""
        del self._calls[running]
        if not answered and not running.is_listing:
            self._given_up.append((self._clock() + _GIVEN_UP_SECONDS, running.peer))
        if running.token is not None:
            _RUNNING.reset(running.token)
        for scope in running.questions:
            scope.cancel()

    def _find_sender(self) -> RelayedCall | None:
        """Return the request that the message in this task is about; None where it may be several."""
        own = _RUNNING.get()
        if own is not None:
            return own if own in self._calls else None
        calls = self._client_calls()
        while self._given_up and self._given_up[0][0] <= self._clock():
            self._given_up.popleft()
        peers = [*(each.peer for each in calls), *(peer for _, peer in self._given_up)]
        return calls[-1] if calls and all(peer == peers[0] for peer in peers) else None

    def _client_calls(self) -> list[RelayedCall]:
        return [each for each in self._calls if not each.is_listing]

    def log(self, params: dict[str, Any], *, modern: bool) -> None:
        """Give a log message to the request that it must belong to; where several are possible, to none."""
        running = self._find_sender()
        if modern and running is None:  # only a request that asked for messages gets any
            heard = [each for each in self._calls if each.updates is not None]
            running = heard[0] if len(heard) == 1 else None
        is_clear = _RUNNING.get() is not None or len(self._client_calls()) == 1 or modern
        if running is None or running.updates is None or (running.client is None and not is_clear):
            return
        running.updates.put(log_update(params))

    def _note_page(self, elicitation_id: Any, running: RelayedCall) -> None:
        """Note for which request a client is sent to a page."""
        is_id = isinstance(elicitation_id, str) and len(elicitation_id) <= _MAX_PAGE_ID_LENGTH
        notify = running.client.page_notifier() if is_id and running.client is not None else None
        if notify is not None:
            self._pages[elicitation_id] = ref(running), notify
            if len(self._pages) > _MAX_PAGES:
                self._pages.popitem(last=False)

    def complete(self, elicitation_id: str) -> None:
        """Tell the client that was sent to a page that it is done with."""
        if elicitation_id in self._pages:
            running, notify = self._pages.pop(elicitation_id)
            notify(elicitation_id, running() in self._calls)

    async def answer(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what the client answers to a request of a server of the handshake era.

        Raises:
            MCPError: no request of a client is under way, it may be several, its client cannot answer, or is
                asked too much at once.
        """
        running, own = self._find_sender(), _RUNNING.get() is not None
        if running is None or running.on_input is None:
            why = "requests of several clients run" if self._calls else "no request of a client runs"
            raise MCPError(INVALID_REQUEST, f"{method} cannot be passed on: {why}")
        if len(running.questions) >= _MAX_QUESTIONS:
            waiting = f"{_MAX_QUESTIONS} questions of this call wait for an answer already"
            raise MCPError(INVALID_REQUEST, f"{method} is not passed on: {waiting}")
        client = running.client
        if method == "roots/list" and not own and client is not None and "roots" not in client.capabilities:
            running.note_asked()  # though some servers ask once they are started: no failure of the call
            raise MCPError(METHOD_NOT_FOUND, "the client does not declare roots")
        request = {"method": method} | ({} if params is None else {"params": dict(params)})
        self._note_page((params or {}).get("elicitationId"), running)
        with anyio.CancelScope() as scope:
            running.questions.add(scope)
            try:
                return dict((await running.ask({method: request}))[method])
            except ToolExecutionError as error:
                raise _refusal(error) from error
            finally:
                running.questions.discard(scope)
        raise MCPError(INVALID_REQUEST, f"{method} needs no answer any more: the call is over")


def _refusal(error: ToolExecutionError) -> MCPError:
    """Return the error that a server gets for its question: the client's own, if it gave one."""
    cause = error.__cause__
    if isinstance(cause, MCPError):
        return MCPError(cause.code, cause.message, cause.data)
    return MCPError(METHOD_NOT_FOUND if isinstance(cause, LookupError) else INTERNAL_ERROR, error.reason)
