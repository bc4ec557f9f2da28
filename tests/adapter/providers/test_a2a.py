"""Skills of A2A, and calls of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCard, AgentSkill, Message
from adapter import oracles
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapter import A2AAdapter, SchemaFeature
from toolcrib.adapter.providers.anthropic import AnthropicAdapter
from toolcrib.adapter.providers.mcp import McpAdapter
from toolcrib.errors import ConversionError
from toolcrib.model import CanonicalTool

A2A = A2AAdapter()
MCP = McpAdapter()
SKILL: dict[str, Any] = {
    "id": "shop:total:1.2.0",
    "name": "Order total",
    "description": "Adds up an order.",
    "tags": ["money"],
    "examples": ["What does it cost?"],
    "inputModes": ["application/json"],
    "outputModes": ["text/plain"],
    "securityRequirements": [{"schemes": {"oauth": {"list": ["read"]}, "key": {}}}],
}
BARE = {"id": "s", "name": "S", "description": "d", "tags": ["t"]}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
filled = texts.filter(bool)
ids = filled | st.from_regex(r"\A[a-z]{1,3}(:[a-z0-9]{1,3}(:v?[0-9]\.[0-9]\.0)?)?\Z") | st.just("a:b:c:d")
absent = st.sampled_from([None, []])
requirements = st.lists(
    st.sampled_from([{}, {"schemes": None}])
    | st.fixed_dictionaries(
        {
            "schemes": st.dictionaries(
                texts, st.fixed_dictionaries({}, optional={"list": absent | st.lists(texts)}), max_size=3
            )
        }
    ),
    max_size=3,
)
skills = st.fixed_dictionaries(
    {"id": ids, "name": filled, "description": filled, "tags": st.lists(texts, min_size=1, max_size=3)},
    optional={
        "examples": absent | st.lists(texts),
        "inputModes": absent | st.lists(texts),
        "outputModes": absent | st.lists(texts),
        "securityRequirements": absent | requirements,
    },
)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def losses_of(tool: CanonicalTool, **options: Any) -> list[tuple[str, str, str]]:
    return [(loss.part, loss.path, loss.feature) for loss in A2A.translate(tool, **options).warnings]


def tool_of(**fields: Any) -> CanonicalTool:
    given: dict[str, Any] = {"name": "t", "input_schema": {"type": "object"}} | fields
    return CanonicalTool(**given)


def test_a_skill_says_what_it_can_of_a_tool() -> None:
    tool = A2A.to_canonical(SKILL)
    assert (tool.namespace, tool.name, tool.version) == ("shop", "total", "1.2.0")
    assert (tool.display_name, tool.description) == ("Order total", "Adds up an order.")
    assert (tool.tags, tool.examples) == (("money",), ("What does it cost?",))
    assert (tool.input_modes, tool.output_modes) == (("application/json",), ("text/plain",))
    assert tool.security_requirements == ({"oauth": ["read"], "key": []},)
    assert (tool.input_schema, tool.output_schema) == ({"type": "object"}, None)
    assert (tool.source_format, tool.source_meta) == ("a2a", {})


@given(skills)
def test_a_skill_comes_back_as_it_was(skill: dict[str, Any]) -> None:
    conversion = A2A.translate(A2A.to_canonical(skill))
    assert conversion.payload == skill
    assert (conversion.lossless, conversion.name) == (True, skill["id"])


@given(skills, st.dictionaries(texts.map("x-{}".format), values, max_size=3))
def test_a_skill_comes_back_with_what_nobody_knows(skill: dict[str, Any], more: dict[str, Any]) -> None:
    tool = A2A.to_canonical(json.dumps(skill | more))
    assert A2A.from_canonical(CanonicalTool.from_json(json.dumps(tool.to_json()))) == skill | more


@given(skills)
def test_every_generated_skill_is_one(skill: dict[str, Any]) -> None:
    oracles.a2a_skill(skill)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", (None, "a", None)),
        ("n:a", ("n", "a", None)),
        ("n:a:1.0.0-rc.1", ("n", "a", "1.0.0-rc.1")),
        ("n:a:v1.0.0", ("n", "a", "1.0.0")),
        ("n:a:latest", (None, "n:a:latest", None)),
        ("n:a:1", (None, "n:a:1", None)),
        ("n::1.0.0", (None, "n::1.0.0", None)),
        ("a:", (None, "a:", None)),
        ("a:b:1.0.0:d", (None, "a:b:1.0.0:d", None)),
        ("urn:my skill", (None, "urn:my skill", None)),
        ("my skill", (None, "my skill", None)),
    ],
)
def test_an_id_is_taken_apart_only_where_every_part_is_one(text: str, parts: tuple[Any, ...]) -> None:
    tool = A2A.to_canonical(BARE | {"id": text})
    assert (tool.namespace, tool.name, tool.version) == parts
    assert A2A.from_canonical(tool)["id"] == text


def test_changed_fields_replace_those_of_the_source() -> None:
    given = BARE | {"id": "n:s:v1.0.0", "examples": [], "securityRequirements": [{}], "x": 1}
    tool = A2A.to_canonical(given).replace(
        version="2.0.0", examples=("e",), security_requirements=({"k": []},)
    )
    assert A2A.from_canonical(tool) == given | {
        "id": "n:s:2.0.0",
        "examples": ["e"],
        "securityRequirements": [{"schemes": {"k": {}}}],
    }


def test_a_message_of_the_sdk_is_a_skill_too() -> None:
    message = AgentSkill(id="n:s", name="S", description="d", tags=["t"])
    assert A2A.to_canonical(message) == A2A.to_canonical(BARE | {"id": "n:s"})


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, "a skill is a JSON object, not NoneType"),
        ("{", "the skill is not JSON"),
        ({}, "the skill has no id"),
        (BARE | {"id": ""}, "the skill has no id"),
        (
            {"name": 1, "tags": "t"},
            "the skill has no id; its name must be text, not int; its tags must be a list of strings",
        ),
        (BARE | {"examples": [1]}, "its examples must be a list of strings"),
        (
            BARE | {"securityRequirements": [{"schemes": {"oauth": ["read"]}}]},
            "its securityRequirements must be",
        ),
        (BARE | {"securityRequirements": {"schemes": {}}}, "its securityRequirements must be"),
        (
            BARE | {"securityRequirements": [{"schemes": {"a": {"list": [1]}}}]},
            "its securityRequirements must be",
        ),
        (
            {"name": "a", "skills": [BARE]},
            "this is an AgentCard, not a skill; read it with agent_card.provider_from_card",
        ),
    ],
)
def test_malformed_skill_is_a_conversion_error(raw: Any, reason: str) -> None:
    with pytest.raises(ConversionError) as caught:
        A2A.to_canonical(raw)
    assert reason in caught.value.reason
    assert (caught.value.adapter, caught.value.direction) == ("a2a", "to_canonical")


def test_a_card_of_the_sdk_is_refused_like_one_of_json() -> None:
    with pytest.raises(ConversionError, match="provider_from_card"):
        A2A.to_canonical(AgentCard(name="a", skills=[AgentSkill(id="s")]))


@pytest.mark.parametrize(
    ("fields", "skill"),
    [
        ({}, {"id": "t", "name": "t", "description": "t", "tags": ["tool"]}),
        ({"namespace": "n"}, {"id": "n:t", "name": "t", "description": "t", "tags": ["n"]}),
        ({"version": "1.0.0"}, {"id": "t", "name": "t", "description": "t", "tags": ["tool"]}),
        ({"namespace": "n", "version": "v1.0.0"}, {"id": "n:t:1.0.0", "tags": ["n"]}),
        ({"summary": "s", "display_name": "T"}, {"name": "T", "description": "s"}),
        ({"description": "", "display_name": "T"}, {"name": "T", "description": "T"}),
        ({"name": "my tool\n"}, {"id": "my_tool_", "name": "my tool\n"}),
        ({"name": ""}, {"id": "tool", "name": "tool", "description": "tool"}),
    ],
)
def test_a_skill_is_never_without_what_it_must_have(fields: Any, skill: dict[str, Any]) -> None:
    payload = A2A.from_canonical(tool_of(**fields))
    assert payload == payload | skill
    oracles.a2a_skill(payload)


def test_the_id_of_a_version_is_not_that_of_another() -> None:
    tools = [tool_of(namespace="n", version=version) for version in ("1.0.0", "2.0.0", None)]
    assert [A2A.from_canonical(tool)["id"] for tool in tools] == ["n:t:1.0.0", "n:t:2.0.0", "n:t"]


def test_security_is_written_as_a2a_reads_it() -> None:
    payload = A2A.from_canonical(tool_of(security_requirements=({"oauth": ["read"]},)))
    assert payload["securityRequirements"] == [{"schemes": {"oauth": {"list": ["read"]}}}]
    oracles.a2a_skill(payload)


def test_a_name_is_taken_for_the_id_and_told() -> None:
    tool = tool_of(namespace="n", display_name="T", description="d", tags=("x",))
    conversion = A2A.translate(tool, name="other")
    assert (conversion.payload["id"], conversion.name, conversion.tool_id) == ("other", "other", "n:t")
    assert losses_of(tool, name="other") == [
        ("definition", "/name", "name"),
        ("definition", "/namespace", "namespace"),
    ]


def test_there_are_no_options() -> None:
    with pytest.raises(ConversionError, match="there is no option 'strict'; it takes none"):
        A2A.translate(tool_of(), strict=True)


def test_every_keyword_of_both_schemas_is_told_plain_ones_too() -> None:
    schema = {"type": "object", "properties": {"a/b": {"minimum": 1}}, "required": ["a/b"]}
    tool = tool_of(
        display_name="T", description="d", tags=("x",), input_schema=schema, output_schema={"type": "string"}
    )
    assert losses_of(tool) == [
        ("definition", "/outputSchema", "outputSchema"),
        ("input", "", "properties"),
        ("input", "", "required"),
        ("input", "", "type"),
        ("input", "/properties/a~1b", "minimum"),
        ("output", "", "type"),
    ]
    assert not any(A2A.supports_feature(feature) for feature in SchemaFeature)


def test_every_part_that_a_skill_has_no_place_for_is_told() -> None:
    raw = {
        "name": "t",
        "title": "T",
        "description": "d",
        "tags": ["x"],
        "version": "1.0.0",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "https://x.test/i.png"}],
        "_meta": {"examples": ["e"], "x.test/a": 1},
    }
    assert losses_of(MCP.to_canonical(raw)) == [
        ("definition", "/_meta", "_meta"),
        ("definition", "/annotations", "annotations"),
        ("definition", "/icons", "icons"),
        ("definition", "/version", "version"),
    ]


def test_fields_added_to_a_skill_are_reported() -> None:
    raw = {"name": "t", "inputSchema": {"type": "object"}}
    messages = [str(loss) for loss in A2A.translate(MCP.to_canonical(raw)).warnings]
    assert messages == [
        "definition /description, description: is 't' in this format",
        "definition /tags, tags: is ['tool'] in this format",
        "definition /title, title: is 't' in this format",
    ]


mcp_tools = st.fixed_dictionaries(
    {"name": st.from_regex(r"\A[a-z:]{1,5}\Z")},
    optional={
        "title": texts | st.just("T"),
        "description": texts | st.just("d"),
        "tags": st.lists(texts, max_size=2),
        "namespace": st.just("n") | st.none(),
        "version": st.sampled_from(["1.0.0", "v1.0.0"]),
        "_meta": st.dictionaries(
            st.sampled_from(["examples", "inputModes", "category", "securityRequirements", "x"]),
            st.sampled_from(["e", ["e"], [], [{"k": ["s"]}]]),
            max_size=2,
        ),
        "annotations": st.just({"title": "T"}),
        "icons": st.just([]),
        "outputSchema": st.just({"type": "object"}),
    },
)


@given(mcp_tools)
def test_lossless_skill_round_trips(raw: dict[str, Any]) -> None:
    raw = {"inputSchema": {"type": "object"}, **raw}
    conversion = A2A.translate(MCP.to_canonical(raw))
    oracles.a2a_skill(conversion.payload)
    if conversion.lossless:
        assert MCP.from_canonical(A2A.to_canonical(conversion.payload)) == raw


def test_some_tools_of_mcp_are_lossless() -> None:
    raw = {
        "name": "t",
        "title": "T",
        "description": "d",
        "tags": ["x"],
        "namespace": "n",
        "version": "1.0.0",
        "inputSchema": {"type": "object"},
        "_meta": {"examples": ["e"], "securityRequirements": [{"oauth": ["read"]}]},
    }
    conversion = A2A.translate(MCP.to_canonical(raw))
    assert conversion.lossless
    assert MCP.from_canonical(A2A.to_canonical(conversion.payload)) == raw


def test_source_meta_of_another_format_is_ignored() -> None:
    tool = AnthropicAdapter().to_canonical({"name": "t", "input_schema": {"type": "object"}, "strict": True})
    stray = tool.replace(source_meta={**tool.source_meta, "id": "x", "examples": [1]})
    assert A2A.from_canonical(stray) == {"id": "t", "name": "t", "description": "t", "tags": ["tool"]}
    assert ("definition", "/strict", "strict") in losses_of(stray)


def test_conversion_neither_modifies_nor_shares_its_input() -> None:
    given = {**SKILL, "x": {"y": [1]}}
    before = json.dumps(given)
    tool = A2A.to_canonical(given)
    payload = A2A.from_canonical(tool)
    payload["x"]["y"].append(2)
    payload["tags"].append("more")
    assert (json.dumps(given), A2A.from_canonical(tool)) == (before, given)


def test_every_real_tool_is_a_skill_with_everything_told(data: Path) -> None:
    real = oracles.load_real_tools(data)
    for raw in real:
        conversion = A2A.translate(MCP.to_canonical(raw))
        oracles.a2a_skill(conversion.payload)
        oracles.a2a_message(conversion.encode_call({}))
        if raw["inputSchema"] != {"type": "object"}:
            assert any(loss.part == "input" for loss in conversion.warnings)
        assert A2A.from_canonical(A2A.to_canonical(conversion.payload)) == conversion.payload
    assert len(real) == {"tests": 39, "shared": 1163}[data.parent.name]


CALLED = A2A.translate(tool_of(namespace="n", name="total"))


def test_a_call_is_a_message() -> None:
    message = CALLED.encode_call({"a": 1}, "m1")
    assert message == {
        "messageId": "m1",
        "role": "ROLE_USER",
        "parts": [{"data": {"a": 1}}],
        "metadata": {"skillId": "n:total"},
    }
    oracles.a2a_message(message)


def test_a_call_without_an_id_has_the_same_one_each_time() -> None:
    first, again = CALLED.encode_call({"a": 1, "b": 2}), CALLED.encode_call({"b": 2, "a": 1})
    assert first == again
    assert first["messageId"] != CALLED.encode_call({"a": 2})["messageId"]
    oracles.a2a_message(first)


@given(st.dictionaries(texts, values, max_size=3))
def test_arguments_come_back_from_a_message(args: dict[str, Any]) -> None:
    message = CALLED.encode_call(args, "m")
    oracles.a2a_message(message)
    call = CALLED.decode_call(message)
    assert (call.tool_id, call.args, call.call_id) == ("n:total", args, "m")


def test_arguments_that_are_no_object_come_back_too() -> None:
    conversion = A2A.translate(tool_of(input_schema={"type": "array", "items": {"type": "integer"}}))
    message = conversion.encode_call([1, 2])
    assert isinstance(message["parts"][0]["data"], dict)
    assert conversion.decode_call(message).args == [1, 2]


MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"a": 1}}]}


@pytest.mark.parametrize(
    "payload",
    [
        MESSAGE,
        {"message": MESSAGE},
        {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": MESSAGE}},
        MESSAGE | {"metadata": {"skillId": "n:total"}},
        MESSAGE | {"metadata": {"skill_id": "n:total"}},
        MESSAGE | {"metadata": {"skillId": 1}},
        MESSAGE | {"parts": [{"text": "please"}, {"data": {"a": 1}, "metadata": {"skillId": "n:total"}}]},
        MESSAGE | {"parts": [{"text": '{"a": 2}'}, {"data": [1]}, {"data": {"a": 1}}]},
        MESSAGE | {"parts": [None, {"text": "please"}, {"text": "[1]"}, {"text": '{"a": 1}'}]},
    ],
)
def test_a_message_is_read_however_it_is_wrapped(payload: Any) -> None:
    call = CALLED.decode_call(payload)
    assert (call.tool_id, call.args, call.call_id) == ("n:total", {"a": 1}, "m")


@pytest.mark.parametrize("part", [{"data": {"a": 1}}, {"kind": "text", "text": '{"a": 1}'}])
def test_a_part_alone_is_a_call_without_an_id(part: Any) -> None:
    assert CALLED.decode_call(part).args == {"a": 1}
    assert CALLED.decode_call(part).call_id is None


def test_a_message_of_the_sdk_is_a_call_whose_numbers_are_doubles() -> None:
    message = ParseDict(CALLED.encode_call({"a": 1}, "m"), Message())
    call = CALLED.decode_call(message)
    assert (call.args, type(call.args["a"]), call.call_id) == ({"a": 1}, float, "m")


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "text",
        {},
        {"parts": 1},
        {"parts": []},
        {"data": [1]},
        {"text": "hi"},
        {"message": {"parts": [{"url": "u"}]}},
    ],
)
def test_malformed_call_is_refused_with_the_right_form(payload: Any) -> None:
    with pytest.raises(ConversionError, match="send the arguments as a JSON object in a part") as caught:
        CALLED.decode_call(payload)
    assert caught.value.direction == "decode_call"


def test_a_call_of_another_skill_is_refused() -> None:
    with pytest.raises(ConversionError, match="the call is for 'n:other'; put the tools into a Bundle"):
        CALLED.decode_call(MESSAGE | {"metadata": {"skillId": "n:other"}})


PNG = {"type": "image", "data": "AAEC", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        ("hi", [{"text": "hi"}]),
        ({"a": [1, None]}, [{"data": {"a": [1, None]}}]),
        (None, [{"data": None}]),
        ({"content": [{"type": "text", "text": "hi"}]}, [{"text": "hi"}]),
        ({"content": []}, [{"text": ""}]),
        ({"content": [], "structuredContent": {"a": 1}}, [{"data": {"a": 1}}]),
        (
            {"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}},
            [{"data": {"a": 1}}, {"text": "one"}],
        ),
        ({"content": [PNG]}, [{"raw": "AAEC", "mediaType": "image/png"}]),
        ({"content": [{"type": "audio", "data": "AAEC"}]}, [{"raw": "AAEC"}]),
        ({"content": [{"type": "image", "data": "A"}]}, [{"text": '{"type":"image"}'}]),
        (
            {
                "content": [
                    {"type": "resource", "resource": {"uri": "x:y", "blob": "AAEC", "mimeType": "a/b"}}
                ]
            },
            [{"raw": "AAEC", "mediaType": "a/b"}],
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "hi"}}]}, [{"text": "hi"}]),
        (
            {"content": [{"type": "resource_link", "name": "r", "uri": "https://x.test/r"}]},
            [{"url": "https://x.test/r"}],
        ),
    ],
)
def test_a_result_is_a_task_with_an_artifact(result: Any, parts: list[Any]) -> None:
    task = CALLED.encode_result(result, "c")
    assert (task["id"], task["status"]) == ("c", {"state": "TASK_STATE_COMPLETED"})
    [artifact] = task["artifacts"]
    assert (artifact["name"], artifact["parts"]) == ("n:total", parts)
    oracles.a2a_artifact(artifact)
    oracles.a2a_task(task)


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (ValueError("too many"), [{"text": "ValueError: too many"}]),
        (
            {"content": [{"type": "text", "text": "no"}, PNG], "isError": True},
            [{"text": "no"}, {"raw": "AAEC", "mediaType": "image/png"}],
        ),
        ({"content": [], "isError": True}, [{"text": ""}]),
    ],
)
def test_an_error_is_a_failed_task_that_says_why(result: Any, parts: list[Any]) -> None:
    task = CALLED.encode_result(result)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["parts"] == parts
    assert "artifacts" not in task
    assert task == CALLED.encode_result(result)
    oracles.a2a_task(task)


def test_many_skills_are_a_list() -> None:
    assert CALLED.calls.bundle(iter([BARE, SKILL])) == [BARE, SKILL]
