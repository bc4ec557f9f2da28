"""OpenAI: adapter of function tools of the chat and the responses API, plain and strict."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.definitions import (
    check_choice,
    check_flags,
    convert_input,
    convert_schema,
    make_canonical,
    note_lost,
    read_definition,
    read_feature,
    read_options,
    refuse_foreign,
    write_head,
)
from toolcrib.adapter.loss import Losses
from toolcrib.adapter.names import NameRule, id_text
from toolcrib.adapter.protocol import SchemaFeature
from toolcrib.adapter.results import ToolOutput, block_text
from toolcrib.adapter.rules import OPENAI, OPENAI_STRICT
from toolcrib.adapter.wire import CallFormat, PayloadError, WireCall, read_arguments, read_id, require_id
from toolcrib.errors import ConversionError
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.plain import copy_json

_MAX_DESCRIPTION = 1024
_NATIVE: Final = ("defer_loading", "allowed_callers", "async")
_STRICT: Final = frozenset({"strict"})
_NOTHING: Final[frozenset[str]] = frozenset()
_OUTER: Final = frozenset({"type", "function", "name", "description", "parameters", "tools"})


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """Options of a function tool."""

    api: Literal["chat", "responses"] = "chat"
    """`chat` or `responses`."""
    strict: bool = False
    """Strict mode: the model's arguments always fit the schema, which is rewritten for it."""
    defer_loading: bool = False
    """Whether the model loads the tool by tool search (responses only)."""
    namespace: bool = False
    """Whether the tool is nested in its namespace (responses only)."""
    output_schema: bool = False
    """Whether the output schema is sent too (responses only)."""

    def __post_init__(self) -> None:
        check_choice("api", self.api, ("chat", "responses"))
        check_flags(self, "strict", "defer_loading", "namespace", "output_schema")
        for name in ("defer_loading", "namespace", "output_schema"):
            if getattr(self, name) and self.api == "chat":
                raise ValueError(f"{name} is supported only by the responses API; pass api='responses'")


