"""Text analysis: tools and questions to words, stems, terms and topics."""

from toolcrib.discovery.search.text.fields import FIELD_WEIGHTS, search_doc
from toolcrib.discovery.search.text.stem import stem
from toolcrib.discovery.search.text.terms import index_terms, question_terms
from toolcrib.discovery.search.text.topics import DEPRECATED, MARKS, content_weights, marks_of, named_topics
from toolcrib.discovery.search.text.words import clauses, fold, split_identifier, words

__all__ = [
    "DEPRECATED",
    "FIELD_WEIGHTS",
    "MARKS",
    "clauses",
    "content_weights",
    "fold",
    "index_terms",
    "marks_of",
    "named_topics",
    "question_terms",
    "search_doc",
    "split_identifier",
    "stem",
    "words",
]
