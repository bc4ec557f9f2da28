"""The verb `enrich`, with a real server of a model."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from discovery.search.semantic.server import Book, Handler, hangs, says, serving
from servers.launch import command, little
from waiting import wait_until

from toolcrib.cli.commands.enriching import _find_key
from toolcrib.discovery.chat import ChatFormat

TOOLS = 5


def writes(handler: Handler, request: dict[str, Any], tokens: int = 100) -> None:
    tool = json.loads(request["messages"][-1]["content"])
    written = {
        "when_to_use": f"To {tool['name']}.",
        "tags": ["little"],
        "questions": [f"please {tool['description']}", f"can you {tool['name']} for me", "the same again"],
    }
    message = {"message": {"content": json.dumps(written)}, "finish_reason": "stop"}
    usage = {"prompt_tokens": tokens - 10, "completion_tokens": 10}
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


def names_in_requests(server: Book) -> list[str]:
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
    assert cut.stderr == f"note: the budget does not cover {told}; the same command continues\n"
    assert json.loads(toolcrib(*args, "--json").stdout)["left"] == 0
    assert len(names_in_requests(server)) == len(set(names_in_requests(server))) == TOOLS


@pytest.fixture
def two_servers(tmp_path: Path, config: str) -> str:
    """Write a configuration of two little servers, with a toolset that shows a tool of one by another name."""
    run, path = little(), tmp_path / "two.toml"
    lines = [
        "[servers.other]",
        f"command = {json.dumps(run['command'])}",
        f"args = {json.dumps(run['args'])}",
    ]
    few = ["[toolsets.few]", 'ids = ["little:shout"]', '[toolsets.few.tools."little:shout"]', 'name = "cry"']
    path.write_text("\n".join([Path(config).read_text(encoding="utf-8"), *lines, *few]), encoding="utf-8")
    return str(path)


def test_namespace_and_toolset_limit_what_is_asked_about_and_deleted(
    toolcrib: Any, two_servers: str, server: Book
) -> None:
    args = ("--config", two_servers, "enrich", "--model", "small", "--url", server.url, "--json")
    few = ("--config", two_servers, "--toolset", "few", *args[2:])
    assert json.loads(toolcrib(*few).stdout)["written"] == ["little:shout"]
    assert toolcrib(*few, "little:shout").exit_code == 3  # its own name is not shown in the toolset
    assert len(json.loads(toolcrib(*args).stdout)["written"]) == 2 * TOOLS - 1
    assert toolcrib(*args, "--forget", "--namespace", "litle").exit_code == 3
    assert json.loads(toolcrib(*args, "--forget", "--namespace", "other").stdout) == {"forgotten": TOOLS}
    assert json.loads(toolcrib(*few, "--forget", "little:cry").stdout) == {"forgotten": 1}
    assert json.loads(toolcrib(*few, "--forget").stdout) == {"forgotten": 0}
    assert json.loads(toolcrib(*args, "--forget").stdout) == {"forgotten": TOOLS - 1}


def test_missing_namespace_is_an_error_with_the_similar_one(toolcrib: Any, config: str) -> None:
    failed = toolcrib("--config", config, "enrich", "--dry-run", "--namespace", "litle")
    assert failed.exit_code == 3
    assert "there is no namespace 'litle'; did you mean 'little'?" in failed.stderr


def test_server_that_fails_is_told(toolcrib: Any, tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('store = "catalogue.db"\n[servers.gone]\ncommand = "no-such-program"', encoding="utf-8")
    shown = toolcrib("--config", str(path), "enrich", "--dry-run")
    assert "server 'gone'" in shown.stderr
    assert "its tools are missing" in shown.stderr


def test_catalogue_that_is_not_stored_is_refused_before_any_request(
    toolcrib: Any, config: str, server: Book
) -> None:
    text = Path(config).read_text(encoding="utf-8").replace("catalogue.db", "memory")
    Path(config).write_text(text, encoding="utf-8")
    refused = toolcrib("--config", config, "enrich", "--model", "small", "--url", server.url)
    assert refused.exit_code == 2
    assert "would be lost" in refused.stderr
    assert server.requests == []
    assert toolcrib("--config", config, "enrich", "--dry-run").exit_code == 0


def test_budget_that_the_server_counts_beyond_is_told(toolcrib: Any, config: str, server: Book) -> None:
    server.usual = lambda handler, request: writes(handler, request, tokens=50_000)
    args = ("--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1")
    told = toolcrib(*args, "--budget", "20000").stderr
    assert "30,000 tokens more than the budget: the server counts more than was estimated" in told
    assert "does not cover 4 more tools" in told


def test_interrupt_says_how_many_are_done(config: str, server: Book) -> None:
    server.will(writes, writes, hangs)
    args = ["--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1"]
    with subprocess.Popen(
        [*command(), *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: len(server.requests) == 3)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130
    assert "2 of 5 tools are done; the same command continues" in told


def test_refusal_of_the_model_is_an_error(toolcrib: Any, config: str, server: Book) -> None:
    server.will(writes, writes)
    server.usual = says(401, '{"error": "who are you"}')
    args = ("--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1")
    failed = toolcrib(*args)
    assert failed.exit_code == 1
    assert failed.stderr.startswith("note: 2 of 5 tools are done; the same command continues\n")
    assert "HTTP 401: who are you; check the API key" in failed.stderr


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--dry-run", "--forget"),
        ("--model", "m", "--key-env", "TOOLCRIB_NOT_SET"),
        ("--model", "m", "--key-env", "PATH", "--url", "http://models.example/v1"),
        ("--model", "m", "--url", "http://[models.example/v1"),
    ],
    ids=["no model", "both", "no key", "key in the clear", "no address"],
)
def test_wrong_options_are_refused(toolcrib: Any, config: str, args: tuple[str, ...]) -> None:
    assert toolcrib("--config", config, "enrich", *args).exit_code == 2


@pytest.mark.parametrize(
    ("form", "url", "named", "is_sent"),
    [
        ("openai", None, None, True),
        ("anthropic", "https://api.anthropic.com/v1/", None, True),
        ("openai", "http://127.0.0.1:11434/v1", None, True),
        ("openai", "http://api.openai.com/v1", None, False),
        ("openai", "https://api.openai.com.models.example/v1", None, False),
        ("openai", "https://api.openai.com@models.example/v1", None, False),
        ("anthropic", "https://api.openai.com/v1", None, False),
        ("openai", "https://models.example/v1", "OPENAI_API_KEY", True),
    ],
)
def test_key_goes_to_its_own_service_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, form: ChatFormat, url: str | None, named: str | None, is_sent: bool
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "a-key")
    assert _find_key(form, url, named) == ("a-key" if is_sent else None)


def test_kill_in_the_middle_loses_nothing_that_was_written(toolcrib: Any, config: str, server: Book) -> None:
    server.will(writes, writes, hangs)
    args = ["--config", config, "enrich", "--model", "small", "--url", server.url, "--parallel", "1"]
    with subprocess.Popen(
        [*command(), *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: len(server.requests) == 3)
        process.kill()
    assert json.loads(toolcrib(*args, "--json").stdout)["left"] == 0
    asked = names_in_requests(server)
    assert len(asked) == TOOLS + 1
    assert [name for name in asked if asked.count(name) > 1] == [asked[2]] * 2
