"""The crib in a notebook, whose kernel runs an event loop of its own."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from servers import launch
from waiting import PATIENCE, wait_until


class Notebook:
    """Runs cells in a kernel, and returns their output."""

    def __init__(self, manager: KernelManager, client: Any) -> None:
        self._client = client
        self.shut_down = manager.shutdown_kernel

    def run(self, cell: str) -> str:
        printed: list[str] = []

        def take(message: Any) -> None:
            if message["msg_type"] == "error":
                raise AssertionError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        self._client.execute_interactive(cell, output_hook=take, timeout=PATIENCE)
        return "".join(printed)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Give a kernel in a folder with a configuration, one for all tests that leave it running."""
    with start_kernel(tmp_path_factory.mktemp("notebook")) as kernel:
        yield kernel


@contextmanager
def start_kernel(folder: Path) -> Iterator[Notebook]:
    """Start a kernel, which is shut down as Jupyter does it."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(variable, str(folder / variable.lower()))
        with _running(folder) as kernel:
            yield kernel


@contextmanager
def _running(folder: Path) -> Iterator[Notebook]:
    servers = {"text": {"command": sys.executable, "args": ["-S", "-I", launch.LITTLE]}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    manager = KernelManager()
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        if manager.is_alive():
            manager.shutdown_kernel()
        manager.cleanup_resources()


@pytest.mark.proof
def test_the_first_snippet_works_in_a_notebook(notebook: Notebook) -> None:
    cell = "from toolcrib import SyncCrib\ncrib = SyncCrib('mcp.json')\n"
    assert "text:shout" in notebook.run(cell + "print([tool.id for tool in crib.tools()])")
    assert notebook.run("print(crib.run('text:shout', {'text': 'a'}).structured)") == "{'result': 'A'}\n"
    server = int(notebook.run("print(crib.run('text:get_pid').structured['result'])"))
    assert launch.alive(server)
    notebook.run("crib.close()")
    wait_until(lambda: not launch.alive(server))


@pytest.mark.proof
def test_await_works_in_a_notebook_too(notebook: Notebook) -> None:
    cell = (
        "from toolcrib import Crib\n"
        "async with Crib('mcp.json') as crib:\n"
        "    print((await crib.run('text:shout', {'text': 'a'})).structured)\n"
    )
    assert notebook.run(cell) == "{'result': 'A'}\n"


@pytest.mark.proof
def test_a_kernel_that_ends_stops_the_servers(tmp_path: Path) -> None:
    cell = "from toolcrib import SyncCrib\ncrib = SyncCrib('mcp.json')\n"
    with start_kernel(tmp_path) as notebook:
        server = int(notebook.run(cell + "print(crib.run('text:get_pid').structured['result'])"))
        notebook.shut_down()
    wait_until(lambda: not launch.alive(server))
