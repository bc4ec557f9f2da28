"""One-off HTTP endpoints as tools, for what has no OpenAPI document."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Unpack
from urllib.parse import quote, urlsplit

from pydantic import Field

from toolcrib.errors import InvalidToolError, Problem
from toolcrib.execution.http.assembly import FORBIDDEN_HEADERS, is_token
from toolcrib.execution.http.base import PATH_SAFE, WebProvider, check_base
from toolcrib.execution.http.client import HttpOptions
from toolcrib.execution.http.plan import Body, Parameter, RequestPlan, annotations_of
from toolcrib.model.backend import ProviderBackend
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.tool import Tool, ToolAnnotations

_ARGUMENT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_STRAY = re.compile(r"[{}]")
_BODILESS = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
_MEDIA_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}


class Endpoint(Record):
    """One HTTP request that a tool makes.

    Arguments go where `{argument}` stands: in the path, as the whole value of a query parameter or of a
    header. Those that stand nowhere are the body, or the query where there is none.

    >>> endpoint = Endpoint(name="now", url="https://api.example/{city}", query={"u": "{units}", "v": "2"})
    >>> sorted(HttpProvider("weather", [endpoint]).tools()[0].input_schema["properties"])
    ['city', 'units']
    """

    name: str
    """The name of the tool."""
    url: str
    """The address, with `{argument}` in its path."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    """The HTTP method."""
    description: str | None = None
    """What the tool does."""
    title: str | None = None
    """The name that people read."""
    input_schema: JsonObject | None = None
    """The schema of the arguments; made of the templates where it is not given."""
    output_schema: JsonObject | None = None
    """The JSON Schema of the result."""
    query: dict[str, str] = Field(default_factory=dict)
    """What the wire calls a parameter, and its value: `{argument}`, or the same text in every call."""
    headers: dict[str, str] = Field(default_factory=dict)
    """The same for headers; a secret does not belong here, but into the headers of the provider."""
    body: Literal["json", "form", "none"] | None = None
    """How the body is written; by default JSON where the method has a body."""
    annotations: ToolAnnotations | None = None
    """What the tool does; what the method says by default."""
    tags: tuple[str, ...] = ()
    """Words to filter by."""


class HttpProvider(WebProvider):
    """Endpoints as tools.

    >>> provider = HttpProvider("weather", [Endpoint(name="now", url="https://api.example/now/{city}")])
    >>> [str(tool.id) for tool in provider.tools()]
    ['weather:now']

    Raises:
        InvalidToolError: an endpoint cannot be a tool.
        ConfigError: an option cannot be used.
    """

    def __init__(self, id: str, endpoints: Iterable[Endpoint], **options: Unpack[HttpOptions]) -> None:  # noqa: A002 - what a user calls it
        tools: dict[str, tuple[Tool, RequestPlan]] = {}
        for endpoint in endpoints:
            if endpoint.name in tools:
                raise _refusal(endpoint, "/name", "is the name of two endpoints")
            plan = _plan(id, endpoint)
            tools[endpoint.name] = _tool(id, endpoint, plan), plan
        super().__init__(id, tools, options)


def _plan(provider_id: str, endpoint: Endpoint) -> RequestPlan:
    parts = urlsplit(endpoint.url)
    origin = check_base(provider_id, f"{parts.scheme}://{parts.netloc}")
    if parts.fragment or "{" in parts.netloc:
        raise _refusal(endpoint, "/url", "must not hold a fragment, or an argument in its host")
    parameters = [Parameter(argument=name, name=name, place="path") for name in _ARGUMENT.findall(parts.path)]
    if len({parameter.name for parameter in parameters}) != len(parameters):
        raise _refusal(endpoint, "/url", "names an argument twice")
    if _STRAY.search(_ARGUMENT.sub("", parts.path)):
        raise _refusal(endpoint, "/url", "holds braces around what is no name of an argument")
    fixed = [parts.query] if parts.query else []
    for name, value in endpoint.query.items():
        if argument := _ARGUMENT.fullmatch(value):
            parameters.append(
                Parameter(argument=argument[1], name=name, place="query", style="form", explode=True)
            )
        elif _ARGUMENT.search(value):
            raise _refusal(endpoint, "/query", f"{value!r:.80} must be one argument, or hold none")
        else:
            fixed.append(f"{quote(name, safe='')}={quote(value, safe='')}")
    headers = list(_headers(endpoint, parameters))
    body = endpoint.body or ("none" if endpoint.method in _BODILESS else "json")
    if body == "none":
        parameters += _loose(endpoint, parameters)
    return RequestPlan(
        method=endpoint.method,
        base=origin,
        path=quote(parts.path, safe=PATH_SAFE + "{}"),
        query="&".join(fixed),
        parameters=tuple(parameters),
        body=None if body == "none" else _body(body),
        headers=tuple(headers),
    )


def _body(kind: Literal["json", "form"]) -> Body:
    return Body(kind=kind, media_type=_MEDIA_TYPES[kind])


def _headers(endpoint: Endpoint, parameters: list[Parameter]) -> Iterator[tuple[str, str]]:
    """Yield the fixed headers, and note those that are arguments."""
    for name, value in endpoint.headers.items():
        argument = _ARGUMENT.fullmatch(value)
        if not is_token(name) or (argument and name.lower() in FORBIDDEN_HEADERS):
            raise _refusal(endpoint, "/headers", f"{name!r:.80} is not a header that may be set")
        if argument:
            parameters.append(Parameter(argument=argument[1], name=name, place="header"))
        elif (
            _ARGUMENT.search(value) or value != value.strip() or not all(" " <= sign <= "~" for sign in value)
        ):
            raise _refusal(
                endpoint,
                "/headers",
                f"the value of {name!r:.80} must be one argument, or printable ASCII without any",
            )
        else:
            yield name, value


def _loose(endpoint: Endpoint, placed: Iterable[Parameter]) -> list[Parameter]:
    """Return the arguments that stand nowhere, for the query."""
    taken = {parameter.argument for parameter in placed}
    named: Mapping[str, Any] = (endpoint.input_schema or {}).get("properties", {})
    return [
        Parameter(argument=name, name=name, place="query", style="form", explode=True)
        for name in named
        if name not in taken
    ]


def _tool(provider_id: str, endpoint: Endpoint, plan: RequestPlan) -> Tool:
    return Tool(
        name=endpoint.name,
        title=endpoint.title,
        description=endpoint.description,
        input_schema=_schema(plan) if endpoint.input_schema is None else endpoint.input_schema,
        output_schema=endpoint.output_schema,
        annotations=endpoint.annotations or annotations_of(endpoint.method),
        namespace=provider_id,
        tags=endpoint.tags,
        backend=ProviderBackend(provider_id=provider_id, tool_id=endpoint.name),
    )


def _schema(plan: RequestPlan) -> dict[str, Any]:
    """Return the schema that the templates alone give: parts of the path are required, the rest is not."""
    properties: dict[str, Any] = {}
    for parameter in plan.parameters:
        is_path = parameter.place == "path"
        properties.setdefault(parameter.argument, {"type": ["string", "integer"]} if is_path else {})
    required = [parameter.argument for parameter in plan.parameters if parameter.place == "path"]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return (
        schema
        | ({"required": required} if required else {})
        | ({} if plan.body else {"additionalProperties": False})
    )


def _refusal(endpoint: Endpoint, path: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(path, "endpoint", reason),), endpoint.name, "endpoint")
