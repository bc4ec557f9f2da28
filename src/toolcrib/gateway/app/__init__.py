"""The gateway over HTTP: who may ask, how much, and how it is doing."""
