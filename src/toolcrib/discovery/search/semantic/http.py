"""Embeddings from a server with OpenAI's `POST /embeddings` API."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import anyio
import numpy as np
from numpy.typing import NDArray

from toolcrib.concurrency.backoff import Backoff
from toolcrib.discovery.search.semantic.folder import check_at_least
from toolcrib.discovery.search.semantic.text import clean
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.errors import EmbeddingError, MissingExtraError
from toolcrib.errors.text import truncate

_MAX_ANSWER = 64 * 2**20
_BUSY_STATUSES = frozenset({408, 425, 429})
_DENIED_STATUSES = frozenset({401, 403})
_SUCCESS_STATUSES = range(200, 300)
_SERVER_ERROR = 500
_PROBE_TEXT = "."
_URL_FAULT = "its url must be one of http or https, such as 'http://localhost:11434/v1'"
_MAX_REASON = 300
"""The maximum length of a server's message in an error."""
_HINT = "is the url that of an embeddings API?"
_MATRIX = 2


class HttpEmbedder:
    """Embeds texts by asking a server; a blank text is not sent and becomes zeros.

    It keeps no connection between calls, so it can be used from any event loop. It needs the extra
    `semantic`.

    Raises:
        MissingExtraError: httpx is not installed.
        EmbeddingError: a setting is invalid; when it is used, if the server cannot be reached or does not
            answer with vectors. The error never shows the API key.
    """

    def __init__(  # noqa: PLR0913 - options, each with a default
        self,
        url: str,
        *,
        model: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        batch: int = 128,
        timeout: float = 30.0,
        retries: int = 2,
        backoff: float = 0.5,
        max_characters: int = 8_000,
    ) -> None:
        """Embed with a model of a server.

        Args:
            url: the base URL of the API, such as `http://localhost:11434/v1`; `/embeddings` is added.
            model: the server's name of the model.
            api_key: sent as a bearer token.
            dimensions: the length of a vector; sent to the server, and checked in its answers.
            batch: the number of texts in one request.
            timeout: the seconds a batch may take, with all its attempts and the pauses between them.
            retries: how often a batch is sent again if the server is busy, failing or unreachable.
            backoff: the seconds before the second attempt, unless the server says how long; doubled before
                each further one.
            max_characters: the maximum number of characters sent of a text.
        """
        if not find_spec("httpx"):
            raise MissingExtraError("an embedding server", "semantic")
        parts = _parse_url(url)
        self._name = f"{model!r} at {urlunsplit((*parts[:3], '', ''))}"
        self._endpoint = urlunsplit((*parts[:2], f"{parts.path.rstrip('/')}/embeddings", parts.query, ""))
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
            raise EmbeddingError("the API key must be printable ASCII", self._name)
        check_at_least(
            1,
            self._name,
            batch=batch,
            dimensions=1 if dimensions is None else dimensions,
            max_characters=max_characters,
        )
        check_at_least(0, self._name, retries=retries)
        if not (0 < timeout < math.inf and 0 <= backoff < math.inf):
            raise EmbeddingError("timeout and backoff must be seconds, and timeout above 0", self._name)
        self._model, self._api_key, self._asked_dimensions = model, api_key, dimensions
        self._batch, self._timeout, self._retries, self._backoff = batch, timeout, retries, backoff
        self._max_characters = max_characters
        self._dimensions = dimensions

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def key(self) -> str:
        """The cache key of the vectors: the address, the model's name, and the settings that change them."""
        settings = (self._endpoint, self._model, self._asked_dimensions, self._max_characters)
        return f"http-{sha256(repr(settings).encode()).hexdigest()[:32]}"

    @property
    def dimensions(self) -> int | None:
        """The length of a vector; None until it was configured or received."""
        return self._dimensions

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a row of unit length for each text, and of zeros for a blank one.

        Raises:
            EmbeddingError: the server did not answer with vectors.
        """
        cleaned = [clean(text, self._max_characters) for text in texts]
        places = [place for place, text in enumerate(cleaned) if text]
        asked = [cleaned[place] for place in places]
        if texts and not asked and self._dimensions is None:
            await self._embed_batches([_PROBE_TEXT])  # to learn the length of the rows of zeros
        found = await self._embed_batches(asked) if asked else []
        rows = np.zeros((len(texts), self._dimensions or 0), np.float32)
        for start, part in zip(range(0, len(asked), self._batch), found, strict=True):
            rows[places[start : start + self._batch]] = part
        return rows

    async def _embed_batches(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the vectors of texts, batch by batch."""
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        # No timeout of httpx, which is for one request: `_embed_batch` has a deadline for all attempts.
        async with self._httpx.AsyncClient(verify=self._ssl_context, headers=headers, timeout=None) as client:
            starts = range(0, len(texts), self._batch)
            return [await self._embed_batch(client, texts[start : start + self._batch]) for start in starts]

    async def _embed_batch(self, client: Any, texts: Sequence[str]) -> NDArray[np.float32]:
        content: dict[str, Any] = {"model": self._model, "input": texts}
        if self._asked_dimensions is not None:
            content["dimensions"] = self._asked_dimensions
        try:
            with anyio.fail_after(self._timeout):
                body = await self._post_with_retries(client, json.dumps(content).encode())
        except TimeoutError as error:
            raise self._error(f"it did not answer within {self._timeout:g} s") from error
        rows = self._parse_vectors(body, len(texts))
        if self._dimensions not in {None, rows.shape[1]}:
            raise self._error(f"it gave vectors of {rows.shape[1]} dimensions, not {self._dimensions}")
        self._dimensions = rows.shape[1]
        return unit_vectors(rows, count=len(texts))

    def _parse_vectors(self, body: bytes, count: int) -> NDArray[np.float64]:
        try:
            return read_vectors(body, count=count)
        except ValueError as error:
            failure = self._error(str(error))
        raise failure  # outside `except`, so without a cause: that may quote the answer, and so the key

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
                self._error(f"it cannot be reached: {error or type(error).__name__}"), cause=error
            )
        except (self._httpx.DecodingError, self._httpx.InvalidURL) as error:
            raise self._error(f"it cannot be asked: {error}") from error
        if status in _SUCCESS_STATUSES:
            return body
        hint = "; check the API key" if status in _DENIED_STATUSES else ""
        reason = read_refusal(self._hide_key(body.decode(errors="replace"))) or "no reason given"
        refusal = self._error(f"HTTP {status}: {reason}{hint}", status)
        if status in _BUSY_STATUSES or status >= _SERVER_ERROR:
            return _TemporaryFailure(refusal, wait=seconds_to_wait(retry_after))
        raise refusal

    async def _post(self, client: Any, content: bytes) -> tuple[int, str | None, bytes]:
        """Send a request, and return the status, the header `Retry-After` and the body of the answer."""
        headers = {"Content-Type": "application/json"}
        body = bytearray()
        async with client.stream("POST", self._endpoint, content=content, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_ANSWER:
                    raise self._error(f"its answer is longer than {_MAX_ANSWER} bytes")
            return response.status_code, response.headers.get("Retry-After"), bytes(body)

    def _error(self, reason: str, status: int | None = None) -> EmbeddingError:
        return EmbeddingError(self._hide_key(reason), self._name, status)

    def _hide_key(self, text: str) -> str:
        """Mask the API key in a text; a server may repeat it in its answer."""
        return text.replace(self._api_key, "***") if self._api_key else text

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

    error: EmbeddingError
    cause: BaseException | None = None
    wait: float | None = None
    """The seconds that the server asks to wait; None if it does not say."""


def _parse_url(url: str) -> SplitResult:
    """Parse and check a URL.

    Raises:
        EmbeddingError: it is not an http URL, or contains a user; the error does not show it, since it may
            contain a password.
    """
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise EmbeddingError(_URL_FAULT) from error
    if not sound:
        raise EmbeddingError(_URL_FAULT)
    if "@" in parts.netloc:
        raise EmbeddingError("its url has a user in it; give the key as api_key instead")
    return parts


def read_vectors(body: bytes, *, count: int) -> NDArray[np.float64]:
    """Parse an answer to a row for each of `count` texts, in the order in which they were sent.

    >>> body = b'{"data": [{"index": 1, "embedding": [3]}, {"index": 0, "embedding": [2]}]}'
    >>> read_vectors(body, count=2).tolist()
    [[2.0], [3.0]]

    Raises:
        ValueError: the answer is malformed; the text describes it.
    """
    data = _read_data(body)
    if len(data) != count:
        raise ValueError(f"it gave {len(data)} vectors for {count} texts")
    try:
        places = [int(one.get("index", place)) for place, one in enumerate(data)]
        rows = np.asarray([one["embedding"] for one in data], np.float64)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError("its vectors are not rows of numbers, each with an index and as long") from error
    if sorted(places) != list(range(count)):
        raise ValueError(f"its vectors are not numbered from 0 to {count - 1}")
    if rows.ndim != _MATRIX or not rows.size:
        raise ValueError(f"it gave an array of shape {rows.shape} for {count} texts")
    if not np.isfinite(rows).all():
        raise ValueError("its vectors have numbers that are not finite")
    return rows[np.argsort(places)]


def _read_data(body: bytes) -> list[Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it did not answer with JSON; {_HINT}") from error
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise ValueError(f"its answer has no list 'data'; {_HINT}")  # noqa: TRY004 - a value of the server's
    return data


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
