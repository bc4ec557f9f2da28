"""The gateway over HTTP: who may ask, how much, and how it is doing."""

from toolcrib.gateway.http.rules import AccessRules, is_loopback, token_of

__all__ = ["AccessRules", "is_loopback", "token_of"]
