"""Configurations that start toolcrib, which starts toolcrib."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.crib.sources.nesting import DEPTH, GATEWAY, MAX_DEPTH
from toolcrib.errors import BackendUnavailableError, ConfigError

pytestmark = pytest.mark.anyio


def serve(config: Path) -> dict[str, Any]:
    """Return the settings of a server that is toolcrib with a configuration."""
    return {
        "command": sys.executable,
        "args": ["-m", "toolcrib.cli", "serve", "--config", str(config)],
        "start_timeout": PATIENCE,
    }


async def test_configuration_that_serves_itself_fails_in_that_server_alone(
    tmp_path: Path, little: Any
) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"toolcrib": serve(config), "text": little()}}))
    async with Crib(config) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.run("text:shout", {"text": "a"})).structured["result"] == "A"
            with pytest.raises(BackendUnavailableError, match="is this very gateway; take it out"):
                await crib.run("toolcrib:search_tools")
            status = crib.status()["toolcrib"]
            assert (status.state, status.tools) == ("failed", None)
            assert "is this very gateway; take it out of the configuration" in (status.last_error or "")
            assert {each.id.split(":")[0] for each in (await crib.tools()).items} == {"text"}


async def test_toolcrib_that_is_nested_too_deep_does_not_start_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "inner.json").write_text("{}")
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"inner": serve(tmp_path / "inner.json")}}))
    environ = {**os.environ, DEPTH: str(MAX_DEPTH)}
    async with Crib(config, environ=environ) as crib:
        with anyio.fail_after(PATIENCE):
            with pytest.raises(BackendUnavailableError):
                await crib.run("inner:search_tools")
            stderr = crib.status()["inner"].stderr
        assert "does a configuration name itself" in stderr
    with pytest.raises(ConfigError, match="does a configuration name itself"):
        async with Crib(environ={DEPTH: str(MAX_DEPTH + 1)}):
            pass


async def test_server_gets_the_depth_and_the_file_that_it_is_nested_in(tmp_path: Path, little: Any) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"text": little()}}))
    async with Crib(config, environ={DEPTH: str(MAX_DEPTH)}) as crib:
        with anyio.fail_after(PATIENCE):
            pid = (await crib.run("text:get_pid")).structured["result"]
        environ = Path(f"/proc/{pid}/environ")
        if environ.exists():  # noqa: ASYNC240 - it is no file on a disk
            given = dict(
                each.split("=", 1)
                for each in environ.read_bytes().decode().split("\0")  # noqa: ASYNC240 - the same
                if "=" in each
            )
            assert given[DEPTH] == str(MAX_DEPTH + 1)
            assert given[GATEWAY].startswith(f"{config.resolve()} ")
