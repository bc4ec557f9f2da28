"""The stages of a call: checks, their order, and the error of each failure."""

import logging
import math
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from contracts.executor import DEADLINES
from execution.toolbox import Scripted, add, bare, hints, index_of, record, runner_of, schema

from toolcrib.errors import (
    BackendUnavailableError,
    ChainError,
    InputValidationError,
    InvalidBackendError,
    InvalidChainError,
    LimitExceededError,
    NoBackendError,
    OutputValidationError,
    PolicyDeniedError,
    ToolCancelledError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from toolcrib.execution import Answer, Call, Outcome, Principal, Request, Runner
from toolcrib.model import Context, LocalBackend, McpBackend, ProviderBackend, Resolver, tool
from toolcrib.model.protocols import ResolvedTool

pytestmark = pytest.mark.anyio

FIRST = McpBackend(server_name="first")
SECOND = McpBackend(server_name="second")
HERE = LocalBackend(name="here")
DOWN = BackendUnavailableError(tool_id="echo", reason="it is down")
DOWN_AT_SHOP = BackendUnavailableError(tool_id="echo", reason="it is down")
NEVER_SENT = BackendUnavailableError(tool_id="echo", reason="it is down", sent=False)


async def test_a_result_tells_the_tool_the_backend_and_the_value() -> None:
    result = await runner_of(add).run("add", {"a": 1, "b": 2})
    assert (result.tool.name, result.backend, result.structured) == ("add", LocalBackend(name="add"), 3)
    assert result.duration > 0
    assert result.notes == ()


@pytest.mark.parametrize("args", ['{"a": 1}', b'{"a": 1}', bytearray(b'{"a": 1}')])
async def test_arguments_that_come_as_text_are_read_and_noted(args: Any) -> None:
    result = await runner_of(add).run("add", args)
    assert result.structured == 2
    assert result.notes == ("the arguments came as JSON text and were parsed",)


@pytest.mark.parametrize("args", [None, "", "  "])
async def test_no_arguments_are_an_empty_object(args: Any) -> None:
    assert (await bare(lambda **given: given).run("echo", args)).structured == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("[1]", "not the text of a list"),
        ("null", "not the text of null"),
        ("{a: 1}", "text that is not JSON"),
        ([1], "must be a JSON object, not list"),
        (3, "must be a JSON object, not int"),
        ('{"a": NaN}', "not JSON"),
    ],
)
async def test_arguments_that_are_no_object_are_refused_in_words(args: Any, said: str) -> None:
    with pytest.raises(InputValidationError, match=said) as refused:
        await runner_of(add).run("add", args)
    assert refused.value.op == "validate_input"


async def test_every_problem_with_the_arguments_is_told_at_once_and_the_cause_is_kept() -> None:
    @tool
    async def book(title: str, pages: int) -> None:
        raise AssertionError(title, pages)

    with pytest.raises(InputValidationError) as refused:
        await runner_of(book).run("book", {"pages": "many", "extra": 1})
    assert {problem.path for problem in refused.value.problems} >= {"/pages"}
    assert len(refused.value.problems) == 3
    assert refused.value.tool_id == "book"
    assert refused.value.__cause__ is not None


async def test_defaults_are_filled_in_only_when_asked_for() -> None:
    given = schema(
        {
            "city": {"type": "string"},
            "days": {"type": "integer", "default": 3},
            "how": {"type": "object", "properties": {"unit": {"default": "C"}}},
            "where": {"default": {"x": 1}, "properties": {"y": {"default": 2}}},
            "flag": True,
        }
    )
    runner = bare(lambda **args: args, record(input_schema=given))
    sent = {"city": "Oslo", "how": {}}
    assert (await runner.run("echo", sent)).structured == sent
    filled = await runner.run("echo", sent, defaults=True)
    assert filled.structured == {
        "city": "Oslo",
        "how": {"unit": "C"},
        "days": 3,
        "where": {"x": 1, "y": 2},
    }
    assert sent == {"city": "Oslo", "how": {}}


async def test_an_unknown_tool_is_told_with_suggestions() -> None:
    with pytest.raises(ToolNotFoundError) as missing:
        await runner_of(add).run("ad", {})
    assert missing.value.suggestions == ("add",)


