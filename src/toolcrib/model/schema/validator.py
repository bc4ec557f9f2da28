"""Whether a value fits a schema, and whether arguments and results fit a tool."""

import marshal
from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from toolcrib.errors import InvalidSchemaError
from toolcrib.model.plain import copy_json
from toolcrib.model.schema.compiled import CompiledSchema, plain_schema
from toolcrib.model.schema.engine import Documents
from toolcrib.model.schema.source import read_schema
from toolcrib.model.tool import Tool

__all__ = ["DefaultValidator", "SchemaValidator"]

_MAX_COMPILED = 4_096


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
        self._documents = Documents({uri: copy_json(read_schema(s)) for uri, s in (documents or {}).items()})
        self._by_content: dict[bytes, CompiledSchema] = {}
        self._inputs: dict[int, CompiledSchema] = {}
        self._outputs: dict[int, CompiledSchema] = {}
        self._lock = Lock()

    def validate(self, schema: Any, instance: Any) -> None:
        """Check a value against a schema given as dict, boolean, JSON text, or Python type."""
        plain = plain_schema(read_schema(schema))
        content = marshal.dumps(plain, 2)  # faster than any digest; version 2 is the same for equal values
        compiled = self._by_content.get(content)
        if compiled is None:
            compiled = CompiledSchema(plain, self._documents)
            self._keep(self._by_content, content, compiled)
        compiled.validate(instance)

    def validate_input(self, tool: Tool | None, args: Any) -> None:
        """Check arguments against a tool's input schema."""
        compiled = self._inputs.get(id(tool))
        if compiled is None or compiled.owner is not tool:
            if tool is None or tool.input_schema is None:
                raise InvalidSchemaError("there is no input schema to validate against")
            compiled = self._compile(self._inputs, tool, tool.input_schema)
        compiled.validate(args)

    def validate_output(self, tool: Tool | None, result: Any) -> None:
        """Check a result against a tool's output schema, where it has one."""
        if tool is None:
            raise InvalidSchemaError("there is no tool to validate the result of")
        if tool.output_schema is None:
            return
        compiled = self._outputs.get(id(tool))
        if compiled is None or compiled.owner is not tool:
            compiled = self._compile(self._outputs, tool, tool.output_schema)
        compiled.validate(result)

    def _compile(
        self, cache: dict[int, CompiledSchema], tool: Tool, schema: dict[str, Any]
    ) -> CompiledSchema:
        """Compile a schema of a tool, which is frozen; owning the tool keeps its id its own."""
        compiled = CompiledSchema(schema, self._documents, owner=tool)
        self._keep(cache, id(tool), compiled)
        return compiled

    def _keep(self, cache: dict[Any, Any], key: Any, value: Any) -> None:
        with self._lock:
            cache[key] = value
            if len(cache) > _MAX_COMPILED:
                del cache[next(iter(cache))]
