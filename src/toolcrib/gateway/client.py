"""The client behind one request: sent progress, and asked questions in the way of its protocol's era."""

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import anyio
import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter
from pydantic import ValidationError as PydanticError

from toolcrib.errors import ToolExecutionError
from toolcrib.errors.base import shown
from toolcrib.execution.records import Call
from toolcrib.gateway.frontend import Confirmation, ConfirmationResult, InputNeeded
from toolcrib.redaction import HIDDEN

__all__ = ["CURRENT", "ConfirmationTokens", "RequestClient", "relay_input"]

_LOG = logging.getLogger("toolcrib.gateway")
_FIELD = "confirm"
_MAX_NAME = 100
_SEALED = 600.0
"""For how many seconds the seal of a ticket holds, by default."""
_MAX_USED = 100_000
"""How many used tickets are remembered; beyond that no answer counts, for one could count twice."""

_REQUEST: TypeAdapter[mcp_types.ElicitRequest | mcp_types.CreateMessageRequest] = TypeAdapter(
    mcp_types.ElicitRequest | mcp_types.CreateMessageRequest
)
CURRENT: ContextVar["RequestClient | None"] = ContextVar("toolcrib_client", default=None)
"""The client whose request is being answered."""
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Go ahead", "description": "Whether it may be done"}},
    "required": [_FIELD],
}


class ConfirmationTokens:
    """What goes with a question and comes back with the answer, so that an answer counts once.

    It says which questions were asked, by key, and which were answered in earlier turns. The endpoint seals
    it, and binds it to the request. A ticket that was used is none: whoever makes the same request again is
    asked again.
    """

    def __init__(self, sealed: float = _SEALED, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember used tickets for as long as their seal can hold."""
        self._sealed, self._clock = sealed, clock
        self._used: dict[str, float] = {}

    def issue(self, asked: Mapping[str, str], given: Mapping[str, str]) -> str:
        """Return a ticket for questions that are asked, after others that were answered."""
        return json.dumps({"id": secrets.token_hex(16), "asked": dict(asked), "given": dict(given)})

    def redeem(self, ticket: str | None) -> tuple[dict[str, str], dict[str, str]]:
        """Return what was asked, and answered before; nothing, where there is no ticket, or no more."""
        if ticket is None:
            return {}, {}
        payload = json.loads(ticket)  # the endpoint made it: its seal was checked
        if payload["id"] in self._used or len(self._used) >= _MAX_USED:
            self._forget(self._clock())
            return {}, {}
        at = self._used[payload["id"]] = self._clock()
        self._forget(at)
        return payload["asked"], payload["given"]

    def _forget(self, at: float) -> None:
        """Forget used tickets whose seal does not hold any more."""
        while self._used and self._used[first := next(iter(self._used))] < at - self._sealed:
            del self._used[first]


class RequestClient:
    """The client behind one request; see `toolcrib.gateway.frontend.CallingClient`."""

    __slots__ = ("_asked", "_context", "_given", "_params", "_patience", "_session", "_tickets")

    def __init__(
        self,
        context: ServerRequestContext[Any, Any],
        params: mcp_types.CallToolRequestParams,
        tickets: ConfirmationTokens,
        patience: float,
    ) -> None:
        """Take what the SDK tells of a request; an answer is waited for so many seconds."""
        self._context, self._session, self._params = context, context.session, params
        self._tickets, self._patience = tickets, patience
        self._asked: dict[str, str] | None = None
        self._given: dict[str, str] = {}

    @property
    def caller(self) -> str:
        """Who calls, for records: `mcp`, or `mcp:` and the name that the client gives itself."""
        params = self._session.client_params
        name = "" if params is None else " ".join(HIDDEN.sub("", params.client_info.name[:_MAX_NAME]).split())
        return f"mcp:{name}" if name else "mcp"

    @property
    def wants_progress(self) -> bool:
        """Whether it asked for progress notifications."""
        meta = self._context.meta
        return meta is not None and meta.get("progress_token") is not None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell it how far the request is; nothing happens where it did not ask for that."""
        await self._session.report_progress(progress, total, message)

    @property
    def can_ask(self) -> bool:
        """Whether it can ask a person; without asking anything."""
        return _can_fill_forms(self._session) and (self._is_stateless or self._session.can_send_request)

    async def confirm(self, question: Confirmation) -> ConfirmationResult:
        """Ask a person, and return the answer; in the stateless era it may leave with `InputNeeded`."""
        if not self.can_ask:
            return ConfirmationResult.UNASKED
        return self._answered(question) if self._is_stateless else await self._answer(question)

    @property
    def _is_stateless(self) -> bool:
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, request: mcp_types.ServerRequest) -> dict[str, Any]:
        """Return what the client answers to a request of another server's, as MCP has it.

        Raises:
            LookupError: it cannot be asked that.
            TimeoutError: it did not answer.
            MCPError: it answered with an error.
        """
        if not self._session.can_send_request or not _is_able(self._session, request):
            raise LookupError(request.method)
        kind = (
            mcp_types.ElicitResult
            if request.method == "elicitation/create"
            else mcp_types.CreateMessageResult
        )
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        with anyio.fail_after(self._patience):
            result = await self._session.send_request(request, kind, metadata=related)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def _answer(self, question: Confirmation) -> ConfirmationResult:
        """Return what the person says, waiting for it; a client that fails at asking has not asked."""
        with anyio.move_on_after(self._patience):
            try:
                answer = await self._session.elicit_form(question.text, _FORM, self._context.request_id)
            except (MCPError, PydanticError) as error:
                _LOG.warning("a client could not ask its user: %s", shown(str(error)))
                return ConfirmationResult.UNANSWERED
            return _verdict(answer)
        _LOG.warning("a client did not answer a question within %g s", self._patience)
        return ConfirmationResult.UNANSWERED

    def _answered(self, question: Confirmation) -> ConfirmationResult:
        """Return the person's answer, if the client comes with it."""
        if self._asked is None:
            self._asked, self._given = self._tickets.redeem(self._params.request_state)
        mark = hashlib.sha256(question.text.encode(errors="surrogatepass")).hexdigest()
        given = self._given.get(f"{question.key} {mark}")
        if given is not None:
            return ConfirmationResult(given)
        response = (self._params.input_responses or {}).get(question.key)
        if self._asked.get(question.key) == mark and isinstance(response, mcp_types.ElicitResult):
            verdict = _verdict(response)
            self._given[f"{question.key} {mark}"] = verdict.value
            return verdict
        form = mcp_types.ElicitRequestFormParams(message=question.text, requested_schema=_FORM)
        raise InputNeeded(
            mcp_types.InputRequiredResult(
                input_requests={question.key: mcp_types.ElicitRequest(params=form)},
                request_state=self._tickets.issue({question.key: mark}, self._given),
            )
        )


