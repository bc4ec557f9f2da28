"""The verbs about the audit."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.execution.audit.hash_chain import FIRST_PREVIOUS, make_chained_line


@pytest.fixture
def audited(toolcrib: Any, home: Path) -> tuple[str, ...]:  # noqa: ARG001 - so that the key is made there
    """Return the options of a command with an audit log, which already holds two calls."""
    Path("toolcrib.toml").write_text('[audit]\npath = "audit.jsonl"\narguments = true\n')
    options = ("--demo", "--config", "toolcrib.toml")
    assert toolcrib("run", "math:evaluate", "expression=2+2", *options).exit_code == 0
    assert toolcrib("run", "math:evaluate", "expression=2+", *options).exit_code == 1
    return options


def test_an_audit_is_intact_until_somebody_changes_it(toolcrib: Any, audited: Any) -> None:
    made = toolcrib("audit", "verify", "--json", *audited)
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout)
    assert (found["intact"], found["unsigned"], found["checkpoints"]) == (True, 0, 2)
    path = Path("audit.jsonl")
    path.write_text(path.read_text().replace("math:evaluate", "math:convert_length", 1))
    made = toolcrib("audit", "verify", *audited)
    assert made.exit_code == 1
    assert "line 1: it is not what was written" in made.stderr


def test_lines_that_are_missing_at_the_beginning_are_told(toolcrib: Any, audited: Any) -> None:
    assert json.loads(toolcrib("audit", "verify", "--json", *audited).stdout)["whole"] is True
    path = Path("audit.jsonl")
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join(others))
    digest = json.loads(first)["toolcrib.chain"]
    assert f"before line 1 are missing; the last of them has the digest {digest}" in toolcrib(
        "audit", "verify", *audited
    ).stderr.replace("\n", " ")
    found = json.loads(toolcrib("audit", "verify", "--json", *audited).stdout)
    assert (found["whole"], found["first"]) == (False, digest)


def test_rotated_files_beside_the_one_of_the_configuration_are_verified_too(
    toolcrib: Any, audited: Any
) -> None:
    Path("audit.jsonl").rename("audit-20260101T000000000000Z.jsonl")
    found = json.loads(toolcrib("audit", "verify", "--json", *audited).stdout)
    assert (found["intact"], found["lines"], found["whole"]) == (True, 4, True)
    assert toolcrib("run", "math:evaluate", "expression=2+2", *audited).exit_code == 0
    found = json.loads(toolcrib("audit", "verify", "--json", *audited).stdout)
    assert (found["intact"], found["lines"], found["whole"]) == (True, 6, True)


def test_calls_are_shown_newest_last_and_chosen_by_outcome(toolcrib: Any, audited: Any) -> None:
    calls = json.loads(toolcrib("audit", "show", "--json", *audited).stdout)["calls"]
    assert [call.get("error.type") for call in calls] == [None, "execution_failed"]
    failed = json.loads(toolcrib("audit", "show", "--failed", "--json", *audited).stdout)["calls"]
    assert [call["gen_ai.tool.call.arguments"] for call in failed] == [{"expression": "2+"}]
    assert "execution_failed" in toolcrib("audit", "show", *audited).stdout


def test_another_key_does_not_fit(toolcrib: Any, audited: Any) -> None:
    key = json.loads(toolcrib("audit", "key", "--json").stdout)["key"]
    assert toolcrib("audit", "verify", "--key", key, *audited).exit_code == 0
    assert toolcrib("audit", "verify", "--key", "A" * 43 + "=", *audited).exit_code == 1
    assert toolcrib("audit", "verify", "--key", "nonsense", *audited).exit_code == 2


def test_a_configuration_without_an_audit_is_told(toolcrib: Any) -> None:
    made = toolcrib("audit", "verify", "--demo")
    assert (made.exit_code, "no [audit]" in made.stderr) == (2, True)


@pytest.mark.parametrize("forge", ["emptied", "invented", "signature dropped"])
def test_verify_with_a_key_fails_on_lines_that_no_signature_proves(
    toolcrib: Any, audited: Any, forge: str
) -> None:
    key = json.loads(toolcrib("audit", "key", "--json").stdout)["key"]
    path = Path("audit.jsonl")
    lines = path.read_text().splitlines()
    forged = {"emptied": [], "invented": [], "signature dropped": lines[:-1]}[forge]
    if forge == "invented":
        previous = FIRST_PREVIOUS
        for number in range(3):
            line, previous = make_chained_line(f'{{"gen_ai.tool.name":"git:log{number}"}}', previous)
            forged.append(line)
    path.write_text("".join(f"{line}\n" for line in forged))
    made = toolcrib("audit", "verify", "--key", key, *audited)
    assert made.exit_code == 1, made.output
    assert "no signature" in made.stderr.replace("\n", " ")
    assert toolcrib("audit", "verify", "--no-key", *audited).exit_code == 0


def test_verify_finds_lines_cut_off_the_end_by_the_digest_that_was_kept(toolcrib: Any, audited: Any) -> None:
    head = json.loads(toolcrib("audit", "verify", "--json", *audited).stdout)["last"]
    assert toolcrib("audit", "verify", "--head", head, *audited).exit_code == 0
    path = Path("audit.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    assert toolcrib("audit", "verify", *audited).exit_code == 0  # it ends with a right signature
    made = toolcrib("audit", "verify", "--head", head, *audited)
    assert (made.exit_code, head in made.stderr.replace("\n", "")) == (1, True)


def test_verify_takes_a_key_or_none(toolcrib: Any, audited: Any) -> None:
    assert toolcrib("audit", "verify", "--key", "A" * 43 + "=", "--no-key", *audited).exit_code == 2
