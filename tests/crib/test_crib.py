"""A crib of Python functions: define, find, run."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE, until

from toolcrib import Crib, Tool, tool
from toolcrib.discovery import Summary
from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    ConversionError,
    CribStateError,
    InputValidationError,
    InvalidChainError,
    InvalidToolError,
    NoBackendError,
    PolicyDeniedError,
    ToolcribError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import Answer, Call, Next, Principal
from toolcrib.model import LocalTool, McpBackend, ToolGateway

pytestmark = pytest.mark.anyio


@tool(namespace="shop", tags=["money"])
def order_total(prices: list[float]) -> float:
    """Add up an order."""
    return sum(prices)


async def greet(name: str) -> dict[str, str]:
    """Greet somebody."""
    return {"said": f"Hello, {name}!"}


@pytest.fixture
def crib() -> Crib:
    made = Crib()
    made.add(order_total)
    made.add(greet)
    return made


async def test_a_tool_is_defined_found_and_run(crib: Crib) -> None:
    found = await crib.search("sum of the bill")
    assert found.items[0].summary.id == "shop:order_total"
    assert (await crib.describe("shop:order_total")).schema_info.required == ("prices",)  # type: ignore[union-attr]
    result = await crib.run("shop:order_total", {"prices": [1, 2.5]})
    assert result.structured == 3.5
    assert (await crib.run("greet", '{"name": "Ann"}')).structured == {"said": "Hello, Ann!"}


async def test_the_same_works_within_async_with(crib: Crib) -> None:
    async with crib as entered:
        assert entered is crib
        crib.add(greet, namespace="late")
        assert (await crib.run("shop:order_total", {"prices": [1]})).structured == 1
        assert await crib.namespaces() == ("", "late", "shop")
        assert await crib.ready() == crib.status() == {}


async def test_a_crib_is_a_tool_gateway(crib: Crib) -> None:
    gateway: ToolGateway = crib
    assert isinstance(crib, ToolGateway)
    assert (await gateway.search("add up an order", limit=1)).total == 1
    assert (await gateway.describe("greet")).tool.name == "greet"
    assert (await gateway.run("greet", {"name": "Bo"})).structured == {"said": "Hello, Bo!"}


async def test_adding_is_a_decorator() -> None:
    crib = Crib()

    @crib.add
    def double(x: int) -> int:
        """Double a number."""
        return 2 * x

    @crib.add(namespace="math", version="1.2.0", tags=["Big Numbers"])
    def triple(x: int) -> int:
        """Triple a number."""
        return 3 * x

    assert isinstance(double, LocalTool)
    assert double(2) == 4
    assert str(triple.tool.id) == "math:triple:1.2.0"
    assert triple.tool.tags == ("big-numbers",)
    assert (await crib.run("math:triple", {"x": 2})).structured == 6


async def test_adding_takes_everything_that_makes_a_tool(crib: Crib) -> None:
    @crib.add(
        name="total",
        title="Total",
        namespace="shop",
        description="Add up a bill.",
        annotations={"readOnlyHint": True},
        arguments={"prices": {"type": "array", "required": True}},
    )
    def compute(prices: list[float]) -> float:
        """Compute something."""
        return sum(prices)

    record = compute.tool
    assert (str(record.id), record.title, record.description) == ("shop:total", "Total", "Add up a bill.")
    assert record.annotations is not None
    assert record.annotations.read_only_hint
    assert (await crib.run("shop:total", {"prices": [1, 2]})).structured == 3
    again = crib.add(compute, name="sum", arguments={"prices": {"type": "array"}})
    assert again.tool.input_schema.get("required", []) == []
    assert (record.name, again.tool.title) == ("total", "Total")
    with pytest.raises(TypeError, match="no option 'titel'; did you mean 'title'"):
        crib.add(compute, titel="Total")  # type: ignore[call-overload]


async def test_a_result_is_read_in_one_step(crib: Crib) -> None:
    found = await crib.search("add up an order")
    best = found[0]
    assert best is found.items[0]
    assert found[:1] == (best,)
    for field in (*Summary.model_fields, "description"):
        if field != "summary":
            assert getattr(best, field) == getattr(best.summary, field)
    assert (await crib.run(best.id, {"prices": [4, 6]})).structured == 10
    listed = (await crib.tools())[-1]
    assert listed.description == listed.short_description
    assert "description" not in listed.to_json()


async def test_a_tool_is_added_under_another_name_without_changing_it(crib: Crib) -> None:
    added = crib.add(order_total, namespace="store", version="2.0.0")
    assert str(added.tool.id) == "store:order_total:2.0.0"
    assert added.tool.tags == ("money",)
    assert str(order_total.tool.id) == "shop:order_total"
    assert (await crib.run("store:order_total:^2", {"prices": [2]})).structured == 2


async def test_a_definition_with_a_function_is_a_tool() -> None:
    crib = Crib()
    record = Tool(name="echo", input_schema={"type": "object", "properties": {"x": {}}, "required": ["x"]})
    crib.add(LocalTool(lambda x: x, record))
    assert (await crib.run("echo", {"x": [1]})).structured == [1]
    with pytest.raises(InputValidationError):
        await crib.run("echo", {})


async def test_a_definition_alone_needs_to_say_what_runs_it() -> None:
    crib = Crib()
    record = Tool(name="echo", input_schema={})
    with pytest.raises(InvalidToolError, match="does not say what runs it"):
        crib.add(record)
    bound = crib.add(record.replace(backend=McpBackend(server_name="x")), namespace="x")
    assert str(bound.id) == "x:echo"
    with pytest.raises(NoBackendError):
        await crib.run("x:echo")


async def test_a_function_added_again_replaces_the_one_before(crib: Crib) -> None:
    async def other(name: str) -> str:
        """Greet otherwise."""
        return f"Hi {name}"

    other.__name__ = "greet"
    crib.add(other)
    assert (await crib.run("greet", {"name": "Ann"})).structured == "Hi Ann"
    assert (await crib.describe("greet", "summary")).summary == "Greet otherwise."


async def test_failures_are_typed_errors(crib: Crib) -> None:
    @crib.add
    def fail() -> None:
        raise KeyError("no such part")

    @crib.add
    async def hang() -> None:
        await anyio.sleep_forever()

    with pytest.raises(ToolNotFoundError, match="did you mean 'shop:order_total'"):
        await crib.run("shop:order_totl")
    with pytest.raises(InputValidationError):
        await crib.run("shop:order_total", {"prices": "many"})
    with pytest.raises(ToolExecutionError):
        await crib.run("fail")
    with pytest.raises(ToolTimeoutError):
        await crib.run("hang", timeout=0.01)


async def test_the_timeout_of_the_settings_holds() -> None:
    crib = Crib({"timeout": 0.01})

    @crib.add
    async def hang() -> None:
        await anyio.sleep_forever()

    with pytest.raises(ToolTimeoutError, match=r"within 0\.01 s"):
        await crib.run("hang")


async def test_a_tool_streams_and_tells_its_progress(crib: Crib) -> None:
    @crib.add
    async def count(to: int) -> AsyncIterator[int]:
        """Count."""
        for number in range(to):
            yield number

    events = [(event.kind, event.data) async for event in crib.stream("count", {"to": 2})]
    assert events == [("chunk", 0), ("chunk", 1), ("done", [0, 1])]
    kinds = [event.kind async for event in crib.stream("nobody")]
    assert kinds == ["error"]
    told: list[Any] = []
    await crib.run("count", {"to": 1}, progress=lambda *said: told.append(said))
    assert told[-1][2] == "completed"


async def test_a_chain_runs() -> None:
    crib = Crib()

    @crib.add
    def one() -> int:
        return 1

    @crib.add
    def add(previous: int, more: int) -> int:
        return previous + more

    done = await crib.run_chain(
        [{"toolId": "one"}, {"toolId": "add", "args": {"more": 2}, "usePrevious": True}]
    )
    assert done.final == 3
    plan = await crib.run_chain([{"toolId": "one"}], dry_run=True)
    assert [step.tool_id for step in plan.steps] == ["one"]
    with pytest.raises(InvalidChainError):
        await crib.run_chain([{"toolId": "nobody"}])


async def test_tools_are_listed_and_filtered(crib: Crib) -> None:
    assert [summary.id for summary in await crib.tools()] == ["greet", "shop:order_total"]
    assert [summary.id for summary in await crib.tools(tags=["money"])] == ["shop:order_total"]
    page = await crib.tools(limit=1)
    assert [summary.id for summary in await crib.tools(limit=1, cursor=page.next_cursor)] == [
        "shop:order_total"
    ]
    crib.discovery.register_doc("greet", examples=[{"title": "Greet Ann", "args": {"name": "Ann"}}])
    assert [example.title for example in await crib.examples("greet")] == ["Greet Ann"]


async def test_a_search_uses_the_confidence_of_the_settings() -> None:
    crib = Crib({"search": {"min_confidence": 1.0}})
    crib.add(order_total)
    assert (await crib.search("please add up this order for me")).total == 0
    assert (await crib.search("please add up this order for me", min_confidence=0)).total == 1


async def test_tools_are_converted_for_a_provider(crib: Crib) -> None:
    names = [made.payload["function"]["name"] for made in crib.convert("openai", strict=True)]
    assert names == ["greet", "order_total"]
    (one,) = crib.convert("anthropic", tools=["shop:order_total"])
    call = one.decode_call({"type": "tool_use", "id": "1", "name": "order_total", "input": {"prices": [1]}})
    assert (await crib.run(call.tool_id, call.args)).structured == 1
    assert len(crib.convert("mcp", tools=[order_total.tool])) == 1
    with pytest.raises(ToolNotFoundError):
        crib.convert("openai", tools=["nobody"])
    with pytest.raises(ConversionError):
        crib.convert("opnai")


async def test_all_of_many_tools_are_converted() -> None:
    crib = Crib()
    for number in range(1_001):
        record = Tool(name=f"t{number}", input_schema={}, backend=McpBackend(server_name="x"))
        crib.discovery.register_many([(record, record.backend)])
    assert len(crib.convert("mcp")) == 1_001


async def test_runs_are_counted_and_learnt_from(crib: Crib) -> None:
    @crib.add
    def find(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - so that nothing is known of the result
        """Find a part."""
        return {"name": name, "left": 3}

    for _ in range(2):
        await crib.run("find", {"name": "bolt"})
    await crib.run("greet", {"name": "Ann"})
    with pytest.raises(InputValidationError):
        await crib.run("find", {})
    assert crib.discovery.index.usage() == {"find": 2, "greet": 1}
    learnt = (await crib.describe("find")).observed_output
    assert learnt is not None
    assert learnt.json_schema["required"] == ["left", "name"]
    assert (await crib.describe("greet")).observed_output is None


async def test_policy_middleware_and_observers_stand_around_each_call() -> None:
    async def layer(call: Call, go_on: Next, /) -> Answer:
        answer = await go_on(call)
        return Answer(structured=[answer.structured])

    class Watch:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def begin(self, tool_id: str, principal: Principal | None) -> Any:
            return lambda outcome: self.seen.append((tool_id, principal, outcome.error is None))

    watch = Watch()
    crib = Crib(
        policy=lambda request: request.principal == Principal(subject="ann"),
        middleware=[layer],
        observers=[watch],
    )
    crib.add(LocalTool(lambda: 5, Tool(name="five", input_schema={})))
    assert (await crib.run("five", principal=Principal(subject="ann"))).structured == [5]
    with pytest.raises(PolicyDeniedError):
        await crib.run("five")
    assert watch.seen == [("five", Principal(subject="ann"), True), ("five", None, False)]


async def test_the_layers_and_the_audit_of_the_settings_are_put_around_each_call(tmp_path: Path) -> None:
    calls = 0
    path = tmp_path / "audit.jsonl"
    crib = Crib(
        {
            "cache": {},
            "retry": {},
            "limits": {"concurrency": 1},
            "audit": {"path": str(path), "arguments": True},
        }
    )

    @tool(annotations={"readOnlyHint": True})  # type: ignore[arg-type]
    def look(x: int) -> int:
        nonlocal calls
        calls += 1
        return x

    crib.add(look)
    results = [await crib.run("look", {"x": 5}) for _ in range(2)]
    assert ([result.structured for result in results], calls) == ([5, 5], 1)
    await until(lambda: path.read_text().count("\n") == 2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["gen_ai.tool.name"] for line in lines] == ["look", "look"]
    assert lines[0]["gen_ai.tool.call.arguments"] == {"x": 5}


async def test_a_crib_is_entered_once_and_closed_for_good(crib: Crib) -> None:
    async with crib:
        with pytest.raises(CribStateError, match="open already"):
            await crib.__aenter__()
    assert "closed" in repr(crib)
    with pytest.raises(CribStateError, match="closed already"):
        await crib.__aenter__()
    for verb in (
        crib.search("x"),
        crib.tools(),
        crib.namespaces(),
        crib.describe("greet"),
        crib.run("greet"),
    ):
        with pytest.raises(CribStateError, match="this crib is closed"):
            await verb
    with pytest.raises(CribStateError):
        crib.add(greet)
    with pytest.raises(CribStateError):
        crib.convert("openai")
    with pytest.raises(CribStateError):
        await crib.ready()
    with pytest.raises(CribStateError):
        _ = [event async for event in crib.stream("greet")]


async def test_servers_need_to_be_entered_and_functions_do_not() -> None:
    crib = Crib({"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "disabled": True}}})
    crib.add(order_total)
    assert (await crib.run("shop:order_total", {"prices": [1]})).structured == 1
    assert (await crib.search("an order", namespace="shop")).total == 1
    for verb in (
        crib.search("bill"),
        crib.run("a:x"),
        crib.describe("a:x"),
        crib.ready(),
        crib.run_chain([{"toolId": "a:x"}]),
    ):
        with pytest.raises(CribStateError, match=r"its servers are not started \(a\)"):
            await verb
    with pytest.raises(BackendUnavailableError, match="'b' is disabled"):
        await crib.run("b:x")


async def test_a_crib_that_was_never_entered_is_closed_at_once(crib: Crib) -> None:
    with anyio.fail_after(PATIENCE):
        await crib.__aexit__(None, None, None)
    with pytest.raises(CribStateError, match="closed"):
        await crib.run("greet")


@pytest.mark.parametrize("what", [5, "text", object()])
async def test_only_functions_become_tools(crib: Crib, what: Any) -> None:
    with pytest.raises(InvalidToolError):
        crib.add(what)


@pytest.mark.parametrize("tags", [5, [5], "text"])
async def test_tags_that_are_none_are_refused(crib: Crib, tags: Any) -> None:
    with pytest.raises(InvalidToolError):
        crib.add(greet, tags=tags)


async def test_a_namespace_that_is_none_is_refused(crib: Crib) -> None:
    for verb in (crib.tools(namespace=["a"]), crib.search("x", namespace=["a"])):  # type: ignore[arg-type]
        with pytest.raises(ToolcribError):
            await verb


async def test_missing_arguments_are_filled_in_where_asked(crib: Crib) -> None:
    schema = {"type": "object", "properties": {"x": {"default": 5}}}
    crib.add(LocalTool(lambda **given: given, Tool(name="show", input_schema=schema)))
    assert (await crib.run("show")).structured == {}
    assert (await crib.run("show", defaults=True)).structured == {"x": 5}
    assert [event.data async for event in crib.stream("show", defaults=True)] == [{"x": 5}]


async def test_an_error_in_the_block_comes_out_as_it_is(crib: Crib) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with crib:
            raise LookupError("mine")


async def test_one_task_may_open_and_another_close(crib: Crib) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(crib.__aenter__)
    assert (await crib.run("greet", {"name": "A"})).structured == {"said": "Hello, A!"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(crib.__aexit__, None, None, None)
    assert "closed" in repr(crib)


async def test_a_configuration_with_faults_is_refused_at_once() -> None:
    with pytest.raises(ConfigError):
        Crib({"mcpServers": {"a": {}}})


async def test_a_tool_that_was_added_stands_for_its_id() -> None:
    crib = Crib()

    @crib.add(namespace="shop")
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert (await crib.run(double, {"number": 2})).structured == 4
    assert (await crib.run(double.tool, {"number": 2})).structured == 4
    assert (await crib.describe(double)).summary == "Double a number."
    assert await crib.examples(double) == ()
    assert [event.data async for event in crib.stream(double, {"number": 2})][-1] == 4
