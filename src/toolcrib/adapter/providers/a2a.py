"""A2A 1.x: adapter of agent skills, which describe a tool but not its arguments."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.definitions import (
    FIELDS,
    convert_schema,
    description_of,
    make_canonical,
    note_lost,
    read_definition,
    read_feature,
    read_options,
)
from toolcrib.adapter.loss import Losses, Part
from toolcrib.adapter.names import NameRule, id_text
from toolcrib.adapter.protocol import SchemaFeature
from toolcrib.adapter.providers.a2a_calls import A2ACalls, read_message
from toolcrib.adapter.rewrite import Codec
from toolcrib.adapter.rewrite.used import used_keywords
from toolcrib.adapter.rules import MCP
from toolcrib.errors import ConversionError, InvalidToolIdError
from toolcrib.errors.base import short_repr
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.plain import copy_json
from toolcrib.model.toolid import ToolId

OPEN: Final[Mapping[str, Any]] = {"type": "object"}
"""The input schema of a skill: any object."""
_REQUIRED: Final = frozenset({"id", "name", "description", "tags"})
_LISTS: Final = {
    "tags": "tags",
    "examples": "examples",
    "inputModes": "input_modes",
    "outputModes": "output_modes",
}
_NEEDS: Final = "securityRequirements"
_CARRIED: Final = (
    "namespace",
    "version",
    "display_name",
    "description",
    *_LISTS.values(),
    "security_requirements",
)


@dataclass(frozen=True, slots=True)
class A2AOptions:
    """A skill has no options."""


class A2AAdapter:
    """Adapter for the skills of A2A agents; `toolcrib.adapter.providers.agent_card` converts their cards.

    A skill has no schemas: on the way in, its arguments are any object; on the way out, every keyword is
    reported as lost. The arguments and results of calls are protobuf values in many A2A programs, where
    every number is a double: 1 may come back as 1.0, which JSON Schema counts as an integer too.
    """

    name: Final = "a2a"
    names: ClassVar[NameRule] = NameRule(
        re.compile(r"[\s\x00-\x1f\x7f-\x9f]+"),
        256,
        own=lambda tool: _own_id(tool),  # noqa: PLW0108 - defined below
    )

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Convert an `AgentSkill`, given as JSON or as the SDK's message, to the canonical form."""
        data = read_definition(read_message(raw), self.name, "skill")
        if "id" not in data and data.keys() & {"supportedInterfaces", "skills"}:
            reason = "this is an AgentCard, not a skill; read it with agent_card.provider_from_card"
            raise ConversionError(reason, self.name, "to_canonical")
        tool = make_canonical(self.name, input_schema=dict(OPEN), **_fields(data))
        written = _skill(tool, id_text(tool))
        filled = _REQUIRED - {"id"}
        rest = {
            key: value
            for key, value in data.items()
            if key not in filled and (key not in written or written[key] != value)
        }
        return tool.replace(source_meta=rest) if rest else tool

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> dict[str, Any]:
        """Convert a canonical tool to a skill."""
        payload: dict[str, Any] = self.translate(tool, **options).payload
        return payload

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Convert a canonical tool to a skill, with losses and codec; `name` becomes its id."""
        read_options(A2AOptions, options, self.name)
        losses = Losses(self.name)
        called = name or skill_id(tool)
        payload = _skill(tool, called)
        if tool.source_format == self.name:
            _restore(payload, tool)
        codec = _note_schemas(tool, losses)
        back = self.to_canonical(payload)
        if called != _own_id(tool) or back.name != tool.name:
            losses.note("name", "/name", f"is {short_repr(called)}")
        _note_fields(tool, back, losses)
        return Conversion(payload, self.name, id_text(tool), called, A2ACalls(), codec, losses)

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return False: a skill has no schema."""
        read_options(A2AOptions, options, self.name)
        read_feature(feature, self.name)
        return False


def read_requirements(value: Any) -> tuple[dict[str, list[str]], ...] | None:
    """Convert A2A's security requirements to the canonical form; None if they are malformed.

    >>> read_requirements([{"schemes": {"oauth": {"list": ["read"]}}}])
    ({'oauth': ['read']},)
    """
    found: list[dict[str, list[str]]] = []
    for need in value if isinstance(value, list) else [] if value is None else [value]:
        schemes = (need.get("schemes") or {}) if isinstance(need, dict) and need is not value else None
        if not isinstance(schemes, dict):
            return None
        scopes = {key: read_texts(one.get("list")) for key, one in schemes.items() if isinstance(one, dict)}
        if len(scopes) < len(schemes) or None in scopes.values():
            return None
        found.append({key: list(texts or ()) for key, texts in scopes.items()})
    return tuple(found)


def write_requirements(needs: Iterable[Mapping[str, list[str]]]) -> list[dict[str, Any]]:
    """Convert security requirements to the form of A2A 1.x.

    >>> write_requirements([{"oauth": ["read"], "key": []}])
    [{'schemes': {'oauth': {'list': ['read']}, 'key': {}}}]
    """
    return [
        {"schemes": {key: {"list": list(scopes)} if scopes else {} for key, scopes in need.items()}}
        for need in needs
    ]


