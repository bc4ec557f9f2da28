"""Login to the console, and access denied to other web pages, ports and principals."""

import hashlib
from typing import Any

import httpx
import pytest
from gateway.api.support import ROOT, Browser, console, next_event
from gateway.little_face import serving

from toolcrib.console import ConsolePages
from toolcrib.execution import Principal
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin
from toolcrib.gateway import Gateway
from toolcrib.gateway.api.logins import CODE_SECONDS, LOGIN_SECONDS, ConsoleLogins

pytestmark = pytest.mark.anyio

ANN = Principal(issuer="local", subject="ann")
SECRET = "of-ann-and-nobody-else"  # noqa: S105 - of tests


def token(name: str, *groups: str) -> dict[str, Any]:
    """Return the settings of a token, whose text is its name and a secret."""
    return {"hash": f"sha256:{hashlib.sha256(f'{name}-{SECRET}'.encode()).hexdigest()}", "groups": groups}


TOKENS = {"ann": token("ann", "admins"), "ben": token("ben")}


def bearer(name: str) -> str:
    return f"Bearer {name}-{SECRET}"


async def test_a_code_logs_in_once() -> None:
    async with console() as (gateway, _):
        code = str(gateway.make_console_link()).partition("#login=")[2]
        async with httpx.AsyncClient(base_url=gateway._listens_at or "") as other:
            send = {"json": {"code": code}, "headers": {"x-toolcrib-key": "login"}}
            first = await other.post(f"{ROOT}/login", **send)
            second = await other.post(f"{ROOT}/login", **send)
            guess = await other.post(f"{ROOT}/login", json={"code": "x"}, headers={"x-toolcrib-key": "login"})
            none = await other.post(f"{ROOT}/login", json={}, headers={"x-toolcrib-key": "login"})
            bare = await other.post(f"{ROOT}/login", json={"code": code})
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/api/"))
    assert [each.status_code for each in (second, guess, none, bare)] == [403, 403, 401, 403]
    assert "toolcrib console" in second.json()["error"]["message"]


def test_codes_and_logins_end() -> None:
    now = [0.0]
    logins = ConsoleLogins(clock=lambda: now[0])
    early, late = logins.make_code(ANN), logins.make_code(ANN)
    now[0] = CODE_SECONDS - 1
    assert logins.redeem(early) == ANN
    now[0] = CODE_SECONDS + 1
    assert logins.redeem(late) is None
    cookie, key = logins.begin(ANN, None)
    assert logins.find(cookie, key) is not None
    now[0] += LOGIN_SECONDS
    assert logins.find(cookie, key) is None


def test_logins_and_codes_are_few() -> None:
    logins = ConsoleLogins()
    first = logins.begin(ANN, None)
    codes = [logins.make_code(ANN) for _ in range(1_100)]
    for _ in range(1_100):
        logins.begin(ANN, None)
    assert logins.find(*first) is None
    assert logins.redeem(codes[0]) is None
    assert logins.redeem(codes[-1]) == ANN


async def test_nothing_is_answered_without_a_login() -> None:
    async with console() as (gateway, browser), httpx.AsyncClient(base_url=browser.url) as stranger:
        own = ("/v1/login", "/link", "/webhook")  # which have proofs of their own
        paths = [path for path in gateway.console.document()["paths"] if not path.endswith(own)]
        methods = gateway.console.document()["paths"]
        answers = [
            await stranger.request(next(iter(methods[path])), path.replace("{", "").replace("}", ""), json={})
            for path in paths
        ]
    assert {answer.status_code for answer in answers} == {401}


