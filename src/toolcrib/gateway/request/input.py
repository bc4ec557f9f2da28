"""Input requests of servers: the capability that a client needs, and the type of the answer."""

from typing import Any
from urllib.parse import urlsplit
from weakref import ref

import anyio
import mcp_types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from toolcrib.concurrency.background import Background
from toolcrib.crib.config.gateway import is_loopback
from toolcrib.errors import LimitExceededError, explain
from toolcrib.execution.call import PageNotifier
from toolcrib.mcp_internals import connection_of

_NOTIFY_TIMEOUT = 5.0
"""Within how many seconds a client must take a notification."""
_PAGE_DONE = "notifications/elicitation/complete"
UNSAFE_PAGE = "it sends the user to a page that is neither https nor on this machine"
"""The reason to refuse a server's request for an unsafe page."""


def can_fill_forms(declared: mcp_types.ClientCapabilities | None) -> bool:
    """Return whether a client says that it can ask a person to fill in a form."""
    able = None if declared is None else declared.elicitation
    return able is not None and (able.form is not None or able.url is None)


def result_of(request: mcp_types.InputRequest) -> type[mcp_types.Result]:
    """Return the type of the answers to a request."""
    if isinstance(request, mcp_types.ElicitRequest):
        return mcp_types.ElicitResult
    if isinstance(request, mcp_types.ListRootsRequest):
        return mcp_types.ListRootsResult
    tools = request.params.tools is not None or request.params.tool_choice is not None
    return mcp_types.CreateMessageResultWithTools if tools else mcp_types.CreateMessageResult


def is_able(declared: mcp_types.ClientCapabilities | None, request: mcp_types.InputRequest) -> bool:
    """Return whether a client declares what it takes to answer a request."""
    if declared is None:
        return False
    if isinstance(request, mcp_types.ElicitRequest):
        if isinstance(request.params, mcp_types.ElicitRequestURLParams):
            return declared.elicitation is not None and declared.elicitation.url is not None
        return can_fill_forms(declared)
    if isinstance(request, mcp_types.ListRootsRequest):
        return declared.roots is not None
    tools = result_of(request) is mcp_types.CreateMessageResultWithTools
    return declared.sampling is not None and (not tools or declared.sampling.tools is not None)


def page_notifier(session: ServerSession, request_id: mcp_types.RequestId | None) -> PageNotifier:
    """Return what tells a client that a page is done with: on the stream of its request, while that lasts."""
    connection, requests = ref(connection_of(session)), ref(session)

    def tell(elicitation_id: str, during: bool) -> None:  # noqa: FBT001 - as `PageNotifier` has it
        own, whole = requests() if during else None, connection()

        async def notify() -> None:
            with anyio.move_on_after(_NOTIFY_TIMEOUT):
                if own is not None:
                    await own.send_elicit_complete(elicitation_id, request_id)
                elif whole is not None:
                    await whole.notify(_PAGE_DONE, {"elicitationId": elicitation_id})

        Background(notify)

    return tell


def missing(request: mcp_types.InputRequest) -> MCPError:
    """Return the protocol's error for a client that does not declare what it takes."""
    needed: dict[str, Any] = {"roots": {}}
    if isinstance(request, mcp_types.ElicitRequest):
        needed = {"elicitation": {request.params.mode or "form": {}}}
    elif isinstance(request, mcp_types.CreateMessageRequest):
        tools = result_of(request) is mcp_types.CreateMessageResultWithTools
        needed = {"sampling": {"tools": {}} if tools else {}}
    message = f"the tool asks for {request.method}, and the client does not declare the capability"
    code = mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
    return MCPError(code, message, {"requiredCapabilities": needed})


def limit_error(error: LimitExceededError) -> MCPError:
    """Return the protocol's error for a question that was not asked, because too many others are."""
    return MCPError(mcp_types.INVALID_REQUEST, str(error), explain(error))


def is_safe_page(request: mcp_types.InputRequest) -> bool:
    """Return whether a request opens no page, or one at https, or one of this machine."""
    params = request.params
    return not isinstance(params, mcp_types.ElicitRequestURLParams) or _is_safe(params.url)


def without_context(request: mcp_types.InputRequest) -> mcp_types.InputRequest:
    """Return a request that asks for no context of servers: a client would take that of all servers here."""
    if not isinstance(request, mcp_types.CreateMessageRequest) or request.params.include_context is None:
        return request
    return mcp_types.CreateMessageRequest(params=request.params.model_copy(update={"include_context": None}))


def passed_error(error: MCPError) -> MCPError:
    """Return a server's error as a client gets it: as it is, unless it sends the user to an unsafe page."""
    pages = error.data.get("elicitations") if isinstance(error.data, dict) else None
    urls = [page.get("url") for page in pages if isinstance(page, dict)] if isinstance(pages, list) else []
    if error.code == mcp_types.URL_ELICITATION_REQUIRED and not all(map(_is_safe, urls)):
        return MCPError(mcp_types.INTERNAL_ERROR, f"the server's error is not passed on: {UNSAFE_PAGE}")
    return MCPError(error.code, error.message, error.data)


def _is_safe(url: Any) -> bool:
    """Return whether a client may have a browser open an address.

    `javascript:`, `data:` and `file:` would act there, and what stands before an `@` be taken for the host.

    >>> _is_safe("https://example.com/in"), _is_safe("http://127.0.0.1:8000/"), _is_safe("http://example.com")
    (True, True, False)
    """
    if not isinstance(url, str) or not (url.isascii() and url.isprintable()) or {" ", "\\"} & set(url):
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
