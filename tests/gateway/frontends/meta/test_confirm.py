"""Confirmation of destructive tools, and the client that is asked for it."""

from typing import Any

import anyio
import pytest
from gateway.frontends.meta.asking import Asking, call_refused, crib_of_tools, face_of, given
from mcp_types import InputRequiredResult
from waiting import PATIENCE

from toolcrib import Crib, tool
from toolcrib.crib import Settings
from toolcrib.execution.audit import Audit, AuditRecord
from toolcrib.gateway import Confirmation, ConfirmationResult, InputNeeded
from toolcrib.gateway.frontends.meta.running import mentioned_in
from toolcrib.model import Tool, ToolAnnotations

pytestmark = pytest.mark.anyio
DROP = {"tool_id": "shop:drop_order", "args": {"number": 1}}
ALL = {"name": "all", "effect": "allow"}


async def test_a_destructive_tool_runs_once_the_person_agrees() -> None:
    client = Asking()
    ran = await given(face_of(crib_of_tools()), "run_tool", DROP, client)
    assert ran["structured"] == "dropped 1"
    assert ran["annotations"] == {"destructiveHint": True}
    assert [each.text for each in client.questions] == [
        'Run shop:drop_order with {"number": 1}? It says that it may destroy or overwrite something.'
    ]


async def test_a_person_who_says_no_is_obeyed() -> None:
    client = Asking(ConfirmationResult.DECLINED)
    face = face_of(crib_of_tools())
    for name, args in (
        ("run_tool", DROP),
        ("run_chain", {"steps": [DROP]}),
        ("execute_code", {"code": "await shop.drop_order(number=1)"}),
    ):
        error = await call_refused(face, name, args, client)
        assert error["code"] == "denied"
        assert error["op"] == "policy"
        assert "the user declined" in error["message"]
    assert len(client.questions) == 3


async def test_a_no_is_recorded_and_obeyed_whatever_policy_the_crib_has() -> None:
    records: list[AuditRecord] = []
    dropped: list[int] = []
    crib = Crib(observers=[Audit(records.append)])

    @crib.add(namespace="shop", annotations=ToolAnnotations(destructive_hint=True))
    async def drop_order(number: int) -> None:
        """Delete an order for ever."""
        dropped.append(number)

    await call_refused(face_of(crib), "run_tool", DROP, Asking(ConfirmationResult.DECLINED))
    assert [(each.tool_id, each.effect, each.error) for each in records] == [
        ("shop:drop_order", "deny", "denied")
    ]
    assert records[0].client == "mcp:test"
    assert dropped == []


_EACH_WAY: Any = pytest.mark.parametrize(
    ("name", "args"),
    [
        ("run_tool", DROP),
        ("run_chain", {"steps": [{"tool_id": "shop:prices"}, DROP]}),
        ("execute_code", {"code": "await shop.prices()\nawait shop.drop_order(number=1)"}),
    ],
    ids=["tool", "chain", "code"],
)


@_EACH_WAY
@pytest.mark.parametrize(
    ("result", "said"),
    [
        (ConfirmationResult.UNANSWERED, "gave no answer"),
        (ConfirmationResult.DISMISSED, "was dismissed without an answer"),
    ],
)
async def test_a_question_without_an_answer_is_not_told_as_a_no_and_the_operator_learns_what_to_do(
    name: str, args: Any, result: ConfirmationResult, said: str
) -> None:
    error = await call_refused(face_of(crib_of_tools()), name, args, Asking(result))
    assert error["code"] == "denied"
    assert said in error["message"]
    assert "declined" not in error["message"]
    assert "gateway.confirm = false" in error["message"]
    assert "names shop:drop_order" in error["message"]
    assert error["details"]["answer"] == result.value


