"""Lists of tools, resources and prompts as clients page through them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import mcp_types
from mcp.shared.exceptions import MCPError

from toolcrib.errors import InvalidCursorError
from toolcrib.execution import Principal
from toolcrib.gateway.identity.principals import bind_cursor, check_cursor

_PAGE = 1000
"""Tools, resources or prompts on one page of a list."""
_Item = TypeVar("_Item")


def page(
    key: str,
    items: Mapping[str, _Item],
    params: Mapping[str, Any],
    principal: Principal | None,
    entry: Callable[[str, _Item], Any] = lambda _, item: item,
) -> dict[str, Any]:
    """Return a page of a list by names, after the item that a cursor names.

    Raises:
        MCPError: the list has no such item, or not any more; or the cursor is another principal's.
    """
    start, cursor, names = 0, params.get("cursor"), list(items)
    if cursor is not None:
        try:
            start = names.index(urlsafe_b64decode(check_cursor(str(cursor), principal).encode()).decode()) + 1
        except ValueError as error:
            reason = error.reason if isinstance(error, InvalidCursorError) else "the list has no such item"
            message = f"no such page: {reason}; ask without a cursor"
            raise MCPError(mcp_types.INVALID_PARAMS, message) from None
    part = names[start : start + _PAGE]
    result: dict[str, Any] = {key: [entry(name, items[name]) for name in part]}
    if start + _PAGE < len(names):
        result["nextCursor"] = bind_cursor(urlsafe_b64encode(part[-1].encode()).decode(), principal)
    return result


def written(field: str, name: str, item: Any) -> dict[str, Any]:
    """Return a resource, a template or a prompt as MCP lists it, under a name."""
    return item if isinstance(item, dict) else item.to_json(without={"server"}) | {field: name}
