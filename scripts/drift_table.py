"""Compares released versions of public servers, and writes the table of docs/real-drift.md.

Each version is installed into a folder of its own by npm or uv, started, and asked for its tools. What the
comparison says of a tool stands beside what a person said who read both definitions: `PAIRS` has that for
each tool that differs. With `--check` nothing is written; the exit code is 1 where the two do not agree.

    .venv/bin/python scripts/drift_table.py --folder /tmp/servers    # keeps what was installed
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import anyio
from mcp import Client, StdioServerParameters

from toolcrib.model import Tool
from toolcrib.trust import Drift, Level, Lock
from toolcrib.trust.drift import DriftChange

PAGE = Path(__file__).parent.parent / "docs" / "real-drift.md"
START = "<!-- drift -->\n"
END = "<!-- /drift -->\n"
HEAD = ["server", "versions", "tools", "class", "changes", "human verdict"]
SECONDS = 120
MAX_NAMED = 3


@dataclass(frozen=True)
class Said:
    """A person's verdict on tools that changed in the same way."""

    level: Level
    why: str
    tools: str
    """Their names, between spaces; or `*` for all that no other row names."""


@dataclass(frozen=True)
class Pair:
    """Two released versions of one server, and a person's verdicts on the tools that differ."""

    registry: Literal["npm", "pypi"]
    package: str
    old: str
    new: str
    said: tuple[Said, ...]
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One row of the table: tools of one pair with the same verdict."""

    pair: Pair
    said: Said
    drifts: tuple[Drift, ...]

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels that the comparison gives these tools; more than one where it does not agree."""
        return tuple(dict.fromkeys(drift.level for drift in self.drifts)) or ("none",)

    def cells(self) -> list[str]:
        """Return the cells of the row."""
        names = [f"`{drift.tool_id}`" for drift in self.drifts]
        more = len(names) - MAX_NAMED
        return [
            f"`{self.pair.package}`",
            f"{self.pair.old} → {self.pair.new}",
            ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "") or "all",
            " or ".join(self.levels),
            "; ".join(self._changes()).replace("|", "\\|") or "nothing",
            f"{self.said.level}: {self.said.why}",
        ]

    def _changes(self) -> Iterator[str]:
        """Yield the changes that give these tools their level, each with how many tools have it."""
        counts = Counter(
            words
            for drift in self.drifts
            for words in dict.fromkeys(
                _short(change) for change in drift.changes if change.level == drift.level
            )
        )
        for words, count in counts.items():
            yield words if count == len(self.drifts) else f"{words} ({count} of {len(self.drifts)})"


MEMORY = ("npm", "@modelcontextprotocol/server-memory")
THINKING = ("npm", "@modelcontextprotocol/server-sequential-thinking")
EVERYTHING = ("npm", "@modelcontextprotocol/server-everything")
GIT = ("pypi", "mcp-server-git")
TIME = ("pypi", "mcp-server-time")
FETCH = ("pypi", "mcp-server-fetch")
NEW = "an additional tool takes nothing away"
HINTS = "it promises more than before, and its arguments are unchanged"

