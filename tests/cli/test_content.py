"""The verbs `resources`, `read`, `prompts` and `prompt`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers.launch import library


@pytest.fixture
def ask(toolcrib: Any, config: Any) -> Callable[..., Any]:
    path = config(main=library("main"), gone={"command": "/nowhere"})
    return lambda *words: toolcrib(*words, "--config", path)


def test_resources_are_listed_and_read(ask: Any) -> None:
    listed = ask("resources")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        "URI",
        "library://main/catalogue",
        "library://main/cover",
        "library://main/books/{title}",
    ]
    assert "server 'gone' is unavailable" in listed.stderr
    assert ask("read", "library://main/books/emma").stdout == "The text of emma.\n"
    contents = json.loads(ask("read", "library://main/catalogue", "--json").stdout)["contents"]
    assert contents == [
        {"uri": "library://main/catalogue", "mimeType": "text/plain", "text": "emma\nivanhoe\nwalden"}
    ]


def test_bytes_are_written_as_they_are(ask: Any) -> None:
    assert ask("read", "library://main/cover").stdout_bytes == b"\x89PNG"


def test_read_writes_text_and_bytes_in_their_order(toolcrib: Any, config: Any, talker: Any) -> None:
    written = toolcrib("read", "talk://mixed", "--config", config(talk=talker)).stdout_bytes
    assert re.fullmatch(rb"process \d+\n\xff\x00\n\xff", written)


def test_prompts_are_listed_and_filled_in(ask: Any) -> None:
    assert [line.split()[:2] for line in ask("prompts").stdout.splitlines()] == [
        ["PROMPT", "ARGUMENTS"],
        ["main:review", "title"],
        ["main:greet", "Greet"],
    ]
    assert (
        ask("prompt", "review", "title=emma").stdout
        == "user: Write a kind review of emma, of the shelf main.\n"
    )
    filled = json.loads(ask("prompt", "main:greet", "--json").stdout)
    assert filled["messages"][0]["content"]["text"] == "Good morning."


def test_mistakes_have_their_exit_codes(ask: Any) -> None:
    assert ask("prompt", "review", "title").exit_code == 2
    assert ask("prompt", "main:review").exit_code == 1
    assert ask("read", "other://x").exit_code == 4
    assert ask("read", "library://main/catalogue", "--server", "nosuch").exit_code == 4


def test_denied_resources_are_neither_listed_nor_read(toolcrib: Any, tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    main = "".join(f"{key} = {json.dumps(value)}\n" for key, value in library("main").items())
    covers = '{name = "no covers", tools = ["main:library://main/cover"], effect = "deny"}'
    config.write_text(f'policy = [{covers}, {{name = "the rest", effect = "allow"}}]\n[servers.main]\n{main}')
    listed = json.loads(toolcrib("resources", "--json", "--config", str(config)).stdout)["resources"]
    assert [each["uri"] for each in listed] == ["library://main/catalogue"]
    refused = toolcrib("read", "library://main/cover", "--server", "main", "--config", str(config))
    assert refused.exit_code != 0
    assert "no covers" in refused.stderr
