"""Calls of stateless clients that wait for input, from the answer that asks for it to the request with it."""

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
from toolcrib.gateway.clients.client import RequestClient
from toolcrib.gateway.clients.confirmation_tokens import ConfirmationTokens
from toolcrib.gateway.clients.input_requests import limit_error, result_of
from toolcrib.gateway.frontend import InputNeeded
from toolcrib.gateway.identity.principals import OpenRequest, account_of, open_request
from toolcrib.gateway.limits import share_of
from toolcrib.gateway.passing import wire

T = TypeVar("T")
COMPOSED = frozenset({"execute_code", "run_chain"})
"""Tools that make several calls: what they have done must not be done again, so they are held in any case."""
MAX_HELD = 1_000
"""How many calls wait for input at once."""
_LONG = 2.0
"""After how many seconds a call of such a tool goes on as a task, where its client knows tasks."""
_Context = ServerRequestContext[Any, Any]


class HeldCalls:
    """Answers requests that servers may ask their clients about, in both eras.

    A server of the handshake era asks by a request of its own, and its call waits for the answer. A client of
    the stateless era is asked by the answer to its request, and makes that again. Between the two the call is
    held here, in a task of its own, under a secret that goes with the question in `requestState`. The
    endpoint seals that, and binds it to the method, the tool, the arguments and the principal, so that nobody
    else's answer reaches the call. One that is not come back to in time is cancelled.
    """

    def __init__(self, tokens: ConfirmationTokens, patience: float, max_held: int = MAX_HELD) -> None:
        """Hold a call for as many seconds as a person may take to answer."""
        self._tokens, self._patience, self._max_held = tokens, patience, max_held
        self._held: dict[str, HeldCall] = {}
        self._calls: set[HeldCall] = set()

    def __len__(self) -> int:
        """Return how many calls wait for input."""
        return len(self._held)

    def close(self) -> None:
        """Cancel all that are held."""
        for call in list(self._calls):
            call.scope.cancel()

    async def answer(
        self,
        context: _Context,
        params: mcp_types.InputResponseRequestParams,
        work: Callable[[RequestClient], Awaitable[T]],
        *,
        is_single: bool = False,
        takes_tasks: bool = False,
    ) -> T | mcp_types.InputRequiredResult:
        """Return what the work gives, or what the client is to be asked before it goes on.

        It may be used for each request that may be answered with `input_required`: `tools/call`,
        `prompts/get` and `resources/read`. `is_single` says that the work stands for one request to a server
        and can be done again: then the question of a stateless server is passed on, and nothing is held.
        `takes_tasks` says that the server may begin a task instead: then a `StartedTask` is returned. Work
        that is not single and takes long goes on, and the `HeldCall` that it is in is returned.

        Raises:
            MCPError: the call that this request goes on with is over; the client lacks a capability that the
                server needs; or whatever the work raises.
        """
        client = RequestClient(
            context, params, self._tokens, self._patience, is_single=is_single, takes_tasks=takes_tasks
        )
        given: T | mcp_types.InputRequiredResult
        within = _LONG if takes_tasks and not is_single else None
        if client.held_key is not None:
            given = await self._wait_for_outcome(self._resume_held(client.held_key, context, params), within)
            return given
        if client.is_stateless and (client.capabilities or within):  # else nobody can be asked that way
            held = HeldCall(
                client, lambda: _run_for_client(client, work), self._patience, self._check_capacity
            )
            held.follow_request(context)
            self._calls.add(held)
            given = await self._wait_for_outcome(held, within)
        else:
            given = await _run_for_client(client, work)
        return given

    def client_of(self, context: _Context) -> RequestClient:
        """Return the client behind a request that is not answered with a question."""
        return RequestClient(context, mcp_types.InputResponseRequestParams(), self._tokens, self._patience)

    def _resume_held(
        self, key: str, context: _Context, params: mcp_types.InputResponseRequestParams
    ) -> "HeldCall":
        """Return the call that waits for the responses of a request, which it is given."""
        held = self._held.pop(key, None)
        if held is None or held.is_over:
            message = (
                "the call that waited for this input is over: make the request again, without requestState"
            )
            raise MCPError(mcp_types.INVALID_PARAMS, message, {"reason": "invalid_request_state"})
        held.key = None
        held.client.come_back(context)
        held.follow_request(context)
        held.take_responses({key: wire(response) for key, response in (params.input_responses or {}).items()})
        return held

    async def _wait_for_outcome(self, held: "HeldCall", within: float | None) -> Any:
        """Return what a call gives, or what it asks; itself, where it does neither within some seconds."""
        try:
            with anyio.move_on_after(within):
                await held.wait()
        except BaseException:  # whoever made the request has cancelled it, or is gone
            self._calls.discard(held)
            await held.stop()
            raise
        if held.is_over:
            self._calls.discard(held)
            return held.result()
        if not held.asked:
            held.client.leave()
            held.on_end = lambda: self._calls.discard(held)
            return held
        held.key = key = secrets.token_hex(16)
        self._held[key] = held
        held.client.leave()
        held.on_end = lambda: self._forget(held)
        return mcp_types.InputRequiredResult(
            input_requests=dict(held.asked), request_state=self._tokens.issue({}, {}, held=key)
        )

    def _check_capacity(self, held: "HeldCall") -> None:
        """Refuse the question of a call, where too many wait for input already.

        Raises:
            LimitExceededError: too many of its principal do, or of all.
        """
        asking = [call for call in self._calls if call.asked and call is not held]
        own = sum(call.account == held.account for call in asking)
        is_greedy = own >= share_of(self._max_held, held.account)
        if is_greedy or len(asking) >= self._max_held:
            whose = f"{own} of your calls wait" if is_greedy else f"{len(asking)} calls wait"
            reason = f"{whose} for input already; answer or cancel some, and call again"
            raise LimitExceededError("held_calls", reason)

    def _forget(self, held: "HeldCall") -> None:
        if held.key is not None:  # nobody has come back to it
            self._held.pop(held.key, None)
            self._calls.discard(held)