async def test_a_value_that_does_not_fit_the_output_schema_is_an_error_that_keeps_it() -> None:
    wrong = record(output_schema=schema({"n": {"type": "integer"}}, "n"))
    with pytest.raises(OutputValidationError) as refused:
        await bare(lambda: {"n": "three"}, wrong).run("echo", {})
    assert refused.value.result == {"n": "three"}
    assert refused.value.backend == "local:handler"
    assert refused.value.op == "validate_output"


async def test_a_task_has_no_value_that_could_fit_the_output_schema() -> None:
    job = record(output_schema=schema({"n": {"type": "integer"}}, "n"))
    handle = {"resultType": "task", "taskId": "1"}
    servers = Scripted(Answer(mcp_result=handle, is_task=True))
    ran = await Runner(index_of((job, McpBackend(server_name="jobs"))), mcp=servers).run("echo", {})
    assert (ran.structured, ran.mcp_result) == (None, handle)


@pytest.mark.parametrize("verdict", [None, True])
async def test_a_policy_that_agrees_lets_the_call_through(verdict: bool | None) -> None:
    assert (await runner_of(add, policy=lambda _: verdict).run("add", {"a": 1})).structured == 2


async def refuse_late(_request: Request) -> str:
    await anyio.lowlevel.checkpoint()
    return "not today"


def refuse_loudly(request: Request) -> None:
    raise PolicyDeniedError(tool_id=request.tool_id, reason="never")


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (lambda _: False, "was refused by the policy"),
        (lambda _: "too late", "too late"),
        (refuse_late, "not today"),
        (refuse_loudly, "never"),
        (lambda request: request.nonsense, "the policy failed"),
    ],
)
async def test_a_policy_that_refuses_or_fails_stops_the_call(policy: Any, reason: str) -> None:
    ran: list[int] = []
    with pytest.raises(PolicyDeniedError, match=reason) as refused:
        await bare(lambda: ran.append(1), policy=policy).run("echo", {})
    assert (ran, refused.value.op) == ([], "policy")


async def test_a_policy_sees_the_tool_the_arguments_and_the_caller() -> None:
    seen: list[Request] = []
    await runner_of(add, policy=seen.append).run("add", '{"a": 1}', principal=Principal(subject="anna"))
    assert (seen[0].tool_id, seen[0].args, seen[0].principal) == ("add", {"a": 1}, Principal(subject="anna"))


async def test_the_policy_is_asked_before_the_arguments_are_checked() -> None:
    with pytest.raises(PolicyDeniedError):
        await runner_of(add, policy=lambda _: False).run("add", {"a": "x"})


async def test_a_tool_without_a_backend_says_what_to_do() -> None:
    index = index_of()
    index.register(record())
    with pytest.raises(NoBackendError, match="register it with one"):
        await Runner(index).run("echo", {})


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (HERE, "no local handler is named 'here'"),
        (FIRST, "nothing here runs mcp backends; give the runner mcp="),
        (ProviderBackend(provider_id="shop", tool_id="x"), "no provider is named 'shop'"),
    ],
)
async def test_a_backend_that_nothing_here_can_run_is_told(backend: Any, said: str) -> None:
    with pytest.raises(NoBackendError, match=said):
        await Runner(index_of((record(), backend))).run("echo", {})


async def test_the_nearest_kind_of_backend_is_taken_first() -> None:
    shop = ProviderBackend(provider_id="shop", tool_id="x")
    remote, provider = Scripted(Answer(structured="mcp")), Scripted(Answer(structured="provider"))
    index = index_of((record(), FIRST), (record(), shop))
    runner = Runner(index, mcp=remote, providers={"shop": provider}, local={"here": lambda: "local"})
    assert (await runner.run("echo", {})).structured == "provider"
    index.register(record(), HERE)
    assert (await runner.run("echo", {})).structured == "local"


async def test_a_selector_may_choose_one_or_an_order() -> None:
    index = index_of((record(), FIRST), (record(), SECOND), (record(), HERE))
    servers = Scripted(Answer(structured="remote"))
    one = Runner(index, mcp=servers, local={"here": lambda: 1}, select=lambda _, all_: all_[1])
    assert (await one.run("echo", {})).backend == SECOND
    several = Runner(index, mcp=servers, select=lambda _, all_: [all_[0], all_[1]])
    assert (await several.run("echo", {})).backend == FIRST


