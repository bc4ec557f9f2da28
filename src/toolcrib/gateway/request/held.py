"""Calls that wait for input of their clients, across the requests of a stateless client.

A server of the handshake era sends its question to the client while the call runs, so the call simply waits.
A client of the stateless era cannot be sent anything: it gets the question as the answer to its request, and
repeats the request with the response. The call must survive in between, with its connection to the server,
its deadline and the results of a chain so far. So it runs in a task of its own, a `HeldCall`, and each
request only waits for its next outcome: the result, a question, or a task that goes on.

The repeated request finds its call by a random key in `requestState`. The endpoint seals that state and binds
it to the method, the tool, the arguments and the principal, so that another client's answer cannot reach the
call. A work that maps to a single request to a stateless server is not held: its question is relayed, and the
server keeps the state (`RequestClient.pass_on`).

Held calls cost memory and slots of servers. A client that does not come back is abandoned after `patience`
seconds, each principal has a share of `max_held`, and a call ends when the token is revoked of the latest
request that it goes on for (`follow_request`).
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio
import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolcrib.concurrency.background import Background
from toolcrib.errors import LimitExceededError
from toolcrib.gateway.app.asgi import HttpRequest, http_request_of, name_at, send_elsewhere
from toolcrib.gateway.frontends.shared.frontend import InputNeeded
from toolcrib.gateway.identity.principals import account_of
from toolcrib.gateway.limits import share_of
from toolcrib.gateway.passing import wire
from toolcrib.gateway.request.client import ObtainLogin, RequestClient
from toolcrib.gateway.request.confirmation_tokens import ConfirmationTokens
from toolcrib.gateway.request.input import limit_error, result_of

T = TypeVar("T")
COMPOSED = frozenset({"execute_code", "run_chain"})
"""Tools that make several calls. They are always held: to repeat them would repeat the calls made so far."""
MAX_HELD = 1_000
"""Calls that may wait for input at once."""
TASK_AFTER = 2.0
"""Seconds after which a call of such a tool becomes a task, if its client supports tasks."""
_Context = ServerRequestContext[Any, Any]


class HeldCalls:
    """Answers requests during which servers may ask for input, for clients of both eras."""

    def __init__(
        self,
        tokens: ConfirmationTokens,
        patience: float,
        max_held: int = MAX_HELD,
        obtain_login: ObtainLogin | None = None,
        *,
        worker: int | None = None,
    ) -> None:
        """Hold at most `max_held` calls; each waits `patience` seconds for an answer.

        Keys name the `worker`, so that another one can have the repeated request answered where the call is.
        """
        self._worker = worker
        self._tokens, self._patience, self._max_held = tokens, patience, max_held
        self._obtain_login = obtain_login
        self._held: dict[str, HeldCall] = {}
        self._calls: set[HeldCall] = set()

    def __len__(self) -> int:
        """Return how many calls wait for a repeated request."""
        return len(self._held)

    def close(self) -> None:
        """Cancel all calls."""
        for call in list(self._calls):
            call.scope.cancel()

    async def answer(
        self,
        context: _Context,
        client: RequestClient,
        params: mcp_types.InputResponseRequestParams,
        work: Callable[[], Awaitable[T]],
        *,
        within: float | None = None,
    ) -> T | mcp_types.InputRequiredResult:
        """Run the work for a request, and return its result or a question for the client.

        It serves each request that may be answered with `input_required`: `tools/call`, `prompts/get` and
        `resources/read`. If the client takes tasks, a `StartedTask` is returned if the server begins one.
        `within`: seconds after which work that still runs is returned as a `HeldCall`, to continue as a task.

        Raises:
            MCPError: the call that this request continues is over, or the client lacks a capability that the
                server needs.
            Exception: any error of the work.
        """
        given: T | mcp_types.InputRequiredResult
        if client.held_key is not None:
            given = await self._wait_for_outcome(self._resume_held(client.held_key, context, params), within)
        elif client.is_stateless and (client.capabilities or within):
            held = HeldCall(
                client, lambda: _run_for_client(client, work), self._patience, self._check_capacity
            )
            held.follow_request(client.request)
            self._calls.add(held)
            given = await self._wait_for_outcome(held, within)
        else:  # there can be no question that the client would answer by a repeated request, and no task
            given = await _run_for_client(client, work)
        return given

    def client_of(
        self,
        context: _Context,
        params: mcp_types.InputResponseRequestParams | None = None,
        *,
        is_single: bool = False,
    ) -> RequestClient:
        """Return the client of a request; without `params` the request cannot be answered with a question.

        `is_single`: the request maps to one request to a server and can be repeated, so the question of a
        stateless server is relayed.
        """
        params = params or mcp_types.InputResponseRequestParams()
        return RequestClient(
            context,
            params,
            self._tokens,
            self._patience,
            is_single=is_single,
            obtain_login=self._obtain_login,
        )

    def _resume_held(
        self, key: str, context: _Context, params: mcp_types.InputResponseRequestParams
    ) -> "HeldCall":
        """Give the responses of a request to the call that waits for them, and return the call."""
        held = self._held.pop(key, None)
        if held is None or held.is_over:
            send_elsewhere(http_request_of(context), key, self._worker)
            message = (
                "the call that waited for this input is over: make the request again, without requestState"
            )
            raise MCPError(mcp_types.INVALID_PARAMS, message, {"reason": "invalid_request_state"})
        held.key = None
        held.client.attach(context)
        held.follow_request(held.client.request)
        held.take_responses({key: wire(response) for key, response in (params.input_responses or {}).items()})
        return held

    async def _wait_for_outcome(self, held: "HeldCall", within: float | None) -> Any:
        """Return the result or the question of a call; the call itself if there is neither in time."""
        try:
            with anyio.move_on_after(within):
                await held.wait()
        except BaseException:  # the client has cancelled the request, or has disconnected
            self._calls.discard(held)
            await held.stop()
            raise
        if held.is_over:
            self._calls.discard(held)
            return held.result()
        if not held.asked:
            held.client.detach()
            held.on_end = lambda: self._calls.discard(held)
            return held
        held.key = key = name_at(secrets.token_hex(16), self._worker)
        self._held[key] = held
        held.client.detach()
        held.on_end = lambda: self._forget(held)
        return mcp_types.InputRequiredResult(
            input_requests=dict(held.asked), request_state=self._tokens.issue({}, {}, held=key)
        )

    def _check_capacity(self, held: "HeldCall") -> None:
        """Check that one more call may wait for input.

        Raises:
            LimitExceededError: too many calls of its principal wait already, or of all principals.
        """
        asking = [call for call in self._calls if call.asked and call is not held]
        own = sum(call.account == held.account for call in asking)
        is_greedy = own >= share_of(self._max_held, held.account)
        if is_greedy or len(asking) >= self._max_held:
            whose = f"{own} of your calls wait" if is_greedy else f"{len(asking)} calls wait"
            reason = f"{whose} for input already; answer or cancel some, and call again"
            raise LimitExceededError("held_calls", reason)

    def _forget(self, held: "HeldCall") -> None:
        if held.key is not None:  # the request was not repeated
            self._held.pop(held.key, None)
            self._calls.discard(held)


class HeldCall:
    """A call in its own task, with the pending questions for its client."""

    def __init__(
        self,
        client: RequestClient,
        work: Callable[[], Awaitable[Any]],
        patience: float,
        check: Callable[["HeldCall"], None],
    ) -> None:
        self.client = client
        self.account = account_of(client.principal)
        """The account of its principal; None if that is not authenticated."""
        self.asked: dict[str, mcp_types.InputRequest] = {}
        """The questions without a response, by key."""
        self.key: str | None = None
        """The key in `requestState`, while no request waits for it."""
        self.scope = anyio.CancelScope()
        self.is_over = False
        self.failure: BaseException | None = None
        """The error of the work, once it is over."""
        self.on_end: Callable[[], None] = lambda: None
        self._request: HttpRequest | None = None
        """The request whose token the call runs under."""
        self._work, self._patience, self._check = work, patience, check
        self._responses: dict[str, dict[str, Any]] = {}
        self._given: Any = None
        self._progressed = anyio.Event()
        self._responses_arrived = anyio.Event()
        client.ask_later = self.ask
        self._task = Background(self._run)

    def follow_request(self, request: HttpRequest | None) -> None:
        """Run under the token of a request, the latest of the client: the call ends when it is revoked."""
        self._leave_request()
        self._request = None if self.is_over else request
        if self._request is not None:
            self._request.background_scopes.add(self.scope)

    def _leave_request(self) -> None:
        if self._request is not None:
            self._request.background_scopes.discard(self.scope)

    async def _run(self) -> None:
        try:
            with self.scope:
                try:
                    self._given = await self._work()
                except Exception as error:  # noqa: BLE001 - raised by `result`
                    self.failure = error
            if self.scope.cancelled_caught:
                self.failure = MCPError(mcp_types.INTERNAL_ERROR, "the call was cancelled")
        finally:
            self.is_over = True
            self._leave_request()
            self._progressed.set()
            self.on_end()

    def result(self) -> Any:
        """Return the result of the work, or raise its error."""
        if self.failure is not None:
            raise self.failure
        return self._given

    async def wait(self) -> None:
        """Wait until the work is over or has a question."""
        while not (self.is_over or self.asked):
            self._progressed = anyio.Event()
            await self._progressed.wait()

    async def stop(self) -> None:
        """Cancel the work."""
        self.scope.cancel()
        await self._task.stop()

    async def ask(self, requests: Mapping[str, mcp_types.InputRequest]) -> dict[str, dict[str, Any]]:
        """Ask the client by the answer to its request, and return the responses of the repeated request.

        Raises:
            LimitExceededError: too many calls wait for input.
            TimeoutError: the request was not repeated in time; the call is cancelled.
        """
        try:
            self._check(self)
        except LimitExceededError as error:
            self.client.note_refusal(limit_error(error))
            raise
        keys = {self._free_key(key): key for key in requests}
        for own, key in keys.items():
            self.asked[own] = _without_id(requests[key])
        self._progressed.set()
        try:
            with anyio.fail_after(self._patience):
                while not keys.keys() <= self._responses.keys():
                    self._responses_arrived = anyio.Event()
                    await self._responses_arrived.wait()
        except TimeoutError:
            self.scope.cancel()
            raise
        finally:
            found = {key: self._responses.pop(own, {}) for own, key in keys.items()}
            for own in keys:
                self.asked.pop(own, None)
        return found

    def _free_key(self, key: str) -> str:
        """Return the key, with a number if a pending question has it."""
        number, own = 1, key
        while own in self.asked or own in self._responses:
            number += 1
            own = f"{key}-{number}"
        return own

    def take_responses(self, responses: Mapping[str, Any]) -> None:
        """Store the responses that fit their questions; the others remain pending."""
        for key, payload in responses.items():
            request = self.asked.get(key)
            if request is None or not _is_fitting(request, payload):
                continue
            del self.asked[key]
            self._responses[key] = payload
        self._responses_arrived.set()


def _is_fitting(request: mcp_types.InputRequest, payload: Any) -> bool:
    try:
        result_of(request).model_validate(payload, by_name=False)
    except ValidationError:
        return False
    return True


def _without_id(request: mcp_types.InputRequest) -> mcp_types.InputRequest:
    """Return a request without the id of a URL elicitation, which the stateless era does not have."""
    params = request.params
    if not isinstance(params, mcp_types.ElicitRequestURLParams) or params.elicitation_id is None:
        return request
    return mcp_types.ElicitRequest(params=params.model_copy(update={"elicitation_id": None}))


async def _run_for_client(client: RequestClient, work: Callable[[], Awaitable[T]]) -> Any:
    """Return the result of the work, or a server's question, task or refusal that replaces it."""
    try:
        given = await work()
    except InputNeeded as needed:
        return needed.result
    except Exception as error:
        if client.passed_question is not None:
            return client.passed_question
        if client.refusal is not None and client.is_stateless and client.is_single:
            raise client.refusal from error
        raise
    if client.passed_question is not None or client.task is not None:
        return client.passed_question or client.task
    failed = given.get("isError") if isinstance(given, dict) else getattr(given, "is_error", False)
    # Of single requests only: the result of a chain or of code reports the calls made before the refusal.
    if client.refusal is not None and client.is_stateless and client.is_single and failed:
        raise client.refusal
    return given
