"""The ways to MCP servers: over the pipes of a process, and over HTTP with event streams."""
