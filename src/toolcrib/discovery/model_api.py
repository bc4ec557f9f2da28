"""Requests to the API of a model over HTTP: one POST of JSON, sent again after temporary failures."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import anyio

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import EmbeddingError, MissingExtraError, ModelError
from toolcrib.errors.text import truncate

_MAX_ANSWER = 64 * 2**20
_BUSY_STATUSES = frozenset({408, 425, 429, 529})
_DENIED_STATUSES = frozenset({401, 403})
_SUCCESS_STATUSES = range(200, 300)
_SERVER_ERROR = 500
_URL_FAULT = "its url must be one of http or https, such as 'http://localhost:11434/v1'"
_MAX_REASON = 300
"""The maximum length of a server's message in an error."""


class ModelApi:
    """One endpoint of a model's API; it keeps no connection between requests.

    The errors that it raises, of the class `failure`, never show the key.
    """

    def __init__(  # noqa: PLR0913 - options of a request, each by its name
        self,
        url: str,
        path: str,
        *,
        model: str,
        feature: str,
        failure: type[EmbeddingError | ModelError],
        key: str | None,
        headers: Mapping[str, str],
        timeout: float,
        retries: int,
        backoff: float,
    ) -> None:
        """Send requests to a path below a base URL.

        Args:
            url: the base URL, such as `http://localhost:11434/v1`.
            path: the path below it, such as `/embeddings`.
            model: the server's name of the model, for errors.
            feature: what needs httpx, for the error if it is not installed.
            failure: the class of the errors.
            key: the key of the API, which `headers` may contain.
            headers: headers of each request.
            timeout: the seconds a request may take, with all its attempts and the pauses between them.
            retries: how often a request is sent again if the server is busy, failing or unreachable.
            backoff: the seconds before the second attempt, unless the server says how long; doubled before
                each further one.

        Raises:
            MissingExtraError: httpx is not installed.
            EmbeddingError, ModelError: a setting is invalid.
        """
        if not find_spec("httpx"):
            raise MissingExtraError(feature, "semantic")
        self._failure, self._key = failure, key
        parts = _parse_url(url, failure)
        self.name = f"{model!r} at {urlunsplit((*parts[:3], '', ''))}"
        """The model and its address, for errors."""
        self.endpoint = urlunsplit((*parts[:2], f"{parts.path.rstrip('/')}{path}", parts.query, ""))
        """The URL that requests are sent to."""
        if key is not None and not (key.isascii() and key.isprintable() and key.strip()):
            raise failure("the API key must be printable ASCII", self.name)
        if not (0 < timeout < math.inf and 0 <= backoff < math.inf):
            raise failure("timeout and backoff must be seconds, and timeout above 0", self.name)
        self._headers = dict(headers)
        self._timeout, self._retries, self._backoff = timeout, retries, backoff

    def open(self) -> Any:
        """Return an HTTP client for `post`, to be entered; it holds the connections of several requests."""
        # No timeout of httpx, which is for one attempt: `post` has a deadline for all of them.
        return self._httpx.AsyncClient(verify=self._ssl_context, headers=self._headers, timeout=None)

    async def post(self, client: Any, content: Mapping[str, Any]) -> bytes:
        """Send a JSON object, with retries, and return the body of the answer.

        Raises:
            EmbeddingError, ModelError: there is no answer, or it is a refusal.
        """
        try:
            with anyio.fail_after(self._timeout):
                return await self._post_with_retries(client, json.dumps(content).encode())
        except TimeoutError as error:
            raise self.error(f"it did not answer within {self._timeout:g} s") from error

    async def _post_with_retries(self, client: Any, content: bytes) -> bytes:
        """Send a request, with retries after temporary failures, and return the body of the answer."""
        backoff, left = Backoff(self._backoff), self._retries
        while isinstance(outcome := await self._try_post(client, content), _TemporaryFailure):
            pause = backoff.next()
            wait = pause if outcome.wait is None else outcome.wait
            if not left or anyio.current_time() + wait > anyio.current_effective_deadline():
                raise outcome.error from outcome.cause
            await anyio.sleep(wait)
            left -= 1
        return outcome

    async def _try_post(self, client: Any, content: bytes) -> "bytes | _TemporaryFailure":
        """Send a request once; return the body of the answer, or a temporary failure."""
        try:
            status, retry_after, body = await self._post(client, content)
        except self._httpx.TransportError as error:
            return _TemporaryFailure(
                self.error(f"it cannot be reached: {error or type(error).__name__}"), cause=error
            )
        except (self._httpx.DecodingError, self._httpx.InvalidURL) as error:
            raise self.error(f"it cannot be asked: {error}") from error
        if status in _SUCCESS_STATUSES:
            return body
        hint = "; check the API key" if status in _DENIED_STATUSES else ""
        reason = read_refusal(self._hide_key(body.decode(errors="replace"))) or "no reason given"
        refusal = self.error(f"HTTP {status}: {reason}{hint}", status)
        if status in _BUSY_STATUSES or status >= _SERVER_ERROR:
            return _TemporaryFailure(refusal, wait=seconds_to_wait(retry_after))
        raise refusal

    async def _post(self, client: Any, content: bytes) -> tuple[int, str | None, bytes]:
        """Send a request, and return the status, the header `Retry-After` and the body of the answer."""
        headers = {"Content-Type": "application/json"}
        body = bytearray()
        async with client.stream("POST", self.endpoint, content=content, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_ANSWER:
                    raise self.error(f"its answer is longer than {_MAX_ANSWER} bytes")
            return response.status_code, response.headers.get("Retry-After"), bytes(body)

    def error(self, reason: str, status: int | None = None) -> EmbeddingError | ModelError:
        """Return the error for a reason, without the key."""
        return self._failure(self._hide_key(reason), self.name, status)

    def _hide_key(self, text: str) -> str:
        """Mask the API key in a text; a server may repeat it in its answer."""
        return text.replace(self._key, "***") if self._key else text

    @cached_property
    def _httpx(self) -> Any:
        return import_module("httpx")

    @cached_property
    def _ssl_context(self) -> Any:
        """The SSL context, made once: reading the certificates takes longer than a request."""
        return self._httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class _TemporaryFailure:
    """A failure after which the request may be sent again."""

    error: EmbeddingError | ModelError
    cause: BaseException | None = None
    wait: float | None = None
    """The seconds that the server asks to wait; None if it does not say."""


def _parse_url(url: str, failure: type[EmbeddingError | ModelError]) -> SplitResult:
    """Parse and check a URL.

    Raises:
        EmbeddingError, ModelError: it is not an http URL, or contains a user; the error does not show it,
            since it may contain a password.
    """
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise failure(_URL_FAULT) from error
    if not sound:
        raise failure(_URL_FAULT)
    if "@" in parts.netloc:
        raise failure("its url has a user in it; give the key as api_key instead")
    return parts


def read_refusal(text: str) -> str:
    """Return the reason in an error response, shortened.

    >>> read_refusal('{"error": {"message": "no such model", "code": 7}}'), read_refusal("Bad  Gateway")
    ('no such model', 'Bad Gateway')
    """
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return _shorten(text)
    for key in ("error", "message", "detail"):
        payload = payload.get(key, payload) if isinstance(payload, dict) else payload
    return _shorten(payload if isinstance(payload, str) else text)


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait; None if it cannot be read.

    >>> seconds_to_wait("1.5"), seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT"), seconds_to_wait("soon")
    (1.5, 0.0, None)
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        # A date without a zone is in UTC, as all dates of HTTP are.
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _shorten(text: str) -> str:
    return truncate(" ".join(text[: 4 * _MAX_REASON].split()), _MAX_REASON)
