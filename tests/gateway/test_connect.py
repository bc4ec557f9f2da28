"""Persons who log in to servers with their own accounts, at the gateway: elicitation, and every way in."""

import hashlib
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import mcp_types
import pytest
from execution.oauth.accounts import ACCOUNT, Accounts, accounts
from gateway.little_face import serving
from gateway.passing import ERAS
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from waiting import until

from toolcrib.errors import ToolLoginRequiredError
from toolcrib.execution import Principal
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin
from toolcrib.execution.principal import local_user
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
in_both_eras = pytest.mark.parametrize("era", ERAS)
TOKENS = {"ann": "of-ann", "bob": "of-bob"}
RUN = {"tool_id": "notes:whoami", "args": {"note": "hello"}}
EVIL = "https://evil.example/"


@pytest.fixture
def authority() -> Iterator[Accounts]:
    with accounts() as running:
        yield running


@asynccontextmanager
async def gateway_of(
    authority: Accounts, *, operator: bool = True, **settings: Any
) -> AsyncIterator[tuple[Gateway, str]]:
    """Serve a gateway whose operator has logged in, so that the tools are known, or has not."""
    login = StoredLogin(
        server="notes",
        url=authority.url,
        token_endpoint=f"{authority.issuer}/token",
        client_id="someone",
        access_token=authority.token_of("operator"),
    )
    if operator:
        LoginVault().put(login)
    tokens = {
        name: {"hash": f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"}
        for name, token in TOKENS.items()
    }
    shared = {"url": authority.url, "disabled": operator}
    server = {"url": authority.url, "auth": {"mode": "per_user"}}
    config = {"servers": {"notes": server, "shared": shared}, "gateway": {"tokens": tokens} | settings}
    async with Gateway(config) as gateway, serving(gateway) as url:
        await gateway.crib.ready()
        yield gateway, url


@asynccontextmanager
async def client_of(url: str, era: str, name: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {TOKENS[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=ERAS[era], **options) as client,
    ):
        yield client


class Browser:
    """A browser with a session at the authorization server."""

    def __init__(self, account: str) -> None:
        self._headers, self._cookies = {ACCOUNT: account}, httpx2.Cookies()

    async def get(self, address: str) -> httpx2.Response:
        async with httpx2.AsyncClient(headers=self._headers, cookies=self._cookies, timeout=60) as http:
            answer = await http.get(address)
            self._cookies = http.cookies
        return answer

    async def agreed(self, link: str) -> httpx2.Response:
        """Open a link, follow the one on its page, and return the final response."""
        page = await self.get(link)
        assert page.status_code == 200, page.text
        (target,) = re.findall(r"href='([^']+)'", page.text)
        return await self.get(str(page.url.join(target.replace("&amp;", "&"))))

    async def sent_back(self, link: str) -> str:
        """Log in at the authorization server, and return where that sends the browser."""
        begun = await self.agreed(link)
        assert begun.status_code == 302, begun.text
        return str((await self.get(begun.headers["location"])).headers["location"])

    async def log_in(self, link: str) -> httpx2.Response:
        return await self.get(await self.sent_back(link))


def link_to(gateway: Gateway, name: str = "ann", server: str = "notes") -> str:
    link = gateway.logins.link(Principal(issuer="tokens", subject=name), server)
    assert link is not None
    return link.url


@in_both_eras
async def test_a_call_without_a_login_has_the_person_log_in_and_goes_on(
    authority: Accounts, era: str
) -> None:
    asked: list[mcp_types.ElicitRequestURLParams] = []
    heard: list[Any] = []
    browsers = {name: Browser(f"account of {name}") for name in TOKENS}

    def opening(name: str) -> Any:
        async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
            assert isinstance(params, mcp_types.ElicitRequestURLParams)
            asked.append(params)
            done = await browsers[name].log_in(params.url)
            assert "You are logged in" in done.text
            return mcp_types.ElicitResult(action="accept")

        return answer

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ElicitCompleteNotification):
            heard.append(message)

    async with gateway_of(authority) as (_, url):
        for name in TOKENS:
            options = {"elicitation_callback": opening(name), "message_handler": hear}
            async with client_of(url, era, name, **options) as client:
                for _ in range(2):
                    ran = await client.call_tool("run_tool", RUN)
                    assert not ran.is_error, ran
                    assert (ran.structured_content or {})["structured"][
                        "result"
                    ] == f"account of {name}: hello"
                if era == "handshake":
                    await until(lambda: heard, "it is told")
                    assert heard.pop().params.elicitation_id == asked[-1].elicitation_id
        assert len(asked) == len(TOKENS)
        assert all(each.url.startswith(f"{url}/connect/notes?ticket=") for each in asked)


@in_both_eras
async def test_calls_of_one_person_at_once_ask_once_and_all_go_on(authority: Accounts, era: str) -> None:
    asked: list[str] = []
    browser = Browser("account of ann")

    async def answer(_: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params.url)
        await browser.log_in(params.url)
        return mcp_types.ElicitResult(action="accept")

    results: list[Any] = []
    async with (
        gateway_of(authority) as (_, url),
        client_of(url, era, "ann", elicitation_callback=answer) as client,
    ):

        async def run() -> None:
            results.append(await client.call_tool("run_tool", RUN))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(run)
    assert [each.is_error for each in results] == [False] * 5
    assert len(asked) == 1


@in_both_eras
async def test_a_client_that_cannot_ask_gets_the_address_and_one_that_declines_too(
    authority: Accounts, era: str
) -> None:
    async def decline(_: Any, __: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="decline")

    async with gateway_of(authority) as (_, url):
        for options in ({}, {"elicitation_callback": decline}):
            async with client_of(url, era, "ann", **options) as client:
                error = ((await client.call_tool("run_tool", RUN)).structured_content or {})["error"]
                assert (error["code"], error["retryable"]) == ("backend_unavailable", False)
                link = error["details"]["url"]
                assert link in error["message"]
                assert error["details"]["login"] == "notes"
        assert (await Browser("account of ann").log_in(link)).status_code == 200
        async with client_of(url, era, "ann") as client:
            assert not (await client.call_tool("run_tool", RUN)).is_error
        async with client_of(url, era, "bob") as client:
            assert (await client.call_tool("run_tool", RUN)).is_error


async def test_person_without_a_login_is_not_told_to_try_again_later(authority: Accounts) -> None:
    async with gateway_of(authority) as (_, url), client_of(url, "stateless", "ann") as client:
        ran = (await client.call_tool("run_tool", RUN)).structured_content or {}
        chained = await client.call_tool(
            "run_chain", {"steps": [{"toolId": RUN["tool_id"], "args": {"note": "x"}}]}
        )
    text = json.dumps([ran, chained.structured_content])
    assert "/connect/notes?ticket=" in ran["error"]["message"]
    assert "try again later" not in text.lower()
    assert "toolcrib login" not in text


async def test_person_is_not_sent_to_the_command_of_the_operator(authority: Accounts) -> None:
    async with (
        gateway_of(authority, operator=False) as (_, url),
        client_of(url, "stateless", "ann") as client,
    ):
        calls = [
            await client.call_tool("run_tool", RUN),
            await client.call_tool("run_tool", {"tool_id": "shared:whoami", "args": {}}),
            await client.call_tool("run_chain", {"steps": [{"toolId": RUN["tool_id"]}]}),
            await client.call_tool("search_tools", {"query": "who am I"}),
            await client.call_tool("describe_tool", {"tool_id": RUN["tool_id"]}),
        ]
    text = json.dumps([call.structured_content for call in calls])
    assert text.count("only the operator of this gateway can log in") >= len(calls) - 1
    assert "toolcrib login" not in text
    assert "try again later" not in text.lower()


async def test_operator_is_sent_to_the_command(authority: Accounts) -> None:
    config = {"servers": {"notes": {"url": authority.url, "auth": {"mode": "per_user"}}}}
    async with Gateway(config) as gateway:
        with pytest.raises(ToolLoginRequiredError, match="it needs a login: toolcrib login notes"):
            await gateway.crib.run("notes:whoami", {}, principal=local_user("cli"))


@in_both_eras
@pytest.mark.parametrize(
    ("action", "answer", "said"),
    [
        ("decline", "declined", "declined to log in"),
        ("cancel", "dismissed", "dismissed the question without an answer"),
    ],
)
async def test_a_question_to_log_in_that_is_dismissed_is_told_from_a_no(
    authority: Accounts, era: str, action: Any, answer: str, said: str
) -> None:
    async def respond(_: Any, __: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action=action)

    async with (
        gateway_of(authority) as (_, url),
        client_of(url, era, "ann", elicitation_callback=respond) as client,
    ):
        error = ((await client.call_tool("run_tool", RUN)).structured_content or {})["error"]
    assert error["details"]["answer"] == answer
    assert said in error["message"]
    assert f"log in at {error['details']['url']}" in error["message"]


async def test_a_link_is_good_for_one_login(authority: Accounts) -> None:
    async with gateway_of(authority) as (gateway, _):
        link, browser = link_to(gateway), Browser("account of ann")
        for _ in range(2):  # looking at it, as programs that show previews do, uses nothing up
            assert (await Browser("nobody").get(link)).status_code == 200
        back = await browser.sent_back(link)
        assert (await browser.get(link)).status_code == 403
        assert (await browser.get(back)).status_code == 200
        assert (await browser.get(back)).status_code == 403
        assert LoginVault().get("notes", authority.url, ("tokens", "ann")) is not None


async def test_links_that_are_forged_old_or_for_something_else_are_refused(authority: Accounts) -> None:
    async with gateway_of(authority) as (gateway, url):
        link = link_to(gateway)
        ticket = parse_qs(urlsplit(link).query)["ticket"][0]
        forged = ("A" if ticket[20] != "A" else "B").join((ticket[:20], ticket[21:]))
        browser = Browser("account of ann")
        for bad in (
            f"{url}/connect/notes",
            f"{url}/connect/notes?ticket=",
            f"{url}/connect/notes?ticket=%FF%00",
            f"{url}/connect/notes?ticket={forged}",
            f"{url}/connect/notes?ticket={ticket[:-4]}",
        ):
            assert (await browser.get(bad)).status_code == 403, bad
        assert (await browser.get(f"{link}&ticket={ticket}")).status_code == 400
        for unknown in ("nosuch", "shared", "notes/elsewhere", "notes/callback/more", ""):
            assert (await browser.get(f"{url}/connect/{unknown}?ticket={ticket}")).status_code == 404
        gateway.logins._clock = lambda: time.time() + 3600
        assert (await browser.get(link)).status_code == 403


async def test_a_ticket_logs_in_the_principal_it_names_and_the_page_says_who(authority: Accounts) -> None:
    async with gateway_of(authority) as (gateway, _):
        link = link_to(gateway, "bob")
        page = await Browser("x").get(link)
        assert "<b>bob</b>" in page.text
        await Browser("account of bob").log_in(link)
        vault = LoginVault()
        assert vault.get("notes", authority.url, ("tokens", "ann")) is None
        assert vault.get("notes", authority.url, ("tokens", "bob")) is not None
        hostile = link_to(gateway, "<script>alert(1)</script>")
        assert "<script>" not in (await Browser("x").get(hostile)).text


async def test_another_web_page_cannot_begin_a_login_nor_end_one(authority: Accounts) -> None:
    async with gateway_of(authority) as (gateway, _):
        link, victim, attacker = (
            link_to(gateway),
            Browser("account of victim"),
            Browser("account of attacker"),
        )
        page = await attacker.get(link)
        cookie = page.headers["set-cookie"]
        assert "SameSite=Strict" in cookie
        assert "HttpOnly" in cookie
        (target,) = re.findall(r"href='([^']+)'", page.text)
        begin = str(page.url.join(target.replace("&amp;", "&")))
        assert (await victim.get(begin)).status_code == 403  # the page was shown to another browser
        await victim.get(link)
        assert (
            await victim.get(begin)
        ).status_code == 403  # and so it was when this one has a page of its own
        back = await attacker.sent_back(link)
        assert (await victim.get(back)).status_code == 403  # the victim would use the attacker's account
        other = await victim.sent_back(link_to(gateway, "bob"))
        mixed = back.replace(
            parse_qs(urlsplit(back).query)["state"][0], parse_qs(urlsplit(other).query)["state"][0]
        )
        assert (await attacker.get(mixed)).status_code == 403  # a code for the login of another
        assert LoginVault().get("notes", authority.url, ("tokens", "ann")) is None
        assert LoginVault().get("notes", authority.url, ("tokens", "bob")) is None


async def test_no_request_decides_where_a_browser_is_sent(authority: Accounts) -> None:
    async with gateway_of(authority) as (gateway, url):
        evil = "&".join(f"{name}={EVIL}" for name in ("redirect_uri", "next", "url", "issuer", "iss"))
        browser = Browser("account of ann")
        begun = await browser.agreed(f"{link_to(gateway)}&{evil}")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert begun.headers["location"].startswith(f"{authority.issuer}/authorize?")
        assert asked["redirect_uri"] == [f"{url}/connect/notes/callback"]
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["resource"] == [authority.url]
        assert EVIL not in begun.headers["location"]
        for page in (begun, await browser.get(link_to(gateway))):
            assert page.headers["cache-control"] == "no-store"
            assert page.headers["referrer-policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        ({"answer": {"iss": EVIL}}, 502),
        ({"metadata": {"authorization_response_iss_parameter_supported": True}}, 502),
        ({"answer": {"error": "access_denied"}}, 403),
        ({"answer": {"code": "injected"}}, 502),
    ],
    ids=["another issuer", "no issuer", "denied", "another code"],
)
async def test_an_answer_that_is_not_the_right_one_keeps_nothing(
    behaviour: dict[str, Any], status: int
) -> None:
    with accounts(**behaviour) as authority:
        async with gateway_of(authority) as (gateway, _):
            browser = Browser("account of ann")
            back = await browser.sent_back(link_to(gateway))
            assert (await browser.get(back)).status_code == status
            assert (await browser.get(back)).status_code == 403  # it was its one use
            assert LoginVault().get("notes", authority.url, ("tokens", "ann")) is None


