"""What `serve` refuses; how it serves is tested with processes and with the gateway."""

import subprocess
from typing import Any

import pytest
from servers.launch import python


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--host", "127.0.0.1"], "--host and --port are for --transport http"),
        (["--port", "1"], "--host and --port are for --transport http"),
        (["--transport", "http", "--toolset", "a"], "over HTTP that toolset is served at /mcp/a"),
        (["--expose", "none"], "Invalid value for '--expose'"),
        (["--transport", "http", "--host", "0.0.0.0", "--port", "0"], "so it needs a token"),  # noqa: S104 - it is refused
        (["--transport", "sse"], "Invalid value for '--transport'"),
        (["--toolset", "nosuch"], "nosuch"),
    ],
    ids=["host", "port", "toolset", "none", "wide", "sse", "no-toolset"],
)
def test_what_cannot_be_served_exits_with_2(toolcrib: Any, args: list[str], message: str) -> None:
    told = toolcrib("serve", "--demo", *args)
    assert told.exit_code == 2
    assert message in told.output
    assert "Traceback" not in told.output


def test_what_survives_a_long_collection_is_not_looked_through_again() -> None:
    survivor = """
import gc
from toolcrib.cli.commands.serving import freezing_survivors
for limit in (float("inf"), 0.0):
    kept = [[]]
    with freezing_survivors(limit):
        gc.collect()
    print(gc.get_freeze_count() > 0, any(each is kept for each in gc.get_objects()))
"""
    assert printed(survivor) == ["False True", "True False"]


def test_what_lives_for_a_moment_is_collected_however_long_collections_take() -> None:
    moment = """
import gc
from weakref import ref
from toolcrib.cli.commands.serving import freezing_survivors
class Request:
    pass
gc.collect()
gc.freeze()  # as at the start
with freezing_survivors(0.0):
    request = Request()
    request.itself, left = request, ref(request)
    gc.collect()  # in the middle of it
    del request
    gc.collect()
print(left())
"""
    assert printed(moment) == ["None"]


def printed(program: str) -> list[str]:
    """Return the lines that a program prints in a process of its own, where nothing else has been frozen."""
    return subprocess.check_output(python("-c", program), text=True).splitlines()
