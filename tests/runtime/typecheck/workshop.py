"""Tools for code to call, as records and as functions that answer."""

# ruff: noqa: ARG001, ARG002 - the answers do not depend on what is asked

import inspect
from collections.abc import Mapping
from types import CodeType, SimpleNamespace
from typing import Any

from toolcrib.model import Tool
from toolcrib.runtime.stubs import render

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
LABEL = {"type": "object", "properties": {"name": TEXT, "color": TEXT}, "required": ["name"]}
USER = {"type": "object", "properties": {"login": TEXT, "id": WHOLE}, "required": ["login"]}
ISSUE = {
    "type": "object",
    "properties": {
        "number": WHOLE,
        "title": TEXT,
        "state": {"enum": ["open", "closed"]},
        "body": {"type": ["string", "null"]},
        "user": {"$ref": "#/$defs/User"},
        "assignee": {"anyOf": [{"$ref": "#/$defs/User"}, {"type": "null"}]},
        "labels": {"type": "array", "items": {"$ref": "#/$defs/Label"}},
        "created_at": {"type": "string", "format": "date-time"},
        "reactions": {"type": "object", "additionalProperties": WHOLE},
    },
    "required": ["number", "title", "state", "user", "labels"],
}
DEFS = {"User": USER, "Label": LABEL}


def _tool(
    path: str, properties: dict[str, Any], required: list[str], output: Any = None, **more: Any
) -> Tool:
    namespace, _, name = path.rpartition(".")
    schema = {"type": "object", "properties": properties, "required": required, **more}
    return Tool(
        name=name,
        namespace=namespace or None,
        input_schema=schema,
        output_schema=output,
        description=f"Do {name}.",
    )


TOOLS = (
    _tool(
        "github.create_issue",
        {
            "title": TEXT,
            "body": TEXT,
            "labels": {"type": "array", "items": TEXT},
            "priority": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
            "meta": {
                "type": "object",
                "properties": {"owner": TEXT, "tags": {"type": "array", "items": TEXT}},
                "required": ["owner"],
            },
        },
        ["title"],
        {**ISSUE, "$defs": DEFS},
        additionalProperties=False,
    ),
    _tool(
        "github.list_issues",
        {"repo": TEXT, "state": {"enum": ["open", "closed", "all"], "default": "open"}, "page": WHOLE},
        ["repo"],
        {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": ISSUE},
                "next_page": {"type": ["integer", "null"]},
            },
            "required": ["items"],
            "$defs": DEFS,
        },
    ),
    _tool("github.get_file", {"path": TEXT, "ref": TEXT}, ["path"]),
    _tool(
        "github.close",
        {"number": WHOLE, "reason": TEXT},
        ["number"],
        {
            "anyOf": [
                {"type": "object", "properties": {"closed": {"type": "boolean"}}},
                {"type": "object", "properties": {"error": TEXT}},
            ]
        },
    ),
    _tool("files.list", {"folder": TEXT}, [], {"type": "array", "items": TEXT}),
    _tool(
        "files.stats",
        {},
        [],
        {"type": "object", "properties": {"count": WHOLE}, "additionalProperties": True},
    ),
    _tool(
        "weather.forecast",
        {"city": TEXT, "days": {"type": "number"}, "units": {"enum": ["C", "F"]}},
        ["city"],
        {
            "type": "object",
            "properties": {
                "days": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"high": {"type": "number"}, "low": {"type": "number"}},
                        "required": ["high", "low"],
                    },
                }
            },
            "required": ["days"],
        },
    ),
    _tool("store.put", {"key": TEXT, "value": {}, "X-Trace": TEXT}, ["key", "value"], {"type": "boolean"}),
    _tool("time.now", {"zone": TEXT}, [], {"type": "string"}),
    _tool("add", {"a": {"type": "number"}, "b": {"type": "number"}}, ["a", "b"], {"type": "number"}),
    _tool("result", {"of": TEXT}, ["of"], {"type": "object", "properties": {"value": WHOLE}}),
)
STUBS = render(TOOLS)


def _issue(number: int, title: str, state: str = "open") -> dict[str, Any]:
    return {
        "number": number, "title": title, "state": state, "body": None, "user": {"login": "ann", "id": 1},
        "assignee": {"login": "bob"}, "labels": [{"name": "bug", "color": "red"}],
        "created_at": "2026-01-02T03:04:05+00:00", "reactions": {"+1": 3},
    }  # fmt: skip


class _Answers:
    async def create_issue(
        self, title: str, body: str = "", labels: Any = (), priority: int = 3, meta: Any = None
    ) -> Any:
        return _issue(7, title)

    async def list_issues(self, repo: str, state: str = "open", page: int = 1) -> Any:
        items = [_issue(page * 10 + n, f"issue {n}", "closed" if n % 2 else "open") for n in range(3)]
        return {"items": items, "next_page": page + 1 if page < 3 else None}

    async def get_file(self, path: str, ref: str = "main") -> Any:
        if path == "missing":
            message = "no such file"
            raise LookupError(message)
        return '{"name": "demo", "version": 1}'

    async def close(self, number: int, reason: str = "") -> Any:
        return {"closed": True}

    async def list(self, folder: str = ".") -> Any:
        return ["a.txt", "b.md", "c.txt"]

    async def stats(self) -> Any:
        return {"count": 3, "size": 10}

    async def forecast(self, city: str, days: float = 3, units: str = "C") -> Any:
        return {"days": [{"high": 20 + n, "low": 10.5} for n in range(int(days))]}

    async def put(self, key: str, value: Any, **others: Any) -> Any:
        return True

    async def now(self, zone: str = "UTC") -> Any:
        return "2026-01-02T03:04:05"


async def _search(query: str, limit: int = 10) -> Any:
    found = {
        "id": "github:create_issue",
        "name": "create_issue",
        "namespace": "github",
        "shortDescription": "",
        "summary": "",
        "tags": [],
    }
    return [{**found, "score": 1.5, "scoreType": "bm25", "confidence": 0.9}][:limit]


async def _describe(tool_id: str, level: str = "schema") -> Any:
    return {"tool": {"inputSchema": {}}, "summary": tool_id}


async def _run_tool(tool_id: str, args: Any = None) -> Any:
    return {"number": 1}


async def _run_chain(steps: Any) -> Any:
    return {"final": 3, "results": [{"index": 0, "toolId": "add", "structured": 3, "duration": 0.1}]}


async def _add(a: float, b: float) -> float:
    return a + b


async def _result(of: str) -> Any:
    return {"value": len(of)}


async def run(code: str, more: Mapping[str, Any] | None = None) -> Any:
    """Run code on this interpreter, with tools that answer, and return its `__out`."""
    answers = _Answers()
    names: dict[str, Any] = {"__name__": "__main__", "add": _add, "result": _result}
    names |= more or {}
    names |= dict.fromkeys(("github", "files", "weather", "store", "time"), answers)
    names |= {
        "search_tools": _search,
        "describe_tool": _describe,
        "run_tool": _run_tool,
        "run_chain": _run_chain,
    }
    compiled = compile(code, "<code>", "exec", flags=0x2000, dont_inherit=True)  # top-level await
    assert isinstance(compiled, CodeType)
    ended = eval(compiled, names)  # noqa: S307 - our own programs
    if inspect.iscoroutine(ended):
        await ended
    return SimpleNamespace(out=names.get("__out"))
