"""Values in paths, queries, headers and cookies."""

from typing import Any

import pytest

from toolcrib.execution.http.encoding import (
    EncodingError,
    encode_cookies,
    encode_header,
    encode_path,
    encode_query,
)
from toolcrib.execution.http.plan import Parameter, Place, Style

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


def parameter(place: Place, style: Style, explode: bool = False, **more: Any) -> Parameter:
    return Parameter(argument="color", name="color", place=place, style=style, explode=explode, **more)


# The examples of the OpenAPI specification, section "Style Examples".
@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, ARRAY, ";color=blue,black,brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, ARRAY, ";color=blue;color=black;color=brown"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, ARRAY, ".blue,black,brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, ARRAY, ".blue.black.brown"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("simple", False, "blue", "blue"),
        ("simple", False, ARRAY, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
        ("simple", False, 1.5, "1.5"),
        ("simple", False, True, "true"),
        ("simple", False, "a/b?c#d%e f", "a%2Fb%3Fc%23d%25e%20f"),
    ],
)
def test_a_value_in_a_path_looks_as_the_specification_says(
    style: Style, explode: bool, value: Any, text: str
) -> None:
    assert encode_path(parameter("path", style, explode), value) == text


def test_json_in_a_path_is_percent_encoded() -> None:
    assert encode_path(parameter("path", "simple", as_json=True), {"a": 1}) == "%7B%22a%22%3A1%7D"


@pytest.mark.parametrize(
    "value",
    [
        "",
        [],
        {},
        [""],
        ".",
        "..",
        "../x",
        "a/../b",
        "a\\..\\b",
        "x/.",
        ["a", ".."],
        {"..": "x"},
        "a\x00b",
        "a\nb",
    ],
)
def test_a_value_that_leads_out_of_the_path_is_refused(value: Any) -> None:
    with pytest.raises(EncodingError):
        encode_path(parameter("path", "simple"), value)


@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("form", False, "blue", "color=blue"),
        ("form", False, ARRAY, "color=blue,black,brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, ARRAY, "color=blue&color=black&color=brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("form", False, ["a,b", "c"], "color=a%2Cb,c"),
        ("form", False, [], ""),
        ("spaceDelimited", False, ARRAY, "color=blue%20black%20brown"),
        ("pipeDelimited", False, ARRAY, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("pipeDelimited", True, ARRAY, "color=blue&color=black&color=brown"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        ("deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2"),
        ("deepObject", True, [1, 2], "color=1&color=2"),
        ("form", True, [{"a": 1}], "color=%7B%22a%22%3A1%7D"),
        ("form", True, "a&b=c+d#e", "color=a%26b%3Dc%2Bd%23e"),
    ],
)
def test_a_value_in_a_query_looks_as_the_specification_says(
    style: Style, explode: bool, value: Any, text: str
) -> None:
    pairs = encode_query(parameter("query", style, explode), value)
    assert "&".join(f"{name}={value}" for name, value in pairs) == text


def test_reserved_signs_stay_where_that_is_allowed_but_for_those_that_end_a_value() -> None:
    kept = parameter("query", "form", keep_reserved=True)
    assert encode_query(kept, "a/b:c?d&e=f#g+h") == [("color", "a/b:c?d%26e%3Df%23g%2Bh")]


def test_json_in_a_query_is_one_value() -> None:
    assert encode_query(parameter("query", "form", as_json=True), [1]) == [("color", "%5B1%5D")]


@pytest.mark.parametrize(("style", "value"), [("spaceDelimited", ["a b"]), ("pipeDelimited", {"k": "a|b"})])
def test_a_value_that_holds_the_separator_is_refused(style: Style, value: Any) -> None:
    with pytest.raises(EncodingError, match="separates"):
        encode_query(parameter("query", style), value)


@pytest.mark.parametrize(
    ("explode", "value", "text"),
    [
        (False, "blue sky", "blue sky"),
        (False, ARRAY, "blue,black,brown"),
        (False, OBJECT, "R,100,G,200,B,150"),
        (True, OBJECT, "R=100,G=200,B=150"),
        (False, "", ""),
        (False, "é", "é"),
        (False, None, "null"),
    ],
)
def test_a_value_in_a_header(explode: bool, value: Any, text: str) -> None:
    assert encode_header(parameter("header", "simple", explode), value) == text


def test_json_in_a_header_is_ascii() -> None:
    assert encode_header(parameter("header", "simple", as_json=True), {"a": "é"}) == '{"a": "\\u00e9"}'


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\n", "\x00", " a", "a ", "日本", ["a,b"], "a\x7f"])
def test_invalid_header_value_is_refused(value: Any) -> None:
    with pytest.raises(EncodingError):
        encode_header(parameter("header", "simple"), value)


@pytest.mark.parametrize(
    ("explode", "value", "cookies"),
    [
        (False, "blue", ["color=blue"]),
        (False, "a;b c,d\r\n", ["color=a%3Bb%20c%2Cd%0D%0A"]),
        (False, ARRAY, ["color=blue%2Cblack%2Cbrown"]),
        (False, [], []),
        (True, OBJECT, ["R=100", "G=200", "B=150"]),
        (True, ["a", "b"], ["color=a", "color=b"]),
    ],
)
def test_a_value_in_a_cookie(explode: bool, value: Any, cookies: list[str]) -> None:
    assert encode_cookies(parameter("cookie", "form", explode), value) == cookies


def test_json_in_a_cookie_and_a_name_that_no_cookie_has() -> None:
    assert encode_cookies(parameter("cookie", "form", as_json=True), [1]) == ["color=[1]"]
    with pytest.raises(EncodingError, match="name of a cookie"):
        encode_cookies(parameter("cookie", "form", explode=True), {"a=b; c": "d"})
