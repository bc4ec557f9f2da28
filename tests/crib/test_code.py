"""Code that calls the tools of a crib."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.crib.view import CodeGateway
from toolcrib.errors import (
    CodeError,
    ConfigError,
    CribStateError,
    LimitExceededError,
    PolicyDeniedError,
    RuntimeUnavailableError,
    ValidationError,
)
from toolcrib.execution import CallContext, Outcome, Principal, Request
from toolcrib.model import ToolGateway
from toolcrib.runtime import Limits, ToolCallRecord

pytestmark = pytest.mark.anyio


def crib_of_tools(config: Any = None, **doors: Any) -> Crib:
    crib = Crib(config, **doors)

    @crib.add(namespace="shop")
    async def order(number: int) -> dict[str, Any]:
        """Return an order."""
        return {"number": number, "total": 5.0}

    @crib.add(namespace="shop")
    async def refund(number: int) -> str:
        """Give the money back."""
        return f"refunded {number}"

    return crib


async def test_code_runs_in_a_crib_that_is_open_and_in_one_that_is_not() -> None:
    crib = crib_of_tools()
    code = "__out = (await shop.order(number=7))['total']"
    assert (await crib.execute(code)).value == 5.0
    async with crib:
        assert (await crib.execute(code)).value == 5.0
        assert (await crib.execute(code)).value == 5.0
    with pytest.raises(CribStateError, match="closed"):
        await crib.execute(code)


async def test_calls_of_code_pass_the_policy_and_the_observers_like_all_others() -> None:
    seen: list[tuple[str, Principal | None]] = []

    class Watching:
        def begin(self, tool_id: str, principal: Principal | None) -> Any:
            seen.append((tool_id, principal))

            def ended(outcome: Outcome) -> None:
                assert outcome.principal == principal

            return ended

    def policy(request: Request) -> str | None:
        return (
            "no refunds by code"
            if request.tool.name == "refund" and request.principal == Principal(client="code")
            else None
        )

    crib = crib_of_tools(policy=policy, observers=[Watching()])
    code = """
await shop.order(number=1)
try:
    await shop.refund(number=1)
except PermissionError as error:
    __out = str(error)
