"""What `serve` refuses; how it serves is tested with processes and with the gateway."""

import gc
from typing import Any
from weakref import ref

import pytest

from toolcrib.cli.commands.serving import freezing_survivors


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


@pytest.mark.parametrize(("limit", "frozen"), [(0.0, True), (float("inf"), False)])
def test_what_survives_a_long_collection_is_not_looked_through_again(limit: float, frozen: bool) -> None:
    gc.unfreeze()
    kept: list[Any] = [[]]
    with freezing_survivors(limit):
        gc.collect()
    try:
        assert (gc.get_freeze_count() > 0) is frozen
        assert any(each is kept for each in gc.get_objects()) is not frozen
    finally:
        gc.unfreeze()


@pytest.mark.untraced
def test_what_lives_for_a_moment_is_collected_however_long_collections_take() -> None:
    class Request:
        itself: Any = None

    gc.collect()
    gc.freeze()  # as at the start
    try:
        with freezing_survivors(0.0):
            request = Request()
            request.itself = request
            left = ref(request)
            gc.collect()  # in the middle of it
            del request
            gc.collect()
        assert left() is None
    finally:
        gc.unfreeze()
