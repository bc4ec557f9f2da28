"""Servers as a user has them: their tools in an index, and a runner that runs them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from servers.launch import Config
from waiting import PATIENCE

from toolcrib.discovery import Index
from toolcrib.execution import Runner, RunResult
from toolcrib.execution.mcp import McpServers
from toolcrib.model import Tool


@dataclass
class Shop:
    """Some servers, the index of all their tools, and the runner."""

    index: Index = field(default_factory=Index)
    listed: dict[str, int] = field(default_factory=dict)
    """The number of listings of each server."""
    servers: McpServers = field(init=False)
    runner: Runner = field(init=False)

    async def run(self, tool_id: str, **args: Any) -> RunResult:
        """Run a tool."""
        return await self.runner.run(tool_id, args, timeout=PATIENCE)

    async def list(self, *names: str) -> None:
        """Have the tools of servers listed, which registers them."""
        for name in names:
            await self.servers.tools(name)

    def took(self, name: str, tools: tuple[Tool, ...]) -> None:
        """Replace the registered tools of a server by those it lists now."""
        self.listed[name] = self.listed.get(name, 0) + 1
        offered = {str(tool.id) for tool in tools}
        known = {item.id for item in self.index.tools(namespace=name, limit=1000).items}
        for gone in known - offered:
            self.index.unregister(gone)
        self.index.register_many([(tool, tool.backend) for tool in tools])


@asynccontextmanager
async def opened(**configs: Config) -> AsyncIterator[Shop]:
    """Connect to servers, without starting any; their tools are registered when they are listed."""
    shop = Shop()
    patient = {name: {"start_timeout": PATIENCE, **config} for name, config in configs.items()}
    async with McpServers(patient, on_tools=shop.took) as shop.servers:
        shop.runner = Runner(shop.index, mcp=shop.servers)
        yield shop
