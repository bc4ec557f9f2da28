"""The verb `doctor`."""

import json
from typing import Any


def test_the_doctor_says_that_all_is_well(toolcrib: Any, config: Any, little: Any) -> None:
    made = toolcrib("doctor", "--config", config(little=little()))
    assert made.exit_code == 0
    assert "✓ server 'little': 5 tools in " in made.stdout
    assert made.stdout.endswith("\nall is well\n")


def test_the_doctor_explains_what_is_broken(toolcrib: Any, config: Any, little: Any) -> None:
    file = config(bad=little("fail", "no licence"), lost={"command": "no-such-program-here"})
    made = toolcrib("doctor", "--config", file, "--timeout", "120")
    assert made.exit_code == 1
    assert "✗ server 'bad': it does not work\n" in made.stdout
    assert "    | no licence\n" in made.stdout
    assert "    do: install it, or write its full path\n" in made.stdout
    assert made.stdout.endswith("\n2 errors, 0 warnings\n")


def test_the_doctor_starts_nothing_offline(toolcrib: Any, config: Any, little: Any) -> None:
    made = toolcrib("doctor", "--offline", "--json", "--config", config(bad=little("fail")))
    found = json.loads(made.stdout)
    assert (made.exit_code, found["healthy"], found["errors"]) == (0, True, 0)
    assert not any(each["subject"] == "server 'bad'" for each in found["findings"])


def test_the_doctor_reads_a_broken_configuration(toolcrib: Any, tmp_path: Any) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("{oops")
    found = json.loads(toolcrib("doctor", "--json", "--config", str(path)).stdout)
    assert "it is not JSON" in found["findings"][0]["what"]
