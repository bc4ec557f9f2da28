"""Rules about resources and prompts, before a server that normalises the addresses that it gets."""

import sys
from typing import Any

import pytest
from gateway.passing import ERAS, asked, join, list_items
from mcp import MCPError
from mcp.client.subscriptions import listen
from servers import normalising

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]
SERVER = {"command": sys.executable, "args": [normalising.__file__]}
FILES = (
    "file:///secret/a", " file:///secret/a", "\x01file:///secret/a", "file:///secret/a\n", "file:///sec\tret/a",
    "fi\nle:///secret/a", "file:secret/a", "FILE:secret/a", "file:/secret/a", "file:\\secret\\a",
    "file:public/../secret/a", "file:///public/\t../secret/a", "file:///public/.\t./secret/a",
    "file:///public/%2e%2e/secret/a", "file:///public/.%2E/secret/a", "file:///public\\..\\secret/a",
    "file://localhost/secret/a", "file://lo\u00adcalhost/secret/a", "file:////secret/a", "file://secret/a",
    "file:///public/x%5Cy/%252e%252e/%252e%252e/secret/a",
)  # fmt: skip
HOSTS = (
    "http://host/secret/a", "http://host:80/secret/a", "http://host:080/secret/a", "http://host:/secret/a",
    "http://ho\u00adst/secret/a", "http://\uff48ost/secret/a", "http://%68ost/secret/a", "http:/host/secret/a",
    "http:host/secret/a", "http:///host/secret/a", "http:\\\\host\\secret\\a", "http://HOST/secret/a",
    "http://host/public/%2e%2e/secret/a", "ht\ttp://host/public/\n../secret/a", "http://u:p@host/secret/a",
    "http://host/public/..;/secret/a", "http://host/public/..%252Fx/../..%20/secret/a",
)  # fmt: skip
SPELLINGS = FILES + HOSTS
OPEN = ("file:///public/*", "http://host/public/*")
CLOSED = ("file:///secret/*", "http://host/secret/*")


@pytest.fixture(params=["deny", "allow"])
def policy(request: pytest.FixtureRequest) -> Any:
    if request.param == "allow":
        names = [f"notes:{each}" for each in (*OPEN, "odd address", "open")]
        return [{"name": "open", "tools": names, "effect": "allow"}]
    names = [f"notes:{each}" for each in (*CLOSED, "closed")]
    return [{"name": "closed", "tools": names, "effect": "deny"}, {"name": "rest", "effect": "allow"}]


@pytest.mark.parametrize("prefix", ["", "toolcrib://servers/notes/"])
async def test_resource_that_rules_refuse_is_not_read_by_another_spelling(
    era: str, prefix: str, policy: Any
) -> None:
    got: dict[str, str] = {}
    async with join(era, {"notes": SERVER}, config={"policy": policy}) as client:
        for spelling in SPELLINGS:
            ref = {"type": "ref/resource", "uri": prefix + spelling}
            for method, params in {
                "resources/read": {"uri": prefix + spelling},
                "completion/complete": {"ref": ref, "argument": {"name": "a", "value": ""}},
                **({"resources/subscribe": {"uri": prefix + spelling}} if era == "handshake" else {}),
            }.items():
                try:
                    got[f"{method} {spelling!r}"] = str(await asked(client, method, **params))
                except MCPError:
                    continue
        if era == "stateless":
            uris = [prefix + spelling for spelling in SPELLINGS]
            async with listen(client.session, resource_subscriptions=uris) as events:
                got |= dict.fromkeys(events.honored.resource_subscriptions or (), "subscriptions/listen")
    assert got == {}


async def test_listed_resource_that_rules_allow_is_read_as_listed(era: str, policy: Any) -> None:
    async with join(era, {"notes": SERVER}, config={"policy": policy}) as client:
        uris = [each["uri"] for each in await list_items(client, "resources/list", "resources")]
        for uri in uris:
            (content,) = (await asked(client, "resources/read", uri=uri))["contents"]
            assert content["text"] == normalising.read(uri)
        (content,) = (await asked(client, "resources/read", uri="file:///public/unlisted"))["contents"]
        ref = {"type": "ref/resource", "uri": "file:///public/{name}"}
        completed = await asked(
            client, "completion/complete", ref=ref, argument={"name": "name", "value": ""}
        )
    assert uris == list(normalising.LISTED)
    assert content["text"] == "file:///public/unlisted"
    assert completed["completion"]["values"] == ["file:///public/%7Bname%7D"]


async def test_address_that_is_neither_canonical_nor_listed_is_refused_with_the_canonical_one(
    era: str,
) -> None:
    only = {"name": "public", "tools": ["notes:file:*"], "effect": "allow"}
    async with join(era, {"notes": SERVER}, config={"policy": [only]}) as client:
        with pytest.raises(MCPError, match=r"not in canonical form.*ask for 'file:///public/b%20c'"):
            await asked(client, "resources/read", uri="file:///public/b c")
        await asked(client, "resources/read", uri="file:///public/b%20c")
    every = {"name": "every", "tools": ["notes"], "effect": "allow"}
    async with join(era, {"notes": SERVER}, config={"policy": [every]}) as client:
        await asked(client, "resources/read", uri="file:///public/b c")


async def test_prompt_that_rules_refuse_is_not_got_by_another_spelling(era: str, policy: Any) -> None:
    got: list[str] = []
    async with join(era, {"notes": SERVER}, config={"policy": policy}) as client:
        await asked(client, "prompts/get", name="open")
        for name in ("closed", " closed", "closed\n", "clo\u00adsed", "\uff43losed", "\x00closed"):
            for method, params in {
                "prompts/get": {"name": name},
                "completion/complete": {
                    "ref": {"type": "ref/prompt", "name": name},
                    "argument": {"name": "a", "value": ""},
                },
            }.items():
                try:
                    got.append(f"{method} {name!r} {await asked(client, method, **params)}")
                except MCPError:
                    continue
    assert got == []


async def test_address_through_a_gateway_behind_is_decided_as_the_address_there(era: str) -> None:
    rules = [
        {"name": "closed", "tools": ["notes:file:///secret/*"], "effect": "deny"},
        {"name": "rest", "effect": "allow"},
    ]
    async with join(era, {"notes": SERVER}, config={"policy": rules}) as client:
        for own in ("file:///secret/a", "toolcrib://servers/x/file:///secret/a", "file:secret/a"):
            with pytest.raises(MCPError, match="refused by the rule 'closed'"):
                await asked(
                    client, "resources/read", uri=f"toolcrib://servers/notes/toolcrib://servers/deep/{own}"
                )
        nested = "toolcrib://servers/a/" * 6
        with pytest.raises(MCPError, match="too many gateways"):
            await asked(client, "resources/read", uri=f"toolcrib://servers/notes/{nested}x:y")


async def test_subscription_with_a_long_address_is_refused_because_it_is_kept(era: str) -> None:
    async with join(era, {"notes": SERVER}) as client:
        uri = f"file:///public/{'a' * 70_000}"
        if era == "handshake":
            await asked(client, "resources/subscribe", uri="file:///public/a")
            with pytest.raises(MCPError, match="may have at most 65,536 bytes"):
                await asked(client, "resources/subscribe", uri=uri)
        else:
            with pytest.raises(MCPError, match="may have at most 65,536 bytes"):
                async with listen(client.session, resource_subscriptions=[uri]):
                    pass
