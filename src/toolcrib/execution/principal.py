"""Who makes a call."""

import getpass
from collections.abc import Hashable
from dataclasses import dataclass, field

from toolcrib.concurrency.fair_slots import Member

TOKENS = "tokens"
"""The issuer of the named tokens of a gateway."""
LOCAL = "local"
"""The issuer of the user of this machine."""
_SELF_NAMED = "mcp"
"""Clients that name themselves have this name, or one that begins with it and a colon."""


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


@dataclass(frozen=True, slots=True)
class SubjectToken:
    """The token that a client has called with, whose signature and audience were verified."""

    principal: Principal
    """Whom it names."""
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Issuers:
    """The issuers of a configuration, which say whom a name in a rule means: exactly one of them.

    >>> issuers = Issuers(tokens=frozenset({"ci"}), authority="https://login.example")
    >>> issuers.means(Principal(issuer="tokens", subject="ci"), "ci")
    True
    >>> issuers.means(Principal(issuer="https://login.example", subject="ci"), "ci")
    False
    """

    tokens: frozenset[str] = frozenset()
    """The names of the gateway's tokens."""
    authority: str | None = None
    """The authorization server whose tokens the gateway takes."""

    def means(self, principal: Principal, who: str) -> bool:
        """Return whether a principal is the one that `who` names.

        `token:NAME` is a named token, `user:SUBJECT` an account of the authorization server, `local:USER` a
        user of this machine. A bare name is the named token, where there is one of that name, else the
        account, where there is an authorization server, else whoever has that subject. `client:NAME` is
        resolved as a bare name is; `group:NAME` is a group that any issuer vouches for.
        """
        if who == "*":
            return True
        kind, _, name = who.partition(":")
        if kind == "group":
            return name in principal.groups
        if kind == "client":
            return name == principal.client and self._vouches(principal, name, is_client=True)
        if kind in _KINDS:
            return bool(name) and name == principal.subject and kind == self.kind_of(principal)
        return who == principal.subject and self._vouches(principal, who)

    def kind_of(self, principal: Principal) -> str:
        """Return `token`, `user` or `local`; empty for a principal that no known issuer vouches for."""
        if principal.issuer in {TOKENS, LOCAL}:
            return "token" if principal.issuer == TOKENS else "local"
        is_account = principal.issuer == self.authority if self.authority else bool(principal.issuer)
        return "user" if is_account else ""

    def named(self, who: str) -> Principal:
        """Return the principal that a name means, as far as the name tells."""
        kind, _, name = who.partition(":")
        issuers = {"token": TOKENS, "local": LOCAL, "user": self.authority or "user"}
        if kind in issuers and name:
            return Principal(issuer=issuers[kind], subject=name)
        if who in self.tokens:
            return Principal(issuer=TOKENS, subject=who)
        return Principal(issuer=self.authority or "", subject=who) if who else Principal()

    def _vouches(self, principal: Principal, name: str, *, is_client: bool = False) -> bool:
        """Return whether a principal's issuer is the one that a bare name is looked for at."""
        if is_client and name.partition(":")[0] == _SELF_NAMED:
            return self.kind_of(principal) in {"local", ""}
        if name in self.tokens:
            return principal.issuer == TOKENS
        return self.authority is None or principal.issuer == self.authority


_KINDS = frozenset({"token", "user", "local"})


def slot_owner(principal: Principal | None) -> Hashable | None:
    """Return whose share of limited slots a principal uses; None for the program itself, which has no share.

    All clients that nobody vouches for have one share together: they choose their names themselves. The user
    of this machine, whose process this is, counts as the program.

    >>> slot_owner(Principal(issuer="tokens", subject="ann", client="editor"))
    ('tokens', 'ann')
    >>> slot_owner(Principal(client="mcp:a"))
    Member(group='', name='mcp:a')
    """
    if principal is None or principal.issuer == LOCAL:
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
    return Principal(issuer=LOCAL, subject=user, client=client)
