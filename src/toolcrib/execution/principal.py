"""The principal: the caller of a tool."""

import getpass
from collections.abc import Hashable
from dataclasses import dataclass, field

from toolcrib.concurrency.fair_slots import Member

TOKENS = "tokens"
"""The issuer of the named tokens of a gateway."""
LOCAL = "local"
"""The issuer of the user of this machine."""
_SELF_NAMED = "mcp"
"""The name of unauthenticated clients; they may add a colon and a name of their own."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a tool, as far as it is known: part of cache keys, limits, policy and audit.

    Two principals are equal only if all fields are, so that nothing stored for one is given to another.

    >>> str(Principal(issuer="https://login.example", subject="ann", client="editor"))
    'ann via editor'
    """

    issuer: str = ""
    """The issuer that authenticated the subject: the address of an authorization server, `tokens` for the
    named tokens of a gateway, `local` for the user of this machine; empty if unauthenticated."""
    subject: str = ""
    """The person or program, as named by the issuer; empty if unknown."""
    client: str = ""
    """The program that acts for the subject; without an issuer, the name that it gave itself."""
    groups: frozenset[str] = frozenset()
    """The groups that the issuer says the subject is in."""
    scopes: frozenset[str] = frozenset()
    """The scopes that the subject has granted to the client."""

    def __post_init__(self) -> None:
        # configurations and tokens have lists, whose order must not make two principals different
        object.__setattr__(self, "groups", frozenset(self.groups))
        object.__setattr__(self, "scopes", frozenset(self.scopes))

    def __str__(self) -> str:
        if self.subject and self.client:
            return f"{self.subject} via {self.client}"
        return self.subject or self.client or "anonymous"


@dataclass(frozen=True, slots=True)
class SubjectToken:
    """The verified token of a client's request."""

    principal: Principal
    """The principal in it."""
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Issuers:
    """The issuers of a configuration, which resolve the names in rules: each name has exactly one issuer.

    >>> issuers = Issuers(tokens=frozenset({"ci"}), authority="https://login.example")
    >>> issuers.means(Principal(issuer="tokens", subject="ci"), "ci")
    True
    >>> issuers.means(Principal(issuer="https://login.example", subject="ci"), "ci")
    False
    """

    tokens: frozenset[str] = frozenset()
    """The names of the gateway's tokens."""
    authority: str | None = None
    """The authorization server whose tokens the gateway accepts."""

    def means(self, principal: Principal, who: str) -> bool:
        """Return whether a name in a rule means a principal.

        `token:NAME` is a named token, `user:SUBJECT` an account of the authorization server, `local:USER` a
        user of this machine. A bare name is the named token, if there is one of that name; else the account,
        if there is an authorization server; else any principal with that subject. `client:NAME` is resolved
        like a bare name; `group:NAME` is a group of any issuer.
        """
        if who == "*":
            return True
        kind, _, name = who.partition(":")
        if kind == "group":
            return name in principal.groups
        if kind == "client":
            return name == principal.client and self._has_issuer_of(principal, name, is_client=True)
        if kind in _KINDS:
            return bool(name) and name == principal.subject and kind == self.kind_of(principal)
        return who == principal.subject and self._has_issuer_of(principal, who)

    def kind_of(self, principal: Principal) -> str:
        """Return `token`, `user` or `local`; empty for a principal without a known issuer."""
        if principal.issuer in {TOKENS, LOCAL}:
            return "token" if principal.issuer == TOKENS else "local"
        is_account = principal.issuer == self.authority if self.authority else bool(principal.issuer)
        return "user" if is_account else ""

    def named(self, who: str) -> Principal:
        """Return the principal for a name, with issuer and subject alone."""
        kind, _, name = who.partition(":")
        issuers = {"token": TOKENS, "local": LOCAL, "user": self.authority or "user"}
        if kind in issuers and name:
            return Principal(issuer=issuers[kind], subject=name)
        if who in self.tokens:
            return Principal(issuer=TOKENS, subject=who)
        return Principal(issuer=self.authority or "", subject=who) if who else Principal()

    def _has_issuer_of(self, principal: Principal, name: str, *, is_client: bool = False) -> bool:
        """Return whether a principal has the issuer to which a bare name belongs."""
        if is_client and name.partition(":")[0] == _SELF_NAMED:
            return self.kind_of(principal) in {"local", ""}
        if name in self.tokens:
            return principal.issuer == TOKENS
        return self.authority is None or principal.issuer == self.authority


_KINDS = frozenset({"token", "user", "local"})


def slot_owner(principal: Principal | None) -> Hashable | None:
    """Return the owner of a principal's share of limited slots; None for the program itself.

    All unauthenticated clients have one share together, because they choose their own names. The local user,
    who owns this process, counts as the program.

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
    """Return the user of this process as a principal, with the name of the interface in use as client."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a uid without an entry, as in some containers
        user = ""
    return Principal(issuer=LOCAL, subject=user, client=client)
