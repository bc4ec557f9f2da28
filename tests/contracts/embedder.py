"""The contract of every embedder, whatever its model."""

import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray
from waiting import wait_until

from toolcrib.discovery import Embedder, LocalEmbedder

TEXTS = [
    "weather in Paris tomorrow",
    "create an issue in a repository, with a title, a body, labels and somebody who is to look at it",
    "send mail",
    "convert euros to yen at the rate of the day",
]
HOSTILE = {
    "empty": "",
    "blank": " \t\n\u3000",
    "NUL": "send\x00mail\x00",
    "lone surrogate": "send \ud800 mail \udfff",
    "surrogate pair in halves": "send \ud83d\ude00 mail",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 🇨🇭",
    "right to left": "أرسل \u202eبريدا إلكترونيا",
    "accents upon accents": "e" + "\u0301\u0323" * 5_000,
    "no word of any language": "\u0378\U0010fffe\ufffd",
    "special tokens": "[CLS] send [MASK] mail [SEP] [PAD]",
    "one long word": "x" * 1_000_000,
    "a megabyte of words": "send mail " * 100_000,
    "a megabyte of marks": "!" * 1_000_000,
}
THREADS = 8


def embed(embedder: Embedder, texts: list[str]) -> NDArray[Any]:
    return anyio.run(embedder.embed, texts)


def assert_rows(rows: NDArray[Any], texts: list[str]) -> None:
    """Check that each text has a row of unit length, or of zeros if it has no meaning."""
    assert rows.shape[0] == len(texts)
    assert rows.ndim == 2
    assert rows.dtype == np.float32
    lengths = np.linalg.norm(rows, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))


class EmbedderContract:
    """Subclass it, and provide a fixture `embedder` and the tolerance between two vectors of one text."""

    tolerance = 1e-6

    def test_it_is_an_embedder_with_a_key(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        key = embedder.key  # type: ignore[attr-defined] - optional for embedders, not for ours
        assert isinstance(key, str)
        assert key

    def test_every_text_gets_a_row_of_unit_length(self, embedder: Embedder) -> None:
        rows = embed(embedder, TEXTS)
        assert_rows(rows, TEXTS)
        assert np.all(np.linalg.norm(rows, axis=1) > 0)
        assert rows.shape[1] == embedder.dimensions  # type: ignore[attr-defined] - as above

    def test_different_texts_get_different_rows(self, embedder: Embedder) -> None:
        rows = embed(embedder, TEXTS)
        assert np.all(rows @ rows.T - np.eye(len(TEXTS)) < 0.99)

    def test_the_rows_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        backwards = embed(embedder, TEXTS[::-1])[::-1]
        np.testing.assert_allclose(embed(embedder, TEXTS), backwards, atol=self.tolerance)

    def test_a_text_gets_the_same_row_in_any_company(self, embedder: Embedder) -> None:
        together = embed(embedder, [*TEXTS, *TEXTS])
        alone = np.concatenate([embed(embedder, [text]) for text in TEXTS])
        np.testing.assert_allclose(together, np.concatenate([alone, alone]), atol=self.tolerance)

    def test_no_texts_get_no_rows_of_the_usual_length(self, embedder: Embedder) -> None:
        width = embed(embedder, TEXTS[:1]).shape[1]
        assert embed(embedder, []).shape == (0, width)

    @pytest.mark.attack
    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    def test_any_text_gets_a_row_and_harms_no_other(self, embedder: Embedder, text: str) -> None:
        rows = embed(embedder, [TEXTS[0], text, TEXTS[1]])
        assert_rows(rows, ["", "", ""])
        np.testing.assert_allclose(rows[[0, 2]], embed(embedder, TEXTS[:2]), atol=self.tolerance)

    def test_blank_texts_alone_get_rows_of_the_usual_length(self, embedder: Embedder) -> None:
        rows = embed(embedder, ["", " "])
        assert_rows(rows, ["", " "])
        assert rows.shape == (2, embed(embedder, TEXTS[:1]).shape[1])

    def test_it_serves_many_threads_and_event_loops_at_once(self, embedder: Embedder) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            answers = list(pool.map(lambda _: embed(embedder, TEXTS), range(2 * THREADS)))
        for rows in answers:
            np.testing.assert_allclose(rows, answers[0], atol=self.tolerance)

    def test_it_serves_many_tasks_of_one_event_loop(self, embedder: Embedder) -> None:
        found: dict[str, NDArray[Any]] = {}

        async def ask(text: str) -> None:
            found[text] = await embedder.embed([text])

        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for text in TEXTS:
                    tasks.start_soon(ask, text)

        anyio.run(main)
        rows = np.concatenate([found[text] for text in TEXTS])
        np.testing.assert_allclose(rows, embed(embedder, TEXTS), atol=self.tolerance)


class LocalEmbedderContract(EmbedderContract):
    """The same for embedders that compute here."""

    burden = 500
    """Repetitions of the texts that take long enough to be cancelled."""

    def test_it_is_a_local_embedder(self, embedder: Embedder) -> None:
        assert isinstance(embedder, LocalEmbedder)

    def test_synchronous_code_gets_the_same_rows(self, embedder: LocalEmbedder) -> None:
        np.testing.assert_array_equal(embedder.encode(TEXTS), embed(embedder, TEXTS))
        assert embedder.encode(()).shape == (0, embedder.dimensions)  # type: ignore[attr-defined] - of ours

    def test_a_caller_may_give_up_and_nothing_goes_on(self, embedder: LocalEmbedder) -> None:
        async def main() -> bool:
            with anyio.move_on_after(0.02) as scope:
                await embedder.embed(TEXTS * self.burden)
            return scope.cancelled_caught

        def computes() -> bool:
            frames = sys._current_frames().values()
            return any(
                frame.f_code.co_name == "encode"
                for inner in frames
                for frame, _ in traceback.walk_stack(inner)
            )

        assert anyio.run(main)
        wait_until(lambda: not computes(), "the worker thread has stopped")
