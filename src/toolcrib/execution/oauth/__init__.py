"""Logging in to MCP servers with OAuth: the vault of credentials, refreshing, and the ways to log in."""
