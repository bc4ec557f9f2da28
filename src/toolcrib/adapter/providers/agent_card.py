"""A2A 1.x: conversion between agent cards and canonical providers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from toolcrib.adapter.definitions import read_definition
from toolcrib.adapter.loss import FeatureLossWarning, Losses
from toolcrib.adapter.providers.a2a import (
    OPEN,
    A2AAdapter,
    read_requirements,
    read_texts,
    skill_id,
    write_requirements,
)
from toolcrib.adapter.providers.a2a_calls import read_message
from toolcrib.errors import ConversionError
from toolcrib.model.canonical import CanonicalProvider, CanonicalTool
from toolcrib.model.plain import copy_json, pointer

SCHEMAS_URI: Final = "urn:toolcrib:tool-schemas:1"
"""The card extension with the schemas of the skills: `params.skills` has them by skill id."""

Tools = list[tuple[str, CanonicalTool]]
"""Tools, each with its skill id."""
Entries = dict[str, Any]
"""The entries of the extension, by skill id."""

_SKILLS: Final = A2AAdapter()
_NEEDS = "securityRequirements"
_SECURITY = "securitySchemes"
_MODES: Final = {"defaultInputModes": "default_input_modes", "defaultOutputModes": "default_output_modes"}
_TEXTS: Final = ("name", "description", "version")
_FILLED: Final = frozenset({*_TEXTS, *_MODES, "capabilities", "skills"})
_FLAGS: Final = frozenset({"streaming", "pushNotifications", "extendedAgentCard"})
_PLACES: Final = {"definition": "", "input": "/inputSchema", "output": "/outputSchema"}
_NO_PLACE: Final = "has no place in this format, and is left out"
_SCHEMES: Final[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "apiKey": ("apiKeySecurityScheme", ("in", "name"), ()),
    "http": ("httpAuthSecurityScheme", ("scheme",), ("bearerFormat",)),
    "oauth2": ("oauth2SecurityScheme", ("flows",), ("oauth2MetadataUrl",)),
    "openIdConnect": ("openIdConnectSecurityScheme", ("openIdConnectUrl",), ()),
    "mutualTLS": ("mtlsSecurityScheme", (), ()),
}
"""OpenAPI's kinds of security: for each A2A's name, the required fields, and the optional ones."""
_FLOWS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "authorizationCode": (("authorizationUrl", "tokenUrl", "scopes"), ("pkceRequired",)),
    "deviceCode": (("deviceAuthorizationUrl", "tokenUrl", "scopes"), ()),
    "clientCredentials": (("tokenUrl", "scopes"), ()),
    "implicit": (("authorizationUrl",), ("scopes",)),
    "password": (("tokenUrl",), ("scopes",)),
}
"""OAuth flows in order of preference: for each the required fields, and the optional ones."""


@dataclass(frozen=True, slots=True)
class CardConversion:
    """A provider converted to a card."""

    card: dict[str, Any]
    """The card, as plain JSON."""
    warnings: tuple[FeatureLossWarning, ...] = ()
    """The losses; their paths are JSON Pointers into the JSON form of the provider."""


def provider_from_card(card: Any) -> CanonicalProvider:
    """Convert an agent card, given as JSON or as the SDK's message, to a provider with its skills as tools.

    Raises:
        ConversionError: the card cannot be read; every reason is listed.
    """
    try:
        data = read_definition(read_message(card), _SKILLS.name, "card")
    except ConversionError as error:
        raise ConversionError(error.reason, error.adapter, "to_canonical_provider") from error
    provider = CanonicalProvider(source_format=_SKILLS.name, **_fields(data))
    kept = _card_fields(provider, Losses(_SKILLS.name))
    rest = {
        key: value
        for key, value in data.items()
        if key not in _FILLED and (key not in kept or kept[key] != value)
    }
    return provider.replace(source_meta=rest)


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical fields of a card.

    Raises:
        ConversionError: some are not what they must be, all of them listed.
    """
    faults = [f"it has no {key}" for key in _TEXTS if not _is_text(data.get(key))]
    if not isinstance(data.get("supportedInterfaces"), list) or not data["supportedInterfaces"]:
        older = "; convert a card of A2A 0.3 to 1.x first" if "url" in data else ""
        faults.append(f"it has no supportedInterfaces{older}")
    objects = {key: {} if data.get(key) is None else data[key] for key in ("capabilities", _SECURITY)}
    faults += [f"its {key} must be an object" for key, one in objects.items() if not isinstance(one, dict)]
    modes = {key: read_texts(data.get(key)) for key in _MODES}
    faults += [f"its {key} must be a list of strings" for key, one in modes.items() if one is None]
    needs = read_requirements(data.get(_NEEDS))
    if needs is None:
        faults.append(f"its {_NEEDS} must be a list of {{'schemes': {{name: {{'list': [scope]}}}}}}")
    skills = _read_skills(data.get("skills"), faults)
    if faults:
        raise ConversionError(f"the card cannot be read: {'; '.join(faults)}", "a2a", "to_canonical_provider")
    return {
        **{key: data[key] for key in _TEXTS},
        **{field: modes[key] for key, field in _MODES.items()},
        "capabilities": objects["capabilities"],
        "security_schemes": objects[_SECURITY],
        "security_requirements": needs,
        "skills": _with_schemas(skills, _entries(_extension(objects["capabilities"]))),
    }


