"""Converts errors of calls: whether the tool failed, or its server could not be reached.

What comes over the wire is always the tool's own no, whatever it says. Only the errors that are made on this
side tell of the connection: those of the transports, which are marked, and the SDK's.
"""

import re
import secrets
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from toolcrib.errors import (
    BackendUnavailableError,
    ServerUnavailableError,
    ToolError,
    ToolExecutionError,
    ToolLoginRequiredError,
)
from toolcrib.errors.base import short_repr
from toolcrib.execution.call import Call
from toolcrib.execution.oauth.persons import login_reason
from toolcrib.redaction import KnownSecrets

_MAX_REASON = 2_000
_DID_NOT_RUN = frozenset({400, 401, 403, 404, 405, 406, 413, 415, 429})
"""Statuses of a request that was refused before anything was done about it."""
_BROKEN_OFF = ("SSE stream ended", "SSE stream failed")
"""The beginnings of the SDK's messages about a lost response."""
_ADVICE = {
    401: "; set an Authorization header",
    403: "; set an Authorization header that gives access",
    404: "; check the path of its url",
    405: "; check the path of its url, and whether its transport is 'sse'",
    429: "; it gets too many requests",
}
_UNAUTHORIZED = 401
_DENIED = frozenset({_UNAUTHORIZED, 403})
_METADATA = re.compile(r"\bresource_metadata\s*=", re.IGNORECASE)
"""The parameter with which a server that requires OAuth names its metadata."""
_INSUFFICIENT = re.compile(r'\berror\s*=\s*"?insufficient_scope\b', re.IGNORECASE)
_SCOPE = re.compile(r'\bscope\s*=\s*"([^"]{1,500})"', re.IGNORECASE)
_SAID = {
    "Connection closed": "the connection was closed",
    "Failed to parse": "it gave an answer that is not JSON-RPC",
    "SSE stream ended": "it ended the event stream without an answer",
}
"""The SDK's messages, by their beginning, and their meanings."""
_MAX_LENGTH = 500
_MARK = "toolcrib"
_TOKEN = secrets.token_hex(16)
"""Tells the errors that are made here from those that a server sends: it is never sent to one."""


LOGIN = "toolcrib.login"
"""The extension of a request with the advice on how to log in, where a login can give it access."""


class NotAuthorizedError(httpx2.RequestError):
    """A request that was not sent, because there is no access to its server any more."""


def is_lost_session(error: MCPError) -> bool:
    """Return whether a server does not know our session, as after a restart; it then has run nothing.

    Only the transport can tell, from the status; a server may mean a session of another kind.

    >>> is_lost_session(MCPError(-32600, "Session terminated"))
    False
    """
    return (transport_facts(error.data) or {}).get("lost") is True


def is_unreachable(error: MCPError) -> bool:
    """Return whether a request was never sent, because there was no connection."""
    return error.code == CONNECTION_CLOSED and (transport_facts(error.data) or {}).get("sent") is False


def is_exhausted(error: MCPError) -> bool:
    """Return whether a request never left, because something holds all connections to the server."""
    return (transport_facts(error.data) or {}).get("exhausted") is True


def is_closed(error: MCPError) -> bool:
    """Return whether an error is the SDK's for a closed connection; servers can send it too."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed" and error.data is None


def was_answered(error: MCPError) -> bool:
    """Return whether a server was there to answer a request, if only with an error."""
    return error.code != CONNECTION_CLOSED or (_may_have_run(error) is None and not is_closed(error))


def hung_up(error: BaseException) -> bool:
    """Return whether a connection failed because the other side closed it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return any(
        isinstance(each, MCPError) and each.code == CONNECTION_CLOSED for each in (error, error.__cause__)
    )


