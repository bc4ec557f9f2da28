"""Operations as tools: names, arguments, bodies, and where they are served."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from execution.http.support import LOCAL, document_of, run, tool_of

from toolcrib.errors import InputValidationError
from toolcrib.execution.http import OpenApiProvider
from toolcrib.setup.lint import lint_tools

BASE = "https://api.example"
NAME = {"name": "name", "in": "query", "schema": {"type": "string"}}


def provider(document: dict[str, Any], **options: Any) -> OpenApiProvider:
    return OpenApiProvider.from_document(document, id="t", **({"base_url": BASE} | options))


def body_of(
    media_type: str = "application/json", schema: Any = None, *, required: bool = True, **more: Any
) -> dict[str, Any]:
    return {
        "required": required,
        "content": {media_type: {"schema": {} if schema is None else schema}},
        **more,
    }


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Any]:
    made: list[OpenApiProvider] = []

    def open_one(document: dict[str, Any], **options: Any) -> OpenApiProvider:
        made.append(provider(document, **({"base_url": url, "allow_private": LOCAL} | options)))
        assert made[-1].skipped == ()
        return made[-1]

    yield open_one
    for one in made:
        await one.aclose()


def test_a_name_is_the_id_of_the_operation_or_its_method_and_path_and_unique() -> None:
    paths = {
        "/a": {"get": {"operationId": "list things!"}, "post": {"operationId": "list_things"}},
        "/a/{id}/b": {"get": {"parameters": [{"name": "id", "in": "path", "schema": {}}]}},
        "/": {"get": {"operationId": "!!"}, "put": {"operationId": 7}, "patch": {"operationId": "x" * 300}},
        "/b": {"patch": {"operationId": "x" * 300}},
        "x-extension": {"get": {}},
    }
    names = [tool.name for tool in provider({"openapi": "3.1.0", "paths": paths}).tools()]
    assert names == ["list_things", "list_things_2", "get_a_id_b", "get", "put", "x" * 128, "x" * 126 + "_2"]


def test_texts_of_an_operation_are_kept() -> None:
    operation = {
        "summary": " Do it ",
        "deprecated": True,
        "tags": ["One Two", 3],
        "parameters": [
            {"name": "a", "in": "query", "description": " what ", "deprecated": True, "example": 1, "schema": {"type": "integer"}},
            {"name": "b", "in": "query", "description": "d", "schema": True},
            {"name": "c", "in": "query", "description": "d", "schema": False},
        ],
    }  # fmt: skip
    (tool,) = provider(document_of(operation)).tools()
    assert (tool.title, tool.description, tool.tags) == ("Do it", "Deprecated. Do it", ("one-two",))
    assert tool.meta == {"openapi/operation": "GET /echo/x", "openapi/deprecated": True}
    assert tool.input_schema["properties"] == {
        "a": {"type": "integer", "description": "what", "deprecated": True, "examples": [1]},
        "b": {"description": "d"},
        "c": False,
    }


def test_an_operation_that_says_nothing_is_a_tool_without_words() -> None:
    (tool,) = provider(document_of({})).tools()
    assert (tool.title, tool.description, tool.output_schema) == (None, None, None)


@pytest.mark.anyio
async def test_parameters_with_one_name_are_told_apart_by_their_place(opened: Any) -> None:
    parameters = [
        {"name": "id", "in": place, "required": True, "schema": {"type": "string"}}
        for place in ("cookie", "header", "query", "path")
    ]
    taken = {"name": "query_id", "in": "query", "schema": {}}
    api = opened(document_of({"parameters": [*parameters, taken]}, path="/echo/{id}"))
    args = {"id": "1", "query_query_id": "no"}
    schema = tool_of(api, "op").input_schema
    assert set(schema["properties"]) == {"id", "query_id", "query_id_2", "header_id", "cookie_id"}
    args = {"id": "p", "query_id_2": "q", "query_id": "other", "header_id": "h", "cookie_id": "c"}
    seen = await run(api, "op", **args)
    assert seen["raw_path"] == "/echo/p"
    assert sorted(seen["query"]) == [["id", "q"], ["query_id", "other"]]
    assert (seen["headers"]["id"], seen["cookies"]) == ("h", {"id": "c"})


@pytest.mark.anyio
async def test_parameters_of_the_path_are_shared_and_those_of_the_operation_stand(opened: Any) -> None:
    document = document_of({"parameters": [{**NAME, "schema": {"type": "integer"}}]})
    document["paths"]["/echo/x"]["parameters"] = [NAME, {"$ref": "#/components/parameters/Size"}]
    document["components"] = {"parameters": {"Size": {"name": "size", "in": "query", "schema": {}}}}
    api = opened(document)
    schema = tool_of(api, "op").input_schema["properties"]
    assert schema == {"name": {"type": "integer"}, "size": {}}
    assert (await run(api, "op", name=1, size=2))["query"] == [["name", "1"], ["size", "2"]]


def test_headers_that_say_who_calls_or_where_a_body_ends_are_no_arguments() -> None:
    names = [
        "Host",
        "content-length",
        "AUTHORIZATION",
        "Cookie",
        "Transfer-Encoding",
        "Accept",
        "Content-Type",
        "X-Own",
    ]
    operation = {
        "parameters": [{"name": name, "in": "header", "required": True, "schema": {}} for name in names]
    }
    (tool,) = provider(document_of(operation)).tools()
    assert list(tool.input_schema["properties"]) == ["X-Own"]


def test_where_a_secret_goes_is_no_argument() -> None:
    schemes = {
        "K": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "Q": {"type": "apiKey", "in": "query", "name": "key"},
    }
    operation = {
        "parameters": [
            {"name": "x-key", "in": "header", "schema": {}},
            {"name": "key", "in": "query", "schema": {}},
        ]
    }
    (tool,) = provider(document_of(operation, components={"securitySchemes": schemes})).tools()
    assert tool.input_schema["properties"] == {}


OBJECT = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {}}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("schema", "args", "sent"),
    [
        (OBJECT, {"name": "n", "a": 1}, {"a": 1}),
        (OBJECT, {"name": "n", "a": 1, "more": [2]}, {"a": 1, "more": [2]}),
        ({"$ref": "#/components/schemas/O"}, {"a": 1, "b": None}, {"a": 1, "b": None}),
        ({"type": "object", "properties": {"a": {}}}, {}, {}),
        ({"type": "object", "properties": {"name": {}}}, {"name": "n", "body": {"name": "m"}}, {"name": "m"}),
        ({"type": "array"}, {"body": [1]}, [1]),
        ({"anyOf": [OBJECT]}, {"body": {"a": 1}}, {"a": 1}),
        ({**OBJECT, "minProperties": 1}, {"body": {"a": 1}}, {"a": 1}),
    ],
)
async def test_the_members_of_a_json_body_are_arguments_where_nothing_is_lost(
    opened: Any, schema: Any, args: dict[str, Any], sent: Any
) -> None:
    operation = {"parameters": [NAME], "requestBody": body_of(schema=schema)}
    api = opened(document_of(operation, method="post", components={"schemas": {"O": OBJECT}}))
    seen = await run(api, "op", **args)
    assert json.loads(base64.b64decode(seen["body"])) == sent
    assert ("body" in tool_of(api, "op").input_schema["properties"]) is ("body" in args)
    assert seen["query"] == ([["name", args["name"]]] if "name" in args else [])


def test_the_arguments_of_a_body_are_as_open_as_it_is() -> None:
    for more, said in ((False, False), ({"type": "string"}, {"type": "string"}), (True, None), (None, None)):
        schema = {**OBJECT, **({} if more is None else {"additionalProperties": more})}
        (tool,) = provider(document_of({"requestBody": body_of(schema=schema)}, method="post")).tools()
        assert tool.input_schema.get("additionalProperties") == said
        assert tool.input_schema["required"] == ["a"]


@pytest.mark.anyio
async def test_a_body_that_may_be_absent_is_sent_only_when_something_is_given(opened: Any) -> None:
    spread = body_of(schema={"type": "object", "properties": {"a": {}}}, required=False)
    api = opened(document_of({"requestBody": spread}, method="post"))
    assert (await run(api, "op"))["type"] is None
    assert (await run(api, "op", a=1))["body"] == base64.b64encode(b'{"a":1}').decode()
    whole = body_of(schema=OBJECT, required=False, description="What to make.")
    api = opened(document_of({"requestBody": whole}, method="post"))
    assert "required" not in tool_of(api, "op").input_schema
    assert tool_of(api, "op").input_schema["properties"]["body"]["description"] == "What to make."
    assert (await run(api, "op"))["type"] is None


def test_a_parameter_called_body_makes_way_for_none() -> None:
    operation = {"parameters": [{**NAME, "name": "body"}], "requestBody": body_of(schema={"type": "array"})}
    (tool,) = provider(document_of(operation, method="post")).tools()
    assert set(tool.input_schema["properties"]) == {"body", "body_2"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("content", "args", "media_type", "sent"),
    [
        ({"text/csv": {}, "application/json": {}}, {"body": 1}, "application/json", b"1"),
        ({"application/xml": {}}, {"body": "<a/>"}, "application/xml; charset=utf-8", b"<a/>"),
        ({"image/png": {}}, {"body": "AAE="}, "image/png", b"\x00\x01"),
        ({"*/*": {"schema": {"type": "object"}}}, {"body": {}}, "application/json", b"{}"),
        ({"*/*": {"schema": {"type": "string"}}}, {"body": "AA=="}, "application/octet-stream", b"\x00"),
        ({"Application/JSON; charset=utf-8": {}}, {"body": "ü"}, "application/json", '"ü"'.encode()),
        (
            {"application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": {"a": {}, "b": {}, "n": {}}},
                "encoding": {"a": {"contentType": "application/json"}, "b": {"explode": False}},
            }},
            {"a": [1], "b": ["x", "y"], "n": None}, "application/x-www-form-urlencoded", b"a=%5B1%5D&b=x,y",
        ),
    ],
)  # fmt: skip
async def test_each_media_type_is_sent_as_it_should_be(
    opened: Any, content: Any, args: dict[str, Any], media_type: str, sent: bytes
) -> None:
    api = opened(document_of({"requestBody": {"required": True, "content": content}}, method="put"))
    seen = await run(api, "op", **args)
    assert (seen["type"], base64.b64decode(seen["body"])) == (media_type, sent)


@pytest.mark.anyio
async def test_the_parts_of_a_multipart_body_have_their_types(opened: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "meta": {"type": "object"}, "note": {"type": "string"}, "n": {}, 'q"': {},
            "file": {"$ref": "#/components/schemas/File"}, "image": {"contentMediaType": "image/png"},
            "coded": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
        },
    }  # fmt: skip
    encoding = {
        "note": {"contentType": "text/markdown"},
        "image": {"contentType": "image/png, image/*"},
        "file": {"contentType": "*/*"},
    }
    content = {"multipart/form-data": {"schema": schema, "encoding": encoding}}
    document = document_of(
        {"requestBody": {"required": True, "content": content}},
        method="post",
        components={"schemas": {"File": {"type": "string", "format": "binary", "description": "f"}}},
    )
    api = opened(document)
    properties = tool_of(api, "op").input_schema["properties"]
    assert properties["file"] == {"type": "string", "contentEncoding": "base64"}
    args = {
        "meta": {"a": 1},
        "note": "n",
        "n": None,
        "file": "AA==",
        "image": "AQ==",
        "coded": "Ag==",
        'q"': 1,
    }
    sent = base64.b64decode((await run(api, "op", **args))["body"])
    for expected in (
        b'name="meta"\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n',
        b'name="note"\r\nContent-Type: text/markdown\r\n\r\nn\r\n',
        b'name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\r\n',
        b'name="image"; filename="image"\r\nContent-Type: image/png\r\n\r\n\x01\r\n',
        b'name="coded"\r\n\r\nAg==\r\n',
        b'name="q%22"\r\n\r\n1\r\n',
    ):
        assert expected in sent
    with pytest.raises(InputValidationError, match="'file' must be base64"):
        await run(api, "op", file="no base64!")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("parameters", "body", "args", "paths"),
    [
        ([{"name": "p", "in": "path", "schema": {}}], None, {"p": "../admin"}, ["/p"]),
        ([{"name": "p", "in": "path", "schema": {}}], None, {}, ["/p"]),
        ([{"name": "p", "in": "path", "schema": {}}, {"name": "h", "in": "header", "schema": {}}], None, {"p": "", "h": "a\nb"}, ["/p", "/h"]),
        ([{"name": "p", "in": "path", "schema": {}}], "application/octet-stream", {"p": "x", "body": "?"}, ["/body"]),
        ([{"name": "p", "in": "path", "schema": {}}], "multipart/form-data", {"p": "x", "body": []}, ["/body"]),
        ([{"name": "p", "in": "path", "schema": {}}], "text/plain", {"p": "\ud800", "body": "\ud800"}, ["/p", "/body"]),
    ],
)  # fmt: skip
async def test_arguments_that_cannot_be_sent_are_all_named_and_nothing_is(
    opened: Any, parameters: Any, body: str | None, args: dict[str, Any], paths: list[str]
) -> None:
    operation: dict[str, Any] = {"parameters": parameters}
    if body:
        operation["requestBody"] = {"content": {body: {}}}
    api = opened(document_of(operation, path="/echo/{p}", method="post"))
    with pytest.raises(InputValidationError) as caught:
        await run(api, "op", **args)
    assert [problem.path for problem in caught.value.problems] == paths


@pytest.mark.parametrize(
    ("path", "operation", "reason"),
    [
        ("/x/{id}", {}, "its path names 'id', which is not one of its parameters"),
        ("x", {}, "does not begin with a slash"),
        ("/a/../b", {}, "holds '.' or '..'"),
        ("/a/%2E%2e/b", {}, "holds '.' or '..'"),
        ("/x", {"parameters": [{"in": "query"}]}, "a parameter has no name"),
        ("/x", {"parameters": [{"name": "a", "in": "body"}]}, "is in 'body', which is not known"),
        ("/x", {"parameters": [{"name": "a", "in": "query", "style": "odd"}]}, "has the style 'odd'"),
        ("/x", {"parameters": [{"name": "a\r\nb", "in": "header"}]}, "cannot be the name of a header"),
        ("/x", {"parameters": [{"name": "a;b", "in": "cookie"}]}, "cannot be the name of a cookie"),
        ("/x", {"parameters": [{"$ref": "http://evil.example"}]}, "leaves the document"),
        ("/x", {"requestBody": {}}, "the request body has no content"),
        ("/x", {"requestBody": {"content": {"a\r\nb/c": {}}}}, "is not a media type"),
        ("/x", {"requestBody": {"content": {"multipart/form-data": {
            "schema": {"properties": {"a": {}}}, "encoding": {"a": {"style": "odd"}}}}}}, "has the style 'odd'"),
        ("/x", {"security": "none"}, "is not a list of objects"),
        ("/x", {"servers": [{"url": "ftp://a.example"}]}, "must begin with http"),
    ],
)  # fmt: skip
def test_an_operation_that_cannot_be_a_tool_is_skipped_and_says_why(
    path: str, operation: Any, reason: str
) -> None:
    document = document_of(operation, path=path, servers=[{"url": BASE}])
    document["paths"]["/fine"] = {"get": {"operationId": "fine"}}
    document["paths"]["/gone"] = {"$ref": "#/nowhere"}
    made = provider(document, base_url=None)
    assert [tool.name for tool in made.tools()] == ["fine"]
    found = {skipped.operation: skipped.reason for skipped in made.skipped}
    assert "points at nothing" in found["/gone"]
    assert reason in found[f"GET {path}"]


@pytest.mark.parametrize(
    "described",
    [
        {"type": "object", "properties": {"tags": {"type": "string", "isArray": True}}},
        {"tags": {"type": "string"}},
    ],
    ids=["JSON-like shape", "map"],
)
def test_schemas_that_read_as_light_argument_schemas_stay_as_the_document_has_them(
    described: dict[str, Any],
) -> None:
    answer = {"200": {"description": "x", "content": {"application/json": {"schema": described}}}}
    made = provider(document_of({"requestBody": body_of(schema=described), "responses": answer}))
    assert made.skipped == ()
    tool = made.tools()[0]
    assert tool.output_schema == described
    assert "'tags': {'type': 'string'" in str(tool.input_schema)
    assert [finding.path for finding in lint_tools([tool]) if finding.severity == "error"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("servers", "base_path", "path"),
    [
        (None, "", "/echo/x"),
        (None, "/echo/v1/", "/echo/v1/echo/x"),
        ([{"url": "/"}], "/echo", "/echo/echo/x"),
        ([{"url": "/echo/v2"}], "", "/echo/v2/echo/x"),
        ([{"url": "echo/{v}", "variables": {"v": {"default": "v3"}}}], "", "/echo/v3/echo/x"),
        ([{"url": "https://elsewhere.example/deep"}], "", "/echo/x"),
        ([{"url": "https://elsewhere.example/{unknown}"}], "/echo/a", "/echo/a/echo/x"),
    ],
)
async def test_a_base_url_stands_instead_of_the_servers(
    url: str, opened: Any, servers: Any, base_path: str, path: str
) -> None:
    document = document_of({}) | ({"servers": servers} if servers else {})
    api = opened(document, base_url=f"{url}{base_path}")
    assert (await run(api, "op"))["raw_path"] == path


@pytest.mark.anyio
async def test_an_operation_may_be_served_elsewhere(url: str, opened: Any) -> None:
    document = document_of(
        {"servers": [{"url": f"{url}/echo/op"}]}, servers=[{"url": "https://nowhere.invalid"}]
    )
    assert (await run(opened(document, base_url=None), "op"))["raw_path"] == "/echo/op/echo/x"


@pytest.mark.anyio
async def test_a_path_with_odd_signs_a_query_and_a_fragment_is_sent_as_it_stands(opened: Any) -> None:
    api = opened(document_of({"parameters": [NAME]}, path="/echo/a b/ü:x?action=go&v=1#Name"))
    seen = await run(api, "op", name="n")
    assert seen["raw_path"] == "/echo/a%20b/%C3%BC:x"
    assert seen["query"] == [["action", "go"], ["v", "1"], ["name", "n"]]


@pytest.mark.anyio
async def test_the_media_types_of_the_document_are_asked_for(opened: Any) -> None:
    content = {"text/csv": {}, "application/json": {}, "bad\r\ntype": {}, "a/b,c/d": {}}
    api = opened(document_of({"responses": {"200": {"content": content}}}))
    seen = await run(api, "op")
    assert seen["headers"]["accept"] == "application/json, text/csv, */*;q=0.1"
    assert seen["headers"]["accept-encoding"] == "gzip, deflate"
    assert seen["headers"]["user-agent"] == "toolcrib"


def test_tools_can_be_made_without_an_event_loop_and_called_in_one(url: str) -> None:
    made = provider(document_of({}), base_url=url, allow_private=LOCAL)

    async def use() -> Any:
        async with made:
            return await run(made, "op")

    assert anyio.run(use)["method"] == "GET"
    assert anyio.run(use)["method"] == "GET"
