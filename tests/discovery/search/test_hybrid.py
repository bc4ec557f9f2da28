"""Search that combines words and meaning."""

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from discovery.support import DictCache, Entry, WordEmbedder, indexed, make
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher, OnnxEmbedder
from toolcrib.discovery.evaluation import LabelledSet, evaluate, load_set
from toolcrib.discovery.search.hybrid import default_searcher, word_share
from toolcrib.discovery.search.lexical.bm25 import LexicalScores
from toolcrib.errors import StoreError, ValidationError

CATALOGUE = [
    make("get_weather", "Tell the weather forecast 天气预报 погода"),
    make("send_mail", "Send a message to somebody 发送邮件 письмо"),
    make("create_issue", "Open an issue in a repository"),
    make("book_flight", "Reserve a seat on a plane 预订机票 билет"),
]
CLOSE = [
    make("git_show", "Shows the contents of a commit"),
    make("git_diff", "Shows differences between branches or commits"),
    make("git_log", "Shows the commit logs"),
    make("git_diff_staged", "Shows changes that are staged for commit"),
    make("git_commit", "Records changes to the repository"),
    make("git_branch", "List Git branches"),
    make("git_status", "Shows the working tree status"),
]
"""Tools that are about as near to a question for the last commits, of which one answers it."""
FOREIGN = [
    "今天的天气预报",
    "погода и письмо",
    "发送邮件给 Ann",
    "预订机票, погода",
    "天气 ok",
    "ＡＰＩ 天气预报",
]
LATIN = ["weather", "größe, ça, işlem, đặt", "the weather in 北京 tomorrow morning", "123 !?", "weather пог"]

sentences = st.lists(
    st.sampled_from(["weather", "send", "mail", "issue", "plane", "open", "tell", "nonsense"]), max_size=6
).map(" ".join)


class JunkEmbedder(WordEmbedder):
    """Embeds what is not ASCII at random, as a model does that never saw the script."""

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        vectors = super().encode(texts)
        for row, text in enumerate(texts):
            if not text.isascii():
                vectors[row] = np.random.default_rng(len(self.calls)).standard_normal(vectors.shape[1])
        return vectors


class OneVector(WordEmbedder):
    """Finds everything equally near."""

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        return np.ones((len(texts), 8)) + 0 * super().encode(texts)[:, :8]


class Synonyms(WordEmbedder):
    """An embedder for which rain is weather."""

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        return super().encode([text.replace("umbrella", "get weather: Tell") for text in texts])


def hybrid(
    catalogue: Sequence[Entry] = CATALOGUE, embedder: WordEmbedder | None = None, **options: bool
) -> HybridSearcher:
    searcher = HybridSearcher(Bm25Searcher(), EmbeddingSearcher(embedder or WordEmbedder()), **options)
    searcher.update(catalogue)
    return searcher


def by_words(catalogue: Sequence[Entry] = CATALOGUE) -> Bm25Searcher:
    searcher = Bm25Searcher()
    searcher.update(catalogue)
    return searcher


def by_meaning(catalogue: Sequence[Entry] = CATALOGUE) -> EmbeddingSearcher:
    searcher = EmbeddingSearcher(WordEmbedder())
    searcher.update(catalogue, [])
    return searcher


# The script


@pytest.mark.parametrize("query", FOREIGN)
def test_words_decide_alone_for_an_unreadable_script(query: str) -> None:
    embedder = JunkEmbedder()
    searcher = hybrid(embedder=embedder)
    found = searcher.search(query, limit=4)
    assert found
    assert found == by_words().search(query, limit=4)
    assert found.total == by_words().search(query, limit=4).total
    assert embedder.texts == []


@pytest.mark.parametrize("query", LATIN)
def test_mostly_latin_question_is_embedded(query: str) -> None:
    embedder = WordEmbedder()
    hybrid(embedder=embedder).search(query, limit=4)
    assert query in embedder.texts


@pytest.mark.parametrize("query", FOREIGN)
def test_an_embedder_that_reads_every_script_is_always_asked(query: str) -> None:
    embedder = WordEmbedder()
    hybrid(embedder=embedder, reads_every_script=True).search(query, limit=4)
    assert query in embedder.texts


@pytest.mark.parametrize("query", ["", " ", "\0", "\u2003"])
def test_blank_question_finds_nothing(query: str) -> None:
    assert hybrid().search(query, limit=4) == []


# The blend
@given(sentences)
def test_an_embedder_without_an_opinion_leaves_the_order_to_words(query: str) -> None:
    found = [hit.id for hit in hybrid(embedder=OneVector()).search(query, limit=4)]
    expected = [hit.id for hit in by_words().search(query, limit=4)]
    assert found[: len(expected)] == expected


def test_meaning_finds_what_words_do_not() -> None:
    assert by_words().search("umbrella", limit=4) == []
    assert hybrid(embedder=Synonyms()).search("umbrella", limit=4)[0].id == "get_weather"


