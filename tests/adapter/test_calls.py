"""Calls and results in the format of each provider, judged by the vendors' own types."""

from typing import Any

import pytest
from adapter import oracles
from adapter.support import CALL_ID, REGISTRY, accept_call, convert, obj

from toolcrib.adapter import Bundle, Conversion, ToolCall
from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError, ToolcribError
from toolcrib.model import LocalBackend, RunResult, Tool

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "mcp": ("mcp", {}),
    "openai chat": ("openai", {}),
    "openai responses": ("openai", {"api": "responses"}),
    "anthropic": ("anthropic", {}),
    "gemini": ("gemini", {}),
    "a2a": ("a2a", {}),
}
NEEDS_ID = ("openai chat", "openai responses", "anthropic")
SCHEMA = obj(q={"type": "string"}) | {"required": ["q"]}
RAW = {"name": "find", "namespace": "shop", "version": "1.2.0", "inputSchema": SCHEMA}
PIXEL = "iVBORw0KGgo="
MCP_RESULT = {
    "content": [
        {"type": "text", "text": "hi"},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": PIXEL, "mimeType": "image/png"}},
        {"type": "resource_link", "uri": "https://x.test/a", "name": "a"},
        {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    ]
}


def made(name: str) -> Conversion:
    target, options = FORMATS[name]
    return REGISTRY.convert(RAW, source="mcp", target=target, **options)


def accept_result(name: str, result: Any) -> None:
    match name:
        case "mcp":
            oracles.mcp_result(result, era="2025-11-25")
        case "openai chat":
            oracles.openai_chat_result(result)
        case "openai responses":
            oracles.openai_responses_result(result)
        case "anthropic":
            oracles.anthropic_result(result)
        case "gemini":
            oracles.gemini_result(result["functionResponse"])
        case _:
            oracles.a2a_task(result)


def run_result(**given: Any) -> RunResult:
    return RunResult(tool=Tool.from_json(RAW), backend=LocalBackend(name="find"), duration=0.1, **given)


RESULTS: dict[str, Any] = {
    "an object": {"n": 1, "ß": [None]},
    "a text": "plain text",
    "an empty text": "",
    "a list": [1, {"a": None}],
    "nothing": None,
    "a number": 1.5,
    "false": False,
    "an MCP result": MCP_RESULT,
    "an MCP result without content": {"content": [], "structuredContent": {"a": 1}},
    "an MCP result with both": {
        "content": [{"type": "text", "text": '{"a":1}'}],
        "structuredContent": {"a": 1},
    },
    "an MCP error": {"content": [{"type": "text", "text": "no such file"}], "isError": True},
    "an exception": ValueError("no such file"),
    "an exception without words": KeyError(),
    "one of ours": ConversionError("bad", "mcp", "get"),
    "an object with content of its own": {"content": [], "total": 3},
    "an object with blocks of its own": {"content": [{"type": "paragraph", "text": "p"}], "total": 3},
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_result_is_written_as_the_vendor_takes_it(name: str, result: Any) -> None:
    written = made(name).encode_result(result, CALL_ID)
    accept_result(name, written)


@pytest.mark.parametrize("name", FORMATS)
def test_the_result_of_a_run_is_its_value_or_what_the_server_sent(name: str) -> None:
    conversion = made(name)
    local = conversion.encode_result(run_result(structured={"n": 1}), CALL_ID)
    assert local == conversion.encode_result({"n": 1}, CALL_ID)
    remote = conversion.encode_result(run_result(structured={"n": 1}, mcp_result=MCP_RESULT), CALL_ID)
    assert remote == conversion.encode_result(MCP_RESULT, CALL_ID)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "value", [{"content": [], "total": 3}, {"content": [{"type": "text", "text": "t"}], "total": 3}]
)
def test_a_value_that_only_looks_like_an_mcp_result_is_written_whole(name: str, value: Any) -> None:
    assert "total" in repr(made(name).encode_result(run_result(structured=value), CALL_ID))
    assert "total" in repr(made(name).encode_result(value, CALL_ID))


def test_an_mcp_result_is_the_same_in_mcp() -> None:
    conversion = made("mcp")
    for result in (
        MCP_RESULT,
        {"content": [], "structuredContent": {"a": 1}},
        {"content": [], "structuredContent": [1, 2]},
        {"content": [{"type": "text", "text": "no"}], "isError": True},
        {"content": [{"type": "text", "text": "t"}], "_meta": {"x.test/a": 1}},
        {"content": [{"type": "text", "text": "t"}], "structuredContent": {"a": 1}, "isError": True},
    ):
        assert conversion.encode_result(result) == result


def test_errors_are_said_to_be_some_where_the_format_can() -> None:
    error = ValueError("no such file")
    assert made("mcp").encode_result(error) == {
        "content": [{"type": "text", "text": "ValueError: no such file"}],
        "isError": True,
    }
    assert made("anthropic").encode_result(error, CALL_ID)["is_error"] is True
    assert made("gemini").encode_result(error)["functionResponse"]["response"] == {
        "error": "ValueError: no such file"
    }
    assert made("a2a").encode_result(error)["status"]["state"] == "TASK_STATE_FAILED"
    said = "Error: ValueError: no such file"
    assert made("openai chat").encode_result(error, CALL_ID)["content"] == said


def test_images_reach_the_models_that_see() -> None:
    content = made("anthropic").encode_result(MCP_RESULT, CALL_ID)["content"]
    assert content[1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    output = made("openai responses").encode_result(MCP_RESULT, CALL_ID)["output"]
    assert output[1] == {
        "type": "input_image",
        "image_url": f"data:image/png;base64,{PIXEL}",
        "detail": "auto",
    }
    assert PIXEL not in made("openai chat").encode_result(MCP_RESULT, CALL_ID)["content"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "result",
    [object(), {1: 2}, float("nan"), {"a": {1, 2}}, b"x"],
    ids=["object", "number as key", "nan", "set", "bytes"],
)
def test_a_result_that_is_no_json_is_refused(name: str, result: Any) -> None:
    with pytest.raises(ConversionError):
        made(name).encode_result(result, CALL_ID)


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_is_written_as_the_vendor_takes_it_and_read_again(name: str) -> None:
    conversion = made(name)
    call = conversion.encode_call({"q": "ß☃"}, CALL_ID)
    accept_call(FORMATS[name][0], call)
    wanted = None if name == "mcp" else CALL_ID
    assert conversion.decode_call(call) == ToolCall("shop:find:1.2.0", {"q": "ß☃"}, wanted)


@pytest.mark.parametrize("name", NEEDS_ID)
def test_a_format_that_needs_the_id_of_a_call_says_so(name: str) -> None:
    conversion = made(name)
    with pytest.raises(ConversionError, match="call_id"):
        conversion.encode_result("x")
    with pytest.raises(ConversionError, match="call_id") as caught:
        conversion.encode_call({"q": "x"})
    assert isinstance(caught.value, ToolcribError)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in NEEDS_ID])
