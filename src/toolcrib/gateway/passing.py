"""Sends the results of frontends and servers unchanged to clients of both eras."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from toolcrib.mcp_internals import connection_of
from toolcrib.model.findings import FINDINGS_KEY, ResultFinding

_RELAYED = frozenset(
    {
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    }
)
"""Methods whose results are sent unchanged."""
_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Fields of results that only the stateless era has."""
_OURS = "toolcrib/"
"""Prefix of the keys of `_meta` that only this gateway may set."""


class PassOn:
    """Middleware that sends the results of frontends and servers unchanged.

    The SDK would check each result again, which takes 0.1 ms of a call, and drop the fields that it does not
    know. So requests whose results are relayed are answered here, in the steps of the SDK: validate, call the
    handler, add the envelope of the stateless era. All others go on to the SDK.
    """

    def __init__(self, server: Server[Any], extensions: Callable[[], dict[str, Any]] = dict) -> None:
        """Answer for a server; the handshake declares `extensions`, which the SDK drops there."""
        self._server, self._extensions = server, extensions
        self._info = server.server_info_stamp  # computed on each access

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request whose result is relayed; pass any other on."""
        method, version = ctx.method, ctx.protocol_version
        handler = self._server.get_request_handler(method) if method in _RELAYED else None
        has_begun = version in MODERN_PROTOCOL_VERSIONS or connection_of(ctx.session).initialize_accepted
        if handler is None or not has_begun:
            given = await call_next(ctx)
            if method == "initialize" and isinstance(given, dict) and (extensions := self._extensions()):
                return given | {"capabilities": given.get("capabilities", {}) | {"extensions": extensions}}
            return given
        validate_client_request(method, version, ctx.params)
        params = handler.params_type.model_validate(ctx.params or {}, by_name=False)
        answer: Any = await handler.handler(ctx, params)
        if version not in MODERN_PROTOCOL_VERSIONS:
            return _adapt_for_handshake(method, answer)
        meta = {**answer.get("_meta", {}), SERVER_INFO_META_KEY: self._info}
        envelope: dict[str, Any] = {"resultType": "complete"}
        hint = self._server.cache_hints.get(method)
        if hint is not None and answer.get("resultType") != "input_required":
            envelope |= {"ttlMs": hint.ttl_ms, "cacheScope": hint.scope}
        result: dict[str, Any] = envelope | answer | {"_meta": meta}
        return result


def _adapt_for_handshake(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without the fields that only the stateless era has."""
    result = {key: value for key, value in result.items() if key not in _ENVELOPE}
    meta = result.pop("_meta", None)
    if meta and (own := {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}):
        result["_meta"] = own
    if method == "tools/call" and not isinstance(result.get("structuredContent", {}), dict):
        del result["structuredContent"]  # its text is in the content
    if method == "tools/list":
        result["tools"] = [_drop_other_schema(tool) for tool in result["tools"]]
    return result


def _drop_other_schema(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition whose output schema, if it has one, is that of an object."""
    if tool.get("outputSchema", {}).get("type", "object") == "object":
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def foreign_meta(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `_meta` of a server's result without the keys that only this gateway may set.

    >>> foreign_meta({"_meta": {"toolcrib/error": {"code": "denied"}, "example.com/cost": 3}})
    {'example.com/cost': 3}
    """
    meta = result.get("_meta")
    if not isinstance(meta, Mapping):
        return {}
    return {key: value for key, value in meta.items() if not str(key).startswith(_OURS)}


def findings_meta(findings: Sequence[ResultFinding]) -> dict[str, Any]:
    """Return the part of `_meta` for what the check of results found."""
    return {FINDINGS_KEY: [each.to_json() for each in findings]} if findings else {}


def add_findings(result: Mapping[str, Any], findings: Sequence[ResultFinding]) -> dict[str, Any]:
    """Return a server's result whose `_meta` has what was found in it, and of our keys no others."""
    meta = foreign_meta(result) | findings_meta(findings)
    return {**result, "_meta": meta} if meta or "_meta" in result else dict(result)


def wire(value: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    """Return a model of the SDK, or a mapping, as the JSON object of MCP."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value if isinstance(value, dict) else dict(value)
