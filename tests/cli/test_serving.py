"""Usage errors of `serve`; serving is tested with processes and with the gateway."""

from typing import Any

import pytest


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
def test_usage_error_of_serve_exits_with_2(toolcrib: Any, args: list[str], message: str) -> None:
    told = toolcrib("serve", "--demo", *args)
    assert told.exit_code == 2
    assert message in told.output
    assert "Traceback" not in told.output
