"""Answers requests for the API and the pages of the console.

Each request of the API is checked in this order: the origin (by the guard) and the Fetch metadata, the
operation, the login, the right, then the parameters and the body. A login is a token of the gateway in the
`Authorization` header, or the cookie of a browser with its key in a header, which no other page can send.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from pydantic_core import from_json

from toolcrib.console import ConsolePages
from toolcrib.crib import Crib
from toolcrib.crib.config.gateway import is_loopback
from toolcrib.errors import Problem, ToolcribError, ValidationError, explain
from toolcrib.execution import Principal
from toolcrib.execution.principal import LOCAL, Issuers, local_user
from toolcrib.gateway.api.approvals import Approvals
from toolcrib.gateway.api.caller import ApiCaller, ApiFile, ApiStream, to_json
from toolcrib.gateway.api.calls import CallLog
from toolcrib.gateway.api.logins import LOGIN_SECONDS, ConsoleLogins, Login, read_cookie
from toolcrib.gateway.api.operations import ApiOperations
from toolcrib.gateway.api.records import LoginBody
from toolcrib.gateway.api.routes import DOCUMENT, ROOT, ApiOperation, find_operation, openapi_document
from toolcrib.gateway.api.webhook import WebhookSignatureError
from toolcrib.gateway.app.asgi import STREAM, Headers, HttpRequest, Receive, Scope, Send, send_bytes
from toolcrib.gateway.app.connect import LoginPages
from toolcrib.gateway.identity.identities import Identities, Refusal
from toolcrib.gateway.workers.fleet import Fleet
from toolcrib.model.record import Record

PAGES = "/console/"
"""Where the pages are."""
_LOG = logging.getLogger("toolcrib.gateway")
_API = "/api/"
_KEY = b"x-toolcrib-key"
"""The header with the key of a browser; with a login, its value is `login`."""
_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFE: Headers = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Headers of every answer."""
_FOR_GOOD = b"public, max-age=31536000, immutable"
_PRIVATE: Headers = [*_SAFE, (b"cache-control", b"no-store")]
_STATUS = {
    "tool_not_found": 404,
    "validation_input": 400,
    "denied": 403,
    "backend_unavailable": 503,
    "timeout": 504,
    "limit_exceeded": 429,
}
"""The status of an error, by its code; of others 500."""
_OFF = (
    "The console of this gateway is off, as it is by default if other machines can reach the gateway. To "
    "turn it on, set enabled = true below [console] in its configuration, and restart it. MCP is at /mcp."
)
_BEGIN = "open the link that `toolcrib console` prints, or send a token as 'Authorization: Bearer ...'"
_REPEATED = 50


