"""Backends: three kinds, their JSON, and errors of invalid bindings."""

import json
from typing import Any

import pytest

from toolcrib.errors import InvalidBackendError, InvalidToolError
from toolcrib.model import LocalBackend, McpBackend, ProviderBackend, Tool, ToolBackend

KINDS: list[tuple[ToolBackend, dict[str, str]]] = [
    (McpBackend(server_name="github"), {"kind": "mcp", "serverName": "github"}),
    (
        ProviderBackend(provider_id="stripe", tool_id="charge"),
        {"kind": "provider", "providerId": "stripe", "toolId": "charge"},
    ),
    (LocalBackend(name="add"), {"kind": "local", "name": "add"}),
]


@pytest.mark.parametrize(("backend", "data"), KINDS, ids=["mcp", "provider", "local"])
def test_a_backend_has_a_kind_and_a_json_form(backend: ToolBackend, data: dict[str, str]) -> None:
    assert isinstance(backend, ToolBackend)
    assert backend.kind == data["kind"]
    assert backend.to_json() == data
    assert type(backend).from_json(data) == backend


@pytest.mark.parametrize(("backend", "data"), KINDS, ids=["mcp", "provider", "local"])
def test_a_tool_carries_a_backend_of_any_kind(backend: ToolBackend, data: dict[str, str]) -> None:
    given = Tool(name="a", input_schema={}, backend=backend)
    read = Tool.from_json({"name": "a", "inputSchema": {}, "backend": data})
    assert given.backend == backend
    assert read == given
    assert read.to_json()["backend"] == data
    assert type(read.backend) is type(backend)


def test_a_backend_does_not_change_and_equals_its_like() -> None:
    backend = McpBackend(server_name="github")
    with pytest.raises(ValueError, match="frozen"):
        backend.server_name = "gitlab"  # type: ignore[misc]  # that is the point
    assert backend == McpBackend(server_name="github")
    assert len({backend, McpBackend(server_name="github"), LocalBackend(name="github")}) == 2


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        (McpBackend, {}, "invalid backend: mcp backend: /serverName: is required"),
        (McpBackend, {"server_name": ""}, "invalid backend: mcp backend: /server_name: must not be empty"),
        (McpBackend, {"server_name": None}, "invalid backend: mcp backend: /server_name: must be a string"),
        (
            ProviderBackend,
            {},
            "invalid backend: provider backend: /providerId: is required; /toolId: is required",
        ),
        (LocalBackend, {"name": 5}, "invalid backend: local backend: /name: must be a string"),
        (
            LocalBackend,
            {"name": "x", "server_name": "y"},
            "invalid backend: local backend: /server_name: is not a field of this record",
        ),
        (
            McpBackend,
            {"kind": "local", "server_name": "x"},
            "invalid backend: local backend: /kind: must be 'mcp'",
        ),
        (
            ToolBackend,
            {"kind": "docker"},
            "invalid backend: docker backend: /kind: must be 'mcp', 'provider' or 'local'",
        ),
        (ToolBackend, {}, "invalid backend: tool backend: /kind: is required"),
    ],
    ids=[
        "missing",
        "empty",
        "null",
        "both missing",
        "type",
        "extra",
        "other kind",
        "unknown kind",
        "no kind",
    ],
)
def test_a_binding_that_says_too_little_or_too_much_is_refused(
    kind: type[ToolBackend], fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidBackendError) as caught:
        kind(**fields)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{", "it is not JSON"),
        ("[]", "it must be a JSON object, not list"),
        (None, "it must be a JSON object, not NoneType"),
        ({"kind": "mcp", "server_name": "x"}, "/serverName: is required"),
        ({"kind": "provider", "serverName": "x"}, "/kind: must be 'mcp'"),
    ],
    ids=["malformed", "array", "none", "snake case", "other kind"],
)
def test_json_that_is_no_backend_is_refused(source: Any, reason: str) -> None:
    with pytest.raises(InvalidBackendError, match=reason):
        McpBackend.from_json(source)


@pytest.mark.parametrize(
    ("backend", "problems"),
    [
        ({}, [("/backend/kind", "is required")]),
        ({"kind": "docker"}, [("/backend/kind", "must be 'mcp', 'provider' or 'local'")]),
        ({"kind": ["mcp"]}, [("/backend/kind", "must be 'mcp', 'provider' or 'local'")]),
        ({"kind": "mcp"}, [("/backend/serverName", "is required")]),
        ({"kind": "mcp", "serverName": ""}, [("/backend/serverName", "must not be empty")]),
        (
            {"kind": "provider", "extra": 1},
            [
                ("/backend/providerId", "is required"),
                ("/backend/toolId", "is required"),
                ("/backend/extra", "is not a field of this record"),
            ],
        ),
        ("mcp", [("/backend", "must be an object")]),
        (ToolBackend(kind="mcp"), [("/backend", "must be an object")]),
    ],
    ids=["empty", "unknown", "list kind", "missing", "empty name", "several", "text", "base class"],
)
def test_a_tool_says_where_its_backend_is_wrong(backend: Any, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool.from_json({"name": "a", "inputSchema": {}, "backend": backend})
    assert [(problem.path, problem.message) for problem in caught.value.problems] == problems


@pytest.mark.parametrize(("backend", "data"), KINDS, ids=["mcp", "provider", "local"])
def test_the_base_reads_a_backend_of_any_kind(backend: ToolBackend, data: dict[str, str]) -> None:
    for source in (data, json.dumps(data), json.dumps(data).encode(), backend):
        read = ToolBackend.from_json(source)
        assert read == backend
        assert type(read) is type(backend)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"serverName": "github"}, "invalid backend: tool backend: /kind: is required"),
        ({}, "invalid backend: tool backend: /kind: is required"),
        (
            {"kind": "docker", "image": "x"},
            "invalid backend: docker backend: /kind: must be 'mcp', 'provider' or 'local'",
        ),
        ({"kind": ["mcp"]}, "invalid backend: tool backend: /kind: must be 'mcp', 'provider' or 'local'"),
        ({"kind": "mcp"}, "invalid backend: mcp backend: /serverName: is required"),
        (
            {"kind": "local", "name": "x", "serverName": "y"},
            "invalid backend: local backend: /serverName: is not a field of this record",
        ),
        (
            {"kind": "mcp", "server_name": "x"},
            "invalid backend: mcp backend: /serverName: is required; /server_name",
        ),
        ("{", "invalid backend: tool backend: it is not JSON"),
        ("[]", "invalid backend: tool backend: it must be a JSON object, not list"),
    ],
    ids=["no kind", "empty", "unknown", "no text", "missing", "foreign", "python name", "no json", "list"],
)
def test_the_base_refuses_what_is_no_backend(source: Any, text: str) -> None:
    with pytest.raises(InvalidBackendError) as caught:
        ToolBackend.from_json(source)
    assert str(caught.value).startswith(text)
