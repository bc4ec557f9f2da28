"""Conversion of tool definitions, calls and results between MCP, OpenAI, Anthropic, Gemini and A2A.

A definition is read into the canonical form, and its schema is rewritten for the provider. Everything that is
lost is reported. The model's calls are translated back to the original schema. Nothing here does I/O.
"""

from toolcrib.adapter.bundle import Bundle
from toolcrib.adapter.conversion import Conversion, ToolCall
from toolcrib.adapter.loss import FeatureLossWarning, Losses
from toolcrib.adapter.names import NameRule
from toolcrib.adapter.portability import Report, portability
from toolcrib.adapter.protocol import (
    Adapter,
    ConversionOptions,
    SchemaFeature,
    SessionTarget,
    Target,
    Translator,
)
from toolcrib.adapter.providers.a2a import A2AAdapter
from toolcrib.adapter.providers.agent_card import CardConversion, card_from_provider, provider_from_card
from toolcrib.adapter.providers.anthropic import AnthropicAdapter
from toolcrib.adapter.providers.gemini import GeminiAdapter
from toolcrib.adapter.providers.mcp import McpAdapter
from toolcrib.adapter.providers.openai import OpenAIAdapter
from toolcrib.adapter.registry import AdapterRegistry, default_registry
from toolcrib.adapter.results import ToolOutput
from toolcrib.adapter.wire import CallFormat, PayloadError, WireCall
from toolcrib.model.canonical import CanonicalProvider, CanonicalTool

__all__ = [
    "A2AAdapter",
    "Adapter",
    "AdapterRegistry",
    "AnthropicAdapter",
    "Bundle",
    "CallFormat",
    "CanonicalProvider",
    "CanonicalTool",
    "CardConversion",
    "Conversion",
    "ConversionOptions",
    "FeatureLossWarning",
    "GeminiAdapter",
    "Losses",
    "McpAdapter",
    "NameRule",
    "OpenAIAdapter",
    "PayloadError",
    "Report",
    "SchemaFeature",
    "SessionTarget",
    "Target",
    "ToolCall",
    "ToolOutput",
    "Translator",
    "WireCall",
    "card_from_provider",
    "default_registry",
    "portability",
    "provider_from_card",
]
