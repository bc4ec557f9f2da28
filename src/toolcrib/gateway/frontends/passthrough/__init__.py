"""Lists the tools themselves and passes on their results; `auto` chooses between this and the meta-tools."""
