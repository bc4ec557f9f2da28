"""The judges are fitted on real search results, with plausible weights."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolcrib.discovery import load_embedder
from toolcrib.discovery.evaluation import ToolLine

TOOLS = {
    "mail": "Send an e-mail to somebody.",
    "weather": "Tell the weather of a city for the next days.",
    "issue": "Open an issue in a repository.",
    "track": "Play a song on a speaker.",
}
ASKED = {
    "mail": "write to Ann",
    "weather": "will it rain in Oslo?",
    "issue": "report a bug",
    "track": "put on some music",
}


@pytest.fixture(scope="module")
def training(root: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the modules that ask and that fit, which stand in a folder of their own."""
    sys.path.insert(0, str(root / "training"))
    import asking  # noqa: PLC0415 - found there alone
    import judge  # noqa: PLC0415

    yield asking, judge
    sys.path.remove(str(root / "training"))


@pytest.fixture(scope="module")
def cases(training: tuple[Any, Any]) -> Any:
    asking, _ = training
    found = asking.Cases()
    lines = [ToolLine(id=name, name=name, description=text) for name, text in TOOLS.items()]
    catalogue = asking.Asking(lines, load_embedder(), found)
    for name, question in ASKED.items():
        catalogue.ask("answered", question, {"all": None, "server": [name, "mail"]}, [name])
    for kind, question in (("unanswered", "delete the issue"), ("everyday", "who painted the Mona Lisa?")):
        catalogue.ask(kind, question, {"all": None})
    catalogue.ask("foreign", "convert 20 euros to yen", {"public": None})
    return found


def test_each_question_with_an_answer_is_put_with_its_tools_and_without(cases: Any) -> None:
    assert cases.kinds.count("answered") == cases.kinds.count("missing") == 2 * len(ASKED)
    rights = [right for kind, right in zip(cases.kinds, cases.right, strict=True) if kind == "answered"]
    assert sum(rights) >= 6
    assert not any(right for kind, right in zip(cases.kinds, cases.right, strict=True) if kind != "answered")


def test_a_judge_that_is_fitted_tells_right_answers_from_the_others(
    training: tuple[Any, Any], cases: Any
) -> None:
    judge = training[1].fit(cases)
    said, right = cases.said(judge), np.array(cases.right)
    assert len(judge.weights) == 3 + 2 * load_embedder().dimensions  # type: ignore[attr-defined] - the table's
    assert said[right].mean() > said[~right].mean() + 0.2


def test_where_nothing_was_found_there_is_no_confidence(training: tuple[Any, Any], cases: Any) -> None:
    found = training[0].Cases()
    for kind in dict.fromkeys(cases.kinds):
        found.add(kind, "all", None, right=False)
    found.add("answered", "all", next(row for row in cases.rows if row is not None), right=True)
    assert found.said(training[1].fit(cases))[:-1].tolist() == [0] * (len(found) - 1)


def test_of_each_kind_questions_of_public_sets_weigh_a_quarter(training: tuple[Any, Any]) -> None:
    kinds, public = (
        np.array(["answered"] * 5 + ["foreign"]),
        np.array([True, True, False, False, False, True]),
    )
    weights = training[1].weights_of(kinds, public)
    shares = training[1].SHARES
    assert weights[:2].sum() / weights[:5].sum() == pytest.approx(0.25)
    assert weights[5] / weights[:5].sum() == pytest.approx(shares["foreign"] / shares["answered"])