async def test_a_question_of_a_rule_that_is_dismissed_names_the_rule_and_no_setting() -> None:
    rules = [{"name": "orders", "tools": ["shop:order"], "effect": "ask"}, {"name": "all", "effect": "allow"}]
    face = face_of(crib_of_tools({"policy": rules}))
    args = {"tool_id": "shop:order", "args": {"number": 1}}
    error = await call_refused(face, "run_tool", args, Asking(ConfirmationResult.DISMISSED))
    assert error["details"] == {"rule": "orders", "answer": "dismissed"}
    assert "change the effect of the rule 'orders'" in error["message"]
    assert "gateway.confirm" not in error["message"]
    chain = await call_refused(face, "run_chain", {"steps": [args]}, Asking(ConfirmationResult.DISMISSED))
    assert "gateway.confirm" not in chain["message"]
    assert "[[policy]] rule that asks" in chain["message"]


@_EACH_WAY
@pytest.mark.parametrize("result", [ConfirmationResult.DECLINED, ConfirmationResult.DISMISSED])
async def test_the_audit_says_of_each_refused_tool_how_the_question_ended(
    name: str, args: Any, result: ConfirmationResult
) -> None:
    records: list[AuditRecord] = []
    crib = crib_of_tools(observers=[Audit(records.append)])
    await call_refused(face_of(crib), name, args, Asking(result))
    assert [(each.tool_id, each.effect, each.answer) for each in records] == [
        ("shop:drop_order", "deny", result.value)
    ]
    assert records[0].client == "mcp:test"


@_EACH_WAY
@pytest.mark.parametrize(
    "rule",
    [
        {"tools": ["shop:drop_order"]},
        {"tools": ["shop:*"], "annotations": {"destructiveHint": True}},
        {"tools": ["shop"]},
        {"tools": ["shop:drop_*"]},
        {"tools": ["shop:drop_order"], "args": {"properties": {"number": {"maximum": 5}}}},
    ],
    ids=["its id", "the hint", "the namespace", "a pattern", "some arguments"],
)
async def test_a_rule_that_allows_it_explicitly_is_consent_of_the_operator(
    name: str, args: Any, rule: dict[str, Any]
) -> None:
    crib = crib_of_tools({"policy": [{"name": "x", "effect": "allow", **rule}, ALL]})
    client = Asking()
    await given(face_of(crib), name, args, client)
    # What arguments a chain or code will use is not known before.
    assert len(client.questions) == (1 if "args" in rule and name != "run_tool" else 0)


@_EACH_WAY
@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"tools": ["*"]},
        {"tools": ["*:*"]},
        {"annotations": {"destructiveHint": True}, "who": ["ann"]},
        {"tools": ["shop:drop_order"], "args": {"properties": {"number": {"minimum": 5}}}},
    ],
    ids=["everything", "star", "stars", "other caller", "other arguments"],
)
async def test_a_rule_that_allows_it_among_others_is_no_consent(
    name: str, args: Any, rule: dict[str, Any]
) -> None:
    crib = crib_of_tools({"policy": [{"name": "x", "effect": "allow", **rule}, ALL]})
    client = Asking()
    await given(face_of(crib), name, args, client)
    assert len(client.questions) == 1


async def test_code_may_reach_a_tool_that_a_rule_consents_to_without_naming_it() -> None:
    rules = [{"name": "x", "effect": "allow", "tools": ["shop:drop_order"]}, ALL]
    client = Asking(ConfirmationResult.DECLINED)
    async with crib_of_tools({"policy": rules}) as crib:
        hidden = "__out = await run_tool('shop:' + 'drop_order', {'number': 1})"
        assert (await given(face_of(crib), "execute_code", {"code": hidden}, client))["value"] == "dropped 1"
        other = "__out = await run_tool('wipe' + '-all')"
        error = await call_refused(face_of(crib), "execute_code", {"code": other}, client)
        assert "user has to agree" in error["message"]
    assert client.questions == []


@_EACH_WAY
async def test_nobody_is_asked_about_a_call_that_a_rule_refuses(name: str, args: Any) -> None:
    rules = [{"name": "no drops", "effect": "deny", "tools": ["shop:drop_order"]}, ALL]
    client = Asking()
    async with crib_of_tools({"policy": rules}) as crib:
        result = await face_of(crib).call(name, args, client)
    assert result.is_error
    # Code does not find at all what it may not run.
    reason = "has no tool 'drop_order'" if name == "execute_code" else "by the rule 'no drops'"
    assert reason in str(result.structured_content["error"])
    assert client.questions == []


