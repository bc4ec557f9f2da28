"""Who makes a call."""

import getpass
from dataclasses import dataclass

__all__ = ["Principal", "local_user"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a call, as far as it is known: part of cache keys, limits, policy and audit.

    Two principals are the same only if everything about them is, so that what is kept for one is never given
    to another.

    >>> str(Principal(issuer="https://login.example", subject="ann", client="editor"))
    'ann via editor'
    """

    issuer: str = ""
    """Who vouches for the subject: the address of an authorization server, `tokens` for the named tokens of a
    gateway, `local` for the user of this machine; empty where nobody does."""
    subject: str = ""
    """The person or program, as the issuer calls it; empty where it is not known."""
    client: str = ""
    """The program that acts for the subject; where there is no issuer, the name that it gives itself."""
    groups: frozenset[str] = frozenset()
    """The groups that the issuer says the subject is in."""
    scopes: frozenset[str] = frozenset()
    """The scopes that the subject has granted to the client."""

    def __post_init__(self) -> None:
        # Lists are what configurations and tokens hold, and a set of them is what can be compared.
        object.__setattr__(self, "groups", frozenset(self.groups))
        object.__setattr__(self, "scopes", frozenset(self.scopes))

    def __str__(self) -> str:
        if self.subject and self.client:
            return f"{self.subject} via {self.client}"
        return self.subject or self.client or "anonymous"


def local_user(client: str) -> Principal:
    """Return the user whose process this is, acting through one of our own doors."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user, as in a container of an arbitrary number
        user = ""
    return Principal(issuer="local", subject=user, client=client)
