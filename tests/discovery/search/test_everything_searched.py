"""Search reads every text of a tool: tags, category, summary and modes too."""

import json
from pathlib import Path

import pytest

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, Index, load_embedder
from toolcrib.model import Tool

OTHERS = {
    "read_file": "Read a file from disk.",
    "list_branches": "List the branches of a repository.",
    "send_message": "Send a message to a channel.",
    "current_time": "Tell what time it is.",
    "create_page": "Create a page in a notebook.",
    "query_database": "Run a query on a database.",
}


def catalogue(kind: str, tool: Tool) -> Index:
    searcher = {
        "default": lambda: None,
        "words": Bm25Searcher,
        "meaning": lambda: EmbeddingSearcher(load_embedder("static")),
    }[kind]()
    index = Index() if searcher is None else Index(searcher=searcher)
    others = [Tool(name=name, description=text, input_schema={}) for name, text in OTHERS.items()]
    index.register_many([(each, None) for each in (*others, tool)])
    return index


def terse(**fields: object) -> Tool:
    """Return a tool whose name and description carry no meaning."""
    return Tool.from_json({"name": "perform", "description": "Does the job.", "inputSchema": {}, **fields})


@pytest.mark.parametrize("kind", ["default", "words", "meaning"])
@pytest.mark.parametrize(
    ("tool", "query"),
    [
        (terse(tags=["billing", "invoices"]), "invoice the customer"),
        (terse(_meta={"category": "weather"}), "weather"),
        (terse(_meta={"summary": "Translates text into another language."}), "translate this text"),
        (terse(_meta={"inputModes": ["image/png"]}), "png"),
        (terse(inputModes=["image/png"]), "png"),
        (terse(outputModes=["audio/mpeg"]), "audio"),
    ],
    ids=["tags", "category", "summary", "modes in _meta", "modes beside", "output modes"],
)
def test_a_tool_is_found_by_whatever_it_says(kind: str, tool: Tool, query: str) -> None:
    assert catalogue(kind, tool).search(query, limit=3).items[0].summary.id == "perform"


def test_a_tool_that_says_nothing_but_its_tags_is_found_first_by_their_words() -> None:
    index = catalogue("words", terse(tags=["billing", "invoices"]))
    found = index.search("send a bill", limit=3).items
    assert found[0].summary.id == "perform", [(each.summary.id, each.score) for each in found]


@pytest.mark.parametrize("every", [20, 5, 1])
def test_tool_with_a_named_tag_is_found_first_among_real_tools(data: Path, every: int) -> None:
    lines = (data / "real-tools" / "mcp_tools.jsonl").read_text().splitlines()[::every]
    index = Index()
    for number, row in enumerate(map(json.loads, lines)):
        name = row["name"].replace(" ", "_")
        described = {"name": name, "description": row.get("description"), "inputSchema": row["inputSchema"]}
        index.register(Tool.from_json(described | {"namespace": f"s{number}"}))
    index.register(terse(tags=["billing", "invoices"]))
    found = index.search("send a bill", limit=3).items
    assert found[0].summary.id == "perform", [(each.summary.id, each.score) for each in found]