class OpenAIAdapter:
    """Adapter for OpenAI's function tools."""

    name: Final = "openai"
    names: ClassVar[NameRule] = NameRule(re.compile(r"[^A-Za-z0-9_-]+"), 64)

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Convert a function tool, a bare function, or a namespace of one function to the canonical form."""
        data = read_definition(raw, self.name, "function tool")
        namespace = None
        rest: dict[str, Any] = {}
        if data.get("type") == "namespace":
            tools = data.get("tools")
            if not isinstance(tools, list) or len(tools) != 1 or not isinstance(tools[0], dict):
                raise ConversionError(
                    "only a namespace with one function is a tool; convert its functions one by one",
                    self.name,
                    "to_canonical",
                )
            namespace, data = data.get("name"), tools[0]
        if data.get("type", "function") != "function":
            reason = f"only tools of type 'function' have a schema, not {data['type']!r:.80}"
            raise ConversionError(reason, self.name, "to_canonical")
        inner = data.get("function", data)
        if not isinstance(inner, dict):
            raise ConversionError("'function' must be an object", self.name, "to_canonical")
        refuse_foreign(inner, self.name, "parameters")
        rest = {key: value for key, value in {**data, **inner}.items() if key not in _OUTER}
        output = rest.pop("output_schema", None)
        return make_canonical(
            self.name,
            name=inner.get("name"),
            namespace=namespace,
            description=inner.get("description"),
            input_schema=inner.get("parameters") or {"type": "object", "properties": {}},
            output_schema=output,
            source_meta=rest,
        )

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> dict[str, Any]:
        """Convert a canonical tool to a function tool."""
        payload: dict[str, Any] = self.translate(tool, **options).payload
        return payload

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Convert a canonical tool to a function tool, with losses and codec."""
        if tool.source_format == self.name and isinstance(tool.source_meta.get("strict"), bool):
            options = {"strict": tool.source_meta["strict"], **options}
        wanted = read_options(OpenAIOptions, options, self.name)
        losses = Losses(self.name)
        strict = OPENAI_STRICT if wanted.strict else None
        rewritten, is_strict = convert_input(tool, OPENAI, strict, losses)
        called = name or self.names.fit(tool.name)
        function = write_head(tool, called, losses)
        function["parameters"] = rewritten.schema
        if len(function.get("description", "")) > _MAX_DESCRIPTION:
            losses.note(
                "description",
                "/description",
                f"is longer than {_MAX_DESCRIPTION} characters, which older models refuse",
            )
        payload = self._payload(tool, function, wanted, losses, is_strict=is_strict)
        space = payload["name"] if payload["type"] == "namespace" else None
        calls: CallFormat = _ChatCalls() if wanted.api == "chat" else _ResponsesCalls(space)
        return Conversion(payload, self.name, id_text(tool), called, calls, rewritten.codec, losses)

    def _payload(
        self,
        tool: CanonicalTool,
        function: dict[str, Any],
        wanted: OpenAIOptions,
        losses: Losses,
        *,
        is_strict: bool,
    ) -> dict[str, Any]:
        kept = _STRICT if tool.source_format == self.name else _NOTHING
        if wanted.api == "chat":
            if is_strict or (kept and "strict" in tool.source_meta):
                function["strict"] = is_strict
            note_lost(tool, losses, kept)
            return {"type": "function", "function": function}
        flat = {"type": "function", **function, "strict": is_strict}
        if wanted.defer_loading:
            flat["defer_loading"] = True
        if tool.source_format == self.name:
            own = {key: copy_json(tool.source_meta[key]) for key in _NATIVE if key in tool.source_meta}
            flat, kept = own | flat, kept | own.keys()
        if wanted.output_schema and tool.output_schema is not None:
            flat["output_schema"] = convert_schema(tool.output_schema, OPENAI, losses, "output").schema
            kept |= {"outputSchema"}
        if wanted.namespace and tool.namespace is not None:
            kept |= {"namespace"}
            space = self.names.fit(tool.namespace)
            if space != tool.namespace:
                losses.note("namespace", "/namespace", f"is {space!r}")
            flat = {
                "type": "namespace",
                "name": space,
                "description": f"The tools of {tool.namespace}.",
                "tools": [flat],
            }
        note_lost(tool, losses, kept)
        return flat

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return whether the schema of a function tool, strict or not, can contain a keyword."""
        wanted = read_options(OpenAIOptions, options, self.name)
        return (OPENAI_STRICT if wanted.strict else OPENAI).takes(read_feature(feature, self.name))


def _result_text(outcome: ToolOutput) -> str:
    """Return a result as text; an error gets a prefix, since the format has no field for it."""
    return f"Error: {outcome.text}" if outcome.is_error else outcome.text


def _dump_args(args: Any) -> str:
    return json.dumps(args, ensure_ascii=False)


class _ChatCalls:
    """`tool_calls` of an assistant's message, and the `tool` messages that answer them."""

    def read_call(self, payload: Any) -> WireCall:
        function = payload.get("function") if isinstance(payload, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise PayloadError(
                "a call is an item of tool_calls: an object with 'id' and 'function', which has 'name' and "
                "'arguments'"
            )
        return WireCall(
            function["name"], read_arguments(function.get("arguments", "")), read_id(payload.get("id"))
        )

    def write_call(self, call: WireCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": _dump_args(call.args)}
        return {"id": require_id(call.call_id), "type": "function", "function": function}

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": require_id(call_id), "content": _result_text(outcome)}

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        return list(payloads)


@dataclass(frozen=True, slots=True)
class _ResponsesCalls:
    """`function_call` items, and the `function_call_output` items that answer them."""

    namespace: str | None = None
    """The namespace that the tool is nested in; None if it is not."""

    def read_call(self, payload: Any) -> WireCall:
        if not isinstance(payload, dict) or not isinstance(payload.get("name"), str):
            hint = (
                "; this is a call of the chat API"
                if isinstance(payload, dict) and "function" in payload
                else ""
            )
            raise PayloadError(f"a call is an object with 'call_id', 'name' and 'arguments'{hint}")
        return WireCall(
            payload["name"], read_arguments(payload.get("arguments", "")), read_id(payload.get("call_id"))
        )

    def write_call(self, call: WireCall) -> dict[str, Any]:
        call_id = require_id(call.call_id)
        space = {"namespace": self.namespace} if self.namespace else {}
        payload = {"name": call.name, "arguments": _dump_args(call.args), **space}
        return {"type": "function_call", "call_id": call_id, **payload}

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> dict[str, Any]:
        output: Any = _result_text(outcome)
        if any(block["type"] == "image" for block in outcome.blocks):
            output = [_item(block) for block in outcome.blocks]
        return {"type": "function_call_output", "call_id": require_id(call_id), "output": output}

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        """Return the tools of a request, grouped by namespace."""
        tools: list[Any] = []
        spaces: dict[str, Any] = {}
        for payload in payloads:
            if payload["type"] != "namespace":
                tools.append(payload)
            elif payload["name"] in spaces:
                spaces[payload["name"]]["tools"] += payload["tools"]
            else:
                spaces[payload["name"]] = {**payload, "tools": list(payload["tools"])}
                tools.append(spaces[payload["name"]])
        return tools


def _item(block: dict[str, Any]) -> dict[str, Any]:
    from_text = block_text(block)
    if block["type"] != "image":
        return {"type": "input_text", "text": from_text}
    url = f"data:{block.get('mimeType', 'image/png')};base64,{block.get('data', '')}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}
