"""Persons with their own logins to servers."""

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
    """A person whose own login is used on a connection to a server."""

    principal: Principal
    subject_token: str | None = field(default=None, repr=False)
    """The token of their last call, if it may be exchanged."""
    exchanged: "StoredLogin | None" = field(default=None, repr=False)
    """The login that it was exchanged for."""
    watched: dict[str, int] = field(default_factory=dict)
    """The resources that they have subscribed to, with the number of their subscribed clients."""

    @property
    def owner(self) -> "Owner | None":
        """The owner of their entry in the vault."""
        return login_owner(self.principal)


def login_owner(principal: Principal) -> "Owner | None":
    """Return the owner of a principal's logins; None for the operator, whose vault it is."""
    if principal.issuer == "local" and principal.subject == local_user("").subject:
        return None
    return principal.issuer, principal.subject


def login_command(server: str) -> str:
    """Return the command with which the operator logs in to a server."""
    return f"toolcrib login {server}"


def login_reason(reason: str, principal: Principal | None) -> str:
    """Return the reason of a missing login for a principal: only the operator can run the command in it.

    >>> ann = Principal(issuer="tokens", subject="ann")
    >>> login_reason("it needs a login: toolcrib login notes", ann)
    'it needs a login: only the operator of this gateway can log in'
    """
    if principal is None or not principal.issuer or login_owner(principal) is None:
        return reason
    return _COMMAND.sub(_OPERATOR, reason)