def skill_id(tool: CanonicalTool) -> str:
    """Return the skill id of a tool: that of its source, or one similar to its own id."""
    own = _own_id(tool)
    return own if own and tool.source_format == A2AAdapter.name else A2AAdapter.names.fit(own)


def _own_id(tool: CanonicalTool) -> str:
    given = tool.source_meta.get("id") if tool.source_format == A2AAdapter.name else None
    if isinstance(given, str) and given and _parse_id(given) == (tool.namespace, tool.name, tool.version):
        return given
    return id_text(tool)


def _parse_id(text: str) -> tuple[str | None, str, str | None]:
    try:
        found = ToolId.parse(text)
    except InvalidToolIdError:
        return None, text, None
    return found.namespace, found.name, found.version


def read_texts(value: Any) -> tuple[str, ...] | None:
    """Read a list of texts; None if it is malformed. Null is an empty list, as in protobuf."""
    if value is None:
        return ()
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return tuple(value) if is_list else None


def _read(key: str, value: Any) -> Any:
    """Convert a list of a skill to the canonical form; None if it cannot be read."""
    return read_requirements(value) if key == _NEEDS else read_texts(value)


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical fields of a skill.

    Raises:
        ConversionError: some are not what they must be, all of them listed.
    """
    known, texts = data.get("id"), {"display_name": data.get("name"), "description": data.get("description")}
    faults = [] if isinstance(known, str) and known else ["the skill has no id"]
    faults += [
        f"its {key} must be text, not {type(value).__name__}"
        for key, value in (("name", texts["display_name"]), ("description", texts["description"]))
        if not isinstance(value, str | None)
    ]
    lists = {field: _read(key, data.get(key)) for key, field in _LISTS.items()}
    faults += [
        f"its {key} must be a list of strings" for key, field in _LISTS.items() if lists[field] is None
    ]
    needs = read_requirements(data.get(_NEEDS))
    if needs is None:
        faults.append(f"its {_NEEDS} must be a list of {{'schemes': {{name: {{'list': [scope]}}}}}}")
    if faults:
        raise ConversionError("; ".join(faults), A2AAdapter.name, "to_canonical")
    namespace, name, version = _parse_id(str(known))
    return {
        **texts,
        **lists,
        "security_requirements": needs,
        "namespace": namespace,
        "name": name,
        "version": version,
    }


def _skill(tool: CanonicalTool, called: str) -> dict[str, Any]:
    """Write a tool as a skill, whose required fields are never empty."""
    skill: dict[str, Any] = {
        "id": called,
        "name": tool.display_name or tool.name or called,
        "description": description_of(tool) or tool.name or called,
        "tags": list(tool.tags) or [tool.namespace or "tool"],
    }
    skill |= {key: list(getattr(tool, field)) for key, field in _LISTS.items() if getattr(tool, field)}
    if tool.security_requirements:
        skill[_NEEDS] = write_requirements(tool.security_requirements)
    return skill


def _restore(skill: dict[str, Any], tool: CanonicalTool) -> None:
    """Restore fields of the source skill that the canonical form lacks, unless the tool was changed."""
    fields = {**_LISTS, _NEEDS: "security_requirements"}
    for key, value in tool.source_meta.items():
        if key not in _REQUIRED and (key not in fields or _read(key, value) == getattr(tool, fields[key])):
            skill[key] = copy_json(value)


def _note_schemas(tool: CanonicalTool, losses: Losses) -> Codec | None:
    """Note the loss of every keyword of both schemas; return a codec if arguments are not an object."""
    codec = None
    if tool.input_schema.get("type") != "object":
        codec = convert_schema(tool.input_schema, MCP, losses).codec
    _note_keywords(tool.input_schema, losses, "input")
    _note_keywords(tool.output_schema, losses, "output")
    return codec


def _note_keywords(schema: Any, losses: Losses, part: Part) -> None:
    losses.part = part
    if schema != OPEN:
        for keyword, path in used_keywords(schema):
            losses.note(keyword, path, "has no place in this format, and is left out")
    losses.part = "definition"


def _note_fields(tool: CanonicalTool, back: CanonicalTool, losses: Losses) -> None:
    """Note every field that differs when the skill is read back."""
    kept = set(tool.source_meta) if tool.source_format == back.source_format else set()
    lists = {*_LISTS.values(), "security_requirements"}
    for field in _CARRIED:
        original, found = getattr(tool, field), getattr(back, field)
        name = FIELDS.get(field, field)
        if found:
            kept.add(name)
            if original != found:
                losses.note(
                    name,
                    f"/{name}",
                    f"is {short_repr(list(found) if field in lists else found)} in this format",
                )
    meta = tool.source_meta.get("_meta")
    if isinstance(meta, dict) and meta and meta.keys() <= kept:
        kept.add("_meta")
    note_lost(tool, losses, frozenset(kept))