def refuses_handshake(error: BaseException | None) -> bool:
    """Return whether a start failed because the server does not know the handshake."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return isinstance(error, MCPError) and error.code in {METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION}


def call_failure(error: MCPError, call: Call, backend: str) -> ToolError:
    """Return the error for a call that was answered with one."""
    message = error.message[:_MAX_REASON] or f"the server refused the call with code {error.code}"
    sent = _may_have_run(error)
    if needs_login(error):
        server = getattr(call.backend, "server_name", "")
        reason = login_reason(message, call.principal)
        return ToolLoginRequiredError(tool_id=call.tool_id, backend=backend, reason=reason, server=server)
    if sent is not None:
        return BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=message, sent=sent)
    reason = f"{message} ({short_repr(error.data)})" if error.data else message
    return ToolExecutionError(tool_id=call.tool_id, backend=backend, reason=reason)


def _may_have_run(error: MCPError) -> bool | None:
    """Return whether a call may have run of which nothing came back; None if something did."""
    facts = transport_facts(error.data)
    if facts is not None:
        return (
            facts.get("status") not in _DID_NOT_RUN if "status" in facts else facts.get("sent") is not False
        )
    lost = error.code == CONNECTION_CLOSED and error.data is None and error.message.startswith(_BROKEN_OFF)
    return True if lost else None


def marked(**facts: Any) -> dict[str, Any]:
    """Return the data of an error that is made on this side: facts about the failed request.

    `sent` is whether the request may have reached the server, `status` the HTTP status that refused it,
    `lost` that the server does not know the session, and `exhausted` that no connection was free.
    """
    return {_MARK: _TOKEN, **facts}


def failure_facts(error: httpx2.HTTPError) -> dict[str, Any]:
    """Return the facts about a failed request, marked as ours."""
    more = {"exhausted": True} if isinstance(error, httpx2.PoolTimeout) else {}
    more |= {"login": True} if isinstance(error, NotAuthorizedError) else {}
    return marked(sent=not never_sent(error), **more)


def needs_login(error: BaseException | None) -> bool:
    """Return whether something failed for want of a login, or of one that allows more."""
    if isinstance(error, httpx2.HTTPStatusError):
        return _offers_login(error.response)
    if isinstance(error, MCPError):
        return (transport_facts(error.error.data) or {}).get("login") is True
    return isinstance(error, BaseExceptionGroup) and any(map(needs_login, error.exceptions))


def refusal_facts(response: httpx2.Response) -> dict[str, Any]:
    """Return the facts about a request that was refused with a status, marked as ours."""
    return marked(status=response.status_code, **({"login": True} if _offers_login(response) else {}))


def _offers_login(response: httpx2.Response) -> bool:
    """Return whether a refusing server supports OAuth, and we can log in to it."""
    if LOGIN not in response.request.extensions:
        return False
    if response.status_code != _UNAUTHORIZED:
        return missing_scopes(response) is not None
    challenge = response.headers.get("www-authenticate", "")
    return "authorization" in response.request.headers or _METADATA.search(challenge) is not None


def transport_facts(data: Any) -> dict[str, Any] | None:
    """Return the facts about a request from the data of its error; None if a server sent it.

    >>> transport_facts(marked(sent=False))
    {'sent': False}
    >>> transport_facts({"sent": False}) is None
    True
    """
    if not isinstance(data, dict) or data.get(_MARK) != _TOKEN:
        return None
    return {name: value for name, value in data.items() if name != _MARK}


def reason_of(error: BaseException, secrets: KnownSecrets | None = None) -> str:
    """Return why something failed, in one line, from what the SDK and its HTTP client raise.

    Of a group it is the first failure in it that says something. Headers are never shown, and of an address
    neither user nor query, since that is where secrets are.

    >>> reason_of(ExceptionGroup("unhandled errors in a TaskGroup", [MCPError(-32000, "Connection closed")]))
    'the connection was closed'
    """
    reasons = [_reason(leaf) for leaf in _leaves(error)]
    telling = next((reason for reason in reasons if reason), type(error).__name__)
    if secrets is not None:
        telling = secrets.hide(telling)
    return " ".join(telling.split())[:_MAX_LENGTH]


def never_sent(error: BaseException) -> bool:
    """Return whether a request that failed like this certainly did not reach the server."""
    return all(
        isinstance(
            leaf, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | NotAuthorizedError
        )
        or (isinstance(leaf, MCPError) and (transport_facts(leaf.error.data) or {}).get("sent") is False)
        for leaf in _leaves(error)
    )


def place(url: httpx2.URL | str) -> str:
    """Return an address without its possibly secret parts.

    >>> place("https://me:pw@example.com/mcp?key=1")
    'https://example.com/mcp'
    """
    return str(httpx2.URL(url).copy_with(userinfo=b"", query=None, fragment=None))


def reason_of_status(response: httpx2.Response) -> str:
    """Return a description of a response's HTTP status, with advice.

    >>> reason_of_status(httpx2.Response(401, request=httpx2.Request("POST", "http://localhost/mcp")))
    'http://localhost/mcp answered 401 Unauthorized; set an Authorization header'
    """
    status, request = response.status_code, response.request
    advice, how = _ADVICE.get(status, ""), request.extensions.get(LOGIN)
    if how is not None and status in _DENIED:
        advice = _login_advice(response, how)
    elif status in _DENIED and "authorization" in request.headers:
        advice = "; its Authorization header was not accepted"
    elif status == _UNAUTHORIZED and _METADATA.search(response.headers.get("www-authenticate", "")):
        advice = "; it requires a login: set an Authorization header with its access token"
    phrase = httpx2.codes.get_reason_phrase(status)
    return f"{place(request.url)} answered {status}{' ' if phrase else ''}{phrase}{advice}"


def missing_scopes(response: httpx2.Response) -> list[str] | None:
    """Return the scopes missing for a refused request; None if that is not the reason."""
    challenge = response.headers.get("www-authenticate", "")
    if response.status_code not in _DENIED or not _INSUFFICIENT.search(challenge):
        return None
    scopes = _SCOPE.search(challenge)
    return scopes.group(1).split() if scopes else []


def _login_advice(response: httpx2.Response, command: str) -> str:
    """Return the advice for a refusal by a server that supports logins."""
    if response.status_code != _UNAUTHORIZED:
        scopes = missing_scopes(response)
        if "authorization" not in response.request.headers:
            return _ADVICE[403]
        wanted = f"; it requires the scopes {' '.join(scopes or ())!r}: {command}"
        return "; the login may not do this" if scopes is None else wanted
    if "authorization" in response.request.headers:
        return f"; the login has ended, log in again: {command}"
    if _offers_login(response):
        return f"; it needs a login: {command}"
    return f"{_ADVICE[401]}, or try {command}"


def reason_of_type(content_type: str, url: httpx2.URL | str) -> str:
    """Return that an answer is of a type which is not MCP's."""
    kind = content_type.partition(";")[0].strip().lower()
    what = {"text/html": "a web page", "": "nothing"}.get(kind, repr(kind))
    return f"{place(url)} answered with {what}, not with MCP; check the path of its url"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error


