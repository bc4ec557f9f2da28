"""Long answers are read as short ones are, in slices between which others have their turn."""

import json
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.execution.mcp.transport.lines import LONG_LINE, read_line, read_long_line

pytestmark = pytest.mark.anyio

TEXTS = ["", "a", "ß", '"', "\\ud800", "\ud83d\ude00", "\x00", " , ] } "]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=3),
)
messages = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", 2])},
    optional={
        "id": st.integers(0, 9) | st.sampled_from(["a", 1.5, None]),
        "result": st.fixed_dictionaries({}, optional={"tools": values, "_meta": values}) | values,
        "method": st.just("ping"),
    },
)


async def turns_while(line: bytes) -> int:
    """Return how many turns others have while a line is read."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await checkpoint()
        before = turns
        await read_long_line(line)
        tasks.cancel_scope.cancel()
    return turns - before


async def test_other_tasks_run_while_a_long_response_is_parsed() -> None:
    tools = [{"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(30_000)]
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode()
    assert len(line) > LONG_LINE
    assert await turns_while(line) >= 10


@given(
    message=messages | values,
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, "\t"]),
    cut=st.integers(0, 5),
)
def test_a_long_line_is_read_as_a_short_one(
    message: Any, ascii_only: bool, indent: str | None, cut: int
) -> None:
    text = json.dumps(message, ensure_ascii=ascii_only, indent=indent).replace("\n", " ")
    line = text.encode(errors="surrogatepass")[: len(text) - cut or None]
    assert repr(anyio.run(read_long_line, line)) == repr(read_line(line))


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{}} more',
        b'{"jsonrpc":"2.0","id":1,"result":{,}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":1,}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":[1,]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":[1 2]}}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"result":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\uD800"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","x":' + b"[" * 300 + b"]" * 300 + b"}]}}",
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + b"[" * 5000 + b"]" * 5000 + b"]}}",
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + b"[" * 300 + b"]" * 300 + b"]}}",
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + b"[" * 190 + b"]" * 190 + b"]}}",
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\uD83D\\uDE00"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\\\uD83D\\uDE00"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\uDE00\\uD83D"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}',
        b"",
    ],
)
async def test_an_odd_long_line_is_read_as_a_short_one(line: bytes) -> None:
    assert repr(await read_long_line(line)) == repr(read_line(line))
