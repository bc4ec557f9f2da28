"""The counter where AI agents' tools are kept, catalogued, found and handed out."""
