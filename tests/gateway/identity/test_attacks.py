"""Attacks on logins and on data of principals: the check that the documentation names refuses each."""

import json
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types
import pytest
from execution.mcp.web import serving as serving_app
from execution.oauth.authority import authorities, browse, query_of
from gateway.identity.forging import AUDIENCE, ISSUER, KEYS, OTHER, sign_with_public_key, token, unsigned
from gateway.little_face import serving
from gateway.tasks.raw import RawClient, RefusedError
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from servers.asking import Asking, HandshakeOnly

from toolcrib.errors import LoginError
from toolcrib.execution import Principal
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.oauth.flows import log_in
from toolcrib.execution.oauth.vault import LoginVault
from toolcrib.gateway import Gateway
from toolcrib.gateway.resources.lists import page

pytestmark = pytest.mark.anyio
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "who-may-call.md"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


@dataclass
class Target:
    """A gateway that takes the tokens of an issuer, and a folder of the attacker's victim."""

    url: str
    folder: Path
    ran: list[str]

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the user who logs in."""
        return {"TOOLCRIB_HOME": str(self.folder), "TOOLCRIB_VAULT_KEY": "a key of many characters"}

    @asynccontextmanager
    async def client(self, subject: str) -> AsyncIterator[Client]:
        """Yield a client with a token that names a subject."""
        headers = {"authorization": token(sub=subject)}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(
                streamable_http_client(f"{self.url}/mcp", http_client=http), elicitation_callback=_nobody
            ) as client,
        ):
            yield client

    async def post(self, header: str, payload: Any = HELLO, **headers: str) -> httpx2.Response:
        """Return the answer to a message that is sent with an `Authorization` header."""
        accept = {"accept": "application/json, text/event-stream", "authorization": header}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx2.AsyncClient(timeout=60) as http:
            return await http.post(f"{self.url}/mcp", json=payload, headers=accept | more)


async def _nobody(*_: Any) -> Any:
    raise AssertionError("the test answers by itself")


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    policy = [
        {"name": "ask first", "tools": ["notes:send"], "effect": "ask"},
        {"name": "all", "effect": "allow"},
    ]
    with serving_app(HandshakeOnly(Asking().server.streamable_http_app())) as upstream:
        settings: dict[str, Any] = {
            "servers": {"forms": {"url": f"{upstream}/mcp"}},
            "policy": policy,
            "gateway": {"auth": {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(keys)}},
        }
        gateway, ran = Gateway(settings), []

        @gateway.crib.add(namespace="notes")
        def send() -> str:
            """Send a note."""
            ran.append("sent")
            return "sent"

        @gateway.crib.add(namespace="notes")
        def long() -> str:
            """Return a very long note."""
            return "long " * 200_000

        @gateway.crib.add(namespace="notes")
        async def wait() -> None:
            """Wait for ever."""
            await anyio.sleep_forever()

        async with gateway, serving(gateway) as url:
            yield Target(url, tmp_path, ran)


Attack = Callable[[Target], Awaitable[str]]
ATTACKS: dict[str, tuple[str, str, Attack]] = {}
"""For each attack: the name of the check that refuses it, the expected answer, and the attack."""


def attack(name: str, check: str, answer: str) -> Callable[[Attack], Attack]:
    """Register an attack in the table; it returns its outcome."""

    def enter(function: Attack) -> Attack:
        ATTACKS[name] = check, answer, function
        return function

    return enter


def _add_forgery(name: str, check: str, reason: str, make: Callable[[], str]) -> None:
    @attack(name, check, f"401 .*{reason}")
    async def send(target: Target) -> str:
        assert (await target.post(token())).status_code == 200  # so that it is the forgery which is refused
        answer = await target.post(make())
        return f"{answer.status_code} {answer.headers['www-authenticate']}"


_add_forgery(
    "a token for another audience",
    "audience",
    "meant for another server",
    lambda: token(aud="https://other.example/mcp"),
)
_add_forgery("a token with `alg=none`", "algorithm", "signed in a way that is not allowed", unsigned)
_add_forgery(
    "HS256 with the public key", "algorithm", "signed in a way that is not allowed", sign_with_public_key
)
_add_forgery(
    "a token signed with another key",
    "signature",
    "the signature of the token is wrong",
    lambda: token(OTHER),
)
_add_forgery("an expired token", "time", "has expired", lambda: token(exp=int(time.time()) - 3600))
_add_forgery(
    "a token from another issuer", "issuer", "from another issuer", lambda: token(iss="https://evil.example")
)


async def _login(target: Target, answer: dict[str, str], **behaviour: Any) -> str:
    """Return why a login fails when the authorization server or the browser is manipulated."""
    with authorities(answer=answer, **behaviour) as authority:

        def show(address: str, _: str | None) -> None:
            begun = {**query_of(address), "code_challenge": "of-the-attackers-own-login"}
            authority.codes["of-the-attacker"] = begun  # for the same client and address
            browse(address)

        config = ServerConfig(url=authority.url)
        with pytest.raises(LoginError) as caught:
            await log_in("one", config, show=show, within=60, environ=target.environ)
        assert authority.tokens == {}
        assert LoginVault(target.environ).get("one", authority.url) is None
    return caught.value.reason


@attack("an authorization server mix-up", "issuer of the response", "from another authorization server")
async def mix_up(target: Target) -> str:
    return await _login(target, {"iss": "https://mixed.example.com"})


@attack(
    "metadata of another authorization server",
    "issuer of the metadata",
    "says that it is https://mixed.example.com",
)
async def describe_another(target: Target) -> str:
    return await _login(target, {}, metadata={"issuer": "https://mixed.example.com"})


@attack("an injected authorization code", "PKCE", "invalid_grant")
async def inject_code(target: Target) -> str:
    return await _login(target, {"code": "of-the-attacker"})


async def _came_back(target: Target, change: Callable[[str], str]) -> str:
    """Return the response of the login callback to the browser of a user whom another user sent there."""
    answers: list[str] = []

    def get(address: str) -> str:
        answer = httpx2.get(address, timeout=60)
        return f"{answer.status_code} {answer.headers.get('location')} {answer.text}"

    with authorities() as authority:

        def show(address: str, _: str | None) -> None:
            def go() -> None:
                query = query_of(address)
                answers.append(get(change(f"{query['redirect_uri']}?code=evil&state={query['state']}")))
                browse(address)

            threading.Thread(target=go, daemon=True).start()

        await log_in("one", ServerConfig(url=authority.url), show=show, within=60, environ=target.environ)
        assert "evil" not in {form["code"] for form in authority.asked}
    (answer,) = answers
    return answer


@attack("CSRF on the callback", "state", "^400 None .*This is not the login that was begun")
async def send_own_answer(target: Target) -> str:
    return await _came_back(target, lambda address: re.sub("state=.*", "state=of-the-attacker", address))


@attack("an open redirect on the callback", "path", "^404 None .*There is nothing here")
async def redirect(target: Target) -> str:
    return await _came_back(
        target, lambda address: address.replace("/callback?", "//evil.example.com/callback?next=//evil&")
    )


@attack("session fixation", "owner of the session", "404")
async def fix_session(target: Target) -> str:
    """Have a victim go on with a session of the attacker's, by its id."""
    chosen = await target.post(token(sub="eve"), mcp_session_id="chosen-by-eve")
    assert chosen.status_code == 404  # nor is an id taken that the server has not given
    begun = await target.post(token(sub="eve"))
    session = begun.headers["mcp-session-id"]
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    answer = await target.post(
        token(sub="ann"), call, mcp_session_id=session, mcp_protocol_version="2025-11-25"
    )
    return f"{answer.status_code} {answer.text}"


