"""Steps that the adapters share: reading definitions and options, converting schemas, noting losses."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from toolcrib.adapter.loss import Losses, Part, step
from toolcrib.adapter.protocol import SchemaFeature
from toolcrib.adapter.rewrite import Rewritten, SchemaTooLargeError, rewrite
from toolcrib.adapter.rules import SchemaRules
from toolcrib.errors import ConversionError, InvalidToolError, ValidationError
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.docs import ToolExample
from toolcrib.model.plain import measure, parse_json
from toolcrib.model.suggest import did_you_mean

O = TypeVar("O")  # noqa: E741

FIELDS: Final[Mapping[str, str]] = {
    "namespace": "namespace",
    "version": "version",
    "display_name": "title",
    "tags": "tags",
    "annotations": "annotations",
    "output_schema": "outputSchema",
    "summary": "summary",
    "category": "category",
    "input_modes": "inputModes",
    "output_modes": "outputModes",
    "examples": "examples",
    "deterministic": "deterministic",
    "idempotent": "idempotent",
    "streaming": "streaming",
    "security_schemes": "securitySchemes",
    "security_requirements": "securityRequirements",
    "ui_hints": "uiHints",
    "timeout": "timeout",
    "required_scopes": "requiredScopes",
}
"""The fields of the canonical form that a provider's format may lack, with their names in JSON."""


_EMPTY_VALUES: Final[tuple[Any, ...]] = ((), {})
"""Values of a field that mean nothing; a schema may be empty, though."""
_SCHEMA_KEYS: Final = {
    "inputSchema": "mcp",
    "input_schema": "anthropic",
    "parameters": "openai",
    "parametersJsonSchema": "gemini",
}


def read_definition(raw: Any, adapter: str, what: str) -> dict[str, Any]:
    """Read a definition given as a dict, JSON text or an SDK's object; the result must not be modified.

    Raises:
        ConversionError: it is none of these.
    """
    data = raw
    if isinstance(raw, str | bytes | bytearray):
        try:
            data = parse_json(raw)
        except ValueError as error:
            raise ConversionError(f"the {what} is not JSON: {error}", adapter, "to_canonical") from error
    elif hasattr(raw, "model_dump") and not isinstance(raw, type):
        data = raw.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not isinstance(data, dict):
        reason = f"a {what} is a JSON object, not {type(data).__name__}"
        raise ConversionError(reason, adapter, "to_canonical")
    try:
        measure(data, max_depth=256)
    except ValidationError as error:
        raise ConversionError(f"the {what} is not JSON: {error}", adapter, "to_canonical") from error
    return data


def refuse_foreign(data: Mapping[str, Any], adapter: str, *own: str) -> None:
    """Raise if a definition has its schema under the key of another provider's format."""
    if any(key in data for key in own):
        return
    for key, other in _SCHEMA_KEYS.items():
        if key in data:
            reason = f"this looks like a tool for {other}, since it has {key!r}; pass source={other!r}"
            raise ConversionError(reason, adapter, "to_canonical")


def make_canonical(adapter: str, **given: Any) -> CanonicalTool:
    """Make a canonical tool of the fields that an adapter read; fields that are None are left out.

    Raises:
        ConversionError: a field is malformed.
    """
    payload = {key: kept for key, kept in given.items() if kept is not None}
    if not isinstance(payload.get("name"), str) or not payload["name"]:
        raise ConversionError("the tool has no name", adapter, "to_canonical")
    try:
        return CanonicalTool(source_format=adapter, **payload)
    except InvalidToolError as error:
        raise ConversionError(str(error), adapter, "to_canonical") from error


def read_options(options: type[O], given: Mapping[str, Any], adapter: str) -> O:
    """Make the options record of an adapter.

    Raises:
        ConversionError: there is no such option; with the most similar one.
    """
    made: O
    try:
        made = _make_options(options, **given)  # type: ignore[arg-type]  # classes can be hashed
    except TypeError:  # an unknown option, or an unhashable value, which the cache does not take
        return _read_uncached(options, given, adapter)
    except ValueError as error:
        raise ConversionError(str(error), adapter, "from_canonical") from error
    return made


def read_feature(feature: Any, adapter: str) -> SchemaFeature:
    """Return a feature given as a member or as its keyword.

    Raises:
        ConversionError: there is no such feature; with the most similar one.
    """
    try:
        return SchemaFeature(feature)
    except ValueError as error:
        hint = did_you_mean(str(feature)[:80], [known.value for known in SchemaFeature])
        reason = f"{str(feature)[:80]!r} is not a SchemaFeature{hint}"
        raise ConversionError(reason, adapter, "from_canonical") from error


@lru_cache(maxsize=256, typed=True)
def _make_options(options: Callable[..., Any], /, **given: Any) -> Any:
    return options(**given)


