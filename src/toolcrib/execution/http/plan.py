"""How the arguments of a tool become one HTTP request, worked out before the first call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolcrib.model.tool import ToolAnnotations

Place = Literal["path", "query", "header", "cookie"]
Style = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]
BodyKind = Literal["json", "form", "multipart", "text", "bytes"]
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_IDEMPOTENT = _SAFE | {"PUT", "DELETE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument that goes into the path, the query, a header or a cookie."""

    argument: str
    """What the tool calls it."""
    name: str
    """What the wire calls it."""
    place: Place
    style: Style = "simple"
    explode: bool = False
    as_json: bool = False
    """Whether the value is written as JSON, whatever the style."""
    keep_reserved: bool = False
    """Whether signs such as `/` and `:` may stand in a query unescaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How one property of a form or of a multipart body is written."""

    is_file: bool = False
    """Whether the argument is base64 of the bytes to send."""
    media_type: str | None = None
    style: Style = "form"
    explode: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Which arguments are the body, and how it is written."""

    kind: BodyKind
    media_type: str
    argument: str | None = None
    """The argument that is the whole body; None where its members are the arguments that go nowhere else."""
    required: bool = False
    parts: Mapping[str, Part] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """One request, but for the arguments and the credentials."""

    method: str
    base: str
    """Scheme, host and the path that all begin with, without a slash at its end."""
    path: str
    """What follows, percent-encoded, with `{name}` where path parameters go."""
    query: str = ""
    """What stands in the query of every call, encoded."""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every call."""
    security: tuple[tuple[str, ...], ...] = ()
    """Alternatives, each the names of the schemes that it needs together; empty where nothing is needed."""


def annotations_of(method: str) -> ToolAnnotations:
    """Return the hints that a method gives: GET changes nothing, DELETE destroys, PUT may be repeated.

    >>> annotations_of("DELETE").to_json()
    {'readOnlyHint': False, 'destructiveHint': True, 'idempotentHint': True, 'openWorldHint': True}
    """
    return ToolAnnotations(
        read_only_hint=method in _SAFE,
        destructive_hint=True if method == "DELETE" else None,
        idempotent_hint=method in _IDEMPOTENT,
        open_world_hint=True,
    )


def is_idempotent(method: str) -> bool:
    """Return whether a request with this method does the same sent once or twice."""
    return method in _IDEMPOTENT
