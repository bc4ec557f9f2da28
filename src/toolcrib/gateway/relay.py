"""What a server asks in the middle of a call, answered by the client that made the call."""

from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter
from pydantic import ValidationError as PydanticError

from toolcrib.errors import ToolExecutionError
from toolcrib.execution.records import Call
from toolcrib.gateway.client import CURRENT, RequestClient

__all__ = ["relay_input"]

_REQUEST: TypeAdapter[mcp_types.ElicitRequest | mcp_types.CreateMessageRequest] = TypeAdapter(
    mcp_types.ElicitRequest | mcp_types.CreateMessageRequest
)


async def relay_input(call: Call, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the client behind a call answers to the requests of a server, by their keys.

    Raises:
        ToolExecutionError: there is no client, or it cannot answer.
    """
    client = CURRENT.get()
    if client is None:
        raise _failure(call, "there is no client to ask")
    return {key: await _answer(call, client, request) for key, request in asked.items()}


async def _answer(call: Call, client: RequestClient, request: Any) -> dict[str, Any]:
    method = str(request.get("method")) if isinstance(request, dict) else "nothing known"
    try:
        return await client.ask(_REQUEST.validate_python(request, by_name=False))
    except PydanticError as error:
        raise _failure(call, f"it asks for {method!r:.80}, which cannot be passed on") from error
    except LookupError as error:
        raise _failure(call, f"it asks for {method!r:.80}, and the client cannot be asked that") from error
    except TimeoutError as error:
        raise _failure(call, f"it asks for {method!r:.80}, and the client did not answer") from error
    except MCPError as error:
        raise _failure(call, f"it asks for {method!r:.80}, and the client refused: {error}") from error


def _failure(call: Call, said: str) -> ToolExecutionError:
    backend = f"mcp:{getattr(call.backend, 'server_name', '')}"
    reason = f"the server needs input in the middle of the call: {said}"
    return ToolExecutionError(tool_id=call.tool_id, backend=backend, reason=reason)
