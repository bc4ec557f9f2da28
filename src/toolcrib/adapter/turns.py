"""Turns of a conversation with a model: tool calls in a response, and messages with their results.

A response may end within a call: its stream broke off, or the model ran out of tokens. The arguments of such
a call are not what the model meant, even where they can be read, so it is not run. What `join` returns names
these calls under `CUT_OFF`, beside the message, which goes back to the provider without it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.adapter.conversion import plain_payload
from toolcrib.errors import ConversionError
from toolcrib.errors.text import truncate

CUT_OFF = "toolcrib_cut_off"
"""Key of a joined response: the ids of calls that were cut off."""
_SHOWN = 300
"""Characters of a provider's error in ours."""
_GEMINI_KEYS = ("parts", "role", "promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata")
"""Members that a response without candidates, or the content of one, may have."""
_ENDED = frozenset({"stop", "tool_calls", "function_call"})
"""Reasons of the chat completions API to finish that leave no call cut off."""
_OUT_OF_TOKENS = frozenset({"max_tokens", "model_context_window_exceeded", "refusal", "pause_turn"})
"""Reasons of Anthropic's API to stop that may come within a call."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's response, split into messages and tool calls."""

    messages: tuple[Any, ...]
    """The messages to append to the conversation, in the objects that the SDK returned."""
    calls: tuple[Any, ...]
    """The calls of client-side tools, as plain JSON."""
    cut_off: frozenset[int] = frozenset()
    """The places of those calls that were cut off."""


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


def _has_anthropic_parts(response: Any) -> bool:
    content = _get_member(response, "content")
    blocks = content if isinstance(content, list) else []
    return _get_member(response, "stop_reason") is not None or any(
        _get_member(block, "type") == "tool_use" for block in blocks
    )


_MARKS: dict[str, Callable[[Any], bool]] = {
    "openai": lambda it: bool(_get_member(it, "choices") or _get_member(it, "tool_calls")),
    "responses": lambda it: isinstance(_get_member(it, "output"), list),
    "anthropic": _has_anthropic_parts,
    "gemini": lambda it: bool(_get_member(it, "candidates")),
}
"""Tests for what responses of one format have, and those of the others have not."""
_CALLS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "openai": (
        lambda it: _get_member(it, "function") is not None,
        "{'role': 'assistant', 'tool_calls': [call]}",
    ),
    "responses": (lambda it: _get_member(it, "type") == "function_call", "[call]"),
    "anthropic": (
        lambda it: _get_member(it, "type") == "tool_use",
        "{'role': 'assistant', 'content': [call]}",
    ),
    "gemini": (
        lambda it: _get_member(it, "name") is not None and _get_member(it, "args") is not None,
        "{'role': 'model', 'parts': [{'functionCall': call}]}",
    ),
}
"""Tests for a single call of a format, and the message that it can be wrapped in."""


def _check_format(response: Any, own: str) -> None:
    """Raise if a response is clearly of another format: a message of it may look like one without calls."""
    found = [name for name, is_like in _MARKS.items() if is_like(response)]
    if found and own not in found:
        reason = f"this looks like a response from {_name(found[0])}, but the session is for {_name(own)}"
        raise ConversionError(reason, _adapter(own), "session")


def _name(key: str) -> str:
    return "'openai' with api='responses'" if key == "responses" else repr(key)


def _adapter(key: str) -> str:
    return "openai" if key == "responses" else key


def _refuse(response: Any, key: str, expected: str) -> ConversionError:
    """Return the error for a value that is no response of a model, such as the body of an error."""
    error = _get_member(response, "error")
    message = _get_member(error, "message") or error
    is_call, wrapped = _CALLS[key]
    if message:
        reason = f"this is an error, not a response with {expected}: {truncate(str(message), _SHOWN)}"
    elif is_call(response):
        reason = f"expected a response or a message, not a single tool call; wrap it: {wrapped}"
    else:
        given = "None" if response is None else f"a {type(response).__name__}"
        reason = f"expected the model's response, as the SDK returned it, with {expected}; this is {given}"
    return ConversionError(reason, _adapter(key), "session")


