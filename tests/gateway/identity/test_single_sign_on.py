"""The guide docs/single-sign-on.md: its settings let two people in, with different rights."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from execution.mcp.calling import call
from execution.oauth.browser import browse
from execution.oauth.real_authority import RealAuthority
from gateway.identity.forging import KEYS, token
from gateway.little_face import serving
from gateway.support import Place, Served
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from servers.launch import closed_port, shifting
from waiting import PATIENCE, until

from toolcrib.errors import ToolExecutionError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.oauth.flows import log_in
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
GUID = "CLIENT-ID-OF-THE-REGISTRATION"
AUDIENCE = "https://crib.example.com/mcp"
VENDORS: dict[str, dict[str, Any]] = {
    "Keycloak": {"aud": [AUDIENCE, "account"], "azp": "editor", "scope": "openid mcp", "groups": ["staff"]},
    "Microsoft Entra ID": {"aud": GUID, "azp": "editor", "scp": "mcp", "roles": ["staff"], "ver": "2.0"},
    "Auth0": {
        "aud": [AUDIENCE, "https://TENANT.eu.auth0.com/userinfo"],
        "azp": "editor",
        "scope": "openid mcp",
        "https://crib.example.com/groups": ["staff"],
    },
}
"""What a token of Ann has in it, beside the issuer, the subject and the times."""


@pytest.fixture
def tickets(tmp_path: Path) -> dict[str, Any]:
    """Return a server with one tool that reads and one that writes."""
    schema = {"type": "object"}
    tools = [
        {"name": "read", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
        {"name": "write", "inputSchema": schema},
    ]
    (tmp_path / "tickets.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    return {"tickets": shifting(tmp_path / "tickets.json")}


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "single-sign-on.md").read_text()


def table_of(page: str, heading: str) -> dict[str, Any]:
    """Return the configuration that the page has below a heading."""
    below = page.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    found = re.search(r"```toml\n(.*?)```", below, re.DOTALL)
    assert found is not None
    return tomllib.loads(found[1])


@pytest.mark.parametrize("vendor", VENDORS)
async def test_settings_of_the_guide_let_two_people_in_with_their_rights(
    page: str, vendor: str, tickets: dict[str, Any], tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    example = table_of(page, "The gateway")
    auth = table_of(page, vendor)["gateway"]["auth"]
    gateway = {"auth": auth | {"jwks": str(keys)}, "expose": "all"}
    config = {"servers": tickets, "policy": example["policy"], "gateway": gateway}
    claims = VENDORS[vendor] | {"iss": auth["issuer"], "without": ""}
    without_groups = {
        name: value for name, value in claims.items() if name != auth.get("groups_claim", "groups")
    }
    seen = {}
    async with Gateway(config) as running, serving(running) as url:
        await running.crib.ready()
        for person, said in {"ann": claims, "bob": without_groups}.items():
            headers = {"authorization": token(sub=person, **said)}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
                Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
            ):
                names = {tool.name for tool in (await client.list_tools()).tools}
                written = await client.call_tool("write", {})
                seen[person] = names, written.is_error
        lacking = {"authorization": token(sub="eve", **claims | {"scope": "openid", "scp": "openid"})}
        async with httpx2.AsyncClient(headers=lacking) as http:
            refused = await http.post(f"{url}/mcp", json={})
    assert seen == {"ann": ({"read", "write"}, False), "bob": ({"read"}, True)}
    assert refused.status_code == 403
    assert auth["scopes"][0] in refused.headers["www-authenticate"]


async def test_people_log_in_at_a_real_authorization_server_and_have_their_rights(
    page: str, tickets: dict[str, Any], tmp_path: Path
) -> None:
    policy = table_of(page, "The gateway")["policy"]
    seen = {}
    with closed_port() as port, Served(Place(tmp_path, tickets)) as served:
        authority = RealAuthority(port, tmp_path / "secrets", served.url)
        auth = {"issuer": authority.issuer, "audience": served.url, "scopes": ["tools:read"]}
        with authority.running():
            served.place.configure(tickets, policy=policy, gateway={"auth": auth, "expose": "all"})
            async with httpx2.AsyncClient() as http:
                await until(lambda: asks_for_a_login(http, served.url))
        for person in ("ann", "bob"):
            authority.account = person
            environ = {**os.environ, "TOOLCRIB_HOME": str(tmp_path / person)}
            with authority.running(), anyio.fail_after(PATIENCE):
                crib = ServerConfig(url=served.url)
                await log_in("crib", crib, show=browse, environ=environ)
                async with McpServers({"crib": crib}, environ=environ) as servers:
                    seen[person] = [await may_call(servers, name) for name in ("read", "write")]
    assert seen == {"ann": [True, True], "bob": [True, False]}


async def asks_for_a_login(http: httpx2.AsyncClient, url: str) -> bool:
    return (await http.post(url, json={})).status_code == 401


async def may_call(servers: McpServers, name: str) -> bool:
    try:
        await call(servers, name, {}, server="crib")
    except ToolExecutionError as error:
        if "refused by the policy" not in str(error):
            raise
        return False
    return True
