"""Identifies the callers of a gateway over HTTP: by a shared token, a named token, or a login."""
