"""Schemas for clients that know few keywords: types, properties, items, enum and descriptions."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from toolcrib.model.plain import copy_json
from toolcrib.model.schema.references import LocalReferences

_COPIED: Final = ("title", "description", "default", "format", "minimum", "maximum", "minLength", "maxLength")
_MAX_DEPTH: Final = 16
_MAX_PARTS: Final = 64
"""Subschemas that are joined to one, at most."""


def to_plain_schema(schema: Any) -> dict[str, Any]:
    """Return a schema that says the same with few keywords, and accepts at least the same values.

    References are replaced by their targets, `allOf` and alternatives are joined, and `null` is left out of
    types. A call is still validated against the schema of the tool itself.

    >>> name = {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]}
    >>> to_plain_schema({"properties": {"name": name}, "$defs": {"text": {"type": "string"}}})
    {'type': 'object', 'properties': {'name': {'type': 'string'}}}
    """
    made = _plain(schema, LocalReferences(schema), 0)
    return {"type": "object", "properties": {}, **made} if made.get("type") != "object" else made


def _plain(schema: Any, references: LocalReferences, depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    parts, alternatives = _joined(schema, references)
    every = [*parts, *alternatives]
    made = _copied_words(parts) or _copied_words(alternatives, ("description",))
    kinds = {kind for part in parts for kind in _types(part)} or {
        kind for part in alternatives for kind in _types(part)
    }
    properties: dict[str, Any] = {}
    for name, member in (found for part in every for found in _members(part)):
        if name not in properties:
            properties[name] = _plain(member, references, depth + 1)
    if properties or kinds == {"object"}:
        made = {"type": "object", **made, "properties": properties}
    elif len(kinds) == 1:
        made = {"type": kinds.pop(), **made}
    needed = [name for part in parts for name in part.get("required", ()) if name in properties]
    if needed:
        made["required"] = list(dict.fromkeys(needed))
    if made.get("type") == "array":
        items = (part["items"] for part in every if isinstance(part.get("items"), dict))
        made["items"] = _plain(next(items, None), references, depth + 1)
    options = _options(parts, alternatives)
    return made | ({"enum": options} if options else {})


def _copied_words(parts: list[dict[str, Any]], words: Sequence[str] = _COPIED) -> dict[str, Any]:
    """Return the keywords that are copied, each from the first subschema that has it."""
    return {
        word: copy_json(next(part[word] for part in parts if word in part))
        for word in words
        if any(word in part for part in parts)
    }


def _joined(
    schema: dict[str, Any], references: LocalReferences
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the subschemas that all apply, and those of which one does."""
    always: list[dict[str, Any]] = []
    some: list[dict[str, Any]] = []
    pending: list[tuple[Any, list[dict[str, Any]]]] = [(schema, always)]
    while pending and len(always) + len(some) < _MAX_PARTS:
        part, found = pending.pop(0)
        if not isinstance(part, dict) or any(part is known for known in found):
            continue
        found.append(part)
        pending += [(each, found) for each in references.all_of(part)]
        if references.reads_siblings(part):
            branches = [part.get(word) for word in ("anyOf", "oneOf")]
            pending += [(each, some) for branch in branches if isinstance(branch, list) for each in branch]
            pending += [(part[word], some) for word in ("then", "else") if word in part]
    return always, some


def _members(part: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    properties = part.get("properties")
    yield from properties.items() if isinstance(properties, dict) else ()


def _types(part: dict[str, Any]) -> list[str]:
    kinds = part.get("type", [])
    return [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]


def _options(parts: list[dict[str, Any]], alternatives: list[dict[str, Any]]) -> list[Any]:
    """Return the only values that are accepted; none if others are too."""
    for part in parts:
        if isinstance(part.get("enum"), list) or "const" in part:
            return copy_json(part.get("enum", [part.get("const")]))  # type: ignore[no-any-return]
    named = [part for part in alternatives if part.get("type") != "null"]
    if named and all("const" in part or isinstance(part.get("enum"), list) for part in named):
        return [copy_json(value) for part in named for value in part.get("enum", [part.get("const")])]
    return []
