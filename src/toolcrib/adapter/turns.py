"""A model's turn in a conversation: the calls in a response, and the messages that answer them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.adapter.conversion import plain_payload
from toolcrib.errors import ConversionError


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model has answered."""

    messages: tuple[Any, ...]
    """The answer as the conversation keeps it, in the objects that it came in."""
    calls: tuple[Any, ...]
    """The calls of client-side tools in it, as plain JSON."""


@dataclass(frozen=True, slots=True)
class TurnFormat:
    """How one API of a provider has calls in a response, and takes their results."""

    read: Callable[[Any], Turn]
    """Returns what a response says: whole, or the message in it, of the SDK or as JSON."""
    answer: Callable[[Sequence[Any]], list[Any]]
    """Returns encoded results as messages."""
    without_args: Callable[[dict[str, Any]], dict[str, Any]]
    """Returns a call without its arguments, which may be what cannot be read."""


def turn_format(adapter: str, options: dict[str, Any]) -> TurnFormat:
    """Return the turns of an API.

    Raises:
        ConversionError: conversations with it are not known here.
    """
    key = "responses" if adapter == "openai" and options.get("api") == "responses" else adapter
    if key not in _FORMATS:
        reason = f"sessions are for {', '.join(name for name in _FORMATS if name != 'responses')}"
        raise ConversionError(reason, adapter, "session")
    return _FORMATS[key]


def _get(thing: Any, key: str) -> Any:
    """Return a member of JSON, or of an SDK's object."""
    return thing.get(key) if isinstance(thing, dict) else getattr(thing, key, None)


def _chat(response: Any) -> Turn:
    choices = _get(response, "choices")
    message = _get(choices[0], "message") if choices else response
    calls = plain_payload(message).get("tool_calls") or () if _get(message, "tool_calls") else ()
    return Turn((message,), tuple(call for call in calls if call.get("type", "function") == "function"))


def _responses(response: Any) -> Turn:
    items = response if isinstance(response, list) else _get(response, "output") or []
    plain = [plain_payload(item) for item in items]
    return Turn(tuple(items), tuple(item for item in plain if item.get("type") == "function_call"))


def _anthropic(response: Any) -> Turn:
    content = _get(response, "content")
    blocks = [plain_payload(block) for block in content] if isinstance(content, list) else []
    message = {"role": "assistant", "content": content}
    return Turn((message,), tuple(block for block in blocks if block.get("type") == "tool_use"))


def _gemini(response: Any) -> Turn:
    candidates = _get(response, "candidates")
    content = _get(candidates[0], "content") if candidates else response
    parts = [plain_payload(part) for part in _get(content, "parts") or ()]
    calls = [part.get("functionCall", part.get("function_call")) for part in parts]
    return Turn((content,), tuple(call for call in calls if call))


_FORMATS = {
    "openai": TurnFormat(
        _chat, list, lambda call: {**call, "function": {**call["function"], "arguments": ""}}
    ),
    "responses": TurnFormat(_responses, list, lambda call: {**call, "arguments": ""}),
    "anthropic": TurnFormat(
        _anthropic,
        lambda results: [{"role": "user", "content": list(results)}],
        lambda call: {**call, "input": {}},
    ),
    "gemini": TurnFormat(
        _gemini, lambda results: [{"role": "user", "parts": list(results)}], lambda call: {**call, "args": {}}
    ),
}
