"""Posting lists behave like a dict of dicts, whatever is added and removed."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from laws import law

from toolcrib.discovery.search.lexical.documents import DocumentBatch
from toolcrib.discovery.search.lexical.postings import Postings

TERMS = ["creat", "issu", "~creat", "=12", "天气", "größe", "mp3"]
terms = st.sampled_from(TERMS)
documents = st.dictionaries(terms, st.floats(0.125, 8, width=32), max_size=5)


def batch_of(*added: dict[str, float]) -> DocumentBatch:
    vocabulary = list({term: None for document in added for term in document})
    return DocumentBatch(
        vocabulary,
        np.array([vocabulary.index(term) for document in added for term in document], np.int32),
        np.array([value for document in added for value in document.values()], np.float64),
        np.array(list(map(len, added)), np.int32),
        np.ones(len(added)),
    )


class PostingsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.postings = Postings()
        self.model: dict[int, dict[str, float]] = {}
        self.next = 0

    @rule(added=st.lists(documents, max_size=6), freed=st.booleans())
    def add(self, added: list[dict[str, float]], freed: bool) -> None:
        free = [slot for slot in range(self.next) if slot not in self.model] if freed else []
        slots = [*free, *range(self.next, self.next + len(added))][: len(added)]
        known = {term for document in self.model.values() for term in document}
        fresh = self.postings.add(batch_of(*added), slots)
        assert len(set(fresh)) == len(fresh)
        assert set(fresh) == {term for document in added for term in document} - known
        self.model |= dict(zip(slots, added, strict=True))
        self.next = max([self.next, *(slot + 1 for slot in slots)])

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.model:
            slot = data.draw(st.sampled_from(sorted(self.model)))
            self.postings.remove([slot])
            del self.model[slot]

    @invariant()
    def the_lists_are_those_of_the_model(self) -> None:
        assert len(self.postings) == len(self.model)
        for term in TERMS:
            expected = {slot: found[term] for slot, found in self.model.items() if term in found}
            assert self.postings.knows(term) is bool(expected)
            assert self.postings.frequency(term) == len(expected)
            if expected:
                slots, impacts = self.postings.of(term)
                assert len(slots) == len(impacts) == len(expected)
                assert dict(zip(slots.tolist(), impacts.tolist(), strict=True)) == expected


TestPostings = PostingsModel.TestCase
TestPostings.settings = law(20, stateful_step_count=25)


def test_a_term_that_nobody_has_is_not_known() -> None:
    postings = Postings()
    assert not postings.knows("creat")
    assert postings.frequency("creat") == 0
    with pytest.raises(KeyError):
        postings.of("creat")


def test_a_document_without_terms_counts_as_one() -> None:
    postings = Postings()
    assert postings.add(batch_of({}), [0]) == []
    assert len(postings) == 1
    postings.remove([0])
    assert len(postings) == 0


def test_many_documents_can_come_one_at_a_time() -> None:
    postings = Postings()
    for slot in range(500):
        postings.add(batch_of({"all": slot + 0.5, f"own{slot}": 1.0}), [slot])
    slots, impacts = postings.of("all")
    assert slots.tolist() == list(range(500))
    assert impacts.dtype == np.float32
    assert impacts.tolist() == [slot + 0.5 for slot in range(500)]
