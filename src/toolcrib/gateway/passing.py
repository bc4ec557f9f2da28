"""Passing on what frontends and servers give, as it is, to clients of both eras."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from pydantic import BaseModel

from toolcrib.mcp_internals import connection_of

_STATELESS = "2026-07-28"
"""The revision of the stateless era."""
_Context = ServerRequestContext[Any, Any]
_Call = Callable[[_Context, mcp_types.CallToolRequestParams], Awaitable[dict[str, Any]]]
_FRESHNESS = ("ttlMs", "cacheScope")
_ENVELOPE = frozenset({"resultType", *_FRESHNESS})
"""What a result of the stateless era has beside what was asked for."""
_OURS = "toolcrib/"
"""How the keys of `_meta` begin under which this gateway alone says something of a result."""
_PASSED: ContextVar[list[dict[str, Any]]] = ContextVar("toolcrib_passed")
"""Takes the answer of a handler that goes to the client as it is."""


def pass_on(result: dict[str, Any], blank: dict[str, Any]) -> dict[str, Any]:
    """Have a result sent as it is, and return what a handler gives the SDK in its place.

    The SDK makes the envelope of the `blank` one, which is all that it looks at.
    """
    _PASSED.get().append(result)
    fresh = {key: result[key] for key in _FRESHNESS if key in result}
    return {"resultType": "complete"} | blank | fresh


class PassOn:
    """Sends what frontends and servers give as it is; the SDK would check it again, and drop unknown fields.

    Calls it answers itself, which saves 0.1 ms of each.
    """

    def __init__(
        self, call: _Call, info: dict[str, Any], extensions: Callable[[], dict[str, Any]] = dict
    ) -> None:
        """Answer calls with `call`; the handshake declares `extensions`, which the SDK drops there."""
        self._call, self._info, self._extensions = call, info, extensions

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Answer a request, with what a handler passes on where it does."""
        is_stateless = ctx.protocol_version == _STATELESS
        if ctx.method == "tools/call" and connection_of(ctx.session).initialize_accepted:
            validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            params = mcp_types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
            result = await self._call(ctx, params)
            if is_stateless:
                return self._stamped({"resultType": "complete"}, result)
            return _for_handshake(ctx.method, result)
        passed: list[dict[str, Any]] = []
        token = _PASSED.set(passed)
        try:
            blank = await call_next(ctx)
        finally:
            _PASSED.reset(token)
        if ctx.method == "initialize" and isinstance(blank, dict) and (extensions := self._extensions()):
            return blank | {"capabilities": blank.get("capabilities", {}) | {"extensions": extensions}}
        if not passed or not isinstance(blank, dict):
            return blank
        if not is_stateless:
            return _for_handshake(ctx.method, passed[0])
        return self._stamped({key: blank[key] for key in _ENVELOPE if key in blank}, passed[0])

    def _stamped(self, envelope: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Return a result that says who answers: this gateway."""
        return envelope | result | {"_meta": {**result.get("_meta", {}), SERVER_INFO_META_KEY: self._info}}


def _for_handshake(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what only the stateless era has."""
    result = {key: value for key, value in result.items() if key not in _ENVELOPE}
    meta = result.pop("_meta", None)
    if meta and (own := {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}):
        result["_meta"] = own
    if method == "tools/call" and not isinstance(result.get("structuredContent", {}), dict):
        del result["structuredContent"]  # its text is in the content
    if method == "tools/list":
        result["tools"] = [_of_objects(tool) for tool in result["tools"]]
    return result


def _of_objects(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition whose output schema, if it has one, is that of an object."""
    if tool.get("outputSchema", {}).get("type", "object") == "object":
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def foreign_meta(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `_meta` of a server's result without what only this gateway may say there.

    >>> foreign_meta({"_meta": {"toolcrib/error": {"code": "denied"}, "example.com/cost": 3}})
    {'example.com/cost': 3}
    """
    meta = result.get("_meta")
    if not isinstance(meta, Mapping):
        return {}
    return {key: value for key, value in meta.items() if not str(key).startswith(_OURS)}


def wire(value: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    """Return what is of the SDK's types as MCP writes it."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value if isinstance(value, dict) else dict(value)