def _read_skills(skills: Any, faults: list[str]) -> list[CanonicalTool]:
    found = []
    if not isinstance(skills, list | None):
        faults.append("its skills must be a list")
        return []
    for index, skill in enumerate(skills or ()):
        try:
            found.append(_SKILLS.to_canonical(skill))
        except ConversionError as error:
            faults.append(f"/skills/{index}: {error.reason}")
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def card_from_provider(
    provider: CanonicalProvider,
    *,
    url: str | None = None,
    binding: str = "JSONRPC",
    protocol_version: str = "1.0",
    schemas: bool = False,
) -> CardConversion:
    """Convert a provider to a card, with its losses.

    Args:
        provider: An agent that had a card, or any other provider.
        url: The URL of the agent; required if it had no card. It overrides the URL of its card.
        binding: The transport spoken there.
        protocol_version: The version of A2A spoken there.
        schemas: Whether the schemas of the tools are sent along, in an extension. They always are if the card
            had that extension.

    Raises:
        ConversionError: the card would lack required parts; the error lists all of them.
    """
    losses = Losses(_SKILLS.name)
    card = _card_fields(provider, losses)
    _restore(card, provider, losses)
    if url:
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": protocol_version}
        card["supportedInterfaces"] = [interface]
        if card.pop("signatures", None):
            losses.note("signatures", "/signatures", "are for a card with other interfaces, and are left out")
    _check_required(provider, card)
    tools = list(zip(_ids(provider.skills), provider.skills, strict=True))
    entries = _write_entries(card["capabilities"], tools, schemas=schemas)
    card["skills"], warnings = _write_skills(tools, entries)
    return CardConversion(card, losses.warnings() + warnings)


def _card_fields(provider: CanonicalProvider, losses: Losses) -> dict[str, Any]:
    """Write the fields of a provider, without its skills, as a card."""
    card: dict[str, Any] = {key: getattr(provider, key) for key in _TEXTS}
    card["capabilities"] = _capabilities(provider, losses)
    card |= {key: list(getattr(provider, field)) or ["application/json"] for key, field in _MODES.items()}
    schemes = {
        name: written
        for name, scheme in provider.security_schemes.items()
        if (written := write_scheme(scheme, pointer([_SECURITY, name]), losses)) is not None
    }
    if schemes:
        card[_SECURITY] = schemes
    if provider.security_requirements:
        card[_NEEDS] = write_requirements(provider.security_requirements)
    return card


