"""Tokens of clients exchanged for those of a server (RFC 8693): subject, audience, and refusals."""

import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from execution.oauth.accounts import Accounts, accounts
from execution.oauth.library import SHARED, Library
from execution.oauth.test_persons import call_of
from gateway.little_face import serving
from gateway.passing import ERAS
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.responses import JSONResponse, Response
from waiting import PATIENCE

from toolcrib.errors import LoginRequiredError, ToolLoginRequiredError
from toolcrib.execution import CallContext, Principal
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.execution.principal import SubjectToken, local_user
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
KEY = ec.generate_private_key(ec.SECP256R1())
GATEWAY = "https://crib.example/mcp"


@dataclass
class Exchanging(Accounts):
    """An authorization server that exchanges the tokens that it has given for the gateway."""

    instead: dict[str, Any] = field(default_factory=dict)
    """Fields of the response that replace the correct ones."""
    claims: dict[str, Any] | None = None
    """JWT claims that are added to the correct ones or replace them."""

    def subject_token(self, subject: str, **claims: Any) -> str:
        """Return a token with which a person calls the gateway."""
        said = {"iss": self.issuer, "sub": subject, "aud": GATEWAY, "exp": time.time() + 600} | claims
        token = jwt.encode(said, KEY, algorithm="ES256", headers={"kid": "one"})
        self.secrets.add(token)
        return token

    def _granted(self, client: str, form: dict[str, str]) -> Response:
        if form["grant_type"] != GRANT:
            response = super()._granted(client, form)
            given = json.loads(bytes(response.body))
            self.accounts[given.get("access_token", "")] = "operator"
            return response
        subject = jwt.decode(form["subject_token"], KEY.public_key(), algorithms=["ES256"], audience=GATEWAY)
        assert (form["audience"], form["resource"]) == (self.url, self.url)
        assert form["subject_token_type"] == form["requested_token_type"] == ACCESS_TOKEN
        given = self.give(client, [], self.url, refresh=False)
        token = given["access_token"]
        if self.claims is not None:
            said = {"iss": self.issuer, "sub": subject["sub"], "aud": self.url, "jti": token} | self.claims
            given["access_token"] = jwt.encode(said, KEY, algorithm="ES256")
            self.tokens[given["access_token"]] = self.tokens.pop(token)
        self.accounts[given["access_token"]] = subject["sub"]
        if self.instead.get("access_token") == "the same":
            given["access_token"] = form["subject_token"]
            return JSONResponse(given)
        return JSONResponse(given | {"issued_token_type": ACCESS_TOKEN} | self.instead)


@contextmanager
def exchanging(**behaviour: Any) -> Iterator[Exchanging]:
    with accounts(Exchanging, clients={"crib": "the secret of the gateway"}, **behaviour) as running:
        assert isinstance(running, Exchanging)
        yield running


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TOOLCRIB_HOME": str(tmp_path), "TOOLCRIB_VAULT_KEY": "a key of many characters"}


def settings_of(authority: Exchanging, **auth: Any) -> dict[str, Any]:
    secret = authority.clients["crib"]
    known = {"mode": "exchange", "client_id": "crib", "client_secret": secret, "issuer": authority.issuer}
    return {"url": authority.url, "auth": known | auth}


def principal_of(authority: Exchanging, subject: str, **facts: Any) -> Principal:
    return Principal(issuer=authority.issuer, subject=subject, **facts)


async def whoami(
    servers: McpServers, who: Principal, token: str | None, owner: Principal | None = None
) -> Any:
    """Call as a principal with a subject token, which may be another principal's."""
    given = None if token is None else SubjectToken(owner or who, token)
    with anyio.fail_after(PATIENCE):
        return (await servers.call(call_of(who, subject_token=given))).structured["result"]


def exchanges(authority: Exchanging) -> list[dict[str, str]]:
    return [form for form in authority.asked if form["grant_type"] == GRANT]


@pytest.mark.parametrize("claims", [None, {}], ids=["opaque", "jwt"])
async def test_two_persons_get_one_token_each_and_never_each_others_data(
    environ: dict[str, str], claims: dict[str, Any] | None
) -> None:
    with exchanging(claims=claims) as authority:
        tokens = {name: authority.subject_token(name) for name in ("ann", "bob")}
        answers: list[tuple[str, str]] = []
        async with McpServers({"one": settings_of(authority)}, environ=environ) as servers:

            async def one(name: str) -> None:
                answers.append((name, await whoami(servers, principal_of(authority, name), tokens[name])))

            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(one, ("ann", "bob")[number % 2])
        assert len(answers) == 50
        assert all(answer == f"{name}: hello" for name, answer in answers)
        assert sorted(form["subject_token"] for form in exchanges(authority)) == sorted(tokens.values())
        assert not any(token in seen for token in tokens.values() for seen in authority.seen)


