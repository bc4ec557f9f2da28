"""Views: tools outside a toolset are not found, described, run, chained, coded or converted."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.calling import scripted_server
from waiting import PATIENCE

from toolcrib import Crib, Tool, tool
from toolcrib.adapter import default_registry
from toolcrib.crib import ToolsetSettings, View
from toolcrib.crib.formats import convert
from toolcrib.discovery import Index, IndexView, Scope, Summary
from toolcrib.errors import (
    BackendUnavailableError,
    CodeError,
    ConfigError,
    CribStateError,
    InvalidChainError,
    InvalidCursorError,
    RuntimeUnavailableError,
    ToolcribError,
    ToolNotFoundError,
)
from toolcrib.model import ToolAnnotations, ToolGateway
from toolcrib.runtime.sandboxes.unsafe import UnsafeSandboxWarning

pytestmark = pytest.mark.anyio

OUTSIDE = "vault"
"""The name of a namespace outside every view."""


def ids(page: Any) -> list[str]:
    return [item.id if hasattr(item, "id") else item.summary.id for item in page]


def crib_of_tools(config: Any = None) -> Crib:
    """Return a crib of a shop, in three versions, and of a vault that views leave out."""
    crib = Crib(config)

    @tool(namespace="shop", tags=["reading"], annotations=ToolAnnotations(read_only_hint=True))
    async def order(number: int) -> dict[str, Any]:
        """Return an order of the shop."""
        return {"number": number, "total": 5.0}

    @tool(namespace="shop", annotations=ToolAnnotations(destructive_hint=True))
    async def refund(number: int) -> str:
        """Give the money of an order back."""
        return f"refunded {number}"

    @tool(namespace=OUTSIDE, tags=["reading"])
    async def open_vault(number: int) -> str:
        """Open the vault of an order."""
        return f"gold {number}"

    crib.add(order)
    crib.add(refund)
    crib.add(open_vault)
    for version in ("1.0.0", "1.4.0", "2.0.0"):

        @crib.add(namespace="price", version=version)
        async def quote(_told: str = version) -> str:
            """Tell a price."""
            return _told

    crib.discovery.register_doc(
        "vault:open_vault", summary="Where the gold is.", examples=[{"title": "Gold"}]
    )
    crib.discovery.register_doc(
        "shop:order", notes="Orders are kept for a year.", examples=[{"title": "One"}]
    )
    return crib


@pytest.fixture
def shop() -> View:
    return crib_of_tools().view(Scope(namespaces=["shop", "price"]))


def unknown(error: ToolcribError) -> None:
    """Assert that an error is the one of an unknown tool, and reveals nothing but its name."""
    assert isinstance(error, ToolNotFoundError)
    assert not any(OUTSIDE in suggestion for suggestion in error.suggestions)
    assert "gold" not in str(error).lower()


async def test_a_view_finds_and_lists_what_its_scope_admits(shop: View) -> None:
    assert "vault:open_vault" not in ids(await shop.search("open the vault of an order", limit=100))
    assert ids(await shop.search("order of the shop"))[0] == "shop:order"
    everything = await shop.tools()
    assert ids(everything) == [
        *(f"price:quote:{version}" for version in ("1.0.0", "1.4.0", "2.0.0")),
        "shop:order",
        "shop:refund",
    ]
    assert everything.total == 5
    assert (await shop.tools(namespace=OUTSIDE)).total == 0
    assert ids(await shop.tools(tags=["reading"])) == ["shop:order"]
    assert await shop.namespaces() == ("price", "shop")
    assert isinstance(shop.index, IndexView)
    assert isinstance(shop, ToolGateway)
    assert repr(shop) == "<View of 5 tools, fresh>"


@pytest.mark.parametrize("ref", ["vault:open_vault", "vault:open_vaul", "open_vault", "vault:open_vault:^1"])
async def test_tool_outside_a_view_is_neither_described_nor_run_nor_suggested(shop: View, ref: str) -> None:
    for level in ("summary", "schema", "full"):
        with pytest.raises(ToolNotFoundError) as caught:
            await shop.describe(ref, level)
        unknown(caught.value)
    with pytest.raises(ToolNotFoundError) as caught:
        await shop.examples(ref)
    unknown(caught.value)
    with pytest.raises(ToolNotFoundError) as caught:
        await shop.run(ref, {"number": 1})
    unknown(caught.value)
    told = [event async for event in shop.stream(ref, {"number": 1})]
    assert [event.kind for event in told] == ["error"]
    assert "gold" not in repr(told).lower()
    with pytest.raises(ToolNotFoundError) as caught:
        shop.convert("openai", tools=[ref])
    unknown(caught.value)


async def test_tool_inside_a_view_is_described_and_run(shop: View) -> None:
    assert (await shop.describe("shop:order", "full")).notes == "Orders are kept for a year."
    assert [example.title for example in await shop.examples("shop:order")] == ["One"]
    assert (await shop.run("shop:order", {"number": 7})).structured == {"number": 7, "total": 5.0}
    assert [event.kind async for event in shop.stream("shop:refund", {"number": 7})] == ["done"]


async def test_a_name_means_the_highest_version_inside() -> None:
    crib = crib_of_tools()
    old = crib.view(Scope(exclude=["price:quote:2.0.0"]))
    assert (await crib.run("price:quote")).structured == "2.0.0"
    assert (await old.run("price:quote")).structured == "1.4.0"
    assert (await old.describe("price:quote")).tool.version == "1.4.0"  # type: ignore[union-attr]
    assert (await old.run_chain([{"tool_id": "price:quote"}])).final == "1.4.0"
    assert (await old.execute("__out = await price.quote()")).value == "1.4.0"
    with pytest.raises(ToolNotFoundError):
        await old.run("price:quote:^2")
    one = crib.view(Scope(ids=["price:quote:1.0.0"]))
    assert (await one.run("price:quote:*")).structured == "1.0.0"
    assert [conversion.decode_call for conversion in one.convert("mcp")]
    assert len(one.convert("mcp")) == 1


async def test_a_chain_with_a_step_outside_does_not_run() -> None:
    ran: list[str] = []
    crib = crib_of_tools()

    @crib.add(namespace="shop")
    async def note() -> str:
        ran.append("note")
        return "noted"

    view = crib.view(Scope(namespaces=["shop"]))
    steps = [{"tool_id": "shop:note"}, {"tool_id": "vault:open_vault", "args": {"number": 1}}]
    for how in ({}, {"dry_run": True}):
        with pytest.raises(InvalidChainError) as caught:
            await view.run_chain(steps, **how)  # type: ignore[call-overload]
        assert "no tool named 'vault:open_vault'" in str(caught.value)
    assert ran == []
    assert (await view.run_chain([{"tool_id": "shop:note"}])).final == "noted"
    plan = await view.run_chain([{"tool_id": "shop:note"}], dry_run=True)
    assert plan.steps[0].tool_id == "shop:note"


SNEAKING = """
found = [tool["id"] for tool in await search_tools("open the vault of an order", limit=50)]
said = []
try:
    await run_tool("vault:open_vault", {"number": 1})
