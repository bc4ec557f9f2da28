"""Tools analysed together have the terms that each has alone, to the last bit."""

from itertools import accumulate, pairwise

import pytest
from discovery.search.text.support import Analysis, analyse
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery.search.lexical import documents
from toolcrib.discovery.search.lexical.documents import DocumentBatch, analyse_tools
from toolcrib.model import Tool

WORDS = ["create", "created", "createIssue", "GitHub-v2", "the", "photo", "天气预报", "größe", "3.5", "x"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
tools = st.builds(
    lambda name, description, parameters, tags, deprecated: Tool(
        name=name,
        description=description,
        tags=tags,
        meta={"deprecated": deprecated},
        input_schema={"properties": {key: {"description": text} for key, text in parameters.items()}},
    ),
    name=st.sampled_from(["add", "create_issue", "x"]),
    description=texts,
    parameters=st.dictionaries(texts, texts, max_size=3),
    tags=st.lists(st.sampled_from(["issue-tracking", "image/png", "maths"]), max_size=2, unique=True),
    deprecated=st.booleans(),
)


def documents_of(batch: DocumentBatch) -> list[Analysis]:
    """Return the terms of each tool of a batch."""
    ends = accumulate(batch.sizes.tolist(), initial=0)
    terms = [batch.vocabulary[number] for number in batch.terms]
    return [
        Analysis(dict(zip(terms[start:end], batch.values[start:end].tolist(), strict=True)), length)
        for (start, end), length in zip(pairwise(ends), batch.lengths.tolist(), strict=True)
    ]


@law(40)
@given(st.lists(st.tuples(tools, st.lists(texts, max_size=2)), max_size=7), st.integers(1, 4))
def test_tools_are_analysed_together_as_each_is_alone(
    pairs: list[tuple[Tool, list[str]]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_BLOCK", block)
        batch = analyse_tools(pairs)
    assert documents_of(batch) == [analyse(tool, examples) for tool, examples in pairs]
    assert len(set(batch.vocabulary)) == len(batch.vocabulary)


def test_no_tool_has_no_terms() -> None:
    batch = analyse_tools([])
    assert batch.vocabulary == []
    assert [len(each) for each in batch[1:]] == [0, 0, 0, 0]