async def test_a_selector_may_not_invent_a_backend_nor_choose_none() -> None:
    index = index_of((record(), HERE))
    with pytest.raises(InvalidBackendError, match="is not a backend of the tool"):
        await Runner(index, local={"here": int}, select=lambda *_: FIRST).run("echo", {})
    with pytest.raises(NoBackendError, match="the selector chose none"):
        await Runner(index, local={"here": int}, select=lambda *_: []).run("echo", {})


async def test_a_call_that_never_arrived_goes_to_the_next_backend() -> None:
    servers = Scripted(NEVER_SENT, Answer(structured="second"))
    runner = Runner(index_of((record(), FIRST), (record(), SECOND)), mcp=servers)
    result = await runner.run("echo", {})
    assert (result.structured, result.backend) == ("second", SECOND)
    assert result.notes == ("mcp:first was unavailable; another backend was tried",)


@pytest.mark.parametrize("hint", ["read_only_hint", "idempotent_hint"])
async def test_a_call_that_may_have_run_goes_on_only_where_that_is_harmless(hint: str) -> None:
    def runner(**given: bool) -> tuple[Runner, Scripted]:
        servers = Scripted(DOWN, Answer(structured=2))
        tool_record = record(annotations=hints(**given))
        return Runner(index_of((tool_record, FIRST), (tool_record, SECOND)), mcp=servers), servers

    harmless, _ = runner(**{hint: True})
    assert (await harmless.run("echo", {})).structured == 2
    risky, servers = runner(**{hint: False})
    with pytest.raises(BackendUnavailableError) as down:
        await risky.run("echo", {})
    assert down.value.backend == "mcp:first"
    assert len(servers.calls) == 1


async def test_a_tool_that_says_no_is_not_asked_elsewhere() -> None:
    servers = Scripted(ToolExecutionError(tool_id="echo", reason="no"))
    runner = Runner(index_of((record(), FIRST), (record(), SECOND)), mcp=servers)
    with pytest.raises(ToolExecutionError):
        await runner.run("echo", {})
    assert len(servers.calls) == 1


async def test_the_last_backends_failure_is_what_is_told() -> None:
    servers = Scripted(NEVER_SENT, BackendUnavailableError(tool_id="echo", reason="also down", sent=False))
    with pytest.raises(BackendUnavailableError, match="also down"):
        await Runner(index_of((record(), FIRST), (record(), SECOND)), mcp=servers).run("echo", {})


async def test_an_executor_that_breaks_is_a_typed_error_with_its_cause() -> None:
    broken = Scripted(KeyError("x"))
    with pytest.raises(ToolExecutionError, match="KeyError: 'x'") as told:
        await Runner(index_of((record(), FIRST)), mcp=broken).run("echo", {})
    assert isinstance(told.value.__cause__, KeyError)
    assert told.value.backend == "mcp:first"


async def test_a_deadline_reaches_the_handler_and_is_told_apart() -> None:
    seen: list[str] = []

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")

    for seconds in DEADLINES:
        with pytest.raises(ToolTimeoutError) as late:
            await bare(hang).run("echo", {}, timeout=seconds)
        assert (late.value.timeout, late.value.backend) == (seconds, "local:handler")
        if seen:
            break
    assert seen == ["cancelled"]
    with pytest.raises(ToolTimeoutError):
        await bare(hang, timeout=0.01).run("echo", {})


async def test_a_backend_may_have_a_deadline_of_its_own() -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    runner = bare(hang, timeouts={"local:handler": 0.01})
    with pytest.raises(ToolTimeoutError) as late:
        await runner.run("echo", {})
    assert late.value.timeout == 0.01


async def test_a_callers_own_deadline_is_a_cancellation_and_not_ours() -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await bare(hang).run("echo", {}, timeout=math.inf)
    assert scope.cancelled_caught


async def test_a_timeout_that_a_handler_raises_itself_is_its_own_failure() -> None:
    async def fail() -> None:
        raise TimeoutError("upstream")

    with pytest.raises(ToolExecutionError, match="TimeoutError: upstream"):
        await bare(fail).run("echo", {})


async def test_progress_is_told_from_started_to_completed() -> None:
    told: list[Any] = []
    await runner_of(add).run("add", {"a": 1}, progress=lambda *event: told.append(event))
    assert told == [(0, 1, "started"), (1, 1, "completed")]

    async def later(*event: Any) -> None:
        told.append(event)

    told.clear()
    with pytest.raises(InputValidationError):
        await runner_of(add).run("add", {}, progress=later)
    assert told == [(0, 1, "started"), (1, 1, "error")]


