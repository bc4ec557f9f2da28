"""What the tools of the meta face give back, as schemas that every result satisfies, failures included."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["CODES", "OUTPUTS"]

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
"""What can be the matter."""

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


def _output(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    """Return the schema of what succeeds with some properties, or fails with `error`.

    It is one object, because clients of the older protocol refuse any other schema, and check a failure
    against it too.
    """
    said = {**properties, "truncated": _TRUNCATED, "error": _ERROR}
    return {
        "type": "object",
        "properties": said,
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
