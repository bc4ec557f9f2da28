"""Pages, results and documents."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import Document, Page, Result, SearchDoc, Summary
from toolcrib.errors import InvalidToolError

SUMMARY = Summary(id="a:b", name="b", namespace="a", short_description="Does.", summary="Does.", tags=("x",))
RESULT = Result(summary=SUMMARY, score=1.5, score_type="bm25", confidence=0.5)


def test_a_page_is_a_series_of_its_items() -> None:
    page = Page(items=(SUMMARY, SUMMARY), next_cursor="abc", total=5)
    assert list(page) == [SUMMARY, SUMMARY]
    assert len(page) == 2
    assert SUMMARY in list(page)
    assert not Page()


def test_a_page_in_json() -> None:
    page = Page(items=(RESULT,), next_cursor="abc", total=5)
    assert page.to_json() == {
        "items": [
            {
                "summary": {
                    "id": "a:b",
                    "name": "b",
                    "namespace": "a",
                    "shortDescription": "Does.",
                    "summary": "Does.",
                    "tags": ["x"],
                },
                "score": 1.5,
                "scoreType": "bm25",
                "confidence": 0.5,
            }
        ],
        "nextCursor": "abc",
        "total": 5,
    }
    assert Page().to_json() == {"total": 0}


def test_pages_are_values() -> None:
    page = Page(items=(RESULT,), total=1)
    assert page == Page.from_valid(items=(RESULT,), total=1)
    assert page != Page(items=(RESULT,), total=2)
    assert page.replace(total=2).items == (RESULT,)
    assert repr(page).count("Does.") == 1
    assert pickle.loads(pickle.dumps(page)) == page  # noqa: S301 - our own bytes
    with pytest.raises(ValueError, match="frozen"):
        page.total = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": 1.01},
        {"confidence": -0.1},
        {"confidence": float("nan")},
        {"score_type": "tfidf"},
        {"score": "high"},
        {"summary": None},
        {"rank": 1},
    ],
    ids=str,
)
def test_malformed_result_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError):
        RESULT.replace(**change)


def test_records_are_read_from_their_json() -> None:
    assert Result.from_json(RESULT.to_json()) == RESULT
    doc = SearchDoc(id="a:b", doc_text="b a does.", summary=SUMMARY)
    assert SearchDoc.from_json(doc.to_json()) == doc


@pytest.mark.parametrize(
    ("tags", "normal"),
    [
        ((), ()),
        (("b", "A"), ("a", "b")),
        ((" B ", "b", "", "\t"), ("b",)),
        (("É", "ß"), ("ß", "é")),
    ],
)
def test_the_tags_of_a_document_are_lower_case_sorted_and_different(
    tags: tuple[str, ...], normal: tuple[str, ...]
) -> None:
    assert Document(id="a", name="n", tags=tags).normalized().tags == normal


def test_the_text_of_a_document_is_built_whatever_it_was() -> None:
    document = Document(id="a", name="Name", description="Says.", tags=("T",), text="stale", namespace="ns")
    assert document.normalized().text == "Name Says. t"
    assert Document(id="a", name="Name").normalized().text == "Name"
    assert document.text == "stale"


@given(st.lists(st.text(max_size=4), max_size=6), st.text(max_size=10))
def test_to_normalize_twice_is_to_normalize_once(tags: list[str], description: str) -> None:
    try:
        document = Document(id="a", name="n", tags=tuple(tags), description=description)
    except InvalidToolError:  # lone surrogates
        return
    once = document.normalized()
    assert once.normalized() == once


def test_missing_item_of_a_page_is_explained() -> None:
    with pytest.raises(IndexError, match="there is no item 0: this page is empty: nothing fits"):
        Page()[0]
    with pytest.raises(IndexError, match="there is no item 1: this page has 1 item"):
        Page(items=("a",), total=1)[1]
