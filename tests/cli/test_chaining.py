"""The verb `chain`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

STEPS = [
    {"id": "sum", "toolId": "math:evaluate", "args": {"expression": "3 * 4"}},
    {"toolId": "notes:add", "args": {"text": "twelve"}, "when": {"$ref": "steps.sum", "equals": 12}},
]


@pytest.fixture
def steps(tmp_path: Path) -> Any:
    def write(value: Any, name: str = "chain.json") -> str:
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return str(path)

    return write


def test_the_final_value_and_each_step_are_told_apart(toolcrib: Any, steps: Any) -> None:
    plain = [STEPS[0], {"toolId": "notes:add", "args": {"text": "twelve"}}]
    ran = toolcrib("chain", steps(plain), "--demo")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout) == {"number": 1, "text": "twelve"}
    assert [line.split("  ")[:2] for line in ran.stderr.splitlines()] == [
        ["0. sum", "ok"],
        ["1. notes:add", "ok"],
    ]


def test_a_chain_as_json_holds_everything(toolcrib: Any, steps: Any) -> None:
    ran = json.loads(toolcrib("chain", steps({"steps": STEPS[:1]}), "--demo", "--json").stdout)
    assert ran["final"] == 12
    assert [step["toolId"] for step in ran["results"]] == ["math:evaluate"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.toml", '[[steps]]\ntoolId = "math:evaluate"\n[steps.args]\nexpression = "1 + 1"\n'),
        ("c.yaml", "- toolId: math:evaluate\n  args: {expression: 1 + 1}\n"),
    ],
    ids=["toml", "yaml"],
)
def test_a_chain_may_be_written_in_other_ways(toolcrib: Any, steps: Any, name: str, text: str) -> None:
    assert toolcrib("chain", steps(text, name), "--demo").stdout == "2.0\n"


def test_yaml_reader_comes_with_the_command(root: Path) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(each.startswith("pyyaml") for each in extras["cli"])


def test_a_chain_may_come_from_standard_input(toolcrib: Any) -> None:
    assert toolcrib("chain", "-", "--demo", stdin=json.dumps(STEPS[:1])).stdout == "12.0\n"


def test_a_dry_run_does_nothing_and_says_what_would_be_done(toolcrib: Any, steps: Any) -> None:
    wide = [
        {"id": "both", "parallel": [STEPS[0], {"toolId": "notes:delete_all"}]},
        {"toolId": "math:evaluate", "forEach": ["1", "2"], "args": {"expression": {"$ref": "item"}}},
    ]
    planned = toolcrib("chain", steps(wide), "--dry-run", "--demo")
    assert planned.exit_code == 0
    assert "side by side" in planned.stdout
    assert "math:evaluate for each item" in planned.stdout
    assert "these may destroy something: notes:delete_all" in planned.stderr
    told = json.loads(toolcrib("chain", steps(wide), "--dry-run", "--demo", "--json").stdout)
    assert told["destructive"] == ["notes:delete_all"]
    assert told["readOnly"] is False


def test_a_dry_run_of_reading_tools_says_that_nothing_changes(toolcrib: Any, steps: Any) -> None:
    assert "It changes nothing." in toolcrib("chain", steps(STEPS[:1]), "--dry-run", "--demo").stdout


def test_a_step_that_fails_ends_the_chain_with_what_was_done(toolcrib: Any, steps: Any) -> None:
    broken = [STEPS[0], {"toolId": "math:evaluate", "args": {"expression": "1/0"}}]
    ran = toolcrib("chain", steps(broken), "--demo")
    assert ran.exit_code == 1
    assert "0. sum  ok" in ran.stderr
    assert "1. math:evaluate  failed" in ran.stderr
    assert "error: step /1 failed: " in ran.stderr
    told = toolcrib("chain", steps(broken), "--demo", "--json")
    assert told.exit_code == 1
    said = json.loads(told.stdout)
    assert said["error"]["step_index"] == 1
    assert [step.get("structured") for step in said["results"]] == [12.0, None]


def test_a_chain_exits_as_the_step_that_failed_would(
    toolcrib: Any, steps: Any, config: Any, little: Any
) -> None:
    needs = [{"toolId": "bad:shout", "args": {"text": "a"}}]
    ran = toolcrib("chain", steps(needs), "--config", config(bad=little("fail")), "--json")
    assert ran.exit_code == 4
    assert json.loads(ran.stdout)["error"]["details"]["stderr"] == "the licence has expired"
    assert toolcrib("chain", steps([{"toolId": "math:nosuch"}]), "--demo").exit_code == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.json", "{", "c.json is not JSON: "),
        ("c.toml", "=", "c.toml is not TOML: "),
        ("c.yml", "[", "c.yml is not YML: "),
        ("c.json", '"text"', "the chain cannot run: "),
        ("c.json", "[{}]", "the chain cannot run: "),
        ("c.json", "[]", "c.json has no steps"),
        ("c.json", '{"steps": []}', "c.json has no steps"),
    ],
    ids=["json", "toml", "yaml", "text", "step", "none", "empty"],
)
def test_a_bad_chain_exits_with_2(toolcrib: Any, steps: Any, name: str, text: str, message: str) -> None:
    ran = toolcrib("chain", steps(text, name), "--demo")
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert toolcrib("chain", steps(text, name), "--demo", "--json").exit_code == 2


def test_a_chain_that_is_not_there_exits_with_2(toolcrib: Any) -> None:
    assert toolcrib("chain", "nosuch.json", "--demo").exit_code == 2