class ApiRefusal(Exception):  # noqa: N818 - it is an answer to a client, not an error of ours
    """Refuses a request of the API."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or []


class ConsoleSite:
    """The console of a gateway: its pages, the API, the logins, and the calls that it remembers."""

    def __init__(  # noqa: PLR0913 - made in one place, each by its name
        self,
        crib: Crib,
        identities: Callable[[], Identities | None],
        logins: LoginPages,
        sessions: Callable[[], int],
        *,
        enabled: bool | None,
        calls: CallLog,
        approvals: Approvals,
        fleet: Fleet,
    ) -> None:
        """Serve a crib; `calls` observes it, and `approvals` asks for its consent.

        `enabled` is None to serve the console only where other machines cannot reach it.
        """
        self._crib, self._identities, self._is_enabled = crib, identities, enabled
        self._calls, self.approvals, self._browsers = calls, approvals, ConsoleLogins()
        self._operations = ApiOperations(crib, calls, approvals, logins, sessions, fleet)
        self._routes = (*self._session_operations(), *self._operations.all())
        self._pages = ConsolePages()
        self._document: bytes | None = None
        self.is_on = False
        """Whether the console is served."""
        self._answering = self._listeners = 0
        self._quiet = anyio.Event()
        self._closing = anyio.Event()

    def bind(self, host: str) -> None:
        """Serve at an address from now on."""
        is_local = is_loopback(host) and self._crib.settings.gateway.public_url is None
        self.is_on = is_local if self._is_enabled is None else self._is_enabled
        if self.is_on:
            self._calls.open(self._crib.settings.console.calls)

    def make_link(self, address: str) -> str:
        """Return the address at which the user of this machine logs in, once."""
        return f"{address}{PAGES}#login={self._browsers.make_code(local_user('console'))}"

    @staticmethod
    def serves(path: str) -> bool:
        """Return whether a path belongs to the console."""
        return path in {"/", PAGES[:-1], _API[:-1]} or path.startswith((PAGES, _API))

    def close(self) -> None:
        """End the streams, which never end by themselves."""
        self._closing.set()

    async def wait_answered(self) -> None:
        """Wait until all other requests are answered."""
        while self._answering:
            self._quiet = anyio.Event()
            await self._quiet.wait()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page or an operation."""
        path: str = scope["path"]
        if path.startswith(_API):
            await self._answer_api(path, scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await _send_json(send, 405, {"error": {"code": "method", "message": "only GET is answered here"}})
        elif not self.is_on:
            await send_bytes(send, 404, _OFF.encode(), b"text/plain; charset=utf-8", _PRIVATE)
        elif path.startswith(PAGES):
            await self._send_page(path.removeprefix(PAGES) or "index.html", scope, send)
        else:
            await send_bytes(send, 302, b"", b"text/plain", [*_PRIVATE, (b"location", PAGES.encode())])

    async def _send_page(self, name: str, scope: Scope, send: Send) -> None:
        page = self._pages.find(name)
        if page is None:
            await send_bytes(send, 404, b"There is no such page.", b"text/plain", _PRIVATE)
            return
        headers = [
            *_SAFE,
            (b"cache-control", _FOR_GOOD if page.is_fixed else b"no-cache"),
            (b"etag", page.mark),
            (b"vary", b"accept-encoding"),
        ]
        given = dict(scope["headers"])
        if given.get(b"if-none-match") == page.mark:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        elif b"gzip" in given.get(b"accept-encoding", b""):
            await send_bytes(
                send, 200, page.compressed, page.content_type, [*headers, (b"content-encoding", b"gzip")]
            )
        else:
            await send_bytes(send, 200, page.content, page.content_type, headers)

    async def _answer_api(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._answering += 1
        try:
            if self.is_on and path == DOCUMENT and scope["method"] == "GET":
                await send_bytes(send, 200, self._describe(), b"application/json", _PRIVATE)
            else:
                await self._run_operation(path, scope, receive, send)
        except ApiRefusal as refusal:
            code = HTTPStatus(refusal.status).phrase.lower().replace(" ", "_")
            error = {"code": code, "message": refusal.message}
            await _send_json(send, refusal.status, {"error": error}, refusal.headers)
        except ToolcribError as error:
            explained = explain(error)
            await _send_json(send, _STATUS.get(explained["code"], 500), {"error": explained})
        finally:
            self._answering -= 1
            self._quiet.set()

    def _describe(self) -> bytes:
        if self._document is None:
            self._document = json.dumps(openapi_document(self._routes)).encode()
        return self._document

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return openapi_document(self._routes)

    async def _run_operation(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.is_on:
            raise ApiRefusal(404, _OFF)
        request: HttpRequest = scope["toolcrib.request"]
        headers = dict(scope["headers"])
        if headers.get(b"sec-fetch-site", b"same-origin") not in {b"same-origin", b"none"}:
            raise ApiRefusal(403, "other web pages may not call the API")
        below = path.removeprefix(ROOT) if path.startswith(f"{ROOT}/") else ""
        found = find_operation(self._routes, scope["method"], below)
        if isinstance(found, set):
            if found:
                allow = ", ".join(sorted(found)).encode()
                raise ApiRefusal(405, "it exists with another method", [(b"allow", allow)])
            raise ApiRefusal(404, f"there is no such operation; {DOCUMENT} lists them")
        operation, parameters = found
        caller = await self._identify(operation, scope, receive, request)
        if operation.needs == "operator" and not caller.is_operator:
            raise ApiRefusal(
                403, "this is for operators: the user of this machine, and those named in console.operators"
            )
        if operation.needs == "auditor" and not caller.sees_all:
            raise ApiRefusal(403, "this is for auditors, named in console.auditors, and for operators")
        caller.path = parameters
        caller.query = _read_query(operation.query, scope["query_string"])
        caller.body = _read_body(operation.body, request.body)
        answer = await operation.handle(caller)
        if isinstance(answer, ApiStream):
            await self._send_stream(answer, caller, send)
        elif isinstance(answer, ApiFile):
            disposition = f'attachment; filename="{answer.file_name}"'.encode()
            more = [*_PRIVATE, (b"content-disposition", disposition)]
            await send_bytes(send, 200, answer.body, answer.content_type.encode(), more)
        else:
            await _send_json(send, 200, to_json(answer), caller.headers)

    async def _identify(
        self, operation: ApiOperation, scope: Scope, receive: Receive, request: HttpRequest
    ) -> ApiCaller:
        """Return the caller of a request.

        Raises:
            ApiRefusal: nobody is logged in.
        """
        given = dict(scope["headers"])
        key = given.get(_KEY, b"").decode("latin-1")
        if operation.is_signed:
            try:
                self.approvals.webhook.verify(scope["headers"], request.body)
            except WebhookSignatureError as error:
                raise ApiRefusal(403, f"this answer is not accepted: {error}") from error
            return self._make_caller(Principal(), scope, receive, request)
        if operation.is_open:
            if key != "login":
                raise ApiRefusal(403, "a login needs the header X-Toolcrib-Key: login")
            return self._make_caller(Principal(), scope, receive, request)
        cookie = read_cookie(scope["headers"], _cookie_name(scope))
        login = self._browsers.find(cookie, key) if cookie and key else None
        if login is not None and (principal := await self._still(login)) is not None:
            caller = self._make_caller(principal, scope, receive, request)
            self._note_token(caller, login.authorization)

            async def is_valid() -> bool:
                return self._browsers.find(cookie, key) is login and await self._still(login) is not None

            caller.is_valid = is_valid
            return caller
        if request.authorization is not None and self._identities() is not None:
            header = request.authorization
            principal = await self._identify_token(header)
            caller = self._make_caller(principal, scope, receive, request)
            self._note_token(caller, header)

            async def is_accepted() -> bool:
                try:
                    return await self._identify_token(header) == principal
                except ApiRefusal:
                    return False

            caller.is_valid = is_accepted
            return caller
        raise ApiRefusal(401, f"you are not logged in; {_BEGIN}")

    def _note_token(self, caller: ApiCaller, header: str | None) -> None:
        identities = self._identities()
        if header is not None and identities is not None:
            caller.open.subject_token = identities.subject_token(caller.principal, header)

    async def _identify_token(self, header: str) -> Principal:
        """Return the principal of a token.

        Raises:
            ApiRefusal: the token is not accepted.
        """
        identities = self._identities()
        try:
            found = None if identities is None else await identities.identify(header)
        except Refusal as refusal:
            raise ApiRefusal(refusal.status, refusal.text) from refusal
        return Principal(client="console") if found is None else found

    async def _still(self, login: Login) -> Principal | None:
        """Return the principal of a login as it is now; None if its token is not accepted any more."""
        if login.authorization is None:
            return login.principal
        try:
            return await self._identify_token(login.authorization)
        except ApiRefusal:
            return None

    def _make_caller(
        self, principal: Principal, scope: Scope, receive: Receive, request: HttpRequest
    ) -> ApiCaller:
        crib = self._crib
        is_personal = any(each.is_personal for each in crib.settings.servers.values())
        view = crib.seen_by(principal) if crib.rules is not None or is_personal else crib
        is_operator, settings = self.is_operator(principal), crib.settings.console
        sees_all = is_operator or self._is_named(principal, settings.auditors)
        return ApiCaller(principal, is_operator, sees_all, view, request, scope, receive)

    def is_operator(self, principal: Principal) -> bool:
        """Return whether somebody may see and do what is for operators."""
        operators = self._crib.settings.console.operators
        return principal.issuer == LOCAL or self._is_named(principal, operators)

    def _is_named(self, principal: Principal, names: tuple[str, ...]) -> bool:
        issuers = Issuers() if self._crib.rules is None else self._crib.rules.issuers
        return any(issuers.means(principal, who) for who in names if who != "*")

    def is_staffed(self) -> bool | None:
        """Return whether an operator has the console open; None where the console is off."""
        return self._listeners > 0 if self.is_on else None

    def _session_operations(self) -> tuple[ApiOperation, ...]:
        return (
            ApiOperation(
                method="POST",
                path="/login",
                summary="Log a browser in, with a code or a token; the answer has the key of the browser.",
                handle=self.login,
                body=LoginBody,
                is_open=True,
            ),
            ApiOperation(method="POST", path="/logout", summary="Log the browser out.", handle=self.logout),
        )

    async def login(self, caller: ApiCaller) -> dict[str, Any]:
        """Log a browser in."""
        code, header = caller.body.code, caller.open.authorization
        if code is not None:
            principal, header = self._browsers.redeem(code), None
            if principal is None:
                raise ApiRefusal(403, f"this link has already been used, or has expired; {_BEGIN}")
        elif header is not None and self._identities() is not None:
            principal = await self._identify_token(header)
        else:
            raise ApiRefusal(401, f"neither a code nor a token was sent; {_BEGIN}")
        cookie, key = self._browsers.begin(principal, header)
        caller.headers = [_make_cookie(caller.scope, cookie, LOGIN_SECONDS, is_secure=self._is_secure)]
        return {"key": key}

    async def logout(self, caller: ApiCaller) -> dict[str, Any]:
        """Log the browser out."""
        self._browsers.end(read_cookie(caller.scope["headers"], _cookie_name(caller.scope)))
        caller.headers = [_make_cookie(caller.scope, "", 0, is_secure=self._is_secure)]
        return {}

    @property
    def _is_secure(self) -> bool:
        return urlsplit(self._crib.settings.gateway.public_url or "").scheme == "https"

    async def _send_stream(self, stream: ApiStream, caller: ApiCaller, send: Send) -> None:
        """Send events until there are no more, the browser leaves, or the gateway stops."""
        is_listener = stream.is_endless and caller.is_operator
        self._listeners += is_listener
        self._answering -= stream.is_endless  # it does not hold up the end
        await send({"type": "http.response.start", "status": 200, "headers": [*_SAFE, *STREAM]})

        async def send_event(kind: str, data: Any) -> None:
            text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        try:
            async with anyio.create_task_group() as tasks:

                async def stop_when(wait: Callable[[], Awaitable[Any]]) -> None:
                    await wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(stop_when, lambda: _wait_until_left(caller.receive))
                if stream.is_endless:
                    tasks.start_soon(stop_when, self._closing.wait)
                await stream.produce(send_event)
                tasks.cancel_scope.cancel()
        finally:
            self._listeners -= is_listener
            self._answering += stream.is_endless
        await send({"type": "http.response.body", "body": b""})


async def _wait_until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _cookie_name(scope: Scope) -> str:
    """Return the name of the cookie: gateways at other ports of the same host have others."""
    return f"toolcrib-{(scope.get('server') or ('', 0))[1]}"


def _make_cookie(scope: Scope, value: str, seconds: float, *, is_secure: bool) -> tuple[bytes, bytes]:
    secure = "; Secure" if is_secure else ""
    facts = f"Path={_API}; Max-Age={seconds:.0f}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", f"{_cookie_name(scope)}={value}; {facts}".encode("latin-1")


def _read_query(record: type[Record] | None, text: bytes) -> Any:
    """Return the parameters of an address as a record; only those of a list may be repeated."""
    if record is None:
        return None
    try:
        given = parse_qs(text.decode("latin-1"), max_num_fields=_REPEATED)
    except ValueError as error:
        raise _bad_request("", f"the parameters cannot be read: {error}", error) from error
    lists = {
        field.alias for field in record.model_fields.values() if str(field.annotation).startswith("tuple")
    }
    data = {name: values if name in lists else values[-1] for name, values in given.items()}
    return _read_record(record, data)


def _read_body(record: type[Record] | None, body: bytes) -> Any:
    if record is None:
        return None
    try:
        data = from_json(body or b"{}")
    except ValueError as error:
        raise _bad_request("", f"the body is not JSON: {error}", error) from error
    return _read_record(record, data)


def _read_record(record: type[Record], data: Any) -> Any:
    try:
        return record.from_json(data)
    except ValidationError as error:
        raise _bad_request("", str(error), error) from error
    except ToolcribError as error:
        problems = getattr(error, "problems", ())
        raise ValidationError(problems or (Problem("", "request", str(error)),)) from error


def _bad_request(path: str, message: str, error: Exception) -> ValidationError:
    problem = ValidationError((Problem(path, "request", message[:500]),))
    problem.__cause__ = error
    return problem


async def _send_json(send: Send, status: int, content: Any, headers: Headers | None = None) -> None:
    body = json.dumps(content, default=str).encode()
    await send_bytes(send, status, body, b"application/json", [*_PRIVATE, *(headers or ())])
