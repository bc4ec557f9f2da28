"""The verb `exec`."""

import json
from pathlib import Path
from typing import Any

import pytest

CODE = 'print("working")\n__out = await math.evaluate(expression="6 * 7")\n'


def test_what_code_prints_comes_before_its_value(toolcrib: Any) -> None:
    Path("job.py").write_text(CODE)
    ran = toolcrib("exec", "job.py", "--demo")
    assert ran.exit_code == 0
    assert ran.stdout == "working\n42.0\n"


def test_code_as_json_holds_the_calls(toolcrib: Any) -> None:
    ran = json.loads(toolcrib("exec", "-", "--demo", "--json", stdin=CODE).stdout)
    assert [ran["value"], ran["stdout"]] == [42.0, "working\n"]
    assert [call["toolId"] for call in ran["toolCalls"]] == ["math:evaluate"]


def test_code_may_be_an_argument(toolcrib: Any) -> None:
    assert toolcrib("exec", "-c", CODE, "--demo").stdout == "working\n42.0\n"


@pytest.mark.parametrize("asked", [(), ("job.py", "-c", "x = 1")], ids=["nothing", "both"])
def test_code_is_given_in_one_place(toolcrib: Any, asked: tuple[str, ...]) -> None:
    ran = toolcrib("exec", *asked, "--demo")
    assert ran.exit_code == 2
    assert "-c CODE" in ran.stderr


def test_a_null_value_is_in_the_json_of_code(toolcrib: Any) -> None:
    ran = json.loads(toolcrib("exec", "-c", "__out = None", "--demo", "--json").stdout)
    assert ran["value"] is None


def test_code_without_a_value_prints_none(toolcrib: Any) -> None:
    ran = toolcrib("exec", "-", "--demo", stdin="x = 1")
    assert ran.stdout == ""
    assert ran.stderr.startswith("note: the code left nothing in `__out`")


def test_what_code_says_on_standard_error_comes_out_there(toolcrib: Any) -> None:
    ran = toolcrib("exec", "-", "--demo", stdin='import sys\nprint("oh \\x1b", file=sys.stderr)\n__out = 1')
    assert [ran.stdout, ran.stderr] == ["1\n", "oh \ufffd\n"]


def test_code_that_raises_exits_with_1(toolcrib: Any) -> None:
    ran = toolcrib("exec", "-", "--demo", "--json", stdin="1 / 0")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"]["code"] == "execution_failed"


def test_code_that_runs_too_long_exits_with_1(toolcrib: Any) -> None:
    ran = toolcrib("exec", "-", "--demo", "--timeout", "1", stdin="while True:\n    pass\n")
    assert ran.exit_code == 1
    assert "limit 'timeout' exceeded" in ran.stderr


def test_bad_requests_exit_with_2(toolcrib: Any) -> None:
    assert toolcrib("exec", "nosuch.py", "--demo").exit_code == 2
    assert toolcrib("exec", "-", "--demo", stdin="  ").exit_code == 2
    assert toolcrib("exec", "-", "--demo", "--profile", "soft", stdin="x = 1").exit_code == 2


def test_a_sandbox_that_is_not_here_says_what_there_is(toolcrib: Any) -> None:
    ran = toolcrib("exec", "-", "--demo", "--backend", "nosuch", stdin="x = 1")
    assert ran.exit_code == 2
    assert "there is no sandbox 'nosuch'; there are monty, process, unsafe" in ran.stderr
