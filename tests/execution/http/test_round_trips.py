"""Arguments of any kind reach the server exactly as they were sent, in every style.

The readers below follow RFC 6570 and the specification, and share nothing with the writer.
"""

import base64
import json
from collections.abc import Callable, Iterator
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, unquote_plus

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from execution.http.support import LOCAL, document_of, run
from hypothesis import example, given
from hypothesis import strategies as st
from laws import law

from toolcrib.execution.http import OpenApiProvider

Ask = Callable[..., dict[str, Any]]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
segment = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda value: not {".", ".."} & set(value.replace("\\", "/").split("/"))
)
scalar = text | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
key = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="[]"), min_size=1, max_size=6)
json_value = st.recursive(
    scalar | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
ascii_line = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="module")
def ask(url: str, portal: BlockingPortal) -> Iterator[Ask]:
    made: dict[str, OpenApiProvider] = {}

    def call(
        operation: dict[str, Any], args: dict[str, Any], *, path: str = "/echo/x", method: str = "post"
    ) -> Any:
        signature = json.dumps([operation, path, method])
        if signature not in made:
            document = document_of(operation, path=path, method=method)
            made[signature] = OpenApiProvider.from_document(
                document, id="t", base_url=url, allow_private=LOCAL
            )
            assert made[signature].skipped == ()
        return portal.call(lambda: run(made[signature], "op", **args))

    yield call
    for provider in made.values():
        portal.call(provider.aclose)


def parameter(
    place: str, style: str | None = None, explode: bool | None = None, **more: Any
) -> dict[str, Any]:
    said = {"style": style, "explode": explode}
    return {
        "parameters": [
            {"name": "p", "in": place, "required": True, "schema": {}, **more}
            | {word: value for word, value in said.items() if value is not None}
        ]
    }


@law(20)
@given(value=segment | st.integers() | st.booleans())
@example(value="a/b")
@example(value="%2e%2e%2f")
@example(value="..a")
@example(value="?x=1#y;z")
def test_a_path_argument_is_one_segment(ask: Ask, value: Any) -> None:
    seen = ask(parameter("path"), {"p": value}, path="/echo/a/{p}/b")
    raw = seen["raw_path"].removeprefix("/echo/a/").removesuffix("/b")
    assert "/" not in raw
    assert unquote(raw) == as_text(value)


@law(20)
@given(value=st.lists(segment, min_size=1, max_size=4))
def test_a_path_argument_that_is_an_array(ask: Ask, value: list[str]) -> None:
    for style, separator in (("simple", ","), ("label", "."), ("matrix", ";p=")):
        plain = [member.replace(".", "x") for member in value]  # a label cannot tell its separator from a dot
        seen = ask(parameter("path", style, explode=True), {"p": plain}, path="/echo/a/{p}/b")
        raw = seen["raw_path"].removeprefix("/echo/a/").removesuffix("/b")
        raw = raw.removeprefix("" if style == "simple" else separator)
        assert [unquote(part) for part in raw.split(separator)] == plain


@law(20)
@given(value=scalar)
def test_a_query_argument(ask: Ask, value: Any) -> None:
    assert ask(parameter("query"), {"p": value})["query"] == [["p", as_text(value)]]


@law(20)
@given(value=st.lists(scalar, max_size=4))
def test_a_query_argument_that_is_an_array(ask: Ask, value: list[Any]) -> None:
    seen = ask(parameter("query"), {"p": value})
    assert seen["query"] == [["p", as_text(member)] for member in value]
    raw = ask(parameter("query", "form", explode=False), {"p": value})["raw_query"]
    assert [unquote(part) for part in raw.removeprefix("p=").split(",")] == [
        as_text(member) for member in value
    ] or not value


@law(20)
@given(
    value=st.lists(text, max_size=4), style=st.sampled_from([("spaceDelimited", " "), ("pipeDelimited", "|")])
)
def test_a_query_argument_with_another_separator(ask: Ask, value: list[str], style: tuple[str, str]) -> None:
    name, separator = style
    plain = [member.replace(separator, "") for member in value]
    seen = ask(parameter("query", name, explode=False), {"p": plain})
    assert seen["query"] == ([["p", separator.join(plain)]] if plain else [])


@law(20)
@given(value=st.dictionaries(key, scalar, max_size=4))
def test_a_query_argument_that_is_an_object(ask: Ask, value: dict[str, Any]) -> None:
    pairs = [[name, as_text(member)] for name, member in value.items()]
    assert ask(parameter("query"), {"p": value})["query"] == pairs
    deep = ask(parameter("query", "deepObject", explode=True), {"p": value})["query"]
    assert deep == [[f"p[{name}]", member] for name, member in pairs]
    flat = ask(parameter("query", "form", explode=False), {"p": value})["raw_query"]
    parts = [unquote(part) for part in flat.removeprefix("p=").split(",")]
    assert parts == [part for pair in pairs for part in pair] or not value