def _read_uncached(options: type[O], given: Mapping[str, Any], adapter: str) -> O:
    """Make an options record that cannot be cached, or explain why it is invalid."""
    try:
        return options(**given)
    except TypeError as error:
        known = options.__dataclass_fields__  # type: ignore[attr-defined]
        unknown = next((name for name in given if name not in known), None)
        if unknown is None:
            raise
        hint = did_you_mean(unknown, known) or f"; it takes {', '.join(known) or 'none'}"
        reason = f"there is no option {unknown!r}{hint}"
        raise ConversionError(reason, adapter, "from_canonical") from error
    except ValueError as error:
        raise ConversionError(str(error), adapter, "from_canonical") from error


def check_choice(option: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise if the value of an option is not one of its choices."""
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, choices))}, not {value!r:.80}")


def check_flags(options: object, *names: str) -> None:
    """Raise if one of some options is not a boolean."""
    for name in names:
        if not isinstance(getattr(options, name), bool):
            reason = f"{name} must be True or False, not {getattr(options, name)!r:.80}"
            raise ValueError(reason)  # noqa: TRY004 - what is wrong is what was asked for


def convert_schema(
    schema: dict[str, Any], rules: SchemaRules, losses: Losses, part: Part = "input"
) -> Rewritten:
    """Rewrite a schema, and note its losses under its part of the definition.

    Raises:
        ConversionError: it is too large, or its references expand to too many subschemas.
    """
    losses.part = part
    known = losses.count
    try:
        rewritten = rewrite(schema, rules, losses)
    except RecursionError:
        reason = f"the {part} schema is nested too deep to be converted; make it flatter"
        raise ConversionError(reason, losses.adapter, "from_canonical") from None
    except SchemaTooLargeError as error:
        reason = f"the {part} schema cannot be converted: {error}"
        raise ConversionError(reason, losses.adapter, "from_canonical") from error
    else:
        if losses.count == known and rewritten.schema != schema:
            losses.note("schema", "", "is reworded")  # so that `lossless` is false
        return rewritten
    finally:
        losses.part = "definition"


def convert_input(
    tool: CanonicalTool, plain: SchemaRules, strict: SchemaRules | None, losses: Losses
) -> tuple[Rewritten, bool]:
    """Rewrite the input schema; return it, and whether by the strict rules.

    If strict rules are given but the schema exceeds a limit of theirs, the plain rules are used.

    Raises:
        ConversionError: it is too large, or its references expand to too many subschemas.
    """
    if strict is not None:
        rewritten = convert_schema(tool.input_schema, strict, losses)
        if not rewritten.obstacle:
            return rewritten, True
        # The provider would reject a strict tool beyond its limits; a plain one is better than none.
        losses.clear()
        losses.note("strict", "", f"the model is not held to the schema: {rewritten.obstacle}")
    return convert_schema(tool.input_schema, plain, losses), False


def write_head(tool: CanonicalTool, called: str, losses: Losses) -> dict[str, Any]:
    """Return the name and the description of a definition, as most formats have them."""
    if called != tool.name:
        losses.note("name", "/name", f"becomes {called!r}, because names must be valid and unique")
    description = description_of(tool)
    return {"name": called} if description is None else {"name": called, "description": description}


def description_of(tool: CanonicalTool) -> str | None:
    """Return the description of a tool, or else its summary or title."""
    text = tool.description or tool.summary or tool.display_name
    return tool.description if text is None else text


def note_lost(tool: CanonicalTool, losses: Losses, kept: frozenset[str]) -> None:
    """Note the loss of every field of a definition that is not among the `kept` ones."""
    source = tool.source_meta
    for field in tool.model_fields_set:
        if (name := FIELDS.get(field)) is None or name in source:
            continue
        value = getattr(tool, field)
        if value is None or name in kept or name in _nested_fields(source):
            continue
        if field == "output_schema" or value not in _EMPTY_VALUES:
            losses.note(name, f"/{name}", "has no place in this format, and is left out")
    for name in source:
        if name not in kept and (name != "description" or tool.description is None):
            losses.note(name, step("", name), "has no place in this format, and is left out")


def _nested_fields(source: Mapping[str, Any]) -> set[str]:
    """Return the fields that the source format nests in others, whose loss is reported as a whole."""
    meta = source.get("_meta")
    inner = set(meta) if isinstance(meta, dict) else set()
    return inner | {"idempotent", "title"} if "annotations" in source else inner


def read_examples(given: Any) -> tuple[ToolExample, ...]:
    """Read examples given as records or as JSON.

    Raises:
        ValueError: one of them is neither.
    """
    if not isinstance(given, list | tuple):
        raise ValueError(f"examples must be a list of examples, not {type(given).__name__}")  # noqa: TRY004
    return tuple(one if isinstance(one, ToolExample) else ToolExample.from_json(one) for one in given)