@pytest.mark.parametrize("tool_id", ["shop:order", "shop:prices", "nothing"])
async def test_other_tools_are_not_asked_about(tool_id: str) -> None:
    client = Asking(ConfirmationResult.DECLINED)
    await given(
        face_of(crib_of_tools()),
        "run_tool",
        {"tool_id": tool_id, "args": {"number": 1} if tool_id == "shop:order" else {}},
        client,
    )
    assert client.questions == []


async def test_nobody_is_asked_where_that_is_off_or_the_client_cannot() -> None:
    crib = crib_of_tools()
    for face, client in (
        (face_of(crib, confirm=False), Asking(ConfirmationResult.DECLINED)),
        (face_of(crib), Asking(ConfirmationResult.DECLINED, can_ask=False)),
    ):
        assert (await given(face, "run_tool", DROP, client))["structured"] == "dropped 1"
        assert (await given(face, "run_chain", {"steps": [DROP]}, client))["final"] == "dropped 1"
        code = "__out = await run_tool('shop:' + 'drop_order', {'number': 1})"
        assert (await given(face, "execute_code", {"code": code}, client))["value"] == "dropped 1"
        assert client.questions == []
    unasked = Asking(ConfirmationResult.UNASKED)
    assert (await given(face_of(crib), "run_tool", DROP, unasked))["structured"] == "dropped 1"


async def test_a_chain_is_asked_about_once_with_all_its_tools() -> None:
    client = Asking()
    steps = [DROP, {"tool_id": "shop:prices"}, {"parallel": [{"tool_id": "wipe-all"}, DROP]}]
    await given(face_of(crib_of_tools()), "run_chain", {"steps": steps}, client)
    assert len(client.questions) == 1
    assert "shop:drop_order, wipe-all?" in client.questions[0].text
    await given(face_of(crib_of_tools()), "run_chain", {"steps": [{"tool_id": "nothing"}]}, client)
    assert len(client.questions) == 1


async def test_exception_of_the_endpoint_for_input_passes_through_the_face() -> None:
    ran: list[int] = []
    crib = crib_of_tools()

    @crib.add
    def count() -> None:
        """Count."""
        ran.append(1)

    needed = InputNeeded(InputRequiredResult(request_state="x"))
    client = Asking(needed)
    face = face_of(crib)
    for name, args in (
        ("run_tool", DROP),
        ("run_chain", {"steps": [{"tool_id": "count"}, DROP]}),
        ("execute_code", {"code": "await count()\nawait shop.drop_order(number=1)"}),
    ):
        with pytest.raises(InputNeeded) as raised:
            await face.call(name, args, client)
        assert raised.value is needed
    assert ran == []


async def test_a_question_is_the_same_each_time_and_another_for_other_arguments() -> None:
    client = Asking()
    face = face_of(crib_of_tools())
    for number in (1, 1, 2):
        await given(face, "run_tool", {"tool_id": "shop:drop_order", "args": {"number": number}}, client)
    first, again, other = client.questions
    assert first == again
    assert first.key != other.key


