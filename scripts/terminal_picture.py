"""Draws docs/images/terminal.svg: a terminal in which real commands run, as an animation.

The commands run in a home of their own, with two servers in the configuration of an AI client. Each command
is a scene: it is typed, its output appears, and the next one takes its place.
"""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "terminal.svg"
BIN = Path(sys.executable).parent
PROGRAMS = ("toolcrib", "mcp-server-time", "mcp-server-git")
CLIENT = {
    "time": {"command": "mcp-server-time", "args": ["--local-timezone", "Europe/Vienna"]},
    "git": {"command": "mcp-server-git"},
}
"""The servers in the configuration of the client."""
SCENES = (
    ["import", "cursor", "--user"],
    ["doctor"],
    ["search", "what time is it in Tokyo", "--limit", "3"],
    ["run", "time:get_current_time", "timezone=Asia/Tokyo"],
)
COLUMNS, ROWS = 92, 18
CELL_WIDTH, CELL_HEIGHT = 8.43, 19
PADDING, BAR_HEIGHT = 18, 34
FIRST = 2
"""The scene with which the animation begins."""
SECONDS, TYPING = 5.0, 1.2
"""The length of a scene, and of the part of it in which the command is typed."""
COLOURS = {1: "#e06c75", 2: "#98c379", 3: "#e5c07b", 6: "#56b6c2"}
"""By the numbers that terminals have for them."""
PLAIN, DIM = "#d7dae0", "#7f848e"
OVERDRAWN = re.compile(r"^.*\x1b\[2K", re.DOTALL)
"""Everything before the place where a progress line was wiped away."""


class Scene(NamedTuple):
    """A command and its output."""

    command: str
    output: list[Text]


def run_in_terminal(arguments: list[str], environ: dict[str, str]) -> str:
    """Run a command in a pseudo-terminal, and return its output."""
    master, slave = pty.openpty()
    command = [str(Path(environ["PATH"].split(":")[0]) / arguments[0]), *arguments[1:]]
    child = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environ, cwd=environ["HOME"]
    )
    os.close(slave)
    output = b""
    try:
        while part := os.read(master, 1 << 16):
            output += part
    except OSError:  # the end of a terminal
        child.wait()
    return OVERDRAWN.sub("", output.decode().replace("\r\n", "\n").replace("\r", "")).rstrip("\n")


