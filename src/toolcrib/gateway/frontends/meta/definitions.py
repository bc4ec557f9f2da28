"""The eight tools of the meta frontend: what each is called, takes and gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolcrib.model import Tool

MAX_LIMIT = 100
"""The maximum number of tools on one page."""
MAX_EXAMPLES = 5
"""The maximum number of examples in one call."""
_MAX_CODE = 100_000
_MAX_QUERY = 10_000
_MAX_STEPS = 1_000
_MAX_TAGS = 100
_ID = "Id of the tool, such as 'github:create_issue', as search_tools and list_tools give it."
_CURSOR = "The nextCursor of the page before, with everything else as it was."
_STEP = {
    "type": "object",
    "properties": {
        "tool_id": {"type": "string"},
        "args": {"type": "object"},
        "use_previous": {"type": "boolean"},
        "id": {"type": "string"},
    },
}
"""Problems of a step beyond its shape are reported by the chain itself, all at once."""
_SEARCH = "Find tools by what you want to do, in plain words. Returns ids to describe and run."
_LIST = (
    "List the tools of the catalogue in the order of their ids, page by page; narrow it by namespace or "
    "backend. To find a tool for a task use search_tools."
)
_DESCRIBE = (
    "Explain one tool before you run it: 'summary' is a sentence, 'schema' adds the input and output "
    "schemas, 'full' adds notes and examples."
)
_RUN = (
    "Run one tool by its id, with its arguments in 'args' as its inputSchema says (see describe_tool). The "
    "value is in 'structured'. "
    'In args, {"$kept": URI, "path": "/a/0"} stands for a result that was too large to send, or a part of it.'
)
_CHAIN = (
    "Run several tools one after another in one call. In the args of a step, "
    '{"$ref": "steps.NAME/field"} stands for a part of what the step with the id NAME gave, and '
    '{"$ref": "previous/field"} for the step before; use_previous passes all of it as the argument '
    "'previous'. A step may also have when, for_each, parallel (steps, in place of a tool_id), timeout and "
    "on_error ('stop', 'continue' or {\"fallback\": value}). 'final' is what the last step gave."
)
_RUNNING = frozenset({"run_tool", "run_chain", "execute_code"})
CODES: Final = (
    "tool_not_found",
    "no_backends",
    "validation_input",
    "validation_output",
    "execution_failed",
    "backend_unavailable",
    "stream_not_supported",
    "chain_step_failed",
    "cancelled",
    "timeout",
    "limit_exceeded",
    "denied",
    "internal",
)
"""All error codes."""
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_OBJECT = {"type": "object"}
_DURATION = {"type": "number", "minimum": 0}
_ERROR = {"type": "object", "required": ["code", "message", "retryable"]}
_TRUNCATED = {"type": "object", "required": ["bytes", "uri", "preview"]}
_SUMMARY = {"type": "object", "required": ["id", "name"]}
_FOUND = {"type": "object", "required": ["id", "name", "score", "scoreType", "confidence"]}
_OBJECTS = {"type": "array", "items": _OBJECT}
_STEPS = {"type": "array", "items": {"type": "object", "required": ["index", "structured"]}}
_PAGE = {"nextCursor": _TEXT, "note": _TEXT}
"""Every client pays for what stands here, and most models never see it: it says what is always there."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool as it is published, but for what depends on the catalogue."""

    title: str
    description: str
    tool: Tool
    """Its schemas; the same object each time, so that they are compiled once."""
    runs: bool = False
    """Whether it runs tools; the others only tell of them."""

    arguments: Mapping[str, Any] = field(init=False)
    """The schemas of its arguments, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", self.tool.input_schema["properties"])


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _count(description: str, most: int | None = None, **more: Any) -> dict[str, Any]:
    bounds = {"minimum": 1} if most is None else {"minimum": 1, "maximum": most}
    return {"type": "integer", "description": description, **bounds, **more}


def _limit(default: int) -> dict[str, Any]:
    return _count("How many tools to return.", MAX_LIMIT, default=default)


def _input(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


_TOOL_ID = _text(_ID, minLength=1, maxLength=1000)
_TIMEOUT = _count("Milliseconds it may take at most.")


_TABLE: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "search_tools",
        "Search tools",
        _SEARCH,
        _input(
            {
                "query": _text(
                    "What you want to do, such as 'open an issue in a repository'.",
                    pattern=r"\S",
                    maxLength=_MAX_QUERY,
                ),
                "limit": _limit(10),
                "cursor": _text(_CURSOR),
                "namespace": _text("Only tools of this namespace."),
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": _MAX_TAGS,
                    "description": "Only tools with at least one of these tags.",
                },
            },
            "query",
        ),
    ),
    (
        "list_tools",
        "List tools",
        _LIST,
        _input(
            {
                "limit": _limit(20),
                "cursor": _text(_CURSOR),
                "namespace": _text("Only tools of this namespace."),
                "backend": _text(
                    "Only tools that run there: 'mcp', 'provider', 'local', or the name of a server."
                ),
            }
        ),
    ),
    (
        "list_namespaces",
        "List namespaces",
        "List the namespaces of the catalogue, each with how many tools it has.",
        _input({}),
    ),
    (
        "describe_tool",
        "Describe a tool",
        _DESCRIBE,
        _input(
            {
                "tool_id": _TOOL_ID,
                "detail_level": _text(
                    "How much to tell.", enum=["summary", "schema", "full"], default="schema"
                ),
            },
            "tool_id",
        ),
    ),
    (
        "list_tool_examples",
        "List examples of a tool",
        "Show calls of a tool that are known to be right.",
        _input(
            {
                "tool_id": _TOOL_ID,
                "max": _count("How many examples.", MAX_EXAMPLES, default=MAX_EXAMPLES),
            },
            "tool_id",
        ),
    ),
    (
        "run_tool",
        "Run a tool",
        _RUN,
        _input(
            {
                "tool_id": _TOOL_ID,
                "args": {"type": "object", "description": "Arguments of the tool."},
                "timeout_ms": _TIMEOUT,
            },
            "tool_id",
        ),
    ),
    (
        "run_chain",
        "Run a chain of tools",
        _CHAIN,
        _input(
            {
                "steps": {"type": "array", "items": _STEP, "minItems": 1, "maxItems": _MAX_STEPS},
                "timeout_ms": _TIMEOUT,
            },
            "steps",
        ),
    ),
    (
        "execute_code",
        "Run code that calls tools",
        "Run Python in a sandbox, in which the tools are functions.",
        _input(
            {
                "code": _text(
                    "The code; what it leaves in __out is the value.", minLength=1, maxLength=_MAX_CODE
                ),
                "language": _text("The language of the code.", enum=["python"], default="python"),
                "timeout_ms": _TIMEOUT,
                "max_tool_calls": _count("How many calls of tools the code may make.", 1000),
            },
            "code",
        ),
    ),
)


def _output(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    """Return the schema of what succeeds with some properties, or fails with `error`.

    It is one object, because clients of the older protocol refuse any other schema, and check a failure
    against it too.
    """
    members = {**properties, "truncated": _TRUNCATED, "error": _ERROR}
    return {
        "type": "object",
        "properties": members,
        "anyOf": [{"required": list(required)}, {"required": ["error"]}],
    }


OUTPUTS: Final[Mapping[str, dict[str, Any]]] = {
    "search_tools": _output(("tools",), tools={"type": "array", "items": _FOUND}, **_PAGE),
    "list_tools": _output(
        ("tools",), tools={"type": "array", "items": _SUMMARY}, total={"type": "integer"}, **_PAGE
    ),
    "list_namespaces": _output(
        ("namespaces",),
        namespaces=_TEXTS,
        counts={"type": "object", "additionalProperties": {"type": "integer"}},
        note=_TEXT,
    ),
    "describe_tool": _output(
        ("summary",),
        summary=_TEXT,
        tool=_OBJECT,
        inputModes=_TEXTS,
        outputModes=_TEXTS,
        securitySummary=_TEXT,
        annotations=_OBJECT,
        schemaInfo=_OBJECT,
        observedOutput=_OBJECT,
        examples=_OBJECTS,
        notes=_TEXT,
        externalRefs=_TEXTS,
        warnings=_TEXTS,
        note=_TEXT,
    ),
    "list_tool_examples": _output(("examples",), examples=_OBJECTS, note=_TEXT),
    "run_tool": _output(
        ("structured", "durationMs", "toolId"),
        structured={},
        durationMs=_DURATION,
        toolId=_TEXT,
        annotations=_OBJECT,
        notes=_TEXTS,
        findings=_OBJECTS,
    ),
    "run_chain": _output(
        ("results", "final"),
        results=_STEPS,
        final={},
        durationMs=_DURATION,
        notes=_TEXTS,
    ),
    "execute_code": _output(
        ("value", "stdout", "stderr", "toolCalls", "durationMs"),
        value={},
        stdout=_TEXT,
        stderr=_TEXT,
        toolCalls=_OBJECTS,
        durationMs=_DURATION,
        notes=_TEXTS,
    ),
}
"""By the name of the tool."""


def _defined(name: str, title: str, description: str, schema: dict[str, Any]) -> Definition:
    tool = Tool(name=name, input_schema=schema, output_schema=OUTPUTS[name])
    return Definition(title, description, tool, runs=name in _RUNNING)


DEFINITIONS: Final[Mapping[str, Definition]] = {row[0]: _defined(*row) for row in _TABLE}
"""In the order in which they are listed."""
