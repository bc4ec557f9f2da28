import subprocess
import sys
from pathlib import Path

import pytest
from discovery.evaluation.doubles import QUESTIONS, SHOP, filled
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import Hit
from toolcrib.discovery.evaluation import (
    EvaluationCatalogue,
    EvaluationReport,
    Finder,
    LabelledQuery,
    LabelledSet,
    Removable,
    ToolLine,
    ask,
    calibrate,
    cost_of,
    evaluate,
    finder_of,
    resident_bytes,
)


class Fixed:
    """A finder with the same result for every question."""

    def __init__(self, *found: str, confidence: float = 0.5) -> None:
        self.found = found
        self.confidence = confidence

    def search(self, query: str, *, limit: int) -> list[Hit]:
        del query
        return [Hit(name, 1.0, self.confidence) for name in self.found[:limit]]


def labelled(*questions: LabelledQuery) -> LabelledSet:
    return LabelledSet("shop", SHOP.catalogue, questions)


def test_a_report_says_how_well_the_questions_were_answered() -> None:
    report = evaluate(finder_of(filled()), SHOP)
    assert (report.name, report.tools, report.queries, report.k) == ("shop", 3, 4, 10)
    assert (
        report.ndcg == report.recall == report.recall_at_5 == report.mrr == report.hit1 == report.found == 1
    )
    assert 0 <= report.cpu_ms_p50 <= report.cpu_ms_p95


def test_the_first_k_are_what_counts() -> None:
    asked = labelled(LabelledQuery(query="cut", relevant=["shop:saw", "kettle"]))
    report = evaluate(Fixed("shop:drill", "shop:saw", "kettle"), asked, k=2)
    assert (report.recall, report.recall_at_5, report.mrr, report.hit1) == (0.5, 1, 0.5, 0)
    assert report.ndcg == pytest.approx(0.6309 / 1.6309, abs=1e-4)


def test_a_finder_that_finds_nothing_scores_nothing() -> None:
    report = evaluate(Fixed(), SHOP)
    assert report.ndcg == report.recall == report.mrr == report.hit1 == report.found == 0
    assert report.calibration.error == 0


def test_a_set_without_questions_has_a_report_too() -> None:
    report = evaluate(Fixed("kettle"), labelled())
    assert (report.queries, report.ndcg, report.cpu_ms_p95, report.calibration.bins) == (0, 0, 0, ())


def test_answers_are_judged_under_the_ids_of_the_labels() -> None:
    catalogue = EvaluationCatalogue.of_lines([ToolLine(id="PDF&URL", name="PDF&URL")])
    asked = LabelledSet("files", catalogue, (LabelledQuery(query="read", relevant=["PDF&URL"]),))
    assert evaluate(Fixed("PDF_URL"), asked).hit1 == 1


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    seen: list[list[str]] = []
    for seed in (7, 7, 8):
        finder = finder_of(filled())
        questions = [
            LabelledQuery(qid=str(n), query=f"hole {n}", relevant=["shop:drill"]) for n in range(100)
        ]
        asked: list[str] = []

        class Listening:
            def search(
                self, query: str, *, limit: int, asked: list[str] = asked, inner: Finder = finder
            ) -> list[Hit]:
                asked.append(query)
                return list(inner.search(query, limit=limit))

        report = evaluate(Listening(), labelled(*questions), sample=10, seed=seed)
        assert report.queries == 10
        seen.append(asked)
    assert seen[0] == seen[1] != seen[2]


def test_a_sample_of_more_than_there_is_is_everything() -> None:
    assert evaluate(Fixed("kettle"), SHOP, sample=100).queries == len(QUESTIONS)


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    evaluate(Fixed("kettle"), SHOP, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_each_answer_can_be_looked_at() -> None:
    answers = list(ask(Fixed("kettle"), SHOP, QUESTIONS, limit=1))
    assert [answer.is_right for answer in answers] == [False, False, True, False]
    assert {answer.ranked for answer in answers} == {("kettle",)}
    assert {answer.confidence for answer in answers} == {0.5}


def test_a_report_survives_json() -> None:
    report = evaluate(finder_of(filled()), SHOP)
    assert EvaluationReport.from_json(report.to_json()) == report


def test_an_index_is_a_finder_whose_tools_can_be_taken_out() -> None:
    finder = finder_of(filled())
    assert isinstance(finder, Finder)
    assert isinstance(finder, Removable)
    assert not isinstance(Fixed(), Removable)


def test_a_perfect_judge_of_itself_has_no_calibration_error() -> None:
    sure, unsure = [(1.0, True)] * 3, [(0.25, True), *[(0.25, False)] * 3]
    found = calibrate([*sure, *unsure])
    assert found.error == 0
    assert [(held.low, held.high, held.count, held.precision) for held in found.bins] == [
        (0.2, 0.3, 4, 0.25),
        (0.9, 1.0, 3, 1.0),
    ]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans())))
def test_every_answer_is_in_one_bin_and_the_error_is_a_share(answers: list[tuple[float, bool]]) -> None:
    found = calibrate(answers)
    assert sum(held.count for held in found.bins) == len(answers)
    assert 0 <= found.error <= 1
    for held in found.bins:
        assert held.low - 1e-9 <= held.confidence <= held.high + 1e-9
        assert held.count > 0


def test_cost_of_returns_the_built_object_and_its_cost() -> None:
    made, cost = cost_of(lambda: b"x" * (64 << 20))
    assert len(made) == 64 << 20
    assert cost.cpu_seconds > 0


@pytest.mark.proof
def test_memory_is_counted_in_a_process_that_does_nothing_else() -> None:
    code = (
        "from toolcrib.discovery.evaluation import cost_of\n"
        "made, cost = cost_of(lambda: b'x' * (64 << 20))\n"
        "print(cost.rss_bytes is None or cost.rss_bytes > 32 << 20)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"


def test_memory_is_none_where_the_system_does_not_say(tmp_path: Path) -> None:
    assert resident_bytes(tmp_path / "missing") is None
    (tmp_path / "status").write_text("Name:\tpython\n")
    assert resident_bytes(tmp_path / "status") is None
    (tmp_path / "status").write_text("Name:\tpython\nVmRSS:\t   2048 kB\n")
    assert resident_bytes(tmp_path / "status") == 2 << 20
    _, cost = cost_of(list, status=tmp_path / "missing")
    assert cost.rss_bytes is None
