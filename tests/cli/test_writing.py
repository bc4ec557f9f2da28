"""The verbs `convert` and `stubs`."""

import json
from typing import Any

import pytest


def test_tools_are_written_for_a_provider(toolcrib: Any) -> None:
    written = toolcrib("convert", "--to", "openai", "--strict", "math:evaluate", "--demo")
    assert written.exit_code == 0
    (tool,) = json.loads(written.stdout)
    assert [tool["function"]["name"], tool["function"]["strict"]] == ["evaluate", True]
    assert "note: math:evaluate: definition /outputSchema" in written.stderr


@pytest.mark.parametrize("target", ["openai", "anthropic", "gemini", "mcp", "a2a"])
def test_convert_notes_do_not_speak_of_our_own_fields(
    toolcrib: Any, config: Any, little: Any, target: str
) -> None:
    written = toolcrib("convert", "--to", target, "a:shout", "--config", config(a=little()))
    assert written.exit_code == 0
    for field in ("backend", "namespace", "tags", "version"):
        assert f"/{field}," not in written.stderr
    shown = toolcrib("convert", "--to", target, "a:shout", "--config", config(a=little()), "--json")
    assert "backend" in {each["feature"] for each in json.loads(shown.stdout)["tools"][0]["warnings"]}


def test_all_tools_are_written_where_none_is_named(toolcrib: Any) -> None:
    written = toolcrib("convert", "--to", "anthropic", "--demo")
    assert len(json.loads(written.stdout)) == 12
    assert "more; --json has them all" in written.stderr


def test_losses_are_part_of_the_json(toolcrib: Any) -> None:
    written = json.loads(toolcrib("convert", "--to", "gemini", "math:evaluate", "--demo", "--json").stdout)
    (tool,) = written["tools"]
    assert tool["id"] == "math:evaluate"
    assert {"feature", "path", "message", "part"} == tool["warnings"][0].keys()


def test_a_format_takes_its_own_options(toolcrib: Any) -> None:
    options = ("--option", "api=responses", "--option", "defer-loading=true")
    written = toolcrib("convert", "--to", "openai", *options, "math:evaluate", "--demo")
    assert json.loads(written.stdout)[0]["defer_loading"] is True


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--to", "opanai"], 2, "error: there is no format 'opanai'; did you mean 'openai'?"),
        (["--to", "openai", "--option", "api=soap"], 2, "api"),
        (["--to", "openai", "--option", "api"], 2, "--option takes NAME=VALUE, not 'api'"),
        (["--to", "openai", "math:evaluat"], 3, "did you mean 'math:evaluate'?"),
        ([], 2, "Missing option '--to'"),
    ],
    ids=["format", "option", "pair", "tool", "missing"],
)
def test_tool_that_cannot_be_converted_is_reported(
    toolcrib: Any, args: list[str], code: int, message: str
) -> None:
    written = toolcrib("convert", *args, "--demo")
    assert written.exit_code == code
    assert message in written.stderr
    told = toolcrib("convert", *args, "--demo", "--json")
    assert told.exit_code == code
    assert "error" in json.loads(told.stdout)


def test_stubs_are_python(toolcrib: Any) -> None:
    written = toolcrib("stubs", "--namespace", "math", "--demo").stdout
    compile(written, "stubs.pyi", "exec")
    assert "async def evaluate(self, expression: str) -> float:" in written
    assert "make_slug" not in written


def test_stubs_of_a_namespace_that_is_not_there_say_so(toolcrib: Any) -> None:
    written = toolcrib("stubs", "--namespace", "mth", "--demo")
    assert written.stderr == "note: there is no namespace 'mth'; did you mean 'math'?\n"


def test_stubs_of_named_tools_alone(toolcrib: Any) -> None:
    written = json.loads(toolcrib("stubs", "text:make_slug", "--demo", "--json").stdout)["stubs"]
    assert "make_slug" in written
    assert "count_words" not in written
    assert toolcrib("stubs", "text:nosuch", "--demo").exit_code == 3


def test_stubs_keep_to_a_budget(toolcrib: Any) -> None:
    whole = toolcrib("stubs", "--demo").stdout
    assert len(toolcrib("stubs", "--demo", "--budget", "300").stdout) < len(whole)
