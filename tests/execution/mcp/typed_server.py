"""A server made with the SDK, over standard input and output, streamable HTTP or the older HTTP+SSE."""

from mcp.server import MCPServer
from starlette.applications import Starlette


def make() -> MCPServer:
    server = MCPServer("typed", log_level="ERROR")

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def big(size: int) -> str:
        return "x" * size

    return server


def app(kind: str) -> Starlette:
    """Return the application for a transport: http, json (HTTP without event streams) or sse."""
    server = make()
    return server.sse_app() if kind == "sse" else server.streamable_http_app(json_response=kind == "json")


if __name__ == "__main__":
    make().run("stdio")
