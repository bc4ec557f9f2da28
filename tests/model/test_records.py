"""The records that several floors share: made, frozen, written, read, refused."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from toolcrib.errors import InvalidToolError, InvalidToolIdError
from toolcrib.model import (
    CanonicalProvider,
    CanonicalTool,
    LocalBackend,
    McpBackend,
    ObservedOutput,
    Resolver,
    RunResult,
    SchemaInfo,
    Tool,
    ToolAnnotations,
    ToolBackend,
    ToolCallRecord,
    ToolDoc,
    ToolExample,
    ToolGateway,
    ToolId,
)
from toolcrib.model.record import Record

ADD = Tool(name="add", input_schema={"type": "object"})

PAIRS: list[tuple[Record, dict[str, Any]]] = [
    (
        CanonicalTool(name="add", input_schema={"type": "object"}),
        {"name": "add", "inputSchema": {"type": "object"}},
    ),
    (
        CanonicalTool(
            name="add",
            input_schema={"type": "object"},
            namespace="math",
            display_name="Add",
            version="1.0.0",
            description="Add numbers.",
            summary="Add.",
            category="arithmetic",
            tags=("math",),
            input_modes=("text",),
            output_modes=("json",),
            examples=("1 + 1",),
            deterministic=True,
            idempotent=False,
            streaming=False,
            security_schemes={"key": {"type": "apiKey"}},
            security_requirements=({"key": ["read"]},),
            annotations={"x": None},
            ui_hints={"icon": "plus"},
            output_schema={"type": "number"},
            timeout=2.5,
            source_format="mcp",
            source_meta={"a": [1]},
            required_scopes=("read",),
        ),
        {
            "name": "add",
            "inputSchema": {"type": "object"},
            "namespace": "math",
            "displayName": "Add",
            "version": "1.0.0",
            "description": "Add numbers.",
            "summary": "Add.",
            "category": "arithmetic",
            "tags": ["math"],
            "inputModes": ["text"],
            "outputModes": ["json"],
            "examples": ["1 + 1"],
            "deterministic": True,
            "idempotent": False,
            "streaming": False,
            "securitySchemes": {"key": {"type": "apiKey"}},
            "securityRequirements": [{"key": ["read"]}],
            "annotations": {"x": None},
            "uiHints": {"icon": "plus"},
            "outputSchema": {"type": "number"},
            "timeout": 2.5,
            "sourceFormat": "mcp",
            "sourceMeta": {"a": [1]},
            "requiredScopes": ["read"],
        },
    ),
    (CanonicalProvider(name="agent"), {"name": "agent"}),
    (
        CanonicalProvider(
            name="agent",
            description="An agent.",
            version="1.0.0",
            capabilities={"streaming": True},
            security_schemes={"key": {}},
            security_requirements=({"key": []},),
            default_input_modes=("text",),
            default_output_modes=("text",),
            skills=(CanonicalTool(name="add", input_schema={}),),
            source_format="a2a",
            source_meta={"url": "x"},
        ),
        {
            "name": "agent",
            "description": "An agent.",
            "version": "1.0.0",
            "capabilities": {"streaming": True},
            "securitySchemes": {"key": {}},
            "securityRequirements": [{"key": []}],
            "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"],
            "skills": [{"name": "add", "inputSchema": {}}],
            "sourceFormat": "a2a",
            "sourceMeta": {"url": "x"},
        },
    ),
    (ToolExample(), {}),
    (
        ToolExample(id="1", title="T", description="D", args={"a": 1}, result_hint="2"),
        {"id": "1", "title": "T", "description": "D", "args": {"a": 1}, "resultHint": "2"},
    ),
    (SchemaInfo(), {}),
    (
        SchemaInfo(
            required=("a",), defaults={"b": None}, types={"a": ("string", "null")}, phrases={"a": "x"}
        ),
        {
            "required": ["a"],
            "defaults": {"b": None},
            "types": {"a": ["string", "null"]},
            "phrases": {"a": "x"},
        },
    ),
    (ToolDoc(summary="Add."), {"summary": "Add."}),
    (
        ToolDoc(
            summary="Add.",
            tool=ADD,
            input_modes=("text",),
            output_modes=("json",),
            security_summary="none",
            annotations=ToolAnnotations(read_only_hint=True),
            schema_info=SchemaInfo(required=("a",)),
            observed_output=ObservedOutput(observed=2, json_schema={"type": "number"}),
            notes="N",
            examples=(ToolExample(id="1"),),
            external_refs=("https://x.test",),
        ),
        {
            "summary": "Add.",
            "tool": ADD.to_json(),
            "inputModes": ["text"],
            "outputModes": ["json"],
            "securitySummary": "none",
            "annotations": {"readOnlyHint": True},
            "schemaInfo": {"required": ["a"]},
            "observedOutput": {"observed": 2, "jsonSchema": {"type": "number"}},
            "notes": "N",
            "examples": [{"id": "1"}],
            "externalRefs": ["https://x.test"],
        },
    ),
    (
        RunResult(tool=ADD, backend=LocalBackend(name="add"), structured=None, duration=0.5),
        {
            "tool": ADD.to_json(),
            "backend": {"kind": "local", "name": "add"},
            "structured": None,
            "duration": 0.5,
        },
    ),
    (
        RunResult(tool=ADD, backend=LocalBackend(name="add"), duration=0.5),
        {"tool": ADD.to_json(), "backend": {"kind": "local", "name": "add"}, "duration": 0.5},
    ),
    (
        RunResult(tool=ADD, backend=LocalBackend(name="add"), structured=[1, None], duration=0.5),
        {
            "tool": ADD.to_json(),
            "backend": {"kind": "local", "name": "add"},
            "structured": [1, None],
            "duration": 0.5,
        },
    ),
    (
        RunResult(tool=ADD, backend=McpBackend(server_name="s"), mcp_result={"content": []}, duration=0.0),
        {
            "tool": ADD.to_json(),
            "backend": {"kind": "mcp", "serverName": "s"},
            "mcpResult": {"content": []},
            "duration": 0.0,
        },
    ),
    (ToolCallRecord(tool_id="a", args={}, duration=0.0), {"toolId": "a", "args": {}, "duration": 0.0}),
    (
        ToolCallRecord(
            tool_id="a", args={"x": 1}, backend_kind="mcp", error="no", error_op="execute", duration=1.5
        ),
        {
            "toolId": "a",
            "args": {"x": 1},
            "backendKind": "mcp",
            "error": "no",
            "errorOp": "execute",
            "duration": 1.5,
        },
    ),
]
IDS = [
    f"{type(record).__name__}-{'full' if number % 2 else 'bare'}" for number, (record, _) in enumerate(PAIRS)
]


@pytest.mark.parametrize(("record", "data"), PAIRS, ids=IDS)
def test_a_record_is_written_as_json_and_read_back(record: Record, data: dict[str, Any]) -> None:
    assert record.to_json() == data
    assert type(record).from_json(data) == record


@pytest.mark.parametrize("record", [record for record, _ in PAIRS], ids=IDS)
def test_a_record_does_not_change(record: Record) -> None:
    for field in type(record).model_fields:
        with pytest.raises(ValueError, match="frozen"):
            setattr(record, field, None)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (CanonicalTool, {}, "invalid CanonicalTool: /name: is required; /inputSchema: is required"),
        (
            CanonicalTool,
            {"name": "add", "inputSchema": []},
            "invalid CanonicalTool 'add': /inputSchema: must be an object",
        ),
        (
            CanonicalTool,
            {"name": "add", "inputSchema": {"a": {1}}},
            "invalid CanonicalTool 'add': /inputSchema/a: the value is a Python set, which is not plain JSON",
        ),
        (
            CanonicalProvider,
            {"name": "x", "skills": [{"name": "y"}]},
            "invalid CanonicalProvider 'x': /skills/0/inputSchema: is required",
        ),
        (ToolExample, {"args": []}, "invalid ToolExample: /args: must be an object"),
        (
            ToolExample,
            {"result_hint": "x"},
            "invalid ToolExample: /result_hint: is not a field of this record",
        ),
        (SchemaInfo, {"required": "a"}, "invalid SchemaInfo: /required: must be an array"),
        (
            ToolDoc,
            {"tool": {"name": ""}},
            "invalid ToolDoc: /summary: is required; /tool/name: '' must not be empty; /tool/inputSchema: is required",
        ),
        (
            RunResult,
            {"tool": ADD.to_json(), "backend": {"kind": "x"}, "duration": 1.0},
            "invalid RunResult: /backend/kind: must be 'mcp', 'provider' or 'local'",
        ),
        (
            ToolCallRecord,
            {"toolId": "a", "args": {}, "backendKind": "docker", "duration": []},
            "invalid ToolCallRecord: /backendKind: must be 'mcp', 'provider' or 'local'; /duration: must be a number",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_invalid_record_is_a_typed_error(kind: type[Record], data: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        kind.from_json(data)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "kind", list(dict.fromkeys(type(record) for record, _ in PAIRS)), ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("source", ["{", "[]", b"\xff", None, 5], ids=repr)
def test_from_json_refuses_anything_but_an_object(kind: type[Record], source: Any) -> None:
    with pytest.raises(InvalidToolError, match=f"invalid {kind.__name__}: it "):
        kind.from_json(source)


def test_schemas_and_examples_share_nothing_with_what_they_were_made_of() -> None:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    tool, example = CanonicalTool(name="a", input_schema=schema), ToolExample(args=schema)
    schema["properties"]["b"] = {}
    tool.to_json()["inputSchema"]["properties"]["c"] = {}
    assert tool.input_schema == example.args == {"properties": {"a": {}}}


def test_the_id_of_a_canonical_tool_includes_its_version() -> None:
    tool = CanonicalTool(name="add", namespace="math", version="v1.0.0", input_schema={})
    assert tool.id == ToolId("math", "add", "1.0.0")
    assert str(tool.id) == "math:add:1.0.0"


def test_a_canonical_tool_may_have_a_name_that_only_its_provider_allows() -> None:
    tool = CanonicalTool(name="add numbers", input_schema={})
    with pytest.raises(InvalidToolIdError):
        _ = tool.id


class Shelf:
    def resolve(self, ref: str | ToolId) -> Tool:
        raise NotImplementedError(ref)

    def backends(self, tool_id: str | ToolId) -> Sequence[ToolBackend]:
        raise NotImplementedError(tool_id)


class Hatch:
    async def search(self, query: str, *, limit: int = 10) -> Any: ...
    async def describe(self, tool_id: str, level: str = "schema") -> Any: ...
    async def run(self, tool_id: str, args: dict[str, Any]) -> Any: ...
    async def run_chain(self, steps: Sequence[Any]) -> Any: ...


def test_class_with_the_methods_implements_the_protocol() -> None:
    assert isinstance(Shelf(), Resolver)
    assert isinstance(Hatch(), ToolGateway)
    assert not isinstance(Hatch(), Resolver)
    assert not isinstance(Shelf(), ToolGateway)


def containers_in(value: Any) -> Iterator[Any]:
    """Yield every dict and list that can be reached from a record by reading it."""
    if isinstance(value, Record):
        names = [*type(value).model_fields, *(value.model_extra or {})]
        for part in (*(getattr(value, name) for name in names), value.model_extra):
            yield from containers_in(part)
    elif isinstance(value, dict | list | tuple):
        if not isinstance(value, tuple):
            yield value
        for member in value.values() if isinstance(value, dict) else value:
            yield from containers_in(member)


def spoil(container: Any) -> None:
    container.clear()
    if isinstance(container, dict):
        container["spoilt"] = True
    else:
        container.append("spoilt")


DEFINITIONS: list[Record] = [
    Tool.from_json(
        {
            "name": "add",
            "inputSchema": {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]},
            "outputSchema": {"type": "object", "properties": {"b": {}}},
            "annotations": {"readOnlyHint": True, "x-costs": {"money": [3]}},
            "icons": [{"src": "a.png", "sizes": ["any"], "x-more": {"a": [1]}}],
            "_meta": {"a": {"b": [1]}},
            "x-unknown": {"a": [1]},
        }
    ),
    *(record for record, _ in PAIRS if not isinstance(record, RunResult)),
]


@pytest.mark.parametrize("record", DEFINITIONS, ids=lambda record: type(record).__name__)
def test_a_record_does_not_change_with_what_was_read_from_it(record: Record) -> None:
    before = json.dumps(record.to_json())
    for container in list(containers_in(record)):
        spoil(container)
    assert json.dumps(record.to_json()) == before
    assert type(record).from_json(json.loads(before)) == record


def test_a_class_of_records_has_no_values_of_fields() -> None:
    assert not hasattr(Tool, "input_schema")
    with pytest.raises(AttributeError):
        object.__setattr__(DEFINITIONS[0], "input_schema", {})


def test_a_shared_field_is_the_value_itself() -> None:
    tool = DEFINITIONS[0]
    assert tool.shared("input_schema") is tool.shared("input_schema")
    assert tool.shared("input_schema") == tool.input_schema  # type: ignore[attr-defined]