async def test_a_cookie_that_another_port_has_read_opens_nothing() -> None:
    async with console() as (_, browser):
        cookies = dict(browser.http.cookies)
        async with httpx.AsyncClient(base_url=browser.url, cookies=cookies) as thief:
            without = await thief.get(f"{ROOT}/me")
            guessed = await thief.get(f"{ROOT}/me", headers={"x-toolcrib-key": "login"})
        async with httpx.AsyncClient(base_url=browser.url) as other:
            key_alone = await other.get(f"{ROOT}/me", headers={"x-toolcrib-key": browser.key})
        whole = await browser.send("GET", "/me")
    assert list(cookies) == [f"toolcrib-{httpx.URL(browser.url).port}"]
    assert [each.status_code for each in (without, guessed, key_alone, whole)] == [401, 401, 401, 200]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example.com"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),  # another port of this machine, which may call /mcp
        ({"origin": "http://localhost"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example.com"}, 421),
        ({"host": "evil.example.com", "origin": "http://evil.example.com"}, 421),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({}, 200),
    ],
)
async def test_other_pages_cannot_call(headers: dict[str, str], status: int) -> None:
    async with console() as (gateway, browser):
        read = await browser.send("GET", "/me", headers=headers)
        written = await browser.send(
            "POST", "/run", json={"toolId": "notes:add", "args": {"text": "evil"}}, headers=headers
        )
        before = await browser.http.options(f"{ROOT}/run", headers=headers)
        notes = (await gateway.crib.run("notes:show", {})).structured
    assert (read.status_code, written.status_code) == (status, status)
    assert len(notes) == (status == 200)
    for answer in (read, written, before):
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_the_pages_own_origin_may_call() -> None:
    async with console() as (_, browser):
        port = httpx.URL(browser.url).port
        for name in ("127.0.0.1", "localhost"):
            own = {"origin": f"http://{name}:{port}", "host": f"{name}:{port}"}
            assert (await browser.send("GET", "/me", headers=own)).status_code == 200
            mixed = {"origin": f"http://{name}:{port}", "host": f"[::1]:{port}"}
            assert (await browser.send("GET", "/me", headers=mixed)).status_code == 403


async def test_pages_are_sent_so_that_nothing_foreign_runs_or_frames_them() -> None:
    (script,) = [f"/console/{name}" for name in ConsolePages().all() if name.endswith("/app.js")]
    async with console() as (_, browser):
        pages = [await browser.http.get(path) for path in ("/console/", script, "/console/nothing")]
        operation, refused = await browser.send("GET", "/me"), await browser.http.get(f"{ROOT}/me")
    for answer in (*pages, operation, refused):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert operation.headers["cache-control"] == "no-store"
    assert [page.status_code for page in pages] == [200, 200, 404]
    assert [page.headers["cache-control"].rpartition(" ")[2] for page in pages] == [
        "no-cache",
        "immutable",
        "no-store",
    ]


async def test_a_browser_is_led_to_the_console() -> None:
    async with console() as (_, browser):
        root = await browser.http.get("/")
        bare = await browser.http.get("/console")
        again = await browser.http.get("/console/", headers={"if-none-match": ""})
        same = await browser.http.get("/console/", headers={"if-none-match": again.headers["etag"]})
        post = await browser.http.post("/console/")
    assert (root.status_code, root.headers["location"]) == (302, "/console/")
    assert (bare.status_code, same.status_code, post.status_code) == (302, 304, 405)


async def test_the_console_can_be_switched_off() -> None:
    async with console(console={"enabled": False}) as (gateway, browser):
        root = await browser.http.get("/")
        operation = await browser.http.get(f"{ROOT}/me")
        document = await browser.http.get("/api/openapi.json")
        await gateway.crib.run("notes:show", {})
        assert len(gateway.console._calls) == 0
    assert [each.status_code for each in (root, operation, document)] == [404, 404, 404]
    assert "[console]" in root.text
    assert gateway.make_console_link() is None


async def test_the_console_is_on_where_only_this_machine_reaches_the_gateway() -> None:
    async def look(**config: Any) -> int:
        gateway = Gateway(config)
        async with gateway, serving(gateway) as url, httpx.AsyncClient(base_url=url) as http:
            answer = await http.get("/", follow_redirects=True)
            assert answer.text
            return answer.status_code

    public = {"public_url": "https://crib.example.com"}
    assert await look() == 200
    assert await look(gateway=public) == 404
    assert await look(gateway=public, console={"enabled": True}) == 200
    everywhere = Gateway({"gateway": {"token": "t" * 32}})
    async with everywhere, serving(everywhere, host="0.0.0.0"):  # noqa: S104 - other machines reach it
        assert not everywhere.console.is_on
        assert everywhere.make_console_link() is None


