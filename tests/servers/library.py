"""An MCP server with resources, prompts and completions, on stdio; its argument is the name of its shelf."""

import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

SHELF = sys.argv[1] if len(sys.argv) > 1 else "main"
server = MCPServer("library")
BOOKS = ["emma", "ivanhoe", "walden"]


@server.tool()
def borrow(title: str) -> str:
    """Borrow a book."""
    return f"{title} of {SHELF}"


@server.resource(f"library://{SHELF}/catalogue", name="catalogue", mime_type="text/plain")
def catalogue() -> str:
    """Every book on the shelf."""
    return "\n".join(BOOKS)


@server.resource(f"library://{SHELF}/cover", name="cover", mime_type="image/png")
def cover() -> bytes:
    """A picture."""
    return b"\x89PNG"


@server.resource(f"library://{SHELF}/books/{{title}}", name="book")
def book(title: str) -> str:
    """One book."""
    return f"The text of {title}."


@server.prompt()
def review(title: str, tone: str = "kind") -> str:
    """Review a book."""
    return f"Write a {tone} review of {title}, of the shelf {SHELF}."


if SHELF == "main":

    @server.prompt()
    def greet() -> str:
        """Greet the librarian."""
        return "Good morning."


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,  # noqa: ARG001 - of the SDK's signature
) -> Completion | None:
    if argument.name == "title":
        kind = "prompt" if isinstance(ref, PromptReference) else "resource"
        found = [title for title in BOOKS if title.startswith(argument.value)]
        return Completion(
            values=[f"{title}" if kind == "prompt" else title for title in found], total=len(found)
        )
    return None


if __name__ == "__main__":
    server.run("stdio")
