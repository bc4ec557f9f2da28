"""From words to the terms that are looked up: stems, and softer forms that nearly match.

A term is a stem (`creat`), a family (`~creat`: every stem that begins so) or a concept (`=12`: every word
that means nearly the same). A document is filed under all of them; a question asks for stems at their full
weight and for the softer forms at a fraction of it.
"""

from functools import lru_cache

from toolcrib.discovery.text.concepts import SAME_WORDS, concepts_of
from toolcrib.discovery.text.stem import stem
from toolcrib.discovery.text.stopwords import STOP_WORDS, VAGUE_WORDS

__all__ = ["CONCEPT_WEIGHT", "FAMILY_WEIGHT", "VAGUE_WEIGHT", "forms", "question_terms"]

FAMILY_WEIGHT = 0.2
CONCEPT_WEIGHT = 0.3
VAGUE_WEIGHT = 0.6
"""What a word such as `current` or `provide` counts in a question, beside one that names a thing."""

_SOFTER = {"~": FAMILY_WEIGHT, "=": CONCEPT_WEIGHT}
_FAMILY = 5


@lru_cache(maxsize=1 << 16)
def forms(word: str) -> tuple[str, ...]:
    """Return the terms a word is filed under, its stem first; none for a stop word.

    >>> forms("creating")[:2], forms("the")
    (('creat', '~creat'), ())
    """
    if word in STOP_WORDS:
        return ()
    base = stem(SAME_WORDS.get(word, word))
    if len(base) < _FAMILY or not base.isalpha():
        return (base, *concepts_of(base))
    return (base, f"~{base[:_FAMILY]}", *concepts_of(base))


@lru_cache(maxsize=1 << 14)
def question_terms(word: str) -> tuple[tuple[str, float], ...]:
    """Return what a word asks for: its terms, with what each counts; nothing for a stop word.

    >>> question_terms("available")
    (('avail', 0.6), ('~avail', 0.12))
    """
    weight = VAGUE_WEIGHT if word in VAGUE_WORDS else 1.0
    return tuple((term, round(weight * _SOFTER.get(term[0], 1.0), 3)) for term in forms(word))
