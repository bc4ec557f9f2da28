"""The command `shape`, which writes how a toolset presents a tool to its callers."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from servers.launch import shifting

FILE = """# mine
[toolsets.team]
description = "Ours"  # kept
"""


@pytest.fixture(autouse=True)
def file(talker: dict[str, Any]) -> Path:
    path = Path("toolcrib.toml")
    server = (
        f"[servers.talk]\ncommand = {json.dumps(talker['command'])}\nargs = {json.dumps(talker['args'])}\n"
    )
    path.write_text(f"{FILE}\n{server}")
    return path


def shapes(file: Path) -> Any:
    return tomllib.loads(file.read_text())["toolsets"]["team"].get("tools", {})


def test_a_shape_is_written_added_to_and_taken_back(toolcrib: Any, file: Path) -> None:
    made = toolcrib("shape", "team", "talk:count", "--name", "tally", "--pin")
    assert made.exit_code == 0, made.stderr
    assert "toolset 'team' shows talk:count as the shape in" in made.stdout
    assert shapes(file) == {"talk:count": {"name": "tally", "pin": True}}
    assert toolcrib("shape", "team", "talk:count", "--description", "Count.", "--no-pin").exit_code == 0
    assert shapes(file) == {"talk:count": {"name": "tally", "description": "Count."}}
    listed = json.loads(toolcrib("list", "--toolset", "team", "--json").stdout)
    assert "talk:tally" in [each["id"] for each in listed["tools"]]
    assert toolcrib("shape", "team", "talk:count", "--remove").exit_code == 0
    assert shapes(file) == {}
    assert "# mine" in file.read_text()
    assert "# kept" in file.read_text()


def test_parameters_are_shaped_by_their_own_names(toolcrib: Any, file: Path) -> None:
    args = ("--rename", "g=greeting", "--fix", 'b={"x": 1}', "--fix", "c=some text", "--default", "e=1")
    made = toolcrib(
        "shape", "team", "talk:hostile", *args, "--hide", "d", "--describe", "g=A word.", "--json"
    )
    assert made.exit_code == 0, made.stderr
    written = {
        "rename": {"g": "greeting"},
        "describe": {"g": "A word."},
        "hide": ["d"],
        "fix": {"b": {"x": 1}, "c": "some text"},
        "defaults": {"e": 1},
    }
    assert shapes(file)["talk:hostile"] == written
    assert json.loads(made.stdout)["shape"] == written


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("team", "talk:hostile", "--hide", "zebra"), 2, "'zebra' is not a parameter"),
        (("team", "talk:hostile", "--fix", "e=9"), 2, "/fix/e: must be one of 'x', 1, not 9"),
        (("team", "talk:hostile", "--fix", "e"), 2, "there is no '='"),
        (("team", "talk:hostile"), 2, "give at least one change"),
        (("temn", "talk:hostile", "--pin"), 3, "did you mean 'team'?"),
        (("team", "talk:hostile", "--remove"), 3, "no shape"),
        (("team", "talk:count", "--name", "no name"), 2, "'no name'"),
        (("team", "talk:count", "--name", "hostile"), 2, "would both be called 'talk:hostile'"),
    ],
)
def test_invalid_shape_is_refused_and_nothing_is_written(
    toolcrib: Any, file: Path, args: tuple[str, ...], code: int, text: str
) -> None:
    before = file.read_text()
    told = toolcrib("shape", *args)
    assert (told.exit_code, text in told.stderr) == (code, True), told.stderr
    assert file.read_text() == before


def test_a_dry_run_shows_the_change_alone(toolcrib: Any, file: Path) -> None:
    before = file.read_text()
    told = toolcrib("shape", "team", "talk:count", "--name", "tally", "--dry-run")
    assert '+name = "tally"' in told.stdout
    assert file.read_text() == before


def test_shape_without_effect_is_told_with_the_tool_that_was_meant(toolcrib: Any, file: Path) -> None:
    unknown = toolcrib("shape", "team", "talk:cuont", "--name", "tally")
    assert unknown.exit_code == 0
    assert "no effect until there is such a tool" in unknown.stderr
    assert "talk:count" in unknown.stderr
    gone = toolcrib("shape", "team", "talk:coun", "--remove")
    assert gone.exit_code != 0
    assert "did you mean 'talk:cuont'" in gone.stderr
    file.write_text(file.read_text().replace('"Ours"', '"Ours"\nexclude = ["talk:count"]'))
    excluded = toolcrib("shape", "team", "talk:count", "--name", "sum")
    assert "talk:count is not in the toolset" in excluded.stderr


def test_values_are_read_by_the_types_of_parameters(toolcrib: Any, file: Path, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string"}, "count": {"type": "integer"}}}
    said = tmp_path / "said.json"
    said.write_text(json.dumps({"tools": [{"name": "typed", "inputSchema": schema}]}))
    server = shifting(said)
    file.write_text(
        f"{FILE}\n[servers.it]\ncommand = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n"
    )
    for option, table in (("--default", "defaults"), ("--fix", "fix")):
        made = toolcrib("shape", "team", "it:typed", option, "code=12345", option, "count=3")
        assert made.exit_code == 0, made.stderr
        assert shapes(file)["it:typed"] == {table: {"code": "12345", "count": 3}}
        assert toolcrib("shape", "team", "it:typed", "--remove").exit_code == 0
        for given, problem in (("code=[1]", "code"), ("count=many", "count: must be an integer, not 'many'")):
            refused = toolcrib("shape", "team", "it:typed", option, given)
            if given == "code=[1]":  # a text, since the tool asks for one
                assert refused.exit_code == 0
                assert toolcrib("shape", "team", "it:typed", "--remove").exit_code == 0
            else:
                assert (refused.exit_code, f"/{table}/{problem}" in refused.stderr) == (2, True), (
                    refused.stderr
                )


def test_name_that_another_shape_needs_is_refused(toolcrib: Any, file: Path) -> None:
    assert toolcrib("shape", "team", "talk:count", "--name", "tally").exit_code == 0
    assert toolcrib("shape", "team", "talk:hostile", "--name", "count").exit_code == 0, "the name is free"
    before = file.read_text()
    told = toolcrib("shape", "team", "talk:hostile", "--name", "tally")
    assert told.exit_code == 2
    assert "would have the same name" in told.stderr
    taken_back = toolcrib("shape", "team", "talk:count", "--name", "count")
    assert taken_back.exit_code == 2
    assert file.read_text() == before
