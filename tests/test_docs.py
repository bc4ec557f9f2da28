"""The pages of the documentation, as readers see them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from consoles import read_commands

WIDTH = 75
"""Columns of a code block that the site shows on a phone held sideways, and GitHub without scrolling."""
MEASURED = {"code-measurements.md"}
"""Pages with a program whose characters are counted, so that its lines must stay as they are."""
FENCE = re.compile(r"\s*(```+|~~~+)")
TITLED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def find_long_lines(page: str) -> list[str]:
    """Return the lines of code blocks that are too long."""
    found, fence = [], ""
    for line in page.splitlines():
        mark = FENCE.match(line)
        if mark is not None and not fence:
            fence = mark[1]
        elif fence and line.strip() == fence:
            fence = ""
        elif fence and len(line) > WIDTH:
            found.append(line)
    return found


def test_long_line_is_found_in_a_code_block_alone() -> None:
    long = "a" * (WIDTH + 1)
    assert find_long_lines(f"{long}\n```sh\n{long}\n```\n{long}\n  ```\n  {long}\n  ```\n") == [
        long,
        f"  {long}",
    ]


def test_code_blocks_fit_the_page(root: Path) -> None:
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    found = {str(page.relative_to(root)): find_long_lines(page.read_text()) for page in pages}
    wide = {name: lines for name, lines in found.items() if lines and Path(name).name not in MEASURED}
    assert wide == {}, "move comments above, break commands with a backslash, and split values"


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_page_with_a_measured_program_has_it(root: Path, name: str) -> None:
    assert find_long_lines((root / "docs" / name).read_text())


@pytest.mark.timeout(180)  # two processes with a sandbox each
def test_run_on_the_page_survives_its_process(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "long-runs.md").read_text(encoding="utf-8")
    folder = tmp_path / "page"
    folder.mkdir()
    for title, text in TITLED.findall(page):
        (folder / title).write_text(text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "TOOLCRIB_HOME": str(tmp_path / "home")}
    commands = [each for block in CONSOLE.findall(page) for each in read_commands(block)]
    assert len(commands) == 2
    for command, wanted in commands:
        made = subprocess.run(
            ["/bin/sh", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        assert made.stdout == wanted, made.stderr
