"""Fixtures of the tests of middleware."""

from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.execution import Call, CallContext
from toolcrib.model import McpBackend, Tool, ToolAnnotations

MakeCall = Callable[..., Call]


@pytest.fixture(scope="session")
def make_call() -> MakeCall:
    """Return a function that makes calls of a tool of the server `shop`, read-only by default."""

    def make(
        name: str = "look", *, server: str = "shop", hints: dict[str, bool] | None = None, **fields: Any
    ) -> Call:
        given = {"read_only_hint": True} if hints is None else hints
        record = Tool(
            name=name,
            namespace=server,
            input_schema=fields.pop("schema", {"type": "object"}),
            annotations=ToolAnnotations(**given),
        )
        context = CallContext(principal=fields.pop("principal", None))
        given = {"tool": record, "args": {}, "backend": McpBackend(server_name=server)}
        return Call(context=context, **given | fields)

    return make
