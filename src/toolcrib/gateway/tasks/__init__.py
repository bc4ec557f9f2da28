"""The tasks extension of MCP 2026-07-28: calls that go on without a request, and are asked about later."""
