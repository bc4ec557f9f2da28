"""What a tool is, and whether arguments fit it."""

from toolcrib.model.argschema import ArgSchema, ArgSchemaProperty, parse_arg_schema, validate_args
from toolcrib.model.backend import LocalBackend, McpBackend, ProviderBackend, ToolBackend
from toolcrib.model.schema import DefaultValidator, SchemaValidator, schema_of
from toolcrib.model.tags import normalize_tags
from toolcrib.model.tool import Icon, Tool, ToolAnnotations
from toolcrib.model.toolid import ToolId
