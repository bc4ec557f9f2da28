"""Sandboxes for code: monty, a process behind a wall, containers, WebAssembly, and none."""
