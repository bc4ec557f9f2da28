"""Resources, prompts and completion of servers, through either face of a gateway."""

from typing import Any

import anyio
import pytest
from gateway.passing import ERAS, asked, join, list_items, whole
from mcp import Client, MCPError
from mcp.client.subscriptions import listen
from mcp_types import PromptReference, ResourceTemplateReference
from servers.launch import library
from servers.whole import PROMPTS, RESOURCES, TEMPLATES
from waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]
FACES = pytest.mark.parametrize("expose", ["meta", "all"])
TWO = {"one": whole("one"), "two": whole("two")}
OWN = [RESOURCES[0], RESOURCES[1] | {"uri": "whole://whole/own"}]


@FACES
async def test_content_of_a_single_server_is_listed_unchanged(era: str, expose: str) -> None:
    async with join(era, {"whole": whole()}, expose=expose) as client:
        assert await list_items(client, "resources/list", "resources") == OWN
        kept, *templates = await list_items(client, "resources/templates/list", "resourceTemplates")
        assert await list_items(client, "prompts/list", "prompts") == PROMPTS
    assert kept["uriTemplate"] == "toolcrib://results/{id}"
    assert templates == TEMPLATES


@FACES
async def test_resources_prompts_and_completions_are_passed_on_unchanged(era: str, expose: str) -> None:
    async with join(era, {"whole": whole()}, expose=expose) as client:
        read = await asked(client, "resources/read", uri="whole://whole/own")
        other = await client.read_resource("whole://pages/7")
        got = await asked(client, "prompts/get", name="ask", arguments={"what": "why"})
        by_prompt = await client.complete(PromptReference(name="ask"), {"name": "what", "value": "w"})
        template = ResourceTemplateReference(uri="whole://pages/{page}")
        by_template = await client.complete(template, {"name": "page", "value": "1"})
    assert read["contents"] == [
        {"uri": "whole://whole/own", "text": "whole://whole/own of whole", "x-own": 1}
    ]
    assert (read["x-unknown"], read["_meta"]["example.com/read"]) == (1, True)
    assert era == "handshake" or (read["ttlMs"], read["cacheScope"]) == (0, "private")
    assert other.contents[0].text == "whole://pages/7 of whole"  # type: ignore[union-attr]
    assert got["messages"][0]["content"]["text"] == 'ask of whole: {"what": "why"}'
    assert (got["messages"][0]["x-own"], got["_meta"]["example.com/got"]) == (1, True)
    assert by_prompt.completion.values == ["whole ask w"]
    assert by_template.completion.values == ["whole whole://pages/{page} 1"]


async def test_the_first_of_two_servers_keeps_an_address_that_both_have(era: str) -> None:
    async with join(era, TWO) as client:
        uris = [each["uri"] for each in await list_items(client, "resources/list", "resources")]
        templates = await list_items(client, "resources/templates/list", "resourceTemplates")
        first = await client.read_resource("whole://shared")
        second = await client.read_resource("toolcrib://servers/two/whole://shared")
        page = await client.read_resource("toolcrib://servers/two/whole://pages/1")
        ref = ResourceTemplateReference(uri=templates[2]["uriTemplate"])
        values = (await client.complete(ref, {"name": "page", "value": "1"})).completion.values
    assert uris == [
        "whole://shared",
        "whole://one/own",
        "toolcrib://servers/two/whole://shared",
        "whole://two/own",
    ]
    assert [each["uriTemplate"] for each in templates[1:]] == [
        "whole://pages/{page}",
        "toolcrib://servers/two/whole://pages/{page}",
    ]
    assert first.contents[0].text == "whole://shared of one"  # type: ignore[union-attr]
    assert second.contents[0].text == "whole://shared of two"  # type: ignore[union-attr]
    assert second.contents[0].uri == "toolcrib://servers/two/whole://shared"
    assert page.contents[0].text == "whole://pages/1 of two"  # type: ignore[union-attr]
    assert values == ["two whole://pages/{page} 1"]


@FACES
async def test_prompts_of_several_servers_are_named_as_tools_are(era: str, expose: str) -> None:
    async with join(era, TWO, expose=expose) as client:
        names = [each["name"] for each in await list_items(client, "prompts/list", "prompts")]
        plain = await client.get_prompt("two__ask", {"what": "why"})
        (hashed,) = [name for name in names if name.startswith("two__dotted_name-")]
        dotted = await client.get_prompt(hashed)
        values = (
            await client.complete(PromptReference(name="one__ask"), {"name": "what", "value": "w"})
        ).completion
        for unknown in ("three__ask", "ask", "two__ask-0123456789ab"):
            with pytest.raises(MCPError, match=f"no server has a prompt '{unknown}'"):
                await client.get_prompt(unknown)
    assert len(names) == len(set(names)) == 4
    assert plain.messages[0].content.text.startswith("ask of two")  # type: ignore[union-attr]
    assert dotted.messages[0].content.text.startswith("dotted.name of two")  # type: ignore[union-attr]
    assert values.values == ["one ask w"]


