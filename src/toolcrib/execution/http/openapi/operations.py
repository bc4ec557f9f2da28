"""An operation as a tool: its arguments in one flat object, and the plan that puts its request together."""

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
from toolcrib.execution.http.openapi.references import follow, opened
from toolcrib.execution.http.openapi.schemas import Direction, Schemas
from toolcrib.execution.http.openapi.security import read_security
from toolcrib.execution.http.openapi.servers import Servers
from toolcrib.execution.http.plan import Body, RequestPlan, annotations_of
from toolcrib.model.backend import ProviderBackend
from toolcrib.model.schema.validator import DefaultValidator
from toolcrib.model.tool import Tool

_TEMPLATE = re.compile(r"\{([^{}/]*)\}")
_NOTHING = {"type": "null"}
_STREAMS = ("text/event-stream", "ndjson", "jsonl", "json-seq", "json-lines", "stream+json")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a document, where it stands."""

    method: str
    path: str
    item: Mapping[str, Any]
    """The path that it belongs to, with what all its operations share."""
    raw: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


@dataclass(frozen=True, slots=True)
class Operations:
    """Turns the operations of one document into tools."""

    provider_id: str
    document: dict[str, Any]
    schemas: Schemas
    servers: Servers
    schemes: Mapping[str, Scheme]
    validator: DefaultValidator

    def read(self, operation: Operation, name: str) -> tuple[Tool, RequestPlan]:
        """Return the tool of an operation, and how its request is made.

        Raises:
            InvalidSchemaError: it cannot be understood, or its schemas cannot be used.
            ConfigError: it is not known where it is served.
        """
        raw = operation.raw
        secret: set[tuple[str, str]] = {
            (scheme.place, scheme.name.lower()) for scheme in self.schemes.values()
        }
        listed = [*_list(operation.item.get("parameters")), *_list(raw.get("parameters"))]
        inputs = read_parameters(self.document, self.schemas, listed, secret)
        content = read_content(self.document, self.schemas, raw.get("requestBody"))
        schema, body = _arguments(inputs, content)
        path, query = _path(operation.path, inputs)
        plan = RequestPlan(
            method=operation.method.upper(),
            base=self.servers.base_of(raw, operation.item, self.document),
            path=path,
            query=query,
            parameters=tuple(entry.parameter for entry in inputs),
            body=body,
            headers=(("Accept", read_accept(self.document, raw.get("responses"))),),
            security=read_security(self.document, dict(raw)),
        )
        return self._tool(operation, name, self._finished(schema, "input")), plan

    def _tool(self, operation: Operation, name: str, input_schema: dict[str, Any]) -> Tool:
        raw = operation.raw
        deprecated = raw.get("deprecated") is True
        meta = {"openapi/operation": str(operation)} | ({"openapi/deprecated": True} if deprecated else {})
        tool = {
            "name": name,
            "title": _text(raw.get("summary")) or None,
            "description": _description(raw, deprecated=deprecated) or None,
            "inputSchema": input_schema,
            "outputSchema": self._output(raw),
            "annotations": annotations_of(operation.method.upper()),
            "_meta": meta,
            "namespace": self.provider_id,
            "tags": [tag for tag in _list(raw.get("tags")) if isinstance(tag, str)],
            "backend": ProviderBackend(provider_id=self.provider_id, tool_id=name),
        }
        # Like those of a server, schemas are kept as they came, even where they look like argument schemas.
        return Tool.from_json(tool)

    def _output(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the schema of the result; one that cannot be used is left out, for the call itself works."""
        try:
            schema = read_output(self.document, self.schemas, raw.get("responses"))
            return self._finished(schema, "output") if isinstance(schema, dict) else None
        except InvalidSchemaError:
            return None

    def _finished(self, schema: dict[str, Any], direction: Direction) -> dict[str, Any]:
        """Return a schema with its definitions, once a validator has taken it."""
        definitions = self.schemas.definitions(schema, direction)
        whole = {**schema, "$defs": definitions} if definitions else schema
        with suppress(ValidationError):  # that null does not fit is no fault of the schema
            self.validator.validate(whole, None)
        return whole


