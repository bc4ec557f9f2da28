"""Who calls a gateway over HTTP: by a shared token, by a named one, or by a login elsewhere."""
