"""The parts of definitions that the lock keeps, each with a digest of its own.

A part is JSON. Formula 1 says what belongs to each, and its digest is that of its canonical text:

- `description`: the text.
- `input` and `output`: the schemas, word for word.
- `annotations`: without hints that say what MCP takes for granted, so that an absent hint and one written out
  are the same.
- `rest`: every other field of the definition, such as title, icons, `_meta` and fields that we do not know.
  Long texts in it, such as images, are replaced by their digests.

A name, a namespace and a version identify a tool, and where it runs is the server's: none is in a digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolcrib.model.plain import copy_json
from toolcrib.model.tool import Tool
from toolcrib.trust.canonical import canonical_json, digest

FORMULA: Final = 1
"""The version of what is digested, and how."""
HINT_DEFAULTS: Final[Mapping[str, bool]] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""What MCP takes for granted of a tool that does not say it."""
TOOL_PARTS: Final = ("description", "input", "output", "annotations", "rest")
SERVER_PARTS: Final = ("info", "instructions", "prompts", "templates")
_MAX_TEXT = 1_000
_OTHERWISE_KEPT = frozenset(
    {"name", "namespace", "version", "backend", "description", "input_schema", "output_schema", "annotations"}
)


@dataclass(frozen=True, slots=True)
class ToolParts:
    """The definition of a tool, in parts."""

    version: str | None = None
    """The tool's own version."""
    description: str | None = None
    """The description of the tool."""
    input: Any = None
    """The schema of its arguments."""
    output: Any = None
    """The schema of its result."""
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """Its hints, without those that equal the default."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Its other fields."""

    @classmethod
    def of(cls, tool: Tool) -> "ToolParts":
        """Return the parts of a tool; schemas are shared with it."""
        hints = tool.shared("annotations")
        has_more = tool.model_fields_set - _OTHERWISE_KEPT or tool.__pydantic_extra__
        return cls(
            version=tool.version,
            description=tool.description,
            input=tool.shared("input_schema"),
            output=tool.shared("output_schema"),
            annotations={} if hints is None else _without_defaults(hints.to_json()),
            rest=_abridged(tool.to_json(without=_OTHERWISE_KEPT)) if has_more else {},
        )

    def digests(self) -> dict[str, str]:
        """Return the digest of each part that is present."""
        return _digests({name: getattr(self, name) for name in TOOL_PARTS})

    def digest(self) -> str:
        """Return one digest of all parts, by which a caller can require exactly this definition."""
        return digest(canonical_json(self.digests()))


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The command or address of a server, and the definitions that it sends."""

    identity: str
    """A digest of the command or the address, such as `ServerConfig.identity`; it holds no secrets."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Its `serverInfo`: name, version, and so on."""
    instructions: str | None = None
    """Its instructions for models."""
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Its prompts, in their MCP form, by name."""
    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Its resource templates, in their MCP form, by `uriTemplate`."""

    def digests(self) -> dict[str, str]:
        """Return the digest of each part that is present."""
        return _digests({name: getattr(self, name) for name in SERVER_PARTS})

    def copied(self) -> "ServerParts":
        """Return a copy of the parts to store, with long texts, except descriptions, replaced by digests."""
        return ServerParts(
            self.identity,
            _abridged(dict(self.info)),
            self.instructions,
            {name: _abridged(dict(prompt)) for name, prompt in self.prompts.items()},
            {uri: _abridged(dict(template)) for uri, template in self.templates.items()},
        )


def _digests(parts: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: digest(canonical_json(part)) for name, part in parts.items() if part is not None and part != {}
    }


def _without_defaults(hints: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in hints.items() if HINT_DEFAULTS.get(name) is not value}


def _abridged(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of fields in which digests stand for long texts; descriptions stay."""
    copied: dict[str, Any] = copy_json(fields)
    pending: list[Any] = [copied]
    while pending:
        container = pending.pop()
        members = container.items() if isinstance(container, dict) else enumerate(container)
        for key, member in members:
            if isinstance(member, dict | list):
                pending.append(member)
            elif isinstance(member, str) and len(member) > _MAX_TEXT and key != "description":
                container[key] = digest(member)  # of a key that is there, so the iteration goes on
    return copied
