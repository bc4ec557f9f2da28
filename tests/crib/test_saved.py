"""Tools that are made of runs."""

from pathlib import Path
from typing import Any

import pytest

from toolcrib import Crib
from toolcrib.errors import CodeError, InputValidationError, InvalidToolError, ToolError, ToolNotFoundError
from toolcrib.execution import Principal, Request
from toolcrib.runtime import ExecuteResult

pytestmark = pytest.mark.anyio
CODE = """
customer = "ann"
rate = 2
order = await shop.order(name=customer)
total = order["total"] * rate
__out = {"customer": customer, "total": total, "note": None}
"""


def shop(config: Any = None, **hooks: Any) -> Crib:
    """Return a crib with a shop."""
    crib = Crib(config, **hooks)

    @crib.add(namespace="shop", annotations={"readOnlyHint": True})
    async def order(name: str) -> dict[str, Any]:
        """Return the order of a customer."""
        return {"name": name, "total": len(name)}

    @crib.add(namespace="shop")
    async def ship(name: str) -> str:
        """Send an order to its customer."""
        return f"to {name}"

    return crib


async def test_a_run_becomes_a_tool_that_is_found_described_and_run_with_other_values() -> None:
    crib = shop()
    result = await crib.execute(CODE)
    tool = crib.save_as_tool(
        result, name="bill", version="1.2.0", namespace="my", description="Bill a customer."
    )
    assert str(tool.id) == "my:bill:1.2.0"
    assert tool.input_schema["properties"] == {
        "customer": {"type": "string", "default": "ann"},
        "rate": {"type": "number", "default": 2},
    }
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True
    assert (await crib.search("bill a customer"))[0].id == "my:bill:1.2.0"
    assert (await crib.run("my:bill")).structured == result.value
    ran = await crib.run("my:bill", {"customer": "robert'); boo(", "rate": 10})
    assert ran.structured == {"customer": "robert'); boo(", "total": 140, "note": None}
    with pytest.raises(InputValidationError):
        await crib.run("my:bill", {"rate": "much"})
    used = await crib.execute("__out = (await my.bill(customer='bo'))['total']")
    assert used.value == 4


async def test_saved_tool_runs_as_its_caller_under_the_present_policy() -> None:
    asked: list[tuple[str, Principal | None]] = []
    bob = Principal(issuer="local", subject="bob")

    def policy(request: Request) -> str | None:
        asked.append((request.tool_id, request.principal))
        return "not for bob" if request.principal == bob and request.tool.name == "order" else None

    crib = shop(policy=policy)
    crib.save_as_tool(await crib.execute(CODE), name="bill")
    asked.clear()
    ann = Principal(issuer="local", subject="ann")
    await crib.run("bill", principal=ann)
    assert asked == [("bill", ann), ("shop:order", ann)]
    with pytest.raises(ToolError, match="not for bob"):
        await crib.run("bill", principal=bob)


async def test_a_saved_tool_survives_a_restart_and_a_new_version_stands_beside_it(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text("", encoding="utf-8")
    async with shop(config) as crib:
        result = await crib.execute(CODE)
        crib.save_as_tool(result, name="bill", version="1.0.0", namespace="my")
        chain = await crib.run_chain([{"toolId": "shop:ship", "args": {"name": "ann"}}])
        crib.save_as_tool(
            chain, name="bill", version="2.0.0", namespace="my", parameters={"to": "/0/args/name"}
        )
    async with shop(config) as again:
        assert (await again.run("my:bill:1.0.0", {"customer": "bo"})).structured["total"] == 4
        assert (await again.run("my:bill", {"to": "bo"})).structured == "to bo"
        assert {found.id for found in await again.tools(namespace="my")} == {"my:bill:1.0.0", "my:bill:2.0.0"}


async def test_a_saved_tool_that_is_deleted_is_gone_after_a_restart_too(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text("", encoding="utf-8")
    async with shop(config) as crib:
        for version in ("1.0.0", "2.0.0"):
            crib.save_as_tool(await crib.execute(CODE), name="bill", version=version, namespace="my")
    async with shop(config) as again:
        again.delete_saved_tool("my:bill:2.0.0")
        assert str((await again.run("my:bill")).tool.id) == "my:bill:1.0.0"
        with pytest.raises(ToolNotFoundError):
            again.delete_saved_tool("my:bill:2.0.0")
        with pytest.raises(InvalidToolError, match="was not saved from a run"):
            again.delete_saved_tool("shop:order")
    async with shop(config) as after:
        assert [found.id for found in await after.tools(namespace="my")] == ["my:bill:1.0.0"]


async def test_values_of_a_chains_parameters_are_values_and_no_references() -> None:
    crib = shop()
    steps = [
        {"toolId": "shop:order", "args": {"name": "ann"}},
        {"toolId": "shop:ship", "args": {"name": {"$ref": "steps.0/name"}}},
    ]
    tool = crib.save_as_tool(await crib.run_chain(steps), name="send", parameters={"who": "/0/args/name"})
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is False
    assert (await crib.run("send", {"who": "bo"})).structured == "to bo"
    with pytest.raises(InputValidationError):
        await crib.run("send", {"who": {"$ref": "steps.1"}})


async def test_unsuitable_run_is_not_saved_and_the_error_gives_the_reason() -> None:
    crib = shop()
    result = await crib.execute(CODE)
    with pytest.raises(InvalidToolError, match=r"'total' is not the name of a constant.*'customer', 'rate'"):
        crib.save_as_tool(result, name="bill", parameters=["total"])
    chain = await crib.run_chain([{"toolId": "shop:order", "args": {"name": "ann"}}])
    with pytest.raises(InvalidToolError, match="'/3/args/name' points to nothing"):
        crib.save_as_tool(chain, name="bill", parameters={"who": "/3/args/name"})
    with pytest.raises(InvalidToolError, match="say where the parameters are"):
        crib.save_as_tool(chain, name="bill", parameters=["who"])
    crib.save_as_tool(chain, name="look", namespace="my")
    itself = await crib.execute("__out = await my.look()")
    with pytest.raises(InvalidToolError, match=r"it calls my:look:1\.0\.0 itself"):
        crib.save_as_tool(itself, name="look", namespace="my")
    with pytest.raises(CodeError) as caught:
        await crib.execute("1 / 0")
    with pytest.raises(InvalidToolError, match="did not succeed"):
        crib.save_as_tool(caught.value.result, name="bill")
    assert [found.id for found in await crib.tools(namespace="my")] == ["my:look:1.0.0"]


async def test_the_code_is_in_the_result_and_not_in_its_json() -> None:
    result = await shop().execute("__out = await shop.order(name='ann')")
    assert isinstance(result, ExecuteResult)
    assert result.code
    assert "code" not in result.to_json()
    [step] = result.to_chain()
    assert step.to_json() == {"toolId": "shop:order", "args": {"name": "ann"}}
    chain = await shop().run_chain([step])
    assert (chain.final, set(chain.to_json())) == (result.value, {"final", "results"})
