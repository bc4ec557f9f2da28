"""Validation of values against schemas, and of arguments and results against tools."""

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
from toolcrib.model.schema.simple import is_simple
from toolcrib.model.schema.source import read_schema
from toolcrib.model.tool import Tool

Definition = Tool | CanonicalTool | BaseModel
"""A tool, a canonical tool, or the pydantic model of another library, such as the MCP SDK's `Tool`."""
_MAX_COMPILED = 8_192
_MAX_BYTES = 512 << 20
"""The approximate maximum memory of the compiled schemas in one cache."""


@runtime_checkable
class SchemaValidator(Protocol):
    """A validator of values against schemas.

    Each method returns None, or raises `ValidationError` for the value, or `InvalidSchemaError` or a subclass
    for the schema. Implementations must be thread-safe, do no I/O, and not modify their arguments.
    """

    def validate(self, schema: Any, instance: Any) -> None:
        """Validate a value against a schema given as a dict, a boolean, JSON text or a Python type."""
        ...

    def validate_input(self, tool: Tool | None, args: Any) -> None:
        """Validate arguments; a missing tool or input schema raises `InvalidSchemaError`."""
        ...

    def validate_output(self, tool: Tool | None, result: Any) -> None:
        """Validate a result; without an output schema every result passes."""
        ...


class _Cache:
    """Compiled schemas by key; the oldest ones are dropped when they are too many or take too much memory."""

    def __init__(self) -> None:
        self._by_key: dict[Any, CompiledSchema] = {}
        self._bytes = 0
        self._lock = Lock()
        self.get = self._by_key.get

    def add(self, key: Any, compiled: CompiledSchema) -> CompiledSchema:
        """Add a schema, and return it."""
        with self._lock:
            if key in self._by_key:
                self._bytes -= self._by_key.pop(key).estimated_bytes
            self._by_key[key] = compiled
            self._bytes += compiled.estimated_bytes
            while self._bytes > _MAX_BYTES or len(self._by_key) > _MAX_COMPILED:
                self._bytes -= self._by_key.pop(next(iter(self._by_key))).estimated_bytes
        return compiled


class DefaultValidator:
    """Validates against JSON Schema 2020-12 or draft-07 (`$schema`); no schema or value can hang or crash it.

    Nothing is ever fetched: a reference must point into the schema or into `documents`; any other raises
    `ExternalRefError`.
    `format`, `contentEncoding` and `contentMediaType` are annotations. Compiled schemas are cached by content
    and by tool.

    >>> DefaultValidator().validate({"type": "object", "required": ["q"]}, {"query": "drill"})
    Traceback (most recent call last):
    toolcrib.errors.ValidationError: required property 'q' is missing
    """

    def __init__(self, documents: Mapping[str, Any] | None = None) -> None:
        """Create a validator with preloaded schemas by URI, in any form that `validate` takes."""
        if documents is not None and not isinstance(documents, Mapping):
            raise InvalidSchemaError("documents must be a mapping from URIs to schemas")
        given = (documents or {}).items()
        self._documents = Documents({uri: _copy_document(uri, schema) for uri, schema in given})
        self._by_content = _Cache()
        self._inputs = _Cache()
        self._input_of = self._inputs.get
        self._outputs = _Cache()

    def validate(self, schema: Any, instance: Any) -> None:
        """Validate a value against a schema given as a dict, a boolean, JSON text or a Python type."""
        self.compile(schema).validate(instance)

    def check(self, schema: Any) -> None:
        """Check that a schema can be used; most are not compiled for that.

        Raises:
            InvalidSchemaError: it cannot; the error, which may be a subclass, lists the problems.
        """
        if not is_simple(plain_schema(read_schema(schema))):
            self.compile(schema)

    def compile(self, schema: Any) -> CompiledSchema:
        """Compile a schema, in any form that `validate` takes, or return it from the cache."""
        plain = plain_schema(read_schema(schema))
        content = marshal.dumps(plain, 2)  # faster than any digest; version 2 is the same for equal values
        compiled = self._by_content.get(content)
        return compiled or self._by_content.add(content, CompiledSchema(plain, self._documents))

    def validate_input(self, tool: Definition | None, args: Any) -> None:
        """Validate arguments against the input schema of a tool.

        The tool may also be a `CanonicalTool` or the `Tool` of the MCP SDK. The latter is read each time,
        since it is mutable.
        """
        # By identity: records are immutable, and hashing the schema would take longer than validating most
        # arguments. The cache owns the tool, so that its id() cannot be used by another one.
        compiled = self._input_of(id(tool))
        if compiled is None or compiled.owner is not tool:
            if isinstance(tool, Tool | CanonicalTool):
                compiled = self._compile(self._inputs, tool, tool.shared("input_schema"))
            elif isinstance(tool, BaseModel) and not isinstance(tool, Record):
                compiled = self.compile(Tool.from_json(tool).shared("input_schema"))
            else:
                raise InvalidSchemaError(
                    f"there is no input schema to validate against{_suggest_tool_attribute(tool)}"
                )
        compiled.validate(args)

    def validate_output(self, tool: Definition | None, result: Any) -> None:
        """Validate a result against the output schema of a tool, if it has one."""
        compiled = self._outputs.get(id(tool))
        if compiled is None or compiled.owner is not tool:
            if isinstance(tool, Tool | CanonicalTool):
                schema = tool.shared("output_schema")
                compiled = None if schema is None else self._compile(self._outputs, tool, schema)
            elif isinstance(tool, BaseModel) and not isinstance(tool, Record):
                schema = Tool.from_json(tool).shared("output_schema")
                compiled = None if schema is None else self.compile(schema)
            else:
                raise InvalidSchemaError(
                    f"there is no tool to validate the result of{_suggest_tool_attribute(tool)}"
                )
        if compiled is not None:
            compiled.validate(result)

    def _compile(self, cache: _Cache, tool: Tool | CanonicalTool, schema: dict[str, Any]) -> CompiledSchema:
        """Compile a schema of a tool, and cache it by the identity of the tool."""
        return cache.add(id(tool), CompiledSchema(schema, self._documents, owner=tool))


def _suggest_tool_attribute(something: object) -> str:
    return "; pass its .tool" if isinstance(getattr(something, "tool", None), Tool) else ""


def _copy_document(uri: Any, schema: Any) -> Any:
    """Return a checked copy of a preloaded schema; it is compiled only when a schema refers to it."""
    if not isinstance(uri, str):
        raise InvalidSchemaError(f"a document is identified by its URI, not by a {type(uri).__name__}")
    try:
        return copy_json(plain_schema(read_schema(schema)))
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"invalid schema in the document {uri[:200]!r}", error.problems) from error
