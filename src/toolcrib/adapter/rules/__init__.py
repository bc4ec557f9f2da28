"""Schema rules of each provider as data, and a checker of schemas against them."""

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
