"""What the meta-tools say of themselves."""

import gc
import json
import sys
from typing import Any
from weakref import ref

import pytest
from gateway.meta.asking import crib_of_tools, face_of

from toolcrib import Crib, tool
from toolcrib.crib import GatewaySettings
from toolcrib.errors import MissingExtraError, ValidationError
from toolcrib.gateway import meta
from toolcrib.gateway.meta import MetaFace
from toolcrib.gateway.meta.definitions import DEFINITIONS
from toolcrib.gateway.meta.sandboxes import why_no_code
from toolcrib.model import DefaultValidator, LocalBackend, Tool

NAMES = [
    "search_tools",
    "list_tools",
    "list_namespaces",
    "describe_tool",
    "list_tool_examples",
    "run_tool",
    "run_chain",
    "execute_code",
]


@tool(annotations={"readOnlyHint": True})
def look() -> str:
    """Look around."""
    return "nothing"


def descriptions(face: MetaFace) -> dict[str, str]:
    return {each.name: each.description or "" for each in face.tools()}


def test_there_are_eight_tools_in_a_fixed_order() -> None:
    assert [each.name for each in face_of(crib_of_tools()).tools()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_of_a_tool_can_be_used_and_are_closed(name: str) -> None:
    definition = DEFINITIONS[name].tool
    assert definition.input_schema["additionalProperties"] is False
    assert definition.output_schema is not None
    assert definition.output_schema["type"] == "object"
    for schema in (definition.input_schema, definition.output_schema):
        with pytest.raises(ValidationError):
            DefaultValidator().validate(schema, [])
    assert all(word == word.lower() for word in definition.input_schema["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_an_output_is_a_success_or_an_error_and_nothing_else(name: str) -> None:
    schema = DEFINITIONS[name].tool.output_schema
    failed = {"error": {"code": "internal", "message": "no", "retryable": True}}
    DefaultValidator().validate(schema, failed)
    with pytest.raises(ValueError, match=r"required|must|fit"):
        DefaultValidator().validate(schema, {})


def test_the_description_of_the_search_names_what_there_is() -> None:
    crib = crib_of_tools()
    for number in range(30):
        crib.add(
            Tool(name=f"t{number}", namespace="big", input_schema={}, backend={"kind": "local", "name": "x"})
        )
    said = descriptions(face_of(crib))["search_tools"]
    assert "before saying that you cannot do something" in said
    assert "36 tools in 2 namespaces: big (30), shop (3)" in said
    assert "Delete an order for ever" in said


def test_the_description_of_the_search_stays_short_however_much_there_is() -> None:
    crib = Crib()
    for number in range(300):
        name = f"namespace-with-a-long-name-{number:03}"
        description = "Does something that takes many words to tell " * 5
        crib.add(
            Tool(
                name="t",
                namespace=name,
                description=description,
                input_schema={},
                backend={"kind": "local", "name": "x"},
            )
        )
    face = face_of(crib)
    said = descriptions(face)["search_tools"]
    assert "300 namespaces" in said
    assert "…" in said
    assert len(said) < 900
    assert said == descriptions(face_of(crib))["search_tools"]


def test_an_empty_catalogue_says_so() -> None:
    assert "empty" in descriptions(face_of(Crib()))["search_tools"]


def test_tools_without_a_namespace_and_a_description_are_counted() -> None:
    crib = Crib()
    crib.add(Tool(name="bare", input_schema={}, backend={"kind": "local", "name": "x"}))
    assert "The catalogue has 1 tool." in descriptions(face_of(crib))["search_tools"]


def test_finding_is_read_only_and_running_is_as_harmless_as_the_tools() -> None:
    hints: dict[str, Any] = {each.name: each.annotations for each in face_of(crib_of_tools()).tools()}
    assert all(hints[name].read_only_hint and hints[name].idempotent_hint for name in NAMES[:5])
    assert all(hints[name].destructive_hint and not hints[name].read_only_hint for name in NAMES[5:])
    crib = Crib()
    crib.add(look)
    face = face_of(crib)
    assert all(each.annotations and each.annotations.read_only_hint for each in face.tools())
    assert "read-only" in descriptions(face)["run_tool"]


def test_definitions_are_made_once_and_changes_are_told_only_where_they_differ() -> None:
    crib = crib_of_tools()
    face = face_of(crib)
    assert face.tools() is face.tools()
    told: list[int] = []
    stop = face.on_change(lambda: told.append(len(face.tools())))
    crib.add(look, namespace="eyes")
    assert told == [8]
    before = face.tools()
    crib.add(
        look.tool.replace(namespace="eyes", output_schema={}, backend={"kind": "local", "name": "eyes:look"})
    )
    assert told == [8]
    assert face.tools() is before
    stop()
    crib.add(look, namespace="ears")
    assert told == [8]
    assert "ears" in descriptions(face)["search_tools"]


def test_many_changes_at_once_are_told_as_they_are() -> None:
    crib = Crib()
    face = face_of(crib)
    told: list[str] = []
    face.on_change(lambda: told.append(descriptions(face)["search_tools"]))
    backend = LocalBackend(name="x")
    many = [(Tool(name=f"t{at}", namespace=f"n{at % 3}", input_schema={}), backend) for at in range(30)]
    crib.index.register_many(many)
    assert "30 tools in 3 namespaces: n0 (10), n1 (10), n2 (10)" in told[-1]
    assert len(told) <= 3
    crib.index.unregister("n1:t1")
    assert "n0 (10), n2 (10), n1 (9)" in told[-1]
    crib.index.register(Tool(name="alone", input_schema={}), backend)
    crib.index.unregister("alone")
    assert told[-1] == told[-3]


def test_a_face_that_nobody_has_hears_of_nothing() -> None:
    crib = crib_of_tools()
    face = face_of(crib, code=False)
    gone = ref(face)
    del face
    gc.collect()
    assert gone() is None
    crib.add(look)


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    crib = crib_of_tools()
    face_of(crib, code=False)
    monkeypatch.delitem(sys.modules, "toolcrib.gateway.meta.wire")
    monkeypatch.delattr(meta, "wire")
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[cli\]"):
        face_of(crib, code=False)


def test_code_is_left_out_where_it_cannot_run() -> None:
    crib = crib_of_tools()
    assert [each.name for each in face_of(crib, code=False).tools()] == NAMES[:-1]
    assert len(MetaFace(crib, GatewaySettings(), sandbox=False).tools()) == 7
    assert len(MetaFace(crib, GatewaySettings(), sandbox=True).tools()) == 8


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ({"backend": "unsafe"}, "not allowed"),
        ({"backend": "unsafe", "allow_unsafe": True}, "profile 'standard'"),
        ({"backend": "docking-station"}, "no sandbox"),
    ],
    ids=["unsafe", "weak", "unknown"],
)
def test_why_code_cannot_run_is_said(code: dict[str, Any], reason: str) -> None:
    assert reason in why_no_code(GatewaySettings(), Crib({"code": code}).settings.code)


def test_the_guide_for_code_is_in_its_description() -> None:
    said = descriptions(MetaFace(crib_of_tools(), GatewaySettings(), sandbox=True))["execute_code"]
    assert "__out" in said
    assert "await namespace.tool(name=value)" in said


def test_the_definitions_take_few_tokens() -> None:
    receipt = MetaFace(crib_of_tools(), GatewaySettings(), sandbox=True).receipt()
    assert receipt.surface < 3_000
    assert json.dumps([each.model_dump(mode="json") for each in face_of(crib_of_tools()).tools()])
