"""Tags: one form for every spelling."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidToolError
from toolcrib.model import Tool, normalize_tags
from toolcrib.model.tool import MAX_TAG_LENGTH, MAX_TAGS


@pytest.mark.parametrize(
    ("tags", "normal"),
    [
        ([], ()),
        (["GitHub"], ("github",)),
        (["  issue \t\n tracking  "], ("issue-tracking",)),
        (["a\u00a0b", "c\u2003d"], ("a-b", "c-d")),
        (["C++", "a b!c", "x/y:z"], ("c", "a-bc", "xyz")),
        (["É!", "", "   ", "日本"], ()),
        (["--", "_", "a.b"], ("--", "_", "a.b")),
        (["a é"], ("a-",)),
        (["b", "a", "B", " a "], ("b", "a")),
        (["x" * 65, "x" * 64], ("x" * 64,)),
        (["é" + "x" * 65], ("x" * 64,)),
        ([str(number) for number in range(30)], tuple(str(number) for number in range(20))),
        (["!", *map(str, range(30))], tuple(str(number) for number in range(20))),
        (["a"] * 30 + ["b"], ("a", "b")),
    ],
    ids=[
        "none", "case", "whitespace", "other spaces", "foreign", "nothing left", "punctuation", "hyphen stays",
        "twice", "long", "long after dropping", "twenty", "empty ones do not count", "repeats do not count",
    ],
)  # fmt: skip
def test_tags_are_brought_to_one_form(tags: list[str], normal: tuple[str, ...]) -> None:
    assert normalize_tags(tags) == normal


def test_tags_may_come_from_any_iterable() -> None:
    assert normalize_tags(tag for tag in ("A", "b")) == ("a", "b")


def test_a_tool_brings_its_tags_to_that_form() -> None:
    tool = Tool(name="a", input_schema={}, tags=("Issue Tracking", "issue  tracking"))
    assert tool.tags == ("issue-tracking",)


@given(st.lists(st.text(), max_size=40))
def test_normal_tags_are_few_short_distinct_plain_and_stay_as_they_are(tags: list[str]) -> None:
    normal = normalize_tags(tags)
    assert len(normal) <= MAX_TAGS
    assert len(set(normal)) == len(normal)
    assert all(re.fullmatch(rf"[a-z0-9_.-]{{1,{MAX_TAG_LENGTH}}}", tag) for tag in normal)
    assert normalize_tags(normal) == normal


@pytest.mark.parametrize("tags", ["abc", b"abc", None, 5, [1], [None], [b"x"]])
def test_tags_must_be_a_list_of_texts(tags: Any) -> None:
    with pytest.raises(InvalidToolError, match="tag"):
        normalize_tags(tags)
