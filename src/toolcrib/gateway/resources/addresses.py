"""Addresses of the resources of several servers at one endpoint, and of the pages of MCP Apps (`ui://`).

Servers choose addresses without knowing of each other, so two may choose the same. Of resources the first
server that lists an address keeps it, and that of another names its server.

The address of a page always names its server, as its authority: `ui://clock/app.html` of the server `time`
is `ui://time/clock/app.html` here. Hosts show pages without asking, with the results of the tools that name
them; so no server may bring its page to the tool of another, nor that of another to its own. Wherever a
server names a page, the address is taken to be its own: one that writes the address which another's page has
here gets a page of its own, or none. The server stands in the authority because hosts may normalize the rest:
nothing that a server writes after it (`..`, capitals, blanks) leads to the pages of another.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

from toolcrib.crib import Settings
from toolcrib.execution.policy.resource_names import ROUTE
from toolcrib.model import McpBackend, Tool, ToolBackend

_OWN = "toolcrib://"
"""Prefix of the addresses of this gateway."""
_PAGE = re.compile(r"(ui://)(.*)", re.IGNORECASE | re.DOTALL)
_PLACED = re.compile(r"(ui://)([^/?#]*)/(.*)", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"[\x00-\x20]*u[\t\r\n]*i[\t\r\n]*:", re.IGNORECASE)
"""How an address begins that parsers of URLs take for a page: they drop blanks before and line ends in it."""
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_HASHED = re.compile(r".*-[0-9a-f]{12}")
_DIGEST = 12
_LONGEST_LABEL = 63
_KEYS = ("ui/resourceUri", "openai/outputTemplate")
"""The keys of `_meta` beside `ui.resourceUri` under which hosts look for the page of a tool."""


def addressed(field: str, listed: Sequence[Any], settings: Settings) -> dict[str, Any]:
    """Return resources or templates by their addresses here; of two that a server lists alike, the first.

    An address that another server lists before, or that is this gateway's own, names its server; so does that
    of each page, unless there is one server only.
    """
    found: dict[str, Any] = {}
    for each in listed:
        own = address = getattr(each, field)
        if is_page(own):
            server = page_server(settings, each.server)
            address = own if server is None else page_address(server, own)
        elif own.startswith(_OWN) or (own in found and found[own].server != each.server):
            address = routed(each.server, own)
        found.setdefault(address, each)
    return found


def routed(server: str, uri: str) -> str:
    """Return the address of a resource of a server among those of others.

    >>> routed("notes", "file:///a.txt"), route("toolcrib://servers/notes/file:///a.txt")
    ('toolcrib://servers/notes/file:///a.txt', ('notes', 'file:///a.txt'))
    """
    return f"{ROUTE}{quote(server, safe='')}/{uri}"


def route(uri: str) -> tuple[str | None, str]:
    """Return the server that an address names, if any, and the server's own address."""
    if not uri.startswith(ROUTE):
        return None, uri
    server, _, own = uri.removeprefix(ROUTE).partition("/")
    return unquote(server), own


def sole_source(settings: Settings) -> str | None:
    """Return the server or API whose own names are kept: the only configured one, else None."""
    names = [name for name, server in settings.shared("servers").items() if not server.disabled]
    names += settings.shared("openapi")
    return names[0] if len(names) == 1 else None


def page_server(settings: Settings, server: str | None) -> str | None:
    """Return the server that the addresses of a server's pages name; None where they stay as they are.

    That is so where only one is configured: the names of its tools stay too.
    """
    return None if server == sole_source(settings) else server


def is_page(uri: str) -> bool:
    """Return whether an address is that of a page, in any spelling that hosts may accept.

    >>> is_page("ui://clock/app.html"), is_page(" UI:clock"), is_page("file:///ui://clock")
    (True, True, False)
    """
    return _SCHEME.match(uri) is not None


