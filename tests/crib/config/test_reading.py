"""JSON with comments and trailing commas."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.crib.config.reading import parse_jsonc

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(alphabet='"\\/*,]} \nab'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='"\\/*,]}a'), inner),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{} // the end", {}),
        ("// first\n{}", {}),
        ("/* over\n two lines */ [1]", [1]),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2 , ] , }', {"a": [1, 2]}),
        ('{"a": 1, // why\n /* and */ }', {"a": 1}),
        ('{"url": "http://x//y", "b": "/* no */"}', {"url": "http://x//y", "b": "/* no */"}),
        (r'{"a": "\"// no"}', {"a": '"// no'}),
        ('{"a": ",]"}', {"a": ",]"}),
    ],
)
def test_comments_and_trailing_commas_are_read_over(text: str, value: Any) -> None:
    assert parse_jsonc(text) == value


@pytest.mark.parametrize("text", ["{,}{", "[1,,]", "/* open", '{"a: 1}', "", "{'a': 1}", "NaN"])
def test_text_that_is_neither_json_nor_jsonc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_jsonc(text)


def test_a_fault_is_reported_where_it_stands() -> None:
    with pytest.raises(ValueError, match="line 3 column 2"):
        parse_jsonc('{ /* one\ntwo */ "a": 1, // three\n b}')


@given(JSON)
def test_plain_json_means_what_it_always_meant(value: Any) -> None:
    assert parse_jsonc(json.dumps(value)) == value
    assert parse_jsonc(json.dumps(value, indent=1)) == value
