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
    "tools": "Calls of tools",
    "frames": "Forged messages",
}
VERDICTS = {"runs": "runs", "unsupported": "not in the language", "crashes": "violation"}
HEAD = """# What the walls hold

<!-- Made by `.venv/bin/python scripts/wall_tables.py`; do not edit it by hand. -->

The script that writes this page ran every attack and every program on it. The tests run
the same definitions, and fail if a backend does anything other than what this page says.

## Attacks

{attacks} pieces of malicious code, and how each ends. After each of them the host keeps running,
the next run in the same sandbox works, nothing that was planted in the host's environment and files
appears in anything that came back, the host's sockets were not reached, and the memory of host and
guests has stayed bounded. That one attempt failed does not prove that every other one does.

- **limit `...`**: a `LimitExceededError` of that limit. Where several outcomes
  are named, the machine, its load and its Python decide which comes first.
- **violation**: a `SandboxViolationError`; the guest broke the protocol, or died in the attempt.
- the name of an **exception**: a `CodeError` that says so, which the code could have caught.
- **not in the language**: a `CodeError`, because there is nothing of the kind in that sandbox's Python.
- **refused**: the code saw each of its attempts fail, and went on.
- other words: the code ended normally, and this is its result.
- **-**: not tried. `unsafe` has no walls: only what the host itself enforces is tried there.

Monty talks to the host in its engine's own protocol, over a pipe that code cannot name: there
is no descriptor to forge a message on, so each of these attacks ends where it first looks for
one. In `wasm`, messages are printed, each after a marker, which the forged ones have too.
"""
LANGUAGE = """
## Language

{programs} small programs of the kind that models write, each with the value that it must return.
`process`, `docker`, `gvisor` and `unsafe` are CPython and run all of them, `wasm` is CPython without a
system and runs {wasm}, and `monty` runs {monty}. **Not in the language** means, on `monty`, a
`CodeError` with `unsupported` set before any tool was called: with `language_fallback` all of them run.

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
