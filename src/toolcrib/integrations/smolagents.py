"""The tools of a crib for agents of smolagents, and tools of smolagents in a crib.

smolagents runs agents synchronously: use a `SyncCrib`, or a `Crib` with the agent in a thread of its loop.
"""

import base64
import io
import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolcrib.crib import Crib, SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError
from toolcrib.execution import Principal
from toolcrib.integrations.adopting import adopt
from toolcrib.integrations.toolbox import AgentReply, AgentTool, Toolbox
from toolcrib.model import LocalTool

try:
    from PIL import Image
    from smolagents import Tool
    from smolagents.tools import AUTHORIZED_TYPES
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.smolagents", "smolagents") from error

_NO_NAME = re.compile(r"\W")


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[Tool]":
    """Return tools of a crib for a `ToolCallingAgent` or a `CodeAgent`: all, or those named.

    With `search` the agent has `search_tools` and `run_tool` beside those named: the tools of a run are fixed
    at its beginning, where the prompt names them. A call that fails raises, which the framework shows to the
    model.
    """
    toolbox = Toolbox(crib, tools, search=search, timeout=timeout, principal=principal)
    return [_CribTool(toolbox, each) for each in toolbox.list_tools()]


class _CribTool(Tool):
    """A tool of a crib in smolagents."""

    skip_forward_signature_validation = True

    def __init__(self, toolbox: Toolbox, offered: AgentTool) -> None:
        self._toolbox, self._offered = toolbox, offered
        name = _NO_NAME.sub("_", offered.name)
        self.name = f"{name}_" if keyword.iskeyword(name) else name
        self.description = offered.description
        self.inputs = _inputs(offered.parameters)
        record = offered.tool
        output = None if record is None else record.output_schema
        self.output_type = "any"
        self.output_schema = output if isinstance(output, dict) and output.get("type") == "object" else None
        super().__init__()

    def forward(self, *args: Any, **given: Any) -> Any:
        """Call the tool; arguments by position are those of the schema in order."""
        named = dict(zip(self.inputs, args, strict=False)) | given
        return _returned(self._toolbox.call_sync(self._offered, _without_nulls(named, self.inputs)))


def _inputs(parameters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a schema's properties as the framework takes them: each with a type and a description."""
    required = parameters.get("required", ())
    inputs = {}
    for name, schema in parameters["properties"].items():
        written = schema if isinstance(schema, dict) else {}
        kinds = written.get("type", "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        known = [kind for kind in kinds if kind in AUTHORIZED_TYPES] or ["any"]
        inputs[name] = {
            **written,
            "type": known[0] if len(known) == 1 else known,
            "description": written.get("description") or name,
            **({} if name in required else {"nullable": True}),
        }
    return inputs


def _without_nulls(args: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Leave out the nulls of arguments that need not be given."""
    return {
        name: value
        for name, value in args.items()
        if value is not None or not inputs.get(name, {}).get("nullable")
    }


def _returned(reply: AgentReply) -> Any:
    """Return a result as the framework takes it: JSON, or an image."""
    images = [data for kind, _, data in reply.media if kind == "image"]
    if not images:
        return reply.value
    return Image.open(io.BytesIO(base64.b64decode(images[0])))


def register(
    crib: Crib | SyncCrib, tools: "Iterable[Tool]", *, namespace: str | None = None
) -> list[LocalTool[..., Any]]:
    """Add tools of smolagents to a crib, and return them."""
    return [
        adopt(
            crib,
            _caller(each),
            name=each.name,
            namespace=namespace,
            description=each.description,
            input_schema=_schema(each.inputs),
        )
        for each in tools
    ]


def _schema(inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the inputs of a tool as a JSON Schema; `any`, images and audio are of any type."""
    properties = {
        name: {
            key: value
            for key, value in given.items()
            if key != "nullable" and (key != "type" or value not in {"any", "image", "audio"})
        }
        for name, given in inputs.items()
    }
    for name, given in inputs.items():
        if given.get("nullable") and isinstance(properties[name].get("type"), str):
            properties[name]["type"] = [properties[name]["type"], "null"]
    required = [name for name, given in inputs.items() if not given.get("nullable")]
    return {"properties": properties, "required": required, "additionalProperties": False}


def _caller(tool: Tool) -> Callable[..., Any]:
    def call(**args: Any) -> Any:
        return tool(**args)

    return call
