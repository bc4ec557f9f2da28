"""Runs every attack and every program on every backend, then writes docs/code-mode-walls.md.

`--write` writes without running, and `--check` only compares: the page is made from what the tests run.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from runtime.attacks import ATTACKS, Attack  # noqa: E402 - they are found by the line above
from runtime.languages import PROGRAMS, Program  # noqa: E402

PAGE = ROOT / "docs" / "code-mode-walls.md"
TESTS = ("tests/runtime/test_attacks.py", "tests/runtime/test_languages.py")
KINDS = ("monty", "process", "docker", "gvisor", "wasm", "unsafe")
GROUPS = {
    "time": "Time",
    "memory": "Memory",
    "processes": "Processes",
    "host": "The host's files, environment and devices",
    "network": "Network",
    "kernel": "Kernel",
    "language": "Language",
    "output": "Output and values",
    "tools": "Tool calls",
    "frames": "Forged messages",
}
VERDICTS = {"runs": "runs", "unsupported": "unsupported", "crashes": "violation"}
HEAD = """# Sandbox tests for code mode

<!-- Made by `.venv/bin/python scripts/wall_tables.py`; do not edit it by hand. -->

The script that writes this page ran every attack and every program on it. The tests run
the same definitions, and fail if a backend does anything other than what this page says.

## Attacks

The tables list {attacks} pieces of malicious code and the outcome of each. After each of them the host keeps
running, the next run in the same sandbox works, nothing that was planted in the host's environment and
files appears in anything that comes back, the host's sockets are not reached, and the memory of host and
guests stays bounded. A failed attempt does not prove that every other attempt fails.

- **limit `...`**: a `LimitExceededError` for that limit. Where several outcomes are
  named, which one comes first depends on the machine, its load and its Python version.
- **violation**: a `SandboxViolationError`; the guest broke the protocol, or died in the attempt.
- the name of an **exception**: a `CodeError` that names this exception, which the code could have caught.
- **unsupported**: a `CodeError`, because the Python in that sandbox does not have the feature.
- **refused**: the code saw each of its attempts fail, and went on.
- anything else: the code ended normally, and this is its result.
- **-**: not tried. `unsafe` has no sandbox: only what the host itself enforces is tried there.

Monty talks to the host in its engine's own protocol, over a pipe that the code cannot access: it has no
file descriptor on which to forge a message, so each of the [forged messages](#forged-messages) fails when
the code first looks for one. In `wasm`, messages are printed, each after a marker; the forged ones have
it too.
"""
LANGUAGE = """
## Language

The table lists {programs} small programs of the kind that models write. Each must return a given value.
`process`, `docker`, `gvisor` and `unsafe` are CPython and run all of them, `wasm` is CPython without an
operating system and runs {wasm}, and `monty` runs {monty}. On `monty`, **unsupported** means a `CodeError`
with `unsupported` set before any tool was called: with `language_fallback` all of them run.

"""


def rows(attacks: Iterable[Attack]) -> Iterator[str]:
    """Yield the table of some attacks."""
    yield f"| attack | {' | '.join(KINDS)} |"
    yield f"|---|{'---|' * len(KINDS)}"
    for attack in attacks:
        cells = [attack.expected[kind].said if kind in attack.expected else "-" for kind in KINDS]
        yield f"| {attack.name} | {' | '.join(cells)} |"


def page() -> str:
    """Return the page."""
    lines = [HEAD.format(attacks=len(ATTACKS))]
    for group, title in GROUPS.items():
        table = rows(attack for attack in ATTACKS if attack.group == group)
        lines.append("\n".join([f"### {title}", "", *table, ""]))
    return "\n".join(lines) + _language(PROGRAMS)


def _language(programs: tuple[Program, ...]) -> str:
    facts = {
        "programs": len(programs),
        "monty": sum(program.monty == "runs" for program in programs),
        "wasm": sum(program.verdict("wasm") == "runs" for program in programs),
    }
    lines = ["| program | monty | wasm | process, docker, gvisor, unsafe |", "|---|---|---|---|"]
    verdicts = [(each.name, VERDICTS[each.monty], VERDICTS[each.verdict("wasm")]) for each in programs]
    lines += [f"| {' | '.join(row)} | runs |" for row in verdicts]
    return LANGUAGE.format(**facts) + "\n".join(lines) + "\n"


def main() -> int:
    """Run everything and write the page, or report that it is out of date."""
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text() == page() else 1
    if "--write" not in sys.argv:
        tests = [sys.executable, "-m", "pytest", "-q", *TESTS, "--deselect", f"{TESTS[0]}::{_PAGE_TEST}"]
        if code := subprocess.run(tests, cwd=ROOT, check=False).returncode:
            return code
    PAGE.write_text(page())
    return 0


_PAGE_TEST = "test_security_page_lists_the_attacks"

if __name__ == "__main__":
    sys.exit(main())
