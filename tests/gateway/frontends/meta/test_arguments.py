"""Arguments as models write them."""

from typing import Any

import anyio
import pytest
from gateway.frontends.meta.asking import call_refused, call_tool, crib_of_tools, face_of, given
from hypothesis import given as given_
from hypothesis import strategies as st
from laws import law

from toolcrib.errors import ValidationError
from toolcrib.gateway.frontends.meta.arguments import Arguments
from toolcrib.gateway.frontends.meta.definitions import DEFINITIONS

FACE = face_of(crib_of_tools(), code=False)
STEP = {"tool_id": "shop:order", "args": {"number": 1}}


def read(name: str, args: Any) -> tuple[dict[str, Any], list[str]]:
    return Arguments().read(DEFINITIONS[name], args)


@pytest.mark.parametrize(
    ("name", "args", "meant", "notes"),
    [
        ("run_tool", '{"tool_id": "a", "args": {"x": 1}}', {"tool_id": "a", "args": {"x": 1}}, ["arguments"]),
        ("run_tool", {"tool_id": "a", "args": '{"x": 1}'}, {"tool_id": "a", "args": {"x": 1}}, ["args"]),
        ("run_tool", {"tool_id": "a", "args": " "}, {"tool_id": "a", "args": {}}, []),
        ("run_tool", {"tool_id": "a", "args": None}, {"tool_id": "a"}, []),
        (
            "run_tool",
            {"tool_id": "a", "timeout_ms": "500"},
            {"tool_id": "a", "timeout_ms": 500},
            ["timeout_ms"],
        ),
        ("list_tools", {"limit": " 5 "}, {"limit": 5}, ["limit"]),
        ("list_tools", {"limit": 5.0}, {"limit": 5}, []),
        ("list_tools", None, {}, []),
        ("list_tools", "", {}, []),
        ("search_tools", {"query": "7"}, {"query": "7"}, []),
        ("search_tools", {"query": "a", "tags": "x, y"}, {"query": "a", "tags": ["x", "y"]}, ["tags"]),
        ("search_tools", {"query": "a", "tags": '["x"]'}, {"query": "a", "tags": ["x"]}, ["tags"]),
        ("run_chain", {"steps": [STEP]}, {"steps": [STEP]}, []),
        ("run_chain", {"steps": STEP}, {"steps": [STEP]}, ["steps"]),
        (
            "run_chain",
            {"steps": [{"toolId": "a", "usePrevious": True}]},
            {"steps": [{"toolId": "a", "usePrevious": True}]},
            [],
        ),
        ("run_chain", {"steps": '[{"tool_id": "a"}]'}, {"steps": [{"tool_id": "a"}]}, ["steps"]),
        ("run_chain", {"steps": ['{"tool_id": "a"}']}, {"steps": [{"tool_id": "a"}]}, ["steps/0"]),
        (
            "run_chain",
            {
                "steps": [
                    {"tool_id": "a", "args": '{"x": 1}'},
                    {"tool_id": "b", "args": ""},
                    {"tool_id": "c", "args": None},
                ]
            },
            {
                "steps": [
                    {"tool_id": "a", "args": {"x": 1}},
                    {"tool_id": "b", "args": {}},
                    {"tool_id": "c", "args": {}},
                ]
            },
            ["steps/0/args"],
        ),
    ],
    ids=lambda case: str(case)[:60],
)
def test_unambiguous_argument_is_repaired_with_a_note(
    name: str, args: Any, meant: Any, notes: list[str]
) -> None:
    found, told = read(name, args)
    assert found == meant
    assert [note.partition(" came ")[0] for note in told] == notes