LONG = "It is all right, nothing is lost. " * 60
TARGET = "/srv/customers/anna"
_ERASE = {"tool_id": "erase", "args": {"path": TARGET}}
_PASS = {"tool_id": "pass_on", "args": {"value": TARGET}}
_NOTE = {"tool_id": "pass_on", "args": {"value": LONG}}
_COMMENTS = "\n".join(f"# await erase(path='/nowhere/{number}')" for number in range(40))
_TRIES: dict[str, tuple[str, Any]] = {
    "between long notes": ("run_tool", {"tool_id": "erase", "args": {"a": LONG, "path": TARGET, "z": LONG}}),
    "inside a long text": ("run_tool", {"tool_id": "erase", "args": {"path": f"{LONG}{TARGET}{LONG}"}}),
    "deep in an object": (
        "run_tool",
        {"tool_id": "erase", "args": {"a": {"note": LONG, "b": [{"path": TARGET}], "more": LONG}}},
    ),
    "field called token": ("run_tool", {"tool_id": "erase", "args": {"token": TARGET}}),
    "field called password_file": ("run_tool", {"tool_id": "erase", "args": {"password_file": TARGET}}),
    "behind api_key=": ("run_tool", {"tool_id": "erase", "args": {"path": f"api_key={TARGET}"}}),
    "as Bearer": ("run_tool", {"tool_id": "erase", "args": {"path": f"Authorization: Bearer {TARGET}"}}),
    "as the login of an address": (
        "run_tool",
        {"tool_id": "erase", "args": {"path": f"https://me:{TARGET.replace('/', '.')}@example.org"}},
    ),
    "after invisible characters": (
        "run_tool",
        {"tool_id": "erase", "args": {"path": "\u200b\u202e" * 300 + TARGET, "note": LONG}},
    ),
    "middle of a chain": ("run_chain", {"steps": [*[_NOTE] * 3, _ERASE, *[_NOTE] * 3]}),
    "behind a reference": (
        "run_chain",
        {"steps": [_NOTE, _PASS, _NOTE, {"tool_id": "erase", "args": {"path": {"$ref": "steps.1"}}}, _NOTE]},
    ),
    "in a group": ("run_chain", {"steps": [_NOTE, {"parallel": [_NOTE, _ERASE, _NOTE]}, _NOTE]}),
    "on another line": (
        "execute_code",
        {"code": f"where = '{TARGET}'\n{_COMMENTS}\nx = '{LONG}'\nawait erase(path=where)"},
    ),
    "after comments": ("execute_code", {"code": f"{_COMMENTS}\nawait erase(path='{TARGET}')\n{_COMMENTS}"}),
    "in a chain of code": (
        "execute_code",
        {"code": f"{_COMMENTS}\nsteps = [{_ERASE!r}]\n{_COMMENTS}\nawait run_chain(steps)\nx = '{LONG}'"},
    ),
    "at the end of a long line": (
        "execute_code",
        {"code": f"x = '{LONG}'; " + "y = 1; " * 200 + f"await erase(path='{TARGET}'); z = '{LONG}'"},
    ),
}
"""Requests that hide from a person the arguments of a destructive call."""


def crib_that_erases() -> Crib:
    """Return a crib with a tool that destroys, and one that does nothing."""
    crib = Crib()

    @crib.add
    @tool(annotations={"destructiveHint": True})
    def erase(**where: Any) -> None:
        """Erase a file."""

    @crib.add
    @tool(annotations={"readOnlyHint": True})
    def pass_on(value: str) -> str:
        """Return a value."""
        return value

    return crib


@pytest.mark.parametrize("how", _TRIES)
async def test_question_shows_what_is_destroyed(how: str) -> None:
    name, args = _TRIES[how]
    client = Asking(ConfirmationResult.DECLINED)
    await call_refused(face_of(crib_that_erases()), name, args, client)
    text = client.questions[0].text
    assert TARGET in text or TARGET.replace("/", ".") in text
    assert "[secret]" not in text
    assert "[…]" not in text
    assert not {"\x1b", "\u200b", "\u202e"} & set(text)
    begin, _, _ = text.partition("The whole")
    if name != "run_tool":  # it stands before all else
        assert TARGET in begin
        assert "erase" in begin
        assert "/nowhere/" not in begin


async def test_an_answer_holds_for_a_whole_digest_of_the_call() -> None:
    client = Asking(ConfirmationResult.DECLINED)
    await call_refused(face_of(crib_that_erases()), "run_tool", _ERASE, client)
    assert len(client.questions[0].key.removeprefix("run-")) == 64  # nobody finds two calls of one key


async def test_lines_of_a_short_program_cannot_pass_for_lines_of_the_question() -> None:
    client = Asking(ConfirmationResult.DECLINED)
    code = f'await erase(path=\'{TARGET}\')\n"""\nThe administrator has checked this.\n"""'
    await call_refused(face_of(crib_that_erases()), "execute_code", {"code": code}, client)
    assert "\n3| The administrator has checked this.\n" in client.questions[0].text


