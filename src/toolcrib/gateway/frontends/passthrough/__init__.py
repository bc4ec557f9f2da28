"""The tools themselves as MCP definitions, and the choice between them and the meta-tools."""