def _is_whole(arguments: Any) -> bool:
    """Return whether arguments are a JSON object to its end."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        return False


def _find_cut(response: Any, calls: Sequence[dict[str, Any]], key: str) -> frozenset[int]:
    """Return the places of calls that a joined response names as cut off."""
    named = _get_member(response, CUT_OFF) or ()
    return frozenset(place for place, call in enumerate(calls) if call.get(key) in named)


def _read_chat(response: Any) -> Turn:
    _check_format(response, "openai")
    choices = _get_member(response, "choices")
    message = _get_member(choices[0], "message") if choices else response
    if message is None or _get_member(message, "role") is None:
        raise _refuse(response, "openai", "a message")
    found = plain_payload(message).get("tool_calls") or () if _get_member(message, "tool_calls") else ()
    calls = tuple(call for call in found if call.get("type", "function") == "function")
    cut = _find_cut(message, calls, "id")
    reason = _get_member(choices[0], "finish_reason") if choices else None
    if reason is not None and reason not in _ENDED:
        cut |= {place for place, call in enumerate(calls) if not _is_whole(call["function"].get("arguments"))}
    if isinstance(message, dict) and CUT_OFF in message:
        message = {key: value for key, value in message.items() if key != CUT_OFF}
    return Turn((message,), calls, cut)


def _read_responses(response: Any) -> Turn:
    _check_format(response, "responses")
    items = response if isinstance(response, list) else _get_member(response, "output")
    status = None if isinstance(response, list) else _get_member(response, "status")
    if not isinstance(items, list) or status in {"failed", "cancelled"}:
        raise _refuse(response, "responses", "an output")
    plain = [plain_payload(item) for item in items]
    calls = tuple(item for item in plain if item.get("type") == "function_call")
    cut = _find_cut(response, calls, "call_id")
    cut |= {
        place
        for place, call in enumerate(calls)
        if call.get("status") == "incomplete"
        or (status == "incomplete" and not _is_whole(call.get("arguments")))
    }
    return Turn(tuple(items), calls, cut)


def _read_anthropic(response: Any) -> Turn:
    _check_format(response, "anthropic")
    content = _get_member(response, "content")
    if not isinstance(content, list | str):
        raise _refuse(response, "anthropic", "content")
    blocks = [plain_payload(block) for block in content] if isinstance(content, list) else []
    message = {"role": "assistant", "content": content}
    calls = tuple(block for block in blocks if block.get("type") == "tool_use")
    cut = _find_cut(response, calls, "id")
    if _get_member(response, "stop_reason") in _OUT_OF_TOKENS and calls and blocks[-1] is calls[-1]:
        cut |= {len(calls) - 1}
    return Turn((message,), calls, cut)


def _read_gemini(response: Any) -> Turn:
    _check_format(response, "gemini")
    candidates = _get_member(response, "candidates")
    if not candidates and (response is None or not any(_get_member(response, key) for key in _GEMINI_KEYS)):
        raise _refuse(response, "gemini", "candidates")
    content = _get_member(candidates[0], "content") if candidates else response
    parts = [plain_payload(part) for part in _get_member(content, "parts") or ()]
    found = [part.get("functionCall", part.get("function_call")) for part in parts]
    calls = tuple(call for call in found if call)
    # Arguments that are sent in pieces are told by `willContinue`, and are never whole in one part.
    pieces = {"willContinue", "will_continue", "partialArgs", "partial_args"}
    cut = frozenset(place for place, call in enumerate(calls) if any(call.get(key) for key in pieces))
    return Turn((content,), calls, cut)


def _join_chat(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the message whose deltas the chunks have; of several choices, the first.

    Without a reason to finish, calls whose arguments are no whole object are cut off, for a call without
    arguments looks like the beginning of one with some.
    """
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    has_ended = False
    for chunk in map(plain_payload, chunks):
        _raise_if_failed(chunk, "openai")
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("index", 0) == 0:
                has_ended = has_ended or choice.get("finish_reason") in _ENDED
                for name in ("content", "refusal"):
                    if delta.get(name) is not None:
                        message[name] = (message.get(name) or "") + delta[name]
                for part in delta.get("tool_calls") or ():
                    _join_call(calls, part)
    if not calls:
        return message
    listed = [calls[index] for index in sorted(calls)]
    cut = [] if has_ended else [call for call in listed if not _is_whole(call["function"]["arguments"])]
    return message | {"tool_calls": listed} | _name_cut(call.get("id") for call in cut)


