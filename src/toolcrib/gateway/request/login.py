"""Asks the user of a client to log in to a server, and continues the request afterwards."""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

import anyio
import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolcrib.errors import LoginRequiredError, ToolLoginRequiredError, Unconfirmed
from toolcrib.execution import Principal
from toolcrib.execution.call import Answer, Call, CallClient
from toolcrib.execution.protocols import Next
from toolcrib.gateway.app.connect import LoginLink, LoginPages
from toolcrib.gateway.request.client import RequestClient

_PATIENCE = 300.0
"""Seconds that a call waits for a login."""
_KEY = "login"
T = TypeVar("T")


class LoginRequests:
    """Middleware that requests a missing login by URL elicitation.

    Calls of one person that need the same login share one question. If the client cannot ask, or its user
    does not log in, the call fails with the URL of the page, which the user can still open.
    """

    def __init__(self, links: LoginPages, *, patience: float = _PATIENCE) -> None:
        self._links, self._patience = links, patience

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Run a call, and once more after a login."""
        try:
            return await go_on(call)
        except ToolLoginRequiredError as error:
            client = call.context.client
            with call.pause() if call.pause else nullcontext():
                if not await self._obtain_login(error, call.principal, client):
                    raise
        return await go_on(call)

    async def retry_after_login(self, ask: Callable[[], Awaitable[T]], client: RequestClient) -> T:
        """Send a request for anything but a tool, and once more after a login."""
        try:
            return await ask()
        except LoginRequiredError as error:
            if not await self._obtain_login(error, client.principal, client):
                raise
        return await ask()

    async def _obtain_login(
        self,
        error: LoginRequiredError | ToolLoginRequiredError,
        principal: Principal | None,
        client: CallClient | None,
    ) -> bool:
        """Request a login; return False if there was none, with the URL of the page in the error."""
        link = self._links.link(principal, error.server)
        if link is None:
            return False
        error.url = link.url
        if not isinstance(client, RequestClient):
            return False
        if not await self._wait_for_login(error.server, link, client):
            return False
        error.answer = link.login.answer
        return link.login.done.is_set()

    async def _wait_for_login(self, server: str, link: LoginLink, client: RequestClient) -> bool:
        """Wait for the shared question about a login, and ask it first if necessary.

        Returns False if the client cannot ask. Afterwards either `done` of the login is set, or `answer` has
        the reason why not.
        """
        login = link.login
        if login.asking is not None:
            await login.asking.wait()
            return True
        if not client.can_open_links:
            return False
        login.asking = asking = anyio.Event()
        try:
            login.answer = "unanswered"  # if the question fails or is cancelled
            login.answer = await self._ask_to_log_in(server, link, client)
        finally:
            login.asking = None
            asking.set()
        return True

    async def _ask_to_log_in(self, server: str, link: LoginLink, client: RequestClient) -> Unconfirmed | None:
        """Ask the person to log in; return None if they did, else the reason."""
        elicitation = secrets.token_hex(16)
        message = f"This needs your account of the server {server!r}. Log in there with your browser?"
        params = mcp_types.ElicitRequestURLParams(message=message, url=link.url, elicitation_id=elicitation)
        try:
            answers = await client.ask({_KEY: mcp_types.ElicitRequest(params=params)})
        except (LookupError, TimeoutError, MCPError, ValidationError):
            return "unanswered"
        action = answers[_KEY].get("action")
        if action != "accept":
            return "dismissed" if action == "cancel" else "declined"
        with anyio.move_on_after(self._patience):
            await link.login.done.wait()
        if not link.login.done.is_set():
            return "unanswered"
        await client.complete_elicitation(elicitation)
        return None
