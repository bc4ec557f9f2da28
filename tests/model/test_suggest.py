"""Suggestions: the nearest option, or none."""

from itertools import count

import pytest
from effort import at_most

from toolcrib.model.suggest import choose, did_you_mean, nearest, there_are


@pytest.mark.parametrize(
    ("word", "options", "option"),
    [
        ("titel", ["body", "title"], "title"),
        ("github:create_isue", ["github:create_issue", "github:close_issue"], "github:create_issue"),
        ("title", ["title", "titles"], "title"),
        ("zebra", ["title", "body"], None),
        ("", ["a"], None),
        ("a", [], None),
        ("titel", ["t" * 41], None),
        ("t" * 41, ["t" * 64], None),
        ("t" * 40, ["t" * 39], "t" * 39),
    ],
    ids=["letters", "ids", "exact", "far", "empty", "no options", "long option", "long word", "longest"],
)
def test_the_nearest_option_is_found_or_none(word: str, options: list[str], option: str | None) -> None:
    assert nearest(word, options) == option


def test_a_suggestion_is_the_end_of_a_sentence() -> None:
    assert did_you_mean("titel", ["title"]) == "; did you mean 'title'?"
    assert did_you_mean("zebra", ["title"]) == ""


def test_choose_lists_all_options_without_a_similar_one() -> None:
    assert choose("titel", ["title", "body"]) == "; did you mean 'title'?"
    assert choose("zebra", {"title": 1, "body": 2}) == "; there are title, body"
    assert choose("zebra", ["title"]) == "; there is title"
    assert choose("zebra", []) == ""
    assert there_are([f"n{number}" for number in range(23)]).endswith("n18, n19 and 3 more")


def test_options_without_end_are_looked_at_for_a_moment_only() -> None:
    with at_most(2):
        assert nearest("option-x", (f"option-{number}" for number in count())) == "option-9"
