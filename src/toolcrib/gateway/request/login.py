"""Asks the user of a client to log in to a server, and continues the request afterwards."""

import secrets

import anyio
import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolcrib.errors import Unconfirmed
from toolcrib.gateway.app.connect import LoginLink, LoginPages
from toolcrib.gateway.request.client import LoginError, RequestClient

_PATIENCE = 300.0
"""Seconds that a call waits for a login."""
_KEY = "login"


class LoginRequests:
    """Requests missing logins by URL elicitation.

    Requests of one person that need the same login share one question. If the client cannot ask, or its user
    does not log in, the request fails with the URL of the page, which the user can still open.
    """

    def __init__(self, links: LoginPages, *, patience: float = _PATIENCE) -> None:
        self._links, self._patience = links, patience

    async def obtain(self, client: RequestClient, error: LoginError) -> bool:
        """Obtain the login of an error; return False if there is none, with the URL of the page in it."""
        link = self._links.link(client.principal, error.server)
        if link is None:
            return False
        error.url = link.url
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
