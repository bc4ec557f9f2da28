"""Persons whose own access is used at servers that answer each of them for themselves."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolcrib.execution.principal import Principal, local_user

if TYPE_CHECKING:
    from toolcrib.execution.oauth.vault import Owner, StoredLogin

_COMMAND = re.compile(r"toolcrib login [\w.-]+")
_OPERATOR = "only the operator of this gateway can log in"


@dataclass(eq=False, slots=True)
class Person:
    """Somebody whose own access to one server is used on a connection."""

    principal: Principal
    subject_token: str | None = field(default=None, repr=False)
    """The token that they have called with last, where it may be exchanged."""
    exchanged: "StoredLogin | None" = field(default=None, repr=False)
    """What it was exchanged for."""
    watched: dict[str, int] = field(default_factory=dict)
    """The resources whose changes are told them, and to how many of their clients."""

    @property
    def owner(self) -> "Owner | None":
        """Whose entry of the vault is theirs."""
        return login_owner(self.principal)


def login_owner(principal: Principal) -> "Owner | None":
    """Return whose logins are a principal's; None for whoever runs toolcrib, whose vault it is."""
    if principal.issuer == "local" and principal.subject == local_user("").subject:
        return None
    return principal.issuer, principal.subject


def login_command(server: str) -> str:
    """Return the command by which whoever runs toolcrib logs in to a server."""
    return f"toolcrib login {server}"


def login_reason(reason: str, principal: Principal | None) -> str:
    """Return why a server wants a login, in words for a principal: others than the operator have no command.

    >>> ann = Principal(issuer="tokens", subject="ann")
    >>> login_reason("it needs a login: toolcrib login notes", ann)
    'it needs a login: only the operator of this gateway can log in'
    """
    if principal is None or not principal.issuer or login_owner(principal) is None:
        return reason
    return _COMMAND.sub(_OPERATOR, reason)
