"""Reasons for the score of a tool by words: each word of the question, its topics, and deprecation."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from toolcrib.discovery.records import Reason
from toolcrib.discovery.search.lexical.postings import Postings, VisiblePostings
from toolcrib.discovery.search.lexical.question import ParsedQuery
from toolcrib.discovery.search.lexical.scoring import (
    DEPRECATED_WEIGHT,
    PART_SHARE,
    Found,
    Gains,
    find_terms,
    topic_shares,
)
from toolcrib.discovery.search.text import (
    DEPRECATED,
    FIELD_WEIGHTS,
    index_terms,
    question_terms,
    search_doc,
    words,
)
from toolcrib.model import Tool

_EXAMPLE = "example"
_MAX_LISTED = 5
"""The maximum number of words that one reason lists."""


def explain_words(
    query: str,
    question: ParsedQuery,
    postings: Postings | VisiblePostings,
    slots: Mapping[str, int],
    count: int,
) -> dict[str, tuple[Reason, ...]]:
    """Return the reasons for the scores of tools by words, given their slots, out of `count` slots."""
    found, gains, rarest = find_terms(question, postings)
    shares = topic_shares(question, postings, count) if question.topics else np.zeros(count, np.float32)
    topic_gain = max(question.unknown * rarest + sum(gains.values()), rarest)
    deprecated = set(postings.of(DEPRECATED)[0].tolist()) if postings.knows(DEPRECATED) else set()
    word_of = _words_of_terms(query, question)
    explained: dict[str, tuple[Reason, ...]] = {}
    for tool_id, slot in slots.items():
        scores = _scores_of_terms(found, gains, question.parts, slot)
        reasons = [*_word_reasons(scores, gains, word_of, question.corrected)]
        if share := float(shares[slot]):
            text = _words_of_topics(query, question, postings, slot)
            score = topic_gain * share**2
            reasons.append(Reason.from_valid(kind="topic", score=score, text=text, value=share))
        if slot in deprecated:
            lowered = (DEPRECATED_WEIGHT - 1) * sum(reason.score for reason in reasons)
            reasons.append(Reason.from_valid(kind="deprecated", score=lowered))
        explained[tool_id] = tuple(reasons)
    return explained


def learned_reasons(score: float, strength: float) -> tuple[Reason, ...]:
    """Return the reason for what learned questions add to a score; none if they add nothing."""
    return (Reason.from_valid(kind="learned", score=score, value=strength),) if score else ()


def locate_words(reasons: Iterable[Reason], tool: Tool, examples: Sequence[str]) -> list[Reason]:
    """Return reasons with the words of the tool that match, and the fields where they stand.

    What the words of an example question add is taken from the words, and becomes a reason of its own.
    """
    texts = [(field, text, Counter(words(text))) for field, text in search_doc(tool, examples).fields]
    located: list[Reason] = []
    gained: defaultdict[str, float] = defaultdict(float)
    for reason in reasons:
        if reason.kind not in {"word", "spelling"}:
            located.append(reason)
            continue
        terms = set(reason.matched) or {term for term, _ in question_terms(reason.text)}
        matches = [
            (field, text, word, FIELD_WEIGHTS[field] * count)
            for field, text, counts in texts
            for word, count in counts.items()
            if not terms.isdisjoint(index_terms(word))
        ]
        whole = sum(weight for *_, weight in matches)
        in_examples = 0.0
        for field, text, _, weight in matches:
            if field == _EXAMPLE:
                gained[text] += reason.score * weight / whole
                in_examples += reason.score * weight / whole
        own = [match for match in matches if match[0] != _EXAMPLE]
        if own or not matches:
            located.append(
                reason.model_copy(
                    update={
                        "score": reason.score - in_examples,
                        "matched": tuple(dict.fromkeys(word for _, _, word, _ in own))[:_MAX_LISTED],
                        "fields": tuple(dict.fromkeys(field for field, *_ in own)),
                    }
                )
            )
    located += [Reason.from_valid(kind="example", score=score, text=text) for text, score in gained.items()]
    return located


def _scores_of_terms(found: Found, gains: Gains, parts: Sequence[Gains], slot: int) -> dict[str, float]:
    """Return what each term adds to the score of a slot."""
    scores = {
        term: gains[term] * float(impact)
        for term, (places, impacts) in found.items()
        for impact in impacts[places == slot]
    }
    if not parts:
        return scores
    best = max(parts, key=lambda part: sum(scores.get(term, 0.0) for term in part))
    return {term: score * (1 if term in best else 1 - PART_SHARE) for term, score in scores.items()}


def _words_of_terms(query: str, question: ParsedQuery) -> dict[str, str]:
    """Return the word of a question that each of its terms comes from."""
    found = {
        term: word
        for word in reversed(list(words(query)))
        for term, _ in question_terms(word)
        if term in question.terms
    }
    return {stem: word for word, stem in question.corrected.items()} | found


def _word_reasons(
    scores: Mapping[str, float], gains: Gains, word_of: Mapping[str, str], corrected: Mapping[str, str]
) -> Iterator[Reason]:
    """Yield a reason for each word of a question that a tool has, with the terms of the word together."""
    by_word: defaultdict[str, list[str]] = defaultdict(list)
    for term in scores:
        by_word[word_of.get(term, term)].append(term)
    for word, terms in by_word.items():
        score, weight = sum(scores[term] for term in terms), max(gains[term] for term in terms)
        if word in corrected:
            yield Reason.from_valid(
                kind="spelling", score=score, text=word, value=weight, matched=(corrected[word],)
            )
        else:
            yield Reason.from_valid(kind="word", score=score, text=word, value=weight)


def _words_of_topics(
    query: str, question: ParsedQuery, postings: Postings | VisiblePostings, slot: int
) -> str:
    """Return the words of a question that name topics of the tool in a slot."""
    stems: set[str] = set()
    for topic, named in question.topics.items():
        if (postings.of(topic)[0] == slot).any():
            stems |= named
    asked = words(query, with_identifiers=False)
    return " ".join(dict.fromkeys(word for word in asked if (index_terms(word) or (word,))[0] in stems))