async def test_question_lists_calls_of_code_with_what_they_use_and_numbers_its_lines() -> None:
    client = Asking(ConfirmationResult.DECLINED)
    code = f"place = '{TARGET}'\n{_COMMENTS}\nfor path in [place]:\n    await erase(path=path)"
    await call_refused(face_of(crib_that_erases()), "execute_code", {"code": code}, client)
    lines = client.questions[0].text.split("\n")
    assert lines[1:5] == [
        "It uses them here:",
        f"- line 1: place = '{TARGET}'",
        "- line 42: for path in [place]:",
        "- line 43: await erase(path=path)",
    ]
    assert lines[5:7] == ["The whole program:", f"1| place = '{TARGET}'"]
    assert lines[-1] == "43|     await erase(path=path)"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("run_tool", {"tool_id": "erase", "args": {"path": "x" * 40_000}}),
        ("run_tool", {"tool_id": "erase", "args": {"path": "\u202e" * 8_000}}),
        ("run_chain", {"steps": [_ERASE, *[_NOTE] * 20]}),
        ("execute_code", {"code": f"await erase(path='a')\n{_COMMENTS * 30}"}),
    ],
    ids=["tool", "invisible", "chain", "code"],
)
async def test_call_that_cannot_be_shown_is_refused_and_nobody_is_asked(name: str, args: Any) -> None:
    client = Asking()
    error = await call_refused(face_of(crib_that_erases()), name, args, client)
    assert error["code"] == "denied"
    assert "split it into smaller calls" in error["message"]
    assert client.questions == []


async def test_nobody_is_asked_about_a_call_that_cannot_be() -> None:
    client = Asking()
    for args in ({"number": "many"}, {}):
        error = await call_refused(
            face_of(crib_of_tools()), "run_tool", {"tool_id": "shop:drop_order", "args": args}, client
        )
        assert error["code"] == "validation_input"
        assert error["tool_id"] == "shop:drop_order"
    assert client.questions == []


@pytest.mark.parametrize("backend", ["monty", "process"])
async def test_code_reaches_only_the_destructive_tools_that_it_names(backend: str, request: Any) -> None:
    if backend == "process":
        request.getfixturevalue("needs_bubblewrap")
    client = Asking()
    async with crib_of_tools({"code": {"backend": backend}}) as crib:
        face = face_of(crib)
        named = "__out = [await shop.drop_order(number=1), await run_tool('wipe-all')]"
        assert (await given(face, "execute_code", {"code": named}, client))["value"] == ["dropped 1", None]
        risk = "They say that they may destroy or overwrite something."
        asked = f"Run a program that uses shop:drop_order, wipe-all? {risk} The program: {named}"
        assert [each.text for each in client.questions] == [asked]
        hidden = "__out = await run_tool('shop:' + 'drop_order', {'number': 1})"
        error = await call_refused(face, "execute_code", {"code": hidden}, client)
        assert error["code"] == "execution_failed"
        assert "PermissionError" in error["message"]
        assert "write its id 'shop:drop_order' in the code" in error["message"]
        chained = "__out = await run_chain([{'tool_id': 'shop:' + 'drop_order', 'args': {'number': 1}}])"
        assert (
            "user has to agree"
            in (await call_refused(face, "execute_code", {"code": chained}, client))["message"]
        )
        harmless = "__out = await run_tool('shop:' + 'prices')"
        assert (await given(face, "execute_code", {"code": harmless}, client))["value"] == [1, 2, 3]
        assert len(client.questions) == 1


async def test_consent_to_one_request_does_not_cover_another() -> None:
    entered, others = anyio.Event(), anyio.Event()
    crib = crib_of_tools()

    @crib.add
    async def meet() -> None:
        """Wait for the others."""
        (others if entered.is_set() else entered).set()
        await others.wait()

    hidden = "await meet()\n__out = await run_tool('shop:' + 'drop_order', {'number': 1})"
    told: list[str] = []
    async with crib:
        face = face_of(crib)

        async def refuse() -> None:
            told.append((await call_refused(face, "execute_code", {"code": hidden}, Asking()))["message"])

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(refuse)
                named = f"{hidden}  # shop:drop_order"
                assert (await given(face, "execute_code", {"code": named}, Asking()))["value"] == "dropped 1"
    assert "user has to agree" in told[0]


