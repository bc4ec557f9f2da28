"""Tool definitions, calls and results between MCP, OpenAI, Anthropic, Gemini and A2A, telling every loss.

A definition goes through the canonical form; its schema is rewritten for the provider; and the model's call
comes back in the terms of the original schema. Nothing here does I/O.
"""

from toolcrib.adapter.bundle import Bundle
from toolcrib.adapter.conversion import Conversion, ToolCall
from toolcrib.adapter.loss import FeatureLossWarning, Losses
from toolcrib.adapter.names import NameRule
from toolcrib.adapter.portability import Report, portability
from toolcrib.adapter.protocol import Adapter, SchemaFeature, Translator
from toolcrib.adapter.providers.agent_card import CardConversion, card_from_provider, provider_from_card
from toolcrib.adapter.registry import AdapterRegistry, default_registry
from toolcrib.adapter.results import ToolOutput
from toolcrib.adapter.wire import CallFormat, PayloadError, WireCall
from toolcrib.model.canonical import CanonicalProvider, CanonicalTool

__all__ = [
    "Adapter",
    "AdapterRegistry",
    "Bundle",
    "CallFormat",
    "CanonicalProvider",
    "CanonicalTool",
    "CardConversion",
    "Conversion",
    "FeatureLossWarning",
    "Losses",
    "NameRule",
    "PayloadError",
    "Report",
    "SchemaFeature",
    "ToolCall",
    "ToolOutput",
    "Translator",
    "WireCall",
    "card_from_provider",
    "default_registry",
    "portability",
    "provider_from_card",
]
