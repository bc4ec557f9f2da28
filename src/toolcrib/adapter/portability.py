"""Portability report: which providers accept a tool, and what it loses there."""

from dataclasses import dataclass
from typing import Any, Final

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.loss import FeatureLossWarning
from toolcrib.adapter.registry import AdapterRegistry, default_registry
from toolcrib.adapter.rules import RULES, SchemaRules
from toolcrib.adapter.rules.check import violations
from toolcrib.errors import ConversionError, Problem
from toolcrib.model.canonical import CanonicalTool

TARGETS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "mcp": ("mcp", {}),
    "openai": ("openai", {}),
    "openai-strict": ("openai", {"strict": True}),
    "anthropic": ("anthropic", {}),
    "anthropic-strict": ("anthropic", {"strict": True}),
    "gemini": ("gemini", {}),
    "gemini-openapi": ("gemini", {"style": "openapi"}),
    "a2a": ("a2a", {}),
}
"""The targets of the report: for each the adapter and its options."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of converting a tool for one target."""

    accepted: bool
    """Whether the provider accepts the converted tool; for a strict target, in strict mode."""
    rewritten: bool
    """Whether the input schema was changed."""
    warnings: tuple[FeatureLossWarning, ...]
    """The losses of the conversion."""
    problems: tuple[Problem, ...] = ()
    """The reasons why it is not accepted."""


def portability(
    tool: Any, *, source: str = "mcp", registry: AdapterRegistry | None = None
) -> dict[str, Report]:
    """Convert a tool for each provider, and report the results by target.

    >>> reports = portability({"name": "add", "inputSchema": {"type": "object", "properties": {}}})
    >>> reports["openai"].accepted, reports["openai"].rewritten
    (True, False)

    Raises:
        ConversionError: the tool cannot be read.
    """
    registry = registry or default_registry()
    read = registry.get(source).to_canonical(tool)
    return {target: _make_report(registry, read, target) for target in TARGETS}


def _make_report(registry: AdapterRegistry, tool: CanonicalTool, target: str) -> Report:
    adapter, options = TARGETS[target]
    try:
        conversion = registry.convert_canonical(tool, target=adapter, **options)
    except ConversionError as error:
        problem = Problem("", "schema", error.reason[:500])
        return Report(accepted=False, rewritten=True, warnings=(), problems=(problem,))
    warnings = conversion.warnings
    rewritten = any(warning.part == "input" for warning in warnings)
    problems = _find_problems(conversion, RULES.get(target))
    return Report(accepted=not problems, rewritten=rewritten, warnings=warnings, problems=problems)


def _find_problems(conversion: Conversion, rules: SchemaRules | None) -> tuple[Problem, ...]:
    """Return the reasons why a provider would refuse a converted definition."""
    refused = [
        Problem("", "strict", warning.message)
        for warning in conversion.warnings
        if warning.feature == "strict"
    ]
    if refused or rules is None:
        return tuple(refused)
    return violations(input_schema_of(conversion.payload), rules)


def input_schema_of(payload: Any) -> dict[str, Any]:
    """Return the input schema of a definition in any built-in format but A2A's, which has none."""
    if "functionDeclarations" in payload:
        payload = payload["functionDeclarations"][0]
    payload = payload.get("function", payload)
    names = ("inputSchema", "parameters", "input_schema", "parametersJsonSchema")
    found: dict[str, Any] = next(payload[name] for name in names if name in payload)
    return found
