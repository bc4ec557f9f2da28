"""Each client sees and runs the tools that its principal may, over HTTP, in both eras and every face."""

import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from gateway.little_face import serving
from gateway.passing import ERAS
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from servers.launch import little
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
in_both_eras = pytest.mark.parametrize("era", ERAS)

TOKENS = {"ann": "of-ann", "bob": "of-bob"}
POLICY = [
    {"name": "no erasing", "who": ["bob"], "tools": ["notes:erase*"], "effect": "deny", "reason": "bob errs"},
    {"name": "ask first", "tools": ["notes:send"], "effect": "ask", "reason": "it costs money"},
    {"name": "staff", "who": ["group:staff"], "effect": "allow"},
]


def settings(**more: Any) -> dict[str, Any]:
    tokens = {
        name: {"hash": f"sha256:{hashlib.sha256(token.encode()).hexdigest()}", "groups": ["staff"]}
        for name, token in TOKENS.items()
    }
    return {"policy": POLICY, "gateway": {"tokens": tokens}, **more}


def gateway_of(expose: Any = "meta", **more: Any) -> Gateway:
    gateway = Gateway(settings(**more), expose=expose)

    @gateway.crib.add(namespace="notes")
    def read(name: str = "") -> str:
        """Read a note."""
        return f"read {name}"

    @gateway.crib.add(namespace="notes")
    def erase(name: str = "") -> str:
        """Erase a note."""
        return f"erased {name}"

    @gateway.crib.add(namespace="notes")
    def send(name: str = "") -> str:
        """Send a note."""
        return f"sent {name}"

    @gateway.crib.add(namespace="notes")
    def long() -> str:
        """Return a very long note."""
        return "long " * 200_000

    return gateway


@asynccontextmanager
async def client_of(url: str, era: str, token: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=ERAS[era], **options) as client,
    ):
        yield client


@in_both_eras
async def test_lists_searches_and_calls_agree_for_each_principal(era: str) -> None:
    async with gateway_of() as gateway, serving(gateway) as url:
        for name, sees in {"ann": True, "bob": False}.items():
            async with client_of(url, era, TOKENS[name]) as client:
                listed = await client.call_tool("list_tools", {})
                ids = {tool["id"] for tool in (listed.structured_content or {})["tools"]}
                assert ("notes:erase" in ids) is sees
                found = await client.call_tool("search_tools", {"query": "erase a note"})
                hits = {tool["id"] for tool in (found.structured_content or {})["tools"]}
                assert ("notes:erase" in hits) is sees
                ran = await client.call_tool("run_tool", {"tool_id": "notes:erase", "args": {"name": "x"}})
                assert ran.is_error is not sees
                if not sees:
                    error = (ran.structured_content or {})["error"]
                    assert (error["code"], error["details"]["rule"]) == ("denied", "no erasing")


@in_both_eras
async def test_the_tools_themselves_are_listed_by_the_rules(era: str) -> None:
    async with gateway_of("all") as gateway, serving(gateway) as url:
        for name, sees in {"ann": True, "bob": False}.items():
            async with client_of(url, era, TOKENS[name]) as client:
                listed = {tool.name for tool in (await client.list_tools()).tools}
                assert ("notes__erase" in listed) is sees
                ran = await client.call_tool("notes__erase", {"name": "x"})
                assert ran.is_error is not sees
                if not sees:
                    assert (ran.meta or {})["toolcrib/error"]["code"] == "denied"


@in_both_eras
async def test_a_rule_that_asks_has_the_client_ask_and_refuses_where_it_cannot(era: str) -> None:
    questions: list[str] = []

    async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        questions.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"confirm": True})

    call = {"tool_id": "notes:send", "args": {"name": "x"}}
    async with gateway_of() as gateway, serving(gateway) as url:
        async with client_of(url, era, TOKENS["ann"], elicitation_callback=answer) as client:
            assert not (await client.call_tool("run_tool", call)).is_error
            chain = {"steps": [{"tool_id": "notes:send", "args": {"name": "y"}}]}
            assert not (await client.call_tool("run_chain", chain)).is_error
        assert "it costs money" in questions[0]
        assert len(questions) == 2
        async with client_of(url, era, TOKENS["ann"]) as client:
            ran = await client.call_tool("run_tool", call)
            assert (ran.structured_content or {})["error"]["details"]["rule"] == "ask first"


async def test_ready_and_metrics_name_no_server_that_a_principal_cannot_see() -> None:
    policy = [
        {"name": "all", "who": ["ann"], "effect": "allow"},
        {"name": "git", "who": ["bob"], "tools": ["git:*"], "effect": "allow"},
    ]
    tokens = settings()["gateway"]["tokens"]
    tokens["eve"] = {"hash": f"sha256:{hashlib.sha256(b'of-eve').hexdigest()}", "toolsets": ["some"]}
    lost = {"command": "/no/such/program", "required": True}
    config = {
        "servers": {"git": little(), "hr": little(), "lost": lost},
        "toolsets": {"some": {"namespaces": ["git"]}},
        "policy": policy,
        "gateway": {"tokens": tokens},
    }
    async with Gateway(config) as gateway, serving(gateway) as url, httpx2.AsyncClient(base_url=url) as http:

        async def asked(path: str, token: str) -> httpx2.Response:
            return await http.get(path, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)

        async def has_failed() -> Any:
            states = (await asked("/ready", "of-ann")).json()["servers"]
            return states if states.get("failed") == ["lost"] else None

        async with client_of(url, "stateless", "of-ann") as client:
            for server in ("git", "hr"):
                await client.call_tool("run_tool", {"tool_id": f"{server}:shout", "args": {"text": "a"}})
        await until(has_failed)
        ready = {name: await asked("/ready", f"of-{name}") for name in ("ann", "bob", "eve")}
        counted = {name: (await asked("/metrics", f"of-{name}")).text for name in ("ann", "bob", "eve")}
        policy[1]["tools"] = ["hr"]
        await gateway.crib.reload(config)
        later = await asked("/ready", "of-bob")
        del config["servers"]["git"]
        await gateway.crib.reload(config)
        left = (await asked("/metrics", "of-bob")).text
    assert {name: answer.status_code for name, answer in ready.items()} == dict.fromkeys(ready, 503)
    assert ready["ann"].json()["missing"] == {"lost": "failed"}
    assert ready["bob"].json() == {"status": "unready", "servers": {"ready": ["git"]}}
    assert ready["eve"].json() == {"status": "unready"}
    assert later.json()["servers"] == {"ready": ["hr"]}
    assert 'namespace="hr"' in counted["ann"]
    assert 'namespace="git"' in counted["bob"]
    assert "hr" not in re.findall(r'namespace="(\w*)"', counted["bob"])
    assert "namespace" not in counted["eve"]
    assert set(re.findall(r'namespace="(\w*)"', left)) == {"hr"}


