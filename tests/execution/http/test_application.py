"""A FastAPI application as tools, by its own document, on a real server."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml
from execution.http.server import KEY, app
from execution.http.support import LOCAL, call_of, run, tool_of

from toolcrib.errors import NoBackendError, ToolExecutionError
from toolcrib.execution import Call, ProviderExecutor
from toolcrib.execution.http import OpenApiProvider, Secret
from toolcrib.model import DefaultValidator, LocalBackend, ProviderBackend

pytestmark = pytest.mark.anyio


async def fresh() -> str:
    return KEY


SECRETS: dict[str, Secret] = {
    "InHeader": KEY,
    "InQuery": lambda: KEY,
    "InCookie": fresh,
    "Basic": ("ann", KEY),
    "Bearer": f"Bearer {KEY}",
}


@pytest.fixture
async def api(url: str) -> AsyncIterator[OpenApiProvider]:
    made = OpenApiProvider.from_document(
        app.openapi(), id="shop", base_url=url, secrets=SECRETS, allow_private=LOCAL
    )
    async with made as provider:
        yield provider


async def test_every_operation_is_a_tool_of_the_provider(api: OpenApiProvider) -> None:
    assert isinstance(api, ProviderExecutor)
    assert api.skipped == ()
    tool = tool_of(api, "get_pet")
    assert str(tool.id) == "shop:get_pet"
    assert tool.backend == ProviderBackend(provider_id="shop", tool_id="get_pet")
    assert (tool.title, tool.description) == ("Get a pet", "Return one pet, by its number.")
    assert tool.tags == ("pet-store",)
    assert tool.input_schema["required"] == ["pet_id"]
    assert tool.input_schema["additionalProperties"] is False
    assert set(tool.input_schema["properties"]) == {"pet_id", "verbose"}
    assert tool.output_schema is not None
    assert tool.output_schema["$defs"]
    assert repr(api) == f"<OpenApiProvider 'shop', {len(api.tools())} tools>"


@pytest.mark.parametrize(
    ("name", "read_only", "idempotent", "destructive"),
    [
        ("get_pet", True, True, None),
        ("create_pet", False, False, None),
        ("put_order", False, True, None),
        ("delete_pet", False, True, True),
    ],
)
async def test_the_method_says_what_a_tool_does(
    api: OpenApiProvider, name: str, read_only: bool, idempotent: bool, destructive: bool | None
) -> None:
    hints = tool_of(api, name).annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.idempotent_hint) == (read_only, idempotent)
    assert (hints.destructive_hint, hints.open_world_hint) == (destructive, True)


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        (
            "get_pet",
            {"pet_id": 3, "verbose": True},
            {"name": "pet 3", "age": 0, "tags": ["verbose"], "parent": None},
        ),
        ("create_pet", {"name": "x", "dry_run": True}, {"name": "x", "age": -1, "tags": [], "parent": None}),
        (
            "create_pet",
            {"name": "x", "parent": {"name": "y", "age": 4}},
            {
                "name": "x",
                "age": 0,
                "tags": [],
                "parent": {"name": "y", "age": 4, "tags": [], "parent": None},
            },
        ),
        (
            "put_order",
            {"item_id": 1, "body": {"item_id": 2}},
            {"path": 1, "body": {"item_id": 2, "note": None}},
        ),
        ("delete_pet", {"pet_id": 1}, None),
        (
            "search",
            {"q": "a b&c=ü", "ids": [1, 2], "x-trace": "t é", "session": "abc"},
            {"q": "a b&c=ü", "ids": [1, 2], "x_trace": "t é", "x_many": None, "session": "abc"},
        ),
        (
            "search",
            {"q": "", "x-trace": None},
            {"q": "", "ids": None, "x_trace": None, "x_many": None, "session": None},
        ),
        ("send_form", {"name": "a b&c", "sizes": [1, 2]}, {"name": "a b&c", "sizes": [1, 2]}),
    ],
)
async def test_arguments_arrive_and_fit_the_schemas(
    api: OpenApiProvider, name: str, args: dict[str, Any], value: Any
) -> None:
    validator, tool = DefaultValidator(), tool_of(api, name)
    validator.validate_input(tool, args)
    answer = await run(api, name, **args)
    assert answer == value
    validator.validate_output(tool, answer)


async def test_files_are_base64_arguments(api: OpenApiProvider) -> None:
    content = bytes(range(256))
    args = {"title": 'ü "q"', "file": base64.b64encode(content).decode(), "more": ["AA==", ""]}
    DefaultValidator().validate_input(tool_of(api, "upload"), args)
    answer = await run(api, "upload", **args)
    assert answer == {"title": 'ü "q"', "size": 256, "content": args["file"], "more": ["AA==", ""]}


@pytest.mark.parametrize("name", ["by_header", "by_query", "by_cookie", "by_basic", "by_bearer"])
async def test_a_secret_goes_where_its_scheme_says_and_into_no_schema(
    api: OpenApiProvider, name: str
) -> None:
    assert (await run(api, name))["ok"] is True
    assert tool_of(api, name).input_schema["properties"] == {}


async def test_a_secret_is_shown_in_no_answer_error_log_or_repr(
    url: str, api: OpenApiProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert (await run(api, "by_query"))["echo"] == "your key is [secret]"
    wrong = OpenApiProvider.from_document(
        app.openapi(), id="shop", base_url=url, secrets={"Bearer": "wr0ng-token"}, allow_private=LOCAL
    )
    async with wrong:
        with pytest.raises(ToolExecutionError, match=r"HTTP 403 Forbidden: bad token \[secret\]") as caught:
            await run(wrong, "by_bearer")
    shown = f"{caught.value.result}{caplog.text}{wrong!r}{api!r}{vars(api)}{caught.value}{caught.value!r}"
    assert KEY not in shown
    assert "wr0ng-token" not in shown


async def test_a_missing_secret_is_named(url: str) -> None:
    async with OpenApiProvider.from_document(
        app.openapi(), id="shop", base_url=url, allow_private=LOCAL
    ) as api:
        with pytest.raises(NoBackendError, match="it needs the secret 'InHeader'; give it in secrets"):
            await run(api, "by_header")


async def test_an_unknown_tool_and_another_backend_are_refused(api: OpenApiProvider) -> None:
    tool = tool_of(api, "get_pet")
    backend = ProviderBackend(provider_id="shop", tool_id="get_pets")
    with pytest.raises(NoBackendError, match="has no tool 'get_pets'; did you mean 'get_pet'"):
        await api.call(Call(tool=tool, args={}, backend=backend))
    with pytest.raises(NoBackendError):
        await api.call(Call(tool=tool, args={}, backend=LocalBackend(name="get_pet")))


async def test_a_provider_that_was_closed_opens_again(api: OpenApiProvider) -> None:
    assert await run(api, "delete_pet", pet_id=1) is None
    await api.aclose()
    await api.aclose()
    assert await run(api, "delete_pet", pet_id=1) is None


async def test_the_same_document_as_text_and_file_gives_the_same_tools(tmp_path: Any, url: str) -> None:
    text = json.dumps(app.openapi())
    file = tmp_path / "api.yaml"
    file.write_text(yaml.safe_dump(app.openapi()))
    made = [
        OpenApiProvider.from_document(source, id="shop", base_url=url)
        for source in (app.openapi(), text, text.encode(), yaml.safe_dump(app.openapi()), file)
    ]
    listed = [{tool.name: tool.to_json() for tool in provider.tools()} for provider in made]
    assert all(tools == listed[0] for tools in listed)


async def test_the_arguments_are_left_alone(api: OpenApiProvider) -> None:
    args = {"name": "x", "tags": ["a"], "parent": {"name": "y"}}
    call = call_of(api, "create_pet", args)
    await api.call(call)
    assert call.args == {"name": "x", "tags": ["a"], "parent": {"name": "y"}}
