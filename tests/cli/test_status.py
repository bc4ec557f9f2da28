"""The verb `status`."""

import json
import re
from typing import Any

import pytest


def test_the_status_shows_servers_catalogue_and_tokens(
    toolcrib: Any, config: Any, little: Any, home: Any
) -> None:
    path = config(good=little(), bad=little("fail", required=True))
    told = toolcrib("status", "--config", path)
    assert told.exit_code == 0
    lines = [line.split() for line in told.stdout.splitlines()]
    assert ["configuration", path] in lines
    assert f"kept in {home}" in told.stdout
    assert ["good", "answered", "stdio", "5"] in lines
    assert "bad   failed" in told.stdout
    assert "its stderr ends with: the licence has expired" in told.stdout
    assert lines[0][:2] == ["tokens", "saved"]
    assert "failed         1 server: bad; `toolcrib doctor` says how to fix it\n" in told.stdout


def test_the_status_tells_nothing_of_processes_that_are_gone(toolcrib: Any, config: Any, little: Any) -> None:
    path = config(good=little(), bad=little("fail"), off=little(disabled=True))
    told = {
        each["name"]: each
        for each in json.loads(toolcrib("status", "--config", path, "--json").stdout)["servers"]
    }
    states = {name: each["state"] for name, each in told.items()}
    assert states == {"good": "answered", "bad": "failed", "off": "disabled"}
    assert not {"pid", "inFlight", "starts", "nextTryIn"} & told["good"].keys()
    hung = config(good=little("hang"))
    (late,) = json.loads(toolcrib("status", "--config", hung, "--json", "--timeout", "0.1").stdout)["servers"]
    assert late["state"] == "late"


def test_tools_of_a_server_that_does_not_answer_in_time_are_kept(
    toolcrib: Any, config: Any, little: Any, tmp_path: Any
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    path = config(some=little("gate", str(gate)))
    assert "answered" in toolcrib("status", "--config", path).stdout
    gate.unlink()
    told = json.loads(toolcrib("status", "--config", path, "--json", "--timeout", "0.1").stdout)
    assert [[each["state"], each["tools"]] for each in told["servers"]] == [["kept", 5]]


def test_the_status_as_json(toolcrib: Any, tmp_path: Any) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('store = "memory"\n[toolsets.sums]\nnamespaces = ["math"]\nexpose = "all"\n')
    told = json.loads(toolcrib("status", "--demo", "--json", "--config", str(path)).stdout)
    assert told["catalogue"] == {"tools": 12, "namespaces": ["math", "notes", "text", "time"], "keptIn": None}
    assert told["toolsets"] == ["sums"]
    assert told["expose"] == {"gateway": "meta", "toolsets": {"sums": "all"}}
    assert told["servers"] == []
    tokens = told["tokens"]
    assert tokens["tools"] == 12
    assert tokens["direct"] > 0 < tokens["surface"]
    part = json.loads(
        toolcrib("status", "--demo", "--json", "--config", str(path), "--toolset", "sums").stdout
    )
    assert part["catalogue"]["tools"] == 3
    assert part["tokens"]["direct"] < tokens["direct"]


def test_the_status_of_nothing(toolcrib: Any) -> None:
    told = toolcrib("status")
    assert told.exit_code == 0
    assert "configuration  none" in told.stdout
    assert "0 tools in 0 namespaces, kept in memory only" in told.stdout
    assert "tokens" not in told.stdout


def test_the_status_names_toolsets_and_what_is_saved(toolcrib: Any, tmp_path: Any) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text("[toolsets.sums]\nexpose = 'all'\n[toolsets.every]\n")
    told = toolcrib("status", "--demo", "--config", str(path)).stdout
    assert "toolsets       every (meta), sums (all)" in told
    assert 'listing so few tools directly costs less: set gateway.expose = "auto"' in told


def test_the_status_tells_what_many_tools_save(toolcrib: Any, config: Any, talker: Any) -> None:
    told = toolcrib("status", "--config", config(many=talker)).stdout
    assert re.search(r"^tokens saved   \d+%: ", told)
    assert (
        "2 tools are left out: shapeless: invalid tool 'shapeless': /inputSchema: is required; bare: " in told
    )


@pytest.mark.parametrize("levels", ["80", "300"])
def test_the_status_tells_which_tools_are_left_out_and_why(
    toolcrib: Any, config: Any, little: Any, levels: str
) -> None:
    path = config(some=little("deep", levels))
    told = toolcrib("status", "--config", path).stdout
    assert re.search(r"1 tool is left out: deep: .*nested more than \d+ levels deep", told)
    (server,) = json.loads(toolcrib("status", "--json", "--config", path).stdout)["servers"]
    assert (server["tools"], list(server["refused"])) == (5, ["deep"])