def _arguments(inputs: list[Input], content: Content | None) -> tuple[dict[str, Any], Body | None]:
    """Return the schema of all arguments together, and the body with the argument that it is, if one is."""
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
            argument = _free(properties)
            body = Body(
                kind=body.kind, media_type=body.media_type, argument=argument,
                required=body.required, parts=body.parts,
            )  # fmt: skip
            properties[argument] = _described(content)
            required += [argument] if body.required else []
    if required:
        schema["required"] = required
    return schema | ({} if more is True else {"additionalProperties": more}), body


def _free(properties: Mapping[str, Any]) -> str:
    """Return what the argument for the whole body is called: `body`, unless that is a parameter."""
    name, number = "body", 1
    while name in properties:
        name, number = f"body_{number + 1}", number + 1
    return name


def _described(content: Content) -> Any:
    if not content.description or not isinstance(content.schema, dict) or "description" in content.schema:
        return content.schema
    return {**content.schema, "description": content.description}


def _path(path: str, inputs: list[Input]) -> tuple[str, str]:
    """Return the path as it is sent, templates kept, and what stands in its query.

    Raises:
        InvalidSchemaError: it names a parameter that is not declared, or leads elsewhere.
    """
    if not path.startswith("/") or any("\ud800" <= sign <= "\udfff" for sign in path):
        raise InvalidSchemaError("its path does not begin with a slash, or is no text that can be sent")
    declared = {entry.parameter.name for entry in inputs if entry.parameter.place == "path"}
    path, _, query = path.partition("#")[0].partition("?")
    named = _TEMPLATE.findall(path)
    missing = [name for name in named if name not in declared]
    if missing:
        raise InvalidSchemaError(f"its path names {missing[0]!r:.80}, which is no parameter of it")
    pieces = _TEMPLATE.split(path)
    if any(unquote(part) in {".", ".."} for part in path.split("/")):
        raise InvalidSchemaError("its path holds '.' or '..'")
    written = [
        f"{{{piece}}}" if number % 2 else quote(piece, safe=PATH_SAFE) for number, piece in enumerate(pieces)
    ]
    return "".join(written), quote(query, safe=f"{PATH_SAFE}?")


def _description(raw: Mapping[str, Any], *, deprecated: bool) -> str:
    text = _text(raw.get("description")) or _text(raw.get("summary"))
    return f"Deprecated. {text}".strip() if deprecated else text


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_output(document: dict[str, Any], schemas: Schemas, responses: Any) -> Any:
    """Return the schema of what a successful call gives; None where it is unknown.

    Each answer of status 2xx must be JSON with a schema, or have no content, which is null. Where an answer
    may be a stream, or is something else than JSON, there is none.
    """
    found: list[Any] = []
    for response in _successes(document, responses):
        content = response.get("content")
        if not content:
            found.append(_NOTHING)
            continue
        if not isinstance(content, dict):
            return None
        media_type = next((name for name in content if is_json(name)), None)
        media = follow(document, content[media_type]) if media_type else None
        is_stream = any(word in name.lower() for name in content for word in _STREAMS)
        if is_stream or not isinstance(media, dict) or "schema" not in media:
            return None
        found.append(schemas.write(opened(document, media["schema"]), "output"))
    different = list({json.dumps(schema, sort_keys=True): schema for schema in found}.values())
    if different in ([], [_NOTHING]):
        return None
    return different[0] if len(different) == 1 else {"anyOf": different}


def read_accept(document: dict[str, Any], responses: Any) -> str:
    """Return the media types to ask for: those of the document, JSON before the rest."""
    named: dict[str, None] = {}
    for response in _successes(document, responses):
        content = response.get("content")
        for name in content if isinstance(content, dict) else ():
            plain = name.partition(";")[0].strip()
            if plain.count("/") == 1 and plain.isascii() and plain.isprintable() and "," not in plain:
                named[plain] = None
    ordered = sorted(named, key=lambda name: not is_json(name))[:16]
    return ", ".join([*ordered, "*/*;q=0.1"]) if ordered else "application/json, */*;q=0.5"


def _successes(document: dict[str, Any], responses: Any) -> Iterator[dict[str, Any]]:
    """Yield the answers that mean success, in the order of their status."""
    if isinstance(responses, dict):
        for status in sorted(map(str, responses)):
            response = follow(document, responses[status])
            if status.upper().startswith("2") and isinstance(response, dict):
                yield response
