"""The verbs `saved list` and `saved delete`."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from toolcrib import Crib

RUN = 'name = "ann"\n__out = f"Hello {name}"'


@pytest.fixture
def made(tmp_path: Path) -> tuple[str, str]:
    """Return the options of a command whose configuration has two versions of a saved tool."""
    path = tmp_path / "toolcrib.toml"
    path.write_text("", encoding="utf-8")

    async def make() -> None:
        async with Crib(path) as crib:
            result = await crib.execute(RUN)
            for version in ("1.0.0", "2.0.0"):
                crib.save_as_tool(
                    result, namespace="my", name="greet", version=version, description="Greet somebody."
                )

    anyio.run(make)
    return "--config", str(path)


def test_saved_tools_are_listed_and_deleted_for_good(toolcrib: Any, made: tuple[str, str]) -> None:
    listed = json.loads(toolcrib("saved", "list", "--json", *made).stdout)["tools"]
    assert [tool["id"] for tool in listed] == ["my:greet:1.0.0", "my:greet:2.0.0"]
    assert "Greet somebody." in toolcrib("saved", "list", *made).stdout
    deleted = toolcrib("saved", "delete", "my:greet:2.0.0", *made)
    assert (deleted.exit_code, deleted.stderr) == (0, "note: the saved tool my:greet:2.0.0 is deleted\n")
    assert "2.0.0" not in toolcrib("saved", "list", *made).stdout
    assert toolcrib("run", "my:greet", *made).stdout == "Hello ann\n"


def test_deleting_an_unsaved_tool_fails(toolcrib: Any, made: tuple[str, str]) -> None:
    missing = toolcrib("saved", "delete", "my:gret", *made)
    assert (missing.exit_code, "did you mean 'my:greet" in missing.stderr) == (3, True)
    other = toolcrib("saved", "delete", "math:evaluate", "--demo")
    assert (other.exit_code, "was not saved from a run" in other.stderr) == (2, True)
    assert "there are no saved tools" in toolcrib("saved", "list", "--demo").stderr


def test_yes_holds_for_what_a_saved_tool_calls(toolcrib: Any, made: tuple[str, str]) -> None:
    path = Path(made[1])

    async def make() -> None:
        async with Crib(path) as crib:
            result = await crib.execute("__out = await my.greet()")
            crib.save_as_tool(result, namespace="my", name="welcome")

    anyio.run(make)
    path.write_text(
        '[[policy]]\nname = "greetings"\ntools = ["my:greet"]\neffect = "ask"\n'
        '[[policy]]\nname = "others"\neffect = "allow"\n',
        encoding="utf-8",
    )
    refused = toolcrib("run", "my:welcome", *made)
    assert refused.exit_code != 0
    assert "run it again with --yes if you agree" in refused.stderr
    assert toolcrib("run", "my:welcome", "--yes", *made).stdout == "Hello ann\n"