async def test_the_link_has_the_public_address() -> None:
    async with console(gateway={"public_url": "https://crib.example.com"}) as (gateway, browser):
        assert str(gateway.make_console_link()).startswith("https://crib.example.com/console/#login=")
        proxied = {"origin": "https://crib.example.com", "host": "crib.example.com"}
        assert (
            await browser.send("GET", "/me", headers=proxied)
        ).status_code == 401  # its cookie is for https


async def test_a_token_logs_in_and_sees_its_own_calls_alone() -> None:
    async with console(gateway={"tokens": TOKENS}) as (gateway, operator):
        browser = Browser(operator.url)
        async with browser.http:
            await browser.send_login({}, authorization=bearer("ben"))
            me = await browser.get("/me")
            await browser.run("notes:add", {"text": "mine"})
            anns = Principal(issuer="tokens", subject="ann", client="ann")
            await gateway.crib.run("notes:add", {"text": "private"}, principal=anns)
            own, everything = await browser.get("/calls"), await operator.get("/calls")
            foreign = next(call for call in everything["items"] if call["user.id"] == "ann")
            refused = await browser.send("GET", f"/calls/{foreign['id']}")
            export = await browser.send("GET", "/calls/export")
            overview = await browser.get("/overview")
            closed = [
                (await browser.send("GET", path)).status_code
                for path in ("/approvals", "/config", "/access/rules", "/access/tokens")
            ]
            start = await browser.send("POST", "/servers/x/start")
    assert (me["subject"], me["operator"]) == ("ben", False)
    assert "config" not in me
    assert [call["user.id"] for call in own["items"]] == ["ben"]
    assert everything["total"] == 2
    assert refused.status_code == 404
    assert "private" not in export.text
    assert "ann" not in export.text
    assert overview["calls"] == 1
    assert closed == [403] * 4
    assert start.status_code == 403


async def test_operators_are_named_in_the_settings() -> None:
    settings = {"gateway": {"tokens": TOKENS}, "console": {"operators": ["group:admins", "*"]}}
    async with console(**settings) as (_, operator):
        found = {}
        for name in ("ann", "ben"):
            async with httpx.AsyncClient(
                base_url=operator.url, headers={"authorization": bearer(name)}
            ) as client:
                found[name] = (await client.get(f"{ROOT}/me")).json()["operator"]
    assert found == {"ann": True, "ben": False}  # nobody becomes one by a rule for everybody


async def test_auditors_see_all_and_change_nothing() -> None:
    settings = {
        "gateway": {"tokens": TOKENS},
        "console": {"auditors": ["token:ben"]},
        "policy": [{"name": "all", "effect": "allow"}],
        "servers": {"x": {"command": "true", "disabled": True}},
    }
    async with console(**settings) as (gateway, operator):
        await operator.run("notes:add", {"text": "private"})
        last = gateway.console._calls.last_id
        browser = Browser(operator.url)
        async with browser.http:
            await browser.send_login({}, authorization=bearer("ben"))
            me = await browser.get("/me")
            await browser.run("notes:show")
            everything = await browser.get("/calls")
            mine = await browser.get("/calls", mine=True)
            payload = (await browser.get(f"/calls/{last}"))["payload"]
            seen = [await browser.send("GET", path) for path in ("/approvals", "/access/rules")]
            refused = [
                await browser.send("GET", "/config"),
                await browser.send("GET", "/servers/x/log"),
                await browser.send("POST", "/servers/x/start"),
                await browser.send("POST", "/servers/x/revoke", json={}),
                await browser.send("POST", "/approvals/x", json={"approve": True}),
            ]
    assert (me["operator"], me["auditor"]) == (False, True)
    assert [call["gen_ai.tool.name"] for call in everything["items"]] == ["notes:show", "notes:add"]
    assert [call["gen_ai.tool.name"] for call in mine["items"]] == ["notes:show"]
    assert "private" in payload["args"]["text"]
    assert [answer.status_code for answer in seen] == [200, 200]
    assert [answer.status_code for answer in refused] == [403] * 5


