"""Slots are numbers for ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from laws import law

from toolcrib.discovery.search.lexical.bm25 import Slots

IDS = [f"ns:tool{number}" for number in range(8)]
FIXED = [frozenset(IDS[:4]), frozenset(IDS), frozenset({"unknown"}), frozenset[str]()]


class SlotsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots()
        self.model: dict[str, int] = {}
        self.most = 0

    @rule(tool_id=st.sampled_from(IDS))
    def take(self, tool_id: str) -> None:
        if tool_id not in self.model:
            slot = self.slots.take(tool_id)
            assert slot not in self.model.values()
            self.model[tool_id] = slot
            self.most = max(self.most, len(self.model))

    @rule(tool_id=st.sampled_from(IDS))
    def release(self, tool_id: str) -> None:
        if tool_id in self.model:
            assert self.slots.release(tool_id) == self.model.pop(tool_id)

    @invariant()
    def the_numbers_are_those_of_the_model(self) -> None:
        assert self.slots.taken == len(self.model)
        assert len(self.slots.ids) == self.most
        for tool_id in IDS:
            assert (tool_id in self.slots) is (tool_id in self.model)
        assert self.slots.find(IDS) == self.model
        assert {tool_id: slot for slot, tool_id in enumerate(self.slots.ids) if tool_id} == self.model
        for ids in FIXED:
            expected = sorted(slot for tool_id, slot in self.model.items() if tool_id in ids)
            assert self.slots.of(ids).tolist() == expected
            assert self.slots.of(ids).tolist() == expected


TestSlots = SlotsModel.TestCase
TestSlots.settings = law(20, stateful_step_count=25)


def test_a_free_slot_stands_for_nothing() -> None:
    slots = Slots()
    slots.take("a")
    slots.release("a")
    assert (slots.ids, slots.find(["a", ""])) == ([""], {})
    with pytest.raises(KeyError):
        slots.release("a")


@law(12)
@given(st.lists(st.frozensets(st.sampled_from(IDS)), min_size=17, max_size=40))
def test_any_number_of_selections_can_be_asked_for(selections: list[frozenset[str]]) -> None:
    slots = Slots()
    for tool_id in IDS:
        slots.take(tool_id)
    for ids in selections:
        assert slots.of(ids).tolist() == [at for at, tool_id in enumerate(IDS) if tool_id in ids]


def test_a_selection_that_comes_again_is_not_worked_out_again() -> None:
    slots = Slots()
    slots.take("a")
    ids = {"a", "b"}
    assert slots.of(ids) is slots.of(ids)
    slots.take("b")
    assert slots.of(ids).tolist() == [0, 1]