def _restore(card: dict[str, Any], provider: CanonicalProvider, losses: Losses) -> None:
    """Restore fields of the source card that the canonical form lacks, unless the provider was changed."""
    is_own = provider.source_format == _SKILLS.name
    for key, value in provider.source_meta.items():
        if not is_own:
            losses.note(key, pointer([key]), _NO_PLACE)
        elif key not in _FILLED and (
            (key != _SECURITY or (value or {}) == provider.security_schemes)
            and (key != _NEEDS or read_requirements(value) == provider.security_requirements)
        ):
            card[key] = copy_json(value)


def _check_required(provider: CanonicalProvider, card: dict[str, Any]) -> None:
    """Raise if a card lacks a required field."""
    missing = [key for key in _TEXTS if not card[key]]
    if not provider.skills:
        missing.append("skills")
    if not card.get("supportedInterfaces"):
        missing.append("supportedInterfaces (pass url=)")
    if missing:
        reason = f"a card needs {', '.join(missing)}, which the provider does not have"
        raise ConversionError(reason, _SKILLS.name, "from_canonical_provider")


def _capabilities(provider: CanonicalProvider, losses: Losses) -> dict[str, Any]:
    """Return the capabilities that A2A defines; all of them if they came from a card."""
    known: dict[str, Any] = copy_json(provider.capabilities)
    if provider.source_format == _SKILLS.name:
        return known
    for key, value in provider.capabilities.items():
        is_list = key == "extensions" and isinstance(value, list)
        if not (is_list and all(isinstance(one, dict) for one in value)) and (
            key not in _FLAGS or not isinstance(value, bool)
        ):
            del known[key]
            losses.note("capabilities", pointer(["capabilities", key]), _NO_PLACE)
    return known


def _ids(tools: tuple[CanonicalTool, ...]) -> list[str]:
    """Return an id for each tool, unique except for ids that came from cards."""
    ids: list[str] = []
    for tool in tools:
        known = skill_id(tool)
        if known in ids and tool.source_format != _SKILLS.name:
            known = _SKILLS.names.mark(known, f"{known} {len(ids)}")
        ids.append(known)
    return ids


def _write_skills(tools: Tools, entries: Entries) -> tuple[list[Any], tuple[FeatureLossWarning, ...]]:
    """Write the skills; return them with the losses that the extension does not make up for."""
    skills: list[Any] = []
    warnings: list[FeatureLossWarning] = []
    for index, (known, tool) in enumerate(tools):
        is_kept = _schemas(entries, known) == (tool.input_schema, tool.output_schema)
        bare = tool.replace(input_schema=dict(OPEN), output_schema=None) if is_kept else tool
        try:
            conversion = _SKILLS.translate(bare, name=known)
        except ConversionError as error:
            reason = f"/skills/{index}: {error.reason}"
            raise ConversionError(reason, _SKILLS.name, "from_canonical_provider") from error
        skills.append(conversion.payload)
        warnings += [
            replace(loss, path=f"/skills/{index}{_PLACES[loss.part]}{loss.path}")
            for loss in conversion.warnings
        ]
    return skills, tuple(warnings)


def _extension(capabilities: dict[str, Any]) -> dict[str, Any] | None:
    """Return the extension with the schemas; None if there is none."""
    listed = capabilities.get("extensions")
    known = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return next((one for one in known if one.get("uri") == SCHEMAS_URI), None)


def _params(extension: dict[str, Any] | None) -> dict[str, Any]:
    params = (extension or {}).get("params")
    return params if isinstance(params, dict) else {}


def _entries(extension: dict[str, Any] | None) -> Entries:
    entries = _params(extension).get("skills")
    return entries if isinstance(entries, dict) else {}