@attack("another principal's cursor", "owner of the cursor", "it was not issued to this principal")
async def use_cursor(target: Target) -> str:
    async with target.client("ann") as ann:
        listed = await ann.call_tool("list_tools", {"limit": 1})
        cursor = (listed.structured_content or {})["nextCursor"]
        assert not (await ann.call_tool("list_tools", {"limit": 1, "cursor": cursor})).is_error
    async with target.client("bob") as bob:
        answer = await bob.call_tool("list_tools", {"limit": 1, "cursor": cursor})
    assert answer.is_error
    return str((answer.structured_content or {})["error"]["message"])


@attack("another principal's kept result", "owner of the result", "nothing is kept at")
async def read_result(target: Target) -> str:
    async with target.client("ann") as ann:
        ran = await ann.call_tool("run_tool", {"tool_id": "notes:long"})
        (uri, *_) = re.findall(r"toolcrib://results/[\w-]+", ran.model_dump_json())
        assert (await ann.read_resource(uri)).contents
    async with target.client("bob") as bob:
        with pytest.raises(MCPError) as caught:
            await bob.read_resource(uri)
    return str(caught.value)


async def _answer_for(target: Target, tool_id: str, content: dict[str, Any], **args: Any) -> str:
    """Return the outcome of answering the elicitation of another principal's call."""
    call = {"tool_id": tool_id, "args": args}
    async with target.client("ann") as ann:
        asked: Any = await ann.session.call_tool("run_tool", call, allow_input_required=True)
        (key,) = asked.input_requests
        responses = {key: mcp_types.ElicitResult(action="accept", content=content)}
        given = {"input_responses": responses, "request_state": asked.request_state}
        async with target.client("bob") as bob:
            with pytest.raises(MCPError) as caught:
                await bob.session.call_tool("run_tool", call, allow_input_required=True, **given)
        assert target.ran == []
        own: Any = await ann.session.call_tool("run_tool", call, allow_input_required=True, **given)
        assert not own.is_error  # it still waits for whoever was asked
    return str(caught.value)


@attack(
    "another principal's confirmation", "principal of the request state", "Invalid or expired requestState"
)
async def use_confirmation(target: Target) -> str:
    return await _answer_for(target, "notes:send", {"confirm": True})


@attack(
    "another principal's call that waits for input",
    "principal of the request state",
    "Invalid or expired requestState",
)
async def use_held_call(target: Target) -> str:
    return await _answer_for(target, "forms:form", {"name": "Eve"}, who="")


