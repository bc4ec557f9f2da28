"""Connections of single persons to servers that answer each of them for themselves."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib.errors import LoginRequiredError, RequestRefusedError, ServerUnavailableError
from toolcrib.execution.call import CallContext
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.oauth.persons import Person
from toolcrib.execution.principal import Principal

if TYPE_CHECKING:
    from toolcrib.execution.mcp.upstream import Upstream

_MOST = 256
"""Persons with connections at the same time, at most."""


class PersonalUpstreams:
    """One upstream for each person and server, so that no session and no credential serves two persons.

    Where there are too many, the one is retired that was not used for the longest time, and over which no
    resource is watched. Three quarters of them may be kept for what is watched.
    """

    def __init__(
        self,
        make: Callable[[str, Person], "Upstream"],
        retire: Callable[["Upstream"], None],
        *,
        most: int = _MOST,
    ) -> None:
        self._make, self._retire, self._most = make, retire, most
        self._known: dict[tuple[str, Hashable], tuple[Person, Upstream]] = {}
        self._forgotten: dict[tuple[str, Hashable], Person] = {}
        """Those whose upstreams were forgotten, for what they watch."""

    def known(self, name: str, key: Hashable) -> "Upstream | None":
        """Return the upstream of a person, by their `person_key`; None before there is one."""
        known = self._known.get((name, key))
        return None if known is None else known[1]

    def all_of(self, name: str) -> list["Upstream"]:
        """Return the upstreams to a server."""
        return [upstream for key, (_, upstream) in self._known.items() if key[0] == name]

    def find(self, name: str, config: ServerConfig, context: CallContext) -> "Upstream":
        """Return the upstream of the principal who calls.

        Raises:
            LoginRequiredError: it is not known who that is, or there is no token to exchange.
            ServerUnavailableError: too many persons call at once.
        """
        principal = context.principal
        if principal is None or not principal.issuer or not principal.subject:
            reason = "it needs a login of each person, and the caller is unknown: the operator has to give"
            raise LoginRequiredError(
                name, f"{reason} clients their own tokens (gateway.tokens), or a login (gateway.auth)"
            )
        is_exchanged = _is_exchanged(config)
        token = _subject_token(context) if is_exchanged else None
        if is_exchanged and token is None:
            reason = "it needs the token of the caller's login to exchange, and there is none"
            raise LoginRequiredError(name, reason)
        key = name, person_key(config, principal)
        known = self._known.get(key)
        if known is not None and known[1].needs_login:
            self._retire(self._forget(key))  # it would wait before it tries again, and there may be a login
            known = None
        if known is None:
            self._make_room(name)
            before = self._forgotten.pop(key, None)
            person = Person(principal, watched={} if before is None else before.watched)
            known = person, self._make(name, person)
        self._known.pop(key, None)
        self._known[key] = known
        known[0].subject_token = token
        return known[1]

    def _make_room(self, name: str) -> None:
        if len(self._known) < self._most:
            return
        for key, (_, upstream) in self._known.items():
            if not len(upstream.in_flight) and not upstream.changes.busy:
                self._retire(self._forget(key))
                return
        raise ServerUnavailableError(name, "too many people use their servers at once; try again later")

    def admit_watcher(self, upstream: "Upstream") -> None:
        """Let a resource be watched over a connection, which is kept for that.

        Raises:
            RequestRefusedError: it is that of a person, and too many others watch something.
        """
        others = sum(each.changes.busy for _, each in self._known.values() if each is not upstream)
        if upstream.config.is_personal and others >= self._most * 3 // 4:
            raise RequestRefusedError(
                upstream.name, "resources/subscribe", "too many people watch resources of their servers"
            )

    def replace_all(self, name: str, config: ServerConfig) -> list["Upstream"]:
        """Return other upstreams for those who watch resources of a server that has other settings now."""
        if config.disabled or not config.is_personal:
            return []
        made = []
        for key, before in list(self._forgotten.items()):
            if key == (name, person_key(config, before.principal)) and before.watched:
                person = replace(self._forgotten.pop(key), exchanged=None)  # which was for other settings
                self._known[key] = person, self._make(name, person)
                made.append(self._known[key][1])
        return made

    def _forget(self, key: tuple[str, Hashable]) -> "Upstream":
        """Forget an upstream, but not its watched resources, which the person's next upstream restores."""
        person, upstream = self._known.pop(key)
        self._forgotten = {each: before for each, before in self._forgotten.items() if before.watched}
        self._forgotten[key] = person
        return upstream

    def take(self, name: str | None = None) -> list["Upstream"]:
        """Forget the upstreams of a server, or all of them, and return them."""
        keys = [key for key in self._known if name is None or key[0] == name]
        return [self._forget(key) for key in keys]


async def connect(upstream: "Upstream") -> None:
    """Start a server, if possible, so that it announces changes of watched resources."""
    with suppress(ServerUnavailableError):
        await upstream.connect()


def person_key(config: ServerConfig, principal: Principal | None) -> Hashable:
    """Return the key of the owner of a principal's connection to a server, and of its results.

    What a token was exchanged for may do what its client and scopes may, so it is for no others.
    """
    if principal is None or _is_exchanged(config):
        return principal or Principal()
    return principal.issuer, principal.subject


def _is_exchanged(config: ServerConfig) -> bool:
    return config.auth is not None and config.auth.mode == "exchange"


def _subject_token(context: CallContext) -> str | None:
    """Return the token of the request, if it names the principal who calls."""
    given = context.subject_token
    return given.token if given is not None and given.principal == context.principal else None
