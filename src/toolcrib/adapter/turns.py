"""Turns of a conversation with a model: tool calls in a response, and messages with their results."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.adapter.conversion import plain_payload
from toolcrib.errors import ConversionError


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's response, split into messages and tool calls."""

    messages: tuple[Any, ...]
    """The messages to append to the conversation, in the objects that the SDK returned."""
    calls: tuple[Any, ...]
    """The calls of client-side tools, as plain JSON."""


@dataclass(frozen=True, slots=True)
class TurnFormat:
    """Functions that read responses and write results for one API of a provider."""

    read: Callable[[Any], Turn]
    """Reads a response, or the message in it, as an object of the SDK or as JSON."""
    answer: Callable[[Sequence[Any]], list[Any]]
    """Wraps encoded results into messages."""
    without_args: Callable[[dict[str, Any]], dict[str, Any]]
    """Returns a call without its arguments, so that a failure can be encoded if these cannot be read."""
    join: Callable[[Iterable[Any]], Any]
    """Joins the chunks of a stream into the response that they make, as JSON."""


def turn_format(adapter: str, options: dict[str, Any]) -> TurnFormat:
    """Return the turn format of an adapter with some options.

    Raises:
        ConversionError: there is none for this adapter.
    """
    key = "responses" if adapter == "openai" and options.get("api") == "responses" else adapter
    if key not in _FORMATS:
        reason = f"sessions are for {', '.join(name for name in _FORMATS if name != 'responses')}"
        raise ConversionError(reason, adapter, "session")
    return _FORMATS[key]


def _get_member(thing: Any, key: str) -> Any:
    """Return a member of a dict or an attribute of an SDK's object; None if there is none."""
    return thing.get(key) if isinstance(thing, dict) else getattr(thing, key, None)


def _read_chat(response: Any) -> Turn:
    choices = _get_member(response, "choices")
    message = _get_member(choices[0], "message") if choices else response
    calls = plain_payload(message).get("tool_calls") or () if _get_member(message, "tool_calls") else ()
    return Turn((message,), tuple(call for call in calls if call.get("type", "function") == "function"))


def _read_responses(response: Any) -> Turn:
    items = response if isinstance(response, list) else _get_member(response, "output") or []
    plain = [plain_payload(item) for item in items]
    return Turn(tuple(items), tuple(item for item in plain if item.get("type") == "function_call"))


def _read_anthropic(response: Any) -> Turn:
    content = _get_member(response, "content")
    blocks = [plain_payload(block) for block in content] if isinstance(content, list) else []
    message = {"role": "assistant", "content": content}
    return Turn((message,), tuple(block for block in blocks if block.get("type") == "tool_use"))


def _read_gemini(response: Any) -> Turn:
    candidates = _get_member(response, "candidates")
    content = _get_member(candidates[0], "content") if candidates else response
    parts = [plain_payload(part) for part in _get_member(content, "parts") or ()]
    calls = [part.get("functionCall", part.get("function_call")) for part in parts]
    return Turn((content,), tuple(call for call in calls if call))


def _join_chat(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the message whose deltas the chunks have; of several choices, the first."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in map(plain_payload, chunks):
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("index", 0) == 0:
                for name in ("content", "refusal"):
                    if delta.get(name) is not None:
                        message[name] = (message.get(name) or "") + delta[name]
                for part in delta.get("tool_calls") or ():
                    _join_call(calls, part)
    return message | ({"tool_calls": [calls[index] for index in sorted(calls)]} if calls else {})


def _join_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    call = calls.setdefault(
        part.get("index", 0), {"type": "function", "function": {"name": "", "arguments": ""}}
    )
    if part.get("id"):
        call["id"] = part["id"]
    for name in ("name", "arguments"):
        call["function"][name] += (part.get("function") or {}).get(name) or ""


def _join_responses(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the response that the last event has; where the stream was cut off, the items that are whole."""
    items = []
    for chunk in map(plain_payload, chunks):
        if chunk.get("type") in {"response.completed", "response.incomplete"}:
            response: dict[str, Any] = chunk["response"]
            return response
        if chunk.get("type") == "response.output_item.done":
            items.append(chunk["item"])
    return {"output": items}


def _join_anthropic(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the message whose blocks the events have."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in map(plain_payload, chunks):
        place = event.get("index", 0)
        if event.get("type") == "content_block_start":
            blocks[place] = {**event["content_block"]}
        elif event.get("type") == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                inputs[place] = inputs.get(place, "") + delta["partial_json"]
            elif delta["type"] == "citations_delta":
                cited = blocks[place].get("citations") or []
                blocks[place]["citations"] = [*cited, delta["citation"]]
            else:
                name = delta["type"].removesuffix("_delta")
                blocks[place][name] = (blocks[place].get(name) or "") + delta[name]
    for place, text in inputs.items():
        try:
            blocks[place]["input"] = json.loads(text or "{}")
        except ValueError:
            blocks[place]["input"] = text  # cut off: the result of the call tells the model
    return {"role": "assistant", "content": [blocks[place] for place in sorted(blocks)]}


def _join_gemini(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the content whose parts the chunks have; of several candidates, the first."""
    parts: list[Any] = []
    for chunk in chunks:
        candidates = _get_member(chunk, "candidates")
        content = _get_member(candidates[0], "content") if candidates else None
        parts += [plain_payload(part) for part in (_get_member(content, "parts") if content else None) or ()]
    return {"role": "model", "parts": parts}


_FORMATS = {
    "openai": TurnFormat(
        _read_chat,
        list,
        lambda call: {**call, "function": {**call["function"], "arguments": ""}},
        _join_chat,
    ),
    "responses": TurnFormat(_read_responses, list, lambda call: {**call, "arguments": ""}, _join_responses),
    "anthropic": TurnFormat(
        _read_anthropic,
        lambda results: [{"role": "user", "content": list(results)}],
        lambda call: {**call, "input": {}},
        _join_anthropic,
    ),
    "gemini": TurnFormat(
        _read_gemini,
        lambda results: [{"role": "user", "parts": list(results)}],
        lambda call: {**call, "args": {}},
        _join_gemini,
    ),
}
