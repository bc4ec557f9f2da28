"""Relays the questions, progress and logs of a server during a request to the client behind that request.

The difficulty is to find that client. Many clients share a connection to a server, and MCP does not name the
request that a question or a log message belongs to:

- Over streamable HTTP, the stream that carries a message identifies the request: its task has set `_RUNNING`.
- On a pipe, nothing does. A message is relayed only if all running requests are of one client. Requests that
  were abandoned count for a while too, since the server may not have noticed. Else a question is refused and
  a log message is dropped: it could show one user's data to another.
- Progress needs no search: its token belongs to one request.

A list belongs to no client: on a pipe, no message is attributed to it, and it makes none ambiguous.

An answer that depends on a client's input must not be shared: `note_asked` marks it before the client is
asked, so that no other call waits for it or gets it from the cache.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, get_args
from weakref import ref

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    LoggingLevel,
)

from toolcrib.concurrency.lru import LruCache
from toolcrib.errors import RequestRefusedError, ResultBlockedError, ToolExecutionError
from toolcrib.execution.call import Call, CallClient, Emit, PageNotifier, Update
from toolcrib.execution.mcp.config import OnInput
from toolcrib.execution.mcp.updates import LogUpdate, Updates, log_update
from toolcrib.model.findings import ResultFinding

LOG_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The levels of log messages, the most verbose first."""
_DEFAULT_LEVEL = "info"
APPS = "io.modelcontextprotocol/ui"
"""The extension by which tools name pages that a client shows with their results."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension by which a server may answer a call with a task, which goes on without a request."""
_MAX_QUESTIONS = 16
"""Pending questions of a server about one request, at most."""
_GIVEN_UP_SECONDS = 60.0
"""Seconds in which a server may still send messages about a request that was abandoned."""
_MAX_GIVEN_UP = 1_000
_MAX_PAGES = 256
"""Pages opened by clients whose requests are stored, at most."""
_MAX_PAGE_ID_LENGTH = 1_000


_RUNNING: ContextVar["RelayedCall | None"] = ContextVar("toolcrib_running", default=None)
"""The request of the current task or HTTP stream.

The SDK calls back for a message of a server in a context copied from the task that sent the request, and its
callbacks take no argument that names the request.
"""


@dataclass(eq=False, slots=True, weakref_slot=True)
class RelayedCall:
    """A running request to a server."""

    call: Call
    on_input: OnInput | None = None
    logs: bool = False
    """Whether the server declares that it logs."""
    is_listing: bool = False
    """Whether it lists content. A list has no client: questions and logs belong to other requests."""
    updates: Updates | None = None
    was_asked: bool = False
    """Whether the server has received input, so that the answer must not be shared."""
    questions: set[anyio.CancelScope] = field(default_factory=set)
    """The pending questions of the server; cancelled when the request ends."""
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the timeout of the server's configuration."""
    is_abandoned: bool = False
    """Whether it ended without an answer, so that the server may still send messages about it."""
    client: CallClient | None = field(init=False)
    """The client behind the request; None for lists."""
    log_level: str | None = field(init=False, default=None)
    """The level of the messages to request from the server; None for no messages."""

    def __post_init__(self) -> None:
        client = self.client = None if self.is_listing else self.call.context.client
        client_logs = (
            client is not None and client.log_level is not None and (self.logs or client.has_set_level)
        )
        if self.call.emit is not None or client_logs:
            self.updates = Updates()
            self.log_level = _DEFAULT_LEVEL if client is None else client.log_level

    @property
    def peer(self) -> object:
        """Identity of the client's connection."""
        return None if self.client is None else self.client.peer

    def make_emit(self) -> Emit:
        """Return the function that delivers updates: log messages to the client, others to `emit`."""
        emit, client = self.call.emit, self.client

        async def deliver(update: Update) -> None:
            if isinstance(update, LogUpdate) and client is not None and client.log_level is not None:
                check = self.call.check
                await client.log(update.params if check is None else await check.check_message(update.params))
            elif emit is not None:
                await emit(update)

        return deliver

    def note_asked(self) -> None:
        """Record that the answer depends on input of the client, so that it is not shared."""
        self.was_asked = True
        if self.call.on_asked is not None:
            self.call.on_asked()

    async def offer_task(self, handle: dict[str, Any]) -> bool:
        """Give the client the task that the server has begun; return False if it does not support tasks.

        Raises:
            ResultBlockedError: the handle has to be withheld.
        """
        if self.client is None or not self.client.takes_tasks:
            return False
        self.client.note_task(self.call, await self.check_answer(handle, without="taskId"), self.findings)
        return True

    @property
    def findings(self) -> tuple[ResultFinding, ...]:
        """Findings of the result check so far."""
        return () if self.call.check is None else self.call.check.findings

    async def check_answer(self, answer: dict[str, Any], *, without: str = "") -> dict[str, Any]:
        """Return a question or the handle of a task as it may be passed on.

        The field `without` is for the server alone, and stays as it is.

        Raises:
            ResultBlockedError, RequestRefusedError: it has to be withheld.
        """
        if self.call.check is None:
            return answer
        own = {name: value for name, value in answer.items() if name == without}
        checked: dict[str, Any] = await self.call.check.check_answer(
            {name: value for name, value in answer.items() if name != without}
        )
        return checked | own

    async def ask(self, requests: dict[str, Any]) -> dict[str, Any]:
        """Send checked requests to the client, and return its responses by the same keys.

        Raises:
            ToolExecutionError: the client cannot answer.
        """
        assert self.on_input is not None  # noqa: S101 - checked by both callers
        self.note_asked()
        with self.call.pause(), self.pause():
            return await self.on_input(self.call, requests)


