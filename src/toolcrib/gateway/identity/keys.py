"""The public keys of an authorization server: fetched, kept, and fetched again at a bounded rate."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import httpx2
import jwt
from anyio import to_thread

from toolcrib.concurrency.lru import LruCache
from toolcrib.crib.config.gateway import AuthSettings, is_loopback
from toolcrib.errors import ServerUnavailableError
from toolcrib.execution import Principal
from toolcrib.redaction import error_text

_LOG = logging.getLogger("toolcrib.gateway")
_MAX_AGE = 3600.0
"""Seconds after which keys are fetched again."""
_MIN_INTERVAL = 30.0
"""Least seconds between two fetches because of an unknown key or a failure."""
_MAX_BYTES = 1 << 20
_MAX_CHECKED_TOKENS = 1_000
_TIMEOUT = 10.0
"""Seconds that a fetch may take, including discovery of the address."""
_NAME = "the authorization server"


class SigningKeys:
    """The keys that tokens may be signed with, by their ids.

    All callers share one fetch. An unknown key causes another fetch, at most every half minute; while that
    takes long or fails, known keys still work.
    """

    def __init__(
        self,
        settings: AuthSettings,
        *,
        fetch: Callable[[str], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use the keys of an issuer; `fetch` replaces the HTTP request for the JSON at an address."""
        self._settings = settings
        self._fetch = _fetch_json if fetch is None else fetch
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = -float("inf")
        self._fetching = anyio.Lock()
        self.checked: LruCache[bytes, tuple[float, Principal]] = LruCache(_MAX_CHECKED_TOKENS)
        """Principals of verified tokens, with the time until which they hold, by digest."""

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return a key by its id, or the only key if a token names none; None if it is unknown.

        Raises:
            ServerUnavailableError: no keys are known, and none could be fetched.
        """
        found = self._find_known(key_id)
        is_fetching = self._fetching.statistics().locked
        if found is not None and (is_fetching or self._clock() - self._fetched_at < _MAX_AGE):
            return found
        async with self._fetching:
            found = self._find_known(key_id)
            is_fresh = found is not None and self._clock() - self._fetched_at < _MAX_AGE
            if not is_fresh and self._clock() - self._tried_at >= _MIN_INTERVAL:
                await self._fetch_keys()
        if not self._keys:
            reason = "its keys could not be fetched; try again later"
            raise ServerUnavailableError(_NAME, reason)
        return self._find_known(key_id)

    def _find_known(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def _fetch_keys(self) -> None:
        self._tried_at = self._clock()
        try:
            with anyio.fail_after(_TIMEOUT):
                document = await self._load_key_set()
            self._keys = _parse_keys(document)
            self.checked.clear()
            self._fetched_at = self._tried_at
        except (OSError, ValueError, RecursionError, httpx2.HTTPError) as error:
            _LOG.warning("the keys of %s could not be fetched: %s", self._settings.issuer, error_text(error))

    async def _load_key_set(self) -> Any:
        """Load the key set from a file, an address, or the address in the issuer's metadata."""
        place = self._settings.jwks
        if place is not None and "://" not in place:
            return json.loads(await to_thread.run_sync(_read_file, place))
        if place is None:
            place = await self._discover_jwks_uri()
        return await self._fetch(place)

    async def _discover_jwks_uri(self) -> str:
        """Return the address of the issuer's keys, by RFC 8414 or OpenID Connect.

        Raises:
            ValueError: it does not say so, or says that it is another.
        """
        issuer = self._settings.issuer
        failure: Exception = ValueError("it has no metadata")
        for place in _metadata_urls(issuer):
            try:
                found = await self._fetch(place)
            except (OSError, ValueError, httpx2.HTTPError) as error:
                failure = error
                continue
            if not isinstance(found, dict) or found.get("issuer") != issuer:
                raise ValueError(f"{place} describes another issuer")
            if "jwks_uri" not in found:
                raise ValueError(f"{place} names no jwks_uri")
            where = urlsplit(str(found["jwks_uri"]))
            if where.scheme != "https" and not is_loopback(where.hostname or ""):
                raise ValueError(f"{place} names keys that are not at an https address")
            return where.geturl()
        raise failure


def _metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the URLs at which the metadata of an issuer may be."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")

    def place(path: str) -> str:
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))

    return (
        place(f"/.well-known/oauth-authorization-server{path}"),
        place(f"{path}/.well-known/openid-configuration"),
    )


def _parse_keys(document: Any) -> dict[str, jwt.PyJWK]:
    """Return the keys of a set that can check signatures, by their ids.

    Raises:
        ValueError: it is no set of keys, or none of them can be used.
    """
    members = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(members, list):
        raise ValueError("it is not a JSON Web Key Set")  # noqa: TRY004 - of what was fetched, not of a caller
    found: dict[str, jwt.PyJWK] = {}
    for place, member in enumerate(members):
        is_key = isinstance(member, dict) and member.get("use", "sig") == "sig" and member.get("kty") != "oct"
        if not is_key:
            continue
        try:
            found[str(member.get("kid", place))] = jwt.PyJWK(member)
        except jwt.PyJWTError:
            continue  # of a kind that is not known here
    if not found:
        raise ValueError("it has no key that can check a signature")
    return found


async def _fetch_json(address: str) -> Any:
    """Return the JSON at an address."""
    body = b""
    async with (
        httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client,
        client.stream("GET", address, headers={"accept": "application/json"}) as response,
    ):
        response.raise_for_status()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _MAX_BYTES:
                raise ValueError(f"{address} gives more than {_MAX_BYTES:,} bytes")
    return json.loads(body)


def _read_file(path: str) -> bytes:
    return Path(path).expanduser().read_bytes()