class HeldCall:
    """One call in a task of its own, and what its client is asked."""

    def __init__(
        self,
        client: RequestClient,
        work: Callable[[], Awaitable[Any]],
        patience: float,
        check: Callable[["HeldCall"], None],
    ) -> None:
        self.client = client
        self.account = account_of(client.principal)
        """Whose it is, where somebody vouches for that."""
        self.asked: dict[str, mcp_types.InputRequest] = {}
        """The questions that wait for a response, by key."""
        self.key: str | None = None
        """The key that it is held under while its client is away."""
        self.scope = anyio.CancelScope()
        self.is_over = False
        self.failure: BaseException | None = None
        """What the work raised, once it is over."""
        self.on_end: Callable[[], None] = lambda: None
        self._right: OpenRequest | None = None
        """The request by whose right it goes on."""
        self._work, self._patience, self._check = work, patience, check
        self._responses: dict[str, dict[str, Any]] = {}
        self._given: Any = None
        self._progressed = anyio.Event()
        self._responses_arrived = anyio.Event()
        client.ask_later = self.ask
        self._task = Background(self._run)

    def follow_request(self, context: _Context) -> None:
        """Go on by the right of this request, the latest of its client, and end when its token is revoked."""
        self._leave_request()
        self._right = None if self.is_over else open_request(context)
        if self._right is not None:
            self._right.begun.add(self.scope)

    def _leave_request(self) -> None:
        if self._right is not None:
            self._right.begun.discard(self.scope)

    async def _run(self) -> None:
        try:
            with self.scope:
                try:
                    self._given = await self._work()
                except Exception as error:  # noqa: BLE001 - raised where the call is waited for
                    self.failure = error
            if self.scope.cancelled_caught:
                self.failure = MCPError(mcp_types.INTERNAL_ERROR, "the call was cancelled")
        finally:
            self.is_over = True
            self._leave_request()
            self._progressed.set()
            self.on_end()

    def result(self) -> Any:
        """Return what the work gave, or raise what it raised."""
        if self.failure is not None:
            raise self.failure
        return self._given

    async def wait(self) -> None:
        """Wait until the work is over, or asks for something."""
        while not (self.is_over or self.asked):
            self._progressed = anyio.Event()
            await self._progressed.wait()

    async def stop(self) -> None:
        """Cancel the work."""
        self.scope.cancel()
        await self._task.stop()

    async def ask(self, requests: Mapping[str, mcp_types.InputRequest]) -> dict[str, dict[str, Any]]:
        """Return the responses of the client, which is asked by the answer to its request.

        Raises:
            LimitExceededError: too many calls wait for input.
            TimeoutError: it did not come back in time; the call is cancelled.
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
        """Return a key that no question has which is asked at the same time."""
        number, own = 1, key
        while own in self.asked or own in self._responses:
            number += 1
            own = f"{key}-{number}"
        return own

    def take_responses(self, responses: Mapping[str, Any]) -> None:
        """Take the responses that fit a question; the others are asked again."""
        for key, payload in responses.items():
            request = self.asked.get(key)
            if request is None or not _fits(request, payload):
                continue
            del self.asked[key]
            self._responses[key] = payload
        self._responses_arrived.set()


def _fits(request: mcp_types.InputRequest, payload: Any) -> bool:
    try:
        result_of(request).model_validate(payload, by_name=False)
    except ValidationError:
        return False
    return True


def _without_id(request: mcp_types.InputRequest) -> mcp_types.InputRequest:
    """Return a request without the id of an elicitation, which the stateless era has not."""
    params = request.params
    if not isinstance(params, mcp_types.ElicitRequestURLParams) or params.elicitation_id is None:
        return request
    return mcp_types.ElicitRequest(params=params.model_copy(update={"elicitation_id": None}))


async def _run_for_client(client: RequestClient, work: Callable[[RequestClient], Awaitable[T]]) -> Any:
    """Return what the work gives, unless what a server asked or refused meanwhile is the answer."""
    try:
        given = await work(client)
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
    # What a chain or code has done before is in its own answer.
    if client.refusal is not None and client.is_stateless and client.is_single and failed:
        raise client.refusal
    return given
