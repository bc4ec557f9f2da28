"""Python names of tools, and the order of their parameters."""

import keyword
import random

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.model import Tool
from toolcrib.runtime.stubs import TOP_RESERVED, identifier, names_of, parameters, paths_of

NAMES = st.text("aB1_.-", min_size=1, max_size=6) | st.sampled_from(
    ["list", "import", "class", "None", "search_tools", "list_", "t", "_"]
)


@given(NAMES)
def test_identifier_is_valid_python(name: str) -> None:
    spelt = identifier(name)
    assert spelt.isidentifier()
    assert not keyword.iskeyword(spelt)
    assert not spelt.startswith("_")


@given(st.lists(NAMES, max_size=12), st.booleans(), st.randoms())
def test_identifiers_are_unique_in_any_order(names: list[str], top: bool, chance: random.Random) -> None:
    reserved = TOP_RESERVED if top else frozenset()
    found = names_of(names, reserved=reserved)
    shuffled = names * 2
    chance.shuffle(shuffled)
    assert names_of(shuffled, reserved=reserved) == found
    assert sorted(found.values()) == sorted(set(names))
    assert not reserved & found.keys()
    for name in names:
        if identifier(name) == name and name not in reserved:
            assert found[name] == name


def test_reserved_names_are_not_used() -> None:
    names = ["print", "asyncio", "run_tool", "Any", "lambda", "github"]
    assert names_of(names, reserved=TOP_RESERVED) == {
        "Any_": "Any",
        "asyncio_": "asyncio",
        "github": "github",
        "lambda_": "lambda",
        "print_": "print",
        "run_tool_": "run_tool",
    }


def test_colliding_identifier_gets_a_number() -> None:
    assert names_of(["a.b", "a-b", "a_b", "a_b_2"]) == {
        "a_b": "a_b",
        "a_b_2": "a_b_2",
        "a_b_3": "a-b",
        "a_b_4": "a.b",
    }


def test_parameters_are_in_schema_order_with_required_first() -> None:
    properties = {name: {} for name in ("z", "y", "x-y", "class", "self", "__p", "n", "a")}
    schema = {"type": "object", "properties": properties, "required": ["a", "gone", "y", "x-y"]}
    assert parameters(Tool(name="t", input_schema=schema)) == ("y", "a", "gone", "z", "n")


def test_parameters_include_those_of_all_of() -> None:
    schema = {
        "$ref": "#/$defs/all",
        "$defs": {
            "all": {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"$ref": "#/$defs/b"}]},
            "b": {"oneOf": [{"properties": {"b": {}}, "required": ["b"]}, {"properties": {"c": {}}}]},
        },
    }
    assert parameters(Tool(name="t", input_schema=schema)) == ("a", "b", "c")


def test_parameters_exclude_names_that_unicode_normalizes() -> None:
    assert parameters(Tool(name="t", input_schema={"properties": {"ﬁ": {}, "é": {}, "x" * 100: {}}})) == (
        "é",
    )


def test_paths_use_the_highest_stable_version() -> None:
    tools = [
        Tool(name="a", namespace="n", version=version, input_schema={})
        for version in ("1.0.0", "3.0.0-rc.1", "2.0.0")
    ]
    assert {path: tool.version for path, tool in paths_of(tools).items()} == {"n.a": "2.0.0"}
    assert paths_of([*tools, Tool(name="a", namespace="n", input_schema={})])["n.a"].version == "2.0.0"


def test_tool_without_a_namespace_yields_its_name_to_a_namespace() -> None:
    tools = [Tool(name="git", input_schema={}), Tool(name="log", namespace="git", input_schema={})]
    assert list(paths_of(tools)) == ["git_", "git.log"]