@given(st.lists(st.floats(0, 1.5), min_size=2, max_size=6), st.integers(0, 4))
def test_words_decide_more_the_more_of_a_question_they_cover(coverages: list[float], parts: int) -> None:
    def share(coverage: float) -> float:
        lexical = LexicalScores([("tool", 10 * coverage)], {}, 1, 0.0, 1.0, parts, ideal=10.0, rarest=6.0)
        return word_share(lexical)

    shares = [share(coverage) for coverage in sorted(coverages)]
    assert shares == sorted(shares)
    assert (share(0.2), share(0.6)) == ((0.4, 0.4) if parts > 2 else (0.15, 0.35))


def test_words_that_cover_the_question_outweigh_meaning() -> None:
    found = hybrid(embedder=Synonyms()).search("open an issue in a repository umbrella", limit=4)
    assert found[0].id == "create_issue"


@given(sentences, st.integers(1, 5))
def test_results_share_a_word_or_are_near_and_scores_fall(query: str, limit: int) -> None:
    found = hybrid().search(query, limit=limit)
    assert all(isfinite(hit.score) and 0 <= hit.confidence <= 1 for hit in found)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    said = {hit.id for hit in by_words().search(query, limit=4)}
    expected = said | {hit.id for hit in by_meaning().search(query, limit=4) if hit.score >= 0.1}
    assert found.total == len(expected)
    assert len(found) == min(limit, len(expected))
    assert {hit.id for hit in found} <= expected


def test_the_first_hits_are_ordered_by_their_confidence_too_on_every_page() -> None:
    searcher = default_searcher()
    searcher.update(CLOSE)
    whole = searcher.search("show the last commits", limit=len(CLOSE))
    assert [hit.id for hit in whole][:1] == ["git_log"]
    assert [hit.confidence for hit in whole][:1] == [max(hit.confidence for hit in whole)]
    for limit in range(1, len(CLOSE)):
        assert searcher.search("show the last commits", limit=limit) == whole[:limit]
    assert len({hit.id for hit in whole}) == len(CLOSE)
    assert all(above.score > below.score for above, below in pairwise(whole))


def test_a_tool_is_trusted_the_same_in_whatever_company_it_is_asked_for() -> None:
    searcher = hybrid()
    everything = searcher.search("send the weather", limit=4)
    for hit in everything:
        [alone] = searcher.search("send the weather", limit=1, among={hit.id})
        assert (alone.id, alone.confidence) == (hit.id, hit.confidence)
    rest = searcher.search("send the weather", limit=4, exclude={everything[0].id})
    assert {hit.id for hit in rest} == {hit.id for hit in everything[1:]}
    assert len(everything) > 1
    assert rest.total == len(everything) - 1


def test_a_tool_far_down_by_meaning_is_found_by_its_words() -> None:
    crowd = [make(f"tool_{number}", "send the message by mail") for number in range(400)]
    searcher = hybrid([*crowd, make("zzz", "platypus " + "unrelated words " * 20)], WordEmbedder())
    alone = by_meaning([*crowd, make("zzz", "platypus " + "unrelated words " * 20)])
    assert "zzz" not in [hit.id for hit in alone.search("platypus", limit=200)]
    assert searcher.search("platypus", limit=1)[0].id == "zzz"


def test_searchers_that_were_filled_before_can_be_combined() -> None:
    words, meaning = by_words(), EmbeddingSearcher(WordEmbedder())
    meaning.update(CATALOGUE, [])
    searcher = HybridSearcher(words, meaning)
    found = searcher.search("weather", limit=4)
    assert found[0].id == "get_weather"
    assert all(isfinite(hit.score) for hit in found)
    searcher.update([], [entry.id for entry in CATALOGUE[1:]])
    assert [hit.id for hit in searcher.search("weather", limit=4)] == ["get_weather"]


def test_one_tool_is_found() -> None:
    found = hybrid(CATALOGUE[:1]).search("weather", limit=4)
    assert [hit.id for hit in found] == ["get_weather"]
    assert isfinite(found[0].score)


def test_fitting_tool_has_more_confidence() -> None:
    fitting, *_, last = hybrid().search("tell somebody the weather forecast", limit=4)
    assert fitting.id == "get_weather"
    assert fitting.confidence > 0.5 > last.confidence


def test_a_vector_that_is_none_leaves_the_answer_to_words() -> None:
    class NotNumbers(WordEmbedder):
        def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
            return np.full((len(texts), 4), np.nan)

    found = hybrid(embedder=NotNumbers()).search("weather", limit=4)
    assert found == by_words().search("weather", limit=4)


