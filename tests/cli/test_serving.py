"""What `serve` refuses; how it serves is tested with processes and with the gateway."""

import gc
from typing import Any

import pytest

from toolcrib.cli.commands.serving import freezing_survivors


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--host", "127.0.0.1"], "--host and --port are for --transport http"),
        (["--port", "1"], "--host and --port are for --transport http"),
        (["--transport", "http", "--toolset", "a"], "over HTTP that toolset is served at /mcp/a"),
        (["--json"], "serve has no --json"),
        (["--expose", "all"], "Invalid value for --expose: "),
        (["--expose", "auto"], "every tool is reached through"),
        (["--expose", "none"], "Invalid value for '--expose'"),
        (["--transport", "http", "--host", "0.0.0.0", "--port", "0"], "so it needs a token"),  # noqa: S104 - it is refused
        (["--transport", "sse"], "Invalid value for '--transport'"),
        (["--toolset", "nosuch"], "nosuch"),
    ],
    ids=["host", "port", "toolset", "json", "all", "auto", "none", "wide", "sse", "no-toolset"],
)
def test_what_cannot_be_served_exits_with_2(toolcrib: Any, args: list[str], message: str) -> None:
    told = toolcrib("serve", "--demo", *args)
    assert told.exit_code == 2
    assert message in told.output
    assert "Traceback" not in told.output


@pytest.mark.parametrize(("limit", "frozen"), [(0.0, True), (float("inf"), False)])
def test_what_survives_a_long_collection_is_not_looked_through_again(limit: float, frozen: bool) -> None:
    before = gc.get_freeze_count()
    kept: list[Any] = [[]]
    with freezing_survivors(limit):
        gc.collect()
    try:
        assert (gc.get_freeze_count() > before) is frozen
        assert any(each is kept for each in gc.get_objects()) is not frozen
    finally:
        gc.unfreeze()
