"""Adds a tool of a framework to a crib."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.crib import Crib, SyncCrib
from toolcrib.model import LocalTool, Tool

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAME = 128


def adopt(  # noqa: PLR0913 - what a tool is, each by its name
    crib: Crib | SyncCrib,
    function: Callable[..., Any],
    *,
    name: str,
    namespace: str | None,
    description: str | None,
    input_schema: Mapping[str, Any],
    annotations: Mapping[str, Any] | None = None,
) -> LocalTool[..., Any]:
    """Add a function that takes the arguments of a schema by name to a crib, and return the tool.

    What may not stand in the name of a tool, such as a space, becomes `_`.

    Raises:
        InvalidToolError: it cannot be made a tool.
        InvalidSchemaError: its schema cannot be used.
    """
    fields: dict[str, Any] = {} if annotations is None else {"annotations": dict(annotations)}
    record = Tool(
        name=_FOREIGN.sub("_", name)[:_MAX_NAME],
        namespace=namespace,
        description=description or None,
        input_schema={"type": "object", **input_schema},
        **fields,
    )
    return crib.add(LocalTool(function, record))
