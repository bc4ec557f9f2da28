"""Definitions of the meta-tools."""

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
from gateway.frontends.meta.asking import crib_of_tools, face_of

from toolcrib import Crib, tool
from toolcrib.crib import GatewaySettings
from toolcrib.discovery import Change, Index, Page, Summary
from toolcrib.errors import ValidationError
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.frontends.meta.definitions import DEFINITIONS
from toolcrib.gateway.frontends.meta.tools import why_no_code
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


class CountingIndex(Index):
    """Counts who listens, and how often it is looked at."""

    listeners = looks = 0

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        stop = super().on_change(callback)
        self.listeners += 1

        def leave() -> None:
            self.listeners -= 1
            stop()

        return leave

    def tools(self, **options: Any) -> Page[Summary]:
        self.looks += 1
        return super().tools(**options)


class Looked:
    """As much of a view as a face needs to describe itself."""

    def __init__(self) -> None:
        self.index = CountingIndex()
        self.settings = Crib().settings
        self.validator = DefaultValidator()


def descriptions(face: MetaTools) -> dict[str, str]:
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


ARGUMENTS = {
    "search_tools": "query limit? cursor? namespace? tags?",
    "list_tools": "limit? cursor? namespace? backend?",
    "list_namespaces": "",
    "describe_tool": "tool_id detail_level?",
    "list_tool_examples": "tool_id max?",
    "run_tool": "tool_id args? timeout_ms?",
    "run_chain": "steps timeout_ms?",
    "execute_code": "code language? timeout_ms? max_tool_calls?",
}
"""Arguments of each tool; a question mark marks an optional one."""


@pytest.mark.requirement("meta.arguments")
@pytest.mark.parametrize("name", NAMES)
def test_the_arguments_of_each_tool_are_these(name: str) -> None:
    schema = DEFINITIONS[name].tool.input_schema
    required = schema.get("required", [])
    taken = [each if each in required else f"{each}?" for each in schema["properties"]]
    assert taken == ARGUMENTS[name].split()


@pytest.mark.parametrize("name", NAMES)
def test_an_output_is_a_success_or_an_error_and_nothing_else(name: str) -> None:
    schema = DEFINITIONS[name].tool.output_schema
    failed = {"error": {"code": "internal", "message": "no", "retryable": True}}
    DefaultValidator().validate(schema, failed)
    with pytest.raises(ValidationError, match="fits none of the 2 alternatives"):
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


def test_definitions_are_made_once_and_again_where_they_differ() -> None:
    crib = crib_of_tools()
    face = face_of(crib)
    assert face.tools() is face.tools()
    told: list[int] = []
    stop = face.on_change(lambda: told.append(len(told)))
    crib.add(look, namespace="eyes")
    assert told == [0]
    before = face.tools()
    assert "eyes" in descriptions(face)["search_tools"]
    crib.add(
        look.tool.replace(namespace="eyes", output_schema={}, backend={"kind": "local", "name": "eyes:look"})
    )
    assert face.tools() is before
    stop()
    crib.add(look, namespace="ears")
    assert len(told) == 2
    assert "ears" in descriptions(face)["search_tools"]


def test_many_changes_at_once_are_told_as_they_are() -> None:
    crib = Crib()
    face = face_of(crib)
    backend = LocalBackend(name="x")
    many = [(Tool(name=f"t{at}", namespace=f"n{at % 3}", input_schema={}), backend) for at in range(30)]
    crib.index.register_many(many)
    assert "30 tools in 3 namespaces: n0 (10), n1 (10), n2 (10)" in descriptions(face)["search_tools"]
    crib.index.unregister("n1:t1")
    left = descriptions(face)["search_tools"]
    assert "n0 (10), n2 (10), n1 (9)" in left
    crib.index.register(Tool(name="alone", input_schema={}), backend)
    assert "30 tools" in descriptions(face)["search_tools"]
    crib.index.unregister("alone")
    assert descriptions(face)["search_tools"] == left


def test_a_change_makes_no_definition_before_anybody_looks() -> None:
    view = Looked()
    face = MetaTools(view, GatewaySettings(code=False))  # type: ignore[arg-type]
    told: list[None] = []
    face.on_change(lambda: told.append(None))
    view.index.looks = 0
    for number in range(10):
        view.index.register(Tool(name=f"t{number}", input_schema={}), LocalBackend(name="x"))
    assert (len(told), view.index.looks) == (10, 0)
    assert "10 tools" in descriptions(face)["search_tools"]


def test_a_face_that_nobody_has_hears_of_nothing() -> None:
    view = Looked()
    face = MetaTools(view, GatewaySettings(code=False))  # type: ignore[arg-type]
    gone = ref(face)
    assert view.index.listeners == 1
    del face
    gc.collect()
    assert gone() is None
    assert view.index.listeners == 0


@pytest.mark.proof
def test_without_the_sdk_it_is_said_what_to_install() -> None:
    code = """
import sys
from toolcrib.gateway.frontends import meta
assert dir(meta) == sorted(meta.__all__)
assert not {"mcp", "mcp_types"} & set(sys.modules)
try:
    meta.Nothing
except AttributeError as error:
    assert "Nothing" in str(error)
sys.modules["mcp_types"] = None
try:
    meta.MetaTools
except ImportError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "the gateway needs the 'cli' extra: pip install 'toolcrib[cli]'\n"


def test_code_is_left_out_where_it_cannot_run() -> None:
    crib = crib_of_tools()
    assert [each.name for each in face_of(crib, code=False).tools()] == NAMES[:-1]
    assert len(MetaTools(crib, GatewaySettings(), sandbox=False).tools()) == 7
    assert len(MetaTools(crib, GatewaySettings(), sandbox=True).tools()) == 8


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
    said = descriptions(MetaTools(crib_of_tools(), GatewaySettings(), sandbox=True))["execute_code"]
    assert "__out" in said
    assert "await namespace.tool(name=value)" in said


def test_the_definitions_take_few_tokens() -> None:
    usage = MetaTools(crib_of_tools(), GatewaySettings(), sandbox=True).measure_tokens()
    assert usage.surface < 3_000
    assert json.dumps([each.model_dump(mode="json") for each in face_of(crib_of_tools()).tools()])
