"""Run the official conformance suite, against a server or against a client, and read its report."""

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.launch import npm_tool

REVISIONS = ("2025-11-25", "2026-07-28")
TIME = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True)
class Outcome:
    """The checks of the suite, by scenario."""

    checks: dict[str, list[dict[str, Any]]]

    @property
    def failed(self) -> set[str]:
        """The scenarios with a check that failed; the suite's exit code tells of some of them only."""
        return {name for name in self.checks if self.problems(name)}

    def problems(self, scenario: str, statuses: Iterable[str] = ("FAILURE",)) -> list[str]:
        """Return the failures of a scenario."""
        return [
            f"{check['id']}: {check.get('errorMessage')}"
            for check in self.checks[scenario]
            if check["status"] in statuses
        ]

    def passed(self, scenario: str) -> int:
        """Return how many checks of a scenario passed."""
        return sum(check["status"] == "SUCCESS" for check in self.checks[scenario])


def run_server_scenarios(url: str, revision: str, folder: Path) -> Outcome:
    """Return the outcome of the suite against a server, with everything that a revision requires."""
    return _run(folder, "server", "--url", url, "--requirements", revision)


def run_client_scenario(command: str, scenario: str, revision: str, folder: Path, *more: str) -> Outcome:
    """Return the outcome of the suite against a client, which it starts with a server's address."""
    options = [
        "--command",
        command,
        "--scenario",
        scenario,
        "--spec-version",
        revision,
        "--timeout",
        "120000",
        *more,
    ]
    return _run(folder, "client", *options)


def _run(folder: Path, mode: str, *options: str) -> Outcome:
    program = npm_tool("@modelcontextprotocol/conformance/dist/index.js")
    command = [*program, mode, *options, "-o", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = {
        TIME.sub("", str(path.parent.relative_to(folder))).removeprefix("server-"): json.loads(
            path.read_text()
        )
        for path in folder.rglob("checks.json")
    }
    assert checks, f"{command} found nothing: {run.stdout[-2000:]}{run.stderr[-2000:]}"
    return Outcome(checks)