def test_a_format_that_needs_no_id_goes_without(name: str) -> None:
    conversion = made(name)
    accept_result(name, conversion.encode_result({"n": 1}))
    accept_call(FORMATS[name][0], conversion.encode_call({"q": "x"}))


def test_the_wire_forms_around_a_call_are_read_too() -> None:
    args = {"q": "x"}
    rpc = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "find", "arguments": args}}
    assert made("mcp").decode_call(rpc) == ToolCall("shop:find:1.2.0", args, "7")
    assert made("mcp").decode_call({"name": "find"}).args == {}
    assert made("gemini").decode_call({"name": "find", "args": args}).args == args
    assert made("gemini").decode_call({"function_call": {"name": "find"}}).args == {}
    empty = {"id": "1", "type": "function", "function": {"name": "find", "arguments": ""}}
    assert made("openai chat").decode_call(empty).args == {}


RAWS = [{"name": name, "inputSchema": SCHEMA} for name in ("find", "get issue", "get_issue", "list")]


@pytest.mark.parametrize("name", FORMATS)
def test_a_bundle_tells_whose_call_came_back(name: str) -> None:
    target, options = FORMATS[name]
    bundle = Bundle(REGISTRY.convert_many(RAWS, source="mcp", target=target, **options))
    for raw, conversion in zip(RAWS, bundle.conversions, strict=True):
        call = conversion.encode_call({"q": "x"}, CALL_ID)
        assert bundle.find(call) is conversion
        assert bundle.decode_call(call).tool_id == raw["name"]
    tools = bundle.tools
    assert len(tools[0]["functionDeclarations"] if name == "gemini" else tools) == len(RAWS)


