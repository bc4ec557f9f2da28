"""Settings of the gateway: endpoints, clients, and the tools that each may see."""

import ipaddress
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, AwareDatetime, Field, field_validator
from pydantic_core import PydanticCustomError

from toolcrib.crib.config.section import Count, Seconds, Section, Text
from toolcrib.errors import ConfigError, InvalidToolIdError, Problem
from toolcrib.execution.variables import Expansion
from toolcrib.model import ToolId
from toolcrib.model.shape import ToolShape

Hint = Literal["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
"""The hints that a tool may give."""
Expose = Literal["meta", "auto", "all"]
"""The surfaces for clients; see `GatewaySettings.expose`."""
SURFACES = frozenset({"all", "meta"})
"""The last part of the addresses that always show one of these."""


class ToolsetSettings(Section):
    """The tools that meet every condition given here."""

    description: str = ""
    """Its purpose, for models and people."""
    namespaces: tuple[Text, ...] | None = None
    """Only tools in these namespaces."""
    tags: tuple[Text, ...] | None = None
    """Only tools with at least one of these tags."""
    ids: tuple[Text, ...] | None = None
    """Only these tools, in all versions if the id names none."""
    exclude: tuple[Text, ...] = ()
    """Tools to leave out, written as in `ids`."""
    annotations: dict[Hint, bool] = Field(default={})
    """Only tools that declare these hints, such as `readOnlyHint = true`."""
    expose: Expose | None = None
    """The tools that clients see at its endpoint, instead of `gateway.expose`."""
    content_tools: bool | None = None
    """Offer tools that read resources and prompts, instead of `gateway.content_tools`."""
    plain_schemas: bool | None = None
    """List its tools with plain schemas, instead of `gateway.plain_schemas`."""
    tools: dict[str, ToolShape] = Field(default={})
    """The shapes of individual tools, by id; see below."""

    @field_validator("ids", "exclude", mode="after")
    @classmethod
    def _are_ids(cls, ids: tuple[str, ...] | None) -> tuple[str, ...] | None:
        try:
            return None if ids is None else tuple(str(ToolId.parse(tool_id)) for tool_id in ids)
        except InvalidToolIdError as error:
            raise PydanticCustomError("tool_id", "{reason}", {"reason": str(error)}) from None

    @field_validator("tools", mode="after")
    @classmethod
    def _are_shapes(cls, tools: dict[str, ToolShape]) -> dict[str, ToolShape]:
        try:
            shapes = {str(ToolId.parse(tool_id)): shape for tool_id, shape in tools.items()}
        except InvalidToolIdError as error:
            raise PydanticCustomError("tool_id", "{reason}", {"reason": str(error)}) from None
        named: dict[tuple[str | None, str], str] = {}
        for tool_id, shape in shapes.items():
            parsed = ToolId.parse(tool_id)
            if parsed.version is not None:  # else another version of its server would be listed as it is
                facts = {"id": tool_id}
                raise PydanticCustomError(
                    "tool_id", "a shape is for all versions: leave it out of {id}", facts
                )
            first = named.setdefault((parsed.namespace, shape.name or parsed.name), tool_id)
            if ToolId.parse(first).name != parsed.name:
                facts = {"first": first, "second": tool_id}
                raise PydanticCustomError("unique", "{first} and {second} would have the same name", facts)
        return shapes


Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""The signature algorithms for tokens: those with a key that only the issuer has."""


def _address(address: str) -> str:
    parts = urlsplit(address)
    is_local = parts.hostname is not None and is_loopback(parts.hostname)
    if not parts.hostname or parts.scheme not in {"https", "http"} or parts.fragment:
        raise PydanticCustomError("url", "must be an address, such as https://login.example.com")
    if parts.scheme == "http" and not is_local:
        raise PydanticCustomError("url", "must be an https address, unless it is on this machine")
    return address


_Address = Annotated[Text, AfterValidator(_address)]


class AuthSettings(Section):
    """The authorization server whose tokens are accepted, and the claims that they must have."""

    issuer: _Address
    """Its address, exactly as in the `iss` claim of its tokens."""
    audience: _Address
    """The audience of its tokens: the address of this gateway's `/mcp`, as clients know it. The endpoint of
    a toolset accepts tokens for its own address too."""
    audiences: tuple[Text, ...] = ()
    """Further audiences that its tokens may have, such as the client ID that Entra ID writes into them."""
    jwks: Text | None = None
    """Its public keys: a URL or a file; by default they are found through its metadata."""
    scopes: tuple[Text, ...] = ()
    """The scopes that every token must have. If one begins with `audience` and a slash, a token may
    contain just the part after the slash, as tokens from Entra ID do."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA")
    """The signature algorithms of tokens."""
    groups_claim: Text = "groups"
    """The claim with the groups of the subject."""
    leeway: Annotated[float, Field(ge=0, le=300)] = 60.0
    """Seconds by which clocks may differ."""


class TokenSettings(Section):
    """A token of one person or program; `toolcrib token add NAME` creates it and writes this section."""

    hash: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """Its digest; the token itself is not stored."""
    groups: tuple[Text, ...] = ()
    """The groups of its owner, which rules can name."""
    toolsets: tuple[Text, ...] | None = None
    """The toolsets whose endpoints it is valid for; by default all of them, and `/mcp`."""
    expires: AwareDatetime | None = None
    """Its expiry time, such as `2026-12-31T00:00:00Z`."""

    @property
    def digest(self) -> str:
        """The digest, in hexadecimal."""
        return self.hash.removeprefix("sha256:")


