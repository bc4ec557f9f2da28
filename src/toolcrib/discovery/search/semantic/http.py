"""Embeddings from a server that speaks OpenAI's `POST /embeddings`."""

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
from toolcrib.discovery.search.semantic.folder import at_least
from toolcrib.discovery.search.semantic.text import clean
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.errors import EmbeddingError, MissingExtraError
from toolcrib.errors.text import truncate

_MAX_ANSWER = 64 * 2**20
_BUSY = frozenset({408, 425, 429})
_DENIED = frozenset({401, 403})
_SUCCESS = range(200, 300)
_SERVER_ERROR = 500
_ANY_TEXT = "."
_URL_FAULT = "its url must be one of http or https, such as 'http://localhost:11434/v1'"
_MAX_WORDS = 300
"""How much of a server's words is repeated."""
_HINT = "is the url that of an embeddings API?"
_MATRIX = 2


class HttpEmbedder:
    """Embeds texts by asking a server; a blank text is not sent and becomes zeros.

    It keeps no connection between calls, so it can be used from any event loop. The extra `semantic` brings
    what it needs.

    Raises:
        MissingExtraError: httpx is not installed.
        EmbeddingError: a setting cannot work; when it is used, if the server cannot be reached or answers
            with something else than vectors. It never shows the API key.
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
            url: where the API begins, such as `http://localhost:11434/v1`; `/embeddings` is added.
            model: the name that the server knows the model by.
            api_key: sent as a bearer token.
            dimensions: how many numbers a vector is to have; sent, and held against what comes back.
            batch: how many texts are sent at once.
            timeout: how many seconds a batch may take, with all its attempts and the pauses between them.
            retries: how often a batch is sent again when the server is busy, failing or out of reach.
            backoff: how many seconds to pause before the second attempt, unless the server says how long;
                twice as many before each further one.
            max_characters: how much of a text is sent.
        """
        if not find_spec("httpx"):
            raise MissingExtraError("an embedding server", "semantic")
        parts = _address(url)
        self._name = f"{model!r} at {urlunsplit((*parts[:3], '', ''))}"
        self._endpoint = urlunsplit((*parts[:2], f"{parts.path.rstrip('/')}/embeddings", parts.query, ""))
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
            raise EmbeddingError("the API key must be printable ASCII", self._name)
        at_least(
            1,
            self._name,
            batch=batch,
            dimensions=1 if dimensions is None else dimensions,
            max_characters=max_characters,
        )
        at_least(0, self._name, retries=retries)
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
        """What the vectors are kept under: the address, the model's name, and the settings that matter."""
        settings = (self._endpoint, self._model, self._asked_dimensions, self._max_characters)
        return f"http-{sha256(repr(settings).encode()).hexdigest()[:32]}"

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has, if it was configured or has been seen."""
        return self._dimensions

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a row of unit length for each text, and of zeros for a blank one.

        Raises:
            EmbeddingError: the server did not give vectors.
        """
        cleaned = [clean(text, self._max_characters) for text in texts]
        places = [place for place, text in enumerate(cleaned) if text]
        asked = [cleaned[place] for place in places]
        if texts and not asked and self._dimensions is None:
            await self._ask([_ANY_TEXT])  # how wide a row of zeros is, the server has to say
        found = await self._ask(asked) if asked else []
        rows = np.zeros((len(texts), self._dimensions or 0), np.float32)
        for start, part in zip(range(0, len(asked), self._batch), found, strict=True):
            rows[places[start : start + self._batch]] = part
        return rows

    async def _ask(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the vectors of texts, batch by batch."""
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        # The deadline is ours, for all attempts together.
        async with self._httpx.AsyncClient(verify=self._trust, headers=headers, timeout=None) as client:
            starts = range(0, len(texts), self._batch)
            return [await self._vectors(client, texts[start : start + self._batch]) for start in starts]

    async def _vectors(self, client: Any, texts: Sequence[str]) -> NDArray[np.float32]:
        content: dict[str, Any] = {"model": self._model, "input": texts}
        if self._asked_dimensions is not None:
            content["dimensions"] = self._asked_dimensions
        try:
            with anyio.fail_after(self._timeout):
                body = await self._persist(client, json.dumps(content).encode())
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
        raise failure  # apart from its cause, which may quote the answer, as that may quote the key

    async def _persist(self, client: Any, content: bytes) -> bytes:
        """Return the body of a good answer, asking again where that may help."""
        backoff, left = Backoff(self._backoff), self._retries
        while isinstance(outcome := await self._attempt(client, content), _Setback):
            pause = backoff.next()
            wait = pause if outcome.wait is None else outcome.wait
            if not left or anyio.current_time() + wait > anyio.current_effective_deadline():
                raise outcome.error from outcome.cause
            await anyio.sleep(wait)
            left -= 1
        return outcome

    async def _attempt(self, client: Any, content: bytes) -> "bytes | _Setback":
        """Return the body of a good answer, or what may pass."""
        try:
            status, retry_after, body = await self._post(client, content)
        except self._httpx.TransportError as error:
            return _Setback(
                self._error(f"it cannot be reached: {error or type(error).__name__}"), cause=error
            )
        except (self._httpx.DecodingError, self._httpx.InvalidURL) as error:
            raise self._error(f"it cannot be asked: {error}") from error
        if status in _SUCCESS:
            return body
        hint = "; check the API key" if status in _DENIED else ""
        reason = read_refusal(self._hide(body.decode(errors="replace"))) or "no reason given"
        refusal = self._error(f"HTTP {status}: {reason}{hint}", status)
        if status in _BUSY or status >= _SERVER_ERROR:
            return _Setback(refusal, wait=seconds_to_wait(retry_after))
        raise refusal

    async def _post(self, client: Any, content: bytes) -> tuple[int, str | None, bytes]:
        """Return the status, the `Retry-After` and the body of an answer."""
        headers = {"Content-Type": "application/json"}
        body = bytearray()
        async with client.stream("POST", self._endpoint, content=content, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_ANSWER:
                    raise self._error(f"its answer is longer than {_MAX_ANSWER} bytes")
            return response.status_code, response.headers.get("Retry-After"), bytes(body)

    def _error(self, reason: str, status: int | None = None) -> EmbeddingError:
        return EmbeddingError(self._hide(reason), self._name, status)

    def _hide(self, text: str) -> str:
        """Return a text without the key, which a server may repeat in its answer."""
        return text.replace(self._api_key, "***") if self._api_key else text

    @cached_property
    def _httpx(self) -> Any:
        return import_module("httpx")

    @cached_property
    def _trust(self) -> Any:
        """The certificates to trust, which take longer to read than a server takes to answer."""
        return self._httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class _Setback:
    """A failure that may pass."""

    error: EmbeddingError
    cause: BaseException | None = None
    wait: float | None = None
    """For how many seconds the server asks to be left alone."""


def _address(url: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        EmbeddingError: it is none, or has a password in it; it is not shown, for what it may hold.
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
    """Return a row for each of `count` texts, in the order in which they were sent.

    >>> body = b'{"data": [{"index": 1, "embedding": [3]}, {"index": 0, "embedding": [2]}]}'
    >>> read_vectors(body, count=2).tolist()
    [[2.0], [3.0]]

    Raises:
        ValueError: the answer is something else; the text says what.
    """
    data = _data(body)
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


def _data(body: bytes) -> list[Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it did not answer with JSON; {_HINT}") from error
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise ValueError(f"its answer has no list 'data'; {_HINT}")  # noqa: TRY004 - a value of the server's
    return data


def read_refusal(text: str) -> str:
    """Return a server's reason for refusing, shortened.

    >>> read_refusal('{"error": {"message": "no such model", "code": 7}}'), read_refusal("Bad  Gateway")
    ('no such model', 'Bad Gateway')
    """
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return _cut(text)
    for key in ("error", "message", "detail"):
        payload = payload.get(key, payload) if isinstance(payload, dict) else payload
    return _cut(payload if isinstance(payload, str) else text)


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return how long a `Retry-After` header asks to wait, or nothing where it does not say.

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


def _cut(text: str) -> str:
    return truncate(" ".join(text[: 4 * _MAX_WORDS].split()), _MAX_WORDS)
