"""A server's own tool definitions, page by page, made into tools."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anyio.lowlevel import checkpoint

from toolcrib.errors import InvalidToolError, InvalidVersionError
from toolcrib.execution.mcp.names import mend_name
from toolcrib.model.tool import Tool
from toolcrib.version import Version

__all__ = ["Catalogue", "all_definitions", "own_name", "read_definitions"]

_MAX_PAGES = 1_000
_MAX_TOOLS = 100_000
_MAX_SIZE = 256 * 2**20
"""How many characters the definitions of one listing may have."""
_AT_ONCE = 100
"""How many definitions are looked at before others have their turn in the loop."""
_OWN_NAME = "toolcrib.name"
"""The key of `_meta` under which a tool of a mended name keeps what its server calls it."""

Page = Callable[[str | None], Awaitable[dict[str, Any]]]
"""Asks a server for the page of its tools that a cursor stands for."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one complete listing of a server gave."""

    tools: tuple[Tool, ...]
    refused: dict[str, str]
    """The definitions that are no tools, by name, and why."""


async def all_definitions(page: Page) -> list[Any]:
    """Return the definitions of all pages, as they came.

    Raises:
        ValueError: a page is no listing, the pages do not end, or they are too large together.
    """
    definitions: list[Any] = []
    size = 0
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        listed = await page(cursor)
        found = listed.get("tools")
        if not isinstance(found, list):
            raise ValueError("it answered tools/list without a list of tools")  # noqa: TRY004 - as the others
        definitions += found
        if len(definitions) > _MAX_TOOLS:
            raise ValueError(f"it lists more than {_MAX_TOOLS:,} tools")
        async for definition in _gently(found):
            size += len(str(definition))
        if size > _MAX_SIZE:
            raise ValueError(f"its listing of tools is larger than {_MAX_SIZE // 2**20} MiB")
        cursor = listed.get("nextCursor")
        if cursor is None:
            return definitions
        if not isinstance(cursor, str) or cursor in seen or len(seen) >= _MAX_PAGES:
            raise ValueError(f"its listing of tools does not end: {len(seen) + 1} pages, then {cursor!r:.80}")
        seen.add(cursor)


async def _gently(definitions: Sequence[Any]) -> AsyncIterator[Any]:
    """Yield definitions, and let others have their turn after every few of them."""
    for number, definition in enumerate(definitions, 1):
        yield definition
        if number % _AT_ONCE == 0:
            await checkpoint()


async def read_definitions(definitions: Sequence[Any], server: str) -> Catalogue:
    """Return the tools that definitions describe; of two with the same name, the first.

    >>> import anyio
    >>> definitions = [{"name": "a b", "inputSchema": {}}, {"name": "c"}]
    >>> catalogue = anyio.run(read_definitions, definitions, "files")
    >>> catalogue.tools[0].id.name, own_name(catalogue.tools[0])
    ('a_b-c8687a08', 'a b')
    >>> catalogue.refused
    {'c': "invalid tool 'c': /inputSchema: is required"}
    """
    tools: dict[str, Tool] = {}
    refused: dict[str, str] = {}
    placed = {"namespace": mend_name(server), "backend": {"kind": "mcp", "serverName": server}}
    number = 0
    async for definition in _gently(definitions):
        number += 1
        if not isinstance(definition, dict) or not isinstance(definition.get("name"), str):
            refused[f"#{number}"] = "it is no tool definition: it must be an object with a name"
            continue
        name = definition["name"]
        try:
            tool = Tool.from_json(_mended(definition) | placed)
        except InvalidToolError as error:
            refused.setdefault(name, str(error))
            continue
        if tools.setdefault(tool.name, tool) is not tool:
            refused.setdefault(name, "the server has another tool of this name, and the first was taken")
    return Catalogue(tuple(tools.values()), refused)


def _mended(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition under a name we can use, and without a version and tags that are none."""
    mended = {key: value for key, value in definition.items() if key not in {"version", "tags"}}
    if _is_version(definition.get("version")):
        mended["version"] = definition["version"]
    tags = definition.get("tags")
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        mended["tags"] = tags
    name = mended["name"] = mend_name(definition["name"])
    meta = definition.get("_meta")
    if isinstance(meta, dict) and _OWN_NAME in meta:
        meta = mended["_meta"] = {key: value for key, value in meta.items() if key != _OWN_NAME}
    if name != definition["name"] and isinstance(meta, dict | None):
        mended["_meta"] = {**(meta or {}), _OWN_NAME: definition["name"]}
    return mended


def _is_version(version: Any) -> bool:
    try:
        Version.parse(version)
    except InvalidVersionError:
        return False
    return True


def own_name(tool: Tool) -> str:
    """Return what the server of a tool calls it."""
    name = (tool.meta or {}).get(_OWN_NAME)
    return name if isinstance(name, str) and mend_name(name) == tool.name else tool.name
