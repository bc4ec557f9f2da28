"""Where a tool can go, and what it would lose on the way."""

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
"""Every way to send a tool: the adapter and its options."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a tool on its way to one target."""

    accepted: bool
    """Whether the provider takes what we would send; for a strict target, whether it is strict indeed."""
    rewritten: bool
    """Whether the input schema had to be changed."""
    warnings: tuple[FeatureLossWarning, ...]
    """What is lost on the way."""
    problems: tuple[Problem, ...] = ()
    """Why it is not accepted."""


def portability(
    tool: Any, *, source: str = "mcp", registry: AdapterRegistry | None = None
) -> dict[str, Report]:
    """Return what each provider would make of a tool, by target.

    >>> reports = portability({"name": "add", "inputSchema": {"type": "object", "properties": {}}})
    >>> reports["openai"].accepted, reports["openai"].rewritten
    (True, False)

    Raises:
        ConversionError: the tool cannot be read.
    """
    registry = registry or default_registry()
    read = registry.get(source).to_canonical(tool)
    return {target: _report(registry, read, target) for target in TARGETS}


def _report(registry: AdapterRegistry, tool: CanonicalTool, target: str) -> Report:
    adapter, options = TARGETS[target]
    try:
        conversion = registry.convert_canonical(tool, target=adapter, **options)
    except ConversionError as error:
        problem = Problem("", "schema", error.reason[:500])
        return Report(accepted=False, rewritten=True, warnings=(), problems=(problem,))
    warnings = conversion.warnings
    rewritten = any(warning.part == "input" for warning in warnings)
    problems = _problems(conversion, RULES.get(target))
    return Report(accepted=not problems, rewritten=rewritten, warnings=warnings, problems=problems)


def _problems(conversion: Conversion, rules: SchemaRules | None) -> tuple[Problem, ...]:
    """Return why a provider would not take a converted definition."""
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
