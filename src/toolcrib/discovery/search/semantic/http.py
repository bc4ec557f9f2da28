"""Embeddings from a server with OpenAI's `POST /embeddings` API."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.model_api import ModelApi
from toolcrib.discovery.search.semantic.folder import check_at_least
from toolcrib.discovery.search.semantic.text import clean
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.errors import EmbeddingError

_PROBE_TEXT = "."
_HINT = "is the url that of an embeddings API?"
_MATRIX = 2


class HttpEmbedder:
    """Embeds texts by asking a server; a blank text is not sent and becomes zeros.

    It keeps no connection between calls, so it can be used from any event loop. It needs the extra
    `semantic`.

    Raises:
        MissingExtraError: httpx is not installed.
        EmbeddingError: a setting is invalid; or, when it is used, the server cannot be reached or does not
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
        """Embed with a model that a server hosts.

        Args:
            url: the base URL of the API, such as `http://localhost:11434/v1`; `/embeddings` is added.
            model: the server's name of the model.
            api_key: sent as a bearer token.
            dimensions: the length of a vector; sent to the server, and checked in its answers.
            batch: the number of texts in one request.
            timeout: the seconds a batch may take, with all its attempts and the pauses between them.
            retries: how many times a batch is sent again if the server is busy, failing or unreachable.
            backoff: the seconds before the second attempt, unless the server says how long; doubled before
                each further one.
            max_characters: the maximum number of characters of a text that are sent.
        """
        self._api = ModelApi(
            url,
            "/embeddings",
            model=model,
            feature="an embedding server",
            failure=EmbeddingError,
            key=api_key,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout,
            retries=retries,
            backoff=backoff,
        )
        check_at_least(
            1,
            self._api.name,
            batch=batch,
            dimensions=1 if dimensions is None else dimensions,
            max_characters=max_characters,
        )
        check_at_least(0, self._api.name, retries=retries)
        self._model, self._asked_dimensions, self._batch = model, dimensions, batch
        self._max_characters = max_characters
        self._dimensions = dimensions

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._api.name}>"

    @property
    def key(self) -> str:
        """The cache key of the vectors: the address, the model's name, and the settings that change them."""
        settings = (self._api.endpoint, self._model, self._asked_dimensions, self._max_characters)
        return f"http-{sha256(repr(settings).encode()).hexdigest()[:32]}"

    @property
    def dimensions(self) -> int | None:
        """The length of a vector; None until it is configured or received."""
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
        async with self._api.open() as client:
            starts = range(0, len(texts), self._batch)
            return [await self._embed_batch(client, texts[start : start + self._batch]) for start in starts]

    async def _embed_batch(self, client: Any, texts: Sequence[str]) -> NDArray[np.float32]:
        content: dict[str, Any] = {"model": self._model, "input": texts}
        if self._asked_dimensions is not None:
            content["dimensions"] = self._asked_dimensions
        body = await self._api.post(client, content)
        rows = self._parse_vectors(body, len(texts))
        if self._dimensions not in {None, rows.shape[1]}:
            raise self._api.error(f"it gave vectors of {rows.shape[1]} dimensions, not {self._dimensions}")
        self._dimensions = rows.shape[1]
        return unit_vectors(rows, count=len(texts))

    def _parse_vectors(self, body: bytes, count: int) -> NDArray[np.float64]:
        try:
            return read_vectors(body, count=count)
        except ValueError as error:
            failure = self._api.error(str(error))
        raise failure  # outside `except`, so without a cause: that may quote the answer, and so the key


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
        raise ValueError("its vectors are not rows of numbers of one length, each with an index") from error
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
