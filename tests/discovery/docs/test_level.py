"""Levels of detail are named, and other names are refused with the nearest one."""

from typing import Any

import pytest

from toolcrib.discovery import DetailLevel
from toolcrib.errors import ToolcribError, ValidationError


def test_a_level_is_its_text() -> None:
    assert [*DetailLevel] == ["summary", "schema", "full"]
    assert DetailLevel("full") is DetailLevel(DetailLevel.FULL) is DetailLevel.FULL


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("sumary", "a level is 'summary', 'schema' or 'full', not 'sumary'; did you mean 'summary'?"),
        ("Schema", "a level is 'summary', 'schema' or 'full', not 'Schema'; did you mean 'schema'?"),
        ("everything", "a level is 'summary', 'schema' or 'full', not 'everything'"),
        ("", "a level is 'summary', 'schema' or 'full', not ''"),
        (None, "a level is 'summary', 'schema' or 'full', not None"),
        (2, "a level is 'summary', 'schema' or 'full', not 2"),
        ([], "a level is 'summary', 'schema' or 'full', not []"),
    ],
    ids=repr,
)
def test_another_level_is_refused_with_the_nearest_one(value: Any, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        DetailLevel(value)
    assert str(caught.value) == text
    assert caught.value.problems[0].path == "/level"
    assert isinstance(caught.value, ToolcribError)
