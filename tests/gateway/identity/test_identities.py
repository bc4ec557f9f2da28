"""Identities of callers: accepted tokens, and every way to forge one."""

import base64
import hashlib
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.web import serving
from gateway.identity.forging import (
    AUDIENCE,
    CURVE,
    ISSUER,
    KEY,
    KEYS,
    OTHER,
    jwk,
    sign_with_public_key,
    token,
    unsigned,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from waiting import PATIENCE, until

from toolcrib.crib.config.gateway import AuthSettings, GatewaySettings
from toolcrib.errors import ConfigError
from toolcrib.execution import Principal
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.identity.identities import Identities, Refusal
from toolcrib.gateway.identity.keys import SigningKeys

pytestmark = pytest.mark.anyio
EVERYTHING = EndpointAddress()
OFFICE = EndpointAddress("office")
SHOP = EndpointAddress("shop")


class Issuer:
    """Serves its public keys, and counts the requests."""

    def __init__(self, **documents: Any) -> None:
        self.documents: dict[str, Any] = {f"{ISSUER}/keys": KEYS} | documents
        self.asked: list[str] = []
        self.hangs = anyio.Event()
        """Set it to have no answer come to an end."""

    async def fetch(self, address: str) -> Any:
        self.asked.append(address)
        if self.hangs.is_set():
            await anyio.sleep_forever()
        found = self.documents.get(address)
        if found is None:
            raise OSError("there is nothing")
        return found


def identities(issuer: Issuer | None = None, clock: Any = time.monotonic, **auth: Any) -> Identities:
    settings = AuthSettings(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks": f"{ISSUER}/keys"} | auth)
    keys = SigningKeys(settings, fetch=(issuer or Issuer()).fetch, clock=clock)
    return Identities(None, {}, settings, keys)


async def refused(
    header: str | None, known: Identities | None = None, address: EndpointAddress = EVERYTHING
) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await (known or identities()).identify(header, address)
    return caught.value


async def test_a_token_of_the_issuer_names_its_subject() -> None:
    header = token(client_id="editor", groups=["staff", 7], scope="read write")
    assert await identities().identify(header) == Principal(
        issuer=ISSUER,
        subject="ann",
        client="editor",
        groups=frozenset({"staff"}),
        scopes=frozenset({"read", "write"}),
    )
    assert (await identities().identify(token(CURVE, kid="curve", alg="ES256"))) is not None


@pytest.mark.parametrize("claim", ["not admins", "admins", {"admins": True}, 7, [["admins"]], None])
async def test_groups_claim_that_is_no_list_of_texts_has_no_group(claim: Any) -> None:
    found = await identities().identify(token(groups=claim))
    assert found is not None
    assert found.groups == frozenset()


@pytest.mark.parametrize(
    ("client", "azp", "expected"), [(7, "web", "web"), (["a"], None, ""), ("", "web", "web")]
)
async def test_client_claim_that_is_no_text_is_no_client(client: Any, azp: Any, expected: str) -> None:
    found = await identities().identify(token(client_id=client, azp=azp))
    assert found is not None
    assert found.client == expected


def nested(part: int) -> str:
    """Return a token of which one part is JSON nested thousands of levels deep."""
    parts = token().removeprefix("Bearer ").split(".")
    parts[part] = base64.urlsafe_b64encode(b"[" * 9_000).rstrip(b"=").decode()
    return f"Bearer {'.'.join(parts)}"


PAST = int(time.time()) - 3600
FUTURE = int(time.time()) + 3600
FORGERIES = {
    "for another audience": (lambda: token(aud="https://other.example/mcp"), "another server"),
    "for a part of the audience's name": (lambda: token(aud="https://crib.example"), "another server"),
    "for another toolset": (lambda: token(aud=f"{AUDIENCE}/office"), "another server"),
    "alg none": (unsigned, "not allowed"),
    "HS256 with the public key": (sign_with_public_key, "not allowed"),
    "expired": (lambda: token(exp=PAST), "has expired"),
    "not valid yet": (lambda: token(nbf=FUTURE), "not valid yet"),
    "of another issuer": (lambda: token(iss="https://evil.example"), "another issuer"),
    "of an issuer of a similar name": (lambda: token(iss=f"{ISSUER}/"), "another issuer"),
    "signed by another": (lambda: token(OTHER), "signature of the token is wrong"),
    "unknown key": (lambda: token(kid="two"), "unknown key"),
    "without a key's name": (lambda: token(kid=None), "unknown key"),
    "a key of another kind": (lambda: token(KEY, kid="curve"), "not valid"),
    "without a subject": (lambda: token(without="sub"), "lacks a claim"),
    "without an end": (lambda: token(without="exp"), "lacks a claim"),
    "without an audience": (lambda: token(without="aud"), "lacks a claim"),
    "cut off": (lambda: token()[:-9], "not valid"),
    "not a token": (lambda: "Bearer a.b.c", "not valid"),
    "too long": (lambda: f"Bearer a.{'b' * 20_000}.c", "not known"),
    "no such token": (lambda: "Bearer secret", "not known"),
    "another scheme": (lambda: "Basic YTpi", "Authorization"),
    "a header nested deeply": (lambda: nested(0), "not valid"),
    "claims nested deeply": (lambda: nested(1), "signature of the token is wrong"),
    "two headers": (lambda: f"{token()}, {token()}", "not known"),
    "a token and a half": (lambda: f"{token()} x", "not valid"),
    "another scheme first": (lambda: f"Basic YTpi, {token()}", "Authorization"),
    "a tab after the scheme": (lambda: token().replace(" ", "\t", 1), "Authorization"),
    "in quotes": (lambda: f'Bearer "{token().removeprefix("Bearer ")}"', "not valid"),
    "a letter that is none": (lambda: f"{token()}\xff", "not valid"),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_token_is_refused_by_a_named_check(name: str) -> None:
    make, reason = FORGERIES[name]
    refusal = await refused(make())
    assert (refusal.status, refusal.error) == (401, "invalid_token")
    assert reason in refusal.text


async def test_nothing_sent_is_no_invalid_token() -> None:
    refusal = await refused(None, identities(scopes=["mcp"]))
    assert (refusal.status, refusal.error, refusal.scopes) == (401, "", ("mcp",))


async def test_a_token_for_one_endpoint_opens_that_alone() -> None:
    header = token(aud=f"{AUDIENCE}/office")
    assert await identities().identify(header, OFFICE) is not None
    assert "another server" in (await refused(header, address=SHOP)).text
    assert await identities().identify(token(), SHOP) is not None


async def test_a_token_opens_the_surfaces_below_what_it_is_for() -> None:
    direct, meta = EndpointAddress("office", "all"), EndpointAddress("office", "meta")
    for header in (token(), token(aud=f"{AUDIENCE}/office"), token(aud=f"{AUDIENCE}/office/all")):
        assert await identities().identify(header, direct) is not None
    for address in (EVERYTHING, OFFICE, meta, EndpointAddress(None, "all"), EndpointAddress("shop", "all")):
        refusal = await refused(token(aud=f"{AUDIENCE}/office/all"), address=address)
        assert "another server" in refusal.text


async def test_all_scopes_that_lack_are_told_at_once() -> None:
    refusal = await refused(token(scope="a"), identities(scopes=["a", "b", "c"]))
    assert (refusal.status, refusal.error, refusal.scopes) == (403, "insufficient_scope", ("a", "b", "c"))


async def test_clocks_may_differ_by_a_bounded_time() -> None:
    assert await identities().identify(token(exp=int(time.time()) - 30, nbf=int(time.time()) + 30))
    assert (
        await refused(token(exp=int(time.time()) - 30), identities(leeway=0))
    ).text == "the token has expired"
    two_minutes_ago = token(exp=int(time.time()) - 120)
    assert (await refused(two_minutes_ago)).text == "the token has expired"
    assert await identities(leeway=180).identify(two_minutes_ago)
    with pytest.raises(ConfigError):
        AuthSettings(issuer=ISSUER, audience=AUDIENCE, leeway=1e6)


async def test_keys_are_fetched_again_for_an_unknown_one_at_a_bounded_rate() -> None:
    issuer, now = Issuer(), [0.0]
    known = identities(issuer, clock=lambda: now[0])
    await known.identify(token())
    for _ in range(50):
        await refused(token(OTHER, kid="new"), known)
    assert len(issuer.asked) == 1
    now[0] = 31
    issuer.documents[f"{ISSUER}/keys"] = {"keys": [jwk(OTHER, "new")]}
    assert await known.identify(token(OTHER, kid="new")) is not None
    assert len(issuer.asked) == 2
    await refused(token(), known)  # a key that the issuer has withdrawn


async def test_keys_that_an_issuer_rotates_are_fetched_from_where_it_says() -> None:
    keys, now = [jwk(KEY, "one")], [0.0]

    async def answer(request: Request) -> JSONResponse:
        base = str(request.base_url).rstrip("/")
        is_metadata = "well-known" in request.url.path
        return JSONResponse({"issuer": base, "jwks_uri": f"{base}/keys"} if is_metadata else {"keys": keys})

    with serving(Starlette(routes=[Route("/{path:path}", answer)])) as address:
        settings = AuthSettings(issuer=address, audience=AUDIENCE)
        known = Identities(None, {}, settings, SigningKeys(settings, clock=lambda: now[0]))
        assert await known.identify(token(iss=address)) is not None
        keys[:], now[0] = [jwk(OTHER, "two")], 31.0
        assert await known.identify(token(OTHER, kid="two", iss=address)) is not None
        assert (await refused(token(iss=address), known)).text == "the token is signed with an unknown key"


async def test_known_keys_go_on_working_while_they_cannot_be_fetched() -> None:
    issuer, now = Issuer(), [0.0]
    known = identities(issuer, clock=lambda: now[0])
    await known.identify(token())
    issuer.documents.clear()
    now[0] = 7200
    assert await known.identify(token()) is not None
    refusal = await refused(token(), identities(issuer))
    assert (refusal.status, refusal.error) == (503, "temporarily_unavailable")


async def test_an_issuer_that_never_ends_its_answer_holds_up_nobody_whose_key_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    issuer, now = Issuer(), [0.0]
    known = identities(issuer, clock=lambda: now[0])
    await known.identify(token())
    issuer.hangs.set()
    now[0] = 7200
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(known.identify, token(sub="eve"))
        await until(lambda: len(issuer.asked) == 2)
        with anyio.fail_after(PATIENCE):
            assert await known.identify(token(sub="bob")) is not None
        tasks.cancel_scope.cancel()
    monkeypatch.setattr("toolcrib.gateway.identity.keys._TIMEOUT", 0.05)
    now[0] = 14400
    with anyio.fail_after(PATIENCE):
        assert await known.identify(token(sub="carl")) is not None
        assert (await refused(token(OTHER, kid="new"), known)).status == 401


async def test_keys_are_found_by_the_metadata_of_the_issuer() -> None:
    place = f"{ISSUER}/.well-known/openid-configuration"
    issuer = Issuer(**{place: {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}})
    assert await identities(issuer, jwks=None).identify(token()) is not None
    mixed_up = Issuer(**{place: {"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/keys"}})
    assert (await refused(token(), identities(mixed_up, jwks=None))).status == 503
    where = "http://login.example/keys"
    in_clear = Issuer(**{place: {"issuer": ISSUER, "jwks_uri": where}, where: KEYS})
    assert (await refused(token(), identities(in_clear, jwks=None))).status == 503


async def test_keys_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KEYS))
    assert await identities(jwks=str(file)).identify(token()) is not None
    file.write_text('{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}')
    assert (await refused(token(), identities(jwks=str(file)))).status == 503


@pytest.mark.parametrize(
    "auth",
    [
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"issuer": "http://login.example"},
        {"issuer": "login.example"},
        {"audience": ""},
    ],
)
def test_settings_that_would_not_be_safe_are_refused(auth: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AuthSettings(**{"issuer": ISSUER, "audience": AUDIENCE} | auth)


def named(**more: Any) -> Identities:
    digest = hashlib.sha256(b"of-ann").hexdigest()
    settings = GatewaySettings(tokens={"ann": {"hash": f"sha256:{digest}", **more}})
    found = Identities.of(settings, "shared")
    assert found is not None
    return found


async def test_a_named_token_names_its_owner_and_the_shared_one_nobody() -> None:
    known = named(groups=["staff"])
    found = await known.identify("Bearer of-ann")
    assert found == Principal(issuer="tokens", subject="ann", client="ann", groups=frozenset({"staff"}))
    assert await known.identify("bearer shared") is None
    assert (await refused("Bearer of-bob", known)).text == "the token is not known here"


async def test_a_named_token_may_end_and_may_be_for_some_endpoints() -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert await named(expires=soon).identify("Bearer of-ann") is not None
    assert "has expired" in (await refused("Bearer of-ann", named(expires=soon - timedelta(hours=2)))).text
    some = named(toolsets=["office"])
    for own in (OFFICE, EndpointAddress("office", "all"), EndpointAddress("office", "meta")):
        assert await some.identify("Bearer of-ann", own) is not None
    for other in (EVERYTHING, EndpointAddress(None, "all"), SHOP, EndpointAddress("shop", "all")):
        refusal = await refused("Bearer of-ann", some, other)
        assert (refusal.status, refusal.text) == (403, "the token 'ann' is for other endpoints: /mcp/office")


def test_without_any_setting_nobody_is_asked() -> None:
    assert Identities.of(GatewaySettings(), None) is None


def test_clients_are_told_where_to_log_in() -> None:
    known = identities(scopes=["mcp"])
    assert known.metadata(OFFICE) == {
        "resource": f"{AUDIENCE}/office",
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "resource_name": "toolcrib: office",
        "scopes_supported": ["mcp"],
    }
    where = "https://crib.example/.well-known/oauth-protected-resource/mcp/office"
    assert known.metadata_address(OFFICE) == where
    assert known.metadata_address(EndpointAddress("office", "all")) == f"{where}/all"
    assert named().metadata() is None


async def test_further_audience_is_accepted_and_no_other() -> None:
    known = identities(audiences=["a-client-id"])
    assert await known.identify(token(aud="a-client-id")) is not None
    assert await known.identify(token()) is not None
    assert (await refused(token(aud="another-client-id"), known)).status == 401


@pytest.mark.parametrize(
    ("scope", "status"),
    [(f"{AUDIENCE}/read", 200), ("read", 200), ("", 403), ("rea", 403), ("https://other.example/read", 403)],
)
async def test_scope_of_the_audience_is_accepted_with_and_without_the_audience(
    scope: str, status: int
) -> None:
    known = identities(scopes=[f"{AUDIENCE}/read"])
    if status == 200:
        assert await known.identify(token(scope=scope)) is not None
    else:
        assert (await refused(token(scope=scope), known)).status == status
