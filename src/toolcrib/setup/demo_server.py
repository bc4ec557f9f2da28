"""A small MCP server over stdio for the demonstration: a library, whose tool `lend` changes after a while.

It needs nothing but Python, so that it starts at once: `python -m toolcrib.setup.demo_server`.
"""

import json
import sys
from typing import Any

_BOOKS = {
    "The Left Hand of Darkness": 2,
    "Invisible Cities": 1,
    "A Wizard of Earthsea": 3,
    "The Dispossessed": 1,
}
_TITLE = {"type": "string", "description": "The title of the book."}
_CHANGES_AFTER = 4
"""Calls after which `lend` takes another argument."""


class LendingLibrary:
    """The books that are there, and the tools that find and lend them."""

    def __init__(self) -> None:
        self.left = dict(_BOOKS)
        self.calls = 0

    @property
    def has_changed(self) -> bool:
        """Whether `lend` takes the number of days."""
        return self.calls >= _CHANGES_AFTER

    def tools(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools."""
        text = {"type": "object", "properties": {"text": {"type": "string", "description": "A part of it."}}}
        lend: dict[str, Any] = {"type": "object", "properties": {"title": _TITLE}, "required": ["title"]}
        if self.has_changed:
            days = {"type": "integer", "minimum": 1, "maximum": 60, "description": "For how many days."}
            lend["properties"] = {"title": _TITLE, "days": days}
        return [
            {
                "name": "find",
                "description": "Find books by a part of their title, with how many are left.",
                "inputSchema": text,
                "annotations": {"readOnlyHint": True},
            },
            {
                "name": "lend",
                "description": "Lend a book to a reader.",
                "inputSchema": lend,
                "annotations": {"destructiveHint": False},
            },
        ]

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Return the result of a tool.

        Raises:
            ValueError: there is no such tool or book.
        """
        self.calls += 1
        if name == "find":
            wanted = str(args.get("text", "")).lower()
            return {"books": {title: left for title, left in self.left.items() if wanted in title.lower()}}
        title = args.get("title")
        if name != "lend" or not self.left.get(title):  # type: ignore[arg-type]  # None is no title
            raise ValueError(f"there is no copy of {title!r}")
        self.left[str(title)] -= 1
        return {"lent": title, "left": self.left[str(title)]}

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request."""
        if method == "initialize":
            info = {"name": "library", "version": "1.0.0"}
            capabilities = {"tools": {"listChanged": True}}
            version = params.get("protocolVersion", "2025-06-18")
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        if method == "tools/list":
            return {"tools": self.tools()}
        if method == "tools/call":
            try:
                result = self.call(params["name"], params.get("arguments") or {})
            except ValueError as error:
                return {"isError": True, "content": [{"type": "text", "text": str(error)}]}
            content = [{"type": "text", "text": json.dumps(result)}]
            return {"content": content, "structuredContent": result}
        if method == "ping":
            return {}
        raise LookupError(method)


def main() -> None:
    """Answer requests until standard input ends."""
    library = LendingLibrary()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        had_changed = library.has_changed
        try:
            reply["result"] = library.answer(message["method"], message.get("params") or {})
        except LookupError:
            reply["error"] = {"code": -32601, "message": "there is no such method"}
        _send(reply)
        if library.has_changed and not had_changed:
            _send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
