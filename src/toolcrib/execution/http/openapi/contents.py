"""Reads the request body of an operation: the media type to send, and the schema of its arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.execution.http.openapi.parameters import is_json
from toolcrib.execution.http.openapi.references import follow, follow_bare
from toolcrib.execution.http.openapi.schemas import Schemas
from toolcrib.execution.http.plan import Body, BodyKind, Part, Style

_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_SPREADABLE = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "examples", "default",
     "deprecated", "readOnly", "writeOnly"}
)  # fmt: skip
"""Keywords of a schema whose properties can become arguments without losing any constraint."""
_COMBINATORS = ("anyOf", "oneOf", "allOf")
_MULTIPART_STYLES: tuple[Style, ...] = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


@dataclass(frozen=True, slots=True)
class Content:
    """A request body, and the schema of its value."""

    body: Body
    schema: Any
    spread: dict[str, Any] | None
    """The object schema whose properties may become arguments; None if they may not."""
    description: str = ""


def read_content(document: dict[str, Any], schemas: Schemas, raw: Any) -> Content | None:
    """Return the body of an operation; None if it has none.

    Raises:
        InvalidSchemaError: it is invalid.
    """
    request = follow(document, raw)
    if request is None:
        return None
    content = request.get("content") if isinstance(request, dict) else None
    if not isinstance(content, dict) or not content:
        raise InvalidSchemaError("the request body has no content")
    media_type = _choose_media_type(content)
    media = follow(document, content[media_type])
    schema = media.get("schema", {}) if isinstance(media, dict) else {}
    kind, sent_as = _classify_body(media_type, follow(document, schema))
    required = request.get("required") is True
    described = request.get("description")
    description = described.strip() if isinstance(described, str) else ""
    if kind in {"text", "bytes"}:
        made: Any = {"type": "string"} | ({"contentEncoding": "base64"} if kind == "bytes" else {})
        return Content(Body(kind=kind, media_type=sent_as, required=required), made, None, description)
    parts = _read_parts(document, schemas, schema, media) if kind != "json" else {}
    written = _replace_files(schemas.write(follow_bare(document, schema), "input"), parts)
    spread = written if _can_spread(written, required=required) else None
    body = Body(kind=kind, media_type=sent_as, required=required, parts=parts)
    whole = written if spread or parts else schemas.write(schema, "input")
    return Content(body, whole, spread, description)


def _choose_media_type(content: Mapping[str, Any]) -> str:
    """Return the media type to send: JSON, else a form, else text, else the first."""
    plain = {media_type: media_type.partition(";")[0].strip().lower() for media_type in content}
    for wanted in (
        lambda name: name == "application/json",
        is_json,
        lambda name: name in {"*/*", "application/*"},
        lambda name: name == _FORM,
        lambda name: name == _MULTIPART,
        lambda name: name.startswith("text/"),
    ):
        for media_type, name in plain.items():
            if wanted(name):
                return media_type
    return next(iter(content))


def _classify_body(media_type: str, schema: Any) -> tuple[BodyKind, str]:
    name = media_type.partition(";")[0].strip().lower()
    if not all(" " < sign <= "~" for sign in name) or name.count("/") != 1:
        raise InvalidSchemaError(f"{media_type!r:.80} is not a media type")
    if "*" in name:
        is_text = isinstance(schema, dict) and schema.get("type") == "string"
        return ("bytes", "application/octet-stream") if is_text else ("json", "application/json")
    if is_json(name):
        return "json", name
    if name in {_FORM, _MULTIPART}:
        return ("form" if name == _FORM else "multipart"), name
    is_text = name.startswith("text/") or name.endswith(("/xml", "+xml", "/yaml", "+yaml"))
    return ("text" if is_text else "bytes"), name


def _can_spread(schema: Any, *, required: bool) -> bool:
    """Return whether properties can become arguments: an object schema without other constraints."""
    return (
        isinstance(schema, dict)
        and set(schema) <= _SPREADABLE
        and schema.get("type", "object") == "object"
        and isinstance(schema.get("properties"), dict)
        and isinstance(schema.get("required", []), list)
        and (required or not schema.get("required"))
    )


def _read_parts(document: dict[str, Any], schemas: Schemas, schema: Any, media: Any) -> dict[str, Part]:
    """Return the encodings of the properties of a form that are not the default."""
    resolved = follow(document, schema)
    properties = resolved.get("properties") if isinstance(resolved, dict) else None
    encodings = media.get("encoding") if isinstance(media, dict) else None
    files = _FileFinder(document, schemas)
    parts: dict[str, Part] = {}
    for name, member in properties.items() if isinstance(properties, dict) else ():
        encoding = encodings.get(name) if isinstance(encodings, dict) else None
        part = _read_part(files.is_file(member), encoding if isinstance(encoding, dict) else {})
        if part != Part():
            parts[name] = part
    return parts


def _read_part(is_file: bool, encoding: dict[str, Any]) -> Part:  # noqa: FBT001 - a fact, no option
    media_type = encoding.get("contentType")
    if isinstance(media_type, str):
        media_type = media_type.partition(",")[0].strip()
        if "*" in media_type or not all(" " <= sign <= "~" for sign in media_type):
            media_type = None
    style = encoding.get("style", "form")
    if style not in _MULTIPART_STYLES:
        raise InvalidSchemaError(f"a part of the body has the style {style!r:.40}")
    return Part(
        is_file=is_file,
        media_type=media_type if isinstance(media_type, str) else None,
        style=style,
        explode=encoding.get("explode", style == "form") is True,
    )


class _FileFinder:
    """Finds the properties of one form that are files; visits each schema once for each depth."""

    def __init__(self, document: dict[str, Any], schemas: Schemas) -> None:
        self._document, self._schemas = document, schemas
        self._known: dict[tuple[int, int], bool] = {}

    def is_file(self, schema: Any, depth: int = 4) -> bool:
        """Return whether a property is a file: `format: binary`, or a media type without an encoding."""
        self._schemas.charge(1)
        resolved = follow(self._document, schema)
        if not isinstance(resolved, dict) or not depth:
            return False
        key = id(resolved), depth  # the document keeps the object, so its id stays unique
        if key not in self._known:
            inner = (member for word in _COMBINATORS for member in _as_list(resolved.get(word)))
            self._known[key] = _holds_bytes(resolved) or any(
                self.is_file(member, depth - 1) for member in (resolved.get("items"), *inner)
            )
        return self._known[key]


def _holds_bytes(schema: dict[str, Any]) -> bool:
    if schema.get("type", "string") != "string" or "contentEncoding" in schema:
        return False
    return schema.get("format") == "binary" or "contentMediaType" in schema


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _replace_files(schema: Any, parts: Mapping[str, Part]) -> Any:
    """Return a schema in which files are base64 text."""
    files = [name for name, part in parts.items() if part.is_file]
    if not files or not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return schema
    properties = {
        name: _replace_file(member) if name in files else member
        for name, member in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _replace_file(schema: Any) -> Any:
    """Return a schema with base64 in place of files, also in arrays and alternatives."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema or _holds_bytes(schema):
        described = {word: schema[word] for word in ("title", "description") if word in schema}
        return {"type": "string", "contentEncoding": "base64", **described}
    made = dict(schema)
    if "items" in made:
        made["items"] = _replace_file(made["items"])
    return made | {
        word: [_replace_file(each) for each in _as_list(made[word])] for word in _COMBINATORS if word in made
    }
