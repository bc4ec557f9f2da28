"""The training data of the models contains none of the data of the evaluation."""

import json
import random
import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def module(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "training" / "corpus.py"))


@pytest.fixture(scope="module")
def corpus(module: dict[str, Any], public_data: Path) -> Any:
    assert module["DATA"] == public_data
    return module["Corpus"].read()


@pytest.fixture(scope="module")
def learnt(corpus: Any) -> set[str]:
    """Return the tools of all pairs, right or wrong, and those that are learnt from without a question."""
    paired = {one for pair in corpus.pairs for one in (*pair.relevant, *pair.negatives)}
    return paired.union(*corpus.groups.values())


def test_about_the_share_that_is_said_of_servers_is_held_out_and_always_the_same(
    module: dict[str, Any],
) -> None:
    held = [name for name in (f"server-{number}" for number in range(2_000)) if module["held_out"](name)]
    assert len(held) / 2_000 == pytest.approx(module["HELD_OUT"] / 100, abs=0.02)
    assert held[:3] == ["server-2", "server-7", "server-9"]


def test_a_question_with_two_errands_is_made_of_two_of_one_source(module: dict[str, Any]) -> None:
    pair = module["Pair"]
    chance = random.Random(7)  # noqa: S311 - repeatable on purpose
    alone = pair("Boil water.", ("kettle",), "kitchen")
    bench = [pair("Saw a plank.", ("saw",), "bench"), pair("drill a hole", ("drill",), "bench")]
    made = module["Corpus"](pairs=[alone, *bench]).joined(20, chance)
    assert len(made) == 20
    assert {joined.group for joined in made} == {"bench"}
    assert all(len(joined.relevant) == 2 and ".." not in joined.query for joined in made)
    assert {joined.relevant for joined in made} >= {("saw", "drill"), ("drill", "saw")}


def test_tools_that_are_never_to_be_trained_on_are_not(learnt: set[str], public_data: Path) -> None:
    places = json.loads((public_data / "training" / "validation_tools.json").read_text())
    assert learnt.isdisjoint(map(str, places["never_train"]))


def test_nothing_of_a_server_that_is_held_out_is_learnt(
    module: dict[str, Any], corpus: Any, learnt: set[str]
) -> None:
    servers = {corpus.lines[one].namespace or "" for one in learnt if not one.isdigit()}
    assert not any(map(module["held_out"], servers))
    assert len(servers) > 500


def test_what_is_held_out_is_asked_for_among_the_tools_that_are(module: dict[str, Any], corpus: Any) -> None:
    spaces = {corpus.lines[one].namespace or "" for one in corpus.own.catalogue.ids}
    assert len(spaces) > 50
    assert all(map(module["held_out"], spaces))
    assert len(corpus.own.queries) >= 1_000
    assert len(corpus.unanswered) >= 100


def test_no_held_out_question_is_learnt(corpus: Any) -> None:
    asked = {question.query for question in corpus.own.queries} | set(corpus.unanswered)
    assert asked.isdisjoint(pair.query for pair in corpus.pairs)


def test_the_answers_of_the_unseen_sets_are_unseen(corpus: Any) -> None:
    paired = {one for pair in corpus.pairs for one in pair.relevant}
    seen = {
        name: len({one for question in labelled.queries for one in question.relevant} & paired)
        for name, labelled in corpus.validation.items()
    }
    # What the card says: only the first of these sets has no tool that a pair names too.
    assert seen == {
        "metatool_unseen": 0,
        "ace_unseen": 5,
        "bfcl_unseen": 77,
        "seal_val": 307,
        "metatool_seen": 159,
    }