@in_both_eras
async def test_a_kept_result_is_read_by_its_owner_alone(era: str) -> None:
    async with gateway_of() as gateway, serving(gateway) as url:
        async with client_of(url, era, TOKENS["ann"]) as client:
            ran = await client.call_tool("run_tool", {"tool_id": "notes:long"})
            (uri, *_) = re.findall(r"toolcrib://results/[\w-]+", ran.model_dump_json())
            assert (await client.read_resource(uri)).contents
        async with client_of(url, era, TOKENS["bob"]) as other:
            with pytest.raises(MCPError, match="nothing is kept"):
                await other.read_resource(uri)


@in_both_eras
async def test_a_call_is_written_down_with_its_principal_and_its_rule(era: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with gateway_of(audit={"path": str(path)}) as gateway, serving(gateway) as url:
        for token in TOKENS.values():
            async with client_of(url, era, token) as client:
                await client.call_tool("run_tool", {"tool_id": "notes:erase"})
        await until(lambda: path.exists() and path.read_text().count("\n") >= 2, "the calls are written")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [
        (line["user.id"], line["toolcrib.policy.effect"], line["toolcrib.policy.rule"]) for line in lines
    ] == [
        ("ann", "allow", "staff"),
        ("bob", "deny", "no erasing"),
    ]
    assert {token for token in TOKENS.values() if token in path.read_text()} == set()


@in_both_eras
async def test_other_rules_reach_clients_that_are_connected(era: str) -> None:
    async with gateway_of("all") as gateway, serving(gateway) as url, client_of(url, era, "of-bob") as client:
        assert "notes__erase" not in {tool.name for tool in (await client.list_tools()).tools}
        await gateway.crib.reload(settings(policy=[{"name": "all", "effect": "allow"}]))
        assert "notes__erase" in {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}


async def test_a_session_of_one_principal_is_not_there_for_another() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream"}
    async with gateway_of() as gateway, serving(gateway) as url, httpx2.AsyncClient(timeout=60) as http:
        begun = await http.post(
            f"{url}/mcp", json=hello, headers={**accept, "authorization": "Bearer of-ann"}
        )
        session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        for token, status in {"of-bob": 404, "of-ann": 200, "of-eve": 401}.items():
            headers = {**accept, **session, "authorization": f"Bearer {token}"}
            answer = await http.post(f"{url}/mcp", json=call, headers=headers)
            assert answer.status_code == status


async def test_the_resources_that_one_principal_watches_leave_room_for_those_of_others() -> None:
    program = Path(__file__).parent.parent / "servers" / "hostile.py"
    server = {"command": sys.executable, "args": ["-S", "-I", str(program), "watched"]}
    config = settings(servers={"notes": server | {"start_timeout": PATIENCE}})
    del config["policy"]
    async with (
        Gateway(config) as gateway,
        serving(gateway) as url,
        client_of(url, "handshake", TOKENS["ann"]) as ann,
        client_of(url, "handshake", TOKENS["bob"]) as bob,
    ):
        for number in range(100):
            await watch(ann, number)
        with pytest.raises(MCPError, match="100 resources of 'notes' are watched for you") as caught:
            await watch(ann, 100)
        assert caught.value.data["code"] == "limit_exceeded"
        await watch(bob, 100)


async def watch(client: Client, number: int) -> None:
    params = mcp_types.SubscribeRequestParams(uri=f"odd://{number}")
    await client.session.send_request(mcp_types.SubscribeRequest(params=params), mcp_types.EmptyResult)


async def test_clients_without_a_token_learn_where_to_log_in() -> None:
    auth = {"issuer": "https://login.example", "audience": "https://crib.example/mcp", "scopes": ["mcp"]}
    config = {"gateway": {"auth": auth}, "toolsets": {"office": {"namespaces": ["notes"]}}}
    async with Gateway(config) as gateway, serving(gateway) as url, httpx2.AsyncClient() as http:
        refused = await http.post(f"{url}/mcp/office", json={})
        where = "https://crib.example/.well-known/oauth-protected-resource/mcp/office"
        assert refused.status_code == 401
        assert f'resource_metadata="{where}"' in refused.headers["www-authenticate"]
        assert 'scope="mcp"' in refused.headers["www-authenticate"]
        path = "/.well-known/oauth-protected-resource"
        told = await http.get(f"{url}{path}/mcp/office")
        assert told.json()["resource"] == "https://crib.example/mcp/office"
        assert (await http.get(f"{url}{path}")).json()["resource"] == "https://crib.example/mcp"
        assert (await http.get(f"{url}{path}/mcp/nosuch")).status_code == 404
