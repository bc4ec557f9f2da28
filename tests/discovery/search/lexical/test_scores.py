"""Lexical scores of tools."""

import pytest
from discovery.support import make
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.search.lexical.bm25 import LexicalScores

scores = st.floats(0, 1_000)


def make_scores(*, ideal: float = 10.0, rarest: float = 6.0) -> LexicalScores:
    return LexicalScores(
        best=[], others={}, total=0, mean=0.0, deviation=0.0, parts=0, ideal=ideal, rarest=rarest
    )


def searcher() -> Bm25Searcher:
    made = Bm25Searcher()
    made.update(
        [
            make("get_weather", "Tell the weather forecast."),
            make("send_mail", "Send a message."),
            make("weather_mail", "Send the weather by mail."),
        ]
    )
    return made


@given(scores, scores)
def test_a_higher_score_is_never_trusted_less(low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert make_scores().confidence(low) <= make_scores().confidence(high)


@given(scores, st.floats(0, 100), st.floats(0.1, 20))
def test_confidence_is_a_likelihood(score: float, ideal: float, rarest: float) -> None:
    assert 0 <= make_scores(ideal=ideal, rarest=rarest).confidence(score) <= 1


def test_a_question_without_words_covers_nothing() -> None:
    assert make_scores(ideal=0.0).coverage(0.0) == 0.0


def test_the_best_come_in_order_and_the_others_as_asked() -> None:
    found = searcher().score_query("weather", limit=2, others=["send_mail", "weather_mail", "unknown"])
    assert [tool_id for tool_id, _ in found.best] == ["get_weather", "weather_mail"]
    assert found.others == {"send_mail": 0.0, "weather_mail": found.best[1][1]}
    assert found.total == 2


def test_the_mean_and_the_deviation_are_those_of_all_tools() -> None:
    made = searcher()
    everything = [score for _, score in made.score_query("weather mail", limit=10).best]
    assert len(everything) == 3
    found = made.score_query("weather mail", limit=1, among={"send_mail"}, others=[])
    mean = sum(everything) / 3
    spread = (sum((one - mean) ** 2 for one in everything) / 3) ** 0.5
    assert (found.mean, found.deviation) == pytest.approx((mean, spread), abs=1e-4)


def test_an_empty_catalogue_has_no_spread() -> None:
    found = Bm25Searcher().score_query("weather", limit=3, others=["a"])
    assert (found.best, found.others, found.total, found.mean, found.deviation) == ([], {}, 0, 0.0, 0.0)
    assert found.coverage(0.0) == 0.0


def test_excluded_tool_has_a_score_among_others() -> None:
    found = searcher().score_query("weather", limit=3, exclude={"get_weather"}, others=["get_weather"])
    assert [tool_id for tool_id, _ in found.best] == ["weather_mail"]
    assert found.others["get_weather"] > found.best[0][1]


def test_a_tool_that_says_every_word_covers_the_question() -> None:
    whole = searcher().score_query("weather forecast", limit=1)
    partly = searcher().score_query("weather forecast nonsense gibberish balderdash", limit=1)
    assert whole.coverage(whole.best[0][1]) > 0.8 > partly.coverage(partly.best[0][1])
    assert whole.confidence(whole.best[0][1]) > partly.confidence(partly.best[0][1])
