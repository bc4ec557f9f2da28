"""Makes a tool from an operation: its arguments in one flat object, and the plan of its request."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.execution.http.base import PATH_SAFE
from toolcrib.execution.http.credentials import Scheme
from toolcrib.execution.http.openapi.contents import Content, read_content
from toolcrib.execution.http.openapi.parameters import Input, is_json, read_parameters
from toolcrib.execution.http.openapi.references import follow, follow_bare
from toolcrib.execution.http.openapi.schemas import Direction, Schemas
from toolcrib.execution.http.openapi.security import read_security
from toolcrib.execution.http.openapi.servers import Servers
from toolcrib.execution.http.plan import Body, RequestPlan, annotations_for_method
from toolcrib.model.backend import ProviderBackend
from toolcrib.model.schema.validator import DefaultValidator
from toolcrib.model.tool import Tool

_TEMPLATE = re.compile(r"\{([^{}/]*)\}")
_NULL_SCHEMA = {"type": "null"}
_STREAM_TYPES = ("text/event-stream", "ndjson", "jsonl", "json-seq", "json-lines", "stream+json")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a document."""

    method: str
    path: str
    item: Mapping[str, Any]
    """The path item that contains it, with parameters and servers that its operations share."""
    raw: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


@dataclass(frozen=True, slots=True)
class Operations:
    """Makes tools from the operations of one document."""

    provider_id: str
    document: dict[str, Any]
    schemas: Schemas
    servers: Servers
    schemes: Mapping[str, Scheme]
    validator: DefaultValidator

    def make_tool(self, operation: Operation, name: str) -> tuple[Tool, RequestPlan]:
        """Return the tool of an operation, and the plan of its request.

        Raises:
            InvalidSchemaError: it is invalid, or its schemas cannot be used.
            ConfigError: the address of its server is unknown.
        """
        raw = operation.raw
        secret: set[tuple[str, str]] = {
            (scheme.place, scheme.name.lower()) for scheme in self.schemes.values()
        }
        listed = [*_as_list(operation.item.get("parameters")), *_as_list(raw.get("parameters"))]
        inputs = read_parameters(self.document, self.schemas, listed, secret)
        content = read_content(self.document, self.schemas, raw.get("requestBody"))
        schema, body = _merge_arguments(inputs, content)
        path, query = _encode_path_template(operation.path, inputs)
        plan = RequestPlan(
            method=operation.method.upper(),
            base=self.servers.find_base_url(raw, operation.item, self.document),
            path=path,
            query=query,
            parameters=tuple(entry.parameter for entry in inputs),
            body=body,
            headers=(("Accept", read_accept(self.document, raw.get("responses"))),),
            security=read_security(self.document, dict(raw)),
        )
        return self._build_tool(operation, name, self._add_definitions(schema, "input")), plan

    def _build_tool(self, operation: Operation, name: str, input_schema: dict[str, Any]) -> Tool:
        raw = operation.raw
        deprecated = raw.get("deprecated") is True
        meta = {"openapi/operation": str(operation)} | ({"openapi/deprecated": True} if deprecated else {})
        tool = {
            "name": name,
            "title": _strip_text(raw.get("summary")) or None,
            "description": _describe_operation(raw, deprecated=deprecated) or None,
            "inputSchema": input_schema,
            "outputSchema": self._read_output_schema(raw),
            "annotations": annotations_for_method(operation.method.upper()),
            "_meta": meta,
            "namespace": self.provider_id,
            "tags": [tag for tag in _as_list(raw.get("tags")) if isinstance(tag, str)],
            "backend": ProviderBackend(provider_id=self.provider_id, tool_id=name),
        }
        # `from_json` keeps the schemas unchanged, as it does for those of MCP servers.
        return Tool.from_json(tool)

    def _read_output_schema(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the schema of the result; an invalid one is left out, because calls work without it."""
        try:
            schema = read_output(self.document, self.schemas, raw.get("responses"))
            return self._add_definitions(schema, "output") if isinstance(schema, dict) else None
        except InvalidSchemaError:
            return None

    def _add_definitions(self, schema: dict[str, Any], direction: Direction) -> dict[str, Any]:
        """Return a schema with its definitions, after a validator has compiled it."""
        definitions = self.schemas.definitions(schema, direction)
        whole = {**schema, "$defs": definitions} if definitions else schema
        with suppress(ValidationError):  # null need not be valid; only the compilation matters
            self.validator.validate(whole, None)
        return whole


def _merge_arguments(inputs: list[Input], content: Content | None) -> tuple[dict[str, Any], Body | None]:
    """Return the schema of all arguments, and the body.

    The properties of the body become arguments themselves if none has the name of a parameter; otherwise the
    whole body is one argument.
    """
    properties = {entry.parameter.argument: entry.schema for entry in inputs}
    required = [entry.parameter.argument for entry in inputs if entry.required]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    body = None if content is None else content.body
    more: Any = False
    if content is not None and body is not None:
        spread = content.spread
        if spread is not None and not set(spread["properties"]) & set(properties):
            properties |= spread["properties"]
            required += [name for name in spread.get("required", ()) if name not in required]
            more = spread.get("additionalProperties", True)
        else:
            argument = _choose_body_name(properties)
            body = Body(
                kind=body.kind, media_type=body.media_type, argument=argument,
                required=body.required, parts=body.parts,
            )  # fmt: skip
            properties[argument] = _body_schema(content)
            required += [argument] if body.required else []
    if required:
        schema["required"] = required
    return schema | ({} if more is True else {"additionalProperties": more}), body


def _choose_body_name(properties: Mapping[str, Any]) -> str:
    """Return the name of the argument for the whole body: `body`, unless a parameter has that name."""
    name, number = "body", 1
    while name in properties:
        name, number = f"body_{number + 1}", number + 1
    return name


def _body_schema(content: Content) -> Any:
    if not content.description or not isinstance(content.schema, dict) or "description" in content.schema:
        return content.schema
    return {**content.schema, "description": content.description}


def _encode_path_template(path: str, inputs: list[Input]) -> tuple[str, str]:
    """Return the encoded path with its templates, and its query.

    Raises:
        InvalidSchemaError: it names an undeclared parameter, or has dot segments.
    """
    if not path.startswith("/") or any("\ud800" <= sign <= "\udfff" for sign in path):
        raise InvalidSchemaError("its path does not begin with a slash, or is not text that can be sent")
    declared = {entry.parameter.name for entry in inputs if entry.parameter.place == "path"}
    path, _, query = path.partition("#")[0].partition("?")
    named = _TEMPLATE.findall(path)
    missing = [name for name in named if name not in declared]
    if missing:
        raise InvalidSchemaError(f"its path names {missing[0]!r:.80}, which is not one of its parameters")
    pieces = _TEMPLATE.split(path)
    if any(unquote(part) in {".", ".."} for part in path.split("/")):
        raise InvalidSchemaError("its path holds '.' or '..'")
    written = [
        f"{{{piece}}}" if number % 2 else quote(piece, safe=PATH_SAFE) for number, piece in enumerate(pieces)
    ]
    return "".join(written), quote(query, safe=f"{PATH_SAFE}?")


def _describe_operation(raw: Mapping[str, Any], *, deprecated: bool) -> str:
    text = _strip_text(raw.get("description")) or _strip_text(raw.get("summary"))
    return f"Deprecated. {text}".strip() if deprecated else text


def _strip_text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_output(document: dict[str, Any], schemas: Schemas, responses: Any) -> Any:
    """Return the schema of successful results; None if it is unknown.

    Every response with a status 2xx must be JSON with a schema, or have no content, which is null. If one is
    something else, or may be a stream, the schema would be wrong for some results.
    """
    found: list[Any] = []
    for response in _list_successes(document, responses):
        content = response.get("content")
        if not content:
            found.append(_NULL_SCHEMA)
            continue
        if not isinstance(content, dict):
            return None
        media_type = next((name for name in content if is_json(name)), None)
        media = follow(document, content[media_type]) if media_type else None
        is_stream = any(word in name.lower() for name in content for word in _STREAM_TYPES)
        if is_stream or not isinstance(media, dict) or "schema" not in media:
            return None
        found.append(schemas.write(follow_bare(document, media["schema"]), "output"))
    different = list({json.dumps(schema, sort_keys=True): schema for schema in found}.values())
    if different in ([], [_NULL_SCHEMA]):
        return None
    return different[0] if len(different) == 1 else {"anyOf": different}


def read_accept(document: dict[str, Any], responses: Any) -> str:
    """Return the `Accept` header: the media types of the document, JSON first."""
    named: dict[str, None] = {}
    for response in _list_successes(document, responses):
        content = response.get("content")
        for name in content if isinstance(content, dict) else ():
            plain = name.partition(";")[0].strip()
            if plain.count("/") == 1 and plain.isascii() and plain.isprintable() and "," not in plain:
                named[plain] = None
    ordered = sorted(named, key=lambda name: not is_json(name))[:16]
    return ", ".join([*ordered, "*/*;q=0.1"]) if ordered else "application/json, */*;q=0.5"


def _list_successes(document: dict[str, Any], responses: Any) -> Iterator[dict[str, Any]]:
    """Yield the successful responses, ordered by status."""
    if isinstance(responses, dict):
        for status in sorted(map(str, responses)):
            response = follow(document, responses[status])
            if status.upper().startswith("2") and isinstance(response, dict):
                yield response
