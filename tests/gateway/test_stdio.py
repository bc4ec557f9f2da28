"""A gateway over the standard input and output of a real process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.little_face import LittleFace
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult
from servers.launch import LITTLE, alive, python
from waiting import PATIENCE, wait_until

from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.signals import Stop
from toolcrib.gateway.stdio import serve_streams

CHILD = Path(__file__).parent / "child.py"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "probe", "version": "1"},
}


@contextmanager
def start_gateway(*more: str, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
    with subprocess.Popen(python(str(CHILD), "stdio", *more), **streams) as child:
        try:
            yield child
        finally:
            child.kill()


def say(child: "subprocess.Popen[bytes]", method: str, params: Any, number: int | None = None) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    line = json.dumps(message if number is None else {**message, "id": number})
    assert child.stdin is not None
    child.stdin.write(line.encode() + b"\n")
    child.stdin.flush()


def hear(child: "subprocess.Popen[bytes]") -> Any:
    assert child.stdout is not None
    return json.loads(child.stdout.readline())


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_lists_calls_and_is_asked(era: Any) -> None:
    async def agree(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"confirm": True})

    told: list[Any] = []

    async def note(*progress: Any) -> None:
        told.append(progress)

    program, *args = python(str(CHILD), "stdio")
    command = StdioServerParameters(command=program, args=args)
    with anyio.fail_after(PATIENCE):
        async with Client(command, mode=era, elicitation_callback=agree) as client:
            assert len((await client.list_tools()).tools) == 6
            large = "x" * 300_000
            echoed = await client.call_tool("echo", {"a": large})
            wiped = await client.call_tool("wipe", {})
            await client.call_tool("count", {}, progress_callback=note)
            printed = await client.call_tool("print", {"text": "not protocol"})
    assert echoed.structured_content == {"value": {"a": large}}
    assert wiped.structured_content == {"value": ["accepted"]}
    assert printed.structured_content == {"value": ""}
    assert len(told) == 3


def test_stdio_server_ends_when_the_client_closes_its_end() -> None:
    with start_gateway() as child:
        said, errors = child.communicate(b"", timeout=PATIENCE)
    assert (child.returncode, said) == (0, b"")
    assert errors.endswith(b"the end\n")
    assert b"Traceback" not in errors


def test_a_signal_ends_it_with_its_servers(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    note = tmp_path / "pid"
    server = {"command": "sh", "args": ["-c", f"echo $$ > {note}; exec {sys.executable} -S -I {LITTLE}"]}
    config.write_text(json.dumps({"mcpServers": {"little": server}}))
    with start_gateway(str(config)) as child:
        say(child, "initialize", HELLO, 1)
        assert hear(child)["result"]["serverInfo"]["name"] == "toolcrib"
        pid = int(note.read_text())
        say(child, "notifications/initialized", {})
        say(child, "tools/call", {"name": "wait", "arguments": {}}, 2)
        say(child, "ping", {}, 3)
        assert hear(child)["id"] == 3
        child.send_signal(signal.SIGTERM)
        said = {}
        for number in range(4, 1000):  # until it is heard
            say(child, "ping", {}, number)
            if "error" in (said := hear(child)):
                break
        assert said["error"]["message"] == "the gateway is stopping"
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert hear(child)["id"] == 2
        assert child.wait(PATIENCE) == 0
        assert child.stderr is not None
        errors = child.stderr.read()
    assert errors.endswith(b"the end\n")
    assert b"Traceback" not in errors
    wait_until(lambda: not alive(pid))


@asynccontextmanager
async def serve_over_pipes(
    face: LittleFace | None = None, **options: Any
) -> AsyncIterator[tuple[int, int, anyio.Event]]:
    """Serve over pipes; yield the end to write, the end to read, and an event that is set at the end."""
    stdin, write = os.pipe()
    read, stdout = os.pipe()
    ended = anyio.Event()

    async def serve() -> None:
        server = McpEndpoint(face or LittleFace()).server
        await serve_streams(lambda _: server, stdin, stdout, **options)
        ended.set()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield write, read, ended
            tasks.cancel_scope.cancel()
    for descriptor in (stdin, write, read, stdout):
        with suppress(OSError):
            os.close(descriptor)


async def line(read: int) -> Any:
    await anyio.wait_readable(read)
    return json.loads(os.read(read, 65536).split(b"\n")[0])


def message(method: str, params: Any, number: int = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


@pytest.mark.anyio
async def test_lines_that_are_no_messages_are_answered_and_harm_nothing() -> None:
    async with serve_over_pipes() as (write, read, _):
        codes = []
        for sent in (b"no json\n", b"\n   \n[]\n", b'{"jsonrpc": "1.0"}\n', b"\xff\xfe\n"):
            os.write(write, sent)
            codes.append((await line(read))["error"]["code"])
        first, rest = message("initialize", HELLO)[:50], message("initialize", HELLO)[50:]
        os.write(write, first)
        await anyio.wait_all_tasks_blocked()
        os.write(write, rest)
        assert (await line(read))["result"]["serverInfo"]["name"] == "toolcrib"
    assert codes == [-32700, -32600, -32600, -32700]


@pytest.mark.anyio
async def test_a_line_that_is_too_long_is_answered_with_an_error_and_the_next_one_is_read() -> None:
    async with serve_over_pipes() as (write, read, _):
        os.set_blocking(write, False)
        left = memoryview(b"x" * 68 * 2**20 + b"\n" + message("initialize", HELLO))
        while left:
            await anyio.wait_writable(write)
            left = left[os.write(write, left[: 2**16]) :]
        refused = await line(read)
        assert (await line(read))["result"]["serverInfo"]["name"] == "toolcrib"
    assert refused["error"] == {"code": -32700, "message": "a line may have at most 67,108,864 bytes"}


@pytest.mark.anyio
async def test_a_client_that_reads_no_more_has_left() -> None:
    async with serve_over_pipes() as (write, read, ended):
        os.write(write, message("initialize", HELLO))
        await line(read)
        os.close(read)
        os.write(write, message("ping", {}))
        await ended.wait()


WAIT = message("tools/call", {"name": "wait", "arguments": {}}, 2)
READY = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'


@pytest.mark.anyio
@pytest.mark.parametrize("leaves", [True, False], ids=["the client leaves", "it is told to stop"])
async def test_a_call_that_runs_may_end_and_is_answered(leaves: bool) -> None:
    face, stop = LittleFace(), Stop()
    async with serve_over_pipes(face, stop=stop, within=600.0) as (write, read, ended):
        os.write(write, message("initialize", HELLO) + READY)
        await line(read)
        os.write(write, WAIT)
        await face.started.wait()
        if leaves:
            os.close(write)
            await stop.asked.wait()
        else:
            stop.ask()
            os.write(write, message("ping", {}, 3))
            assert (await line(read))["error"]["message"] == "the gateway is stopping"
        assert not ended.is_set()
        face.go_on.set()
        assert (await line(read))["result"]["structuredContent"] == {"value": "waited"}
        await ended.wait()


@pytest.mark.anyio
@pytest.mark.parametrize("urged", [True, False])
async def test_a_call_that_does_not_end_is_broken_off_and_told_so(urged: bool) -> None:
    face, stop = LittleFace(), Stop()
    async with serve_over_pipes(face, stop=stop, within=600.0 if urged else 0.1) as (write, read, ended):
        os.write(write, message("initialize", HELLO) + READY)
        await line(read)
        os.write(write, WAIT)
        await face.started.wait()
        stop.ask()
        if urged:
            stop.ask()
        answer = await line(read)
        await ended.wait()
    assert (answer["id"], answer["error"]["code"]) == (2, -32000)


@pytest.mark.anyio
async def test_a_call_that_was_taken_back_is_not_waited_for() -> None:
    face, stop = LittleFace(), Stop()
    async with serve_over_pipes(face, stop=stop, within=600.0) as (write, read, ended):
        os.write(write, message("initialize", HELLO) + READY)
        await line(read)
        os.write(write, WAIT)
        await face.started.wait()
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        os.write(write, json.dumps(note).encode() + b"\n")
        await face.cancelled.wait()
        os.close(write)
        await ended.wait()


@pytest.mark.anyio
async def test_messages_come_from_a_file_and_go_to_a_file_as_well(tmp_path: Path) -> None:
    asked, said = tmp_path / "asked", tmp_path / "said"
    asked.write_bytes(message("initialize", HELLO))
    with asked.open("rb") as stdin, said.open("wb") as stdout, anyio.fail_after(PATIENCE):
        server = McpEndpoint(LittleFace()).server
        await serve_streams(lambda _: server, stdin.fileno(), stdout.fileno())
    assert json.loads(said.read_text())["id"] == 1


@pytest.mark.proof
def test_standard_streams_are_taken_over_and_given_back() -> None:
    code = """
import os, sys
from toolcrib.gateway.stdio import taken_over
print("before")
with taken_over() as (stdin, stdout):
    print("to stderr")
    os.write(stdout, b"protocol\\n" + os.read(stdin, 100))
    assert sys.stdin.read() == ""
print("after")
"""
    done = subprocess.run([sys.executable, "-c", code], input=b"asked\n", capture_output=True, check=True)
    assert done.stdout.replace(b"\r", b"") == b"before\nprotocol\nasked\nafter\n"
    assert done.stderr == b"to stderr\n"