async def test_an_authorization_server_without_pkce_gets_nobody_sent(authority: Accounts) -> None:
    authority.metadata["code_challenge_methods_supported"] = ["plain"]
    async with gateway_of(authority) as (gateway, _):
        assert (await Browser("account of ann").agreed(link_to(gateway))).status_code == 502


async def test_there_is_no_link_for_whoever_is_not_known_or_where_no_browser_comes(
    authority: Accounts,
) -> None:
    async with gateway_of(authority) as (gateway, _):
        ann = Principal(issuer="tokens", subject="ann")
        for who in (None, Principal(), Principal(client="mcp:editor"), Principal(issuer="tokens")):
            assert gateway.logins.link(who, "notes") is None
        assert gateway.logins.link(ann, "shared") is None
        assert gateway.logins.link(ann, "nosuch") is None
    async with Gateway(
        {"servers": {"notes": {"url": authority.url, "auth": {"mode": "per_user"}}}}
    ) as gateway:
        assert gateway.logins.link(ann, "notes") is None


async def test_behind_a_proxy_links_and_cookies_are_for_the_address_that_browsers_know(
    authority: Accounts,
) -> None:
    async with gateway_of(authority, public_url="https://crib.example/tools/") as (gateway, url):
        link = link_to(gateway)
        assert link.startswith("https://crib.example/tools/connect/notes?ticket=")
        async with httpx2.AsyncClient(headers={"host": "crib.example"}) as proxy:
            page = await proxy.get(link.replace("https://crib.example/tools", url))
        assert page.status_code == 200
        assert "; Path=/tools/connect/notes;" in page.headers["set-cookie"]
        assert page.headers["set-cookie"].endswith("; Secure")


async def test_nothing_secret_of_a_login_is_logged(
    authority: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with gateway_of(authority) as (gateway, url):
        link = link_to(gateway)
        await Browser("account of ann").log_in(link)
        async with client_of(url, "stateless", "ann") as client:
            assert not (await client.call_tool("run_tool", RUN)).is_error
        authority.broken = (400, {"error": "invalid_grant"})
        await Browser("account of bob").log_in(link_to(gateway, "bob"))
    secret = {*authority.secrets, parse_qs(urlsplit(link).query)["ticket"][0]}
    ours = "\n".join(each.getMessage() for each in caplog.records if each.name.startswith("toolcrib"))
    assert "a login to server 'notes' failed" in ours
    assert {each for each in secret if each in ours} == set()