class RunningCalls:
    """The running requests to one server; finds the request that a message of the server belongs to."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls: dict[RelayedCall, None] = {}
        self._clock = clock
        self._abandoned: deque[tuple[float, object]] = deque(maxlen=_MAX_GIVEN_UP)
        """Clients of abandoned requests, and until when the server may send messages about them."""
        self._pages: LruCache[str, tuple[ref[RelayedCall], PageNotifier]] = LruCache(_MAX_PAGES)
        """Pages by elicitation id. Weak references, since a server need not ever complete an elicitation."""

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def track(self, running: RelayedCall) -> Iterator[None]:
        """Relay messages about a request for the length of the block, which sends it."""
        self._calls[running] = None
        token = _RUNNING.set(running)
        try:
            yield
        finally:
            _RUNNING.reset(token)
            del self._calls[running]
            if running.is_abandoned and not running.is_listing:
                self._abandoned.append((self._clock() + _GIVEN_UP_SECONDS, running.peer))
            for scope in running.questions:
                scope.cancel()

    def _find_request(self) -> RelayedCall | None:
        """Return the request that the current message belongs to; None if several are possible."""
        own = _RUNNING.get()
        if own is not None:
            return own if own in self._calls else None
        calls = self._client_calls()
        while self._abandoned and self._abandoned[0][0] <= self._clock():
            self._abandoned.popleft()
        peers = [*(each.peer for each in calls), *(peer for _, peer in self._abandoned)]
        return calls[-1] if calls and all(peer == peers[0] for peer in peers) else None

    def _client_calls(self) -> list[RelayedCall]:
        return [each for each in self._calls if not each.is_listing]

    def log(self, params: dict[str, Any], *, modern: bool) -> None:
        """Relay a log message to its request; drop it if several are possible."""
        running = self._find_request()
        if modern and running is None:  # only a request that asked for messages gets any
            heard = [each for each in self._calls if each.updates is not None]
            running = heard[0] if len(heard) == 1 else None
        # Calls of the program have no client, so that all of them look like one peer: a message may belong to
        # any of them, unless its stream names the request, there is only one, or the server is modern.
        is_clear = _RUNNING.get() is not None or len(self._client_calls()) == 1 or modern
        if running is None or running.updates is None or (running.client is None and not is_clear):
            return
        running.updates.put(log_update(params))

    def _note_page(self, elicitation_id: Any, running: RelayedCall) -> None:
        """Store the request to which the page of an elicitation belongs."""
        is_id = isinstance(elicitation_id, str) and len(elicitation_id) <= _MAX_PAGE_ID_LENGTH
        notify = running.client.page_notifier() if is_id and running.client is not None else None
        if notify is not None:
            self._pages.put(elicitation_id, (ref(running), notify))

    def complete(self, elicitation_id: str) -> None:
        """Notify the client that opened a page of the completed elicitation."""
        page = self._pages.pop(elicitation_id)
        if page is not None:
            running, notify = page
            notify(elicitation_id, running() in self._calls)

    async def answer(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Relay a request of a legacy server to the client, and return its response.

        Raises:
            MCPError: no request of a client is running, or those of several clients are; the client cannot
                answer; or too many questions are pending.
        """
        running, own = self._find_request(), _RUNNING.get() is not None
        if running is None or running.on_input is None:
            why = (
                "requests of several clients are running"
                if self._calls
                else "no request of a client is running"
            )
            raise MCPError(INVALID_REQUEST, f"{method} cannot be passed on: {why}")
        if len(running.questions) >= _MAX_QUESTIONS:
            waiting = f"{_MAX_QUESTIONS} questions of this call wait for an answer already"
            raise MCPError(INVALID_REQUEST, f"{method} is not passed on: {waiting}")
        client = running.client
        if method == "roots/list" and not own and client is not None and "roots" not in client.capabilities:
            running.note_asked()  # some servers ask for roots at their start: the call must not fail for it
            raise MCPError(METHOD_NOT_FOUND, "the client does not declare roots")
        request = {"method": method} | ({} if params is None else {"params": dict(params)})
        self._note_page((params or {}).get("elicitationId"), running)
        with anyio.CancelScope() as scope:
            running.questions.add(scope)
            try:
                question = await running.check_answer({method: request})
                return dict((await running.ask(question))[method])
            except (ToolExecutionError, ResultBlockedError, RequestRefusedError) as error:
                raise _refusal(error) from error
            finally:
                running.questions.discard(scope)
        raise MCPError(INVALID_REQUEST, f"{method} no longer needs an answer: the call is over")


def _refusal(error: ToolExecutionError | ResultBlockedError | RequestRefusedError) -> MCPError:
    """Return the error for the server: the client's own, if it sent one."""
    cause = error.__cause__
    if isinstance(cause, MCPError):
        return MCPError(cause.code, cause.message, cause.data)
    return MCPError(METHOD_NOT_FOUND if isinstance(cause, LookupError) else INTERNAL_ERROR, error.reason)
