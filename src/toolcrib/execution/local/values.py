"""What a handler gives, as JSON."""

from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcrib.errors import ToolExecutionError, ValidationError
from toolcrib.execution.local.handler import Handler
from toolcrib.execution.records import Call
from toolcrib.execution.scrub import said_by
from toolcrib.model.plain import MAX_CHARS, MAX_NODES, measure

__all__ = ["Chunks", "as_json"]

_SCALARS = {str, int, bool, type(None)}


def as_json(call: Call, value: Any, handler: Handler | None = None) -> Any:
    """Return what a handler gave as JSON of its own, written as its return type says.

    Raises:
        ToolExecutionError: it is not JSON, nor anything that can be written as such.
    """
    try:
        if handler is not None and handler.typed is not None:
            plain = handler.typed.write_result(value)
        else:
            plain = value if type(value) in _SCALARS else to_jsonable_python(value)
        measure(plain)
    except (PydanticSerializationError, ValidationError, RecursionError) as error:
        reason = f"it returned {type(value).__name__}, which is not JSON: {said_by(error, call.args)}"
        raise ToolExecutionError(tool_id=call.tool_id, reason=reason) from error
    return plain


class Chunks:
    """What a stream has given so far.

    A value has a limit, and a stream has none: where somebody listens and no output schema wants to see the
    whole, one that grows beyond the limit is not kept, and its value is None.
    """

    def __init__(self, call: Call, *, heard: bool) -> None:
        self._call = call
        self._may_drop = heard and call.tool.output_schema is None
        self._kept: list[Any] | None = []
        self._nodes = self._chars = 0

    @property
    def value(self) -> list[Any] | None:
        """All of them together."""
        return self._kept

    def add(self, item: Any) -> Any:
        """Keep an item, and return it as JSON.

        Raises:
            ToolExecutionError: it is not JSON, or all of them together are too much.
        """
        chunk = as_json(self._call, item)
        if self._kept is not None:
            nodes, _, chars, _ = measure(chunk)
            self._nodes, self._chars = self._nodes + nodes, self._chars + chars
            if self._nodes < MAX_NODES and self._chars < MAX_CHARS:
                self._kept.append(chunk)
            elif self._may_drop:
                self._kept = None
            else:
                reason = f"it gave more than a value may hold, {MAX_NODES:,} values; read it as a stream"
                raise ToolExecutionError(tool_id=self._call.tool_id, reason=reason)
        return chunk
