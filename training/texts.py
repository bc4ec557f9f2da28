"""The texts that a table of wordpieces learns from: questions, tools, parts of both, and made-up ones."""

import random
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from corpus import Corpus

LONGEST_SPAN = 24
FEWEST = 3
"""How many words a text has that parts are taken of."""
RARE = 0.4
"""The share of words in made-up texts that come from the vocabulary, and not from what people write."""
CHANGED = 0.3
"""The share of words in a text that others take the place of."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts, no two of the first two kinds the same."""

    questions: list[str]
    tools: list[str]
    others: list[str]

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        words: Sequence[str],
        *,
        joined: int,
        spans: int,
        made_up: int,
        chance: random.Random,
    ) -> "Texts":
        """Return the texts of a corpus, and what can be made of them and of a vocabulary."""
        pairs = corpus.pairs + corpus.joined(joined, chance)
        questions = list(dict.fromkeys(pair.query for pair in pairs))
        ids = (one for group in corpus.groups.values() for one in group)
        told = dict.fromkeys(text for ways in corpus.texts(ids) for text in ways)
        tools = [text for text in told if text not in set(questions)]
        whole = questions + tools
        others = [span for text in whole for span in _spans(text, spans, chance)]
        return cls(questions, tools, others + list(_made_up(whole, words, made_up, chance)))

    @property
    def all(self) -> list[str]:
        """Every text, the questions first and then the tools."""
        return self.questions + self.tools + self.others


def _spans(text: str, count: int, chance: random.Random) -> Iterator[str]:
    """Yield parts of a text."""
    words = text.split()
    if len(words) < FEWEST:
        return
    for _ in range(count):
        size = chance.randint(1, min(len(words) - 1, LONGEST_SPAN))
        first = chance.randint(0, len(words) - size)
        yield " ".join(words[first : first + size])


def _made_up(whole: Sequence[str], words: Sequence[str], count: int, chance: random.Random) -> Iterator[str]:
    """Yield texts of random words, and texts in which random words stand: common words less than they are."""
    seen = Counter(word for text in whole for word in text.lower().split() if word.isalpha())
    common = list(seen)
    ends = list(accumulate(seen[word] ** 0.5 for word in common))

    def word() -> str:
        if chance.random() < RARE:
            return chance.choice(words)
        return common[min(bisect(ends, chance.random() * ends[-1]), len(common) - 1)]

    for _ in range(count // 2):
        yield " ".join(word() for _ in range(chance.randint(1, 8)))
    for text in chance.sample(whole, min(count - count // 2, len(whole))):
        yield " ".join(word() if chance.random() < CHANGED else one for one in text.split()[:60])
