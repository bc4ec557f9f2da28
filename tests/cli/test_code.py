"""The verbs `code`, `sandbox build`, `runs` and `resume`."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from runtime.sandboxes.wasm.modules import like_cpython

from toolcrib import Crib, SyncCrib
from toolcrib.cli.state import local_principal
from toolcrib.execution import Request
from toolcrib.paths import runs_file
from toolcrib.setup.demo import open_with_demo

CODE = 'print("working")\n__out = await math.evaluate(expression="6 * 7")\n'


def test_exec_is_another_name_of_code(toolcrib: Any) -> None:
    assert toolcrib("exec", "-c", CODE, "--demo").stdout == toolcrib("code", "-c", CODE, "--demo").stdout
    helped = toolcrib("--help").stdout
    assert "code" in helped
    assert "exec" not in helped


def test_output_of_code_precedes_its_value(toolcrib: Any) -> None:
    Path("job.py").write_text(CODE)
    ran = toolcrib("code", "job.py", "--demo")
    assert ran.exit_code == 0
    assert ran.stdout == "working\n42.0\n"


def test_code_as_json_holds_the_calls(toolcrib: Any) -> None:
    ran = json.loads(toolcrib("code", "-", "--demo", "--json", stdin=CODE).stdout)
    assert [ran["value"], ran["stdout"]] == [42.0, "working\n"]
    assert [call["toolId"] for call in ran["toolCalls"]] == ["math:evaluate"]


def test_code_may_be_an_argument(toolcrib: Any) -> None:
    assert toolcrib("code", "-c", CODE, "--demo").stdout == "working\n42.0\n"


@pytest.mark.parametrize("asked", [(), ("job.py", "-c", "x = 1")], ids=["nothing", "both"])
def test_code_is_given_in_one_place(toolcrib: Any, asked: tuple[str, ...]) -> None:
    ran = toolcrib("code", *asked, "--demo")
    assert ran.exit_code == 2
    assert "-c CODE" in ran.stderr


def test_a_null_value_is_in_the_json_of_code(toolcrib: Any) -> None:
    ran = json.loads(toolcrib("code", "-c", "__out = None", "--demo", "--json").stdout)
    assert ran["value"] is None


def test_code_without_a_value_prints_none(toolcrib: Any) -> None:
    ran = toolcrib("code", "-", "--demo", stdin="x = 1")
    assert ran.stdout == ""
    assert ran.stderr.startswith("note: the code left nothing in `__out`")


def test_stderr_of_code_goes_to_stderr(toolcrib: Any) -> None:
    ran = toolcrib("code", "-", "--demo", stdin='import sys\nprint("oh \\x1b", file=sys.stderr)\n__out = 1')
    assert [ran.stdout, ran.stderr] == ["1\n", "oh \ufffd\n"]


def test_code_that_raises_exits_with_1(toolcrib: Any) -> None:
    ran = toolcrib("code", "-", "--demo", "--json", stdin="1 / 0")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"]["code"] == "execution_failed"


def test_code_that_runs_too_long_exits_with_1(toolcrib: Any) -> None:
    ran = toolcrib("code", "-", "--demo", "--timeout", "1", stdin="while True:\n    pass\n")
    assert ran.exit_code == 1
    assert "limit 'timeout' exceeded" in ran.stderr


def test_bad_requests_exit_with_2(toolcrib: Any) -> None:
    assert toolcrib("code", "nosuch.py", "--demo").exit_code == 2
    assert toolcrib("code", "-", "--demo", stdin="  ").exit_code == 2
    assert toolcrib("code", "-", "--demo", "--profile", "soft", stdin="x = 1").exit_code == 2


def test_a_sandbox_that_is_not_here_says_what_there_is(toolcrib: Any) -> None:
    ran = toolcrib("code", "-", "--demo", "--backend", "nosuch", stdin="x = 1")
    assert ran.exit_code == 2
    assert (
        "there is no sandbox 'nosuch'; there are monty, process, docker, gvisor, wasm, unsafe" in ran.stderr
    )


@pytest.mark.parametrize(
    "asked",
    [("--dockerfile", "F", "--from-host"), ("--backend", "wasm", "--from-host"), ("--module", "F")],
)
def test_ways_to_build_that_do_not_fit_together_exit_with_2(toolcrib: Any, asked: tuple[str, ...]) -> None:
    Path("F").touch()
    assert toolcrib("sandbox", "build", *asked).exit_code == 2


def test_an_image_without_an_engine_says_what_to_install(
    toolcrib: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    ran = toolcrib("sandbox", "build")
    assert ran.exit_code == 4
    assert "apt install docker.io" in ran.stderr


def test_a_module_without_its_extra_names_it_before_anything_is_fetched(
    toolcrib: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [each for each in sys.path if "site-packages" not in each])
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    ran = toolcrib("sandbox", "build", "--backend", "wasm")
    assert ran.exit_code == 4
    assert ran.stderr == "error: the 'wasm' sandbox is not available here: pip install 'toolcrib[wasm]'\n"


def test_a_module_that_is_none_is_refused(toolcrib: Any) -> None:
    pytest.importorskip("wasmtime")
    Path("F").write_bytes(b"none")
    ran = toolcrib("sandbox", "build", "--backend", "wasm", "--module", "F")
    assert ran.exit_code == 4
    assert "cannot be compiled" in ran.stderr


def test_a_module_is_built_in_steps_that_standard_error_names(toolcrib: Any) -> None:
    Path("F").write_bytes(like_cpython())
    ran = toolcrib("sandbox", "build", "--backend", "wasm", "--module", "F", "--json")
    assert [line.partition(" ")[0] for line in ran.stderr.splitlines()] == ["note:"] * 4
    assert "starting CPython" in ran.stderr
    assert Path(json.loads(ran.stdout)["module"]).is_file()


def test_a_durable_run_is_listed_and_can_be_asked_for_its_result_again(toolcrib: Any) -> None:
    run = json.loads(toolcrib("code", "-c", CODE, "--demo", "--durable", "--json").stdout)["runId"]
    [listed] = json.loads(toolcrib("runs", "--demo", "--json").stdout)["runs"]
    assert (listed["id"], listed["kind"], listed["state"], listed["step"]) == (run, "code", "done", 1)
    assert run in toolcrib("runs", "--demo").stdout
    again = toolcrib("resume", run, "--demo")
    assert (again.exit_code, again.stdout) == (0, "working\n42.0\n")


def test_durable_run_of_a_program_is_listed_and_resumed(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text("")
    with SyncCrib("toolcrib.toml") as crib:
        run_id = crib.execute("__out = 6 * 7", durable=True).run_id
    [listed] = json.loads(toolcrib("runs", "--json").stdout)["runs"]
    assert (listed["id"], listed["state"]) == (run_id, "done")
    again = toolcrib("resume", str(run_id))
    assert (again.exit_code, again.stdout) == (0, "42\n")


def test_a_durable_chain_is_resumed_as_one(toolcrib: Any) -> None:
    Path("steps.json").write_text('[{"toolId": "math:evaluate", "args": {"expression": "6 * 7"}}]')
    run = json.loads(toolcrib("chain", "steps.json", "--demo", "--durable", "--json").stdout)["runId"]
    again = json.loads(toolcrib("resume", run, "--demo", "--json").stdout)
    assert (again["final"], again["runId"]) == (42.0, run)


def leave_uncertain_run() -> str:
    """Leave a run whose call of `notes:add` was sent without a response, and return its id."""

    async def leave() -> str:
        asked = anyio.Event()

        async def wait(_: Request) -> None:
            asked.set()
            await anyio.sleep_forever()

        crib = Crib(policy=wait)
        async with open_with_demo(crib), anyio.create_task_group() as tasks:
            code = '__out = await notes.add(text="figs")'
            tasks.start_soon(lambda: crib.execute(code, durable=True, principal=local_principal()))
            await asked.wait()
            tasks.cancel_scope.cancel()
        [run] = await Crib().runs(principal=local_principal())
        return run.id

    return anyio.run(leave)


def test_a_call_that_may_have_run_is_asked_about_in_options_and_its_answer_is_checked(toolcrib: Any) -> None:
    run = leave_uncertain_run()
    asked = toolcrib("resume", run, "--demo")
    assert asked.exit_code == 1
    assert "resume with --repeat to make it again, or with --answer 0=VALUE to go on" in asked.stderr
    assert "True" not in asked.stderr
    wrong = toolcrib("resume", run, "--demo", "--answer", "0=figs")
    assert wrong.exit_code == 2
    assert "the answer to call 0 of 'notes:add' does not fit its output schema" in wrong.stderr
    right = toolcrib("resume", run, "--demo", "--answer", '0={"number": 7, "text": "figs"}')
    assert (right.exit_code, json.loads(right.stdout)) == (0, {"number": 7, "text": "figs"})
    again = toolcrib("resume", run, "--demo", "--answer", "0=figs")
    assert again.exit_code == 1
    assert "it is done and takes no answers; resume it without any to get its result" in again.stderr


def test_resume_of_an_unfit_run_gives_the_reason(toolcrib: Any) -> None:
    place = str(runs_file(None))
    assert toolcrib("runs", "--demo").stderr.startswith(f"note: there are no durable runs in {place}; ")
    missing = toolcrib("resume", "0123", "--demo")
    assert missing.exit_code == 3
    assert f"no run '0123' in {place}; " in missing.stderr
    assert "--config names another configuration" in missing.stderr
    failed = toolcrib("code", "-", "--demo", "--durable", stdin="await math.evaluate(expression='6')\n1 / 0")
    assert failed.exit_code == 1
    [listed] = json.loads(toolcrib("runs", "--demo", "--json").stdout)["runs"]
    assert listed["state"] == "failed"
    ran = toolcrib("resume", listed["id"], "--demo")
    assert (ran.exit_code, "it has failed: line 2" in ran.stderr) == (1, True)
