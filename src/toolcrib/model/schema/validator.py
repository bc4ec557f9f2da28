"""Whether a value fits a schema, and whether arguments and results fit a tool."""

import marshal
from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel

from toolcrib.errors import InvalidSchemaError
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.plain import copy_json
from toolcrib.model.record import Record
from toolcrib.model.schema.compiled import CompiledSchema, plain_schema
from toolcrib.model.schema.engine import Documents
from toolcrib.model.schema.source import read_schema
from toolcrib.model.tool import Tool

Definition = Tool | CanonicalTool | BaseModel
"""A tool, in the canonical form too, or as another library has it, such as the MCP SDK's `Tool`."""
_MAX_COMPILED = 8_192
_MAX_BYTES = 512 << 20
"""About how much the compiled schemas of one cache may keep."""


@runtime_checkable
class SchemaValidator(Protocol):
    """Says whether values fit schemas.

    Each method returns None or raises: `ValidationError` for the value, `InvalidSchemaError` or a leaf of it
    for the schema. Implementations are safe to share between threads, do no I/O, and never change what they
    are given.
    """

    def validate(self, schema: Any, instance: Any) -> None:
        """Check a value against a schema given as dict, boolean, JSON text, or Python type."""
        ...

    def validate_input(self, tool: Tool | None, args: Any) -> None:
        """Check arguments; a missing tool or input schema is an `InvalidSchemaError`."""
        ...

    def validate_output(self, tool: Tool | None, result: Any) -> None:
        """Check a result; without an output schema every result passes."""
        ...


class _Cache:
    """Compiled schemas by key; the oldest go first when there are too many, or too large ones."""

    def __init__(self) -> None:
        self._kept: dict[Any, CompiledSchema] = {}
        self._bytes = 0
        self._lock = Lock()
        self.get = self._kept.get

    def keep(self, key: Any, compiled: CompiledSchema) -> CompiledSchema:
        """Add a schema, and return it."""
        with self._lock:
            if key in self._kept:
                self._bytes -= self._kept.pop(key).weight
            self._kept[key] = compiled
            self._bytes += compiled.weight
            while self._bytes > _MAX_BYTES or len(self._kept) > _MAX_COMPILED:
                self._bytes -= self._kept.pop(next(iter(self._kept))).weight
        return compiled


class DefaultValidator:
    """JSON Schema 2020-12 and draft-07, by `$schema`, on an engine that no schema or value can hang or crash.

    Nothing is ever fetched: a reference leads into the schema, into `documents`, or to an `ExternalRefError`.
    `format`, `contentEncoding` and `contentMediaType` are annotations. Compiled schemas are cached; a tool's
    schemas are compiled once per tool.

    >>> DefaultValidator().validate({"type": "object", "required": ["q"]}, {"query": "drill"})
    Traceback (most recent call last):
    toolcrib.errors.ValidationError: required property 'q' is missing
    """

    def __init__(self, documents: Mapping[str, Any] | None = None) -> None:
        """Take the schemas that references may lead to, by URI, in any form that `validate` takes."""
        if documents is not None and not isinstance(documents, Mapping):
            raise InvalidSchemaError("documents must be a mapping from URIs to schemas")
        given = (documents or {}).items()
        self._documents = Documents({uri: _document(uri, schema) for uri, schema in given})
        self._by_content = _Cache()
        self._inputs = _Cache()
        self._input_of = self._inputs.get
        self._outputs = _Cache()

    def validate(self, schema: Any, instance: Any) -> None:
        """Check a value against a schema given as dict, boolean, JSON text, or Python type."""
        self.compiled(schema).validate(instance)

    def compiled(self, schema: Any) -> CompiledSchema:
        """Return a schema ready for many values, in any form that `validate` takes."""
        plain = plain_schema(read_schema(schema))
        content = marshal.dumps(plain, 2)  # faster than any digest; version 2 is the same for equal values
        compiled = self._by_content.get(content)
        return compiled or self._by_content.keep(content, CompiledSchema(plain, self._documents))

    def validate_input(self, tool: Definition | None, args: Any) -> None:
        """Check arguments against a tool's input schema.

        The tool may also be in the canonical form, or the `Tool` of the MCP SDK, which is read each time,
        since it can change.
        """
        compiled = self._input_of(id(tool))
        if compiled is None or compiled.owner is not tool:
            if isinstance(tool, Tool | CanonicalTool):
                compiled = self._compile(self._inputs, tool, tool.shared("input_schema"))
            elif isinstance(tool, BaseModel) and not isinstance(tool, Record):
                compiled = self.compiled(Tool.from_json(tool).shared("input_schema"))
            else:
                raise InvalidSchemaError(f"there is no input schema to validate against{_meant(tool)}")
        compiled.validate(args)

    def validate_output(self, tool: Definition | None, result: Any) -> None:
        """Check a result against a tool's output schema, where it has one; the tool is as for arguments."""
        compiled = self._outputs.get(id(tool))
        if compiled is None or compiled.owner is not tool:
            if isinstance(tool, Tool | CanonicalTool):
                schema = tool.shared("output_schema")
                compiled = None if schema is None else self._compile(self._outputs, tool, schema)
            elif isinstance(tool, BaseModel) and not isinstance(tool, Record):
                schema = Tool.from_json(tool).shared("output_schema")
                compiled = None if schema is None else self.compiled(schema)
            else:
                raise InvalidSchemaError(f"there is no tool to validate the result of{_meant(tool)}")
        if compiled is not None:
            compiled.validate(result)

    def _compile(self, cache: _Cache, tool: Tool | CanonicalTool, schema: dict[str, Any]) -> CompiledSchema:
        """Compile a schema of a tool, which is frozen; owning the tool keeps its id its own."""
        return cache.keep(id(tool), CompiledSchema(schema, self._documents, owner=tool))


def _meant(something: object) -> str:
    return "; pass its .tool" if isinstance(getattr(something, "tool", None), Tool) else ""


def _document(uri: Any, schema: Any) -> Any:
    """Return a copy of a schema to be referred to, which is compiled only where it is."""
    if not isinstance(uri, str):
        raise InvalidSchemaError(f"a document is known by its URI, not by a {type(uri).__name__}")
    try:
        return copy_json(plain_schema(read_schema(schema)))
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"invalid schema in the document {uri[:200]!r}", error.problems) from error
