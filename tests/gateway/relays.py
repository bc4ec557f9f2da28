"""Fields and messages relayed between a server and the client of a call; the table of the docs is made of it."""

from dataclasses import dataclass

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
"""The last revision of each era, and the mode of the SDK's client that selects it."""


@dataclass(frozen=True)
class Relay:
    """Something that a server asks or tells while a call runs."""

    what: str
    """Its description, for people."""
    tool: str
    """The tool of the server that does it."""
    gives: str
    """The tool's result when it is relayed."""
    older: str
    """Its transport in the handshake era."""
    newer: str
    """Its transport in the stateless era."""


RELAYS = (
    Relay("sampling", "sample", "Hi", "`sampling/createMessage`", "`input_required`"),
    Relay("elicitation, form mode", "form", "accept Ada", "`elicitation/create`", "`input_required`"),
    Relay("elicitation, URL mode", "url", "accept", "`elicitation/create`", "`input_required`"),
    Relay("roots", "roots", "file:///work", "`roots/list`", "`input_required`"),
    Relay("progress", "count", "done", "`notifications/progress`", "the same, on the response stream"),
    Relay("log messages", "log", "done", "from `logging/setLevel` on", "from the request's `logLevel` on"),
    Relay(
        "cancellation", "wait", "", "`notifications/cancelled`", "the same; over HTTP, closing the connection"
    ),
)