def test_words_decide_alone_after_an_embedder_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(WordEmbedder):
        def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
            self.calls.append(list(texts))
            return np.ones((len(texts) + 1, 4))

    embedder = Broken()
    searcher = hybrid(embedder=embedder)
    expected = by_words().search("weather", limit=4)
    assert searcher.search("weather", limit=4) == expected
    asked = len(embedder.calls)
    assert searcher.search("weather", limit=4) == expected
    assert len(embedder.calls) == asked
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "limit", [250, *(pytest.param(limit, marks=pytest.mark.proof) for limit in (150, 500, 700))]
)
def test_many_hits_begin_with_the_few(limit: int) -> None:
    crowd = [
        make(f"tool_{number:03}", f"send mail {number} {'weather ' * (number % 7)}") for number in range(600)
    ]
    searcher = hybrid(crowd)
    everything = searcher.search("weather mail", limit=1_000)
    assert len({hit.id for hit in everything}) == 600
    assert searcher.search("weather mail", limit=limit) == everything[:limit]
    assert [hit.score for hit in everything] == sorted((hit.score for hit in everything), reverse=True)
    assert everything.total == 600


@pytest.mark.parametrize(
    "count", [40, 150, *(pytest.param(count, marks=pytest.mark.proof) for count in (300, 1_200))]
)
@pytest.mark.parametrize("query", ["weather mail", "umbrella", "platypus send", "weather"])
def test_every_page_continues_the_last_and_says_how_many_there_are(count: int, query: str) -> None:
    chance = random.Random(3)  # noqa: S311 - a sample is no secret
    words = ["weather", "send", "mail", "issue", *(f"other{number}" for number in range(40))]
    crowd = [make(f"tool_{number}", " ".join(chance.choices(words, k=6))) for number in range(count)]
    searcher = hybrid(crowd)
    everything = searcher.search(query, limit=10_000)
    assert everything.total == len(everything) == len({hit.id for hit in everything})
    assert everything == sorted(everything, key=lambda hit: (-hit.score, hit.id))
    confidences = [hit.confidence for hit in everything]
    assert confidences == sorted(confidences, reverse=True)
    for limit in (1, 99, 100, 101, 130, 250, 1_100):
        found = searcher.search(query, limit=limit)
        assert found == everything[:limit]
        assert found.total == everything.total
    assert {hit.id for hit in by_words(crowd).search(query, limit=10_000)} <= {hit.id for hit in everything}
    among = frozenset(entry.id for entry in crowd[: count // 2])
    half = searcher.search(query, limit=10_000, among=among)
    assert half.total == len(half) == searcher.search(query, limit=3, among=among).total


def test_many_that_are_all_equally_near_go_by_their_ids() -> None:
    crowd = [make(f"tool_{number}", "Anything.") for number in range(500)]
    found = hybrid(crowd, OneVector()).search("umbrella", limit=1_000)
    assert len(found) == 500
    assert found == sorted(found, key=lambda hit: (-hit.score, hit.id))


def test_words_decide_alone_if_the_store_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Closed(DictCache):
        def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
            raise StoreError("catalogue.db", f"it is closed; {len(hashes)} of {kind!r} are not read")

    searcher = HybridSearcher(Bm25Searcher(), EmbeddingSearcher(WordEmbedder(), cache=Closed()))
    searcher.update(CATALOGUE)
    assert searcher.search("weather", limit=4) == by_words().search("weather", limit=4)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# Real questions and a real model


def excerpt(folder: Path, *, questions: int, tools: int) -> LabelledSet:
    """Return some questions of a set, their tools and as many others as make up a number."""
    whole = load_set(folder, lenient=True)
    chance = random.Random(7)  # noqa: S311 - a sample is no secret
    asked = chance.sample(whole.queries, min(questions, len(whole.queries)))
    wanted = {whole.catalogue.ids[label] for question in asked for label in question.relevant}
    others = [tool for tool in whole.catalogue.tools if str(tool.id) not in wanted]
    kept = [tool for tool in whole.catalogue.tools if str(tool.id) in wanted]
    kept += chance.sample(others, max(0, min(tools - len(kept), len(others))))
    return replace(whole, catalogue=replace(whole.catalogue, tools=tuple(kept)), queries=tuple(asked))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("metatool_single", 0.05),
        *(pytest.param(name, -0.01, marks=pytest.mark.proof) for name in ("bfcl", "sealtools_dev")),
    ],
)
def test_meaning_never_costs_more_than_a_point(minilm: Path, data: Path, name: str, gain: float) -> None:
    labelled = excerpt(data / "retrieval" / name, questions=120, tools=350)
    entries = [indexed(tool) for tool in labelled.catalogue.tools]
    words, meaning = Bm25Searcher(), EmbeddingSearcher(OnnxEmbedder(minilm))
    together = HybridSearcher(words, meaning)
    together.update(entries)
    assert evaluate(together, labelled).ndcg >= evaluate(words, labelled).ndcg + gain


def test_a_hybrid_is_made_of_words_and_meaning_in_this_order() -> None:
    swapped: Any = (EmbeddingSearcher(WordEmbedder()), Bm25Searcher())
    with pytest.raises(
        ValidationError, match="/words: must be a Bm25Searcher, not EmbeddingSearcher; /meaning"
    ):
        HybridSearcher(*swapped)
