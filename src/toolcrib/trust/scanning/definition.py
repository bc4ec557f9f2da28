"""The texts of a definition: all that a model may read of a tool, a prompt or a resource template."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from toolcrib.model.plain import pointer
from toolcrib.trust.scanning.concepts import split_name

_KEYWORDS = frozenset(
    {
        "$comment", "$defs", "$id", "$ref", "$schema", "_meta", "additionalItems", "additionalProperties",
        "allOf", "annotations", "anyOf", "arguments", "array", "boolean", "const", "contains",
        "contentEncoding", "contentMediaType", "default", "definitions", "dependencies", "dependentRequired",
        "dependentSchemas", "deprecated", "description", "destructiveHint", "else", "enum", "examples",
        "exclusiveMaximum", "exclusiveMinimum", "format", "idempotentHint", "if", "inputSchema", "integer",
        "items", "maxItems", "maxLength", "maxProperties", "maximum", "meta", "mimeType", "minItems",
        "minLength", "minProperties", "minimum", "multipleOf", "name", "not", "null", "number", "object",
        "oneOf", "openWorldHint", "outputSchema", "pattern", "patternProperties", "prefixItems",
        "properties", "propertyNames", "readOnly", "readOnlyHint", "required", "string", "tags", "then",
        "title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "uri", "uriTemplate",
        "version", "writeOnly",
    }
)  # fmt: skip
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_ARGUMENTS = frozenset({"properties", "arguments"})
_NAME_LENGTH = 100

Path = tuple[Any, ...]
"""A place: None at the top, or the place above and the key below it."""


class Text(NamedTuple):
    """A text of a definition."""

    text: str
    path: Any
    """The place, as nested pairs of the place above and a key; None for the top."""
    is_parameter: bool
    """Whether it is of an argument that the model fills in."""

    @property
    def pointer(self) -> str:
        """The place as a JSON Pointer."""
        keys, place = [], self.path
        while place is not None:
            place, key = place
            keys.append(key)
        return pointer(reversed(keys))


def texts_of(definition: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the texts of a definition in JSON: words, names, values, defaults, examples, at any depth.

    A name stands with what describes it, because each says what the other means.
    """
    waiting: list[tuple[Any, Any, bool]] = [(dict(definition), None, False)]
    while waiting:
        value, path, is_parameter = waiting.pop()
        if type(value) is str:
            if value not in _KEYWORDS:
                yield Text(_spell(value), path, is_parameter)
        elif type(value) is dict:
            of_names = path is not None and path[1] in _NAMED
            inside = is_parameter or (path is not None and path[1] in _ARGUMENTS)
            for key, member in value.items():
                below = (path, key)
                if of_names or key not in _KEYWORDS:
                    yield Text(_introduce(key, member), below, inside)
                    waiting.append((_without_description(member), below, inside))
                else:
                    waiting.append((member, below, inside))
        elif type(value) is list:
            waiting += [(member, (path, place), is_parameter) for place, member in enumerate(value)]


def names_in(definition: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of a definition in lower case, and its name."""
    names = {str(definition.get("name", "")).lower()}
    waiting: list[Any] = [definition]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            names.update(map(str.lower, value))
            waiting += value.values()
        elif type(value) is list:
            waiting += value
    return frozenset(names)


def _without_description(member: Any) -> Any:
    if type(member) is not dict or type(member.get("description")) is not str:
        return member
    return {key: value for key, value in member.items() if key != "description"}


def _introduce(name: str, member: Any) -> str:
    described = member.get("description") if type(member) is dict else None
    return f"{split_name(name)}: {described}" if type(described) is str else _spell(name)


def _spell(text: str) -> str:
    """Return a name as words, and other texts as they are."""
    is_name = len(text) < _NAME_LENGTH and text.isascii() and text.replace("-", "_").isidentifier()
    return split_name(text) if is_name else text
