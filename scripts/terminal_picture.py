"""Draws docs/images/search.png: the output of the command in a terminal."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "search.png"
COMMANDS = (
    ["--demo", "search", "how many days until the deadline", "--limit", "3"],
    ["--demo", "run", "time:days_between", "start=2026-11-15", "end=2026-12-24"],
    ["--demo", "search", "resize a photo"],
)
COLUMNS = 92
SIZE = 11
BACKGROUND = "#1e222a"
PLAIN = "#d7dae0"
COLOURS = {1: "#e06c75", 2: "#98c379", 3: "#e5c07b", 6: "#56b6c2"}
"""By the numbers that terminals have for them."""
OVERDRAWN = re.compile(r"^.*\x1b\[2K", re.DOTALL)
"""Everything up to where a progress line was wiped away."""


def run_in_terminal(arguments: list[str]) -> str:
    """Run a command in a pseudo-terminal, and return its output."""
    master, slave = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environ.pop("NO_COLOR", None)
    command = [str(Path(sys.executable).with_name("toolcrib")), *arguments]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environ)
    os.close(slave)
    told = b""
    try:
        while part := os.read(master, 1 << 16):
            told += part
    except OSError:  # how the end of a terminal shows
        child.wait()
    return OVERDRAWN.sub("", told.decode().replace("\r\n", "\n").replace("\r", "")).rstrip("\n")


def quote_command(arguments: list[str]) -> str:
    """Return a command as one types it."""
    return " ".join(f'"{word}"' if " " in word else word for word in ["toolcrib", *arguments])


def colour(style: object) -> str:
    """Return the colour of a piece of text."""
    number = getattr(getattr(style, "color", None), "number", None)
    return COLOURS.get(number, "#7f848e" if getattr(style, "dim", False) else PLAIN)


def lines() -> list[Text]:
    """Return the lines of the terminal, with their colours."""
    found: list[Text] = []
    for arguments in COMMANDS:
        found.append(Text.assemble(("$ ", "green"), quote_command(arguments)))
        found += Text.from_ansi(run_in_terminal(arguments)).split("\n")
        found.append(Text())
    return found[:-1]


def draw(text: list[Text]) -> None:
    """Draw lines, character by character."""
    console = Console()
    width, height = COLUMNS * SIZE * 0.0084 + 0.4, len(text) * SIZE * 0.0195 + 0.4
    figure = plt.figure(figsize=(width, height), dpi=160, facecolor=BACKGROUND)
    for row, line in enumerate(text):
        for column, character in enumerate(line.plain):
            style = line.get_style_at_offset(console, column)
            x, y = (0.2 + column * SIZE * 0.0084) / width, 1 - (0.3 + row * SIZE * 0.0195) / height
            figure.text(x, y, character, color=colour(style), family="monospace", size=SIZE)
    figure.savefig(PICTURE, facecolor=BACKGROUND)


if __name__ == "__main__":
    draw(lines())
