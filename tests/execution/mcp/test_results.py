import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.execution.mcp.results import describe_failure, read_text, result_size, result_value

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a", "text": "[1]"}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        pytest.param({"structuredContent": {"a": 1}, "content": [text("x")]}, {"a": 1}, id="structured"),
        pytest.param({"structuredContent": {"result": 3}}, {"result": 3}, id="wrapped stays wrapped"),
        pytest.param({"structuredContent": [1], "resultType": "complete"}, [1], id="structured list"),
        pytest.param({"structuredContent": False}, False, id="structured false"),
        pytest.param(
            {"structuredContent": None, "content": [text("x")]}, "x", id="null in the handshake era"
        ),
        pytest.param(
            {"structuredContent": None, "content": [text("null")], "resultType": "complete"},
            None,
            id="null is a value in the stateless era",
        ),
        pytest.param({"content": [text('{"a": [1, "b"]}')]}, {"a": [1, "b"]}, id="one text that is JSON"),
        pytest.param({"content": [text("hello")]}, "hello", id="one text"),
        pytest.param({"content": [text("1"), text("[2]")]}, ["1", "[2]"], id="several texts are not read"),
        pytest.param({"content": [text("a"), IMAGE, LINK]}, ["a", IMAGE, LINK], id="mixed, in order"),
        pytest.param({"content": [IMAGE]}, IMAGE, id="one image"),
        pytest.param({"content": [RESOURCE]}, RESOURCE, id="one resource"),
        pytest.param({"content": []}, None, id="nothing"),
        pytest.param({}, None, id="not even content"),
        pytest.param({"content": "text"}, None, id="content that is no list"),
        pytest.param({"content": [{"type": "text", "text": 3}]}, {"type": "text", "text": 3}, id="odd text"),
    ],
)
def test_a_result_stands_for_a_value(result: dict[str, Any], value: Any) -> None:
    assert result_value(result) == value


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("42", 42),
        ("-7", -7),
        ("1.5", 1.5),
        (" 42\n", 42),
        ("true", True),
        ("false", False),
        ("null", None),
        ('"quoted"', "quoted"),
        ("[]", []),
        ("{}", {}),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("\n\n  [1]", [1]),
    ],
)
def test_a_text_that_is_json_is_read(said: str, value: Any) -> None:
    found = read_text(said)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "0151",
            "007",
            "1.10",
            "1e5",
            "-0",
            "+1",
            ".5",
            "1 2",
            "NaN",
            "Infinity",
            "-Infinity",
            "True",
            "None",
        ),
        *("", "  ", "1e999", "[1e999]", '{"a": -1e999}', "[NaN]", "{'a': 1}", "[1", '"', "9" * 5000),
        *("[" * 100_000, "nothing", "true story", "2026-11-15", "not json", "\ufeff[1]"),
    ],
    ids=lambda said: said[:20] or "empty",
)
def test_a_text_that_only_looks_like_json_stays_a_text(said: str) -> None:
    assert read_text(said) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_a_json_text_and_its_value_are_the_same(value: Any) -> None:
    assert read_text(json.dumps(value)) == value


@given(st.text())
def test_every_text_has_a_value(said: str) -> None:
    read_text(said)


def test_the_size_is_that_of_the_json() -> None:
    assert result_size({"é": [1, None]}) == len('{"é":[1,null]}'.encode())
    assert result_size("NaN is only a word here") == 25


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": [{"b": float("-inf")}]}])
def test_a_number_that_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="NaN or an infinity"):
        result_size(value)


def test_a_text_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        result_size("\ud800")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        pytest.param({"content": [text("no such file")]}, "no such file", id="text"),
        pytest.param({"content": [text("a"), IMAGE, text("b")]}, "a\nb", id="texts"),
        pytest.param({"content": [], "structuredContent": {"code": 3}}, '{"code": 3}', id="structured"),
        pytest.param({}, "the tool reported an error and did not say which", id="nothing"),
        pytest.param({"content": [text("x" * 3000)]}, "x" * 2000 + "… (3,000 characters)", id="long"),
    ],
)
def test_a_failure_says_why(result: dict[str, Any], reason: str) -> None:
    assert describe_failure(result) == reason
