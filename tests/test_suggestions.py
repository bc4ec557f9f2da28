"""Unknown names by the tens of thousands: suggestions are computed for a few of them alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import at_most

from toolcrib import SyncCrib
from toolcrib.crib import load
from toolcrib.discovery import Index
from toolcrib.errors import ToolcribError
from toolcrib.execution.chains.check import check_chain
from toolcrib.model import DefaultValidator, McpBackend, Tool

MANY = 60_000


def run_chain(steps: Any) -> None:
    SyncCrib().run_chain(steps)


IDS = [f"find_the_thing_that_is_{n:02d}" for n in range(50)]
NAMED: list[dict[str, Any]] = [{"id": name, "toolId": "shop:buy"} for name in IDS]
ORDER = {"type": "object", "properties": {name: {} for name in IDS}, "additionalProperties": False}


def references(text: str) -> dict[str, Any]:
    """Return arguments with references to missing values."""
    return {f"a{n}": {"$ref": text.format(f"find_the_thng_that_is_{n}"[:40])} for n in range(20_000)}


def run_chain_with_tools(steps: Any) -> None:
    """Run a chain with very many tools of similar names, and one with many arguments."""
    names = [f"buy_the_thing_that_is_number_{n}" for n in range(300)]
    tools = [{"name": name, "namespace": "shop", "inputSchema": {}} for name in names]
    whole = {"name": "buy", "namespace": "shop", "inputSchema": ORDER, "outputSchema": ORDER}
    index = Index()
    for each in [*tools, whole]:
        index.register(Tool.from_json(each), backend=McpBackend(server_name="shop"))
    check_chain(steps, index, DefaultValidator())


INPUTS: dict[str, Callable[[Path], Any]] = {
    "fields of a step": lambda _: run_chain(
        [{"toolId": "a:f", **{f"use_previou{n}": 1 for n in range(MANY)}}]
    ),
    "fields of many steps": lambda _: run_chain(
        [{"toolId": "a:f", **{f"use_previou{n}": 1 for n in range(60)}} for _ in range(1_000)]
    ),
    "references to steps": lambda _: run_chain([*NAMED, {"toolId": "a:f", "args": references("steps.{}")}]),
    "references in groups": lambda _: run_chain(
        [*NAMED, {"parallel": [{"toolId": "a:f", "args": references("steps.{}")}]}]
    ),
    "references in conditions": lambda _: run_chain(
        [*NAMED, {"toolId": "a:f", "when": {"all": [*references("steps.{}").values()]}}]
    ),
    "references to fields of a result": lambda _: run_chain_with_tools(
        [{"id": "x", "toolId": "shop:buy"}, {"toolId": "shop:buy", "args": references("steps.x/{}")}]
    ),
    "arguments beside a reference": lambda _: run_chain_with_tools(
        [
            {"toolId": "shop:buy"},
            {
                "toolId": "shop:buy",
                "args": {
                    **{f"find_the_thng_that_is_{n}": 1 for n in range(20_000)},
                    IDS[0]: {"$ref": "steps.0"},
                },
            },
        ]
    ),
    "tools of steps": lambda _: run_chain_with_tools(
        [{"toolId": f"shop:buy_the_thng_that_is_numbr_{n}"} for n in range(1_000)]
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
    with (
        at_most(1.5),
        pytest.raises(ToolcribError, match=r"did you mean|needs a 'command'|the chain cannot run"),
    ):
        INPUTS[kind](tmp_path)