class Watch:
    def __init__(self) -> None:
        self.begun: list[tuple[str, str | None]] = []
        self.ended: list[Outcome] = []

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:
        self.begun.append((tool_id, principal))
        return self.ended.append


async def test_an_observer_hears_of_every_end_exactly_once() -> None:
    watch = Watch()
    runner = runner_of(add, observers=[watch])
    await runner.run("add", {"a": 1}, principal=Principal(subject="anna"))
    for ref, args, error in [
        ("add", {}, InputValidationError),
        ("nothing", {}, ToolNotFoundError),
        ("add", "[]", InputValidationError),
    ]:
        with pytest.raises(error):
            await runner.run(ref, args)
    fine, misfit, unknown, malformed = watch.ended
    assert fine.answer == Answer(structured=2)
    assert (fine.error, fine.backend, fine.principal) == (
        None,
        LocalBackend(name="add"),
        Principal(subject="anna"),
    )
    assert isinstance(misfit.error, InputValidationError)
    assert (unknown.request, unknown.backend, unknown.tool_id) == (None, None, "nothing")
    assert malformed.raw_args == "[]"
    assert watch.begun[0] == ("add", Principal(subject="anna"))


async def test_an_observer_hears_of_a_cancellation() -> None:
    watch, running = Watch(), anyio.Event()

    async def hang() -> None:
        running.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bare(hang, observers=[watch]).run, "echo", {})
        await running.wait()
        tasks.cancel_scope.cancel()
    assert isinstance(watch.ended[0].error, anyio.get_cancelled_exc_class())


async def test_an_observer_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:
            raise RuntimeError(tool_id, principal)

    class BrokenLater(Watch):
        def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:
            def finish(outcome: Outcome) -> None:
                raise RuntimeError(tool_id, principal, outcome)

            return finish

    watch = Watch()
    with caplog.at_level(logging.ERROR):
        await runner_of(add, observers=[Broken(), BrokenLater(), watch]).run("add", {"a": 1})
    assert len(watch.ended) == 1
    assert len(caplog.records) == 2


async def test_middleware_stands_around_the_call_in_order() -> None:
    seen: list[str] = []

    def layer(name: str) -> Any:
        async def stand(call: Call, go_on: Any) -> Answer:
            seen.append(f"{name} in")
            answer: Answer = await go_on(call)
            seen.append(f"{name} out")
            return answer

        return stand

    await runner_of(add, middleware=[layer("outer"), layer("inner")]).run("add", {"a": 1})
    assert seen == ["outer in", "inner in", "inner out", "outer out"]


async def test_the_default_binding_of_a_tool_is_used_where_the_resolver_knows_none() -> None:
    class Plain:
        def resolve(self, ref: Any) -> Any:
            return record(str(ref), backend=HERE)

        def backends(self, _tool_id: Any) -> tuple[()]:
            return ()

    assert (await Runner(Plain(), local={"here": lambda: 5}).run("echo", {})).structured == 5


async def test_the_arguments_that_were_passed_are_not_changed() -> None:
    args = {"list": [1]}

    def meddle(**given: Any) -> None:
        given["more"] = 1

    await bare(meddle).run("echo", args, defaults=True)
    assert args == {"list": [1]}


async def test_progress_that_a_tool_counts_never_goes_back() -> None:
    async def count(ctx: Context) -> None:
        await ctx.progress(5, 10)
        await ctx.log("half")
        await ctx.progress(8, 10)

    async def open_ended(ctx: Context) -> None:
        await ctx.progress(7)

    def spell() -> Any:
        yield "a chunk is no progress"

    told: list[Any] = []
    for handler in (count, open_ended, spell):
        await bare(handler).run("echo", progress=lambda *event: told.append(event))
    assert told == [
        (0, 1, "started"),
        (5, 10, None),
        (5, 10, "half"),
        (8, 10, None),
        (10, 10, "completed"),
        (0, 1, "started"),
        (7, None, None),
        (7, None, "completed"),
        (0, 1, "started"),
        (1, 1, "completed"),
    ]


async def test_a_provider_that_left_while_it_was_chosen_is_no_backend() -> None:
    providers: dict[str, Any] = {"shop": Scripted(Answer())}

    async def forget(call: Call, go_on: Any) -> Any:
        providers.clear()
        return await go_on(call)

    index = index_of((record(), ProviderBackend(provider_id="shop", tool_id="x")))
    with pytest.raises(NoBackendError, match="no provider is named 'shop'"):
        await Runner(index, providers=providers, middleware=[forget]).run("echo", {})


