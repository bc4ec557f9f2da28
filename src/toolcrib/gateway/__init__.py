"""Serve a crib to MCP clients: one endpoint over all servers, for many people, for a long time."""
