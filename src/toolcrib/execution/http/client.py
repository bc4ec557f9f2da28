"""Sends the requests of one provider, and converts responses to answers or typed errors."""

import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import anyio
import anyio.lowlevel

from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    InputValidationError,
    MissingExtraError,
    PolicyDeniedError,
    Problem,
    ToolExecutionError,
    ValidationError,
)
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.http.addresses import Addresses, AddressRefusedError, Lookup
from toolcrib.execution.http.answers import explain_failure, public_headers, read_failure, read_value
from toolcrib.execution.http.assembly import Outgoing, assemble, is_token
from toolcrib.execution.http.credentials import Credentials, replace_secrets
from toolcrib.execution.http.inflate import ACCEPT_ENCODING, UnreadableError
from toolcrib.execution.http.plan import RequestPlan, is_idempotent
from toolcrib.execution.principal import slot_owner

if TYPE_CHECKING:
    import httpx

    from toolcrib.execution.http.network import GuardedTransport

_SUCCESS = range(200, 300)
_REDIRECTS = range(300, 400)
_TOO_MANY_REQUESTS = 429
_BAD_GATEWAY = 502
_UNAVAILABLE = 503
_GATEWAY_TIMEOUT = 504
_HEADERS_WITHOUT_SECRETS = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-language",
        "cache-control",
        "content-type",
        "origin",
        "referer",
        "user-agent",
    }
)
"""Configured headers that are never secrets; every other one is redacted in output."""
_DEFAULT_HEADERS = (
    (b"User-Agent", b"toolcrib"),
    (b"Accept", b"application/json, */*;q=0.5"),
    (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
)
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNAVAILABLE_STATUSES = frozenset({_TOO_MANY_REQUESTS, _BAD_GATEWAY, _UNAVAILABLE, _GATEWAY_TIMEOUT})


class HttpOptions(TypedDict, total=False):
    """Options of the connection of a provider to its server."""

    allow_private: bool | Sequence[str]
    """The allowed private addresses: none by default, all, or these hosts and networks."""
    headers: Mapping[str, str]
    """Sent with every request, such as a token; the values count as secrets, and are never shown."""
    max_response_bytes: int
    """The largest response, decompressed: 16 MiB by default."""
    connect_timeout: float
    """Seconds to connect, 10 by default; everything else is limited by the deadline of the caller."""
    max_connections: int
    """The maximum number of parallel requests, 64 by default; further calls wait."""
    ssl_context: ssl.SSLContext | None
    """The TLS context; by default one with the certificates of the system."""
    lookup: Lookup | None
    """Resolves host names; the resolver of the system by default."""


@dataclass(slots=True)
class _Progress:
    """The progress of a request."""

    sent: bool = False
    """Whether a byte of it may have been sent: if not, a retry is safe."""

    async def trace(self, event: str, _: Mapping[str, Any]) -> None:
        """Handle a trace event of httpcore."""
        if event.endswith("send_request_headers.started"):
            self.sent = True


@dataclass(eq=False)
class HttpClient:
    """HTTP client of one provider, with a pool of connections that belongs to one event loop."""

    provider_id: str
    options: HttpOptions = field(repr=False)
    _transport: "GuardedTransport | None" = field(default=None, init=False, repr=False)
    _loop: object = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        options = self.options
        unknown = sorted(set(options) - set(HttpOptions.__annotations__))
        if unknown:
            raise TypeError(f"a provider has no option {unknown[0]!r}")
        self._addresses = Addresses(
            allow_private=options.get("allow_private", False), lookup=options.get("lookup")
        )
        self._headers = dict(options.get("headers") or {})
        self._hidden = tuple(_secrets_of(self._headers))
        self._max_bytes = options.get("max_response_bytes", 16 * 2**20)
        for name, value in self._headers.items():
            if not is_token(name) or not _is_header_value(value):
                reason = f"{name!r:.80} is not a header name, or its value is not valid in a header"
                problem = Problem("/headers", "header", reason)
                raise ConfigError(f"provider {self.provider_id!r}", (problem,))

    async def call(self, call: Call, plan: RequestPlan, credentials: Credentials) -> Answer:
        """Send the request of a call and return its answer.

        Raises:
            InputValidationError: an argument cannot be sent in its place.
            PolicyDeniedError: the address of the server is private, and not allowed.
            BackendUnavailableError: the server cannot be reached, closed the connection, or is overloaded.
            ToolExecutionError: the request failed, or its response cannot be read.
        """
        try:
            outgoing = assemble(plan, call.args, credentials)
        except ValidationError as error:
            raise InputValidationError(
                problems=error.problems, tool_id=call.tool_id, backend=self._backend
            ) from None
        hidden = (*credentials.hidden, *self._hidden)
        progress = _Progress()
        transport = self._open_transport()
        async with (
            transport.slots.hold(slot_owner(call.principal)),
            self._send_request(call, transport, outgoing, progress) as response,
        ):
            if response.status_code not in _SUCCESS:
                raise self._status_error(call, plan, await read_failure(response, hidden))
            if plan.method == "HEAD":
                headers = replace_secrets(public_headers(response), hidden)
                return Answer(structured={"status": response.status_code, "headers": headers})
            value = await read_value(response, max_bytes=self._max_bytes, emit=call.emit, hidden=hidden)
            return Answer(structured=value)

    @asynccontextmanager
    async def _send_request(
        self, call: Call, transport: "GuardedTransport", outgoing: Outgoing, progress: _Progress
    ) -> AsyncIterator["httpx.Response"]:
        """Send a request, yield its response, and raise failures as errors of the call."""
        try:
            response = await transport.handle_async_request(self._make_request(outgoing, progress))
            try:
                yield response
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
        except AddressRefusedError as error:
            raise PolicyDeniedError(
                tool_id=call.tool_id, op="execute", backend=self._backend, reason=str(error)
            ) from None
        except transport.errors as error:
            # `from None`: the original error may quote the request, with its secrets.
            reason = replace_secrets(f"{_describe_class(error)}: {error}".removesuffix(": "), outgoing.hidden)
            raise BackendUnavailableError(
                tool_id=call.tool_id, backend=self._backend, reason=reason[:500], sent=progress.sent
            ) from None
        except UnreadableError as error:
            raise ToolExecutionError(
                tool_id=call.tool_id, backend=self._backend, reason=str(error)
            ) from error

    def _status_error(self, call: Call, plan: RequestPlan, failure: dict[str, Any]) -> Exception:
        """Return the error for an unsuccessful status.

        `sent` of a `BackendUnavailableError` decides whether a call may be retried. A server that answers 429
        has run nothing. One that answers 503 may have run the request before it failed, so only idempotent
        requests may be sent again, and only if it says when.
        """
        reason, status = explain_failure(failure), failure["status"]
        if status in _REDIRECTS and "location" in failure["headers"]:
            reason += (
                f"; it points to {failure['headers']['location']!r:.200}, and redirects are not followed"
            )
        if status not in _UNAVAILABLE_STATUSES:
            return ToolExecutionError(
                tool_id=call.tool_id, backend=self._backend, reason=reason, result=failure
            )
        wait = failure["headers"].get("retry-after")
        asks_again = status == _UNAVAILABLE and wait is not None
        is_retry_safe = status == _TOO_MANY_REQUESTS or (asks_again and is_idempotent(plan.method))
        if wait:
            reason += f"; it asks to wait {wait[:40]}{' s' if wait.isdigit() else ''}"
        return BackendUnavailableError(
            tool_id=call.tool_id, backend=self._backend, reason=reason, sent=not is_retry_safe
        )

    def _make_request(self, outgoing: Outgoing, progress: _Progress) -> "httpx.Request":
        import httpx  # noqa: PLC0415 - behind an extra

        headers: dict[bytes, tuple[bytes, bytes]] = {}
        own = [(name.encode(), value.encode("latin-1")) for name, value in self._headers.items()]
        for name, value in (*_DEFAULT_HEADERS, *outgoing.headers, *own):  # later ones win
            headers[name.lower()] = name, value
        timeout = {"connect": self.options.get("connect_timeout", 10.0)}
        try:
            return httpx.Request(
                outgoing.method,
                outgoing.url,
                headers=list(headers.values()),
                content=outgoing.content,
                extensions={"timeout": timeout, "trace": progress.trace},
            )
        except (httpx.InvalidURL, UnicodeError):  # the encoding of host names (IDNA) raises the latter
            raise UnreadableError("it is not an address that a request can be sent to") from None

    def _open_transport(self) -> "GuardedTransport":
        try:
            from toolcrib.execution.http.network import GuardedTransport  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("calling an HTTP API", "openapi") from error
        loop = anyio.lowlevel.current_token()
        if self._transport is None or self._loop != loop:
            # Connections of a loop that has ended can be neither used nor closed, so they are dropped.
            self._loop = loop
            self._transport = GuardedTransport(
                self._addresses,
                max_connections=self.options.get("max_connections", 64),
                ssl_context=self.options.get("ssl_context"),
            )
        return self._transport

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        transport, self._transport = self._transport, None
        if transport is not None and self._loop == anyio.lowlevel.current_token():
            await transport.aclose()

    @property
    def _backend(self) -> str:
        return f"provider:{self.provider_id}"


def _secrets_of(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in headers: their values, and the token after the name of a scheme."""
    for name, value in headers.items():
        if name.lower() not in _HEADERS_WITHOUT_SECRETS:
            yield value
            yield value.partition(" ")[2].strip()


def _is_header_value(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.strip() == value
        and all(sign == "\t" or " " <= sign <= "~" or "\xa0" <= sign <= "\xff" for sign in value)
    )


def _describe_class(error: Exception) -> str:
    """Return the class of an error in words: `ConnectTimeout` is a connect timeout."""
    return _WORD_BOUNDARY.sub(" ", type(error).__name__).lower()
