"""Finds the authorization server of an MCP server (RFC 9728, RFC 8414), and registers with it (RFC 7591)."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pydantic
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    issuers_match,
)
from mcp.shared.auth import ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel

from toolcrib.errors import LoginError
from toolcrib.execution.http.addresses import private_kinds
from toolcrib.execution.mcp.errors import place, reason_of
from toolcrib.execution.mcp.transport.quiet_client import QuietClient, tls_context
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.vault import StoredLogin

RESPONSE_TIMEOUT = 8.0
"""Seconds for a whole response: the read timeout of httpx starts again with each chunk."""
SERVER = "the server itself"
SERVER_METADATA = "the metadata of the server"
AUTHORITY_METADATA = "the metadata of its authorization server"
REGISTRATION = "the registration of clients"
DEVICE_ENDPOINT = "the login by device"
TOKEN_ENDPOINT = "the token endpoint"  # noqa: S105 - no secret
"""The names of endpoints in errors."""

_MAX_BODY_BYTES = 2**20
_OK = 200
_CREATED = 201
_UNAUTHORIZED = 401
_EVENT_STREAM = "text/event-stream"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
CLIENT_NAME = "toolcrib"


class AuthorizationServer(BaseModel):
    """The used metadata of an authorization server, with the resource and scopes to request."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    scopes_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    code_challenge_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool = False
    resource: str | None = None
    """The resource that tokens are requested for."""
    scopes: list[str] = []
    """The scopes that the MCP server suggests."""

    def choose_scopes(self, configured: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
        """Return the scopes to request: the configured ones, else those of the server, and more.

        `offline_access` is added if it is supported, since some servers give no refresh token without it.
        """
        offline = ("offline_access",) if "offline_access" in (self.scopes_supported or ()) else ()
        return tuple(dict.fromkeys((*(configured or self.scopes), *more, *offline)))


def oauth_client(server: str, url: str, issuer: str | None) -> QuietClient:
    """Return a client for requests to the authorization server of an MCP server; it follows no redirects.

    An MCP server chooses the addresses of its metadata and of its authorization server. A server on the
    internet must not make this client send requests into a private network or to this machine. So such an
    address is refused, unless the server itself, or the configured issuer, is there too.
    """

    async def check_host(request: httpx2.Request) -> None:
        await check_reach(server, url, issuer, str(request.url))

    hooks = {"request": [check_host]}
    return QuietClient(timeout=httpx2.Timeout(RESPONSE_TIMEOUT), verify=tls_context(), event_hooks=hooks)


async def check_reach(server: str, url: str, issuer: str | None, address: str) -> str:
    """Return an address, if a login may send a request or a browser there.

    Link-local addresses are those of cloud metadata services, so only a server with such an address may name
    one.

    Raises:
        LoginError: it is in a private network, and neither the server nor the configured issuer is.
    """
    if urlsplit(address).hostname in {urlsplit(each).hostname for each in (url, issuer) if each}:
        return address
    inward, own = await _find_private_kinds(address), await _find_private_kinds(url)
    is_near = "loopback" in own or (own and "loopback" not in inward)
    if inward and not (is_near and ("link-local" not in inward or "link-local" in own)):
        where = f"{place(address)}, a {min(inward)} address"
        raise LoginError(server, f"it points to {where}; set auth.issuer if that is intended")
    return address


async def _find_private_kinds(url: str) -> frozenset[str]:
    """Return the kinds of private addresses of a host; none if it is unknown."""
    parts = urlsplit(url)
    try:
        return await private_kinds(parts.hostname or "", parts.port or 443)
    except (OSError, ValueError):  # the request itself raises the error
        return frozenset()


def probe_request(url: str) -> httpx2.Request:
    """Return a request without effects, which a server that needs a login refuses."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_MODERN_VERSION,
        "mcp-method": "server/discover",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    return httpx2.Request("POST", url, json=message, headers=headers)


def check_endpoint(server: str, address: str) -> str:
    """Return an address, if secrets may be sent there: with TLS, or on this machine.

    Raises:
        LoginError: it is not secure.
    """
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return address
    raise LoginError(server, f"its authorization server names {place(address)}, which is not secure")


def choose_secret_method(supported: list[str] | None) -> str:
    """Return the authentication method for a client secret; a header by default, as RFC 8414 demands."""
    in_form = supported is not None and "client_secret_basic" not in supported
    return (
        "client_secret_post"
        if in_form and "client_secret_post" in (supported or ())
        else "client_secret_basic"
    )


async def make_client_login(
    client: httpx2.AsyncClient,
    server: str,
    url: str,
    auth: AuthConfig,
    found: AuthorizationServer,
    metadata: dict[str, Any],
) -> StoredLogin:
    """Return a login without tokens, of the configured client or of one that is registered now.

    Raises:
        LoginError: no client can be registered.
    """
    method = (
        choose_secret_method(found.token_endpoint_auth_methods_supported) if auth.client_secret else "none"
    )
    client_id, secret = auth.client_id, None
    is_document = client_id is not None and client_id.startswith("https://")
    if client_id is None or (is_document and not found.client_id_metadata_document_supported):
        if found.registration_endpoint is None:
            raise LoginError(server, "its authorization server registers no clients; set a client_id in auth")
        metadata = {"client_name": CLIENT_NAME, "token_endpoint_auth_method": "none", **metadata}
        endpoint = check_endpoint(server, found.registration_endpoint)
        with naming_endpoint(server, REGISTRATION):
            status, made = await fetch_json(client, httpx2.Request("POST", endpoint, json=metadata))
        client_id, secret = made.get("client_id"), made.get("client_secret")
        if status not in {_OK, _CREATED} or not isinstance(client_id, str):
            raise LoginError(server, f"no client could be registered: {str(made.get('error', status))[:60]}")
        method = made.get("token_endpoint_auth_method", "client_secret_basic" if secret else "none")
    return StoredLogin(
        server=server,
        url=url,
        issuer=found.issuer,
        token_endpoint=found.token_endpoint,
        revocation_endpoint=found.revocation_endpoint,
        client_id=client_id,
        client_secret=secret,
        auth_method=method,
        resource=found.resource,
    )


@contextmanager
def naming_endpoint(server: str, endpoint: str) -> Iterator[None]:
    """Convert errors of a request in the block to a `LoginError` that names the endpoint.

    Raises:
        LoginError: the request failed or timed out.
    """
    try:
        yield
    except httpx2.TimeoutException as error:
        late = f"{endpoint}, {place(error.request.url)}, did not answer within {RESPONSE_TIMEOUT:g} s"
        raise LoginError(server, late) from error
    except httpx2.HTTPError as error:
        raise LoginError(server, f"{endpoint} cannot be reached: {reason_of(error)}") from error


@asynccontextmanager
async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> AsyncIterator[httpx2.Response]:
    """Send a request, and yield its response, whose body is read in the block.

    Raises:
        httpx2.TimeoutException: the response did not arrive, or end, in time.
    """
    try:
        with anyio.fail_after(RESPONSE_TIMEOUT):
            response = await client.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                yield response
            finally:
                await response.aclose()
    except TimeoutError:
        raise httpx2.ReadTimeout("it did not answer in time", request=request) from None


async def is_unauthorized(client: httpx2.AsyncClient, server: str, url: str, token: str | None) -> bool:
    """Return whether an MCP server refuses a request with this access token."""
    request = probe_request(url)
    request.headers["authorization"] = f"Bearer {token}"
    with naming_endpoint(server, SERVER):
        async with _send(client, request) as response:
            return response.status_code == _UNAUTHORIZED


async def _read_body(response: httpx2.Response) -> bytes | None:
    """Return the decompressed body of a response; None if it is too large."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > _MAX_BODY_BYTES:
            return None
    return bytes(content)


async def fetch_json(client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of a response; empty if its body is no object.

    Raises:
        httpx2.HTTPError: there is no response in time.
    """
    async with _send(client, request) as response:
        # An event stream may never end.
        is_stream = response.headers.get("content-type", "").startswith(_EVENT_STREAM)
        content = None if is_stream else await _read_body(response)
    try:
        payload = json.loads(content or b"")
    except ValueError:
        payload = None
    return response.status_code, payload if isinstance(payload, dict) else {}


async def discover(
    client: httpx2.AsyncClient, server: str, url: str, issuer: str | None = None, *, guess: bool = False
) -> AuthorizationServer:
    """Return the authorization server of an MCP server; with `issuer` only that one.

    With `guess`, a server that needs a login and publishes no metadata counts as its own authorization
    server, with the default endpoints of MCP revision 2025-03-26.

    Raises:
        LoginError: there is none, it is another one, or a request for metadata failed.
    """
    with naming_endpoint(server, SERVER):
        async with _send(client, probe_request(url)) as challenge:
            pass  # only its headers are used
    with naming_endpoint(server, SERVER_METADATA):
        resource, advertised, scopes = await _resource_metadata(client, server, url, challenge)
    with naming_endpoint(server, AUTHORITY_METADATA):
        found = await _authority_metadata(client, server, url, _choose_issuer(server, advertised, issuer))
        can_guess = guess and challenge.status_code == _UNAUTHORIZED and not (advertised or issuer)
        if found is None and can_guess:
            found = _guess_endpoints(url)
        if found is None:
            reason = "no authorization server was found; it requires no login, or one of another kind"
            raise LoginError(server, reason)
    challenged = extract_scope_from_www_auth(challenge)
    scopes = challenged.split() if challenged else scopes
    return found.model_copy(update={"resource": resource, "scopes": scopes})


async def _resource_metadata(
    client: httpx2.AsyncClient, server: str, url: str, challenge: httpx2.Response
) -> tuple[str | None, list[str], list[str]]:
    """Return the resource, the authorization servers and the scopes in the metadata of the MCP server."""
    named = extract_resource_metadata_from_www_auth(challenge)
    for address in build_protected_resource_metadata_discovery_urls(named, url):
        status, payload = await fetch_json(client, httpx2.Request("GET", address))
        if status != _OK:
            continue
        try:
            metadata = ProtectedResourceMetadata.model_validate(payload)
        except pydantic.ValidationError:
            continue
        resource, own = str(metadata.resource), resource_url_from_server_url(url)
        if not check_resource_allowed(requested_resource=own, configured_resource=resource):
            raise LoginError(server, f"it says that it is {place(resource)}, and it is {place(own)}")
        return (
            resource,
            [str(each) for each in metadata.authorization_servers],
            metadata.scopes_supported or [],
        )
    return None, [], []


def _choose_issuer(server: str, advertised: list[str], issuer: str | None) -> str | None:
    if issuer is None:
        return advertised[0] if advertised else None
    for each in advertised or [issuer]:
        if issuers_match(each, issuer):
            return each
    names = ", ".join(map(place, advertised))
    raise LoginError(server, f"it is served by {names}, and the configuration says {place(issuer)}")


def _guess_endpoints(url: str) -> AuthorizationServer:
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    return AuthorizationServer(
        issuer=origin,
        authorization_endpoint=f"{origin}/authorize",
        token_endpoint=f"{origin}/token",
        registration_endpoint=f"{origin}/register",
        code_challenge_methods_supported=["S256"],  # required by that revision
    )


async def _authority_metadata(
    client: httpx2.AsyncClient, server: str, url: str, issuer: str | None
) -> AuthorizationServer | None:
    """Return the metadata of an authorization server (RFC 8414); None if it publishes none."""
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer, url):
        status, payload = await fetch_json(client, httpx2.Request("GET", address))
        if status != _OK:
            continue
        try:
            found = AuthorizationServer.model_validate(payload)
        except pydantic.ValidationError:
            continue
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        if not issuers_match(found.issuer, issuer or origin):
            wrong = f"{place(address)} says that it is {place(found.issuer)}"
            raise LoginError(server, f"{wrong}, and it should be {place(issuer or origin)}")
        check_endpoint(server, found.token_endpoint)
        return found
    return None