class GatewaySettings(Section):
    """Settings of the gateway, through which MCP clients reach the tools."""

    expose: Expose = "meta"
    """The tools that clients see: `meta` lists the eight tools that find, describe and run all others, `all`
    lists the tools themselves, and `auto` does so up to `expose_limit`. `/mcp/all` and `/mcp/meta` are
    available regardless of this setting."""
    expose_limit: Count = 8_000
    """Up to this number of tokens in all definitions, `auto` lists the tools themselves."""
    content_tools: bool = False
    """List `list_resources`, `read_resource`, `list_prompts` and `get_prompt`, for clients that support only
    tools."""
    plain_schemas: bool = False
    """List tools with simplified schemas, for old clients; calls are still validated against the full
    schema."""
    host: Text = "127.0.0.1"
    """The address that HTTP listens on; an address that other machines can reach requires a token or a
    login."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8808
    """The port that HTTP listens on; 0 means any free port."""
    token: Text | None = Field(default=None, repr=False)
    """The token that clients must send as `Authorization: Bearer ...`; `${VAR}` allowed."""
    tokens: dict[str, TokenSettings] | None = Field(default=None, repr=False)
    """Tokens of people and programs by name, in addition to `token`; an empty table still requires a
    token or a login."""
    auth: AuthSettings | None = None
    """An authorization server whose users may call the gateway."""
    public_url: _Address | None = None
    """Its URL for browsers, such as `https://crib.example.com`, where people log in to servers; by default
    that of `auth.audience`, or its own address if only this machine can reach it. Its host is an allowed
    host."""
    allowed_hosts: tuple[Text, ...] = ()
    """Further host names that requests may use, such as a proxy's `crib.example.com`, besides the addresses
    and the host name of this machine."""
    allowed_origins: tuple[Text, ...] = ()
    """Origins of web pages that may call it, such as `https://app.example.com`, besides those of this
    machine."""
    confirm: bool = True
    """Run a destructive tool only when the user has agreed, if the client can ask; `allow` rules that name
    the tool, its namespace or a pattern, or `destructiveHint = true` count as consent."""
    code: bool = True
    """Offer `execute_code`."""
    watch: bool = True
    """Reload the configuration when its file changes."""
    result_bytes: Annotated[int, Field(ge=1024)] = 256 * 1024
    """Size limit of a result; for a larger one, clients get its beginning and a link to the whole."""
    request_bytes: Annotated[int, Field(ge=1024)] = 4 * 2**20
    """Size limit of a request over HTTP."""
    request_timeout: Seconds = 30.0
    """Seconds that a client may take to send a request, or pause in reading a response; headers may take
    10."""
    max_timeout: Seconds = 600.0
    """The largest `timeout_ms` of a client, in seconds; a larger value is reduced to it, with a note in the
    result. It is also the timeout of a chain without one."""
    sessions: Count = 1000
    """Limit on open sessions of clients that use the older protocol."""
    session_timeout: Seconds = 1800.0
    """Idle seconds after which a session is closed."""
    shutdown_timeout: Seconds = 10.0
    """Seconds that running calls may continue when the gateway is asked to stop."""

    @property
    def asks_for_token(self) -> bool:
        """Whether clients must send a token over HTTP."""
        return self.token is not None or self.tokens is not None or self.auth is not None

    def closed_reason(self, now: datetime | None = None) -> str | None:
        """Return the reason why no client can connect over HTTP; None if one can.

        >>> GatewaySettings(tokens={}).closed_reason()
        'a token is required, but none is left: the last one was revoked'
        """
        if self.token is not None or self.auth is not None or self.tokens is None:
            return None
        if not self.tokens:
            return "a token is required, but none is left: the last one was revoked"
        now = datetime.now(UTC) if now is None else now
        if all(each.expires is not None and each.expires <= now for each in self.tokens.values()):
            return "a token is required, but all of them have expired"
        return None

    @property
    def opening_remedy(self) -> str:
        """Advice for a gateway that no client can reach."""
        made = "make one with 'toolcrib token add NAME'"
        return f"{made}, or remove [gateway.tokens] to require none" if is_loopback(self.host) else made


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach what listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@cache
def own_names(host: str) -> tuple[str, ...]:
    """Return the names of this machine by which others may call what listens at an address.

    >>> own_names("127.0.0.1")
    ()
    """
    if is_loopback(host):
        return ()
    name = socket.gethostname().lower()
    names = (name, f"{name.partition('.')[0]}.local", socket.getfqdn().lower())
    return tuple(dict.fromkeys(each for each in names if each and each != "localhost"))


def token_of(settings: GatewaySettings, source: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the token that clients must send, with its variables filled in.

    Raises:
        ConfigError: a variable is not set, or what comes out is no token.
    """
    if settings.token is None:
        return None
    fill = Expansion(os.environ if environ is None else environ)
    token = fill.text(settings.token, path="/gateway/token")
    problems = list(fill.problems)
    if not problems and not (token.isascii() and token.isprintable() and " " not in token and token):
        reason = "must be printable ASCII without spaces; make one with: openssl rand -hex 32"
        problems.append(Problem("/gateway/token", "token", reason))
    if problems:
        raise ConfigError(source, tuple(problems))
    return token
