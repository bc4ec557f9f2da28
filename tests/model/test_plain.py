"""Plain JSON: validation, size, copies, and pointers into it."""

import json
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ValidationError
from toolcrib.model.plain import (
    MAX_CHARS,
    MAX_NODES,
    copy_json,
    count_wide,
    measure,
    parse_json,
    pointer,
    walk,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 1


class Names(list[str]):
    pass


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def ring() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "nodes", "levels", "chars"),
    [
        (None, 1, 0, 0),
        (True, 1, 0, 0),
        (5, 1, 0, 0),
        ("drill", 1, 0, 5),
        ("é🎫", 1, 0, 2),
        ([], 1, 1, 0),
        ({}, 1, 1, 0),
        ([[], []], 3, 2, 0),
        ({"a": {"bc": ["def", 1]}}, 5, 3, 6),
        ({"name": "drill", "sizes": [1, 2]}, 5, 2, 14),
        (nested(64), 64, 64, 0),
    ],
    ids=repr,
)
def test_a_value_is_measured(value: Any, nodes: int, levels: int, chars: int) -> None:
    assert measure(value) == (nodes, levels, chars, 0)


@given(values)
def test_measuring_agrees_with_walking(value: Any) -> None:
    nodes, levels, chars, _wide = measure(value)
    members = list(walk(value))
    texts = [member for member in members if isinstance(member, str)]
    keys = [key for member in members if isinstance(member, dict) for key in member]
    assert nodes == len(members)
    assert chars == sum(map(len, texts + keys))
    assert (levels > 0) == isinstance(value, dict | list)


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ((1,), "", "the value is a Python tuple, which is not plain JSON: convert it with list()"),
        ({"a": {"b": {1}}}, "/a/b", "the value is a Python set, which is not plain JSON"),
        ([0, b"x"], "/1", "the value is a Python bytes, which is not plain JSON"),
        ([Colour.RED], "/0", "the value is a Python Colour, which is not plain JSON: use its .value"),
        ([Size.BIG], "/0", "the value is a Python Size, which is not plain JSON: use its .value"),
        (Names(), "", "the value is a Python Names, which is not plain JSON: convert it with list()"),
        (OrderedDict(), "", "the value is a Python OrderedDict, which is not plain JSON: convert it with dict()"),
        ([1.5, float("nan")], "/1", "the value is nan, which is not a JSON number"),
        ({"a/b": float("-inf")}, "/a~1b", "the value is -inf, which is not a JSON number"),
        ({"a": "\ud800"}, "/a", "the value holds a lone surrogate, which no JSON text can carry"),
        ("\udfff", "", "the value holds a lone surrogate, which no JSON text can carry"),
        ({"a": {"\ud800": 1}}, "/a", "the value has a key that holds a lone surrogate, which no JSON text can carry"),
        ({"a": [{5: 1}]}, "/a/0", "the value has a key that is a Python int, and JSON keys are plain strings"),
        ({Colour.RED: 1}, "", "the value has a key that is a Python Colour, and JSON keys are plain strings"),
        ([10**5_000], "/0", "the value is an integer of more than 4,000 digits"),
        (object, "", "the value is a Python type, which is not plain JSON"),
    ],
    ids=[
        "tuple", "set", "bytes", "str enum", "int enum", "list class", "dict class", "nan", "inf", "surrogate",
        "bare surrogate", "surrogate key", "int key", "enum key", "long int", "object",
    ],
)  # fmt: skip
def test_non_json_value_is_refused_with_its_path(value: Any, path: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        measure(value)
    (problem,) = caught.value.problems
    assert (problem.path, problem.keyword, problem.message) == (path, "json", message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nested(65), "the value is nested more than 64 levels deep; send a smaller one"),
        (lambda: nested(100_000), "the value is nested more than 64 levels deep; send a smaller one"),
        (ring, "the value is nested more than 64 levels deep; send a smaller one"),
        (lambda: [0] * MAX_NODES, "the value holds more than 500,000 values; send a smaller one"),
        (
            lambda: dict.fromkeys(map(str, range(MAX_NODES))),
            "the value holds more than 500,000 values; send a smaller one",
        ),
    ],
    ids=["65", "100000", "ring", "list", "dict"],
)
def test_too_large_value_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        measure(make())
    assert [problem.keyword for problem in caught.value.problems] == ["size"]
    assert str(caught.value) == message


def test_the_limits_themselves_are_allowed() -> None:
    assert measure([0] * (MAX_NODES - 1))[0] == MAX_NODES
    assert measure(nested(300), max_depth=300)[1] == 300
    assert measure([10**4_000])[0] == 2


@given(values)
def test_a_copy_is_equal_and_shares_no_container(value: Any) -> None:
    copied = copy_json(value)
    assert copied == value
    originals = {id(member) for member in walk(value) if isinstance(member, dict | list)}
    assert not any(id(member) in originals for member in walk(copied) if isinstance(member, dict | list))


def test_shared_containers_are_copied_separately() -> None:
    shared: list[int] = []
    copied = copy_json([shared, shared])
    copied[0].append(1)
    assert copied == [[1], []]


def test_even_a_deep_value_is_copied_and_one_that_holds_itself_is_refused() -> None:
    assert measure(copy_json(nested(50_000)), max_depth=50_000)[1] == 50_000
    with pytest.raises(ValueError, match="it holds more than 500,000 values, or holds itself"):
        copy_json(ring())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ([], ""),
        (["a", 0, "b"], "/a/0/b"),
        ([""], "/"),
        (["a/b", "c~d", "~1"], "/a~1b/c~0d/~01"),
        (("é", " "), "/é/ "),
    ],
    ids=repr,
)
def test_a_path_becomes_a_json_pointer(path: Any, text: str) -> None:
    assert pointer(path) == text


@given(st.lists(st.text()))
def test_a_pointer_can_be_read_back(path: list[str]) -> None:
    parts = pointer(path).split("/")[1:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == path


@given(values)
def test_serialized_json_is_parsed_back(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("{'a': 1}", "Expecting property name"),
        ("[1,]", "Expecting value|Illegal trailing comma"),
        ("NaN", "NaN is not a JSON number"),
        ('{"a": [Infinity]}', "Infinity is not a JSON number"),
        ("[" * 100_000, "it is nested too deep"),
        ("1" * 5_000, "Exceeds the limit"),
        (b"\xff", "codec"),
    ],
    ids=["empty", "quotes", "comma", "nan", "infinity", "deep", "long", "bytes"],
)
def test_extensions_of_python_json_are_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_walking_meets_every_value_once_and_no_key() -> None:
    met = list(walk({"a": [1, {"b": None}], "c": "d"}))
    assert len(met) == 6
    assert "a" not in [member for member in met if isinstance(member, str)]


@pytest.mark.parametrize(
    ("value", "wide"),
    [
        (2**63 - 1, 0),
        (-(2**63), 0),
        (2**63, 1),
        (-(2**63) - 1, 1),
        ({"a": [2**64, 1, 2**70], "b": True, "c": 1e30}, 2),
    ],
    ids=["largest", "smallest", "above", "below", "inside"],
)
def test_integers_beyond_64_bits_are_counted(value: Any, wide: int) -> None:
    assert count_wide(value) == wide


@pytest.mark.parametrize("make", [lambda text: [text], lambda text: {text: 1}], ids=["value", "key"])
def test_more_text_than_any_honest_value_has_is_refused(make: Callable[[str], Any]) -> None:
    assert measure(make("x" * MAX_CHARS))[2] == MAX_CHARS
    with pytest.raises(ValidationError, match="characters"):
        measure(make("x" * (MAX_CHARS + 1)))
