"""Chat models over HTTP: the formats of OpenAI's chat completions and of Anthropic's messages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from toolcrib.discovery.model_api import ModelApi
from toolcrib.errors import EmbeddingError, ModelError

ChatFormat = Literal["openai", "anthropic"]
"""The format of a chat API."""
URLS: Mapping[ChatFormat, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
}
"""The address of each format's own service."""
_PATHS: Mapping[ChatFormat, str] = {"openai": "/chat/completions", "anthropic": "/messages"}
_VERSION = "2023-06-01"
"""The version of Anthropic's API."""
_NEWER_LIMIT = "max_completion_tokens"
"""The name of the limit of an answer in newer models of OpenAI, which refuse the older one."""
_BAD_REQUEST = 400
_CHARACTERS_PER_TOKEN = 3
"""Of English and JSON a token has about four; fewer, so that an estimate is seldom too low."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The answer of a model."""

    text: str
    tokens: int
    """The tokens of the request and of the answer, as the server counts them, else estimated."""
    is_cut: bool
    """Whether the answer reached its limit, and is not whole."""


class ChatModel:
    """A chat model behind an HTTP API, such as OpenAI's, Anthropic's or that of a server of your own.

    Raises:
        MissingExtraError: httpx is not installed.
        ModelError: a setting is invalid; when it is asked, if the server cannot be reached or does not
            answer. The error never shows the API key.
    """

    def __init__(  # noqa: PLR0913 - options, each with a default
        self,
        model: str,
        *,
        api: ChatFormat = "openai",
        url: str | None = None,
        api_key: str | None = None,
        max_tokens: int = 1_200,
        timeout: float = 180.0,
        retries: int = 4,
        backoff: float = 1.0,
    ) -> None:
        """Ask a model of a server.

        Args:
            model: the server's name of the model.
            api: the format of the API.
            url: the base URL of the API; by default that of the format's own service.
            api_key: the key of the API.
            max_tokens: the maximum length of an answer, in tokens.
            timeout: the seconds a question may take, with all its attempts and the pauses between them.
            retries: how often a question is sent again if the server is busy, failing or unreachable.
            backoff: the seconds before the second attempt, unless the server says how long.
        """
        if api not in URLS:
            raise ModelError(f"its API must be one of {', '.join(URLS)}, not {api!r}", model)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        if api == "anthropic":
            headers = {"anthropic-version": _VERSION} | ({"x-api-key": api_key} if api_key else {})
        self.model, self.api, self.max_tokens = model, api, max_tokens
        self._limit = "max_tokens"
        self._http = ModelApi(
            url or URLS[api],
            _PATHS[api],
            model=model,
            feature="a language model",
            failure=ModelError,
            key=api_key,
            headers=headers,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
        )

    def estimate(self, system: str, prompt: str) -> int:
        """Return how many tokens a question and its answer may take."""
        return (len(system) + len(prompt)) // _CHARACTERS_PER_TOKEN + self.max_tokens

    async def ask(self, system: str, prompt: str) -> ChatAnswer:
        """Ask a question, under instructions that are not part of it.

        Raises:
            ModelError: there is no answer.
        """
        async with self._http.open() as client:
            try:
                body = await self._http.post(client, self._request(system, prompt))
            except (EmbeddingError, ModelError) as error:
                if error.status != _BAD_REQUEST or _NEWER_LIMIT not in error.reason:
                    raise
                self._limit = _NEWER_LIMIT
                body = await self._http.post(client, self._request(system, prompt))
        return self._read(body, system, prompt)

    def _request(self, system: str, prompt: str) -> dict[str, Any]:
        user = {"role": "user", "content": prompt}
        if self.api == "anthropic":
            return {"model": self.model, "max_tokens": self.max_tokens, "system": system, "messages": [user]}
        messages = [{"role": "system", "content": system}, user]
        return {"model": self.model, self._limit: self.max_tokens, "messages": messages}

    def _read(self, body: bytes, system: str, prompt: str) -> ChatAnswer:
        try:
            answer = json.loads(body)
            if self.api == "anthropic":
                parts = [part["text"] for part in answer["content"] if part.get("type") == "text"]
                text, is_cut = "".join(parts), answer.get("stop_reason") == "max_tokens"
            else:
                choice = answer["choices"][0]
                text, is_cut = choice["message"]["content"] or "", choice.get("finish_reason") == "length"
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            self._refuse()
        if not isinstance(text, str):
            self._refuse()
        usage = answer.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        told = sum(count for name in names if isinstance(count := counts.get(name), int) and count > 0)
        guessed = (len(system) + len(prompt) + len(text)) // _CHARACTERS_PER_TOKEN
        return ChatAnswer(text, told or guessed, is_cut)

    def _refuse(self) -> NoReturn:
        # Without a cause: that may quote the answer, and so the key.
        path = _PATHS[self.api]
        raise self._http.error(f"it did not answer like {path}; is the URL that of a chat API?") from None
