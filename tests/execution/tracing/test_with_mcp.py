"""Our span and the MCP SDK's own: one of each, the one within the other, over a real connection."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from servers.launch import python
from waiting import PATIENCE

PROGRAM = Path(__file__).with_name("traced_calls.py")


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """Return the spans of a separate process, because the SDK traces to the provider of the process."""
    said: dict[str, Any] = json.loads(subprocess.check_output(python(str(PROGRAM)), timeout=PATIENCE))
    return said


def test_a_call_has_one_span_of_ours_and_one_of_the_sdk_within_it(seen: dict[str, Any]) -> None:
    theirs, ours = seen["good"]
    assert (ours["name"], ours["kind"], ours["parent"]) == ("execute_tool trace", "INTERNAL", None)
    assert (theirs["kind"], theirs["parent"]) == ("CLIENT", ours["id"])
    assert theirs["name"].endswith("tools/call trace")


def test_the_server_is_told_the_span_that_its_work_belongs_to(seen: dict[str, Any]) -> None:
    theirs, _ours = seen["good"]
    assert seen["told"]["traceparent"].startswith(f"00-{theirs['trace']}-{theirs['id']}-")


def test_each_call_is_a_trace_of_its_own_and_a_failed_one_says_so(seen: dict[str, Any]) -> None:
    theirs, ours = seen["bad"]
    assert (ours["error"], ours["parent"], theirs["parent"]) == ("execution_failed", None, ours["id"])
    assert ours["trace"] != seen["good"][1]["trace"]
