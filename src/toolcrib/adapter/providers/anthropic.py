"""Anthropic: adapter of client tools of the messages API, plain and strict."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.definitions import (
    check_flags,
    convert_input,
    make_canonical,
    note_lost,
    read_definition,
    read_examples,
    read_feature,
    read_options,
    write_head,
)
from toolcrib.adapter.loss import Losses
from toolcrib.adapter.names import NameRule, id_text
from toolcrib.adapter.protocol import SchemaFeature
from toolcrib.adapter.results import ToolOutput, block_text
from toolcrib.adapter.rewrite import CodecError, Rewritten, encode
from toolcrib.adapter.rewrite.codec import to_text
from toolcrib.adapter.rules import ANTHROPIC, ANTHROPIC_STRICT
from toolcrib.adapter.wire import PayloadError, WireCall, read_arguments, read_id, require_id
from toolcrib.errors import ConversionError, InvalidSchemaError, ValidationError
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.docs import ToolExample
from toolcrib.model.plain import copy_json
from toolcrib.model.schema.validator import DefaultValidator

_NATIVE: Final = ("cache_control", "defer_loading", "allowed_callers", "eager_input_streaming", "type")
_VALIDATOR: Final = DefaultValidator()
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True)
class AnthropicOptions:
    """Options of a client tool."""

    strict: bool = False
    """Strict mode: the model's arguments always fit the schema, which is rewritten for it."""
    defer_loading: bool = False
    """Whether the model loads the tool by tool search."""
    cache_control: dict[str, Any] | bool | None = None
    """The prompt-cache breakpoint: True for the default form, or the object itself."""
    examples: tuple[ToolExample, ...] = ()
    """Example calls to send; their arguments are encoded."""

    def __post_init__(self) -> None:
        check_flags(self, "strict", "defer_loading")
        object.__setattr__(self, "examples", read_examples(self.examples))
        if not isinstance(self.cache_control, dict | bool | None):
            reason = "cache_control must be True, or an object such as {'type': 'ephemeral'}"
            raise ValueError(reason)  # noqa: TRY004 - what is wrong is what was asked for


class AnthropicAdapter:
    """Adapter for Anthropic's client tools."""

    name: Final = "anthropic"
    names: ClassVar[NameRule] = NameRule(re.compile(r"[^a-zA-Z0-9_-]+"), 128)

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Convert a client tool to the canonical form."""
        data = read_definition(raw, self.name, "tool")
        if data.get("type") not in (None, "custom"):
            reason = f"only custom tools have a schema, not those of type {data['type']!r:.80}"
            raise ConversionError(reason, self.name, "to_canonical")
        if not isinstance(data.get("input_schema"), dict):
            raise ConversionError("the tool has no input_schema that is an object", self.name, "to_canonical")
        rest = {
            key: value for key, value in data.items() if key not in {"name", "description", "input_schema"}
        }
        shown = rest.get("input_examples")
        return make_canonical(
            self.name,
            name=data.get("name"),
            description=data.get("description"),
            input_schema=data["input_schema"],
            examples=tuple(map(to_text, shown)) if isinstance(shown, list) else (),
            source_meta=rest,
        )

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> dict[str, Any]:
        """Convert a canonical tool to a client tool."""
        payload: dict[str, Any] = self.translate(tool, **options).payload
        return payload

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Convert a canonical tool to a client tool, with losses and codec."""
        if tool.source_format == self.name and isinstance(tool.source_meta.get("strict"), bool):
            options = {"strict": tool.source_meta["strict"], **options}
        wanted = read_options(AnthropicOptions, options, self.name)
        losses = Losses(self.name)
        strict = ANTHROPIC_STRICT if wanted.strict else None
        rewritten, is_strict = convert_input(tool, ANTHROPIC, strict, losses)
        called = name or self.names.fit(tool.name)
        payload = {**write_head(tool, called, losses), "input_schema": rewritten.schema}
        if is_strict or (tool.source_format == self.name and "strict" in tool.source_meta):
            payload["strict"] = is_strict
        kept = self._add_native(payload, tool, wanted, rewritten, losses)
        note_lost(tool, losses, kept)
        return Conversion(payload, self.name, id_text(tool), called, _Calls(), rewritten.codec, losses)

    def _add_native(
        self,
        payload: dict[str, Any],
        tool: CanonicalTool,
        wanted: AnthropicOptions,
        rewritten: Rewritten,
        losses: Losses,
    ) -> frozenset[str]:
        """Add the fields that only Anthropic has; return the names of the kept ones."""
        own = copy_json(tool.source_meta) if tool.source_format == self.name else {}
        kept = {key for key in (*_NATIVE, "strict") if key in own}
        payload |= {key: own[key] for key in _NATIVE if key in own}
        if wanted.defer_loading:
            payload["defer_loading"] = True
        if wanted.cache_control:
            is_plain = wanted.cache_control is True
            payload["cache_control"] = {"type": "ephemeral"} if is_plain else copy_json(wanted.cache_control)
        examples = [example.args for example in wanted.examples] or own.get("input_examples", [])
        if examples:
            kept |= {"input_examples", "examples"}
            shown = [self._example(args, tool, rewritten, losses) for args in examples]
            payload["input_examples"] = [args for args in shown if args is not None]
        return frozenset(kept)

    def _example(self, args: Any, tool: CanonicalTool, rewritten: Rewritten, losses: Losses) -> Any:
        """Encode the arguments of an example; None if they do not fit the tool."""
        try:
            _VALIDATOR.validate(tool.input_schema, args)
            return copy_json(encode(rewritten.codec, args))
        except (CodecError, ValidationError, InvalidSchemaError) as error:
            losses.note(
                "examples", "/examples", f"one does not fit the schema, and is left out: {error}"[:500]
            )
            return None

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return whether the schema of a tool, strict or not, can contain a keyword."""
        wanted = read_options(AnthropicOptions, options, self.name)
        return (ANTHROPIC_STRICT if wanted.strict else ANTHROPIC).takes(read_feature(feature, self.name))


class _Calls:
    """`tool_use` blocks, and the `tool_result` blocks that answer them."""

    def read_call(self, payload: Any) -> WireCall:
        if not isinstance(payload, dict) or not isinstance(payload.get("name"), str):
            raise PayloadError("a call is an object with 'id', 'name' and 'input'")
        return WireCall(payload["name"], read_arguments(payload.get("input")), read_id(payload.get("id")))

    def write_call(self, call: WireCall) -> dict[str, Any]:
        return {"type": "tool_use", "id": require_id(call.call_id), "name": call.name, "input": call.args}

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> dict[str, Any]:
        blocks = [_block(block) for block in outcome.blocks]
        if not blocks and outcome.text:
            blocks = [{"type": "text", "text": outcome.text}]
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": require_id(call_id),
            "content": blocks,
        }
        if outcome.is_error:
            result["is_error"] = True
        return result

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        return list(payloads)


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """Convert an MCP content block to Anthropic's form."""
    kind, data = block.get("mimeType"), block.get("data")
    if block["type"] == "image" and isinstance(kind, str) and kind in _IMAGES and isinstance(data, str):
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        return {"type": "image", "source": source}
    return {"type": "text", "text": block_text(block)}
