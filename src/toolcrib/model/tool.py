"""The canonical tool record: MCP's `Tool` plus namespace, version, tags and backend."""

from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from toolcrib.errors import ValidationError
from toolcrib.model.argschema import ArgSchema
from toolcrib.model.backend import AnyBackend
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.record import Record
from toolcrib.model.schema.source import schema_of
from toolcrib.model.tags import normalize_tags
from toolcrib.model.toolid import ToolId, name_fault
from toolcrib.version import Version

__all__ = ["Icon", "Tool", "ToolAnnotations"]

_MAX_DEPTH = 10_000
"""How deep the JSON in a record may be; what a schema may be is the validator's to say."""


def _plain(value: Any) -> Any:
    """Return the value if it is JSON."""
    try:
        measure(value, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        raise PydanticCustomError("json", "{reason}", {"reason": str(error)}) from None
    return value


def _schema(value: Any) -> Any:
    """Return a schema written as a light argument schema, or as a Python type, in JSON."""
    if isinstance(value, ArgSchema):
        return value.to_json_schema()
    return schema_of(value) if isinstance(value, type) else value


def _named(value: str) -> str:
    if fault := name_fault(value):
        raise PydanticCustomError("name", "{shown} {fault}", {"shown": repr(value[:140]), "fault": fault})
    return value


_Json = Annotated[dict[str, Any], AfterValidator(_plain)]
_Schema = Annotated[_Json, BeforeValidator(_schema)]
_Name = Annotated[str, AfterValidator(_named)]


class _Open(Record):
    """A record of the protocol: fields that we do not know are kept as they came."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


class ToolAnnotations(_Open):
    """Hints about what a tool does; they are the server's claims, not proofs."""

    title: str | None = None
    read_only_hint: StrictBool | None = None
    destructive_hint: StrictBool | None = None
    idempotent_hint: StrictBool | None = None
    open_world_hint: StrictBool | None = None


class Icon(_Open):
    """An image that stands for a tool."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] | None = None
    theme: str | None = None


class Tool(_Open):
    """A tool: what it is called, what it takes, what it gives back.

    The constructor checks the shape and copies what it is given; whether the schemas can be used is checked
    by a `SchemaValidator`. Treat the schemas as read-only.

    >>> Tool(name="add", input_schema={"type": "object"}, namespace="math", version="1.0.0").id
    ToolId(namespace='math', name='add', version='1.0.0')

    Raises:
        InvalidToolError: with every problem found.
    """

    name: _Name
    """1 to 128 of `[A-Za-z0-9_.-]`."""
    title: str | None = None
    description: str | None = None
    input_schema: _Schema
    """The JSON Schema of the arguments, verbatim; may be given as an `ArgSchema` or a Python type."""
    output_schema: _Schema | None = None
    annotations: ToolAnnotations | None = None
    icons: tuple[Icon, ...] | None = None
    meta: _Json | None = Field(default=None, alias="_meta")
    namespace: _Name | None = None
    version: str | None = None
    """A SemVer version, kept as written."""
    tags: tuple[str, ...] = ()
    backend: AnyBackend | None = None
    """The default binding; never sent to a provider or a client."""

    @model_validator(mode="before")
    @classmethod
    def _own(cls, data: Any) -> Any:
        """Copy what the caller may still change, and refuse unknown fields that are not JSON."""
        if not isinstance(data, dict):
            return data
        try:
            copied = copy_json(data)
        except ValueError as error:
            raise PydanticCustomError("size", "{reason}", {"reason": str(error)}) from None
        known = {name for pair in cls.model_fields.items() for name in (pair[0], pair[1].alias)}
        _plain({name: value for name, value in copied.items() if name not in known})
        return copied

    @field_validator("version")
    @classmethod
    def _is_semver(cls, version: str | None) -> str | None:
        if version is not None:
            Version.parse(version)
        return version

    @field_validator("tags", mode="after")
    @classmethod
    def _normal(cls, tags: tuple[str, ...]) -> tuple[str, ...]:
        return normalize_tags(tags)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: camelCase, absent fields left out, nothing shared with the record."""
        known = super().to_json()
        if not self.tags:
            del known["tags"]
        return known

    @property
    def id(self) -> ToolId:
        """The identity of this tool."""
        return ToolId(self.namespace, self.name, self.version)

    def __hash__(self) -> int:
        return hash(self.id)
