"""The verb `run`."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.commands.running import show_value


def test_a_value_is_printed_as_json(toolcrib: Any) -> None:
    ran = toolcrib("run", "text:count_words", "text=to be or not to be", "top=1", "--demo")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout) == {"characters": 18, "words": 6, "lines": 1, "frequent": ["to"]}


def test_text_is_printed_as_it_is(toolcrib: Any) -> None:
    assert toolcrib("run", "text:make_slug", "title=A & B", "--demo").stdout == "a-b\n"


def test_a_result_as_json_says_where_it_came_from(toolcrib: Any) -> None:
    ran = json.loads(toolcrib("--json", "run", "math:evaluate", "expression=6*7", "--demo").stdout)
    assert ran.pop("duration") >= 0
    assert ran == {
        "toolId": "math:evaluate",
        "structured": 42.0,
        "backend": {"kind": "local", "name": "math:evaluate"},
    }


def test_arguments_come_as_json(toolcrib: Any) -> None:
    args = '{"numbers": [1, 2, 3]}'
    assert json.loads(toolcrib("run", "math:describe_numbers", "--args", args, "--demo").stdout)["mean"] == 2


def test_arguments_come_from_a_file(toolcrib: Any, tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{"expression": "1 + 1"}')
    assert toolcrib("run", "math:evaluate", "--args", f"@{file}", "--demo").stdout == "2.0\n"


def test_arguments_come_from_standard_input(toolcrib: Any) -> None:
    ran = toolcrib("run", "math:evaluate", "--args", "-", "--demo", stdin='{"expression": "2 + 1"}')
    assert ran.stdout == "3.0\n"


def test_pairs_stand_instead_of_what_the_json_says(toolcrib: Any) -> None:
    args = '{"text": "one", "top": 0}'
    ran = toolcrib("run", "text:count_words", "top=1", "--args", args, "--demo")
    assert json.loads(ran.stdout)["frequent"] == ["one"]


def test_a_pair_is_text_where_the_tool_asks_for_text(toolcrib: Any) -> None:
    assert json.loads(toolcrib("run", "notes:add", "text=42", "--demo").stdout)["text"] == "42"


def test_a_pair_is_the_text_of_a_file_after_an_at_sign(toolcrib: Any, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text('{"kept": "as text"}\n')
    ran = toolcrib("run", "notes:add", f"text=@{file}", "--demo")
    assert json.loads(ran.stdout)["text"] == '{"kept": "as text"}\n'
    assert json.loads(toolcrib("run", "notes:add", 'text="@alice"', "--demo").stdout)["text"] == "@alice"
    file.write_text("1")
    counted = toolcrib("run", "text:count_words", "text=one one two", f"top=@{file}", "--demo")
    assert json.loads(counted.stdout)["frequent"] == ["one"]
    failed = toolcrib("run", "notes:add", "text=@alice", "--demo")
    assert (failed.exit_code, "write it as JSON: '\"@alice\"'" in failed.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--args", "{"], "--args is not JSON: "),
        (["--args", "@nosuch.json"], "nosuch.json cannot be read: No such file or directory"),
        (["--args", "@\0"], "cannot be read: "),
        (["--args", "@latin.txt"], "latin.txt is not UTF-8 text"),
        (["--args", "[]", "a=1"], "--args must be a JSON object where there are KEY=VALUE pairs too"),
        (["expression"], "'expression' is not an argument; write key=value, or --args with JSON"),
        (["=1"], "'=1' is not an argument"),
        (["--timeout", "0", "expression=1"], "Invalid value for '--timeout'"),
        (["--args", "[1]"], "the arguments must be a JSON object, not list"),
        (["expresion=1"], "required property 'expression' is missing"),
        (["--args", "[" * 100_000], "--args is not JSON: "),
    ],
    ids=["json", "file", "nul", "encoding", "list", "pair", "nameless", "timeout", "array", "schema", "deep"],
)
def test_bad_input_is_told_and_exits_with_2(toolcrib: Any, args: list[str], message: str) -> None:
    Path("latin.txt").write_bytes(b"\xe4")
    ran = toolcrib("run", "math:evaluate", "--demo", *args)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert ran.stdout == ""


def test_a_tool_that_fails_exits_with_1(toolcrib: Any) -> None:
    ran = toolcrib("run", "math:evaluate", "expression=1/0", "--demo")
    assert ran.exit_code == 1
    assert "cannot work out '1/0': division by zero" in ran.stderr
    failed = toolcrib("run", "math:evaluate", "expression=1/0", "--demo", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["error"]["code"] == "execution_failed"
    assert failed.stderr == ""


def test_a_tool_that_is_not_there_exits_with_3(toolcrib: Any) -> None:
    ran = toolcrib("run", "math:evaluat", "--json", "--demo")
    assert ran.exit_code == 3
    said = json.loads(ran.stdout)["error"]
    assert said["code"] == "tool_not_found"
    assert said["details"]["suggestions"] == ["math:evaluate"]


def test_a_tool_of_an_unavailable_server_exits_with_4(toolcrib: Any, config: Any, little: Any) -> None:
    ran = toolcrib("run", "bad:shout", "text=a", "--config", config(bad=little("fail")))
    assert ran.exit_code == 4
    assert "the licence has expired" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_last_words_of_a_server_are_part_of_the_json(toolcrib: Any, config: Any, little: Any) -> None:
    ran = toolcrib("run", "bad:shout", "text=a", "--json", "--config", config(bad=little("fail")))
    assert json.loads(ran.stdout)["error"]["details"]["stderr"] == "the licence has expired"


def test_a_call_that_may_not_go_where_it_would_exits_with_5(toolcrib: Any, tmp_path: Path) -> None:
    get = {"operationId": "ping", "responses": {"200": {"description": "ok"}}}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/ping": {"get": get}}}
    (tmp_path / "api.json").write_text(json.dumps(document))
    path = tmp_path / "toolcrib.toml"
    path.write_text('[openapi.api]\ndocument = "api.json"\nbase_url = "http://127.0.0.1:9"\n')
    ran = toolcrib("run", "api:ping", "--config", str(path))
    assert ran.exit_code == 5
    assert "127.0.0.1" in ran.stderr
    told = json.loads(toolcrib("run", "api:ping", "--config", str(path), "--json").stdout)
    assert told["error"]["code"] == "denied"


def test_a_tool_that_takes_too_long_exits_with_1(toolcrib: Any, config: Any, little: Any) -> None:
    for seconds in ("0.5", "5", "50"):  # which a busy machine may need to start the server
        ran = toolcrib("run", "good:wait_long", "--timeout", seconds, "--config", config(good=little()))
        if ran.exit_code != 4:
            break
    assert ran.exit_code == 1
    assert f"did not finish within {seconds} s" in ran.stderr


def test_a_tool_of_a_real_server_runs(toolcrib: Any, config: Any, little: Any) -> None:
    ran = toolcrib("run", "good:shout", "text=hello", "--config", config(good=little()))
    assert json.loads(ran.stdout) == {"result": "HELLO"}


ONE_SERVER = (
    ("run", "b:get_pid"),
    ("run", "b:shout", "text=hello"),
    ("run", "b:get_pid", "--stream"),
    ("describe", "b:shout"),
    ("chain", "steps.json"),
    ("chain", "steps.json", "--dry-run"),
    ("code", "-c", "__out = await b.get_pid()"),
    ("stubs", "b:shout"),
    ("stubs", "--namespace", "b"),
    ("list", "--namespace", "b"),
    ("convert", "b:shout", "--to", "openai"),
)


@pytest.fixture
def noting(config: Any, little: Any, tmp_path: Path) -> tuple[str, Path]:
    """Return a configuration of four servers, and the file in which each notes that it was started."""
    started = tmp_path / "started"
    note = f'echo "$0" >> {shlex.quote(str(started))}; exec "$@"'

    def server(name: str) -> dict[str, Any]:
        made = little()
        return {"command": "/bin/sh", "args": ["-c", note, name, made["command"], *made["args"]]}

    Path("steps.json").write_text('[{"toolId": "b:get_pid"}]')
    return config(**{name: server(name) for name in "abcd"}), started


@pytest.mark.parametrize("args", ONE_SERVER, ids=" ".join)
def test_command_starts_only_the_server_of_the_tool_it_names(
    toolcrib: Any, noting: tuple[str, Path], args: tuple[str, ...]
) -> None:
    path, started = noting
    ran = toolcrib(*args, "--config", path)
    assert (ran.exit_code, started.read_text()) == (0, "b\n"), ran.output
    assert "has not answered" not in ran.stderr


def test_command_starts_only_the_server_of_a_tool_whose_catalogue_is_kept(
    toolcrib: Any, noting: tuple[str, Path]
) -> None:
    path, started = noting
    toolcrib("list", "--config", path)
    assert sorted(started.read_text().split()) == ["a", "b", "c", "d"]
    started.unlink()
    assert toolcrib("run", "c:get_pid", "--config", path).exit_code == 0
    assert toolcrib("run", "wait_long", "--timeout", "0.1", "--config", path).exit_code == 3  # four have one
    assert toolcrib("describe", "d:shout", "--config", path).exit_code == 0
    assert started.read_text().split() == ["c"]


def test_command_that_calls_no_tool_starts_no_server(toolcrib: Any, noting: tuple[str, Path]) -> None:
    path, started = noting
    for args in (["runs"], ["saved", "list"], ["run", "nosuch:tool"]):
        toolcrib(*args, "--config", path)
    assert not started.exists()


def test_a_stream_ends_with_the_value(toolcrib: Any) -> None:
    assert toolcrib("run", "text:make_slug", "title=A b", "--stream", "--demo").stdout == "a-b\n"
    told = json.loads(toolcrib("run", "text:make_slug", "title=A b", "--stream", "--demo", "--json").stdout)
    assert told["structured"] == "a-b"
    assert [event["kind"] for event in told["events"]][-1] == "done"


def test_progress_and_parts_of_a_real_server_are_shown(toolcrib: Any, config: Any, talker: Any) -> None:
    path = config(t=talker)
    shown = "counted\n[image image/png, 3 bytes; --json has them]\n"
    assert toolcrib("run", "t:count", "--config", path).stdout == shown
    streamed = toolcrib("run", "t:count", "--stream", "--config", path)
    assert streamed.stdout == shown
    assert streamed.stderr.splitlines()[-3:] == ["1/3 at 1", "2/3 at 2", "3/3 at 3"]
    told = json.loads(toolcrib("run", "t:count", "--stream", "--json", "--config", path).stdout)
    steps = [event["data"]["progress"] for event in told["events"] if event["kind"] == "progress"]
    assert steps[-3:] == [1, 2, 3]


def test_a_note_about_a_result_is_told(toolcrib: Any) -> None:
    ran = toolcrib("run", "text:count_words", "--args", '"{\\"text\\": \\"a\\"}"', "--demo")
    assert ran.exit_code == 0
    assert ran.stderr.startswith("note: ")


def test_a_stream_that_fails_exits_like_a_run(toolcrib: Any) -> None:
    assert toolcrib("run", "math:evaluate", "expression=x", "--stream", "--demo").exit_code == 1
    assert toolcrib("run", "math:nosuch", "--stream", "--demo").exit_code == 3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null\n"),
        ([1, 2], "[\n  1,\n  2\n]\n"),
        ([], "[]\n"),
        (["one", "two\n"], "one\ntwo\n"),
        (
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            "[image image/png, 3 bytes; --json has them]\n",
        ),
        (["text", {"type": "resource_link", "uri": "file:///a"}], "text\n[resource_link file:///a]\n"),
        ({"type": "resource", "resource": {"uri": "a", "text": "words"}}, "words\n"),
        ({"type": "issue"}, '{\n  "type": "issue"\n}\n'),
    ],
    ids=["null", "list", "empty", "texts", "image", "link", "resource", "object"],
)
def test_result_of_a_tool_is_formatted_for_people(capsys: Any, value: Any, shown: str) -> None:
    show_value(value)
    assert capsys.readouterr().out == shown
