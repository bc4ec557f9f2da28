"""The verb `enrich`, with a real server of a model."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from discovery.search.semantic.server import Book, Handler, hangs, says, serving
from servers.launch import command, little
from waiting import wait_until

TOOLS = 5


def writes(handler: Handler, request: dict[str, Any]) -> None:
    tool = json.loads(request["messages"][-1]["content"])
    written = {
        "when_to_use": f"To {tool['name']}.",
        "tags": ["little"],
        "questions": [f"please {tool['description']}", f"can you {tool['name']} for me", "the same again"],
    }
    message = {"message": {"content": json.dumps(written)}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 90, "completion_tokens": 10}
    handler.reply(200, json.dumps({"choices": [message], "usage": usage}))


@pytest.fixture
def server() -> Iterator[Book]:
    with serving() as book:
        book.usual = writes
        yield book


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Write a configuration of a little server, whose catalogue is kept in a file."""
    run = little()
    path = tmp_path / "toolcrib.toml"
    lines = ['store = "catalogue.db"', "[servers.little]", f"command = {json.dumps(run['command'])}"]
    path.write_text("\n".join([*lines, f"args = {json.dumps(run['args'])}"]), encoding="utf-8")
    return str(path)


def asked_about(server: Book) -> list[str]:
    return [json.loads(request["messages"][-1]["content"])["name"] for _, _, request in server.requests]


def test_model_writes_about_every_tool_once(toolcrib: Any, config: str, server: Book) -> None:
    args = ("--config", config, "enrich", "--model", "small", "--url", server.url)
    first = toolcrib(*args)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.startswith(f"wrote about {TOOLS} tools: ")
    assert first.stdout.endswith("500 tokens\n")
    again = json.loads(toolcrib(*args, "--json").stdout)
    assert (again["left"], again["tokens"], again.get("written", [])) == (0, 0, [])
    assert len(server.requests) == TOOLS
    shown = toolcrib("--config", config, "describe", "little:shout", "--level", "full").stdout
    assert "When to use it\n  To shout.\n" in shown
    assert "  can you shout for me\n" in shown
    forgotten = toolcrib("--config", config, "enrich", "--forget", "little:shout")
    assert forgotten.stderr == "note: deleted what was written about 1 tool\n"
    assert (
        "To shout." not in toolcrib("--config", config, "describe", "little:shout", "--level", "full").stdout
    )


def test_dry_run_shows_the_prompts_and_sends_nothing(toolcrib: Any, config: str, server: Book) -> None:
    shown = toolcrib("--config", config, "enrich", "--dry-run", "little:shout", "--url", server.url)
    assert "little:shout" in shown.stdout
    assert "Write a text in capital letters." in shown.stdout
    assert shown.stderr == "note: 1 prompt; nothing was sent\n"
    found = json.loads(toolcrib("--config", config, "enrich", "--dry-run", "--json").stdout)
    assert len(found["prompts"]) == TOOLS
    assert "data" in found["system"]
    assert server.requests == []


def test_budget_that_is_used_up_is_told_and_the_same_command_goes_on(
    toolcrib: Any, config: str, server: Book
) -> None:
    args = ("--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1")
    cut = toolcrib(*args, "--budget", "1900")
    assert cut.exit_code == 0
    done = len(server.requests)
    assert 0 < done < TOOLS
    left = TOOLS - done
    told = f"{left} more tool{'s' * (left > 1)}"
    assert cut.stderr == f"note: the budget is not enough for {told}; the same command goes on\n"
    assert json.loads(toolcrib(*args, "--json").stdout)["left"] == 0
    assert len(asked_about(server)) == len(set(asked_about(server))) == TOOLS


def test_refusal_of_the_model_is_an_error(toolcrib: Any, config: str, server: Book) -> None:
    server.will(writes, writes)
    server.usual = says(401, '{"error": "who are you"}')
    args = ("--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1")
    failed = toolcrib(*args)
    assert failed.exit_code == 1
    assert failed.stderr.startswith("note: 2 of 5 tools are done; the same command goes on\n")
    assert "HTTP 401: who are you; check the API key" in failed.stderr


@pytest.mark.parametrize(
    "args",
    [(), ("--dry-run", "--forget"), ("--model", "m", "--key-env", "TOOLCRIB_NOT_SET")],
    ids=["no model", "both", "no key"],
)
def test_wrong_options_are_refused(toolcrib: Any, config: str, args: tuple[str, ...]) -> None:
    assert toolcrib("--config", config, "enrich", *args).exit_code == 2


def test_kill_in_the_middle_loses_nothing_that_was_written(toolcrib: Any, config: str, server: Book) -> None:
    server.will(writes, writes, hangs)
    args = ["--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1"]
    with subprocess.Popen(
        [*command(), *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: len(server.requests) == 3)
        process.kill()
    assert json.loads(toolcrib(*args, "--json").stdout)["left"] == 0
    asked = asked_about(server)
    assert len(asked) == TOOLS + 1
    assert [name for name in asked if asked.count(name) > 1] == [asked[2]] * 2
