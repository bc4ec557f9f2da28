"""The record of a tool: MCP's `Tool` with namespace, version, tags and backend."""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from toolcrib.errors import InvalidSchemaError, InvalidToolError, Problem, ToolcribError
from toolcrib.model.argschema import ArgSchema
from toolcrib.model.argschema.parse import is_argument_map, light_field
from toolcrib.model.backend import AnyBackend
from toolcrib.model.display import one_line
from toolcrib.model.plain import pointer
from toolcrib.model.record import JsonObject, OpenRecord, Text
from toolcrib.model.schema.source import read_schema
from toolcrib.model.toolid import ToolId, name_fault
from toolcrib.version import Version

MAX_TAGS = 20
"""The maximum number of tags; further ones are dropped."""
MAX_TAG_LENGTH = 64
"""Characters after which a tag is cut."""
_FOREIGN_IN_TAG = re.compile(r"[^a-z0-9_.-]")


def normalize_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Normalize tags: lower case, hyphens for spaces, only `[a-z0-9-_.]`, without duplicates.

    At most `MAX_TAGS` are kept, each with at most `MAX_TAG_LENGTH` characters.

    >>> normalize_tags(["Issue Tracking", "issue  tracking", "C++", "É!"])
    ('issue-tracking', 'c')

    Raises:
        InvalidToolError: they are not a list of strings.
    """
    kept: dict[str, None] = {}
    if isinstance(tags, str | bytes) or not isinstance(tags, Iterable):
        raise _refusal(f"tags must be a list of strings, not one {type(tags).__name__}")
    for tag in tags:
        if not isinstance(tag, str):
            raise _refusal(f"a tag must be text, not {type(tag).__name__}")
        hyphenated = "-".join(tag.lower().split())
        if clean := _FOREIGN_IN_TAG.sub("", hyphenated)[:MAX_TAG_LENGTH]:
            kept[clean] = None
        if len(kept) == MAX_TAGS:
            break
    return tuple(kept)


def _refusal(reason: str) -> InvalidToolError:
    return InvalidToolError((Problem("/tags", "type", reason),))


def _read_schema_field(value: Any, info: ValidationInfo) -> Any:
    """Convert a schema given as JSON text, as an `ArgSchema` or as a Python type to a dict."""
    if isinstance(value, ArgSchema):
        return value.to_json_schema()
    if value is None or isinstance(value, dict | list | tuple | int | float):
        return value
    if isinstance(value, bytearray | memoryview | Mapping):
        remedy = "dict" if isinstance(value, Mapping) else "bytes"
        raise _schema_error(
            f"must be an object, JSON text or bytes, not {type(value).__name__}; use {remedy}(...)"
        )
    if _is_from_elsewhere(info) and isinstance(
        value, str | bytes
    ):  # JSON in JSON is a mistake of whoever sent it
        return value
    try:
        return read_schema(value)
    except InvalidSchemaError as error:
        raise _schema_error(str(error).partition(". Set ")[0]) from None


def _refuse_light_schema(schema: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    if _is_from_elsewhere(info):
        return schema
    place = light_field(schema)
    if is_argument_map(schema) or place:
        fault = f"has {place[-1]!r} at {pointer(place)}" if place else "as JSON Schema would check nothing"
        raise _schema_error(
            f"is a light argument schema, which {fault}: "
            "pass parse_arg_schema(...), which returns an ArgSchema"
        )
    return schema


def _is_from_elsewhere(info: ValidationInfo) -> bool:
    """Return whether a field comes from JSON, or from the record that `replace` copies (see `Record`)."""
    return info.field_name in (info.context or ())


def _schema_error(reason: str) -> PydanticCustomError:
    return PydanticCustomError("schema", "{reason}", {"reason": reason})


def _check_name(value: str) -> str:
    if fault := name_fault(value):
        raise PydanticCustomError("name", "{shown} {fault}", {"shown": repr(value[:140]), "fault": fault})
    return value


_Schema = Annotated[JsonObject, BeforeValidator(_read_schema_field), AfterValidator(_refuse_light_schema)]
_Name = Annotated[str, AfterValidator(_check_name)]
_Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda tags: () if tags is None else tags),
    AfterValidator(normalize_tags),
]


class ToolAnnotations(OpenRecord):
    """Hints about the effects of a tool; they are claims by the server, not facts."""

    title: Text | None = None
    """The title of the tool, for people."""
    read_only_hint: StrictBool | None = None
    """Whether the tool only reads."""
    destructive_hint: StrictBool | None = None
    """Whether the tool may delete or overwrite data."""
    idempotent_hint: StrictBool | None = None
    """Whether a second call with the same arguments has no further effect."""
    open_world_hint: StrictBool | None = None
    """Whether the tool accesses external systems, such as the web."""


class Icon(OpenRecord):
    """An icon of a tool."""

    src: Text
    """The address of the image, or the image as a data URI."""
    mime_type: Text | None = None
    """The media type of the image."""
    sizes: tuple[Text, ...] | None = None
    """The sizes that it is made for: `48x48`, or `any`."""
    theme: Text | None = None
    """The theme that it is made for: `light` or `dark`."""


class Tool(OpenRecord):
    """A tool definition: name, description, schemas and metadata.

    The constructor validates the fields and copies them; a `SchemaValidator` checks whether the schemas can
    be used. A tool is immutable: its schemas are read as copies.

    >>> Tool(name="add", input_schema={"type": "object"}, namespace="math", version="1.0.0").id
    ToolId(namespace='math', name='add', version='1.0.0')

    Raises:
        InvalidToolError: a field is invalid; the error lists every problem.
    """

    name: _Name
    """1 to `MAX_NAME_LENGTH` characters of `[A-Za-z0-9_.-]`."""
    title: Text | None = None
    """The title of the tool, for people."""
    description: Text | None = None
    """The description of the tool; it is searched, and models choose tools by it."""
    input_schema: _Schema
    """The JSON Schema of the arguments, verbatim; may also be JSON text, an `ArgSchema` or a Python type."""
    output_schema: _Schema | None = None
    """The JSON Schema of the result, verbatim; may be given in the same forms."""
    annotations: ToolAnnotations | None = None
    """Hints about the effects of the tool."""
    icons: tuple[Icon, ...] | None = None
    """Its icons."""
    meta: JsonObject | None = Field(default=None, alias="_meta")
    """Metadata of the protocol, kept unchanged."""
    namespace: _Name | None = None
    """The namespace, such as the name of its server: 1 to `MAX_NAME_LENGTH` characters of
    `[A-Za-z0-9_.-]`."""
    version: str | None = None
    """A SemVer version, kept as written; at most `MAX_VERSION_LENGTH` characters."""
    tags: _Tags = ()
    """Its tags, normalized: at most `MAX_TAGS`, each of at most `MAX_TAG_LENGTH` characters."""
    backend: AnyBackend | None = None
    """The default backend; never sent to a provider or a client."""

    @field_validator("version")
    @classmethod
    def _is_semver(cls, version: str | None) -> str | None:
        if version is not None:
            Version.parse(version)
        return version

    @cached_property
    def id(self) -> ToolId:
        """The id of this tool."""
        return ToolId(self.namespace, self.name, self.version)

    def shared_json(self) -> dict[str, Any]:
        """Return the JSON form with the dicts and lists of the tool itself; these must not be modified."""
        return self._collect_json(lambda value: value)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        return InvalidToolError(problems, data.get("name"))

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return one_line(f"<Tool {self.id}: {self.description or self.title or ''}".rstrip(": ")) + ">"

    __str__ = __repr__
