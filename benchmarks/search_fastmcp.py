"""FastMCP's search over tools, through its public interface."""

import logging
from collections.abc import Iterable

from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastmcp import FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools import Tool as FastMcpTool

from toolcrib.discovery.protocols import Hit
from toolcrib.model import Tool

MAX_RESULTS = 10


class FastMcp:
    """A FastMCP server with its BM25 search, asked as a client would ask: by calling its search tool.

    It says no scores, so any answer at all counts as sure.
    """

    def __init__(self, ids: dict[str, str], server: FastMCP) -> None:
        self.ids = ids
        self.server = server
        self._context = start_blocking_portal()
        self.portal: BlockingPortal = self._context.__enter__()

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best hits."""
        result = self.portal.call(self.server.call_tool, "search_tools", {"query": query})
        found = result.structured_content["result"][:limit]
        return [Hit(self.ids[tool["name"]], -place, 1.0) for place, tool in enumerate(found)]

    def close(self) -> None:
        """End the event loop."""
        self._context.__exit__(None, None, None)


def build_fastmcp(tools: Iterable[Tool]) -> FastMcp:
    """Add every tool to one server, a namespace being the prefix that mounting would give."""
    logging.disable(logging.WARNING)
    server: FastMCP = FastMCP("tools")
    ids: dict[str, str] = {}
    for tool in tools:
        name = "_".join(part for part in (tool.namespace, tool.name) if part)
        name = name if name not in ids else f"{name}_{len(ids)}"
        ids[name] = str(tool.id)
        server.add_tool(
            FastMcpTool(
                name=name, description=tool.description, parameters=tool.input_schema, tags=set(tool.tags)
            )
        )
    server.add_transform(BM25SearchTransform(max_results=MAX_RESULTS))
    return FastMcp(ids, server)
