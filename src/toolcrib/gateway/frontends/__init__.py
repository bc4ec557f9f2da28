"""The frontends: the meta-tools, the tools themselves (pass-through), or an automatic choice."""
