"""The official inspector."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from servers.launch import npm_tool


class Inspector:
    """The inspector on its command line, pointed at a server."""

    def __init__(self, folder: Path, *target: str) -> None:
        self._target, self._folder = target, folder
        self._program = npm_tool("@modelcontextprotocol/inspector/clients/launcher/build/index.js")

    @classmethod
    def of_command(cls, folder: Path, server: Mapping[str, Any]) -> Self:
        """Return one that starts its server itself, over stdio."""
        clients = folder / "mcp.json"
        clients.write_text(json.dumps({"mcpServers": {"server": server}}))
        return cls(folder, "--config", str(clients), "--server", "server")

    def ask(self, method: str, *options: str) -> Any:
        """Return the server's response as the inspector prints it."""
        command = [*self._program, "--cli", *self._target, "--method", method, *options]
        environ = {"HOME": str(self._folder), "PATH": str(Path(self._program[0]).parent)}
        run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
        return json.loads(run.stdout)

    def call(self, tool: str, **arguments: str) -> Any:
        """Return the result of a tool."""
        pairs = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
        answer = self.ask("tools/call", "--tool-name", tool, *pairs)
        assert not answer.get("isError"), answer
        return answer["structuredContent"]
