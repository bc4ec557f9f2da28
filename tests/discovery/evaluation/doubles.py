"""A small catalogue, and an index of it that counts shared words."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from toolcrib.discovery import Page, Result, Summary
from toolcrib.discovery.evaluation import EvaluationCatalogue, LabelledQuery, LabelledSet
from toolcrib.errors import ToolNotFoundError
from toolcrib.model import Tool

TOOLS = (
    Tool(name="drill", namespace="shop", description="make a hole in wood", input_schema={}),
    Tool(name="saw", namespace="shop", description="cut a board of wood", input_schema={}),
    Tool(name="kettle", description="boil water for tea", input_schema={}),
)
QUESTIONS = (
    LabelledQuery(qid="1", query="make a hole", relevant=["shop:drill"]),
    LabelledQuery(qid="2", query="cut a board", relevant=["shop:saw"]),
    LabelledQuery(qid="3", query="boil water", relevant=["kettle"]),
    LabelledQuery(qid="4", query="bore a hole", relevant=["shop:drill"]),
)
SHOP = LabelledSet("shop", EvaluationCatalogue.of(TOOLS), QUESTIONS)


@dataclass
class CountingIndex:
    """An index as far as measuring needs one: the score is the share of the query's words that a tool has."""

    tools: dict[str, Tool] = field(default_factory=dict)
    bound: dict[str, list[Any]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def register_many(self, tools: Iterable[tuple[Tool, Any]]) -> None:
        for tool, backend in tools:
            self.log.append(f"+{tool.id}")
            self.tools[str(tool.id)] = tool
            self.bound.setdefault(str(tool.id), []).extend([] if backend is None else [backend])

    def unregister(self, tool_id: str) -> None:
        self.log.append(f"-{tool_id}")
        del self.tools[tool_id], self.bound[tool_id]

    def get(self, tool_id: str) -> Tool:
        if tool_id not in self.tools:
            raise ToolNotFoundError(tool_id)
        return self.tools[tool_id]

    def backends(self, tool_id: str) -> list[Any]:
        return self.bound[tool_id]

    def search(self, query: str, *, limit: int) -> Page[Result]:
        words = set(query.split())
        scores = {
            key: len(words & set(f"{tool.name} {tool.description}".split())) / len(words)
            for key, tool in self.tools.items()
        }
        best = sorted((key for key, score in scores.items() if score), key=lambda key: (-scores[key], key))
        return Page(
            items=tuple(
                Result(
                    summary=Summary(id=key, name=self.tools[key].name),
                    score=scores[key],
                    score_type="bm25",
                    confidence=scores[key],
                )
                for key in best[:limit]
            ),
            total=len(best),
        )


def filled() -> CountingIndex:
    index = CountingIndex()
    index.register_many((tool, None) for tool in TOOLS)
    index.log.clear()
    return index
