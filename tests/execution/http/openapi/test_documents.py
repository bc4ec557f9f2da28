"""Documents as they are read: JSON, YAML, and those that are out to harm."""

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.errors import ConfigError, InvalidToolError, ToolcribError
from toolcrib.execution.http import OpenApiProvider
from toolcrib.execution.http.openapi.document import read_document

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
)
MERGES = "a: &a {k: 1}\nb: {<<: [*a, *a]}\n"
TAGGED_MERGES = "l0: &l0 {a: 1, b: 2}\n" + "".join(
    f"l{n}: &l{n} {{ !!merge '<<': [{', '.join([f'*l{n - 1}'] * 10)}] }}\n" for n in range(1, 9)
)


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_yaml_is_read_as_json_would_be() -> None:
    text = """
        openapi: 3.0.3
        yes: no
        when: 2024-01-01
        time: 12:30:45
        octal: 010
        number: -1.5e3
        whole: +7
        none: ~
        empty:
        truth: true
        responses:
          200: {description: ok}
        quoted: "1"
    """
    assert read_document(text) == {
        "openapi": "3.0.3", "yes": "no", "when": "2024-01-01", "time": "12:30:45", "octal": 10, "number": -1500.0,
        "whole": 7, "none": None, "empty": None, "truth": True, "responses": {"200": {"description": "ok"}},
        "quoted": "1",
    }  # fmt: skip


def test_yaml_may_say_the_type_of_a_value_that_is_json() -> None:
    text = (
        "{a: !!str 1, b: !!int '2', c: !!float 3, d: !!bool 'true', e: !!null '', f: !!map {}, g: !!seq []}"
    )
    expected = {"a": "1", "b": 2, "c": 3.0, "d": True, "e": None, "f": {}, "g": []}
    assert read_document(f"# YAML\n{text}") == expected
    assert read_document("a: {'<<': 1}") == {"a": {"<<": 1}}


def test_aliases_are_expanded_into_copies() -> None:
    read = read_document("a: &x {k: [1]}\nb: *x\n")
    assert read == {"a": {"k": [1]}, "b": {"k": [1]}}
    assert read["a"] is not read["b"]


def test_provider_does_not_share_the_given_document() -> None:
    given: dict[str, Any] = {"a": {"b": [1]}, "c": (1, 2)}
    read = read_document(given)
    read["a"]["b"].append(2)
    assert given["a"]["b"] == [1]
    assert read["c"] == [1, 2]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidToolError, match=r"nowhere.json.* cannot be read"):
        read_document(tmp_path / "nowhere.json")


@pytest.mark.parametrize("name", ["openapi.json", "specs/shop.YAML", "C:\\\\shop.yml", "~/my api.json"])
def test_the_name_of_a_file_is_told_from_its_text(name: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        OpenApiProvider.from_document(name, id="shop")
    assert str(caught.value).endswith(f"it is the name of a file; to read a file, pass Path({name!r})")


@pytest.mark.parametrize("url", ["https://shop.example/openapi.json", " HTTP://localhost:8000/docs\n"])
def test_a_document_is_not_downloaded(url: str) -> None:
    with pytest.raises(InvalidToolError, match="a document is a file or its text; download it first"):
        OpenApiProvider.from_document(url, id="shop")


def test_a_document_of_one_line_may_end_like_the_name_of_a_file() -> None:
    assert read_document("a: b.json") == {"a": "b.json"}


def test_a_mark_of_byte_order_is_no_part_of_a_document() -> None:
    assert read_document(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    assert read_document('\ufeff{"a": 1}') == {"a": 1}


@pytest.mark.attack
@pytest.mark.parametrize(
    "source",
    [
        "[1]", "text", "", "{", '{"a": NaN}', b"\xff\xfe", "a: [", "a: !!python/object/apply:os.system [ls]",
        "a: !!binary aGk=", "a: !!set {x}", "1.5: x", "true: x", "[1]: x", f"a: {'9' * 5000}", "&a [*a]", "a: &a [*a]",
        BOMB, MERGES, "a: " + "[" * 200_000, "{" + '"a": {' * 100_000, "a: " + "{a: " * 100_000, nested(300), {1.5: 2},
        {"a": {1, 2}}, '{"a": "' + "x" * (17 << 20) + '"}', {"a": [[]] * 1_000_001}, "? " * 100_000,
        "- " * 50_000, "*" * 1000, "%YAML 9.9\n---\na: 1", 7, TAGGED_MERGES, "a: {!<tag:yaml.org,2002:merge> b: {}}",
        "a: !!bool maybe", "a: !!timestamp nope", "a: !!int x", "a: !!float nan", "a: !!null x", "a: !!value x",
        "a: !!omap [b: 1]", "a: !!pairs [b: 1]", "a: !mine b", "a: !!str [b]", "a: !!map [b]", "a: !!seq {b: 1}",
    ],
    ids=lambda source: (source[:20].strip() or "empty") if isinstance(source, str) else type(source).__name__,
)  # fmt: skip
def test_a_document_that_is_none_or_hostile_is_refused_in_no_time(source: Any) -> None:
    with at_most(5), pytest.raises(InvalidToolError, match="invalid OpenAPI document"):
        read_document(source)


WHOLE: dict[str, Any] = {
    "openapi": "3.0.3",
    "servers": [{"url": "https://{r}.example/v1", "variables": {"r": {"default": "x", "enum": ["x"]}}}],
    "security": [{"K": []}],
    "components": {
        "securitySchemes": {"K": {"type": "apiKey", "in": "header", "name": "X-K"}, "B": {"type": "http", "scheme": "basic"}},
        "schemas": {
            "A": {
                "type": "object", "nullable": True, "required": ["a"],
                "properties": {
                    "a": {"$ref": "#/components/schemas/A"},
                    "b": {"type": "array", "items": {"oneOf": [{"type": "string", "format": "binary"}]}, "readOnly": True},
                },
            }
        },
        "parameters": {"P": {"name": "p", "in": "query", "style": "form", "schema": {"$ref": "#/components/schemas/A"}}},
        "requestBodies": {
            "R": {"content": {"multipart/form-data": {
                "schema": {"$ref": "#/components/schemas/A"}, "encoding": {"a": {"contentType": "x/y", "style": "form"}}}}}
        },
        "responses": {"O": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}},
    },
    "paths": {
        "/x/{id}": {
            "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}],
            "post": {
                "operationId": "a", "tags": ["t"], "summary": "s", "security": [{"K": [], "B": []}, {}],
                "parameters": [{"$ref": "#/components/parameters/P"}, {"name": "j", "in": "header", "content": {"application/json": {"schema": {}}}}],
                "requestBody": {"$ref": "#/components/requestBodies/R"},
                "responses": {"200": {"$ref": "#/components/responses/O"}, "204": {"description": ""}},
            },
            "put": {"requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"q": {}}}}}}},
        }
    },
}  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in a document: the container, and the key in it."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        container = pending.pop()
        members = container.items() if isinstance(container, dict) else enumerate(container)
        for key, member in members:
            found.append((container, key))
            if isinstance(member, dict | list):
                pending.append(member)
    return found


@law(20)
@given(st.data())
def test_a_document_with_anything_anywhere_gives_tools_or_a_typed_error(data: st.DataObject) -> None:
    odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    anything = st.recursive(
        odd,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    )
    pointers = st.sampled_from(
        ["#", "#/", "#/paths", "#/components/schemas/A", "http://e.example", "\ud800", "../.."]
    )
    document = deepcopy(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(_places(document)))
        container[key] = data.draw(anything | pointers | st.builds(lambda ref: {"$ref": ref}, pointers))
    with suppress(ToolcribError):
        OpenApiProvider.from_document(document, id="t")


def test_the_document_that_is_mutilated_above_is_a_good_one() -> None:
    made = OpenApiProvider.from_document(WHOLE, id="t")
    assert [tool.name for tool in made.tools()] == ["put_x_id", "a"]
    assert made.skipped == ()


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "only OpenAPI 3 is supported"),
        ({"swagger": "2.0"}, "this is '2.0'"),
        ({"openapi": "4.0.0"}, "only OpenAPI 3 is supported"),
        ({"openapi": "3.1.0", "paths": []}, "it must be an object"),
    ],
)
def test_a_document_of_another_kind_is_refused(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidToolError, match=reason):
        OpenApiProvider.from_document(document, id="t", base_url="https://api.example")


