"""Isolation of processes: bubblewrap, seccomp and control groups, for sandboxes of code and for MCP servers.

It knows neither of them. What they may read, write and reach is decided for code in
`toolcrib.runtime.sandboxes`, and for servers in `toolcrib.execution.mcp.walls`.
"""
