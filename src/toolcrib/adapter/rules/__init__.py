"""What each provider takes: the rules as data, and the judge of whether a schema keeps them."""

from toolcrib.adapter.rules.check import violations
from toolcrib.adapter.rules.tables import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI_JSON_SCHEMA,
    GEMINI_OPENAPI,
    MCP,
    OPENAI,
    OPENAI_STRICT,
    RULES,
    SchemaRules,
    StrictLimits,
)

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_STRICT",
    "GEMINI_JSON_SCHEMA",
    "GEMINI_OPENAPI",
    "MCP",
    "OPENAI",
    "OPENAI_STRICT",
    "RULES",
    "SchemaRules",
    "StrictLimits",
    "violations",
]