PAIRS: tuple[Pair, ...] = (
    Pair(
        "npm",
        "@modelcontextprotocol/server-filesystem",
        "2025.11.25",
        "2026.8.31",
        (
            Said(
                "major",
                "it now declares itself destructive, so a rule must ask where it did not before",
                "move_file",
            ),
            Said(
                "major",
                "files other than images and audio are returned in a different form",
                "read_media_file",
            ),
            Said("minor", HINTS, "*"),
        ),
        args=("/tmp",),  # noqa: S108 - a folder that is there
    ),
    Pair(
        *MEMORY,
        "0.6.2",
        "2025.9.25",
        (
            Said(
                "major",
                "a validating client now refuses an extra argument; "
                "minor for those who send only declared arguments",
                "*",
            ),
        ),
    ),
    Pair(*MEMORY, "2025.9.25", "2026.8.31", (Said("minor", "it accepts more and promises more", "*"),)),
    Pair(
        *THINKING,
        "0.6.2",
        "2025.12.18",
        (Said("minor", "it declares what it returns; a count of thoughts never reaches 2^53 - 1", "*"),),
    ),
    Pair(
        *THINKING,
        "2025.12.18",
        "2026.8.31",
        (Said("minor", "text is accepted as well as true and false, and it promises more", "*"),),
    ),
    Pair(*EVERYTHING, "2025.4.8", "2025.9.25", (Said("minor", NEW, "*"),)),
    Pair(
        *EVERYTHING,
        "2025.9.25",
        "2026.8.31",
        (
            Said(
                "major",
                "gone, or renamed",
                "add annotatedMessage getResourceLinks getResourceReference getTinyImage "
                "longRunningOperation printEnv sampleLLM structuredContent",
            ),
            Said("minor", "it accepts more and promises more", "echo"),
            Said("minor", NEW, "*"),
        ),
    ),
    Pair(
        *GIT,
        "0.6.2",
        "2025.7.1",
        (
            Said("minor", "one more optional argument", "git_diff_staged git_diff_unstaged"),
            Said("minor", NEW, "*"),
        ),
    ),
    Pair(
        *GIT,
        "2025.7.1",
        "2026.1.14",
        (
            Said("major", "gone", "git_init"),
            Said("minor", "two more optional arguments", "git_log"),
        ),
    ),
    Pair(
        *GIT,
        "2026.1.14",
        "2026.10.19",
        (
            Said("major", "an empty list of files is refused now", "git_add"),
            Said("minor", HINTS, "*"),
        ),
    ),
    Pair(*TIME, "0.6.2", "2026.1.26", (Said("none", "the definitions are equivalent", "*"),)),
    Pair(*TIME, "2026.1.26", "2026.10.19", (Said("minor", HINTS, "*"),)),
    Pair(*FETCH, "0.6.2", "2025.4.7", (Said("patch", "a mistake in a description is corrected", "*"),)),
    Pair(*FETCH, "2025.4.7", "2026.10.24", (Said("minor", HINTS, "*"),)),
    Pair(
        "pypi",
        "mcp-server-sqlite",
        "0.6.2",
        "2025.4.25",
        (
            Said(
                "major",
                "each tool is renamed, with `_` instead of `-`",
                "append-insight create-table describe-table list-tables read-query write-query",
            ),
            Said("minor", "the same tools under their new names", "*"),
        ),
    ),
    Pair(
        "npm",
        "@upstash/context7-mcp",
        "1.0.33",
        "4.1.1",
        (
            Said("major", "gone; another tool replaces it", "get-library-docs"),
            Said("major", "calls without the new argument are refused", "resolve-library-id"),
            Said("minor", NEW, "query-docs"),
        ),
    ),
    Pair(
        "npm",
        "@playwright/mcp",
        "0.0.41",
        "0.0.70",
        (
            Said("major", "gone", "browser_install"),
            Said("major", "one argument is gone, and another is required", "browser_console_messages"),
            Said(
                "major",
                "a validating client refuses a call without the new arguments, although they have defaults",
                "browser_network_requests browser_take_screenshot",
            ),
            Said(
                "major",
                "they are no longer declared read-only, so a rule has to ask where it did not before",
                "browser_close browser_hover browser_navigate_back browser_resize",
            ),
            Said(
                "minor",
                "an argument has become optional, or an optional one was added",
                "browser_click browser_evaluate browser_fill_form browser_select_option browser_snapshot "
                "browser_type",
            ),
            Said("minor", NEW, "browser_run_code"),
            Said("patch", "the schemas declare a different draft but mean the same", "*"),
        ),
    ),
)


