"""Kept results as arguments of other calls: by a handle, so that their values never pass the model."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gateway.frontends.meta.asking import Asking, crib_of_tools

from toolcrib import Crib
from toolcrib.crib import GatewaySettings
from toolcrib.execution import CallContext, Outcome, Principal
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.results import PREFIX, KeptResult, KeptResults
from toolcrib.model import LocalBackend
from toolcrib.runs import RunCall

pytestmark = pytest.mark.anyio


class Ann(Asking):
    principal = Principal(issuer="tokens", subject="ann", client="mcp:test")


class Bob(Asking):
    principal = Principal(issuer="tokens", subject="bob", client="mcp:test")


async def answer(face: MetaTools, name: str, client: Asking | None = None, /, **args: Any) -> dict[str, Any]:
    result = await face.call(name, args, client or Ann())  # type: ignore[arg-type]
    return dict(result.structured_content or {})


def crib_of_files(config: Any = None, **options: Any) -> tuple[Crib, list[Any]]:
    crib, got = crib_of_tools(config, **options), list[Any]()

    @crib.add(namespace="files")
    def read(lines: int) -> dict[str, Any]:
        """Read a file."""
        return {"text": "x" * 2000, "lines": list(range(lines))}

    @crib.add(namespace="files")
    def write(text: str, name: str = "") -> int:
        """Write a file."""
        got.append((text, name))
        return len(text)

    @crib.add(namespace="files")
    def take(value: dict[str, Any]) -> dict[str, Any]:
        """Take anything."""
        got.append(value)
        return value

    return crib, got


def face_over(crib: Crib, kept: KeptResults | None = None) -> MetaTools:
    return MetaTools(crib, GatewaySettings(result_bytes=1024), kept=kept)


async def keep(face: MetaTools, client: Asking | None = None) -> str:
    """Return the address of a kept result."""
    told = await answer(face, "run_tool", client, tool_id="files:read", args={"lines": 3})
    uri: str = told["truncated"]["uri"]
    return uri


async def test_a_kept_result_or_a_part_of_it_is_an_argument() -> None:
    crib, got = crib_of_files()
    face = face_over(crib)
    uri = await keep(face)
    handle = {"$kept": uri, "path": "/text"}
    ran = await answer(face, "run_tool", tool_id="files:write", args={"text": handle, "name": "a"})
    assert ran["structured"] == 2000
    await answer(face, "run_tool", tool_id="files:take", args={"value": {"$kept": uri.removeprefix(PREFIX)}})
    await answer(face, "run_tool", tool_id="files:write", args=json.dumps({"text": handle}))
    assert got[0] == ("x" * 2000, "a")
    assert got[1] == {"text": "x" * 2000, "lines": [0, 1, 2]}
    assert got[2] == ("x" * 2000, "")


async def test_chains_and_code_take_handles() -> None:
    crib, got = crib_of_files()
    face = face_over(crib)
    handle = {"$kept": await keep(face), "path": "/text"}
    steps = [{"tool_id": "files:write", "args": {"text": handle, "name": "chain"}}]
    assert (await answer(face, "run_chain", steps=steps))["final"] == 2000
    code = f"from typing import Any\nh: Any = {handle!r}\n__out = await files.write(text=h, name='code')"
    assert (await answer(face, "execute_code", code=code)).get("value") == 2000
    assert [name for _, name in got] == ["chain", "code"]


@dataclass
class Point:
    x: float
    y: float


@pytest.mark.parametrize(
    "call",
    [
        "files.total(prices=HANDLE)",
        "files.total(HANDLE)",
        "files.total(\n    factor=1,\n    prices={\n        '$kept': URI,\n        'path': '/lines',\n    },\n)",
        "files.total(prices=[FIRST, 1, 2])",
        "files.total(**{'prices': HANDLE})",
        "files.place(at={'x': FIRST, 'y': 3})",
        "files.place(at=HANDLED)",
    ],
)
@pytest.mark.parametrize("form", ["written in the call", "assigned before"])
async def test_handle_in_code_passes_the_type_check_for_any_parameter(call: str, form: str) -> None:
    crib, _ = crib_of_files()

    @crib.add(namespace="files")
    def total(prices: list[float], factor: int = 1) -> float:
        """Add prices."""
        return sum(prices) * factor

    @crib.add(namespace="files")
    def place(at: Point) -> float:
        """Add coordinates."""
        return at.x + at.y

    @crib.add(namespace="files")
    def points() -> dict[str, Any]:
        """List points."""
        return {"text": "x" * 2000, "at": {"x": 0, "y": 3}}

    face = face_over(crib)
    uri = await keep(face)
    told = await answer(face, "run_tool", tool_id="files:points")
    values = {
        "HANDLED": {"$kept": told["truncated"]["uri"], "path": "/at"},
        "HANDLE": {"$kept": uri, "path": "/lines"},
        "FIRST": {"$kept": uri, "path": "/lines/0"},
    }
    head = ""
    for name, value in values.items():
        if form == "assigned before":
            head += f"{name.lower()} = {value!r}\n"
            call = call.replace(name, name.lower())
        call = call.replace(name, repr(value))
    call = call.replace("URI", repr(uri))
    told = await answer(face, "execute_code", code=f"{head}__out = await {call}")
    assert told.get("value") == 3, told


async def test_handle_for_all_arguments_is_refused_with_what_to_write() -> None:
    crib, got = crib_of_files()
    face = face_over(crib)
    handle = {"$kept": await keep(face)}
    for told in (
        await answer(face, "run_tool", tool_id="files:take", args=handle),
        await answer(face, "run_tool", tool_id="files:take", args=json.dumps(handle)),
    ):
        assert "a handle stands for one argument" in json.dumps(told)
        assert "KeptHandle" not in json.dumps(told)
    assert got == []


async def test_type_check_still_refuses_other_objects() -> None:
    crib, _ = crib_of_files()
    for value in ("{'a': 'b'}", "5"):
        told = await answer(face_over(crib), "execute_code", code=f"__out = await files.write(text={value})")
        assert "'text' must be" in json.dumps(told)


async def test_the_value_is_checked_against_the_schema_of_the_tool() -> None:
    crib, got = crib_of_files()
    face = face_over(crib)
    handle = {"$kept": await keep(face), "path": "/lines"}
    for name, args in (
        ("run_tool", {"tool_id": "files:write", "args": {"text": handle}}),
        ("run_chain", {"steps": [{"tool_id": "files:write", "args": {"text": handle}}]}),
    ):
        error = (await answer(face, name, **args))["error"]
        assert "/text" in error["message"]
        assert "must be a string" in error["message"]
    assert got == []


async def test_expired_result_and_anothers_result_give_the_same_error() -> None:
    crib, got = crib_of_files()
    face = face_over(crib)
    uri = await keep(face, Ann())
    unknown = f"{PREFIX}{'a' * 32}"
    messages = []
    for client, name in ((Bob(), uri), (Bob(), unknown), (Ann(), unknown)):
        told = await answer(face, "run_tool", client, tool_id="files:take", args={"value": {"$kept": name}})
        assert told["error"]["code"] == "validation_input"
        messages.append(told["error"]["message"].replace(name, "ID"))
    assert len(set(messages)) == 1
    assert "nothing is kept" in messages[0]
    assert got == []


async def test_the_audit_names_the_handle_and_not_the_value(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    crib, _ = crib_of_files({"audit": {"path": str(path), "arguments": True}})
    async with crib:
        face = face_over(crib)
        handle = {"$kept": await keep(face), "path": "/text"}
        await answer(face, "run_tool", tool_id="files:write", args={"text": handle})
        steps = [{"tool_id": "files:write", "args": {"text": handle}}]
        await answer(face, "run_chain", steps=steps)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    shown = [each["gen_ai.tool.call.arguments"] for each in records[-2:]]
    assert shown == [{"text": handle}] * 2
    assert "xxxx" not in path.read_text()


class CountedReads(KeptResults):
    """Kept results that count how often they are read."""

    reads = 0

    def read(self, uri: str, principal: Principal | None = None) -> KeptResult | None:
        self.reads += 1
        return super().read(uri, principal)


class Outcomes:
    """An observer that keeps how each call ended."""

    def __init__(self) -> None:
        self.ended: list[Outcome] = []

    def begin(self, _tool_id: str, _principal: Principal | None) -> Any:
        return self.ended.append


FAILURES: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing is kept": ("files:write", {"text": {"$kept": "none"}, "name": "a"}),
    "no such tool": ("files:wirte", {"text": {"$kept": "none"}}),
    "invalid": ("files:write", {"text": {"$kept": "none"}, "name": 5}),
}


@pytest.mark.parametrize("why", FAILURES)
async def test_audit_of_a_call_that_fails_has_the_handle_as_it_was_written(tmp_path: Path, why: str) -> None:
    tool_id, args = FAILURES[why]
    path = tmp_path / "audit.jsonl"
    outcomes = Outcomes()
    settings = {"audit": {"path": str(path), "arguments": True}}
    crib, _ = crib_of_files(settings, observers=[outcomes])
    async with crib:
        told = await answer(face_over(crib), "run_tool", tool_id=tool_id, args=args)
        assert "error" in told
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["gen_ai.tool.call.arguments"] == args
    assert [each.raw_args for each in outcomes.ended] == [args]


@pytest.mark.parametrize("effect", ["deny", "allow"])
async def test_denied_call_reads_nothing_that_is_kept(effect: str, tmp_path: Path) -> None:
    rules = [
        {"name": "no writes", "tools": ["files:write"], "effect": effect, "reason": "not here"},
        {"name": "rest", "tools": ["files:read"], "effect": "allow"},
    ]
    path = tmp_path / "audit.jsonl"
    crib, got = crib_of_files({"policy": rules, "audit": {"path": str(path), "arguments": True}})
    async with crib:
        kept = CountedReads()
        face = face_over(crib, kept)  # a crib that hides nothing: the runner itself refuses
        args = {"text": {"$kept": await keep(face), "path": "/text"}}
        told = await answer(face, "run_tool", tool_id="files:write", args=args)
    assert kept.reads == len(got) == (effect == "allow")
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["gen_ai.tool.call.arguments"] == args
    if effect == "deny":
        assert (told["error"]["code"], last["toolcrib.policy.effect"]) == ("denied", "deny")
        assert "not here" in told["error"]["message"]


async def test_journal_of_a_durable_chain_has_the_handle_as_it_was_written() -> None:
    crib, got = crib_of_files()
    calls: list[RunCall] = []

    @crib.add
    async def look() -> None:
        """Read the journal."""
        (run,) = await crib.runs()
        calls.extend((await crib.describe_run(run.id)).calls)

    handle = {"$kept": "it", "path": "/text"}
    steps = [{"tool_id": "files:write", "args": {"text": handle, "name": "a"}}, {"tool_id": "look"}]

    async def read(_: str) -> tuple[str, str]:
        return json.dumps({"text": "secret"}), "application/json"

    context = CallContext(read_kept=read)
    async with crib:
        await crib.run_chain(steps, durable=True, context=context)
    assert got == [("secret", "a")]
    assert calls[0].args == {"text": handle, "name": "a"}


async def test_rules_decide_about_the_value() -> None:
    rules = [
        {
            "name": "short",
            "who": ["*"],
            "tools": ["files:write"],
            "args": {"properties": {"text": {"maxLength": 10}}},
            "effect": "allow",
        },
        {"name": "rest", "who": ["*"], "tools": ["files:read"], "effect": "allow"},
    ]
    crib, got = crib_of_files({"policy": rules})
    view = crib.seen_by(Ann.principal)
    face = MetaTools(view, GatewaySettings(result_bytes=1024))
    handle = {"$kept": await keep(face), "path": "/text"}
    told = await answer(face, "run_tool", tool_id="files:write", args={"text": handle})
    assert told["error"]["code"] == "denied"
    assert got == []


@pytest.mark.parametrize(
    "value",
    [
        {"$literal": {"$kept": "x"}},
        {"$kept": "x", "other": 1},
        {"$literal": 5},
        {"inner": [{"$literal": {"$kept": "x", "path": "/a"}}]},
    ],
)
async def test_an_object_that_looks_like_a_handle_can_be_said(value: dict[str, Any]) -> None:
    crib, got = crib_of_files()
    told = await answer(face_over(crib), "run_tool", tool_id="files:take", args={"value": value})
    assert "error" not in told
    plain = {"$literal": value.get("$literal")} if value.get("$literal") == 5 else value
    if "inner" in value:
        plain = {"inner": [{"$kept": "x", "path": "/a"}]}
    elif plain is value and "$literal" in value:
        plain = value["$literal"]
    assert got == [plain]


async def test_a_result_that_looks_like_a_handle_is_passed_on_by_a_chain_as_it_is() -> None:
    crib, got = crib_of_files()
    face = face_over(crib)
    uri = await keep(face)
    steps = [
        {"tool_id": "files:take", "args": {"value": {"$literal": {"a": {"$kept": uri}}}}, "id": "one"},
        {"tool_id": "files:take", "args": {"value": {"$ref": "steps.one"}}},
    ]
    told = await answer(face, "run_chain", steps=steps)
    assert "error" not in told, told
    assert got == [{"a": {"$kept": uri}}] * 2


async def test_a_tool_with_a_parameter_of_that_name_gets_it_as_it_is() -> None:
    crib, got = crib_of_files()
    schema = {"type": "object", "properties": {"$kept": {"type": "string"}}}
    own = crib["files:take"].replace(name="own", input_schema={"properties": {"value": schema}})
    crib.add(own.replace(backend=LocalBackend(name="files:take")))
    face = face_over(crib)
    await answer(face, "run_tool", tool_id="files:own", args={"value": {"$kept": "mine"}})
    assert got == [{"$kept": "mine"}]


@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        ({"$kept": 5}, "a handle is"),
        ({"$kept": "URI", "path": "text"}, "a handle is"),
        ({"$kept": "URI", "path": "/none"}, "has nothing at '/none'"),
        ({"$kept": "IMAGE"}, "neither text nor JSON"),
        ([{"$kept": "URI"}] * 40, "at most 32 kept results"),
        ([{"$kept": "LARGE"}] * 3, "bytes together"),
    ],
)
async def test_a_handle_that_cannot_be_used_is_refused_with_the_reason(handle: Any, reason: str) -> None:
    kept = KeptResults()
    crib, got = crib_of_files()
    face = face_over(crib, kept)
    names = {
        "URI": await keep(face),
        "IMAGE": kept.keep(b"png", "image/png", Ann.principal) or "",
        "LARGE": kept.keep("x" * 4_000_000, "text/plain", Ann.principal) or "",
    }
    text = json.dumps({"value": {"a": handle}})
    for word, uri in names.items():
        text = text.replace(f'"{word}"', json.dumps(uri))
    told = await answer(face, "run_tool", tool_id="files:take", args=json.loads(text))
    assert reason in told["error"]["message"]
    assert got == []


async def test_a_chain_without_a_gateway_has_no_kept_results() -> None:
    crib, got = crib_of_files()
    with pytest.raises(Exception, match="nothing is kept as 'x'"):
        await crib.run_chain([{"tool_id": "files:take", "args": {"value": {"$kept": "x"}}}])
    assert got == []
