"""An authorization server with personal accounts, and an MCP server with data of its own for each."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from execution.mcp.web import serving
from execution.oauth.authority import Authority
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

ACCOUNT = "x-account"
"""The header with which the tests' browser names its account."""


@dataclass
class Accounts(Authority):
    """An authorization server that knows the account of each token."""

    accounts: dict[str, str] = field(default_factory=dict)
    """The account of each token, of both kinds."""
    sessions: dict[str, str] = field(default_factory=dict)
    """The account that began each session with the MCP server."""
    seen: list[str] = field(default_factory=list)
    """Values of the Authorization header that the MCP server received."""
    expired: set[str] = field(default_factory=set)
    """The sessions that the MCP server has forgotten."""
    handshake: bool = False
    """Whether the MCP server is of the era with sessions."""

    def token_of(self, account: str, lifetime: float = 3600.0) -> str:
        """Return a new access token of an account."""
        before, self.lifetime = self.lifetime, lifetime
        token: str = self.give("someone", [], self.url, refresh=False)["access_token"]
        self.lifetime, self.accounts[token] = before, account
        return token

    async def _authorize(self, request: Request) -> Response:
        response = await super()._authorize(request)
        code = list(self.codes)[-1]
        self.codes[code]["account"] = request.headers.get(ACCOUNT, "nobody")
        return response

    def _granted(self, client: str, form: dict[str, str]) -> Response:
        begun = self.codes.get(form.get("code", ""), {})
        account = begun.get("account") or self.accounts.get(form.get("refresh_token", ""), "")
        response = super()._granted(client, form)
        given = json.loads(bytes(response.body))
        for name in ("access_token", "refresh_token"):
            if name in given:
                self.accounts[given[name]] = account
        return response

    def _checked(self, scope: Any) -> Response | None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        refused = super()._checked(scope)
        if scope["path"].startswith("/.well-known"):
            return refused
        self.seen.append(headers.get("authorization", ""))
        if refused is not None:
            return refused
        account = self.accounts[headers["authorization"].removeprefix("Bearer ")]
        session = headers.get("mcp-session-id")
        if session is not None and self.sessions.setdefault(session, account) != account:
            return Response("the session is that of somebody else", status_code=409)
        if session in self.expired:
            return JSONResponse(
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}, 404
            )
        if self.handshake and headers.get("mcp-method") == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            return JSONResponse({"jsonrpc": "2.0", "id": 0, "error": error}, 400)
        return None

    def sessions_of(self, account: str) -> set[str]:
        """Return the sessions of an account that have not expired."""
        return {name for name, owner in self.sessions.items() if owner == account} - self.expired

    def mcp_app(self) -> Any:
        """Return the MCP server."""
        server = MCPServer("accounts", log_level="ERROR")

        @server.tool()
        def whoami(note: str, ctx: Context) -> str:
            """Return the name of the account in use."""
            token = (ctx.headers or {}).get("authorization", "").removeprefix("Bearer ")
            return f"{self.accounts[token]}: {note}"

        return self.guard(server.streamable_http_app(json_response=True))


@contextmanager
def accounts(kind: type[Accounts] = Accounts, **behaviour: Any) -> Iterator[Accounts]:
    """Run an authorization server and an MCP server that shows each person their own data."""
    running = kind(**behaviour)
    with ExitStack() as stack:
        running.issuer = stack.enter_context(serving(running.app()))
        running.url = f"{stack.enter_context(serving(running.mcp_app()))}/mcp"
        yield running