def _verdict(answer: mcp_types.ElicitResult) -> ConfirmationResult:
    agreed = (answer.content or {}).get(_FIELD) if answer.action == "accept" else False
    if not isinstance(agreed, bool):
        return ConfirmationResult.UNANSWERED
    return ConfirmationResult.ACCEPTED if agreed else ConfirmationResult.DECLINED


def _can_fill_forms(session: ServerSession) -> bool:
    """Return whether a client says that it can ask a person to fill in a form."""
    capabilities = session.client_capabilities
    able = None if capabilities is None else capabilities.elicitation
    return able is not None and (able.form is not None or able.url is None)


def _is_able(session: ServerSession, request: mcp_types.ServerRequest) -> bool:
    if isinstance(request, mcp_types.ElicitRequest):
        return _can_fill_forms(session)
    capabilities = session.client_capabilities
    return (
        isinstance(request, mcp_types.CreateMessageRequest)
        and capabilities is not None
        and capabilities.sampling is not None
    )


async def relay_input(call: Call, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the client behind a call answers to the requests of a server, by their keys.

    Raises:
        ToolExecutionError: there is no client, or it cannot answer.
    """
    client = CURRENT.get()
    if client is None:
        raise _failure(call, "there is no client to ask")
    return {key: await _answer(call, client, request) for key, request in asked.items()}


async def _answer(call: Call, client: RequestClient, request: Any) -> dict[str, Any]:
    method = str(request.get("method")) if isinstance(request, dict) else "nothing known"
    try:
        return await client.ask(_REQUEST.validate_python(request, by_name=False))
    except PydanticError as error:
        raise _failure(call, f"it asks for {method!r:.80}, which cannot be passed on") from error
    except LookupError as error:
        raise _failure(call, f"it asks for {method!r:.80}, and the client cannot be asked that") from error
    except TimeoutError as error:
        raise _failure(call, f"it asks for {method!r:.80}, and the client did not answer") from error
    except MCPError as error:
        raise _failure(call, f"it asks for {method!r:.80}, and the client refused: {error}") from error


def _failure(call: Call, text: str) -> ToolExecutionError:
    backend = f"mcp:{getattr(call.backend, 'server_name', '')}"
    reason = f"the server needs input in the middle of the call: {text}"
    return ToolExecutionError(tool_id=call.tool_id, backend=backend, reason=reason)
