"""A small authorization server, and an MCP server that accepts its tokens alone, which faults can be given to."""

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

import anyio
from execution.mcp.typed_server import app as mcp_app
from execution.mcp.web import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass
class Access:
    """An access token in the server's records."""

    ends: float
    scopes: list[str]
    resource: str | None


@dataclass
class Authority:
    """State shared by both servers, and the faults they simulate."""

    lifetime: float = 3600.0
    rotates: bool = True
    registers: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    """Metadata of the device flow, added to the usual or in its place."""
    answer: dict[str, str] = field(default_factory=dict)
    """Sent with the browser beside the usual, or instead."""
    required_scope: str | None = None
    broken: tuple[int, dict[str, Any]] | None = None
    """The response of the token endpoint instead of tokens."""
    pending: int = 0
    """The number of `authorization_pending` responses to a device."""
    skew: float = 0.0
    """Seconds by which its clock is ahead."""
    silent: str = ""
    """The path, of either server, that is never answered."""
    drips: bool = False
    """Whether that response drips, a byte at a time, and never ends."""
    issuer: str = ""
    url: str = ""
    tokens: dict[str, Access] = field(default_factory=dict)
    refreshes: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    clients: dict[str, str | None] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    """The forms that the token endpoint got."""
    secrets: set[str] = field(default_factory=set)
    """Values that must never appear in output."""
    refused: int = 0
    """The number of requests that the MCP server refused."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def app(self) -> Starlette:
        """Return the authorization server."""
        routes = [
            Route("/.well-known/oauth-authorization-server", self._describe),
            Route("/register", self._register, methods=["POST"]),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/device", self._device, methods=["POST"]),
            Route("/revoke", self._revoke, methods=["POST"]),
        ]
        found = Starlette(routes=routes)
        found.tidy = True  # type: ignore[attr-defined]
        return found

    def secret(self) -> str:
        made = secrets.token_urlsafe(24)
        self.secrets.add(made)
        return made

    def give(
        self, client: str, scopes: list[str], resource: str | None, *, refresh: bool = True
    ) -> dict[str, Any]:
        """Return an answer with new tokens."""
        token = self.secret()
        self.tokens[token] = Access(time.time() + self.lifetime, scopes, resource)
        given = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": int(self.lifetime),
            "scope": " ".join(scopes),
        }
        if refresh:
            given["refresh_token"] = self.secret()
            self.refreshes[given["refresh_token"]] = client, scopes
        return given

    async def _describe(self, _: Request) -> Response:
        base = self.issuer
        known = {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "device_authorization_endpoint": f"{base}/device",
            "revocation_endpoint": f"{base}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "private_key_jwt"],
        }
        known |= {"registration_endpoint": f"{base}/register"} if self.registers else {}
        return JSONResponse(known | self.metadata)

    async def _register(self, request: Request) -> Response:
        metadata = await request.json()
        client = f"client-{len(self.clients)}"
        self.clients[client] = None
        return JSONResponse(metadata | {"client_id": client}, 201)

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        code = self.secret()
        self.codes[code] = query
        self.secrets.add(query["state"])
        answer = {"code": code, "state": query["state"]} | self.answer
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def _device(self, request: Request) -> Response:
        form = dict(await request.form())
        code = self.secret()
        self.codes[code] = {**form, "device": "yes"}
        page = f"{self.issuer}/enter"
        return JSONResponse(
            {
                "device_code": code,
                "user_code": "ABCD-EFGH",
                "verification_uri": page,
                "interval": 0,
                "expires_in": 60,
            }
            | self.device
        )

    async def _revoke(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        if self._client(request, form) is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        self.refreshes.pop(form["token"], None)
        self.tokens.clear()
        return Response()

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        with self.lock:
            self.asked.append(form)
            if self.broken is not None:
                return JSONResponse(self.broken[1], self.broken[0])
            client = self._client(request, form)
            if client is None:
                return JSONResponse({"error": "invalid_client"}, 401)
            return self._granted(client, form)

    def _client(self, request: Request, form: dict[str, str]) -> str | None:
        client, secret = form.get("client_id", ""), None
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        if basic:
            client, secret = map(unquote, base64.b64decode(basic).decode().split(":"))
        if "client_assertion" in form:
            self.secrets.add(form["client_assertion"])
            claims = form["client_assertion"].split(".")[1]
            decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            assert decoded["aud"] == self.issuer
            is_timely = decoded["iat"] <= time.time() + self.skew < decoded["exp"]
            return str(decoded["sub"]) if is_timely else None
        return client if client in self.clients and self.clients[client] == secret else None

    def _granted(self, client: str, form: dict[str, str]) -> Response:  # noqa: PLR0911 - one for each case
        kind, resource = form["grant_type"], form.get("resource")
        if kind == "client_credentials":
            return JSONResponse(self.give(client, form.get("scope", "").split(), resource, refresh=False))
        if kind == "refresh_token":
            known = self.refreshes.get(form["refresh_token"])
            if known is None or known[0] != client:
                self.refreshes.clear()  # a token that was used before was stolen
                return JSONResponse({"error": "invalid_grant"}, 400)
            if self.rotates:
                del self.refreshes[form["refresh_token"]]
            return JSONResponse(self.give(client, known[1], resource, refresh=self.rotates))
        begun = self.codes.get(form.get("code") or form.get("device_code", ""))
        if begun is None or begun["client_id"] != client:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if kind == DEVICE:
            self.pending -= 1
            if self.pending >= 0:
                return JSONResponse({"error": "authorization_pending"}, 400)
        else:
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if challenge != begun["code_challenge"] or form["redirect_uri"] != begun["redirect_uri"]:
                return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse(self.give(client, begun.get("scope", "").split(), resource))

    def guard(self, app: Any) -> Any:
        """Return an application that lets in who has a token of the authority for it."""

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            response = self._checked(scope)
            await (app if response is None else response)(scope, receive, send)

        return guarded

    def _checked(self, scope: Any) -> Response | None:
        if scope["path"].startswith("/.well-known/oauth-protected-resource"):
            return JSONResponse({"resource": self.url, "authorization_servers": [self.issuer]})
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        token = headers.get("authorization", "").removeprefix("Bearer ")
        known = self.tokens.get(token)
        if known is None or known.ends <= time.time() + self.skew or known.resource not in {None, self.url}:
            self.refused += 1
            origin = self.url.removesuffix("/mcp")
            where = f'resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp"'
            return Response(status_code=401, headers={"www-authenticate": f"Bearer {where}"})
        if self.required_scope is not None and self.required_scope not in known.scopes:
            challenge = f'Bearer scope="{self.required_scope}", error="insufficient_scope"'
            return Response(status_code=403, headers={"www-authenticate": challenge})
        return None

    def stall(self, app: Any) -> Any:
        """Return an application that leaves one path without an answer until its client gives up."""

        async def stalled(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["path"] != self.silent:
                await app(scope, receive, send)
                return
            async with anyio.create_task_group() as tasks:
                if self.drips:
                    tasks.start_soon(drip, send)
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

        return stalled


async def drip(send: Any) -> None:
    """Begin an answer, and go on with it for ever."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while True:
        await send({"type": "http.response.body", "body": b" ", "more_body": True})
        await anyio.sleep(0.02)


@contextmanager
def authorities(**behaviour: Any) -> Iterator[Authority]:
    """Run an authorization server and an MCP server that requires its tokens."""
    authority = Authority(**behaviour)
    with ExitStack() as stack:
        authority.issuer = stack.enter_context(serving(authority.stall(authority.app())))
        address = stack.enter_context(serving(authority.stall(authority.guard(mcp_app("json")))))
        authority.url = f"{address}/mcp"
        yield authority


def browse(address: str) -> threading.Thread:
    """Open a login's address in a thread, as the browser of a logged-in user does."""

    def go() -> None:
        with suppress(OSError), urllib.request.urlopen(address, timeout=60) as page:  # noqa: S310 - of ours
            page.read()

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    return thread


def query_of(address: str) -> dict[str, str]:
    """Return the parameters of an address."""
    return {name: found[0] for name, found in parse_qs(address.partition("?")[2]).items()}
