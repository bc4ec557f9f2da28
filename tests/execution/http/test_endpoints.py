"""Single endpoints as tools."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from execution.http.support import LOCAL, run, tool_of

from toolcrib.errors import ConfigError, InvalidToolError, ToolcribError
from toolcrib.execution import ProviderExecutor
from toolcrib.execution.http import Endpoint, HttpProvider
from toolcrib.model import DefaultValidator, ProviderBackend, ToolAnnotations


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Any]:
    made: list[HttpProvider] = []

    def open_one(
        path: str = "/echo/x", *, options: dict[str, Any] | None = None, **fields: Any
    ) -> HttpProvider:
        endpoint = Endpoint(name="op", url=f"{url}{path}", **fields)
        made.append(HttpProvider("t", [endpoint], **({"allow_private": LOCAL} | (options or {}))))
        return made[-1]

    yield open_one
    for one in made:
        await one.aclose()


def test_an_endpoint_is_a_tool_of_the_provider() -> None:
    endpoint = Endpoint(
        name="now", url="https://api.example/{city}", title="Now", description="The weather.", tags=["Weather"],
        query={"units": "{units}"}, headers={"X-Lang": "{lang}"}, output_schema={"type": "object"},
    )  # fmt: skip
    provider = HttpProvider("weather", [endpoint])
    assert isinstance(provider, ProviderExecutor)
    (tool,) = provider.tools()
    assert str(tool.id) == "weather:now"
    assert tool.backend == ProviderBackend(provider_id="weather", tool_id="now")
    assert (tool.title, tool.description, tool.tags) == ("Now", "The weather.", ("weather",))
    assert tool.input_schema == {
        "type": "object",
        "properties": {"city": {"type": ["string", "integer"]}, "units": {}, "lang": {}},
        "required": ["city"],
        "additionalProperties": False,
    }
    assert tool.output_schema == {"type": "object"}
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True


@pytest.mark.anyio
async def test_arguments_go_where_their_names_stand(opened: Any) -> None:
    api = opened(
        "/echo/{a}/b?fixed=1",
        query={"q": "{term}", "format": "j s"},
        headers={"X-Tenant": "{tenant}", "X-Fixed": "f"},
        input_schema={"type": "object", "properties": {"a": {}, "term": {}, "tenant": {}, "loose": {}}},
    )
    seen = await run(api, "op", a="x/y", term=["1", "2"], tenant="t", loose="l")
    assert seen["raw_path"] == "/echo/x%2Fy/b"
    assert seen["query"] == [["fixed", "1"], ["format", "j s"], ["q", "1"], ["q", "2"], ["loose", "l"]]
    assert (seen["headers"]["x-tenant"], seen["headers"]["x-fixed"]) == ("t", "f")
    assert (await run(api, "op", a="x"))["query"] == [["fixed", "1"], ["format", "j s"]]


@pytest.mark.anyio
async def test_argument_without_a_place_goes_into_the_body(opened: Any) -> None:
    api = opened("/echo/{a}", method="POST", query={"q": "{q}"})
    seen = await run(api, "op", a="x", q="y", more={"deep": [1]})
    assert json.loads(base64.b64decode(seen["body"])) == {"more": {"deep": [1]}}
    assert (seen["method"], seen["type"]) == ("POST", "application/json")
    seen = await run(opened(method="PUT", body="form"), "op", a="x y", b=[1, 2])
    assert base64.b64decode(seen["body"]) == b"a=x+y&b=1&b=2"
    assert "additionalProperties" not in tool_of(api, "op").input_schema


@pytest.mark.anyio
async def test_a_delete_may_have_a_body_and_a_post_none(opened: Any) -> None:
    seen = await run(opened(method="DELETE", body="json"), "op", a=1)
    assert base64.b64decode(seen["body"]) == b'{"a":1}'
    assert (await run(opened(method="POST", body="none"), "op"))["type"] is None


@pytest.mark.anyio
async def test_the_headers_of_the_provider_are_secrets_that_no_argument_replaces(opened: Any) -> None:
    headers = {"Authorization": "Bearer s3cret-token", "X-Tenant": "mine-and-only", "Accept": "text/csv"}
    api = opened(headers={"x-tenant": "{tenant}"}, options={"headers": headers})
    seen = await run(api, "op", tenant="theirs")
    assert seen["headers"]["authorization"] == "[secret]"
    assert seen["headers"]["x-tenant"] == "[secret]"
    assert seen["headers"]["accept"] == "text/csv"
    assert "s3cret" not in repr(api) + str(vars(api))


def test_a_schema_and_hints_that_were_given_stand() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    hints = ToolAnnotations(read_only_hint=True)
    endpoint = Endpoint(
        name="op", url="http://a.example", method="POST", input_schema=schema, annotations=hints
    )
    (tool,) = HttpProvider("t", [endpoint]).tools()
    assert tool.input_schema == schema
    assert tool.annotations == hints
    DefaultValidator().validate_input(tool, {"a": 1})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "a b"}, InvalidToolError),
        ({"method": "BREW"}, InvalidToolError),
        ({"url": "ftp://a.example"}, ConfigError),
        ({"url": "/relative"}, ConfigError),
        ({"url": "http://u:p@a.example"}, ConfigError),
        ({"url": "http://a.example/#x"}, InvalidToolError),
        ({"url": "http://{host}.example/"}, InvalidToolError),
        ({"url": "http://a.example/{x}/{x}"}, InvalidToolError),
        ({"headers": {"Host": "{h}"}}, InvalidToolError),
        ({"headers": {"Authorization": "{h}"}}, InvalidToolError),
        ({"headers": {"a b": "x"}}, InvalidToolError),
        ({"headers": {"a": "x\r\nb: c"}}, InvalidToolError),
        ({"headers": {"a": "x {b}"}}, InvalidToolError),
        ({"query": {"a": "x {b}"}}, InvalidToolError),
        ({"url": "http://a.example/{a b}"}, InvalidToolError),
        ({"unknown": 1}, InvalidToolError),
    ],
)
def test_an_endpoint_that_cannot_be_a_tool_is_refused(
    fields: dict[str, Any], error: type[ToolcribError]
) -> None:
    with pytest.raises(error):
        HttpProvider("t", [Endpoint(**({"name": "op", "url": "http://a.example"} | fields))])


def test_two_endpoints_with_one_name_are_refused() -> None:
    endpoint = Endpoint(name="op", url="http://a.example")
    with pytest.raises(InvalidToolError, match="two endpoints"):
        HttpProvider("t", [endpoint, endpoint])


def test_an_endpoint_has_a_json_form() -> None:
    endpoint = Endpoint(name="op", url="http://a.example", query={"q": "{q}"})
    assert Endpoint.from_json(endpoint.to_json()) == endpoint
