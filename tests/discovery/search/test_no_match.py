"""The page of a search without results."""

import pytest

from toolcrib import Tool
from toolcrib.discovery import LOW_CONFIDENCE, Index, NoMatch, Page, Result, explain_no_match


@pytest.fixture
def index() -> Index:
    index = Index()
    for namespace, name, description in (
        ("git", "log", "Show the history of commits."),
        ("mail", "send", "Send a message to somebody."),
        (None, "add", "Add two numbers."),
    ):
        index.register(Tool(name=name, namespace=namespace, description=description, input_schema={}))
    return index


def found(index: Index, query: str, confidence: float) -> Page[Result]:
    """Return the page of a search, with each result's confidence replaced."""
    page = index.search(query)
    items = tuple(result.replace(confidence=confidence) for result in page.items)
    return Page(items=items, total=len(items))


def test_there_is_no_doubt_where_something_fits_or_nothing_is_asked(index: Index) -> None:
    assert explain_no_match(index.search("history of commits"), "history of commits") is None
    assert explain_no_match(found(index, "commits", LOW_CONFIDENCE), "commits") is None
    assert explain_no_match(index.search(" "), " ", index.namespaces()) is None


def test_guesses_are_told_with_their_namespaces_and_the_others(index: Index) -> None:
    page = found(index, "history of commits", LOW_CONFIDENCE / 2)
    told = explain_no_match(page, "history of commits", index.namespaces())
    assert told == NoMatch(guesses=True, near=("git",), others=("mail",))


def test_similar_namespaces_come_first_without_results(index: Index) -> None:
    nothing = index.search("mial zebra", min_confidence=0.99)
    assert explain_no_match(nothing, "mial zebra", ["git", "mail"]) == NoMatch(
        guesses=False, near=("mail",), others=("git",)
    )
    assert explain_no_match(nothing, "zebra") == NoMatch(guesses=False)