def _short(change: DriftChange) -> str:
    """Return a change in few words, without the server's own."""
    place = change.path.removeprefix("/inputSchema").removeprefix("/outputSchema").split("/")
    where = ".".join(each for each in place if each not in {"", "properties", "items"})
    match change.kind:
        case "words":
            return f"`{where}` is worded differently"
        case "renamed":
            return "it has been renamed"
        case "added" if "was called" in change.message:
            return "it had a different name"
        case "input-narrowed" | "input-widened" | "output-widened" if where:
            return f"`{where}`: {change.message}"
    return change.message.partition(";")[0]


def install(pair: Pair, version: str, folder: Path) -> Path:
    """Return the program of a version, installed into a folder unless it is there."""
    place = folder / f"{pair.package.replace('/', '-').strip('@')}-{version}"
    if pair.registry == "pypi":
        program = place / "bin" / pair.package
        if not program.exists():
            _install_from_pypi(f"{pair.package}=={version}", place)
        return program
    about = place / "node_modules" / pair.package / "package.json"
    if not about.exists():
        place.mkdir(parents=True, exist_ok=True)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _run("npm", "install", "--prefix", str(place), *quiet, f"{pair.package}@{version}")
    name = next(iter(json.loads(about.read_text(encoding="utf-8"))["bin"]))
    return place / "node_modules" / ".bin" / str(name)


def _install_from_pypi(requirement: str, place: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    _run(uv, "venv", "--quiet", "--clear", str(place))
    into = [uv, "pip", "install", "--quiet", "--python", str(place), requirement]
    try:
        _run(*into, "mcp<2")  # older servers do not say that they need it, and newer ones refuse it
    except subprocess.CalledProcessError:
        _run(*into)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=600, capture_output=True)


async def tools_of(program: Path, args: tuple[str, ...]) -> list[Tool]:
    """Return the tools that a server lists."""
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TZ": "UTC"}
    cwd = program.parent  # some write files where they are started
    server = StdioServerParameters(command=str(program), args=list(args), env=environ, cwd=cwd)
    with anyio.fail_after(SECONDS):
        async with Client(server, mode="legacy") as client:
            page = await client.list_tools()
            found = [*page.tools]
            while page.next_cursor is not None:
                page = await client.list_tools(cursor=page.next_cursor)
                found += page.tools
    return [Tool.from_json(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in found]


def rows_of(pair: Pair, folder: Path) -> Iterator[Row]:
    """Yield the rows of a pair."""
    old, new = (anyio.run(tools_of, install(pair, each, folder), pair.args) for each in (pair.old, pair.new))
    drifts: Mapping[str, Drift] = {drift.tool_id: drift for drift in Lock.of(old).compare(new)}
    named = {name for said in pair.said for name in said.tools.split() if name != "*"}
    if unknown := named - drifts.keys():
        sys.exit(f"{pair.package} {pair.old}: nothing has changed of {', '.join(sorted(unknown))}")
    for said in pair.said:
        names = drifts.keys() - named if said.tools == "*" else said.tools.split()
        yield Row(pair, said, tuple(drifts[name] for name in drifts if name in names))
    if not any(said.tools == "*" for said in pair.said) and (unread := drifts.keys() - named):
        sys.exit(f"{pair.package} {pair.old}: nobody has read {', '.join(sorted(unread))}")


def main() -> None:
    """Install and compare all pairs, print where a person does not agree, and write the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, help="install here, and keep it")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        rows = [row for pair in PAIRS for row in rows_of(pair, folder)]
    others = [row for row in rows if row.levels != (row.said.level,)]
    for row in others:
        print("not as a person says:", *row.cells(), sep="\n  ")
    tools = sum(len(row.drifts) for row in rows)
    agreed = f"{len(rows) - len(others)} of {len(rows)} rows"
    summary = (
        f"{len(PAIRS)} pairs, {tools} tools that differ; the class matches the human verdict in {agreed}."
    )
    print(summary)
    if not options.check:
        lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
        before, rest = PAGE.read_text(encoding="utf-8").split(START)
        table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
        PAGE.write_text(
            before + START + summary + "\n\n" + table + END + rest.split(END)[1], encoding="utf-8"
        )
    sys.exit(1 if others else 0)


if __name__ == "__main__":
    main()