"""
    ran = await crib.execute(code)
    assert "no refunds by code" in ran.value
    code_itself = Principal(client="code")
    assert seen == [("shop:order", code_itself), ("shop:refund", code_itself)]
    assert [record.error_op for record in ran.tool_calls] == [None, "policy"]
    assert isinstance(ran.tool_calls[0], ToolCallRecord)
    with pytest.raises(PolicyDeniedError):
        await crib.run("shop:refund", {"number": 1}, principal=Principal(client="code"))


async def test_stubs_show_observed_results_as_open_types() -> None:
    crib = Crib()

    @crib.add(namespace="shop")
    async def stock(sku: str) -> Any:
        """Tell what is there."""
        return {"sku": sku, "at": {"count": 3}, **({"next": "ordered"} if sku == "plum" else {})}

    await crib.execute("__out = await shop.stock(sku='fig')")
    assert "count: int" in await crib.stubs(["shop:stock"])
    code = "it = await shop.stock(sku='plum')\n__out = [it['next'], it['at']['count']]"
    assert (await crib.execute(code)).value == ["ordered", 3]


async def test_stubs_name_tools_as_code_does() -> None:
    crib = crib_of_tools()
    for space in ("a_b", "a-b"):

        @crib.add(namespace=space)
        async def wipe() -> str:
            """Wipe something."""
            return "wiped"

    found = next(item for item in await crib.search("wipe something") if item.summary.id == "a-b:wipe")
    for named in (["a-b:wipe"], [wipe], [found], [found.summary], [wipe.tool]):
        assert "a_b_2: _AB2" in await crib.stubs(named)
    assert (await crib.execute("__out = await a_b_2.wipe()")).tool_calls[0].tool_id == "a-b:wipe"
    assert "async def refund" in await crib.stubs(namespace="shop")
    assert "wipe" not in await crib.stubs(namespace="shop")
    everything = await crib.stubs()
    assert all(name in everything for name in ("a_b:", "a_b_2:", "shop:"))
    assert len(await crib.stubs(budget=20)) <= 80


async def test_a_limit_that_is_given_leaves_the_others_as_they_are_configured() -> None:
    crib = crib_of_tools({"code": {"limits": {"max_tool_calls": 1}}})
    code = "for n in range(3):\n    await shop.order(number=n)"
    for limits in (Limits(cpu=5.0), {"cpu": 5.0}):
        with pytest.raises(LimitExceededError, match="more than 1 times"):
            await crib.execute(code, limits=limits)
    assert len((await crib.execute(code, limits={"max_tool_calls": 3})).tool_calls) == 3


async def test_a_server_that_is_away_is_told_as_such(little: Any) -> None:
    crib = Crib({"mcpServers": {"gone": {"command": "no-such-program-at-all"}, "text": little("plain")}})
    async with crib:
        with pytest.raises(CodeError, match="no program 'no-such-program-at-all'"):
            await crib.execute("__out = await gone.shout(text='hi')")
        with pytest.raises(CodeError, match="name 'txet' is not defined; did you mean 'text'"):
            await crib.execute("__out = await txet.shout(text='hi')")


async def test_a_module_that_hides_tools_is_told() -> None:
    crib = Crib()

    @crib.add(namespace="time")
    async def now() -> int:
        """Tell the time."""
        return 5

    assert (await crib.execute("__out = await time.now()")).value == 5
    assert (await crib.execute("import time as t\n__out = await time.now()")).value == 5
    with pytest.raises(CodeError, match="`import time` hides the tools of that name"):
        await crib.execute("import time\n__out = await time.now()")


async def test_code_that_leaves_nothing_is_told_so() -> None:
    ran = await crib_of_tools().execute("total = (await shop.order(number=1))['total']\ntotal")
    assert ran.value is None
    assert "__out" in ran.notes[0]


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_the_settings_say_what_a_caller_does_not(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(
        '[code]\ntimeout = 120\nbackend = "process"\nlanguage_fallback = true\n[code.limits]\nmax_tool_calls = 1\n'
    )
    crib = crib_of_tools(path)
    async with crib:
        with pytest.raises(LimitExceededError) as caught:
            await crib.execute("await shop.order(number=1)\nawait shop.order(number=2)")
        assert caught.value.limit == "max_tool_calls"
        assert caught.value.result.backend.kind == "process"
        ran = await crib.execute("__out = 1", backend="monty", limits=Limits(max_tool_calls=0))
        assert ran.backend.kind == "monty"


@pytest.mark.parametrize(
    ("options", "path"),
    [({"timeout": 0}, "/timeout"), ({"profile": "lax"}, "/profile"), ({"limits": {"cpu": 0}}, "/limits/cpu")],
)
async def test_a_request_that_makes_no_sense_is_refused(options: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        await crib_of_tools().execute("__out = 1", **options)
    assert [problem.path for problem in caught.value.problems] == [path]


async def test_no_wall_has_to_be_allowed_by_the_configuration() -> None:
    with pytest.raises(RuntimeUnavailableError, match="allow_unsafe"):
        await crib_of_tools().execute("__out = 1", backend="unsafe", profile="dev")
    with pytest.warns(UserWarning, match="without a sandbox"):
        allowed = await crib_of_tools({"code": {"allow_unsafe": True}}).execute(
            "__out = await shop.refund(number=1)", backend="unsafe", profile="dev"
        )
    assert allowed.value == "refunded 1"


async def test_a_setting_for_code_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'timeout'"):
        Crib({"code": {"timout": 3}})
    with pytest.raises(ConfigError, match="max_tool_calls"):
        Crib({"code": {"limits": {"max_tool_calls": -3}}})


async def test_code_waits_for_the_servers_that_it_mentions(little: Any) -> None:
    crib = Crib({"mcpServers": {"my-text": little("plain")}})
    with pytest.raises(CribStateError, match="async with crib"):
        await crib.execute("__out = await my_text.shout(text='hi')")
    assert (await crib.execute("__out = 1")).value == 1
    async with crib:
        with anyio.fail_after(PATIENCE):
            ran = await crib.execute("__out = await my_text.shout(text='hi')")
        assert ran.value == {"result": "HI"}
        assert ran.tool_calls[0].backend_kind == "mcp"
        with pytest.raises(CodeError, match="did you mean 'shout'"):
            await crib.execute("__out = await my_text.shuot(text='hi')")


async def test_the_audit_says_which_calls_were_codes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with crib_of_tools({"audit": {"path": str(path)}}) as crib:
        await crib.execute("__out = await shop.order(number=1)")
        await crib.run("shop:order", {"number": 2})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("toolcrib.client") for line in lines] == ["code", None]


def test_a_crib_is_a_gateway_and_so_is_what_code_reaches_it_by() -> None:
    crib = Crib()
    assert isinstance(crib, ToolGateway)
    assert isinstance(CodeGateway(crib, CallContext()), ToolGateway)
