"""A tool as a summary, as one text and as a document."""

from typing import Any

import pytest
from discovery.index.support import ISSUE, make
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import MAX_SHORT_DESCRIPTION_LEN, document_of, search_doc, summarize
from toolcrib.model import Tool, ToolAnnotations

FULL = Tool(
    name="Create_Issue",
    namespace="GitHub",
    version="v1.2.0+build.5",
    title="Issue",
    description="Opens  an Issue.\nIn a repository.",
    input_schema={"properties": {"hidden": {"description": "hidden"}}},
    output_schema={"title": "hidden"},
    annotations=ToolAnnotations(title="hidden"),
    tags=["Bug Tracking", "git"],
    meta={
        "summary": "In Short.",
        "category": "Dev Tools",
        "inputModes": ["text", "image/PNG"],
        "outputModes": ["JSON"],
        "securityRequirements": [{"oauth": []}, {"key": [], "oauth": []}],
        "hidden": "hidden",
    },
)


def test_a_summary_says_what_there_is_to_choose_by() -> None:
    assert summarize(FULL).to_json() == {
        "id": "GitHub:Create_Issue:1.2.0",
        "name": "Create_Issue",
        "namespace": "GitHub",
        "shortDescription": "In Short.",
        "summary": "In Short.",
        "category": "Dev Tools",
        "inputModes": ["text", "image/PNG"],
        "outputModes": ["JSON"],
        "securitySummary": "key, oauth",
        "tags": ["bug-tracking", "git"],
    }


def test_a_summary_never_shows_a_schema() -> None:
    assert "hidden" not in str(summarize(FULL).to_json())


def test_a_tool_that_says_nothing_has_a_short_summary() -> None:
    assert summarize(make("a")).to_json() == {"id": "a", "name": "a", "shortDescription": "", "summary": ""}


@pytest.mark.parametrize(
    ("version", "tool_id"),
    [(None, "n:a"), ("1.0.0", "n:a:1.0.0"), ("v1.0.0", "n:a:1.0.0"), ("1.0.0-rc.1+b", "n:a:1.0.0-rc.1")],
)
def test_every_form_has_the_id_that_all_spellings_of_a_version_share(
    version: str | None, tool_id: str
) -> None:
    tool = make("a", "n", version=version)
    assert {summarize(tool).id, search_doc(tool).id, document_of(tool).id} == {tool_id}


@given(st.text(), st.none() | st.text())
def test_a_short_description_is_never_too_long_nor_cut_within_a_character(
    description: str, summary: str | None
) -> None:
    try:
        tool = make("a", description=description, meta={"summary": summary})
    except ValueError:  # lone surrogates are refused by the record
        return
    found = summarize(tool)
    assert len(found.short_description) <= MAX_SHORT_DESCRIPTION_LEN == 120
    assert found.short_description == found.summary
    found.short_description.encode()


@pytest.mark.parametrize("letter", ["é", "天", "🌦", "👩‍👩‍👧‍👦", "🇩🇪"])
def test_a_long_description_is_cut_between_characters_and_says_so(letter: str) -> None:
    short = summarize(make("a", description="-" * 100 + letter * 40)).short_description
    assert len(short) <= 120
    assert short.endswith("…")
    kept = short.strip("-…")
    assert kept == letter * (len(kept) // len(letter)) != ""


def test_the_text_of_a_tool_is_everything_in_lower_case() -> None:
    assert search_doc(FULL).doc_text == (
        "create_issue github opens  an issue.\nin a repository. in short. dev tools text image/png json"
        " bug-tracking git"
    )
    assert search_doc(FULL).summary == summarize(FULL)


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (make("A"), "a"),
        (make("a", "N"), "a n"),
        (make("a", description="D."), "a d. d."),
        (make("a", tags=["x", "y"]), "a x y"),
        (make("a", meta={"outputModes": ["Json"]}), "a json"),
    ],
)
def test_absent_fields_leave_no_gap(tool: Tool, text: str) -> None:
    assert search_doc(tool).doc_text == text


def test_a_document_has_what_a_model_would_be_given() -> None:
    assert document_of(FULL).to_json() == {
        "id": "GitHub:Create_Issue:1.2.0",
        "namespace": "GitHub",
        "name": "Create_Issue",
        "description": "Opens  an Issue.\nIn a repository.",
        "tags": ["bug-tracking", "git"],
        "category": "Dev Tools",
        "text": "Create_Issue Opens  an Issue.\nIn a repository. In Short. text image/PNG JSON bug-tracking git",
        "summary": "In Short.",
        "modes": ["text", "image/PNG", "JSON"],
        "parameters": ["hidden"],
    }
    assert document_of(make("a")).text == "a"


@pytest.mark.parametrize("form", [summarize, search_doc, document_of])
def test_the_same_tool_has_the_same_forms(form: Any) -> None:
    assert form(FULL) == form(Tool.from_json(FULL.to_json()))
    assert form(ISSUE) == form(ISSUE)
    assert form(ISSUE) != form(FULL)
