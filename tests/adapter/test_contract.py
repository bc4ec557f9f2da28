"""Every adapter keeps the contract of adapters."""

from contracts.adapter import SCHEMA, AdapterContract

from toolcrib.adapter import default_registry

REGISTRY = default_registry()


class TestMcp(AdapterContract):
    adapter = REGISTRY.get("mcp")
    definition = {  # noqa: RUF012 - never changed
        "name": "find",
        "title": "Find",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"x": [1]},
        "execution": {"taskSupport": "optional"},
    }


class TestOpenAI(AdapterContract):
    adapter = REGISTRY.get("openai")
    definition = {"type": "function", "function": {"name": "find", "description": "d", "parameters": SCHEMA}}  # noqa: RUF012


class TestAnthropic(AdapterContract):
    adapter = REGISTRY.get("anthropic")
    definition = {  # noqa: RUF012 - never changed
        "name": "find",
        "description": "d",
        "input_schema": SCHEMA,
        "cache_control": {"type": "ephemeral"},
    }


class TestGemini(AdapterContract):
    adapter = REGISTRY.get("gemini")
    definition = {"functionDeclarations": [{"name": "find", "parametersJsonSchema": SCHEMA}]}  # noqa: RUF012


class TestA2a(AdapterContract):
    adapter = REGISTRY.get("a2a")
    definition = {"id": "shop:find", "name": "Find", "description": "d", "tags": ["a"], "x-own": {"a": 1}}  # noqa: RUF012
