"""The client behind one request: sends it progress and logs, and asks it as its protocol's era requires."""

import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import anyio
import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter
from pydantic import ValidationError as PydanticError

from toolcrib.errors import (
    LimitExceededError,
    LoginRequiredError,
    ToolExecutionError,
    ToolLoginRequiredError,
)
from toolcrib.errors.base import short_repr
from toolcrib.execution.call import Approval, Call, CallContext, PageNotifier
from toolcrib.execution.mcp.client_relay import APPS, LOG_LEVELS, TASKS
from toolcrib.gateway.app.asgi import http_request_of
from toolcrib.gateway.frontends.shared.frontend import (
    Confirmation,
    ConfirmationResult,
    InputNeeded,
    StartedTask,
)
from toolcrib.gateway.identity.principals import account_of, principal_of
from toolcrib.gateway.passing import add_findings
from toolcrib.gateway.request.confirmation_tokens import ConfirmationTokens
from toolcrib.gateway.request.input import (
    UNSAFE_PAGE,
    can_fill_forms,
    is_able,
    is_safe_page,
    missing,
    page_notifier,
    result_of,
    without_context,
)
from toolcrib.mcp_internals import connection_of
from toolcrib.model.findings import ResultFinding

_LOG = logging.getLogger("toolcrib.gateway")
_FIELD = "confirm"
_GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""What sending raises to a client that is gone."""
_REQUEST: TypeAdapter[mcp_types.InputRequest] = TypeAdapter(mcp_types.InputRequest)
Ask = Callable[[Mapping[str, mcp_types.InputRequest]], Awaitable[dict[str, dict[str, Any]]]]
"""Asks a client of the stateless era while its call is held; returns its responses by key."""
LoginError = LoginRequiredError | ToolLoginRequiredError
ObtainLogin = Callable[["RequestClient", LoginError], Awaitable[bool]]
"""Obtains the login that an error asks for; returns whether there is one now."""
_NOBODY_IS_ASKED = Approval()
_LEVEL = "toolcrib.log_level"
_PEER = "toolcrib.peer"
_DEFAULT_LEVEL = "info"
_RELAYED = ("elicitation", "sampling", "roots")
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Go ahead", "description": "Whether it may be done"}},
    "required": [_FIELD],
}


class RequestClient:
    """The client behind one request; implements `CallingClient` and `toolcrib.execution.call.CallClient`."""

    __slots__ = (
        "_asked",
        "_context",
        "_declared",
        "_given",
        "_is_away",
        "_mark",
        "_obtain_login",
        "_params",
        "_patience",
        "_session",
        "_state",
        "_tokens",
        "ask_later",
        "can_ask",
        "capabilities",
        "extensions",
        "held_key",
        "is_single",
        "is_stateless",
        "knows_tasks",
        "passed_question",
        "principal",
        "refusal",
        "request",
        "takes_server_requests",
        "takes_tasks",
        "task",
        "wants_progress",
    )

    def __init__(
        self,
        context: ServerRequestContext[Any, Any],
        params: mcp_types.InputResponseRequestParams,
        tokens: ConfirmationTokens,
        patience: float,
        *,
        is_single: bool = False,
        obtain_login: ObtainLogin | None = None,
    ) -> None:
        """Wrap a request of the SDK; `patience` is how many seconds to wait for an answer."""
        self._params, self._obtain_login = params, obtain_login
        self.attach(context)
        self._tokens, self._patience, self._mark = tokens, patience, object()
        self._asked: dict[str, str] | None = None
        self._given: dict[str, str] = {}
        self._state: dict[str, Any] = json.loads(params.request_state) if params.request_state else {}
        held = self._state.get("held")
        self.held_key: str | None = held if isinstance(held, str) else None
        """The key of the held call that this request continues."""
        self.ask_later: Ask | None = None
        """Asks a client of the stateless era while its call is held."""
        self.is_single = is_single
        """Whether its request maps to one request to a server, and can be repeated as a whole."""
        self.takes_tasks = False
        """Whether a server may begin a task in place of the answer, or the request concerns one."""
        self.task: StartedTask | None = None
        """The task that a server has begun."""
        self.passed_question: mcp_types.InputRequiredResult | None = None
        """The question of a server, which is the answer to this request."""
        self.refusal: MCPError | None = None
        """The error of a server that got no input, such as for a capability that the client lacks."""

    def context(self, approval: Approval = _NOBODY_IS_ASKED) -> CallContext:
        """Return the context of a call that this request makes."""
        token = None if self.request is None else self.request.subject_token
        return CallContext(principal=self.principal, client=self, approval=approval, subject_token=token)

    def detach(self) -> None:
        """Stop sending: the request was answered with a question, so its channel is closed."""
        self._is_away = True

    def attach(self, context: ServerRequestContext[Any, Any]) -> None:
        """Continue on a request, the first or a repeated one, which carries notifications from then on."""
        self._context, self._session, self._is_away = context, context.session, False
        self.request = http_request_of(context)
        """The HTTP request; None on a pipe."""
        self.principal = principal_of(context)
        """The caller: the subject of the token, else the client by its self-declared name."""
        self.is_stateless = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        """Whether it is of the stateless era, in which a question is the answer to its request."""
        self._declared = declared = context.session.client_capabilities
        found = {name: part for name in _RELAYED if (part := getattr(declared, name, None)) is not None}
        self.capabilities = {
            name: part.model_dump(by_alias=True, mode="json", exclude_none=True)
            for name, part in found.items()
        }
        """The capabilities that it declares among elicitation, sampling and roots."""
        self.can_ask = (
            bool(found)
            and can_fill_forms(declared)
            and (self.is_stateless or context.session.can_send_request)
        )
        """Whether it can ask a person to fill in a form."""
        extensions = (declared.extensions if declared is not None else None) or {}
        self.extensions = {APPS: extensions[APPS]} if APPS in extensions else {}
        """The MCP Apps extension, if it declares that."""
        self.knows_tasks = self.is_stateless and TASKS in extensions
        """Whether it declares the tasks extension of the stateless era."""
        self.takes_server_requests = bool(found) and not self.is_stateless
        """Whether servers may send it requests: it is of the handshake era and declares such a capability."""
        self.wants_progress = context.meta is not None and context.meta.get("progress_token") is not None
        """Whether it asked for progress notifications."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send a progress notification, if it requested them."""
        if not self._is_away:
            await self._session.report_progress(progress, total, message)

    @property
    def peer(self) -> object:
        """Identity of its connection; in the stateless era, of the request. Keeps neither alive."""
        kept = {} if self.is_stateless else connection_of(self._session).state
        return kept.setdefault(_PEER, self._mark)

    @property
    def session(self) -> object | None:
        """Identity of its session; None in the stateless era, which has no sessions."""
        return None if self.is_stateless else self.peer

    @property
    def log_level(self) -> str | None:
        """Least severe level of the log messages that it wants: from this request, or from its session."""
        if not self.is_stateless:
            return str(connection_of(self._session).state.get(_LEVEL, _DEFAULT_LEVEL))
        level = (self._context.meta or {}).get(mcp_types.LOG_LEVEL_META_KEY)
        return level if level in LOG_LEVELS else None

    @property
    def has_set_level(self) -> bool:
        """Whether it chose that level itself."""
        return self.is_stateless or _LEVEL in connection_of(self._session).state

    async def log(self, params: dict[str, Any]) -> None:
        """Send it a log message, unless that is below its level."""
        level = self.log_level
        if level is None or self._is_away or params.get("level") not in LOG_LEVELS:
            return
        if LOG_LEVELS.index(params["level"]) >= LOG_LEVELS.index(level):
            message = mcp_types.LoggingMessageNotificationParams.model_validate(params, by_name=False)
            notification = mcp_types.LoggingMessageNotification(params=message)
            await self._session.send_notification(notification, self._context.request_id)

    def page_notifier(self) -> PageNotifier | None:
        """Return a callback that reports a completed elicitation; None in the stateless era."""
        return None if self.is_stateless else page_notifier(self._session, self._context.request_id)

    async def confirm(self, question: Confirmation) -> ConfirmationResult:
        """Ask a person, and return the answer; in the stateless era this may raise `InputNeeded`."""
        if not self.can_ask:
            return ConfirmationResult.UNASKED
        if not self.is_stateless:
            return await self._elicit_answer(question)
        try:
            return await self._redeem_answer(question)
        except InputNeeded as needed:
            if not self._is_away or self.ask_later is None:
                raise
            responses = await self.ask_later(needed.result.input_requests or {})
        try:
            answer = mcp_types.ElicitResult.model_validate(responses.get(question.key), by_name=False)
        except PydanticError as error:
            _LOG.warning("a client gave an invalid answer: %s", short_repr(str(error)))
            return ConfirmationResult.UNANSWERED
        return _read_verdict(answer)

    def note_refusal(self, error: MCPError) -> None:
        """Store the error of a server that got no input; it becomes the answer to the request."""
        self.refusal = error

    def note_task(self, call: Call, handle: dict[str, Any], findings: tuple[ResultFinding, ...] = ()) -> None:
        """Make the task of a server the answer to this request."""
        # The task outlives this request, so nothing of the request is kept with it.
        context = CallContext(principal=call.principal)
        kept = replace(
            call, args={}, context=context, emit=None, pause=nullcontext, on_asked=None, check=None
        )
        self.task = StartedTask(kept, handle, findings)

    def take_server_state(self) -> dict[str, Any]:
        """Return the state and the responses for the server whose question was relayed, once."""
        if "passed" not in self._state:
            return {}
        state = self._state.pop("passed")
        responses = (self._context.params or {}).get("inputResponses")
        found = {"requestState": state, "inputResponses": responses}
        return {name: value for name, value in found.items() if value is not None}

    def pass_on(self, result: dict[str, Any], findings: tuple[ResultFinding, ...] = ()) -> bool:
        """Answer this request with a server's question; return False if the client cannot answer that."""
        if not (self.is_single and self.is_stateless):
            return False
        try:
            asked = mcp_types.InputRequiredResult.model_validate(
                add_findings(result, findings), by_name=False
            )
        except PydanticError:
            return False
        if not all(
            is_able(self._declared, request) and is_safe_page(request)
            for request in (asked.input_requests or {}).values()
        ):
            return False
        requests = {key: without_context(request) for key, request in (asked.input_requests or {}).items()}
        state = self._tokens.issue({}, self._given, passed=asked.request_state)
        self.passed_question = asked.model_copy(update={"input_requests": requests, "request_state": state})
        return True

    async def ask(self, requests: Mapping[str, mcp_types.InputRequest]) -> dict[str, dict[str, Any]]:
        """Relay the requests of a server to the client, and return its responses by the same keys.

        Raises:
            LookupError: it does not support such a request.
            TimeoutError: it did not answer.
            MCPError: it answered with an error.
        """
        for request in requests.values():
            if not is_able(self._declared, request):
                self.refusal = missing(request)
                raise LookupError(request.method)
        if self.ask_later is not None:
            return await self.ask_later(requests)
        if not self._session.can_send_request:
            raise LookupError(", ".join(request.method for request in requests.values()))
        return {key: await self._send_request(request) for key, request in requests.items()}

    async def log_in(self, error: LoginError) -> bool:
        """Have its user log in to the server of an error, and return whether they did."""
        return self._obtain_login is not None and await self._obtain_login(self, error)

    @property
    def can_open_links(self) -> bool:
        """Whether it can ask a person to open a URL."""
        declared = self._declared
        able = None if declared is None else declared.elicitation
        can_be_sent = self.ask_later is not None or self._session.can_send_request
        return able is not None and able.url is not None and can_be_sent

    async def complete_elicitation(self, elicitation: str) -> None:
        """Notify it of a completed URL elicitation; the stateless era has no such message."""
        if not self.is_stateless:
            params = mcp_types.ElicitCompleteNotificationParams(elicitation_id=elicitation)
            notification = mcp_types.ElicitCompleteNotification(params=params)
            await self._session.send_notification(notification, self._context.request_id)

    async def _send_request(self, request: mcp_types.InputRequest) -> dict[str, Any]:
        params = request.params
        if isinstance(params, mcp_types.ElicitRequestURLParams) and params.elicitation_id is None:
            named = params.model_copy(update={"elicitation_id": secrets.token_hex(16)})
            request = mcp_types.ElicitRequest(
                params=named
            )  # which the stateless era of the server does not have
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        with anyio.fail_after(self._patience):
            result = await self._session.send_request(request, result_of(request), metadata=related)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def _elicit_answer(self, question: Confirmation) -> ConfirmationResult:
        """Send a form and wait for the answer; a client that fails has not asked its user."""
        with anyio.move_on_after(self._patience):
            try:
                answer = await self._session.elicit_form(question.text, _FORM, self._context.request_id)
            except (MCPError, PydanticError, *_GONE) as error:
                _LOG.warning("a client could not ask its user: %s", short_repr(str(error) or repr(error)))
                return ConfirmationResult.UNANSWERED
            return _read_verdict(answer)
        _LOG.warning("a client did not answer a question within %g s", self._patience)
        return ConfirmationResult.UNANSWERED

    async def _redeem_answer(self, question: Confirmation) -> ConfirmationResult:
        """Return the answer from the request or its sealed state; raise `InputNeeded` if there is none."""
        if self._asked is None:
            account = account_of(self.principal)
            self._asked, self._given = await self._tokens.redeem_everywhere(
                self._params.request_state, account
            )
        mark = hashlib.sha256(question.text.encode(errors="surrogatepass")).hexdigest()
        given = self._given.get(f"{question.key} {mark}")
        if given is not None:
            return ConfirmationResult(given)
        response = (self._params.input_responses or {}).get(question.key)
        if self._asked.get(question.key) == mark and isinstance(response, mcp_types.ElicitResult):
            verdict = _read_verdict(response)
            self._given[f"{question.key} {mark}"] = verdict.value
            return verdict
        form = mcp_types.ElicitRequestFormParams(message=question.text, requested_schema=_FORM)
        raise InputNeeded(
            mcp_types.InputRequiredResult(
                input_requests={question.key: mcp_types.ElicitRequest(params=form)},
                request_state=self._tokens.issue({question.key: mark}, self._given),
            )
        )