def page_address(server: str, uri: str) -> str:
    """Return the address here of what a server calls a page.

    What is no proper address of a page names its server as other resources do, and is none here either.

    >>> page_address("time", "ui://clock/app.html"), page_address("time", "ui:clock")
    ('ui://time/clock/app.html', 'toolcrib://servers/time/ui:clock')
    """
    found = _PAGE.fullmatch(uri)
    return f"{found[1]}{_label(server)}/{found[2]}" if found is not None else routed(server, uri)


def split_page(uri: str, servers: Iterable[str]) -> tuple[str, str] | None:
    """Return the server of a page and its own address, of an address here; None where it names no server.

    >>> split_page("ui://time/clock/app.html", ["time", "notes"])
    ('time', 'ui://clock/app.html')
    """
    found = _PLACED.fullmatch(uri)
    if found is None:
        return None
    server = next((name for name in servers if _label(name) == found[2].lower()), None)
    return None if server is None else (server, f"{found[1]}{found[3]}")


def _label(server: str) -> str:
    """Return what stands for a server in an authority, where parsers of URLs may lower the case.

    >>> _label("time"), _label("My Server")
    ('time', 'my-server-c2d9a82f6f18')
    """
    if _LABEL.fullmatch(server) and len(server) <= _LONGEST_LABEL and not _HASHED.fullmatch(server):
        return server
    digest = sha256(server.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    plain = re.sub(r"[^a-z0-9]+", "-", server.lower()).strip("-")[: _LONGEST_LABEL - _DIGEST - 1]
    return f"{plain or 'server'}-{digest}"


def named_pages(tool: Tool) -> frozenset[str]:
    """Return the addresses of pages that a tool names, as its server calls them."""
    meta = tool.meta or {}
    ui = meta.get("ui")
    found = [*(meta.get(key) for key in _KEYS), ui.get("resourceUri") if isinstance(ui, Mapping) else None]
    return frozenset(uri for uri in found if isinstance(uri, str))


def place_meta(server: str | None, meta: Any) -> Any:
    """Return the `_meta` of a server's tool or result with the addresses of pages as they are here."""
    if server is None or not isinstance(meta, Mapping):
        return meta
    placed = dict(meta)
    for key in _KEYS:
        if isinstance(meta.get(key), str):
            placed[key] = page_address(server, meta[key])
    ui = meta.get("ui")
    if isinstance(ui, Mapping) and isinstance(ui.get("resourceUri"), str):
        placed["ui"] = {**ui, "resourceUri": page_address(server, ui["resourceUri"])}
    return placed


def place_result(server: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of a server's tool with the addresses of pages as they are here."""
    places = {"content": place_blocks, "_meta": place_meta}
    return {key: places[key](server, value) if key in places else value for key, value in result.items()}


def result_server(settings: Settings, backend: ToolBackend | None) -> str | None:
    """Return the server that the addresses of pages in a result name; None if they stay as they are."""
    if not isinstance(backend, McpBackend) or backend.server_name == sole_source(settings):
        return None
    return backend.server_name


def place_messages(server: str | None, messages: Any) -> Any:
    """Return the messages of a server's prompt with the addresses of pages as they are here."""
    if server is None or not isinstance(messages, list):
        return messages
    return [
        {**each, "content": place_blocks(server, each["content"])}
        if isinstance(each, Mapping) and "content" in each
        else each
        for each in messages
    ]


def place_blocks(server: str | None, value: Any) -> Any:
    """Return blocks of content, one or a list, with the addresses of pages as they are here.

    All else is returned as it is: the value of a tool may be anything.
    """
    if server is None:
        return value
    if isinstance(value, list):
        return [place_blocks(server, each) if isinstance(each, Mapping) else each for each in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("type") == "resource_link":
        return place_item(server, value)
    if value.get("type") == "resource" and isinstance(value.get("resource"), Mapping):
        return {**value, "resource": place_item(server, value["resource"])}
    return value


def place_item(server: str | None, item: Any) -> Any:
    """Return a resource, or contents of one, at the address that it has here if it is a page."""
    uri = item.get("uri") if isinstance(item, Mapping) else None
    if server is None or not isinstance(uri, str) or not is_page(uri):
        return item
    return {**item, "uri": page_address(server, uri)}
