"""From texts to terms: how tools and questions are read before they are compared."""

from toolcrib.discovery.text.clauses import clauses
from toolcrib.discovery.text.fields import FIELD_WEIGHTS, Analysis, analyse, field_texts
from toolcrib.discovery.text.fold import fold
from toolcrib.discovery.text.stem import stem
from toolcrib.discovery.text.terms import forms, question_terms
from toolcrib.discovery.text.words import split_identifier, words

__all__ = [
    "FIELD_WEIGHTS",
    "Analysis",
    "analyse",
    "clauses",
    "field_texts",
    "fold",
    "forms",
    "question_terms",
    "split_identifier",
    "stem",
    "words",
]
