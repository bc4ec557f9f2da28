"""JSON Schema validation that no schema and no value can hang or crash."""
