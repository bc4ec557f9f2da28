"""Two models as one: their joint vectors, and refused combinations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts.embedder import LocalEmbedderContract
from numpy.typing import NDArray

from toolcrib.discovery import HttpEmbedder, JoinedEmbedder, OnnxEmbedder, StaticEmbedder, load_embedder
from toolcrib.errors import EmbeddingError

TEXTS = ["send a mail", "post a message", "how warm is it"]
SHARE = 0.3


@pytest.fixture
def embedder(minilm: Path) -> JoinedEmbedder:
    return JoinedEmbedder(OnnxEmbedder(minilm), load_embedder())


class TestContract(LocalEmbedderContract):
    tolerance = 0.02
    burden = 20_000


class Plain:
    """An embedder without a key."""

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        return np.array([[len(text), 1.0] for text in texts])

    async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
        return self.encode(texts)


def test_a_cosine_is_the_mean_of_both_by_their_inverse_lengths(
    minilm: Path, embedder: JoinedEmbedder
) -> None:
    first, second, both = (one.encode(TEXTS) for one in (OnnxEmbedder(minilm), load_embedder(), embedder))
    expected = (1 - SHARE) * first @ first.T + SHARE * second @ second.T
    np.testing.assert_allclose(both @ both.T, expected, atol=1e-3)
    assert embedder.dimensions == first.shape[1] + second.shape[1]


def test_text_unreadable_to_one_model_is_read_by_the_other(tmp_path: Path) -> None:
    knows = [StaticEmbedder.save(tmp_path / word, [word], np.ones((1, 2))) for word in ("a", "b")]
    both = JoinedEmbedder(*knows).encode(["a", "b", "c"])
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), [1, 1, 0], atol=1e-6)
    assert both[0] @ both[1] == 0


def test_the_key_names_both_models_and_the_share(tmp_path: Path) -> None:
    one, other = (StaticEmbedder.save(tmp_path / word, [word], np.ones((1, 2))) for word in ("a", "b"))
    keys = {
        JoinedEmbedder(one, other).key,
        JoinedEmbedder(other, one).key,
        JoinedEmbedder(one, other, share=0.5).key,
    }
    assert len(keys) == 3
    assert JoinedEmbedder(one, other).key == JoinedEmbedder(one, other, share=SHARE).key


def test_without_the_key_of_a_model_there_is_none() -> None:
    assert JoinedEmbedder(load_embedder(), Plain()).key is None


@pytest.mark.parametrize("share", [0, 1, -1, 2, float("nan")])
def test_a_share_that_leaves_nothing_to_a_model_is_refused(share: float) -> None:
    with pytest.raises(EmbeddingError, match=r"share must be between 0 and 1, not"):
        JoinedEmbedder(load_embedder(), Plain(), share=share)


def test_asynchronous_embedder_cannot_be_joined() -> None:
    remote = HttpEmbedder("http://127.0.0.1:1/v1", model="m")
    with pytest.raises(EmbeddingError, match="HttpEmbedder cannot be joined"):
        JoinedEmbedder(load_embedder(), remote)  # type: ignore[arg-type] - what is refused


def test_repr_has_both_models_and_the_share() -> None:
    shown = repr(JoinedEmbedder(load_embedder(), load_embedder()))
    assert shown.startswith("JoinedEmbedder(StaticEmbedder(")
    assert shown.endswith("share=0.3)")
