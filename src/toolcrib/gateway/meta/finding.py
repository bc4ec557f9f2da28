"""The meta-tools that find and explain tools."""

from typing import Any

from toolcrib.crib import View
from toolcrib.discovery import Page, Result
from toolcrib.gateway.meta.definitions import MAX_EXAMPLES
from toolcrib.gateway.meta.portrait import Portrait
from toolcrib.gateway.meta.reply import Asked, Fitting, Reply
from toolcrib.model.suggest import nearest

__all__ = ["LOW_CONFIDENCE", "Finding"]

LOW_CONFIDENCE = 0.05
"""Below this, of the best result, nothing is said to fit.

Words alone keep an answer to 70 to 100 % of the questions that were measured, and turn away 67 to 91 % of
those that no tool answers; `docs/finding-tools.md` has the measurements.
"""
_NAMED = 3
_BRIEF = frozenset({"summary", "annotations", "schemaInfo"})
"""What is told of a tool whose definition is too large to send."""
_DIGITS = 4


class Finding:
    """Answers questions about the tools of a view."""

    def __init__(self, view: View, portrait: Portrait, fitting: Fitting) -> None:
        self._view = view
        self._portrait = portrait
        self._fitting = fitting

    async def search_tools(self, asked: Asked) -> Reply:
        """Return the tools that fit a question."""
        args = asked.args
        page = await self._view.search(**args)
        said: dict[str, Any] = {"tools": [_found(result) for result in page.items]}
        if page.next_cursor is not None:
            said["nextCursor"] = page.next_cursor
        return self._noted(asked, said, {"tools": []}, *self._about(args, page), *self._absent())

    async def list_tools(self, asked: Asked) -> Reply:
        """Return the tools in the order of their ids."""
        page = await self._view.tools(**{"limit": 20} | asked.args)
        said: dict[str, Any] = {"tools": [summary.to_json() for summary in page.items], "total": page.total}
        if page.next_cursor is not None:
            said["nextCursor"] = page.next_cursor
        near = self._near(asked.args.get("namespace", ""))
        nothing = () if page.total else (f"there are no such tools; {near}",)
        return self._noted(asked, said, {"tools": []}, *nothing, *self._absent())

    async def list_namespaces(self, asked: Asked) -> Reply:
        """Return the namespaces, and how many tools each has."""
        names = await self._view.namespaces()
        counts = self._portrait.counts()
        said = {"namespaces": list(names), "counts": {name: counts[name] for name in names if name in counts}}
        nothing = () if names else ("the catalogue is empty",)
        return self._noted(asked, said, {"namespaces": []}, *nothing, *self._absent())

    async def describe_tool(self, asked: Asked) -> Reply:
        """Return what is known about a tool."""
        args = asked.args
        doc = await self._view.describe(args["tool_id"], args.get("detail_level", "schema"))
        said = doc.to_json(without={"tool"})
        if doc.tool is not None:
            said["tool"] = {"id": str(doc.tool.id), **doc.tool.to_json(without={"backend"})}
        smaller = {name: part for name, part in said.items() if name in _BRIEF}
        return self._noted(asked, said, smaller)

    async def list_tool_examples(self, asked: Asked) -> Reply:
        """Return calls of a tool that are known to be right."""
        examples = await self._view.examples(asked.args["tool_id"], asked.args.get("max", MAX_EXAMPLES))
        said = {"examples": [example.to_json() for example in examples]}
        nothing = "there are no examples; describe_tool tells what the tool takes"
        return self._noted(asked, said, {"examples": []}, *(() if examples else (nothing,)))

    def _noted(self, asked: Asked, said: dict[str, Any], smaller: dict[str, Any], *notes: str) -> Reply:
        told = [*asked.notes, *notes]
        if told:
            said["note"] = ". ".join(note[:1].upper() + note[1:] for note in told) + "."
        return self._fitting.whole(Reply(said), smaller)

    def _about(self, args: dict[str, Any], page: Page[Result]) -> tuple[str, ...]:
        """Return what to say of results of which none fits."""
        best = max((result.confidence for result in page.items), default=0.0)
        query = args["query"]
        if not query.strip() or best >= LOW_CONFIDENCE or args.get("cursor"):
            return ()
        if not page.items:
            return (f"no tool fits this question; {self._near(query)}",)
        spaces = dict.fromkeys(result.summary.namespace or "" for result in page.items)
        named = ", ".join([name for name in spaces if name][:_NAMED])
        where = f"; the nearest namespaces are {named}" if named else ""
        said = (
            f"nothing here clearly fits this question, these are guesses{where}. Ask in other words, look "
            "through a namespace with list_tools, or tell the user that there is no such tool"
        )
        return (said,)

    def _near(self, text: str) -> str:
        """Return which namespaces are worth a look."""
        counts = self._portrait.counts()
        names = [name for name in counts if name]
        alike = [found for word in text.split()[:20] if (found := nearest(word.lower(), names))]
        named = ", ".join([*dict.fromkeys(alike), *(name for name in names if name not in alike)][:_NAMED])
        if not named:
            return "ask in other words" if counts else "the catalogue is empty"
        return f"look through {named} with list_tools and its namespace, or ask in other words"

    def _absent(self) -> list[str]:
        """Return what to say of servers whose tools may be missing."""
        states = self._view.status().items()
        starting = [name for name, status in states if status.state == "starting" and status.tools is None]
        failed = [name for name, status in states if status.state == "failed"]
        told = []
        if starting:
            told.append(f"still asking for their tools: {', '.join(starting)}; ask again in a moment")
        if failed:
            told.append(f"unavailable at the moment: {', '.join(failed)}")
        return told


def _found(result: Result) -> dict[str, Any]:
    return {
        **result.summary.to_json(),
        "score": round(result.score, _DIGITS),
        "scoreType": result.score_type,
        "confidence": round(result.confidence, _DIGITS),
    }