@law(20)
@given(value=json_value)
def test_an_argument_that_is_written_as_json(ask: Ask, value: Any) -> None:
    content = {"application/json": {"schema": {}}}
    seen = ask({"parameters": [{"name": "p", "in": "query", "content": content}]}, {"p": value})
    assert json.loads(dict(seen["query"])["p"]) == value
    seen = ask({"parameters": [{"name": "x-p", "in": "header", "content": content}]}, {"x-p": value})
    assert json.loads(seen["headers"]["x-p"]) == value


@law(20)
@given(value=ascii_line | st.integers())
def test_a_header_argument_and_a_cookie(ask: Ask, value: Any) -> None:
    assert ask(parameter("header"), {"p": value})["headers"]["p"] == as_text(value)
    seen = ask(parameter("cookie"), {"p": value})["headers"]["cookie"]
    assert unquote(seen.removeprefix("p=")) == as_text(value)


@law(20)
@given(value=text)
def test_a_cookie_holds_any_text_percent_encoded(ask: Ask, value: str) -> None:
    seen = ask(parameter("cookie"), {"p": value})["headers"]["cookie"]
    assert seen.startswith("p=")
    assert ";" not in seen
    assert unquote(seen.removeprefix("p=")) == value


def body_of(media_type: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema or {}, **more}}}}


@law(20)
@given(value=json_value)
def test_a_json_body(ask: Ask, value: Any) -> None:
    seen = ask(body_of("application/json"), {"body": value})
    assert json.loads(base64.b64decode(seen["body"])) == value
    assert seen["type"] == "application/json"


@law(20)
@given(value=st.dictionaries(text, json_value, max_size=4))
def test_a_json_body_whose_members_are_arguments(ask: Ask, value: dict[str, Any]) -> None:
    body = body_of("application/merge-patch+json", {"type": "object", "properties": {"a": {}}})
    seen = ask(body, value, method="patch")
    assert json.loads(base64.b64decode(seen["body"])) == value
    assert seen["type"] == "application/merge-patch+json"


@law(20)
@given(value=st.dictionaries(text, st.lists(scalar, min_size=1, max_size=3) | scalar, max_size=4))
def test_a_form(ask: Ask, value: dict[str, Any]) -> None:
    seen = ask(body_of("application/x-www-form-urlencoded", {"type": "object", "properties": {}}), value)
    read = parse_qsl(base64.b64decode(seen["body"]).decode(), keep_blank_values=True)
    expected = [
        (name, as_text(member))
        for name, given_value in value.items()
        for member in (given_value if isinstance(given_value, list) else [given_value])
    ]
    assert read == expected


@law(20)
@given(name=text, content=st.binary(max_size=64))
def test_a_multipart_body(ask: Ask, name: str, content: bytes) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "file": {"type": "string", "format": "binary"}},
    }
    encoded = base64.b64encode(content).decode()
    seen = ask(body_of("multipart/form-data", schema), {"name": name, "file": encoded})
    raw = base64.b64decode(seen["body"])
    boundary = seen["type"].partition("boundary=")[2].encode()
    first, second = raw.removeprefix(b"--" + boundary + b"\r\n").split(b"\r\n--" + boundary)[:2]
    assert first.partition(b"\r\n\r\n")[2].decode() == name
    assert second.removeprefix(b"\r\n").partition(b"\r\n\r\n")[2] == content
    head = message_from_bytes(second.removeprefix(b"\r\n").partition(b"\r\n\r\n")[0])
    assert head.get_filename() == "file"


@law(20)
@given(value=text, content=st.binary(max_size=64))
def test_text_and_bytes(ask: Ask, value: str, content: bytes) -> None:
    seen = ask(body_of("text/plain", {"type": "string"}), {"body": value})
    assert base64.b64decode(seen["body"]).decode() == value
    assert seen["type"] == "text/plain; charset=utf-8"
    seen = ask(body_of("application/octet-stream"), {"body": base64.b64encode(content).decode()})
    assert base64.b64decode(seen["body"]) == content


@law(20)
@given(value=st.dictionaries(key, text, max_size=3))
def test_a_form_whose_member_is_deep(ask: Ask, value: dict[str, str]) -> None:
    schema = {"type": "object", "properties": {"p": {"type": "object"}}}
    body = body_of(
        "application/x-www-form-urlencoded", schema, encoding={"p": {"style": "deepObject", "explode": True}}
    )
    seen = base64.b64decode(ask(body, {"p": value})["body"]).decode()
    pairs = [part.split("=", 1) for part in seen.split("&") if part]
    assert [(unquote_plus(name), unquote_plus(member)) for name, member in pairs] == [
        (f"p[{name}]", member) for name, member in value.items()
    ]
    assert parse_qs(seen, keep_blank_values=True).keys() == {f"p[{name}]" for name in value}
