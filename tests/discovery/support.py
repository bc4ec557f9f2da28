"""Tools as an index hands them to searchers, and embedders that tests can look into."""

import hashlib
import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.model import Tool

DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of a tool in an index."""

    id: str
    content_hash: str
    tool: Tool
    examples: tuple[str, ...] = ()


def indexed(tool: Tool, examples: Iterable[str] = ()) -> Entry:
    """Return a tool as an index would hand it out."""
    questions = tuple(examples)
    content = json.dumps([tool.to_json(), questions], sort_keys=True)
    return Entry(str(tool.id), hashlib.sha256(content.encode()).hexdigest(), tool, questions)


def make(name: str, description: str = "", *, examples: Iterable[str] = (), **fields: Any) -> Entry:
    """Return a tool with a name and a description, as an index would hand it out."""
    schema = fields.pop("input_schema", {"type": "object"})
    return indexed(Tool(name=name, description=description, input_schema=schema, **fields), examples)


class WordEmbedder:
    """A `LocalEmbedder` that adds up a fixed random vector for each word, and records its inputs."""

    key = "words"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    @property
    def texts(self) -> list[str]:
        """Every text that it was given."""
        return [text for call in self.calls for text in call]

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        self.calls.append(list(texts))
        return np.array([sum(map(word_vector, text.split()), np.zeros(DIMENSIONS)) for text in texts])

    async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
        return self.encode(texts)


class RemoteEmbedder:
    """An embedder that can only be awaited, with the vectors of `WordEmbedder`."""

    key = "words"

    def __init__(self) -> None:
        self.words = WordEmbedder()
        self.threads: set[int] = set()

    async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
        self.threads.add(threading.get_ident())
        return self.words.encode(texts)


@dataclass
class DictCache:
    """Keeps derived values in memory, as a store would on disk."""

    kept: dict[str, dict[str, bytes]] = field(default_factory=dict)
    asked: int = 0

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        self.asked += 1
        found = self.kept.get(kind, {})
        return {one: found[one] for one in hashes if one in found}

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        self.kept.setdefault(kind, {}).update(values)


@cache
def word_vector(word: str) -> NDArray[Any]:
    """Return the same random numbers for the same word, on every machine."""
    seed = hashlib.sha256(word.strip(":,.").lower().encode()).digest()
    return np.random.default_rng(list(seed)).standard_normal(DIMENSIONS)