async def test_a_login_to_a_server_is_revoked() -> None:
    url = "https://tools.example.com/mcp"
    vault = LoginVault()
    for owner in (None, ("tokens", "ben"), ("tokens", "ann")):
        vault.put(
            StoredLogin(server="far", url=url, client_id="c", token_endpoint=f"{url}/token", owner=owner)
        )
    async with console(servers={"far": {"url": url}}) as (_, browser):
        (line,) = (await browser.get("/servers"))["items"]
        ended = await browser.post("/servers/far/revoke", issuer="tokens", subject="ben")
        again = await browser.send("POST", "/servers/far/revoke", json={"issuer": "tokens", "subject": "ben"})
        (left,) = (await browser.get("/servers"))["items"]
    assert [each["subject"] for each in line["logins"]] == ["", "ben", "ann"]
    assert ended == {"revoked": False}  # its authorization server has no place for that
    assert again.status_code == 503
    assert [each["subject"] for each in left["logins"]] == ["", "ann"]


async def test_the_shared_token_makes_nobody_an_operator() -> None:
    async with console(gateway={"token": "one-for-all"}) as (_, operator):
        async with httpx.AsyncClient(base_url=operator.url) as client:
            known = await client.get(f"{ROOT}/me", headers={"authorization": "Bearer one-for-all"})
            wrong = await client.get(f"{ROOT}/me", headers={"authorization": "Bearer another"})
            calls = await client.get(f"{ROOT}/calls", headers={"authorization": "Bearer one-for-all"})
        await operator.run("notes:show")
    assert known.json()["operator"] is False
    assert wrong.status_code == 401
    assert calls.json()["items"] == []


async def test_a_login_ends_with_its_token() -> None:
    settings = {"gateway": {"tokens": TOKENS}}
    async with console(**settings) as (gateway, operator):
        browser = Browser(operator.url)
        async with browser.http:
            await browser.send_login({}, authorization=bearer("ben"))
            async with browser.events() as events:
                await next_event(events, "hello")
                await gateway.crib.reload({"gateway": {"tokens": {"ann": TOKENS["ann"]}}})
                assert [kind async for kind, _ in events][-1] == "over"
            ended = await browser.send("GET", "/me")
    assert ended.status_code == 401


async def test_logging_out_ends_the_login() -> None:
    async with console() as (_, browser):
        async with browser.events() as events:
            await next_event(events, "hello")
            cookies = dict(browser.http.cookies)
            await browser.post("/logout")
            assert [kind async for kind, _ in events][-1] == "over"
        browser.http.cookies.update(cookies)
        answer = await browser.send("GET", "/me")
    assert answer.status_code == 401


async def test_rules_hold_for_the_person_at_the_console() -> None:
    rules = [
        {"name": "ben reads", "who": ["token:ben"], "tools": ["notes:show"], "effect": "allow"},
        {"name": "local", "who": ["*"], "tools": ["math:*"], "effect": "allow"},
    ]
    async with console(policy=rules, gateway={"tokens": TOKENS}) as (_, operator):
        browser = Browser(operator.url)
        async with browser.http:
            await browser.send_login({}, authorization=bearer("ben"))
            tools = {each["id"] for each in (await browser.get("/tools"))["items"]}
            refused = await browser.run("notes:add", {"text": "x"})
            hidden = await browser.send("GET", "/tools/notes:add")
        own = {each["id"] for each in (await operator.get("/tools"))["items"]}
    assert tools == {"notes:show", "math:convert_length", "math:describe_numbers", "math:evaluate"}
    assert "notes:show" not in own
    assert refused[-1][1]["code"] == "denied"
    assert hidden.status_code in {403, 404}
