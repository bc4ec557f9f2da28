"""Tool records, schema validation, and the records and protocols that several packages share.

No module here does I/O, reads a clock or starts a thread.
"""

from toolcrib.model.argschema import (
    ArgSchema,
    ArgSchemaProperty,
    apply_defaults,
    parse_arg_schema,
    validate_args,
)
from toolcrib.model.backend import LocalBackend, McpBackend, ProviderBackend, ToolBackend
from toolcrib.model.canonical import CanonicalProvider, CanonicalTool
from toolcrib.model.context import Context, LogLevel
from toolcrib.model.decorator import LocalTool, ToolOptions, tool
from toolcrib.model.docs import ObservedOutput, SchemaInfo, ToolDoc, ToolExample
from toolcrib.model.findings import ResultActions, ResultFinding
from toolcrib.model.protocols import Resolver, ToolGateway
from toolcrib.model.results import RunResult, ToolCallRecord
from toolcrib.model.schema.source import schema_of
from toolcrib.model.schema.validator import DefaultValidator, SchemaValidator
from toolcrib.model.tool import Icon, Tool, ToolAnnotations, normalize_tags
from toolcrib.model.toolid import ToolId

__all__ = [
    "ArgSchema",
    "ArgSchemaProperty",
    "CanonicalProvider",
    "CanonicalTool",
    "Context",
    "DefaultValidator",
    "Icon",
    "LocalBackend",
    "LocalTool",
    "LogLevel",
    "McpBackend",
    "ObservedOutput",
    "ProviderBackend",
    "Resolver",
    "ResultActions",
    "ResultFinding",
    "RunResult",
    "SchemaInfo",
    "SchemaValidator",
    "Tool",
    "ToolAnnotations",
    "ToolBackend",
    "ToolCallRecord",
    "ToolDoc",
    "ToolExample",
    "ToolGateway",
    "ToolId",
    "ToolOptions",
    "apply_defaults",
    "normalize_tags",
    "parse_arg_schema",
    "schema_of",
    "tool",
    "validate_args",
]
