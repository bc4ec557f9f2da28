"""A2A 1.x: calls of skills as messages, and results as tasks."""

import sys
from base64 import b64decode
from collections.abc import Iterable
from importlib import import_module
from json import dumps
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from toolcrib.adapter.results import ToolOutput, block_text
from toolcrib.adapter.wire import PayloadError, WireCall
from toolcrib.model.plain import parse_json

_NO_ARGUMENTS: Final = "send the arguments as a JSON object in a part of the message, {'data': {...}}"
_BYTES: Final = frozenset({"audio", "image", "resource"})


def read_message(raw: Any) -> Any:
    """Convert a protobuf message to JSON; return anything else unchanged."""
    if hasattr(raw, "DESCRIPTOR") and not isinstance(raw, type) and "google.protobuf" in sys.modules:
        return import_module("google.protobuf.json_format").MessageToDict(raw)
    return raw


class A2ACalls:
    """Messages with a part for the arguments, and the tasks that answer them."""

    def read_call(self, payload: Any) -> WireCall:
        """Read a message, the parameters of `SendMessage`, or a bare part."""
        message = _message(read_message(payload))
        part, args = _arguments(message["parts"])
        known = message.get("messageId")
        name = _named_skill(message) or _named_skill(part)
        return WireCall(name, args, known if isinstance(known, str) and known else None)

    def write_call(self, call: WireCall) -> dict[str, Any]:
        """Write a message; without a call id, equal calls get equal ids."""
        return {
            "messageId": call.call_id or _digest(call.name, call.args),
            "role": "ROLE_USER",
            "parts": [{"data": call.args}],
            "metadata": {"skillId": call.name},
        }

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> dict[str, Any]:
        """Write a finished task: the result is its artifact, an error its message."""
        parts = _parts(outcome)
        known = call_id or _digest(name, parts)
        task: dict[str, Any] = {"id": known, "contextId": known}
        if outcome.is_error:
            message = {"messageId": _digest(known, parts), "role": "ROLE_AGENT", "parts": parts}
            return {**task, "status": {"state": "TASK_STATE_FAILED", "message": message}}
        artifact = {"artifactId": _digest(known, parts), "name": name, "parts": parts}
        return {**task, "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        """Return the `skills` of a card."""
        return list(payloads)


def _digest(*content: Any) -> str:
    return str(uuid5(NAMESPACE_OID, dumps(content, sort_keys=True)))


def _message(payload: Any) -> dict[str, Any]:
    """Return the message in a payload."""
    for key in ("params", "message"):
        if isinstance(payload, dict) and isinstance(payload.get(key), dict):
            payload = payload[key]
    if isinstance(payload, dict) and payload.keys() & {"data", "text"}:
        payload = {"parts": [payload]}
    if not isinstance(payload, dict) or not isinstance(payload.get("parts"), list):
        reason = f"a call is a message with 'messageId', 'role' and 'parts'; {_NO_ARGUMENTS}"
        raise PayloadError(reason)
    return payload


def _arguments(parts: list[Any]) -> tuple[dict[str, Any], Any]:
    """Return the part with the arguments, and the arguments."""
    known = [part for part in parts if isinstance(part, dict)]
    for part in known:
        if isinstance(part.get("data"), dict):
            return part, part["data"]
    for part in known:
        try:
            args = parse_json(part["text"]) if isinstance(part.get("text"), str) else None
        except ValueError:
            continue
        if isinstance(args, dict):
            return part, args
    raise PayloadError(f"no part of the message holds arguments; {_NO_ARGUMENTS}")


def _named_skill(holder: dict[str, Any]) -> str | None:
    metadata = holder.get("metadata")
    ids = [metadata.get(key) for key in ("skillId", "skill_id")] if isinstance(metadata, dict) else []
    return next((one for one in ids if isinstance(one, str) and one), None)


def _parts(outcome: ToolOutput) -> list[dict[str, Any]]:
    """Write the result of a run as one or more parts."""
    if outcome.mcp is None:
        is_text = outcome.is_error or isinstance(outcome.value, str)
        return [{"text": outcome.text} if is_text else {"data": outcome.value}]
    data = [] if outcome.value == outcome.text else [{"data": outcome.value}]
    return [*data, *map(_part, outcome.blocks)] or [{"text": outcome.text}]


def _part(block: dict[str, Any]) -> dict[str, Any]:
    """Convert an MCP content block to a part."""
    inner = block["resource"] if isinstance(block.get("resource"), dict) else block
    media = {"mediaType": inner["mimeType"]} if isinstance(inner.get("mimeType"), str) else {}
    raw = inner.get("data", inner.get("blob"))
    if block["type"] in _BYTES and isinstance(raw, str) and _is_base64(raw):
        return {"raw": raw, **media}
    if block["type"] == "resource_link" and isinstance(block.get("uri"), str):
        return {"url": block["uri"], **media}
    return {"text": block_text(block)}


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True