def _read_verdict(answer: mcp_types.ElicitResult) -> ConfirmationResult:
    if answer.action == "cancel":
        return ConfirmationResult.DISMISSED
    agreed = (answer.content or {}).get(_FIELD) if answer.action == "accept" else False
    if not isinstance(agreed, bool):
        return ConfirmationResult.UNANSWERED
    return ConfirmationResult.ACCEPTED if agreed else ConfirmationResult.DECLINED


async def set_log_level(
    context: ServerRequestContext[Any, Any], params: mcp_types.SetLevelRequestParams
) -> mcp_types.EmptyResult:
    """Store the log level that a client of the handshake era wants."""
    connection_of(context.session).state[_LEVEL] = params.level
    return mcp_types.EmptyResult()


async def relay_input(call: Call, asked: dict[str, Any]) -> dict[str, Any]:
    """Relay the requests of a server to the client behind a call, and return its responses by their keys.

    Raises:
        ToolExecutionError: there is no client, or it cannot answer.
    """
    client = call.context.client
    if not isinstance(client, RequestClient):
        raise _failure(call, "there is no client to ask")
    requests: dict[str, mcp_types.InputRequest] = {}
    for key, request in asked.items():
        try:
            requests[key] = without_context(_REQUEST.validate_python(request, by_name=False))
        except PydanticError as error:
            raise _failure(call, f"it asks for {_method_of(request)}, which cannot be passed on") from error
        if not is_safe_page(requests[key]):
            raise _failure(call, UNSAFE_PAGE)
    methods = ", ".join(sorted({_method_of(request) for request in asked.values()}))
    try:
        return await client.ask(requests)
    except LookupError as error:
        raise _failure(call, f"it asks for {methods}, and the client cannot be asked that") from error
    except LimitExceededError as error:
        raise _failure(call, f"it asks for {methods}, and {error.reason}") from error
    except TimeoutError as error:
        raise _failure(call, f"it asks for {methods}, and the client did not answer") from error
    except PydanticError as error:
        raise _failure(call, f"it asks for {methods}, and the client answered something else") from error
    except MCPError as error:
        raise _failure(call, f"it asks for {methods}, and the client refused: {error}") from error


def _method_of(request: Any) -> str:
    method = str(request.get("method")) if isinstance(request, dict) else "nothing known"
    return f"{method!r:.80}"


def _failure(call: Call, text: str) -> ToolExecutionError:
    backend = f"mcp:{getattr(call.backend, 'server_name', '')}"
    reason = f"the server needs input in the middle of the call: {text}"
    return ToolExecutionError(tool_id=call.tool_id, backend=backend, reason=reason)