def test_a_bundle_suggests_the_nearest_name() -> None:
    bundle = Bundle(REGISTRY.convert_many(RAWS, source="mcp", target="anthropic"))
    with pytest.raises(ConversionError, match="no tool is called 'fnd'; did you mean 'find'"):
        bundle.decode_call({"type": "tool_use", "id": "1", "name": "fnd", "input": {}})


def test_a_bundle_of_nothing_and_one_of_twins() -> None:
    assert Bundle([]).tools == []
    with pytest.raises(ConversionError, match="no tools"):
        Bundle([]).decode_call({})
    one = made("mcp")
    with pytest.raises(ConversionError, match="share a name"):
        Bundle([one, one])


def test_a_bundle_puts_the_tools_of_a_namespace_together() -> None:
    raws = [RAW, {**RAW, "name": "sell"}, {"name": "other", "inputSchema": SCHEMA}]
    found = REGISTRY.convert_many(raws, source="mcp", target="openai", api="responses", namespace=True)
    bundle = Bundle(found)
    first, other = bundle.tools
    oracles.openai_responses_namespace(first)
    oracles.openai_responses_tool(other)
    assert [tool["name"] for tool in first["tools"]] == ["find", "sell"]
    assert [len(tool["tools"]) for tool in bundle.tools if "tools" in tool] == [2]
    assert found[0].payload["tools"] != first["tools"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_malformed_value_is_refused_with_words_for_the_model(target: str) -> None:
    conversion = convert(obj(m={"type": "object", "additionalProperties": {"type": "integer"}}), target)
    with pytest.raises(ConversionError):
        conversion.encode_args({"m": {1, 2}})
    with pytest.raises(ConversionError):
        conversion.encode_args({1: 2})


def test_a_bundle_answers_the_calls_it_reads() -> None:
    bundle = Bundle(REGISTRY.convert_many([RAW, {**RAW, "namespace": "b"}], source="mcp", target="anthropic"))
    call = bundle.decode_call(
        {"type": "tool_use", "id": "c1", "name": bundle.conversions[1].name, "input": {}}
    )
    assert bundle.encode_result(call, {"a": 1})["tool_use_id"] == "c1"
    with pytest.raises(ConversionError, match="no tool of this bundle has the id 'other'"):
        bundle.encode_result(ToolCall("other", {}), 1)


def test_tools_of_a_bundle_are_a_copy() -> None:
    bundle = Bundle(REGISTRY.convert_many([RAW], source="mcp", target="anthropic"))
    bundle.tools[0]["name"] = "changed"
    assert bundle.tools[0]["name"] == bundle.conversions[0].name
    assert {tool_id for tool_id, _ in bundle.warnings} <= {bundle.conversions[0].tool_id}


def test_a_bundle_is_for_one_provider_and_one_api() -> None:
    mixed = [REGISTRY.convert(RAW, source="mcp", target="openai", api=api) for api in ("chat", "responses")]
    with pytest.raises(ConversionError, match="different providers or APIs"):
        Bundle(mixed)


def test_a_call_may_be_an_object_of_the_vendor_s_sdk() -> None:
    from openai.types.chat import ChatCompletionMessageFunctionToolCall  # noqa: PLC0415 - takes a second

    converted = REGISTRY.convert(RAW, source="mcp", target="openai")
    function = {"name": converted.name, "arguments": "{}"}
    given = ChatCompletionMessageFunctionToolCall.model_validate(
        {"id": "c1", "type": "function", "function": function}
    )
    assert converted.decode_call(given).call_id == "c1"


@pytest.mark.parametrize(
    ("source", "key", "meant"),
    [
        ("openai", "inputSchema", "mcp"),
        ("openai", "input_schema", "anthropic"),
        ("gemini", "inputSchema", "mcp"),
    ],
)
def test_a_definition_of_another_provider_is_not_read_as_one_without_arguments(
    source: str, key: str, meant: str
) -> None:
    raw = {"name": "t", key: {"type": "object", "properties": {"a": {"type": "string"}}}}
    with pytest.raises(ConversionError, match=f"pass source='{meant}'"):
        REGISTRY.convert(raw, source=source, target="mcp")
