"""The JSON API of a gateway, below `/api/`, and the console in the browser that uses it."""
