"""From texts to terms: how tools and questions are read before they are compared."""

from toolcrib.discovery.search.text.fields import FIELD_WEIGHTS, Analysis, analyse, search_doc
from toolcrib.discovery.search.text.stem import stem
from toolcrib.discovery.search.text.terms import forms, question_terms
from toolcrib.discovery.search.text.topics import DEPRECATED, MARKS, content_weights, marks_of, named_topics
from toolcrib.discovery.search.text.words import clauses, fold, split_identifier, words

__all__ = [
    "DEPRECATED",
    "FIELD_WEIGHTS",
    "MARKS",
    "Analysis",
    "analyse",
    "clauses",
    "content_weights",
    "fold",
    "forms",
    "marks_of",
    "named_topics",
    "question_terms",
    "search_doc",
    "split_identifier",
    "stem",
    "words",
]
