"""The meta-tools that find and explain tools."""

from collections.abc import Sequence
from typing import Any

from toolcrib.crib import View
from toolcrib.discovery import IndexView, Page, Result, explain_no_match
from toolcrib.errors.base import short_repr
from toolcrib.execution import Principal
from toolcrib.gateway.frontends.meta.catalog_summary import CatalogSummary
from toolcrib.gateway.frontends.meta.definitions import MAX_EXAMPLES
from toolcrib.gateway.frontends.meta.reply import MetaCall, Reply, ResultLimiter
from toolcrib.gateway.identity.principals import bind_cursor, check_cursor
from toolcrib.gateway.resources.addresses import page_server, place_meta
from toolcrib.model import McpBackend, Tool
from toolcrib.model.suggest import choose

_KINDS = ("mcp", "provider", "local")
"""The kinds of backends."""
_NAMED = 3
"""Namespaces that a note names, at most."""
_BRIEF = frozenset({"summary", "annotations", "schemaInfo", "warnings"})
"""Stands for the schema of a tool whose definition is too large to send."""
_MIRRORED = frozenset({"summary"})
"""Has the same text as the short description, which a model need not read twice."""
_DIGITS = 4


class FindHandlers:
    """Handlers of the meta-tools that search, list and describe the tools of a view."""

    def __init__(self, view: View, catalog: CatalogSummary, limiter: ResultLimiter) -> None:
        self._view = view
        self._catalog = catalog
        self._limiter = limiter

    async def search_tools(self, call: MetaCall) -> Reply:
        """Return the tools that fit a question."""
        args = call.args
        page = await self._view.search(
            **_with_cursor(args, call.client.principal), context=call.client.context()
        )
        payload: dict[str, Any] = {"tools": [_write_result(result) for result in page.items]}
        if page.next_cursor is not None:
            payload["nextCursor"] = bind_cursor(page.next_cursor, call.client.principal)
        return self._make_reply(
            call,
            payload,
            {"tools": []},
            *self._view.warnings(result.id for result in page.items),
            *self._explain_doubt(args, page),
            *self._name_absent(),
        )

    async def list_tools(self, call: MetaCall) -> Reply:
        """Return the tools in the order of their ids."""
        page = await self._view.tools(**{"limit": 20} | _with_cursor(call.args, call.client.principal))
        payload: dict[str, Any] = {
            "tools": [summary.to_json(without=_MIRRORED) for summary in page.items],
            "total": page.total,
        }
        if page.next_cursor is not None:
            payload["nextCursor"] = bind_cursor(page.next_cursor, call.client.principal)
        nothing = () if page.total else (self._explain_empty(call.args),)
        return self._make_reply(call, payload, {"tools": []}, *nothing, *self._name_absent())

    async def list_namespaces(self, call: MetaCall) -> Reply:
        """Return the namespaces, and how many tools each has."""
        names = await self._view.namespaces()
        counts = self._catalog.counts()
        payload = {
            "namespaces": list(names),
            "counts": {name: counts[name] for name in names if name in counts},
        }
        nothing = () if names else (self._empty_note,)
        return self._make_reply(call, payload, {"namespaces": []}, *nothing, *self._name_absent())

    async def describe_tool(self, call: MetaCall) -> Reply:
        """Return what is known about a tool."""
        args = call.args
        context = call.client.context()
        doc = await self._view.describe(args["tool_id"], args.get("detail_level", "schema"), context=context)
        payload = doc.to_json(without={"tool"})
        if doc.tool is not None:
            payload["tool"] = {"id": str(doc.tool.id), **self._definition(doc.tool)}
        smaller = {name: part for name, part in payload.items() if name in _BRIEF}
        return self._make_reply(call, payload, smaller)

    def _definition(self, tool: Tool) -> dict[str, Any]:
        """Return a tool as JSON, with the addresses of its server's pages as they are here."""
        definition = tool.to_json(without={"backend"})
        backends = self._view.index.backends(tool.id) if "_meta" in definition else ()
        server = next((each.server_name for each in backends if isinstance(each, McpBackend)), None)
        if server is not None:
            definition["_meta"] = place_meta(page_server(self._view.settings, server), definition["_meta"])
        return definition

    async def list_tool_examples(self, call: MetaCall) -> Reply:
        """Return calls of a tool that are known to be right."""
        examples = await self._view.examples(call.args["tool_id"], call.args.get("max", MAX_EXAMPLES))
        payload = {"examples": [example.to_json() for example in examples]}
        nothing = "there are no examples; describe_tool tells what the tool takes"
        return self._make_reply(call, payload, {"examples": []}, *(() if examples else (nothing,)))

    def _make_reply(
        self, call: MetaCall, payload: dict[str, Any], smaller: dict[str, Any], *notes: str
    ) -> Reply:
        parts = [*call.notes, *notes]
        if parts:
            payload["note"] = ". ".join(note[:1].upper() + note[1:] for note in parts) + "."
        return self._limiter.limit_whole(Reply(payload), smaller, call.client.principal)

    def _explain_doubt(self, args: dict[str, Any], page: Page[Result]) -> tuple[str, ...]:
        """Return what to say of results of which none fits."""
        if args.get("cursor"):
            return ()
        unsure = explain_no_match(page, args["query"], self._catalog.counts())
        if unsure is None:
            return ()
        if not unsure.guesses:
            return (
                f"no tool fits this question; {self._suggest_namespaces([*unsure.near, *unsure.others])}",
            )
        near = unsure.near[:_NAMED]
        which = "the nearest namespaces are" if len(near) > 1 else "the nearest namespace is"
        where = f"; {which} {', '.join(near)}" if near else ""
        message = (
            f"nothing here clearly fits this question, these are guesses{where}. Ask in other words, look "
            "through a namespace with list_tools, or tell the user that there is no such tool"
        )
        return (message,)

    @property
    def _empty_note(self) -> str:
        """The note of an empty list, which does not tell whether others may use tools."""
        if self._view.rules is None:
            return "the catalogue is empty"
        return "there is no tool that the rules let you use; the operator can change the rules"

    def _suggest_namespaces(self, names: Sequence[str]) -> str:
        """Return which namespaces are worth a look."""
        if not names:
            return "ask in other words" if self._catalog.counts() else self._empty_note
        named = ", ".join(names[:_NAMED])
        return f"look through {named} with list_tools and its namespace, or ask in other words"

    def _explain_empty(self, args: dict[str, Any]) -> str:
        """Return what to say of a list without tools."""
        counts = self._catalog.counts()
        if not counts:
            return self._empty_note
        namespace, backend = args.get("namespace"), args.get("backend")
        if namespace and namespace not in counts:
            return (
                f"there is no namespace {short_repr(namespace)}{choose(namespace, [*filter(None, counts)])}"
            )
        whose = f" of {short_repr(namespace)}" if namespace else ""
        others = choose(str(backend), [*_KINDS, *filter(None, counts)])
        return f"no tool{whose} runs at {short_repr(backend)}{others}"

    def _name_absent(self) -> list[str]:
        """Return what to say of servers whose tools may be missing."""
        absent = self._view.absent()
        asked = [each.name for each in absent if each.state != "failed" and not each.kept]
        failed = [each.name for each in absent if each.state == "failed"]
        parts = []
        if asked:
            parts.append(f"still asking for their tools: {self._name_servers(asked)}; ask again in a moment")
        if failed:
            parts.append(f"unavailable at the moment: {self._name_servers(failed)}")
        return parts

    def _name_servers(self, servers: Sequence[str]) -> str:
        """Return servers by name; of those that a toolset neither names nor has tools of, how many."""
        index = self._catalog.index
        if not isinstance(index, IndexView) or index.scope.spaces is not None:
            return ", ".join(servers)
        known = [name for name in servers if name in self._catalog.counts()]
        others = len(servers) - len(known)
        more = f"{others} server{'s' if others > 1 else ''} that may have tools for here"
        return ", ".join([*known, more] if others else known)


def _write_result(result: Result) -> dict[str, Any]:
    return {
        **result.summary.to_json(without=_MIRRORED),
        "score": round(result.score, _DIGITS),
        "scoreType": result.score_type,
        "confidence": round(result.confidence, _DIGITS),
    }


def _with_cursor(args: dict[str, Any], principal: Principal) -> dict[str, Any]:
    """Return arguments with the cursor of the catalogue, which must have been given to the principal."""
    cursor = args.get("cursor")
    return args | {"cursor": check_cursor(cursor, principal)} if cursor else args
