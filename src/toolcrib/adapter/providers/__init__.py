"""One module per provider: how it writes tools, calls and results."""
