"""The canonical tool record: MCP's `Tool` plus namespace, version, tags and backend."""

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
"""How many tags a tool keeps."""
MAX_TAG_LENGTH = 64
"""At how many characters a tag is cut."""
_NOT_KEPT = re.compile(r"[^a-z0-9_.-]")


def normalize_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags in lower case, hyphenated, of `[a-z0-9-_.]` only, and unique.

    At most `MAX_TAGS` are kept, each of at most `MAX_TAG_LENGTH` characters.

    >>> normalize_tags(["Issue Tracking", "issue  tracking", "C++", "É!"])
    ('issue-tracking', 'c')

    Raises:
        InvalidToolError: they are not texts.
    """
    kept: dict[str, None] = {}
    if isinstance(tags, str | bytes) or not isinstance(tags, Iterable):
        raise _refusal(f"tags must be a list of texts, not one {type(tags).__name__}")
    for tag in tags:
        if not isinstance(tag, str):
            raise _refusal(f"a tag must be text, not {type(tag).__name__}")
        hyphenated = "-".join(tag.lower().split())
        if clean := _NOT_KEPT.sub("", hyphenated)[:MAX_TAG_LENGTH]:
            kept[clean] = None
        if len(kept) == MAX_TAGS:
            break
    return tuple(kept)


def _refusal(reason: str) -> InvalidToolError:
    return InvalidToolError((Problem("/tags", "type", reason),))


def _schema(value: Any, info: ValidationInfo) -> Any:
    """Return a schema written as JSON text, as a light argument schema, or as a Python type, in JSON."""
    if isinstance(value, ArgSchema):
        return value.to_json_schema()
    if value is None or isinstance(value, dict | list | tuple | int | float):
        return value
    if isinstance(value, bytearray | memoryview | Mapping):
        remedy = "dict" if isinstance(value, Mapping) else "bytes"
        raise _schema_error(
            f"must be an object, JSON text or bytes, not {type(value).__name__}; use {remedy}(...)"
        )
    if _is_kept(info) and isinstance(value, str | bytes):  # JSON in JSON is a mistake of whoever sent it
        return value
    try:
        return read_schema(value)
    except InvalidSchemaError as error:
        raise _schema_error(str(error).partition(". Set ")[0]) from None


def _refuse_light_schema(schema: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    if _is_kept(info):
        return schema
    place = light_field(schema)
    if is_argument_map(schema) or place:
        fault = f"has {place[-1]!r} at {pointer(place)}" if place else "as JSON Schema would check nothing"
        raise _schema_error(
            f"is a light argument schema, which {fault}: "
            "pass parse_arg_schema(...), which returns an ArgSchema"
        )
    return schema


def _is_kept(info: ValidationInfo) -> bool:
    """Return whether a field came over the wire, or stays as it was in a record that is replaced."""
    return info.field_name in (info.context or ())


def _schema_error(reason: str) -> PydanticCustomError:
    return PydanticCustomError("schema", "{reason}", {"reason": reason})


def _named(value: str) -> str:
    if fault := name_fault(value):
        raise PydanticCustomError("name", "{shown} {fault}", {"shown": repr(value[:140]), "fault": fault})
    return value


_Schema = Annotated[JsonObject, BeforeValidator(_schema), AfterValidator(_refuse_light_schema)]
_Name = Annotated[str, AfterValidator(_named)]
_Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda tags: () if tags is None else tags),
    AfterValidator(normalize_tags),
]


class ToolAnnotations(OpenRecord):
    """Hints about what a tool does; they are the server's claims, not proofs."""

    title: Text | None = None
    """The name that people read."""
    read_only_hint: StrictBool | None = None
    """Whether the tool changes nothing."""
    destructive_hint: StrictBool | None = None
    """Whether it may destroy something."""
    idempotent_hint: StrictBool | None = None
    """Whether running it twice does no more than running it once."""
    open_world_hint: StrictBool | None = None
    """Whether it reaches out to systems that nobody has listed."""


class Icon(OpenRecord):
    """An image that stands for a tool."""

    src: Text
    """The address of the image, or the image as a data URI."""
    mime_type: Text | None = None
    """The media type of the image."""
    sizes: tuple[Text, ...] | None = None
    """Sizes that it suits: `48x48`, or `any`."""
    theme: Text | None = None
    """The background that it suits: `light` or `dark`."""


class Tool(OpenRecord):
    """A tool: what it is called, what it takes, what it gives back.

    The constructor checks the shape and copies what it is given; whether the schemas can be used is checked
    by a `SchemaValidator`. Nothing changes a tool: what is read of its schemas is a copy.

    >>> Tool(name="add", input_schema={"type": "object"}, namespace="math", version="1.0.0").id
    ToolId(namespace='math', name='add', version='1.0.0')

    Raises:
        InvalidToolError: with every problem found.
    """

    name: _Name
    """1 to `MAX_NAME_LENGTH` of `[A-Za-z0-9_.-]`."""
    title: Text | None = None
    """The name that people read."""
    description: Text | None = None
    """What the tool does; it is searched, and models choose by it."""
    input_schema: _Schema
    """The JSON Schema of the arguments, verbatim; may be given as JSON text, `ArgSchema` or Python type."""
    output_schema: _Schema | None = None
    """The JSON Schema of the result, verbatim; given like that of the arguments."""
    annotations: ToolAnnotations | None = None
    """Hints about what it does."""
    icons: tuple[Icon, ...] | None = None
    """Images that stand for it."""
    meta: JsonObject | None = Field(default=None, alias="_meta")
    """Metadata of the protocol, kept as it came."""
    namespace: _Name | None = None
    """Whose tool it is: 1 to `MAX_NAME_LENGTH` of `[A-Za-z0-9_.-]`."""
    version: str | None = None
    """A SemVer version, kept as written; at most `MAX_VERSION_LENGTH` characters."""
    tags: _Tags = ()
    """Words to filter by, normalised: at most `MAX_TAGS`, each of at most `MAX_TAG_LENGTH` characters."""
    backend: AnyBackend | None = None
    """The default binding; never sent to a provider or a client."""

    @field_validator("version")
    @classmethod
    def _is_semver(cls, version: str | None) -> str | None:
        if version is not None:
            Version.parse(version)
        return version

    @cached_property
    def id(self) -> ToolId:
        """The identity of this tool."""
        return ToolId(self.namespace, self.name, self.version)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        return InvalidToolError(problems, data.get("name"))

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return one_line(f"<Tool {self.id}: {self.description or self.title or ''}".rstrip(": ")) + ">"

    __str__ = __repr__