async def test_errors_name_the_provider() -> None:
    index = index_of((record(), ProviderBackend(provider_id="shop", tool_id="x")))
    with pytest.raises(BackendUnavailableError) as down:
        await Runner(index, providers={"shop": Scripted(DOWN_AT_SHOP)}).run("echo", {})
    assert down.value.backend == "provider:shop"


async def test_any_mapping_will_do_for_arguments() -> None:
    assert (await runner_of(add).run("add", MappingProxyType({"a": 1}))).structured == 2


async def test_an_error_of_the_tree_that_is_no_tool_error_passes_as_it_is() -> None:
    limited = Scripted(LimitExceededError("calls", "10 a minute"))
    with pytest.raises(LimitExceededError):
        await Runner(index_of((record(), FIRST)), mcp=limited).run("echo", {})


async def test_a_policy_that_hangs_meets_the_deadline() -> None:
    async def hang(_request: Request) -> None:
        await anyio.sleep_forever()

    with pytest.raises(ToolTimeoutError) as late:
        await runner_of(add, policy=hang).run("add", {"a": 1}, timeout=0.05)
    assert late.value.op == "policy"


async def cancelled(*_: Any) -> Any:
    raise anyio.get_cancelled_exc_class()


async def test_a_cancellation_that_nobody_asked_for_is_an_error() -> None:
    with pytest.raises(PolicyDeniedError, match="what it waited for was cancelled"):
        await runner_of(add, policy=cancelled).run("add", {"a": 1})
    with pytest.raises(ToolCancelledError, match="what it waited for was cancelled") as told:
        await runner_of(add, middleware=[cancelled]).run("add", {"a": 1})
    assert told.value.backend == "local:add"
    events = [event async for event in runner_of(add, middleware=[cancelled]).stream("add", {"a": 1})]
    assert [event.kind for event in events] == ["error"]


async def test_cancelling_a_policy_that_waits_cancels_the_call() -> None:
    async def hang(_request: Request) -> None:
        await anyio.sleep_forever()

    with anyio.move_on_after(0.05) as scope:
        await runner_of(add, policy=hang).run("add", {"a": 1})
    assert scope.cancelled_caught


@pytest.mark.parametrize("seconds", [math.nan, "1", -1, True, [1]])
async def test_a_deadline_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(ValidationError, match="number of seconds"):
        await runner_of(add).run("add", {"a": 1}, timeout=seconds)


@pytest.mark.parametrize("seconds", [math.inf, 10**400, 30], ids=["never", "huge", "half a minute"])
async def test_a_deadline_may_be_far_away(seconds: float) -> None:
    assert (await runner_of(add).run("add", {"a": 1}, timeout=seconds)).structured == 2


async def test_validated_arguments_run_whatever_the_caller_changes_meanwhile() -> None:
    args: dict[str, Any] = {"a": 1}

    async def meanwhile(call: Call, go_on: Any) -> Any:
        args["b"] = "not a number"
        return await go_on(call)

    assert (await runner_of(add, middleware=[meanwhile]).run("add", args)).structured == 2


async def test_a_callback_that_fails_does_not_hide_the_tools_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_progress: float, _total: float | None, message: str | None) -> None:
        if message == "error":
            raise RuntimeError(message)

    with caplog.at_level(logging.ERROR), pytest.raises(InputValidationError):
        await runner_of(add).run("add", {}, progress=fail)
    assert "the progress callback failed" in caplog.text


async def test_progress_that_goes_back_is_told_where_it_was() -> None:
    async def waver(ctx: Context) -> None:
        for number in (5, 2, math.nan, 7):
            await ctx.progress(number, 10)

    told: list[Any] = []
    await bare(waver).run("echo", progress=lambda *event: told.append(event[0]))
    assert told == [0, 5, 5, 5, 7, 10]


async def test_providers_may_come_later() -> None:
    providers: dict[str, Any] = {}
    runner = Runner(
        index_of((record(), ProviderBackend(provider_id="shop", tool_id="x"))), providers=providers
    )
    providers["shop"] = Scripted(Answer(structured=1))
    assert (await runner.run("echo", {})).structured == 1


