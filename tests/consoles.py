"""Runs the shell examples of the documentation: a command behind `$ `, and below it its output."""

import doctest
import os
import shlex
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from servers.launch import python
from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser

_LIMIT = 60
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FOLDER = "console_folder"
_PORT = "console_port"


def open_folder(names: dict[str, object]) -> None:
    """Give a page an empty folder, which is also the home of its commands, and a port that is free."""
    names[_FOLDER] = TemporaryDirectory(prefix="toolcrib-page-")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names[_PORT] = str(taken.getsockname()[1])


class ConsoleParser(CodeBlockParser):
    """Reads blocks of `console`."""

    language = "console"

    def evaluate(self, example: Example) -> str | None:
        """Run the commands of a block, and return the difference from the output on the page."""
        block: Document = example.parsed
        for command, expected in read_commands(str(block)):
            printed = _run(command, Path(example.namespace[_FOLDER].name), example.namespace[_PORT])
            if not doctest.OutputChecker().check_output(expected, printed, _OPTIONS):
                return f"$ {command}\nthe page shows:\n{expected}\nand it prints:\n{printed}"
        return None


def read_commands(block: str) -> list[tuple[str, str]]:
    """Return the commands of a block, each with the output below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = f"{found[-1][0]}\n{line.removeprefix('> ')}", []
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(lines).strip() + "\n") for command, lines in found]


def _run(command: str, folder: Path, port: str) -> str:
    scripts = sysconfig.get_path("scripts")
    quick = folder / ".quick"
    if not quick.exists():  # a command in the background may still be reading it
        quick.mkdir()
        forked = shlex.join(
            python(f"{scripts}/toolcrib")
        )  # the installed script, in a process that is forked
        (quick / "toolcrib").write_text(f'#!/bin/sh\nPATH="${{PATH#*:}}" exec {forked} "$@"\n')
        (quick / "toolcrib").chmod(0o755)
    environ = {
        "PATH": os.pathsep.join([str(quick), scripts, os.environ["PATH"]]),
        "HOME": str(folder),
        "TOOLCRIB_HOME": str(folder / ".toolcrib"),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHON": sys.executable,
        "PORT": port,
        "LANG": "C.UTF-8",
    }
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environ,
        text=True,
        timeout=_LIMIT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return ran.stdout.strip() + "\n"