except Exception as error:
    said.append(str(error))
try:
    await describe_tool("vault:open_vault")
except Exception as error:
    said.append(str(error))
try:
    await run_chain([{"tool_id": "vault:open_vault", "args": {"number": 1}}])
except Exception as error:
    said.append(str(error))
__out = [found, said, (await shop.order(number=3))["number"]]
"""


async def test_code_settings_apply_to_views_immediately() -> None:
    code = "__out = 1"
    crib = crib_of_tools({"code": {"allow_unsafe": True, "backend": "unsafe", "profile": "dev"}})
    async with crib:
        with pytest.warns(UnsafeSandboxWarning):
            assert (await crib.view(Scope(namespaces=["shop"])).execute(code)).backend.kind == "unsafe"
        await crib.reload({"code": {"backend": "unsafe", "profile": "dev"}})
        for view in (crib, crib.view(Scope(namespaces=["shop"]))):
            with pytest.raises(RuntimeUnavailableError, match="allow_unsafe"):
                await view.execute(code)
        await crib.reload({"code": {"allow_unsafe": True, "backend": "unsafe", "profile": "dev"}})
        with pytest.warns(UnsafeSandboxWarning):
            assert (await crib.execute(code)).value == 1


@pytest.mark.parametrize("is_open", [False, True], ids=["at once", "kept warm"])
async def test_code_reaches_the_tools_of_its_view_alone(is_open: bool) -> None:
    crib = crib_of_tools()
    view = crib.view(Scope(namespaces=["shop"]))

    async def check() -> None:
        found, said, number = (await view.execute(SNEAKING)).value
        assert sorted(found) == ["shop:order", "shop:refund"]
        assert len(said) == 3
        assert all("no tool named" in one and "gold" not in one for one in said)
        assert number == 3
        with pytest.raises(CodeError, match="'vault' is not defined") as caught:
            await view.execute("__out = await vault.open_vault(number=1)")
        assert "did you mean" not in str(caught.value)
        assert (await crib.execute("__out = await vault.open_vault(number=1)")).value == "gold 1"

    if is_open:
        async with crib:
            await check()
            await check()
    else:
        await check()


async def test_stubs_are_those_of_the_tools_inside(shop: View) -> None:
    told = await shop.stubs()
    assert "order" in told
    assert "vault" not in told
    assert "vault" not in await shop.stubs(["vault:open_vault", "shop:order"])
    assert "open_vault" not in await shop.stubs(namespace=OUTSIDE)


async def test_a_conversion_is_of_the_tools_inside(shop: View) -> None:
    named = [conversion.payload["name"] for conversion in shop.convert("anthropic")]
    assert len(named) == 5
    assert not any("vault" in name for name in named)
    whole = crib_of_tools()
    outside, inside = whole.discovery.index.get("vault:open_vault"), shop.index.get("shop:order")
    assert len(shop.convert("openai", tools=[inside, "shop:refund"])) == 2
    with pytest.raises(ToolNotFoundError):
        shop.convert("openai", tools=[outside])
    assert len(whole.convert("openai", tools=[outside])) == 1


async def test_hints_and_tags_make_views_too() -> None:
    crib = crib_of_tools()
    reading = crib.view(Scope(annotations={"readOnlyHint": True}))
    assert ids(await reading.tools()) == ["shop:order"]
    assert ids(await crib.view(ToolsetSettings(annotations={"destructiveHint": True})).tools()) == [
        "shop:refund"
    ]
    assert ids(await crib.view(Scope(tags=["Reading"], exclude=["vault:open_vault"])).tools()) == [
        "shop:order"
    ]
    with pytest.raises(ToolNotFoundError):
        await reading.run("shop:refund", {"number": 1})


async def test_a_tool_that_is_added_is_in_the_views_that_admit_it() -> None:
    crib = crib_of_tools()
    view, other = crib.view(Scope(namespaces=["shop"])), crib.view(Scope(tags=["reading"]))
    heard: list[str] = []
    view.index.on_change(lambda change: heard.append(change.tool_id))

    @crib.add(namespace="shop")
    async def cancel(number: int) -> int:
        """Cancel an order."""
        return number

    assert (await view.run(cancel, {"number": 2})).structured == 2
    assert heard == ["shop:cancel"]
    with pytest.raises(ToolNotFoundError):
        await other.run(cancel, {"number": 2})
    assert (await view.execute("__out = await shop.cancel(number=4)")).value == 4


async def test_a_toolset_is_looked_up_by_its_name() -> None:
    crib = crib_of_tools({"toolsets": {"sales": {"namespaces": ["shop"]}, "odd": {"tags": ["odd"]}}})
    assert await crib.view("sales").namespaces() == ("shop",)
    with pytest.raises(ConfigError, match=r"'?/toolsets/sale.* did you mean 'sales'"):
        crib.view("sale")
    with pytest.raises(ConfigError, match="there are odd, sales"):
        crib.view("x")
    with pytest.raises(ConfigError, match="there are none"):
        Crib().view("sales")


async def test_toolsets_that_cannot_be_meant_are_refused_all_at_once() -> None:
    odd = {"toolsets": {"one": {"ids": ["a:b:c:d"], "exclude": ["x:y:^1"]}, "two": {"ids": [":"]}}}
    crib = crib_of_tools({"toolsets": {"one": {"namespaces": ["shop"]}}})
    with pytest.raises(ConfigError) as made:
        Crib(odd)
    with pytest.raises(ConfigError) as read:
        await crib.reload(odd)
    for caught in (made, read):
        paths = [problem.path for problem in caught.value.problems]
        assert paths == ["/toolsets/one/ids", "/toolsets/one/exclude", "/toolsets/two/ids"]
    assert await crib.view("one").namespaces() == ("shop",)
    with pytest.raises(ConfigError, match="two colons"):
        ToolsetSettings(ids=("a:b:c:d",))


async def test_a_toolset_is_as_the_configuration_says_when_it_is_asked_for() -> None:
    crib = crib_of_tools({"toolsets": {"sales": {"namespaces": ["shop"]}}})
    async with crib:
        before = crib.view("sales")
        await crib.reload({"toolsets": {"sales": {"namespaces": ["price"]}}})
        assert await crib.view("sales").namespaces() == ("price",)
        assert (await crib.view("sales").run("price:quote")).structured == "2.0.0"
        assert (await before.run("shop:order", {"number": 1})).structured["number"] == 1
        with pytest.raises(ConfigError):
            await crib.reload({"toolsets": {"sales": {"names": ["price"]}}})


async def test_cursors_of_one_view_are_of_no_use_in_another() -> None:
    crib = crib_of_tools()
    view = crib.view(Scope(namespaces=["shop"]))
    cursor = (await view.tools(limit=1)).next_cursor
    assert ids(await crib.view(Scope(namespaces=["shop"])).tools(limit=1, cursor=cursor)) == ["shop:refund"]
    for stranger in (crib, crib.view(Scope())):
        with pytest.raises(InvalidCursorError):
            await stranger.tools(limit=1, cursor=cursor)


async def test_a_view_ends_with_its_crib() -> None:
    crib = crib_of_tools()
    view = crib.view(Scope(namespaces=["shop"]))
    async with crib:
        assert (await view.run("shop:order", {"number": 1})).structured["number"] == 1
    for call in (view.search("x"), view.run("shop:order", {"number": 1}), view.execute("1")):
        with pytest.raises(CribStateError, match="closed"):
            await call
    with pytest.raises(CribStateError, match="closed"):
        await crib.reload(None)


async def test_a_view_waits_only_for_the_servers_that_it_names(little: Any) -> None:
    servers = {"text": little(), "hidden": little("hang", startTimeout=600)}
    crib = Crib({"mcpServers": servers})
    view = crib.view(Scope(namespaces=["text"]))
    with pytest.raises(CribStateError) as caught:
        await view.search("capital letters")
    assert "hidden" not in str(caught.value)
    async with crib:
        with anyio.fail_after(PATIENCE):
            assert ids(await view.search("capital letters"))[0] == "text:shout"
            assert (await view.run("text:shout", {"text": "a"})).structured is not None
            assert await view.namespaces() == ("text",)
            assert list(view.status()) == ["text"]
            with pytest.raises(ToolNotFoundError):
                await view.run("hidden:shout", {"text": "a"})
            with pytest.raises(ToolNotFoundError):
                await view.describe("hidden:shout")
            with pytest.raises(InvalidChainError, match="no tool named"):
                await view.run_chain([{"tool_id": "hidden:shout", "args": {"text": "a"}}])
            with pytest.raises(CodeError, match="'hidden' is not defined"):
                await view.execute("await hidden.shout(text='a')")
        assert sorted(crib.status()) == ["hidden", "text"]


async def test_a_view_says_why_the_tools_of_its_own_servers_are_not_there(tmp_path: Path) -> None:
    gone = {"command": str(tmp_path / "nothing")}
    async with Crib({"mcpServers": {"text": gone, "hidden": gone}}) as crib:
        with anyio.fail_after(PATIENCE):
            view = crib.view(Scope(namespaces=["text"], exclude=["text:crash"]))
            for ref in ("text:shout", "text:shout:^1"):
                with pytest.raises(BackendUnavailableError):
                    await view.run(ref, {"text": "a"})
            with pytest.raises(BackendUnavailableError):
                await view.describe("text:shout")
            for ref in ("hidden:shout", "text:crash", "shout"):
                with pytest.raises(ToolNotFoundError):
                    await view.run(ref, {"text": "a"})
            tagged = crib.view(Scope(tags=["any"]))
            assert sorted(tagged.status()) == ["hidden", "text"]
            with pytest.raises(BackendUnavailableError):
                await tagged.run("text:shout", {"text": "a"})


async def test_a_view_by_hints_does_not_name_servers_that_have_nothing_in_it(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
            reading = crib.view(Scope(annotations={"readOnlyHint": True}))
            assert reading.status() == {}
            assert (await reading.tools()).total == 0
            with pytest.raises(ToolNotFoundError):
                await reading.run("text:shout", {"text": "a"})
            with pytest.raises(ToolNotFoundError):
                await reading.run("text:nothing")


async def test_a_view_made_before_the_catalogue_is_read_is_good_after_it(little: Any, tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.json"
    path.write_text(json.dumps({"mcpServers": {"text": little()}}))
    crib = Crib(path)
    view = crib.view(Scope(ids=["text:shout"]))
    assert len(view.index) == 0
    async with crib:
        with anyio.fail_after(PATIENCE):
            assert ids(await view.tools()) == ["text:shout"]
            assert (await view.run("text:shout", {"text": "a"})).structured is not None
            with pytest.raises(ToolNotFoundError):
                await view.run("text:get_pid")
            assert (await view.execute("__out = await text.shout(text='b')")).value is not None


async def test_a_server_is_given_the_input_that_it_asks_for_in_a_view_too() -> None:
    asks = {"a": {"method": "elicitation/create", "params": {"message": "name?"}}}
    turns = [
        {"resultType": "input_required", "inputRequests": asks, "requestState": "s1"},
        {"resultType": "complete", "structuredContent": {"ok": True}},
    ]

    async def on_input(made: Any, requests: dict[str, Any]) -> dict[str, Any]:
        assert (made.tool_id, requests) == ("one:ask", asks)
        return {"a": {"action": "accept", "content": {"name": "Ada"}}}

    server = scripted_server(discover="modern", calls={"ask": [{"turns": turns}]})
    async with Crib({"mcpServers": {"one": server}}, on_input=on_input) as crib:
        with anyio.fail_after(PATIENCE):
            view = crib.view(Scope(namespaces=["one"]))
            assert (await view.run("one:ask")).structured == {"ok": True}


def test_a_conversion_is_of_what_is_left_where_a_tool_goes_in_between() -> None:
    class Leaving(Index):
        """Loses a tool each time that all are listed, until one is left."""

        def list_all(self, **filters: Any) -> tuple[Summary, ...]:
            found = super().list_all(**filters)
            if len(found) > 1:
                self.unregister(found[0].id)
            return found

    index = Leaving()
    for name in ("a", "b", "c"):
        index.register(Tool(name=name, input_schema={"type": "object"}))
    assert [made.tool_id for made in convert(default_registry(), index, "openai", None, index.get)] == ["c"]


async def test_result_shapes_in_a_view_are_learnt_from_its_own_calls() -> None:
    crib = Crib({"toolsets": {"one": {"ids": ["look"]}, "other": {"ids": ["look"]}}})

    @crib.add
    def look(key: str) -> Any:
        return {key: 1}

    one, other = crib.view("one"), crib.view("other")
    seen: dict[str, View] = {"one": one, "other": other, "crib": crib}
    await one.run("look", {"key": "salary"})
    await crib.run("look", {"key": "secret"})
    learnt = {name: (await view.describe("look")).observed_output for name, view in seen.items()}
    assert learnt["other"] is None
    assert "salary" in str(learnt["one"])
    assert "secret" not in str(learnt["one"])
    assert "secret" in str(learnt["crib"])
    assert "salary" in str(learnt["crib"])
