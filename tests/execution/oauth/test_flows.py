"""Logging in: with a browser, with a device and as a program; and those that may not be believed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from execution.mcp.calling import call
from execution.mcp.typed_server import app as mcp_app
from execution.mcp.web import serving
from execution.oauth.authority import Authority, authorities, browse, query_of
from servers.launch import closed_port
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from waiting import PATIENCE

from toolcrib.errors import ConfigError, LoginError, LoginRequiredError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.oauth import discovery
from toolcrib.execution.oauth.discovery import check_reach, oauth_client
from toolcrib.execution.oauth.flows import begin_login, log_in, log_out
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin

pytestmark = pytest.mark.anyio

SECRET = "5ecret of a client"  # noqa: S105 - of a client that is not there


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TOOLCRIB_HOME": str(tmp_path), "TOOLCRIB_VAULT_KEY": "a key of many characters"}


@pytest.fixture
def authority() -> Iterator[Authority]:
    with authorities() as running:
        yield running


async def log_in_with_browser(
    authority: Authority, environ: dict[str, str], *, device: bool = False, within: float = 60.0, **auth: Any
) -> tuple[StoredLogin, list[tuple[str, str | None]]]:
    shown: list[tuple[str, str | None]] = []

    def show(address: str, code: str | None) -> None:
        shown.append((address, code))
        if code is None:
            browse(address)

    config = ServerConfig(url=authority.url, auth=auth or None)
    login = await log_in("one", config, show=show, device=device, within=within, environ=environ)
    return login, shown


async def call_echo(authority: Authority, environ: dict[str, str], **auth: Any) -> Any:
    settings = {"url": authority.url} | ({"auth": auth} if auth else {})
    async with McpServers({"one": settings}, environ=environ) as servers:
        return (await call(servers, "echo", {"text": "a"})).structured


async def test_a_browser_is_sent_with_a_challenge_a_state_and_the_resource(
    authority: Authority, environ: dict[str, str]
) -> None:
    login, [(address, _)] = await log_in_with_browser(authority, environ)
    query = query_of(address)
    assert query["code_challenge_method"] == "S256"
    assert query["resource"] == authority.url
    assert len(query["state"]) > 30
    assert query["redirect_uri"].startswith("http://127.0.0.1:")
    assert login.client_id == "client-0"
    assert LoginVault(environ).get("one", authority.url) == login


async def test_a_client_that_is_configured_is_not_registered(
    authority: Authority, environ: dict[str, str]
) -> None:
    authority.clients["mine"] = SECRET
    with closed_port() as port:
        auth = {
            "client_id": "mine",
            "client_secret": SECRET,
            "issuer": authority.issuer,
            "redirect_port": port,
        }
        login, [(address, _)] = await log_in_with_browser(authority, environ, **auth)
    assert query_of(address)["client_id"] == "mine"
    assert query_of(address)["redirect_uri"] == f"http://127.0.0.1:{port}/callback"
    assert list(authority.clients) == ["mine"]
    assert SECRET not in str(login.to_json())  # it stays in the configuration, where it can be changed
    LoginVault(environ).put(login.replace(expires_at=1.0))
    assert await call_echo(authority, environ, **auth) == {"result": "a"}


async def test_a_secret_that_was_changed_there_is_told_and_one_that_is_changed_here_too_works(
    authority: Authority, environ: dict[str, str]
) -> None:
    authority.clients["mine"] = SECRET
    auth = {"client_id": "mine", "client_secret": SECRET, "issuer": authority.issuer}
    login, _ = await log_in_with_browser(authority, environ, **auth)
    authority.clients["mine"] = "another 5ecret"
    LoginVault(environ).put(login.replace(expires_at=1.0))
    with pytest.raises(Exception, match="'invalid_client'; log in again: toolcrib login one"):
        await call_echo(authority, environ, **auth)
    LoginVault(environ).put(login.replace(expires_at=1.0))
    assert await call_echo(authority, environ, **{**auth, "client_secret": "another 5ecret"}) == {
        "result": "a"
    }


async def test_the_address_of_a_metadata_document_is_the_client_where_that_is_known(
    environ: dict[str, str],
) -> None:
    document = "https://client.example.com/toolcrib.json"
    metadata = {"client_id_metadata_document_supported": True}
    with authorities(metadata=metadata) as authority:
        authority.clients[document] = None
        login, _ = await log_in_with_browser(authority, environ, client_id=document)
        assert login.client_id == document
    with authorities() as authority:
        login, _ = await log_in_with_browser(authority, environ, client_id=document)
        assert login.client_id == "client-0"


async def test_a_device_is_shown_a_code_and_waits_until_it_was_entered(environ: dict[str, str]) -> None:
    with authorities(pending=2) as authority:
        login, shown = await log_in_with_browser(authority, environ, device=True)
        assert shown == [(f"{authority.issuer}/enter", "ABCD-EFGH")]
        assert [form["grant_type"].rpartition(":")[2] for form in authority.asked] == ["device_code"] * 3
        assert login.refresh_token is not None
        assert await call_echo(authority, environ) == {"result": "a"}


async def test_a_device_that_is_refused_is_told_so(environ: dict[str, str]) -> None:
    with (
        authorities(broken=(400, {"error": "access_denied"})) as authority,
        pytest.raises(LoginError, match="access_denied"),
    ):
        await log_in_with_browser(authority, environ, device=True)
    with (
        authorities(metadata={"device_authorization_endpoint": None}) as authority,
        pytest.raises(LoginError, match="does not support login by device; leave --device out"),
    ):
        await log_in_with_browser(authority, environ, device=True)
    with (
        authorities(registers=False) as authority,
        pytest.raises(LoginError, match="registers no clients; set a client_id"),
    ):
        await log_in_with_browser(authority, environ, device=True)


async def test_a_program_has_access_with_its_secret_and_needs_no_login(
    authority: Authority, environ: dict[str, str]
) -> None:
    authority.clients["nightly"] = SECRET
    auth = {
        "mode": "client_credentials",
        "client_id": "nightly",
        "client_secret": SECRET,
        "issuer": authority.issuer,
    }
    assert await call_echo(authority, environ, **auth) == {"result": "a"}
    assert await call_echo(authority, environ, **auth) == {"result": "a"}
    assert [form["grant_type"] for form in authority.asked] == ["client_credentials"]
    authority.tokens.clear()
    assert await call_echo(authority, environ, **auth) == {"result": "a"}
    authority.clients["nightly"] = "another 5ecret"
    authority.tokens.clear()
    with pytest.raises(Exception, match="'invalid_client'; check the client_id and its secret"):
        await call_echo(authority, environ, **auth)


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["RSA", "EC", "Ed25519"],
)
async def test_a_program_can_sign_with_a_key_instead(
    authority: Authority, environ: dict[str, str], tmp_path: Path, key: Any
) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    authority.clients["nightly"] = None
    auth = {"mode": "client_credentials", "client_id": "nightly", "private_key": str(file)}
    assert await call_echo(authority, environ, **auth) == {"result": "a"}
    file.write_text("nonsense")
    authority.tokens.clear()
    with pytest.raises(Exception, match="the private_key cannot be used"):
        await call_echo(authority, environ, **auth)


@pytest.mark.parametrize("skew", [120.0, -120.0])
async def test_a_program_that_signs_has_access_where_the_clocks_differ_by_two_minutes(
    environ: dict[str, str], tmp_path: Path, skew: float
) -> None:
    file = tmp_path / "key.pem"
    key = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with authorities(skew=skew) as authority:
        auth = {"mode": "client_credentials", "client_id": "nightly", "private_key": str(file)}
        assert await call_echo(authority, environ, **auth) == {"result": "a"}


async def test_a_logout_shows_its_client_as_the_login_did(
    authority: Authority, environ: dict[str, str]
) -> None:
    authority.clients["mine"] = SECRET
    auth = {"client_id": "mine", "client_secret": SECRET, "issuer": authority.issuer}
    await log_in_with_browser(authority, environ, **auth)
    config = ServerConfig(url=authority.url, auth=auth)
    assert await log_out("one", config, environ=environ) == (True, True)
    assert authority.refreshes == {}


UNBELIEVED = {
    "mixed-up issuer": (
        {"answer": {"iss": "https://mixed.example.com"}},
        "the answer is from another authorization server",
    ),
    "no issuer where one is promised": (
        {"metadata": {"authorization_response_iss_parameter_supported": True}},
        "does not say which authorization server it is from",
    ),
    "another issuer's metadata": (
        {"metadata": {"issuer": "https://mixed.example.com"}},
        r"says that it is https://mixed\.example\.com",
    ),
    "tokens over plain HTTP": ({"metadata": {"token_endpoint": "http://as.example.com/token"}}, "not secure"),
    "a page over plain HTTP": (
        {"metadata": {"authorization_endpoint": "http://as.example.com/authorize"}},
        "not secure",
    ),
    "an injected code": ({"answer": {"code": "of-somebody-else"}}, "invalid_grant"),
    "an error": ({"answer": {"error": "access_denied"}}, "it was refused: access_denied"),
    "no code": ({"answer": {"code": ""}}, "there is no code"),
}


@pytest.mark.parametrize(("behaviour", "reason"), UNBELIEVED.values(), ids=UNBELIEVED)
async def test_implausible_response_ends_the_login_and_nothing_is_stored(
    environ: dict[str, str], behaviour: dict[str, Any], reason: str
) -> None:
    with authorities(**behaviour) as authority:
        with pytest.raises(LoginError, match=reason):
            await log_in_with_browser(authority, environ)
        assert LoginVault(environ).get("one", authority.url) is None
        assert authority.tokens == {}


@pytest.mark.parametrize("change", [lambda issuer: f"{issuer}/", str.upper])
async def test_the_issuer_of_the_answer_is_compared_letter_by_letter(
    authority: Authority, environ: dict[str, str], change: Callable[[str], str]
) -> None:
    authority.answer = {"iss": change(authority.issuer)}
    with pytest.raises(LoginError, match="the answer is from another authorization server"):
        await log_in_with_browser(authority, environ)
    assert authority.tokens == {}


async def test_another_state_is_not_waited_for_in_vain(authority: Authority, environ: dict[str, str]) -> None:
    authority.answer = {"state": "of-an-attacker"}
    with pytest.raises(LoginError, match="nobody logged in within 1 s"):
        await log_in_with_browser(authority, environ, within=1.0)
    assert authority.asked == []


@pytest.mark.parametrize("mode", ["browser", "device", "program"])
async def test_credentials_go_to_the_configured_issuer_alone(
    authority: Authority, environ: dict[str, str], mode: str
) -> None:
    authority.clients["mine"] = SECRET
    auth = {"client_id": "mine", "client_secret": SECRET, "issuer": "https://as.example.com"}
    auth |= {"mode": "client_credentials"} if mode == "program" else {}
    with pytest.raises(LoginError, match=r"the configuration says https://as.example.com"):
        await log_in_with_browser(authority, environ, device=mode == "device", **auth)
    assert authority.asked == []


async def test_server_without_metadata_is_its_own_authorization_server(environ: dict[str, str]) -> None:
    authority = Authority()

    async def mcp(request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return Response(status_code=200 if token in authority.tokens else 401)

    routes = [each for each in authority.app().routes if "well-known" not in str(each)]
    with serving(Starlette(routes=[*routes, Route("/mcp", mcp, methods=["POST"])])) as address:
        authority.issuer, authority.url = address, f"{address}/mcp"
        login, _ = await log_in_with_browser(authority, environ)
        with pytest.raises(LoginError, match="no authorization server was found"):
            await log_in_with_browser(authority, environ, device=True)
    assert login.token_endpoint == f"{address}/token"
    assert list(authority.tokens) == [login.access_token]


async def test_token_that_the_server_does_not_accept_is_not_stored(environ: dict[str, str]) -> None:
    with authorities() as authority:
        authority.lifetime = -1.0
        with pytest.raises(LoginError, match="does not accept the token"):
            await log_in_with_browser(authority, environ)
        assert LoginVault(environ).get("one", authority.url) is None


async def test_a_resource_that_another_server_claims_is_refused(environ: dict[str, str]) -> None:
    with authorities() as authority, authorities() as other:
        url, authority.url = authority.url, other.url
        config = ServerConfig(url=url)
        for device in (False, True):
            with pytest.raises(LoginError, match=r"does not match|it says that it is"):
                await log_in("one", config, show=lambda *_: None, device=device, environ=environ)


async def test_a_server_that_wants_no_login_says_so(environ: dict[str, str]) -> None:
    with serving(mcp_app("json")) as address:
        config = ServerConfig(url=f"{address}/mcp")
        with pytest.raises(LoginError, match="it requires no login"):
            await log_in("one", config, show=lambda *_: None, environ=environ)
    with closed_port() as port:
        nowhere = ServerConfig(url=f"http://127.0.0.1:{port}/mcp")
        with pytest.raises(LoginError, match="nothing listens at"):
            await log_in("one", nowhere, show=lambda *_: None, environ=environ)
    with pytest.raises(LoginError, match="it is started here"):
        await log_in("one", ServerConfig(command="x"), show=lambda *_: None, environ=environ)
    headed = ServerConfig(url="https://example.com/mcp", headers={"Authorization": "x"})
    with pytest.raises(LoginError, match="have an Authorization header"):
        await log_in("one", headed, show=lambda *_: None, environ=environ)


async def test_a_port_that_is_taken_is_told(authority: Authority, environ: dict[str, str]) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as taken:
        port = taken.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
        with pytest.raises(LoginError, match=f"port {port} is taken"):
            await log_in_with_browser(authority, environ, redirect_port=port)


@pytest.mark.parametrize(
    ("auth", "reason"),
    [
        ({"mode": "per_person"}, "/auth/mode"),
        ({"mode": "exchange"}, "the mode 'exchange' needs a client_id"),
        ({"mode": "exchange", "client_id": "c"}, "needs either a client_secret or a private_key"),
        (
            {"mode": "exchange", "client_id": "c", "private_key": "k"},
            "needs the issuer that the tokens of clients may be sent to",
        ),
        ({"mode": "per_user", "audience": "a"}, "an audience is for the mode 'exchange'"),
        ({"mode": "client_credentials"}, "needs a client_id"),
        ({"mode": "client_credentials", "client_id": "c"}, "needs either a client_secret or a private_key"),
        ({"client_id": "c", "client_secret": "s"}, "needs the issuer that it may be sent to"),
        ({"client_secret": "s"}, "needs its client_id"),
        ({"private_key": "k"}, "is for the modes 'client_credentials' and 'exchange'"),
        ({"clientid": "c"}, "/auth/clientid"),
    ],
)
def test_settings_that_cannot_work_are_refused(auth: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ServerConfig(url="https://example.com/mcp", auth=auth)
    with pytest.raises(ConfigError, match="is for a server that is reached at a 'url'"):
        ServerConfig(command="x", auth={})


def test_variables_in_the_settings_are_filled_in() -> None:
    auth = {
        "mode": "client_credentials",
        "client_id": "c",
        "client_secret": "${S}",
        "issuer": "https://a.example.com",
    }
    config = ServerConfig(url="https://example.com/mcp", auth=auth)
    assert config.expanded({"S": SECRET}).auth.client_secret == SECRET
    assert SECRET not in repr(config.expanded({"S": SECRET}))
    with pytest.raises(ConfigError, match="/auth/client_secret: the variable 'S' is not set"):
        config.expanded({})
    assert not config.reaches_as(config.replace(auth=None))


async def test_after_a_refused_login_the_server_still_says_how_to_log_in(
    authority: Authority, environ: dict[str, str]
) -> None:
    authority.answer = {"error": "access_denied"}
    with pytest.raises(LoginError):
        await log_in_with_browser(authority, environ)
    async with McpServers({"one": {"url": authority.url}}, environ=environ) as servers:
        with pytest.raises(LoginRequiredError):
            await servers.tools("one")


WELL_KNOWN = "/.well-known/oauth-authorization-server"
ENDPOINTS = {
    "/mcp": "the server itself",
    "/.well-known/oauth-protected-resource/mcp": "the metadata of the server",
    WELL_KNOWN: "the metadata of its authorization server",
    "/register": "the registration of clients",
    "/token": "the token endpoint",
    "/device": "the login by device",
}
SOON = 3.0
"""Seconds in which an answer comes that comes at all, however busy the machine is."""


def test_an_endpoint_has_less_than_ten_seconds() -> None:
    assert discovery.RESPONSE_TIMEOUT < 10


def rows() -> Iterator[Any]:
    """Yield each endpoint of each way to log in, that does not answer or never ends its answer."""
    for device in (False, True):
        for path in ENDPOINTS if device else list(ENDPOINTS)[:-1]:
            for drips in (False, True):
                if path == "/mcp" and drips:
                    continue  # a login reads no more than the headers there
                is_usual = path in {WELL_KNOWN, "/register"} and drips is not device
                way = f"{'device' if device else 'browser'}-{path}-{'drips' if drips else 'silent'}"
                yield pytest.param(device, path, drips, id=way, marks=[] if is_usual else [pytest.mark.proof])


@pytest.mark.parametrize(("device", "path", "drips"), list(rows()))
async def test_a_login_names_the_endpoint_that_does_not_answer(
    device: bool,
    path: str,
    drips: bool,
    authority: Authority,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "RESPONSE_TIMEOUT", SOON)
    authority.silent, authority.drips = path, drips
    of_server = path == "/mcp" or "resource" in path
    base = authority.url.removesuffix("/mcp") if of_server else authority.issuer
    with pytest.raises(LoginError) as caught:
        await log_in_with_browser(authority, environ, device=device, within=PATIENCE)
    assert caught.value.reason == f"{ENDPOINTS[path]}, {base}{path}, did not answer within 3 s"
    assert LoginVault(environ).get("one", authority.url) is None


async def test_a_login_names_the_endpoint_that_cannot_be_reached(
    authority: Authority, environ: dict[str, str]
) -> None:
    with closed_port() as port:
        authority.metadata["registration_endpoint"] = f"http://127.0.0.1:{port}/register"
        for device in (False, True):
            with pytest.raises(LoginError, match="the registration of clients cannot be reached: nothing"):
                await log_in_with_browser(authority, environ, device=device)


async def test_a_server_that_wants_no_login_may_answer_with_a_stream_that_does_not_end(
    environ: dict[str, str],
) -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass

    with serving(endless) as address:
        config = ServerConfig(url=f"{address}/mcp")
        with pytest.raises(LoginError, match="it requires no login"):
            await log_in("one", config, show=print, within=PATIENCE, environ=environ)


@pytest.mark.parametrize(
    ("path", "named"), [(WELL_KNOWN, ENDPOINTS[WELL_KNOWN]), ("/register", ENDPOINTS["/register"])]
)
async def test_a_login_at_a_page_of_the_gateway_names_the_endpoint_that_does_not_answer(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, path: str, named: str
) -> None:
    monkeypatch.setattr(discovery, "RESPONSE_TIMEOUT", SOON)
    authority.silent = path
    with pytest.raises(LoginError, match=f"{named}, {authority.issuer}{path}, did not answer within 3 s"):
        await begin_login("one", authority.url, AuthConfig(), "https://crib.example/back", ("iss", "ann"))


async def test_a_machine_names_the_endpoint_that_does_not_answer(
    authority: Authority, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "RESPONSE_TIMEOUT", SOON)
    authority.silent = "/token"
    authority.clients["mine"] = SECRET
    with pytest.raises(LoginError, match=r"the token endpoint, .*/token, did not answer within 3 s"):
        await log_in_with_browser(
            authority,
            environ,
            mode="client_credentials",
            client_id="mine",
            client_secret=SECRET,
            issuer=authority.issuer,
        )


PUBLIC = "https://8.8.8.8/mcp"
PRIVATE = "https://10.0.0.5/mcp"
HERE = "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize(
    ("server", "target", "refused"),
    [
        (PUBLIC, "http://127.0.0.1:6379/", "loopback"),
        (PUBLIC, "http://localhost:6379/", "loopback"),
        (PUBLIC, "http://[::1]:6379/", "loopback"),
        (PUBLIC, "http://[::ffff:127.0.0.1]/", "loopback"),
        (PUBLIC, "http://2130706433/", "loopback"),
        (PUBLIC, "https://192.168.1.1/token", "private"),
        (PUBLIC, "https://169.254.169.254/latest", "link-local"),
        (PUBLIC, "https://1.1.1.1/token", None),
        (PUBLIC, "https://8.8.8.8:8443/token", None),
        (PRIVATE, "http://127.0.0.1:6379/", "loopback"),
        (PRIVATE, "https://192.168.1.1/token", None),
        (PRIVATE, "http://169.254.169.254/latest", "link-local"),
        (HERE, "http://169.254.169.254/latest", "link-local"),
        (HERE, "http://127.0.0.1:8080/token", None),
    ],
)
async def test_requests_of_a_login_stay_out_of_networks_that_the_server_is_not_in(
    server: str, target: str, refused: str | None
) -> None:
    request = httpx2.Request("GET", target)
    async with oauth_client("one", server, None) as client:
        (check,) = client.event_hooks["request"]
        if refused is None:
            await check(request)
        else:
            with pytest.raises(LoginError, match=f"a {refused} address; set auth.issuer"):
                await check(request)
    async with oauth_client("one", server, target) as configured:
        (check,) = configured.event_hooks["request"]
        await check(request)


async def test_an_authorization_server_without_pkce_is_refused(
    authority: Authority, environ: dict[str, str]
) -> None:
    for methods in (None, [], ["plain"]):
        authority.metadata = {"code_challenge_methods_supported": methods}
        with pytest.raises(LoginError, match="does not support PKCE"):
            await log_in_with_browser(authority, environ)
    assert LoginVault(environ).get("one", authority.url) is None


async def test_a_token_that_is_not_ascii_is_a_typed_error(
    authority: Authority, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authority, "secret", lambda: "tökén")
    with pytest.raises(LoginError):
        await log_in_with_browser(authority, environ)
    assert LoginVault(environ).get("one", authority.url) is None


@pytest.mark.parametrize("address", ["http://127.0.0.1:6379/", "https://192.168.1.1/set?dns=8.8.4.4", HERE])
async def test_no_page_is_opened_in_a_network_that_the_server_is_not_in(address: str) -> None:
    with pytest.raises(LoginError, match="if that is intended"):
        await check_reach("one", PUBLIC, None, address)
    assert await check_reach("one", HERE, None, "http://localhost:8080/login")
    assert await check_reach("one", PUBLIC, address, address) == address


@pytest.mark.parametrize("how", ["browser", "web", "device"])
async def test_every_way_to_log_in_asks_where_a_page_is(
    how: str, authority: Authority, environ: dict[str, str]
) -> None:
    page = "https://169.254.169.254/latest"
    authority.metadata = {"authorization_endpoint": page}
    authority.device = {"verification_uri": page}
    ways = {
        "browser": lambda: log_in_with_browser(authority, environ),
        "web": lambda: begin_login(
            "one", authority.url, AuthConfig(), "https://crib.example/back", ("iss", "ann")
        ),
        "device": lambda: log_in_with_browser(authority, environ, device=True),
    }
    with pytest.raises(LoginError, match="a link-local address"):
        await ways[how]()


@pytest.mark.parametrize("page", ["javascript:alert(1)", "file:///etc/passwd", "http://login.example/enter"])
async def test_a_page_of_a_device_login_is_over_tls(
    page: str, authority: Authority, environ: dict[str, str]
) -> None:
    authority.device = {"verification_uri_complete": page}
    with pytest.raises(LoginError, match="not secure"):
        await log_in_with_browser(authority, environ, device=True)
