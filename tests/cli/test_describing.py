"""The verb `describe`."""

import json
from typing import Any

import pytest


def test_a_description_shows_how_the_tool_is_called(toolcrib: Any) -> None:
    told = toolcrib("describe", "text:count_words", "--demo")
    assert told.exit_code == 0
    assert told.stdout.startswith("text:count_words\nCount the characters, words and lines of a text")
    assert "count_words(text, top?) -> object" in told.stdout
    rows = [line.split(maxsplit=3) for line in told.stdout.splitlines()]
    assert ["text", "string", "required", "what to look at."] in rows
    assert ["top", "integer", "5", "how many of the frequent words to name."] in rows
    assert "Hints: only reads; stays within its own data." in told.stdout


def test_a_description_shows_examples_that_can_be_run(toolcrib: Any) -> None:
    told = toolcrib("describe", "notes:add", "--demo").stdout
    assert 'toolcrib run notes:add --args \'{"text": "return the drill"}\'' in told
    assert "#=> the note with its number" in told
    assert "Notes\nNotes last as long as the process" in told


def test_a_destructive_tool_is_told(toolcrib: Any) -> None:
    assert "may destroy something" in toolcrib("describe", "notes:delete_all", "--demo").stdout


@pytest.mark.parametrize(
    ("level", "fields"),
    [
        ("summary", {"summary"}),
        ("schema", {"summary", "tool", "schemaInfo"}),
        ("full", {"summary", "tool", "schemaInfo", "examples"}),
    ],
)
def test_each_level_tells_more(toolcrib: Any, level: str, fields: set[str]) -> None:
    told = json.loads(toolcrib("describe", "math:evaluate", "--demo", "--json", "--level", level).stdout)
    assert fields == told.keys() & {"summary", "tool", "schemaInfo", "examples"}


def test_a_summary_needs_no_schema(toolcrib: Any) -> None:
    told = toolcrib("describe", "math:evaluate", "--demo", "--level", "summary").stdout
    assert told.startswith("math:evaluate\nWork out an arithmetic expression")
    assert "Parameters" not in told


def test_a_tool_that_is_not_there_comes_with_the_one_that_may_be_meant(toolcrib: Any) -> None:
    told = toolcrib("describe", "math:evaluat", "--demo")
    assert told.exit_code == 3
    assert told.stdout == ""
    assert told.stderr == "error: no tool named 'math:evaluat'; did you mean 'math:evaluate'?\n"


@pytest.mark.parametrize("verb", ["describe", "run"])
def test_a_namespace_in_the_place_of_a_tool_is_recognised(toolcrib: Any, verb: str) -> None:
    told = toolcrib(verb, "time", "--demo")
    assert told.exit_code == 3
    assert told.stderr.startswith(
        "error: no tool named 'time'; it is a namespace, whose tools `toolcrib list --namespace time` lists"
    )


def test_a_tool_of_a_server_that_is_down_is_unavailable(toolcrib: Any, config: Any, little: Any) -> None:
    assert toolcrib("describe", "bad:tool", "--config", config(bad=little("fail"))).exit_code == 4


@pytest.mark.parametrize(
    "args",
    [["describe", "h:hostile"], ["list", "--all"], ["describe", "h:hostile", "--json"], ["search", "danger"]],
    ids=["describe", "list", "json", "search"],
)
def test_text_of_a_server_cannot_control_the_terminal(
    toolcrib: Any, config: Any, talker: Any, args: list[str]
) -> None:
    told = toolcrib(*args, "--config", config(h=talker))
    assert told.exit_code == 0
    assert "anger" in told.stdout
    assert not set("\x1b\x07\x9b\u202e") & set(told.stdout)


def test_schemas_are_shown_in_a_word_or_two(toolcrib: Any, config: Any, talker: Any) -> None:
    told = toolcrib("describe", "h:hostile", "--config", config(h=talker)).stdout
    rows = {line.split("  ")[0]: " ".join(line.split()[1:]) for line in told.splitlines()}
    assert {name: rows[name] for name in "bcdefg"} == {
        "b": "any",
        "c": "string | integer | null",
        "d": "array of any",
        "e": '"x" | 1',
        "f": "part",
        "g": 'string "it"',
    }
    assert "Hints" not in told
    bare = toolcrib("describe", "h:bare", "--config", config(h=talker))
    assert bare.exit_code == 3
    assert "no tool named 'h:bare'" in bare.stderr


def test_nested_properties_are_indented_under_their_object(toolcrib: Any, config: Any, talker: Any) -> None:
    told = toolcrib("describe", "h:order", "--config", config(h=talker)).stdout
    rows = [line.rstrip() for line in told.partition("DESCRIPTION\n")[2].splitlines()]
    assert [" ".join(row.split()) for row in rows[:8]] == [
        "to person required Who gets it.",
        "name string required",
        "home object",
        "street string",
        "city object",
        "zip object",
        "items array of object",
        "sku string required",
    ]
    assert [len(row) - len(row.lstrip()) for row in rows[:8]] == [0, 2, 2, 4, 4, 6, 0, 2]
    assert "beyond" not in told


def test_many_parameters_are_cut(toolcrib: Any, config: Any, talker: Any) -> None:
    told = toolcrib("describe", "h:wide", "--config", config(h=talker))
    assert [told.stdout.count("\np"), told.stderr] == [
        40,
        "note: there are more; --json has the whole schema\n",
    ]


def test_a_name_alone_is_enough_where_one_tool_has_it(toolcrib: Any, config: Any, little: Any) -> None:
    assert toolcrib("describe", "count_words", "--demo").stdout.startswith("text:count_words\n")
    assert toolcrib("describe", "count_wrds", "--demo").exit_code == 3
    several = toolcrib("describe", "shout", "--config", config(a=little(), b=little()))
    assert several.exit_code == 3
    assert "did you mean 'a:shout' or 'b:shout'?" in several.stderr


def test_a_name_alone_is_enough_for_every_verb(toolcrib: Any) -> None:
    assert toolcrib("run", "evaluate", "expression=1+1", "--demo").stdout == "2.0\n"
    assert "evaluate" in toolcrib("stubs", "evaluate", "--demo").stdout
    assert len(json.loads(toolcrib("convert", "--to", "mcp", "evaluate", "--demo").stdout)) == 1
    assert toolcrib("lint", "evaluate", "--demo").stdout.startswith("1 tool: ")