def test_error_names_the_first_of_very_many_unknown_arguments() -> None:
    with pytest.raises(ValidationError) as raised:
        read("search_tools", {"query": "x", **{f"querz{number}": 1 for number in range(50_000)}})
    assert len(raised.value.problems) == 32
    assert "did you mean 'query'" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("run_tool", {"id": "a"}, "did you mean 'tool_id'"),
        ("run_tool", {"name": "a"}, "did you mean 'tool_id'"),
        ("run_tool", {"tool": "a"}, "did you mean 'tool_id'"),
        ("run_tool", {"tool_id": "a", "arguments": {}}, "did you mean 'args'"),
        ("run_tool", {"tool_id": "a", "params": {}}, "did you mean 'args'"),
        ("run_tool", {"tool_id": "a", "input": {}}, "did you mean 'args'"),
        ("run_tool", {"tool_id": "a", "args": {}, "params": {}}, "it takes tool_id, args, timeout_ms"),
        ("run_tool", {"tool_id": "a", "path": "x"}, "go into 'args'"),
        ("run_tool", {"tool_id": "a", "args": "{no json"}, "not JSON"),
        ("run_tool", {"tool_id": "a", "args": [1]}, "/args: must be an object"),
        ("run_tool", {"tool_id": "a", "timeout_ms": 0}, "/timeout_ms: must be at least 1"),
        ("run_tool", {"tool_id": 7}, "/tool_id: must be a string"),
        ("run_tool", "[1]", "arguments must be an object"),
        ("run_tool", 7, "arguments must be an object"),
        ("list_namespaces", {"x": 1}, "it takes none"),
        ("list_tools", {"limit": "many"}, "/limit: must be an integer"),
        ("list_tools", {"limit": 101}, "/limit: must be at most 100"),
        ("list_tools", {"limit": 0}, "/limit: must be at least 1"),
        ("list_tools", {"namespce": "x"}, "did you mean 'namespace'"),
        ("search_tools", {"q": "x"}, "did you mean 'query'"),
        ("describe_tool", {"tool_id": "a", "detail_level": "all"}, "'summary', 'schema', 'full'"),
        ("list_tool_examples", {"tool_id": "a", "max": 6}, "must be at most 5"),
        ("list_tool_examples", {"tool_id": "a", "limit": 3}, "did you mean 'max'"),
        ("run_chain", {"steps": []}, "/steps: must have at least 1"),
        ("run_chain", {"steps": ["{"] * 1001}, "/steps: must have at most 1,000 items, not 1,001"),
        ("run_chain", {"steps": "[" + "1," * 1000 + "1]"}, "/steps: must have at most 1,000 items"),
        ("search_tools", {"query": "a", "tags": ["t"] * 101}, "/tags: must have at most 100 items"),
        ("search_tools", {"query": "a", "tags": "t," * 101}, "/tags: must have at most 100 items"),
        (
            "search_tools",
            {"query": "a", "tags": "t," * 9999},
            "/tags: must be at most 10,000 characters long",
        ),
        ("search_tools", {"query": "a" * 10_001}, "/query: must be at most 10,000 characters long"),
        ("list_tools", {"cursor": "a" * 10_001}, "/cursor: must be at most 10,000 characters long"),
        ("execute_code", {"code": "a" * 100_001}, "/code: must be at most 100,000 characters long"),
        ("run_chain", {"steps": [{"tool_id": "a", "args": "{"}]}, "/steps/0/args: is text that is not JSON"),
        ("run_chain", {"steps": "{"}, "/steps: is text that is not JSON"),
        ("run_chain", {"steps": 3}, "/steps: must be an array"),
        ("execute_code", {"code": "1", "language": "go"}, "'python'"),
    ],
    ids=lambda case: str(case)[:60],
)
def test_error_of_an_argument_says_what_is_valid(name: str, args: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(name, args)
    assert said in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        read("search_tools", {"limit": 0, "namespace": 3, "colour": "red"})
    assert {problem.path for problem in caught.value.problems} == {"/limit", "/namespace", "/colour", ""}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(sorted({word for each in DEFINITIONS.values() for word in each.arguments}))


@law(12)
@given_(
    st.sampled_from([*DEFINITIONS][:7]), st.dictionaries(WORDS | st.text(max_size=8), JSON, max_size=4) | JSON
)
def test_whatever_is_sent_is_answered_in_the_published_form(name: str, args: Any) -> None:
    anyio.run(call_tool, FACE, name, args)


@pytest.mark.anyio
async def test_repairs_are_in_the_notes_of_the_result() -> None:
    face = face_of(crib_of_tools())
    ran = await given(face, "run_tool", {"tool_id": "shop:order", "args": '{"number": 3}'})
    assert ran["structured"]["number"] == 3
    assert ran["notes"] == ["args came as text, and was read as JSON"]
    assert "Limit came as text" in (await given(face, "list_tools", {"limit": "3"}))["note"]
    error = await call_refused(face, "run_tool", {"id": "shop:order"})
    assert error["code"] == "validation_input"
    assert error["message"].startswith("run_tool was not called: /id: is not an argument of run_tool")
