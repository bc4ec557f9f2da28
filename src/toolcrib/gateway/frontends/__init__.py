"""What clients see: the meta-tools, the tools themselves, or whichever suits the client."""
