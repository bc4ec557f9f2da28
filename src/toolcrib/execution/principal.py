"""Who makes a call."""

import getpass
from collections.abc import Hashable
from dataclasses import dataclass

from toolcrib.concurrency.fair_slots import Member

__all__ = ["Principal", "local_user", "slot_owner"]

_LOCAL = "local"


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


def slot_owner(principal: Principal | None) -> Hashable | None:
    """Return whose share of limited slots a principal uses; None for the program itself, which has no share.

    All clients that nobody vouches for have one share together: they choose their names themselves. The user
    of this machine, whose process this is, counts as the program.

    >>> slot_owner(Principal(issuer="tokens", subject="ann", client="editor"))
    ('tokens', 'ann')
    >>> slot_owner(Principal(client="mcp:a"))
    Member(group='', name='mcp:a')
    """
    if principal is None or principal.issuer == _LOCAL:
        return None
    if not principal.issuer:
        return Member("", principal.subject or principal.client)
    return principal.issuer, principal.subject


def local_user(client: str) -> Principal:
    """Return the user whose process this is, acting through one of our own doors."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user, as in a container of an arbitrary number
        user = ""
    return Principal(issuer=_LOCAL, subject=user, client=client)