async def test_unknown_and_refused_content_is_an_error(era: str) -> None:
    async with join(era, TWO) as client:
        for unknown in ("nobody://a", "toolcrib://servers/three/whole://shared", "toolcrib://results/a"):
            with pytest.raises(MCPError) as missing:
                await client.read_resource(unknown)
            assert (missing.value.code, missing.value.data) == (-32602, {"uri": unknown})
    async with join(era, {"whole": whole()}) as client:
        with pytest.raises(MCPError) as refused:  # nobody lists it, and only one server can have it
            await client.read_resource("whole://nowhere")
    assert (refused.value.code, refused.value.message) == (-32002, "not here")


async def test_a_toolset_has_the_resources_and_prompts_of_the_servers_that_it_names(era: str) -> None:
    config = {
        "toolsets": {"second": {"namespaces": ["two"]}, "safe": {"annotations": {"readOnlyHint": True}}}
    }
    async with join(era, TWO, toolset="second", config=config) as client:
        uris = [each["uri"] for each in await list_items(client, "resources/list", "resources")]
        names = [each["name"] for each in await list_items(client, "prompts/list", "prompts")]
        with pytest.raises(MCPError, match="no server has a resource"):
            await client.read_resource("toolcrib://servers/one/whole://one/own")
        other = await client.read_resource("whole://one/own")
        with pytest.raises(MCPError, match="no server has a prompt"):
            await client.get_prompt("one__ask", {})
    async with join(era, TWO, toolset="safe", config=config) as client:
        assert await list_items(client, "resources/list", "resources") == []
    assert uris == ["whole://shared", "whole://two/own"]
    assert other.contents[0].text == "whole://one/own of two"  # type: ignore[union-attr]
    assert names[0] == "two__ask"


async def test_a_server_of_the_stateless_era_has_its_resources_and_prompts_passed_on(era: str) -> None:
    async with join(era, {"library": library("main"), "whole": whole()}) as client:
        uris = [each["uri"] for each in await list_items(client, "resources/list", "resources")]
        book = await client.read_resource("library://main/books/emma")
        review = await client.get_prompt("library__review", {"title": "emma"})
    assert uris[:2] == ["library://main/catalogue", "library://main/cover"]
    assert book.contents[0].text == "The text of emma."  # type: ignore[union-attr]
    assert "kind review of emma" in review.messages[0].content.text  # type: ignore[union-attr]


async def changes(client: Client, heard: list[Any], ready: anyio.Event) -> None:
    """Record the change notifications of a client of the stateless era."""
    subscribed = {"prompts_list_changed": True, "resources_list_changed": True}
    async with listen(client.session, **subscribed, resource_subscriptions=["whole://shared"]) as events:
        ready.set()
        async for event in events:
            heard.append(event)  # noqa: PERF401 - as they come


@FACES
async def test_changed_lists_and_resources_are_told_to_clients(era: str, expose: str) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    run: Any = ("run_tool", {"tool_id": "whole:change"}) if expose == "meta" else ("change", {})
    options = {"message_handler": hear} if era == "handshake" else {}
    kinds = ("PromptsListChanged", "ResourcesListChanged", "ResourceUpdated")
    if era == "handshake":
        kinds = ("PromptListChanged", "ResourceListChanged", "ResourceUpdated")
    wanted = {kind if era == "stateless" else f"{kind}Notification" for kind in kinds}
    async with (
        join(era, {"whole": whole()}, expose=expose, **options) as client,
        anyio.create_task_group() as tasks,
    ):
        assert len(await list_items(client, "prompts/list", "prompts")) == 2
        if era == "handshake":
            await asked(client, "resources/subscribe", uri="whole://shared")
        else:
            ready = anyio.Event()
            tasks.start_soon(changes, client, heard, ready)
            await ready.wait()
        await client.call_tool(*run)
        await until(lambda: wanted <= {type(each).__name__ for each in heard}, "all changes are told")
        prompts = await list_items(client, "prompts/list", "prompts")
        resources = await list_items(client, "resources/list", "resources")
        tasks.cancel_scope.cancel()
    assert len(prompts) == 3
    assert len(resources) == 3