def _name_cut(ids: Iterable[Any]) -> dict[str, Any]:
    listed = list(ids)
    return {CUT_OFF: listed} if listed else {}


def _raise_if_failed(chunk: dict[str, Any], adapter: str) -> None:
    """Raise if a chunk reports that the provider failed during its response."""
    if chunk.get("type") == "error" or (chunk.get("error") and "choices" not in chunk):
        raise _refuse({"error": chunk.get("error") or chunk}, adapter, "an end")


def _join_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    call = calls.setdefault(
        part.get("index", 0), {"type": "function", "function": {"name": "", "arguments": ""}}
    )
    if part.get("id"):
        call["id"] = part["id"]
    for name in ("name", "arguments"):
        call["function"][name] += (part.get("function") or {}).get(name) or ""


def _join_responses(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the response that the last event has.

    Where the stream was cut off, these are the items that are whole, and the calls that are not.
    """
    items: dict[int, dict[str, Any]] = {}
    open_places: set[int] = set()
    for event in map(plain_payload, chunks):
        _raise_if_failed(event, "openai")
        kind, place = event.get("type"), event.get("output_index", len(items))
        if kind in {"response.completed", "response.incomplete", "response.failed"}:
            response: dict[str, Any] = event["response"]
            return response
        if kind == "response.output_item.added":
            items[place] = {**event["item"]}
            open_places.add(place)
        elif kind == "response.output_item.done":
            items[place] = event["item"]
            open_places.discard(place)
        elif kind == "response.function_call_arguments.delta" and place in open_places:
            items[place]["arguments"] = (items[place].get("arguments") or "") + event["delta"]
    listed = {
        place: item
        for place, item in sorted(items.items())
        if place not in open_places or item.get("type") == "function_call"
    }
    cut = [item.get("call_id") for place, item in listed.items() if place in open_places]
    return {"output": list(listed.values())} | _name_cut(cut)


def _join_anthropic(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the message whose blocks the events have; the input of a call that was cut off is empty."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    stopped: set[int] = set()
    reason = None
    for event in map(plain_payload, chunks):
        _raise_if_failed(event, "anthropic")
        kind, place = event.get("type"), event.get("index", 0)
        if kind == "content_block_start":
            blocks[place] = {**event["content_block"]}
        elif kind == "content_block_stop":
            stopped.add(place)
        elif kind == "message_delta":
            reason = (event.get("delta") or {}).get("stop_reason") or reason
        elif kind == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            inputs[place] = inputs.get(place, "") + event["delta"]["partial_json"]
        elif kind == "content_block_delta":
            _add_delta(blocks[place], event["delta"])
    if blocks and reason in _OUT_OF_TOKENS:
        stopped.discard(max(blocks))
    cut = [
        block.get("id")
        for place, block in sorted(blocks.items())
        if "input" in block and not _end_call(block, inputs.get(place), has_stopped=place in stopped)
    ]
    content = [blocks[place] for place in sorted(blocks)]
    return {"role": "assistant", "content": content} | _name_cut(cut)


def _add_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta["type"] == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
    else:
        name = delta["type"].removesuffix("_delta")
        block[name] = (block.get(name) or "") + delta[name]


def _end_call(block: dict[str, Any], text: str | None, *, has_stopped: bool) -> bool:
    """Give a call its streamed input, or an empty one if it was cut off; return whether it is whole."""
    is_whole = has_stopped and (not text or _is_whole(text))
    if text or not is_whole:
        block["input"] = json.loads(text) if text and is_whole else {}
    return is_whole


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