async def test_a_token_is_exchanged_again_when_it_ends_or_is_refused(environ: dict[str, str]) -> None:
    with exchanging(lifetime=1) as authority:
        ann, token = principal_of(authority, "ann"), authority.subject_token("ann")
        async with McpServers({"one": settings_of(authority)}, environ=environ) as servers:
            await whoami(servers, ann, token)
            authority.lifetime = 3600.0
            authority.tokens.clear()
            assert await whoami(servers, ann, token) == "ann: hello"
            before = len(exchanges(authority))
            assert await whoami(servers, ann, token) == "ann: hello"
            assert len(exchanges(authority)) == before


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"instead": {"access_token": "the same"}}, "gave the client's own token back"),
        ({"instead": {"issued_token_type": "urn:ietf:params:oauth:token-type:saml2"}}, "of another kind"),
        ({"instead": {"token_type": "N_A"}}, "gave no bearer token"),
        ({"claims": {"aud": "https://other.example"}}, "gave a token for another server"),
        ({"claims": {"aud": []}}, "gave a token for another server"),
        ({"claims": {"sub": "bob"}}, "returned a token of another user"),
        ({"broken": (400, {"error": "invalid_target"})}, "refused it with 'invalid_target'"),
        ({"broken": (500, {})}, "refused it with status 500"),
    ],
)
async def test_a_token_that_is_not_for_this_person_and_server_is_never_sent(
    environ: dict[str, str], behaviour: dict[str, Any], reason: str
) -> None:
    with exchanging(**behaviour) as authority:
        ann, token = principal_of(authority, "ann"), authority.subject_token("ann")
        async with McpServers({"one": settings_of(authority)}, environ=environ) as servers:
            with pytest.raises(ToolLoginRequiredError, match=reason) as refused:
                await whoami(servers, ann, token)
    assert authority.seen == [""]  # the question that the login begins with
    assert not any(secret in str(refused.value) for secret in authority.secrets)


async def test_nobody_is_called_for_with_the_token_of_another_or_without_one(environ: dict[str, str]) -> None:
    with exchanging() as authority:
        ann, bob = principal_of(authority, "ann"), principal_of(authority, "bob")
        narrow = principal_of(authority, "ann", client="other", scopes=frozenset({"read"}))
        token = authority.subject_token("ann")
        async with McpServers({"one": settings_of(authority)}, environ=environ) as servers:
            for who, given, owner in (
                (bob, token, ann),
                (narrow, token, ann),
                (ann, None, None),
                (local_user("cli"), None, None),
                (Principal(issuer="tokens", subject="ann"), None, None),
            ):
                with pytest.raises(
                    ToolLoginRequiredError, match="the token of the caller's login to exchange"
                ):
                    await whoami(servers, who, given, owner)
            assert authority.asked == []
            assert await whoami(servers, ann, token) == "ann: hello"
            assert await whoami(servers, narrow, authority.subject_token("ann")) == "ann: hello"
        assert len(exchanges(authority)) == 2  # one for each of the two clients that she uses


async def test_a_server_that_names_another_authorization_server_gets_no_token(
    environ: dict[str, str],
) -> None:
    with exchanging() as authority, accounts() as evil:
        evil_issuer, right = evil.issuer, settings_of(authority)
        authority.issuer, evil.clients["crib"] = evil_issuer, "x"  # as its metadata says from now on
        ann = Principal(issuer=right["auth"]["issuer"], subject="ann")
        async with McpServers({"one": right}, environ=environ) as servers:
            with pytest.raises(ToolLoginRequiredError, match="and the configuration says"):
                await whoami(servers, ann, authority.subject_token("ann"))
        assert evil.asked == []
        assert authority.asked == []


async def test_the_tools_are_listed_with_the_access_of_the_gateway_itself(environ: dict[str, str]) -> None:
    with exchanging() as authority:
        async with McpServers({"one": settings_of(authority)}, environ=environ) as servers:
            assert [tool.name for tool in await servers.tools("one")] == ["whoami"]
        assert [form["grant_type"] for form in authority.asked] == ["client_credentials"]


@dataclass
class ExchangingLibrary(Exchanging, Library):
    """A variant whose MCP server has resources too."""


async def test_resources_are_those_of_whoever_the_token_is_exchanged_for(environ: dict[str, str]) -> None:
    with accounts(ExchangingLibrary, clients={"crib": "the secret of the gateway"}) as authority:
        assert isinstance(authority, ExchangingLibrary)
        async with McpServers({"one": settings_of(authority)}, environ=environ) as servers:
            for name in ("ann", "bob"):
                who = principal_of(authority, name)
                token = SubjectToken(who, authority.subject_token(name))
                content = ServerContent(servers, CallContext(principal=who, subject_token=token))
                with anyio.fail_after(PATIENCE):
                    (read,) = await content.read("one", SHARED)
                    assert read.text == f"{SHARED} of {name}"
                    assert f"notes://{name}/diary" in [each.uri for each in await content.resources("one")]
            nobody = CallContext(principal=principal_of(authority, "ann"))
            with pytest.raises(LoginRequiredError, match="the token of the caller's login to exchange"):
                await ServerContent(servers, nobody).read("one", SHARED)
        assert {owner for owner, _ in authority.requests} == {"ann", "bob"}


@asynccontextmanager
async def client_of(url: str, era: str, token: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=ERAS[era]) as client,
    ):
        yield client


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("era", ERAS)
async def test_clients_of_a_gateway_reach_the_server_each_as_themselves(tmp_path: Path, era: str) -> None:
    keys = tmp_path / "keys.json"
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
    keys.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig"}]}))
    with exchanging() as authority:
        auth = {"issuer": authority.issuer, "audience": GATEWAY, "jwks": str(keys), "algorithms": ["ES256"]}
        config = {"servers": {"one": settings_of(authority)}, "gateway": {"auth": auth}}
        async with Gateway(config) as gateway, serving(gateway) as url:
            await gateway.crib.ready()
            for name in ("ann", "bob"):
                async with client_of(url, era, authority.subject_token(name)) as client:
                    code = '__out = await one.whoami(note="code")'
                    for tool, args in (
                        ("run_tool", {"tool_id": "one:whoami", "args": {"note": "hello"}}),
                        ("run_chain", {"steps": [{"tool_id": "one:whoami", "args": {"note": "hello"}}]}),
                        ("execute_code", {"code": code}),
                    ):
                        ran = await client.call_tool(tool, args)
                        assert not ran.is_error, ran
                        assert f"{name}: " in json.dumps(ran.structured_content)
        assert len(exchanges(authority)) == 2
