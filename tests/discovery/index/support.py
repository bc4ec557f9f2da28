"""Tools and catalogues that the tests of the index share."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolcrib.discovery import Change, Index, Page
from toolcrib.model import LocalBackend, McpBackend, ProviderBackend, Tool

GITHUB = McpBackend(server_name="github")
MIRROR = McpBackend(server_name="mirror")
HERE = LocalBackend(name="create_issue")
ACME = ProviderBackend(provider_id="acme", tool_id="create")
OBJECT = {"type": "object"}


def make(name: str, namespace: str | None = None, **fields: Any) -> Tool:
    """Return a tool that takes anything."""
    return Tool(name=name, namespace=namespace, **{"input_schema": OBJECT, **fields})


ISSUE = make("create_issue", "github", description="Open an issue in a repository.", tags=["issues"])
MERGE = make("merge", "github", description="Join two branches.", version="1.2.0", tags=["code"])
WEATHER = make("get_weather", "weather", description="Tell the forecast of a city.")
MAIL = make("send_mail", description="Send a message to somebody.", tags=["Mail", "issues"])
SHELF = [ISSUE, MERGE, WEATHER, MAIL]


def filled(tools: Iterable[Tool] = SHELF, **options: Any) -> Index:
    """Return an index of tools."""
    index = Index(**options)
    index.register_many((tool, None) for tool in tools)
    return index


def record_changes(index: Index) -> list[Change]:
    """Return a list to which every change is added from here on."""
    changes: list[Change] = []
    index.on_change(changes.append)
    return changes


def ids(page: Iterable[Any]) -> list[str]:
    """Return the ids of the tools on a page, in order."""
    return [getattr(item, "summary", item).id if hasattr(item, "score") else item.id for item in page]


def walk(ask: Callable[..., Page[Any]], limit: int) -> Iterator[Page[Any]]:
    """Yield every page of a list, one after the other."""
    page = ask(limit=limit)
    yield page
    while page.next_cursor is not None:
        page = ask(limit=limit, cursor=page.next_cursor)
        yield page
