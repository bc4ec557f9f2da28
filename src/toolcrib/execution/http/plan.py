"""Request plans: where each argument of a tool goes in its HTTP request, decided before the first call."""

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
    """Its name in the tool."""
    name: str
    """Its name in the request."""
    place: Place
    style: Style = "simple"
    explode: bool = False
    as_json: bool = False
    """Whether the value is written as JSON; the style is then ignored."""
    keep_reserved: bool = False
    """Whether reserved characters such as `/` and `:` stay unescaped in a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The encoding of one property of a form or a multipart body."""

    is_file: bool = False
    """Whether the argument is base64 of the content of a file."""
    media_type: str | None = None
    style: Style = "form"
    explode: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The format of the body, and the arguments that form it."""

    kind: BodyKind
    media_type: str
    argument: str | None = None
    """The argument that is the whole body; None if all arguments without another place are its members."""
    required: bool = False
    parts: Mapping[str, Part] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """One request without the arguments and the credentials."""

    method: str
    base: str
    """Scheme, host and common path, without a slash at its end."""
    path: str
    """The percent-encoded path after `base`, with `{name}` for path parameters."""
    query: str = ""
    """The encoded query of every request."""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Fixed headers of every request."""
    security: tuple[tuple[str, ...], ...] = ()
    """Alternatives; each lists the security schemes that it needs together. Empty if none is needed."""


def annotations_for_method(method: str) -> ToolAnnotations:
    """Return the annotations for a method: GET is read-only, DELETE destructive, PUT idempotent.

    >>> annotations_for_method("DELETE").to_json()
    {'readOnlyHint': False, 'destructiveHint': True, 'idempotentHint': True, 'openWorldHint': True}
    """
    return ToolAnnotations(
        read_only_hint=method in _SAFE,
        destructive_hint=True if method == "DELETE" else None,
        idempotent_hint=method in _IDEMPOTENT,
        open_world_hint=True,
    )


def is_idempotent(method: str) -> bool:
    """Return whether requests with a method are idempotent, as HTTP defines it."""
    return method in _IDEMPOTENT