def test_an_id_that_can_be_no_namespace_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="invalid provider"):
        OpenApiProvider.from_document({"openapi": "3.1.0"}, id="a b", base_url="https://api.example")


def test_a_document_without_paths_has_no_tools() -> None:
    made = OpenApiProvider.from_document("openapi: 3.1.0", id="t", base_url="https://api.example")
    assert made.tools() == ()


def served(url: Any, **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "servers": [{"url": url, **more}], "paths": {"/x": {"get": {}}}}


@pytest.mark.parametrize(
    "url",
    ["ftp://a.example", "file:///etc/passwd", "https://", "https://u:p@a.example", "/v1", "//a.example/v1", "https://a.example/?q=1",
     "https://a.example/#f", "https://a b.example", "https://a.example:0", "https://a.example:99999", "https://a.example/../x", 7,
     "https://.a.example", "https://a..example", "https://./", "https://[::1", "javascript://a.example", "http:\\\\a.example", "{scheme}://a.example"],
)  # fmt: skip
def test_an_address_that_is_none_of_the_web_is_refused(url: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenApiProvider.from_document(served(url), id="t")
    assert "u:p" not in str(caught.value)


def test_servers_that_are_no_list_of_objects_are_refused() -> None:
    for servers in ("x", ["x"], [{}]):
        with pytest.raises(ConfigError, match="has no url"):
            OpenApiProvider.from_document({"openapi": "3.1.0", "servers": servers}, id="t")


def test_a_variable_of_a_server_must_be_one_of_those_allowed() -> None:
    document = served(
        "https://{region}.example:{port}/v1",
        variables={"region": {"default": "eu", "enum": ["eu", "us"]}, "port": {"default": "8443"}},
    )
    OpenApiProvider.from_document(document, id="t", variables={"region": "us"})
    with pytest.raises(ConfigError, match=r"needs one of \['eu', 'us'\] \{region\}"):
        OpenApiProvider.from_document(document, id="t", variables={"region": "evil"})
    with pytest.raises(ConfigError, match=r"\{region\}; give it in variables"):
        OpenApiProvider.from_document(served("https://{region}.example"), id="t")


def test_an_option_that_is_not_known_or_cannot_be_used_is_refused() -> None:
    with pytest.raises(TypeError, match="no option 'timeout'"):
        OpenApiProvider.from_document(served("https://a.example"), id="t", timeout=3)  # type: ignore[call-arg]
    for headers in ({"a b": "x"}, {"x": "a\r\nb"}, {"x": " a"}):
        with pytest.raises(ConfigError, match="header"):
            OpenApiProvider.from_document(served("https://a.example"), id="t", headers=headers)
