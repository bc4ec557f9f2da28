"""The built-in adapters, a module for each provider."""
