"""The operations of the API as records, from which requests are read and the OpenAPI document is written."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from pydantic.json_schema import models_json_schema

from toolcrib import __version__
from toolcrib.model.record import Record

if TYPE_CHECKING:
    from toolcrib.gateway.api.caller import ApiCaller

ROOT = "/api/v1"
DOCUMENT = "/api/openapi.json"
_PARAMETER = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/{model}"
Handle = Callable[["ApiCaller"], Awaitable[Any]]
"""Answers a request: returns JSON, or an answer of another kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """One operation: where it is, what it takes, and what answers it."""

    method: Literal["GET", "POST"]
    path: str
    """Below `ROOT`, with parameters in braces."""
    summary: str
    handle: Handle
    query: type[Record] | None = None
    """The parameters in the address."""
    body: type[Record] | None = None
    """The JSON object that is sent."""
    answer: type[Record] | None = None
    """The JSON object that it answers with; None where its shape is described by `summary` alone."""
    answers_items_of: type[Record] | None = None
    """The items of the list that it answers with."""
    streams: bool = False
    """Whether it answers with server-sent events."""
    needs: Literal["auditor", "operator"] | None = None
    """The right without which it is refused; operators have that of auditors too."""
    is_open: bool = False
    """Whether it needs no login: browsers show by a header that no other page has sent it."""
    is_signed: bool = False
    """Whether it needs no login, since its body is signed."""
    pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part)
            for at, part in enumerate(_PARAMETER.split(self.path))
        )
        object.__setattr__(self, "pattern", re.compile(pattern))

    @property
    def name(self) -> str:
        """Its id in the document: the name of the function that answers it."""
        return self.handle.__name__

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters of a path below `ROOT`; None if it is another operation's."""
        found = self.pattern.fullmatch(path)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


def find_operation(
    operations: tuple[ApiOperation, ...], method: str, path: str
) -> tuple[ApiOperation, dict[str, str]] | set[str]:
    """Return the operation of a request and the parameters in its path, else the methods that are there."""
    allowed: set[str] = set()
    for each in operations:
        found = each.match(path)
        if found is not None and each.method == method:
            return each, found
        if found is not None:
            allowed.add(each.method)
    return allowed


def openapi_document(operations: tuple[ApiOperation, ...]) -> dict[str, Any]:
    """Return the OpenAPI document of operations."""
    models = {
        model: None
        for each in operations
        for model in (each.query, each.body, each.answer, each.answers_items_of)
        if model is not None
    }
    taken = {model for each in operations for model in (each.query, each.body)}
    named, found = models_json_schema(
        [(model, "validation" if model in taken else "serialization") for model in models],
        ref_template=_REFERENCE,
    )
    references: dict[Any, Any] = {model: schema for (model, _), schema in named.items()}
    schemas: dict[str, Any] = dict(sorted(found.get("$defs", {}).items()))
    schemas["Error"] = _ERROR
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(ROOT + each.path, {})[each.method.lower()] = _describe(each, references, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "toolcrib", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SECURITY},
        "security": [{"token": []}, {"cookie": [], "key": []}],
    }


def _describe(
    operation: ApiOperation, references: Mapping[type[Record], Any], schemas: Mapping[str, Any]
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(operation.path)
    ]
    if operation.query is not None:
        name = str(references[operation.query]["$ref"]).rpartition("/")[2]
        declared = schemas[name]
        parameters += [
            {"name": key, "in": "query", "required": key in declared.get("required", ()), "schema": schema}
            for key, schema in declared["properties"].items()
        ]
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    described |= {"parameters": parameters} if parameters else {}
    if operation.body is not None:
        content = {"application/json": {"schema": references[operation.body]}}
        described["requestBody"] = {"required": True, "content": content}
    described["responses"] = {
        "200": {"description": "Success.", "content": _content(operation, references)},
        "default": {
            "description": "An error, and its reason.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        },
    }
    if operation.is_open or operation.is_signed:
        described["security"] = []
    if operation.needs is not None:
        described["description"] = _NEEDS[operation.needs]
    return described


def _content(operation: ApiOperation, references: Mapping[type[Record], Any]) -> dict[str, Any]:
    if operation.streams:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    schema: dict[str, Any] = {"type": "object"}
    if operation.answer is not None:
        schema = references[operation.answer]
    if operation.answers_items_of is not None:
        items = {"type": "array", "items": references[operation.answers_items_of]}
        more = {"nextCursor": {"type": "string"}, "total": {"type": "integer"}}
        schema = {"type": "object", "properties": {"items": items, **more}, "required": ["items"]}
    return {"application/json": {"schema": schema}}


_NEEDS = {
    "operator": "For operators: the user of this machine, and those named in `console.operators`.",
    "auditor": "For auditors, named in `console.auditors`, and for operators.",
}
_ABOUT = (
    "What the console in the browser and the command do, under the same rules and the same audit as MCP. "
    "Programs send a token of the gateway as 'Authorization: Bearer ...'; browsers log in."
)
_ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "retryable": {"type": "boolean"},
                "details": {"type": "object"},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "toolcrib"},
    "key": {"type": "apiKey", "in": "header", "name": "X-Toolcrib-Key"},
}
