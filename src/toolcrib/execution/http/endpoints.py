"""Single HTTP endpoints as tools, for APIs without an OpenAPI document."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Unpack
from urllib.parse import quote, urlsplit

from pydantic import Field

from toolcrib.errors import InvalidToolError, Problem
from toolcrib.execution.http.assembly import FORBIDDEN_HEADERS, is_token
from toolcrib.execution.http.base import PATH_SAFE, WebProvider, check_base_url
from toolcrib.execution.http.client import HttpOptions
from toolcrib.execution.http.plan import Body, Parameter, RequestPlan, annotations_for_method
from toolcrib.model.backend import ProviderBackend
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.tool import Tool, ToolAnnotations

_ARGUMENT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_BRACE = re.compile(r"[{}]")
_METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
_MEDIA_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}


class Endpoint(Record):
    """The HTTP request of one tool.

    `{argument}` marks the place of an argument: in the path, or as the whole value of a query parameter or a
    header. All other arguments form the body, or the query if there is no body.

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
    """The description of the tool."""
    title: str | None = None
    """The title of the tool."""
    input_schema: JsonObject | None = None
    """The schema of the arguments; by default made from the templates."""
    output_schema: JsonObject | None = None
    """The JSON Schema of the result."""
    query: dict[str, str] = Field(default_factory=dict)
    """Query parameters; a value is `{argument}` or a fixed string."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers in the same form; secrets belong in the headers of the provider."""
    body: Literal["json", "form", "none"] | None = None
    """The format of the body; by default JSON if the method has a body."""
    annotations: ToolAnnotations | None = None
    """The annotations of the tool; by default those of the method."""
    tags: tuple[str, ...] = ()
    """Tags for filters."""


class HttpProvider(WebProvider):
    """Endpoints as tools.

    >>> provider = HttpProvider("weather", [Endpoint(name="now", url="https://api.example/now/{city}")])
    >>> [str(tool.id) for tool in provider.tools()]
    ['weather:now']

    Raises:
        InvalidToolError: an endpoint cannot be a tool.
        ConfigError: an option cannot be used.
    """

    def __init__(self, id: str, endpoints: Iterable[Endpoint], **options: Unpack[HttpOptions]) -> None:  # noqa: A002 - a public name
        tools: dict[str, tuple[Tool, RequestPlan]] = {}
        for endpoint in endpoints:
            if endpoint.name in tools:
                raise _endpoint_error(endpoint, "/name", "is the name of two endpoints")
            plan = _make_plan(id, endpoint)
            tools[endpoint.name] = _make_tool(id, endpoint, plan), plan
        super().__init__(id, tools, options)


def _make_plan(provider_id: str, endpoint: Endpoint) -> RequestPlan:
    parts = urlsplit(endpoint.url)
    origin = check_base_url(provider_id, f"{parts.scheme}://{parts.netloc}")
    if parts.fragment or "{" in parts.netloc:
        raise _endpoint_error(endpoint, "/url", "must not contain a fragment, or an argument in its host")
    parameters = [Parameter(argument=name, name=name, place="path") for name in _ARGUMENT.findall(parts.path)]
    if len({parameter.name for parameter in parameters}) != len(parameters):
        raise _endpoint_error(endpoint, "/url", "names an argument twice")
    if _BRACE.search(_ARGUMENT.sub("", parts.path)):
        raise _endpoint_error(endpoint, "/url", "has braces around what is not an argument name")
    fixed = [parts.query] if parts.query else []
    for name, value in endpoint.query.items():
        if argument := _ARGUMENT.fullmatch(value):
            parameters.append(
                Parameter(argument=argument[1], name=name, place="query", style="form", explode=True)
            )
        elif _ARGUMENT.search(value):
            raise _endpoint_error(endpoint, "/query", f"{value!r:.80} must be one argument, or contain none")
        else:
            fixed.append(f"{quote(name, safe='')}={quote(value, safe='')}")
    headers = list(_read_headers(endpoint, parameters))
    body = endpoint.body or ("none" if endpoint.method in _METHODS_WITHOUT_BODY else "json")
    if body == "none":
        parameters += _list_unplaced(endpoint, parameters)
    return RequestPlan(
        method=endpoint.method,
        base=origin,
        path=quote(parts.path, safe=PATH_SAFE + "{}"),
        query="&".join(fixed),
        parameters=tuple(parameters),
        body=None if body == "none" else _make_body(body),
        headers=tuple(headers),
    )


def _make_body(kind: Literal["json", "form"]) -> Body:
    return Body(kind=kind, media_type=_MEDIA_TYPES[kind])


def _read_headers(endpoint: Endpoint, parameters: list[Parameter]) -> Iterator[tuple[str, str]]:
    """Yield the fixed headers, and add those with arguments to the parameters."""
    for name, value in endpoint.headers.items():
        argument = _ARGUMENT.fullmatch(value)
        if not is_token(name) or (argument and name.lower() in FORBIDDEN_HEADERS):
            raise _endpoint_error(endpoint, "/headers", f"{name!r:.80} is not a header that may be set")
        if argument:
            parameters.append(Parameter(argument=argument[1], name=name, place="header"))
        elif (
            _ARGUMENT.search(value) or value != value.strip() or not all(" " <= sign <= "~" for sign in value)
        ):
            raise _endpoint_error(
                endpoint,
                "/headers",
                f"the value of {name!r:.80} must be one argument, or printable ASCII without any",
            )
        else:
            yield name, value


def _list_unplaced(endpoint: Endpoint, placed: Iterable[Parameter]) -> list[Parameter]:
    """Return query parameters for the arguments without a place."""
    taken = {parameter.argument for parameter in placed}
    named: Mapping[str, Any] = (endpoint.input_schema or {}).get("properties", {})
    return [
        Parameter(argument=name, name=name, place="query", style="form", explode=True)
        for name in named
        if name not in taken
    ]


def _make_tool(provider_id: str, endpoint: Endpoint, plan: RequestPlan) -> Tool:
    return Tool(
        name=endpoint.name,
        title=endpoint.title,
        description=endpoint.description,
        input_schema=_make_schema(plan) if endpoint.input_schema is None else endpoint.input_schema,
        output_schema=endpoint.output_schema,
        annotations=endpoint.annotations or annotations_for_method(endpoint.method),
        namespace=provider_id,
        tags=endpoint.tags,
        backend=ProviderBackend(provider_id=provider_id, tool_id=endpoint.name),
    )


def _make_schema(plan: RequestPlan) -> dict[str, Any]:
    """Return a schema made from the templates: arguments in the path are required, all others optional."""
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


def _endpoint_error(endpoint: Endpoint, path: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(path, "endpoint", reason),), endpoint.name, "endpoint")