@pytest.mark.parametrize(
    ("given", "destructive"),
    [
        (None, True),
        ({}, True),
        ({"destructive_hint": False}, False),
        ({"destructive_hint": True}, True),
        ({"read_only_hint": True}, False),
        ({"read_only_hint": True, "destructive_hint": True}, False),
    ],
)
async def test_a_tool_that_says_nothing_may_destroy_something(given: Any, destructive: bool) -> None:
    declared = record(annotations=None if given is None else hints(**given))
    assert Request(tool=declared, args={}).destructive is destructive


async def test_a_backend_has_its_own_deadline_where_calls_have_none() -> None:
    @tool
    async def sleep() -> None:
        """Sleep."""
        await anyio.sleep_forever()

    runner = Runner(index_of(sleep), local=[sleep], timeout=math.inf, timeouts={"local:sleep": 0.01})
    with pytest.raises(ToolTimeoutError, match=r"0\.01 s"):
        await runner.run("sleep")


class Arriving:
    """A source of tools that are waited for."""

    def __init__(self, index: Resolver, wait: Callable[[Any], Awaitable[None]]) -> None:
        self.resolve, self.backends, self.wait_for = index.resolve, index.backends, wait

    def find(self, ref: Any) -> Any:
        tool = self.resolve(ref)
        return ResolvedTool(str(tool.id), tool, self.backends(tool.id))


async def test_a_tool_may_be_waited_for_before_it_is_looked_up() -> None:
    index, arrives = index_of(), anyio.Event()

    async def arrive(_ref: Any) -> None:
        await arrives.wait()
        index.register(add)

    runner = Runner(Arriving(index, arrive), local=[add], timeout=0.04)
    with pytest.raises(BackendUnavailableError, match=r"not ready within 0\.01 s") as late:
        await runner.run("add", {"a": 1}, timeout=0.01)
    assert (late.value.op, late.value.sent) == ("resolve", False)
    patient = Runner(Arriving(index, arrive), local=[add])
    arrives.set()
    assert (await patient.run("add", {"a": 1})).structured == 2


async def test_waiting_for_the_tools_of_a_chain_counts_and_its_whole_time_is_told() -> None:
    @tool
    async def hang() -> None:
        await anyio.sleep_forever()

    async def wait(_ref: Any) -> None:
        await anyio.sleep(0.05)

    async def never(_ref: Any) -> None:
        await anyio.sleep_forever()

    runner = Runner(Arriving(index_of(hang), wait), local=[hang])
    for seconds in DEADLINES:
        with pytest.raises((ChainError, BackendUnavailableError)) as ended:
            await runner.run_chain([{"toolId": "hang"}], timeout=seconds)
        if ended.type is ChainError:
            break
    assert f"did not finish within {seconds:g} s" in str(ended.value)
    runner = Runner(Arriving(index_of(hang), never), local=[hang])
    with pytest.raises(BackendUnavailableError, match=r"not ready within 0\.01 s") as late:
        await runner.run_chain([{"toolId": "hang"}], timeout=0.01)
    assert late.value.op == "resolve"


async def test_a_chain_that_is_waited_for_is_still_told_all_its_problems_at_once() -> None:
    async def ready(_ref: Any) -> None:
        await anyio.lowlevel.checkpoint()

    runner = Runner(Arriving(index_of(add), ready), local=[add])
    with pytest.raises(InvalidChainError) as refused:
        await runner.run_chain([{"toolId": "ad"}, {"toolId": "add", "args": {"a": {"$ref": "steps.9"}}}])
    assert [problem.path for problem in refused.value.problems] == ["/0/toolId", "/1/args/a"]


async def test_progress_without_a_frame_is_what_the_tool_reports() -> None:
    async def count(ctx: Context) -> None:
        await ctx.log("a message is no progress")
        await ctx.progress(5, 10, "half")
        await ctx.progress(3, 10, "back")
        await ctx.progress(10, 10)

    async def fail(ctx: Context) -> None:
        await ctx.progress(1)
        raise ValueError("no")

    told: list[Any] = []
    await bare(count).run("echo", progress=lambda *event: told.append(event), frame_progress=False)
    assert told == [(5, 10, "half"), (10, 10, None)]
    told.clear()
    with pytest.raises(ToolExecutionError):
        await bare(fail).run("echo", progress=lambda *event: told.append(event), frame_progress=False)
    assert told == [(1, None, None)]
