"""Names that nobody knows, by the tens of thousands: the nearest known one is looked for a few of them alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import at_most

from toolcrib import SyncCrib
from toolcrib.crib import load
from toolcrib.errors import ToolcribError

MANY = 60_000


def run_chain(steps: Any) -> None:
    SyncCrib().run_chain(steps)


INPUTS: dict[str, Callable[[Path], Any]] = {
    "fields of a step": lambda _: run_chain(
        [{"toolId": "a:f", **{f"use_previou{n}": 1 for n in range(MANY)}}]
    ),
    "fields of many steps": lambda _: run_chain(
        [{"toolId": "a:f", **{f"use_previou{n}": 1 for n in range(60)}} for _ in range(1_000)]
    ),
    "settings": lambda _: SyncCrib({f"mcpserver{n}": 1 for n in range(MANY)}),
    "keys of a server": lambda _: SyncCrib({"mcpServers": {"s": {f"comand{n}": "x" for n in range(MANY)}}}),
    "keys of a server in a file": lambda folder: load(file_of_server_keys(folder)),
}


def file_of_server_keys(folder: Path) -> Path:
    path = folder / "toolcrib.toml"
    path.write_text("[servers.s]\ncommand = 'x'\n" + "".join(f"comand{n} = 1\n" for n in range(20_000)))
    return path


@pytest.mark.parametrize("kind", INPUTS)
def test_unknown_names_are_refused_in_bounded_time(kind: str, tmp_path: Path) -> None:
    with at_most(1.5), pytest.raises(ToolcribError, match=r"did you mean|needs a 'command'"):
        INPUTS[kind](tmp_path)
