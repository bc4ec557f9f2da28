from contextlib import ExitStack

import pytest
from discovery.evaluation.doubles import QUESTIONS, SHOP, TOOLS, filled
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.evaluation import EVERYDAY, finder_of, missing_auc, off_topic_auc, separate
from toolcrib.model import LocalBackend

confidences = st.lists(st.floats(0, 1), min_size=1)


def test_everyday_questions_are_told_from_those_that_a_tool_answers() -> None:
    found = off_topic_auc(finder_of(filled()), SHOP)
    assert found.auc > 0.95
    assert (found.answerable, found.unanswerable) == (len(QUESTIONS), len(EVERYDAY))
    assert found.turned_away > 0.9


def test_the_questions_of_another_set_can_be_the_off_topic_ones() -> None:
    told: list[tuple[int, int]] = []
    found = off_topic_auc(
        finder_of(filled()),
        SHOP,
        off_topic=["paint a wall", "a hole"],
        sample=2,
        progress=lambda done, total: told.append((done, total)),
    )
    assert (found.answerable, found.unanswerable) == (2, 2)
    assert told[-1] == (4, 4)


def test_questions_are_asked_again_with_the_right_tools_taken_out() -> None:
    index = filled()
    told: list[tuple[int, int]] = []
    found = missing_auc(finder_of(index), SHOP, progress=lambda done, total: told.append((done, total)))
    assert found.auc > 0.9
    assert (found.answerable, found.unanswerable) == (4, 4)
    assert told[-1] == (4, 4)
    taken_out = ["-shop:drill", "+shop:drill", "-shop:saw", "+shop:saw", "-kettle", "+kettle"]
    assert index.log == taken_out, "once for all questions that have the same right tools"
    assert index.tools.keys() == {str(tool.id) for tool in TOOLS}


def test_a_tool_comes_back_with_its_backends_even_after_an_error() -> None:
    index = filled()
    index.register_many([(TOOLS[2], LocalBackend(name="a")), (TOOLS[2], LocalBackend(name="b"))])
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(KeyboardInterrupt))
        stack.enter_context(finder_of(index).without(["kettle", "kettle", "unknown"]))
        assert "kettle" not in index.tools
        raise KeyboardInterrupt
    assert index.backends("kettle") == [LocalBackend(name="a"), LocalBackend(name="b")]


def test_the_threshold_keeps_nineteen_of_twenty_answerable_questions() -> None:
    answerable = [place / 100 for place in range(1, 101)]
    found = separate(answerable, [0.01, 0.04, 0.05, 0.5])
    assert found.threshold == 0.05
    assert found.turned_away == 0.5


@given(confidences, confidences)
def test_no_more_than_one_in_twenty_of_the_answerable_is_below_the_threshold(
    answerable: list[float], others: list[float]
) -> None:
    found = separate(answerable, others)
    assert sum(value < found.threshold for value in answerable) <= len(answerable) / 20
    assert found.turned_away == sum(value < found.threshold for value in others) / len(others)


def test_no_questions_have_no_separation() -> None:
    found = separate([], [])
    assert (found.auc, found.turned_away, found.threshold) == (0.5, 0, 0)
    assert missing_auc(finder_of(filled()), SHOP, sample=1).answerable == 1


def test_everyday_questions_are_many_and_different() -> None:
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 115
    assert all(question.strip() == question != "" for question in EVERYDAY)