def _schemas(entries: Entries, known: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the schemas of a skill in the extension, or the default ones."""
    entry = entries.get(known)
    fields = entry if isinstance(entry, dict) else {}
    found = [fields.get(key) for key in ("inputSchema", "outputSchema")]
    given, gives = (schema if isinstance(schema, dict) else None for schema in found)
    return dict(OPEN) if given is None else given, gives


def _with_schemas(tools: list[CanonicalTool], entries: Entries) -> tuple[CanonicalTool, ...]:
    """Return tools with their schemas from the extension of a card."""
    found = []
    for tool in tools:
        given, gives = _schemas(entries, skill_id(tool))
        changed = (given, gives) != (tool.input_schema, tool.output_schema)
        found.append(tool.replace(input_schema=given, output_schema=gives) if changed else tool)
    return tuple(found)


def _write_entries(capabilities: dict[str, Any], tools: Tools, *, schemas: bool) -> Entries:
    """Add missing schemas to the extension of a card, and return all its entries."""
    extension = _extension(capabilities)
    if extension is None and not schemas:
        return {}
    entries = _entries(extension)
    added: Entries = {}
    for known, tool in tools:
        if _schemas(entries | added, known) != (tool.input_schema, tool.output_schema):
            given = {"inputSchema": tool.input_schema, "outputSchema": tool.output_schema}
            added[known] = {key: copy_json(schema) for key, schema in given.items() if schema is not None}
    if added:
        params = {**_params(extension), "skills": entries | added}
        if extension is not None:
            extension["params"] = params
        else:
            purpose = "JSON Schemas of the inputs and outputs of the skills"
            extension = {"uri": SCHEMAS_URI, "description": purpose, "params": params}
            capabilities["extensions"] = [*(capabilities.get("extensions") or ()), extension]
    return entries | added


def write_scheme(scheme: Any, path: str, losses: Losses) -> dict[str, Any] | None:
    """Convert a security scheme to the form of A2A; one that has this form is kept."""
    if isinstance(scheme, dict) and scheme.keys() & {wrapper for wrapper, _, _ in _SCHEMES.values()}:
        kept: dict[str, Any] = copy_json(scheme)
        return kept
    kind = scheme.get("type") if isinstance(scheme, dict) else None
    if not isinstance(kind, str) or kind not in _SCHEMES:
        losses.note(_SECURITY, path, f"is of none of the kinds {', '.join(_SCHEMES)}, and is left out")
        return None
    wrapper, required, optional = _SCHEMES[kind]
    parts: dict[str, Any] = _pick_fields(scheme, (*required, *optional, "description"))
    if kind == "oauth2":
        parts |= _flow(scheme.get("flows"), path, losses)
    if missing := [key for key in required if key not in parts]:
        losses.note(_SECURITY, path, f"has no {' and no '.join(missing)} that A2A accepts, and is left out")
        return None
    _note_rest(scheme, {*parts, "type"}, path, losses)
    return {wrapper: {"location" if key == "in" else key: part for key, part in parts.items()}}


def _flow(flows: Any, path: str, losses: Losses) -> dict[str, Any]:
    """Return the field `flows` with the one OAuth flow that A2A allows; empty if there is none."""
    given = dict(flows) if isinstance(flows, dict) else {}
    if "deviceAuthorization" in given:
        given["deviceCode"] = given.pop("deviceAuthorization")
    for name, (required, optional) in _FLOWS.items():
        parts = _pick_fields(given.get(name), (*required, *optional, "refreshUrl"))
        if set(required) <= parts.keys():
            for other in given.keys() - {name}:
                reason = f"is left out: in this format a scheme has one flow, which is {name}"
                losses.note(_SECURITY, f"{path}{pointer(['flows', other])}", reason)
            _note_rest(given[name], set(parts), f"{path}/flows/{name}", losses)
            return {"flows": {name: parts}}
    return {}


def _note_rest(given: dict[str, Any], kept: set[str], path: str, losses: Losses) -> None:
    for key in given.keys() - kept:
        losses.note(_SECURITY, f"{path}{pointer([key])}", _NO_PLACE)


def _pick_fields(given: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return those fields of a scheme that are present and well-formed."""
    found = {}
    for key in keys:
        value = given.get(key) if isinstance(given, dict) else None
        if key == "scopes":
            is_right = (
                isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values())
            )
        else:
            is_right = (
                isinstance(value, bool) if key == "pkceRequired" else (isinstance(value, str) and bool(value))
            )
        if is_right:
            found[key] = copy_json(value)
    return found
