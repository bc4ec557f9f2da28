"""Serve fastmcp's proxy on a port: of the server at a URL, of a command, or of many commands at once.

`python gateway_peer.py PORT http URL`, `PORT stdio COMMAND...` or `PORT mount COUNT COMMAND...`.
"""

import sys

import fastmcp
from fastmcp.server.providers.proxy import ProxyClient
from fastmcp.server.server import create_proxy


def proxy(kind: str, rest: list[str]) -> fastmcp.FastMCP:
    """Return the proxy of a kind."""
    if kind == "http":
        return create_proxy(rest[0])
    if kind == "stdio":
        return create_proxy(config(rest))
    mounted = fastmcp.FastMCP("many")
    for number in range(int(rest[0])):
        mounted.mount(create_proxy(ProxyClient(config(rest[1:]))), namespace=f"s{number}")
    return mounted


def config(command: list[str]) -> dict[str, object]:
    """Return the configuration of one server."""
    return {"mcpServers": {"one": {"command": command[0], "args": command[1:]}}}


def main() -> None:
    """Serve until killed."""
    port, kind, *rest = sys.argv[1:]
    server = proxy(kind, rest)
    server.run(
        transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="error", path="/mcp"
    )


if __name__ == "__main__":
    main()