@attack("another principal's task", "owner of the task", "there is no such task")
async def use_task(target: Target) -> str:
    ann, bob = (RawClient(target.url, who=token(sub=name).removeprefix("Bearer ")) for name in ("ann", "bob"))
    task = await ann.begin("run_chain", steps=[{"tool_id": "notes:wait"}])
    answers = set()
    for request in (bob.get(task), bob.update(task), bob.cancel(task)):
        with pytest.raises(RefusedError) as caught:
            await request
        answers.add(caught.value.message)
    assert (await ann.get(task))["status"] == "working"
    (answer,) = answers
    return answer


ELSEWHERE = {
    ("a confused deputy over `exchange`", "audience and subject of the issued token"): (
        "execution/oauth/test_exchange.py::test_a_token_that_is_not_for_this_person_and_server_is_never_sent"
    ),
    ("another principal's token over `exchange`", "owner of the client's token"): (
        "execution/oauth/test_exchange.py::test_nobody_is_called_for_with_the_token_of_another_or_without_one"
    ),
    ("an authorization server mix-up over `exchange`", "configured issuer"): (
        "execution/oauth/test_exchange.py::test_a_server_that_names_another_authorization_server_gets_no_token"
    ),
    ("a forged or old link to `/connect`", "ticket"): (
        "gateway/test_connect.py::test_links_that_are_forged_old_or_for_something_else_are_refused"
    ),
    ("CSRF on `/connect`", "cookie of the browser"): (
        "gateway/test_connect.py::test_another_web_page_cannot_begin_a_login_nor_end_one"
    ),
    ("an open redirect on `/connect`", "configured address"): (
        "gateway/test_connect.py::test_no_request_decides_where_a_browser_is_sent"
    ),
    ("another person's resource on a server with personal logins", "the person's connection"): (
        "gateway/test_personal_content.py"
        "::test_each_person_finds_and_gets_what_is_theirs_on_their_own_connection"
    ),
    ("another person's subscription to such a resource", "owner of the change"): (
        "gateway/test_personal_content.py::test_a_change_of_what_one_person_has_is_told_to_that_person_alone"
    ),
    ("another principal's durable run", "owner of the run"): (
        "crib/test_durable.py::test_the_run_of_one_principal_does_not_exist_for_another"
    ),
    ("an account with the name of a token that a rule allows", "issuer of the name"): (
        "execution/test_principal.py::test_name_in_a_rule_means_principals_of_one_issuer"
    ),
    ("a groups claim that is a single string", "type of the claim"): (
        "gateway/identity/test_identities.py::test_groups_claim_that_is_no_list_of_texts_has_no_group"
    ),
    ("another spelling of a resource that rules refuse", "canonical form of the address"): (
        "gateway/test_resource_rules.py::test_resource_that_rules_refuse_is_not_read_by_another_spelling"
    ),
    ("a server that resolves a spelling differently from the rules", "every way to resolve the address"): (
        "execution/policy/test_resource_names.py"
        "::test_address_that_a_server_may_resolve_out_of_what_is_allowed_is_refused"
    ),
    ("a guess at a hidden tool through the headers of its arguments", "tools of the principal"): (
        "gateway/test_hidden_tools.py::test_gateway_with_hidden_tools_answers_as_one_without"
    ),
    ("a task, or a call that waits for input, whose token was revoked", "permission of its latest request"): (
        "gateway/test_stream_rights.py::test_call_that_waits_for_input_ends_with_the_token_that_was_revoked"
    ),
    ("another spelling of a prompt that rules refuse", "plain form of the name"): (
        "gateway/test_resource_rules.py::test_prompt_that_rules_refuse_is_not_got_by_another_spelling"
    ),
}
"""Attacks, and the checks that refuse them, that are tested beside the code that they attack."""


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_is_refused_by_a_named_check(name: str, target: Target) -> None:
    _, answer, run = ATTACKS[name]
    assert re.search(answer, await run(target), re.DOTALL)


def test_the_documentation_names_every_attack_and_its_check() -> None:
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| [^|]+ \|$", DOCUMENTATION.read_text(), re.MULTILINE)
    start = rows.index(("attack", "refused by"))
    known = [(name, check) for name, (check, *_) in ATTACKS.items()] + [*ELSEWHERE]
    assert set(rows[start + 1 : start + 1 + len(known)]) == set(known)
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (DOCUMENTATION.parents[1] / "tests" / file).read_text()


def test_a_cursor_of_a_list_of_the_protocol_is_its_owners_too() -> None:
    tools = {f"tool{number}": number for number in range(1001)}
    ann, bob = (Principal(issuer=ISSUER, subject=name) for name in ("ann", "bob"))
    cursor = page("tools", tools, {}, ann)["nextCursor"]
    assert page("tools", tools, {"cursor": cursor}, ann)["tools"] == [1000]
    with pytest.raises(MCPError, match="it was not issued to this principal"):
        page("tools", tools, {"cursor": cursor}, bob)
    with pytest.raises(MCPError, match="it was not issued to this principal"):
        page("tools", tools, {"cursor": cursor.partition(".")[0]}, bob)