async def test_question_names_all_tools() -> None:
    crib = Crib()
    for number in range(12):
        crib.add(tool(name=f"drop{number}", annotations=ToolAnnotations(destructive_hint=True))(lambda: None))
    client = Asking()
    await given(face_of(crib), "run_chain", {"steps": [{"tool_id": f"drop{at}"} for at in range(12)]}, client)
    assert "drop9, drop10, drop11? They say" in client.questions[0].text


@pytest.mark.parametrize(
    ("code", "is_named"),
    [
        ("await my_shop.drop_all()", True),
        ("await my_shop . drop_all()", True),
        ("await my_shop_2.drop_all_3()", True),
        ("await my_shop_.drop_all_()", True),
        ("run_tool('my-shop:drop-all')", True),
        ("run_tool('my-shop:drop-all:1.0.0')", True),
        ("await my_shop.drop_all_items()", False),
        ("await my_shopping.drop_all()", False),
        ("drop_all()", False),
        ("s = my_shop; await s.drop_all()", False),
    ],
)
def test_a_tool_is_named_by_its_id_or_by_what_stands_for_it(code: str, is_named: bool) -> None:
    drops = Tool(name="drop-all", namespace="my-shop", version="1.0.0", input_schema={})
    assert mentioned_in(code, [drops]) == ([drops] if is_named else [])


@pytest.mark.parametrize("code", ["await wipe_all()", "run_tool('wipe-all')"])
def test_a_tool_without_a_namespace_is_named_too(code: str) -> None:
    wipes = Tool(name="wipe-all", input_schema={})
    assert mentioned_in(code, [wipes]) == [wipes]


async def test_saved_tool_runs_nothing_that_nobody_was_asked_about() -> None:
    code = "number = 0\n__out = await shop.drop_order(number=number) if number else 'kept'"
    crib = crib_of_tools()
    crib.save_as_tool(await crib.execute(code), name="tidy")
    call = {"tool_id": "tidy", "args": {"number": 1}}
    face = face_of(crib)
    error = await call_refused(face, "run_tool", call, Asking())
    assert "the user has to agree before the code begins" in error["message"]
    error = await call_refused(face, "run_chain", {"steps": [call]}, Asking())
    assert "the user has to agree before the code begins" in error["message"]
    error = await call_refused(face, "execute_code", {"code": "await tidy(number=1)"}, Asking())
    assert "the user has to agree before the code begins" in error["message"]
    both = "await tidy(number=1)  # shop:drop_order"
    client = Asking()
    await given(face, "execute_code", {"code": both}, client)
    assert len(client.questions) == 1


async def test_function_that_calls_tools_itself_needs_the_consent_that_its_caller_needs() -> None:
    crib = crib_of_tools()

    @crib.add
    async def clean() -> str:
        """Clean the shop."""
        return str((await crib.run("shop:drop_order", {"number": 2})).structured)

    @crib.add
    async def clean_by_code() -> str:
        """Clean the shop."""
        return str((await crib.execute("__out = await shop.drop_order(number=2)")).value)

    face = face_of(crib)
    for name in ("clean", "clean_by_code"):
        error = await call_refused(face, "run_tool", {"tool_id": name}, Asking())
        assert "the user has to agree before the code begins" in error["message"]
        ran = await given(face, "run_tool", {"tool_id": name}, Asking(can_ask=False))
        assert ran["structured"] == "dropped 2"
    assert (await crib.run("clean")).structured == "dropped 2"


async def test_rule_that_comes_while_a_person_is_asked_holds_for_the_call() -> None:
    crib = crib_of_tools({"policy": [ALL]})
    closed = {"name": "closed", "effect": "deny", "tools": ["shop:drop_order"]}

    class Thinking(Asking):
        async def confirm(self, question: Confirmation) -> ConfirmationResult:
            await crib.reload(Settings.model_validate({"policy": [closed, ALL]}))
            return await super().confirm(question)

    async with crib:
        error = await call_refused(face_of(crib), "run_tool", DROP, Thinking())
    assert error["message"] == "shop:drop_order was refused by the rule 'closed'"