def run_scenes() -> list[Scene]:
    """Run the commands one after the other in a new home."""
    with tempfile.TemporaryDirectory() as folder:
        home, programs = Path(folder, "home"), Path(folder, "bin")
        (home / ".cursor").mkdir(parents=True)
        (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": CLIENT}))
        programs.mkdir()
        for name in PROGRAMS:
            (programs / name).symlink_to(BIN / name)
        environ = {
            "HOME": str(home),
            "PATH": f"{programs}:/usr/bin:/bin",
            "COLUMNS": str(COLUMNS),
            "TERM": "xterm-256color",
        }
        scenes = []
        for arguments in SCENES:
            output = run_in_terminal(["toolcrib", *arguments], environ)
            output = output.replace(str(home), "~").replace(str(BIN.parent), "~/.venv")
            command = " ".join(f'"{word}"' if " " in word else word for word in ["toolcrib", *arguments])
            lines = [part for line in Text.from_ansi(output).split("\n") for part in wrap(line)]
            scenes.append(Scene(command, lines[: ROWS - 1]))
        return scenes


def wrap(line: Text) -> list[Text]:
    """Break a line where the terminal ends."""
    return list(line.divide(range(COLUMNS, len(line), COLUMNS))) or [line]


def draw(scenes: list[Scene]) -> str:
    """Return the animation; it begins with a finished scene, which stands still where nothing moves."""
    width = round(2 * PADDING + COLUMNS * CELL_WIDTH)
    height = BAR_HEIGHT + 2 * PADDING + ROWS * CELL_HEIGHT
    whole = SECONDS * len(scenes)
    shown, typed = 100 / len(scenes), 100 * TYPING / whole
    styles = [
        (
            f"text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: {PLAIN}; "
            "white-space: pre; }"
        ),
        f".scene {{ opacity: 0; animation: scene {whole:g}s step-end infinite; }}",
        f".out {{ opacity: 0; animation: out {whole:g}s step-end infinite; }}",
        f"@keyframes scene {{ 0% {{ opacity: 1; }} {shown:.3f}% {{ opacity: 0; }} }}",
        f"@keyframes out {{ 0% {{ opacity: 0; }} {typed:.3f}% {{ opacity: 1; }} }}",
    ]
    body = []
    for number, scene in enumerate(scenes):
        delay, end = (number - FIRST) * SECONDS - TYPING, (len(scene.command) + 2) * CELL_WIDTH + 4
        styles.append(f"#s{number}, #s{number} .out, #c{number} {{ animation-delay: {delay:g}s; }}")
        styles.append(
            f"#c{number} {{ animation: type{number} {whole:g}s steps(1) {delay:g}s infinite; }}"
            f" @keyframes type{number} {{ {_type(end, len(scene.command), typed)} }}"
        )
        body.append(_draw_scene(number, scene, end))
    styles.append(f"#s{FIRST}, #s{FIRST} .out {{ opacity: 1; }}")
    styles.append(
        "@media (prefers-reduced-motion: reduce) { .scene, .out, rect { animation: none !important; } }"
    )
    dots = "".join(
        f'<circle cx="{PADDING + 4 + 18 * place}" cy="{BAR_HEIGHT / 2:g}" r="5.5" fill="{colour}"/>'
        for place, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))
    )
    commands = ", ".join(scene.command for scene in scenes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>A terminal that runs {escape(commands)}</title>\n<style>\n"
        + "\n".join(styles)
        + f'\n</style>\n<rect width="{width}" height="{height}" rx="9" fill="#1e222a"/>{dots}\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _type(end: float, letters: int, typed: float) -> str:
    """Return the keyframes in which a command is typed, letter by letter."""
    frames = [
        f"{typed * letter / letters:.3f}% {{ width: {2 * CELL_WIDTH + end * letter / letters:.1f}px; }}"
        for letter in range(0, letters + 1, 2)
    ]
    return " ".join([*frames, f"{typed:.3f}%, 100% {{ width: {end + 20:.1f}px; }}"])


def _draw_scene(number: int, scene: Scene, end: float) -> str:
    top = BAR_HEIGHT + PADDING
    lines = [
        (
            f'<clipPath id="clip{number}"><rect id="c{number}" x="{PADDING}" y="{top - 16}" '
            f'width="{end + 20:.1f}" height="{CELL_HEIGHT + 4}"/></clipPath>'
        ),
        (
            f'<g class="scene" id="s{number}"><text x="{PADDING}" y="{top}" clip-path="url(#clip{number})">'
            f'<tspan fill="{COLOURS[2]}">$ </tspan>{escape(scene.command)}</text><g class="out">'
        ),
    ]
    for row, line in enumerate(scene.output, start=1):
        if line.plain.strip():
            spans = "".join(_draw_span(part) for part in _split_by_style(line))
            lines.append(f'<text x="{PADDING}" y="{top + row * CELL_HEIGHT}">{spans}</text>')
    return "\n".join([*lines, "</g></g>"])


def _split_by_style(line: Text) -> list[Text]:
    places = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    return [part for part in line.divide(places) if part.plain]


def _draw_span(part: Text) -> str:
    style = part.get_style_at_offset(Console(), 0)
    number = getattr(style.color, "number", None)
    colour = COLOURS.get(number, DIM if style.dim else PLAIN) if number is not None else None
    colour = colour or (DIM if style.dim else PLAIN)
    weight = ' font-weight="bold"' if style.bold else ""
    return f'<tspan fill="{colour}"{weight}>{escape(part.plain)}</tspan>'


if __name__ == "__main__":
    PICTURE.write_text(draw(run_scenes()), encoding="utf-8")