def _reason(error: BaseException) -> str:
    if isinstance(error, ServerUnavailableError):
        return error.reason
    if isinstance(error, MCPError):
        return next((text for start, text in _SAID.items() if error.message.startswith(start)), error.message)
    if isinstance(error, httpx2.HTTPStatusError):
        return reason_of_status(error.response)
    if isinstance(error, httpx2.RequestError) and not isinstance(error, NotAuthorizedError):
        return _reason_of_request(error)
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    return str(error)


def _reason_of_events(error: httpx2.SSEError) -> str:
    found = re.search(r"got '([^']*)'", str(error))
    return reason_of_type(found.group(1), error.request.url) if found else str(error)


def _reason_of_request(error: httpx2.RequestError) -> str:
    where = place(error.request.url)
    if isinstance(error, httpx2.SSEError):
        return _reason_of_events(error)
    if isinstance(error, httpx2.ConnectError):
        return _reason_of_connect(error, where)
    if isinstance(error, httpx2.TimeoutException):
        return _reason_of_timeout(error, where)
    if isinstance(error, httpx2.ProxyError):
        return f"the proxy on the way to {where} refused: {error}"
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError):
        return f"{where} broke off the connection"
    return f"the request to {where} failed: {error}"


def _reason_of_timeout(error: httpx2.TimeoutException, where: str) -> str:
    if isinstance(error, httpx2.PoolTimeout):
        return f"all connections to {where} are in use"
    doing = "be reached" if isinstance(error, httpx2.ConnectTimeout) else "answer"
    return f"{where} could not {doing} in time"


def _reason_of_connect(error: httpx2.ConnectError, where: str) -> str:
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                remedy = "SSL_CERT_FILE may name a file with the authority that signed it"
                return f"the certificate of {where} is not trusted: {cause.verify_message}; {remedy}"
            case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
                return f"{where} does not speak TLS; perhaps its url begins with http://"
            case ssl.SSLError():
                reason = getattr(cause, "reason", None) or cause
                return f"no secure connection to {where} could be made: {reason}"
            case socket.gaierror():
                return f"the host of {where} could not be found: {cause.strerror}"
            case ConnectionRefusedError():
                return f"nothing listens at {where}"
    return f"{where} cannot be reached: {error}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that led to it."""
    cause: BaseException | None = error
    while cause is not None:
        yield from _leaves(cause)
        cause = cause.__cause__ or cause.__context__
