"""Identifies the principal of an `Authorization` header, or refuses it with a reason."""

import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import jwt

from toolcrib.crib.config.gateway import AuthSettings, GatewaySettings, TokenSettings
from toolcrib.errors import ServerUnavailableError
from toolcrib.execution import Principal
from toolcrib.execution.principal import TOKENS, SubjectToken
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.identity.keys import SigningKeys

METADATA = "/.well-known/oauth-protected-resource"
"""Path of the protected resource metadata (RFC 9728)."""
_MAX_TOKEN = 16 * 1024
_TRUSTED_SECONDS = 60.0
"""Seconds for which a verified token is not verified again."""
_EVERYTHING = EndpointAddress()
_NOTHING_SENT = "send a token as 'Authorization: Bearer ...'"


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818 - it is an answer to a client, not an error of ours
    """The reason to refuse a request, in terms of RFC 6750."""

    status: int
    error: str
    """The error code; empty without credentials."""
    text: str
    scopes: tuple[str, ...] = ()
    """All scopes that the operation needs."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Identities:
    """The credentials that a gateway asks for: one shared token, named tokens, and tokens of an issuer."""

    token: bytes | None = None
    """The shared token, which identifies nobody."""
    named: Mapping[str, TokenSettings] | None = None
    """Tokens of single persons and programs; an empty table still requires one."""
    auth: AuthSettings | None = None
    keys: SigningKeys | None = None
    clock: Callable[[], float] = time.time

    @classmethod
    def of(
        cls, settings: GatewaySettings, token: str | None, former: "Identities | None" = None
    ) -> "Identities | None":
        """Return the credentials of settings; None if clients need none.

        Keys that a former object fetched are kept if they hold.
        """
        auth = settings.auth
        if token is None and settings.tokens is None and auth is None:
            return None
        keys = former.keys if former is not None and former.auth == auth else None
        if auth is not None and keys is None:
            keys = SigningKeys(auth)
        return cls(None if token is None else token.encode(), settings.tokens, auth, keys)

    async def identify(self, header: str | None, address: EndpointAddress = _EVERYTHING) -> Principal | None:
        """Return the principal of an `Authorization` header at an endpoint; None for the shared token.

        Raises:
            Refusal: the header is not accepted.
        """
        scheme, _, given = (header or "").partition(" ")
        given = given.strip()
        if header is None or scheme.lower() != "bearer" or not given:
            raise Refusal(401, "invalid_token" if header else "", _NOTHING_SENT, self._scopes)
        if self.token is not None and hmac.compare_digest(given.encode(errors="replace"), self.token):
            return None
        if self.named and (principal := self._identify_named(given, address, self.named)) is not None:
            return principal
        if self.auth is None or self.keys is None or given.count(".") != 2 or len(given) > _MAX_TOKEN:  # noqa: PLR2004 - of a JWT
            raise Refusal(401, "invalid_token", "the token is not known here", self._scopes)
        return await self._identify_login(given, address, self.auth, self.keys)

    def subject_token(self, principal: Principal, header: str) -> SubjectToken | None:
        """Return the token that a principal was identified by, if it is one of the issuer's."""
        if self.auth is None or principal.issuer != self.auth.issuer:
            return None
        return SubjectToken(principal, header.partition(" ")[2].strip())

    @property
    def _scopes(self) -> tuple[str, ...]:
        return () if self.auth is None else self.auth.scopes

    def _identify_named(
        self, given: str, address: EndpointAddress, tokens: Mapping[str, TokenSettings]
    ) -> Principal | None:
        """Return the principal of a named token."""
        digest = hashlib.sha256(given.encode(errors="replace")).hexdigest()
        for name, token in tokens.items():
            if not hmac.compare_digest(token.digest, digest):
                continue
            if token.expires is not None and token.expires.timestamp() <= self.clock():
                raise Refusal(401, "invalid_token", f"the token {name!r} has expired")
            if token.toolsets is not None and address.toolset not in token.toolsets:
                allowed = ", ".join(f"/mcp/{each}" for each in token.toolsets) or "none"
                raise Refusal(
                    403, "insufficient_scope", f"the token {name!r} is for other endpoints: {allowed}"
                )
            return Principal(issuer=TOKENS, subject=name, client=name, groups=frozenset(token.groups))
        return None

    async def _identify_login(
        self, given: str, address: EndpointAddress, auth: AuthSettings, keys: SigningKeys
    ) -> Principal:
        """Return the principal of a token of the issuer; a verified token is cached for a while."""
        mark = hashlib.sha256(f"{address.name}\n{given}".encode(errors="replace")).digest()
        until, principal = keys.checked.get(mark) or (0.0, None)
        if principal is None or self.clock() >= until:
            claims = await self._verify_token(given, address, auth, keys)
            principal = _principal_of_claims(claims, auth)
            until = min(self.clock() + _TRUSTED_SECONDS, float(claims["exp"]))
            keys.checked.put(mark, (until, principal))
        if not _has_scopes(principal, auth):
            raise Refusal(403, "insufficient_scope", "the token lacks a scope", auth.scopes)
        return principal

    async def _verify_token(
        self, given: str, address: EndpointAddress, auth: AuthSettings, keys: SigningKeys
    ) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(given)
            algorithm = header.get("alg")
            if algorithm not in auth.algorithms:
                raise Refusal(
                    401, "invalid_token", "the token is signed in a way that is not allowed", auth.scopes
                )
            key = await keys.find(header.get("kid"))
            if key is None:
                raise Refusal(401, "invalid_token", "the token is signed with an unknown key", auth.scopes)
            claims: dict[str, Any] = jwt.decode(
                given,
                key.key,
                algorithms=[algorithm],
                audience=list(self._audiences(auth, address)),
                issuer=auth.issuer,
                leeway=auth.leeway,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except ServerUnavailableError as error:
            raise Refusal(503, "temporarily_unavailable", str(error)) from error
        except (jwt.PyJWTError, TypeError, RecursionError) as error:  # a key of another kind; nested JSON
            reason = _REASONS.get(type(error), "the token is not valid")
            raise Refusal(401, "invalid_token", reason, auth.scopes) from error
        return claims

    def _audiences(self, auth: AuthSettings, address: EndpointAddress) -> Collection[str]:
        """Return the allowed audiences of a token: the gateway, the toolset, or the endpoint."""
        return {auth.audience, *auth.audiences, self.resource(address.base), self.resource(address)}

    def resource(self, address: EndpointAddress = _EVERYTHING) -> str:
        """Return the address of an endpoint, as tokens name it."""
        base = "" if self.auth is None else self.auth.audience.rstrip("/")
        return f"{base}/{address.name}" if address.name else base

    def metadata(self, address: EndpointAddress = _EVERYTHING) -> dict[str, Any] | None:
        """Return the protected resource metadata of an endpoint (RFC 9728); None without logins."""
        if self.auth is None:
            return None
        document: dict[str, Any] = {
            "resource": self.resource(address),
            "authorization_servers": [self.auth.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": f"toolcrib: {address.name}" if address.name else "toolcrib",
        }
        return document | ({"scopes_supported": list(self.auth.scopes)} if self.auth.scopes else {})

    def metadata_address(self, address: EndpointAddress = _EVERYTHING) -> str | None:
        """Return the address of that metadata."""
        if self.auth is None:
            return None
        parts = urlsplit(self.resource(address))
        return urlunsplit((parts.scheme, parts.netloc, METADATA + parts.path.rstrip("/"), "", ""))


_REASONS: dict[type[BaseException], str] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is meant for another server",
    jwt.InvalidIssuerError: "the token is from another issuer",
    jwt.InvalidSignatureError: "the signature of the token is wrong",
    jwt.MissingRequiredClaimError: "the token lacks a claim: exp, iss, aud and sub are needed",
}


def _principal_of_claims(claims: dict[str, Any], auth: AuthSettings) -> Principal:
    """Return the principal of a token; claims of a wrong type are ignored."""
    clients = (claims.get("client_id"), claims.get("azp"))
    scopes = claims.get("scope") or claims.get("scp")
    return Principal(
        issuer=auth.issuer,
        subject=str(claims["sub"]),
        client=next((each for each in clients if isinstance(each, str) and each), ""),
        groups=_read_texts(claims.get(auth.groups_claim)),
        scopes=frozenset(scopes.split()) if isinstance(scopes, str) else _read_texts(scopes),
    )


def _has_scopes(principal: Principal, auth: AuthSettings) -> bool:
    """Return whether a principal has all scopes, those below the audience with or without that prefix."""
    own = f"{auth.audience.rstrip('/')}/"
    return all(not principal.scopes.isdisjoint({each, each.removeprefix(own)}) for each in auth.scopes)


def _read_texts(claim: Any) -> frozenset[str]:
    """Return the texts of a claim that is a list; a claim of another type has none."""
    return (
        frozenset(each for each in claim if isinstance(each, str)) if isinstance(claim, list) else frozenset()
    )
