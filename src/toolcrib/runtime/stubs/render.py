"""Renders tools as Python stubs, which models read and the type checker checks code against."""

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import groupby
from weakref import ref

from anyio import to_thread

from toolcrib.model import Tool
from toolcrib.model.tokens import estimate_tokens
from toolcrib.runtime.stubs.naming import TOP_RESERVED, camel, names_of
from toolcrib.runtime.stubs.signature import render_signature
from toolcrib.runtime.stubs.types import Detail, Types
from toolcrib.version import Version

DETAIL_LEVELS = (
    Detail("full"),
    Detail("brief", docs=False, left_out="what arguments and fields mean"),
    Detail("flat", docs=False, nested=False, left_out="what arguments mean and what objects hold"),
    Detail(
        "signatures", docs=False, nested=False, summary=False, left_out="descriptions, and what objects hold"
    ),
)
"""From full detail to the least that the type check needs; beyond that only names are rendered."""

_MAX_TOOLS_IN_LOOP = 8
"""More tools are rendered in a thread, so that they do not block the event loop."""
_MAX_ENTRIES = 64
_MAX_CACHED_CHARACTERS = 64 << 10
"""Longer stubs are not cached."""
_ALIASES = ("str", "int", "float", "bool", "list", "dict", "Any", "Literal")
_TYPING = re.compile(r"\b(Any|Literal|NotRequired|TypedDict)\b")


def render(
    tools: Iterable[Tool] | Mapping[str, Tool], *, budget: int | None = None, names: Iterable[str] = ()
) -> str:
    """Render tools as the signatures by which code in a sandbox calls them.

    Tools given by their paths, `namespace.name` or `name`, keep them. `budget` is the most estimated tokens
    of the text: descriptions are left out first, then nested types, then everything but the names; the last
    line says what was left out. `names` are namespaces that are declared even without tools.

    >>> print(render([Tool(name="add", input_schema={"properties": {"a": {"type": "number"}}})]))
    from typing import Any
    <BLANKLINE>
    async def add(a: float = ...) -> Any: ...
    <BLANKLINE>
    """
    paths = dict(tools) if isinstance(tools, Mapping) else paths_of(tools)
    spaces = sorted({*names} - {path.partition(".")[0] for path in paths})
    for detail in DETAIL_LEVELS:
        with suppress(_OverBudget):
            return _render_module(paths, spaces, detail, budget)
    return _list_names(sorted([*paths, *spaces]), budget or 0)


class StubCache:
    """Renders stubs for the type check, and caches the latest, since many runs use the same tools.

    An entry is valid for the same `Tool` objects only, since a catalogue replaces the object when a tool
    changes. Equality would not do: schemas that differ only in the order of their properties are equal, and
    have different signatures. The tools are referenced weakly, so that removed ones are not kept alive.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[list[ref[Tool]], str]] = OrderedDict()

    async def render(self, tools: Mapping[str, Tool], names: Iterable[str]) -> str:
        """Return the stubs of tools by their paths; see `render`."""
        spaces = tuple(names)
        key = (spaces, *((path, id(tool)) for path, tool in tools.items()))
        entry = self._entries.get(key)
        if entry is not None and all(
            kept() is not None for kept in entry[0]
        ):  # otherwise another object has the same id
            self._entries.move_to_end(key)
            return entry[1]
        if len(tools) > _MAX_TOOLS_IN_LOOP:
            text = await to_thread.run_sync(partial(render, tools, names=spaces))
        else:
            text = render(tools, names=spaces)
        if len(text) <= _MAX_CACHED_CHARACTERS:
            self._entries[key] = [ref(tool) for tool in tools.values()], text
            if len(self._entries) > _MAX_ENTRIES:
                self._entries.popitem(last=False)
        return text


def paths_of(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return tools by their paths in code; of several versions the highest counts.

    >>> list(paths_of([Tool(name="a-b", namespace="x.y", input_schema={})]))
    ['x_y.a_b']
    """
    latest: dict[tuple[str, str], Tool] = {}
    for tool in tools:
        key = (tool.namespace or "", tool.name)
        if key not in latest or _sort_key(tool) > _sort_key(latest[key]):
            latest[key] = tool
    spaces = names_of({space for space, _ in latest if space}, reserved=TOP_RESERVED)
    alone = names_of({name for space, name in latest if not space}, reserved=TOP_RESERVED | spaces.keys())
    found = {spelt: latest["", name] for spelt, name in alone.items()}
    members: dict[str, list[str]] = {}
    for space, name in latest:
        members.setdefault(space, []).append(name)
    for spelt, space in spaces.items():
        found |= {
            f"{spelt}.{member}": latest[space, name] for member, name in names_of(members[space]).items()
        }
    return found


def _sort_key(tool: Tool) -> tuple[bool, Version | None]:
    version = None if tool.version is None else Version.parse(tool.version)
    return (version is not None and not version.prerelease, version or Version.parse("0.0.0-0"))


class _OverBudget(Exception):  # noqa: N818 - not an error: a lower level of detail follows
    """The text would exceed the budget."""


def _render_module(paths: Mapping[str, Tool], spaces: list[str], detail: Detail, budget: int | None) -> str:
    top = {path.partition(".")[0] for path in paths} | {path.rpartition(".")[2] for path in paths}
    types = Types(detail, {*TOP_RESERVED, *top, *spaces})
    parts: list[str] = []
    aliases: set[str] = set()
    left = budget
    for space, members in groupby(sorted(paths, key=_space_of), key=_space_of):
        functions = list(members)
        shadowed = frozenset(path.rpartition(".")[2] for path in functions).intersection(_ALIASES)
        shadowed = shadowed if space else frozenset()
        types.blocks.clear()
        kind = types.reserve_name(f"_{camel(space)}")
        written = list[str]()
        for path in functions:
            blocks = len(types.blocks)
            written.append(render_signature(path, paths[path], types, shadowed=shadowed))
            left = _charge_budget(left, written[-1:], types.blocks[blocks:])
        aliases |= shadowed
        parts += types.blocks
        parts.append(
            f"class {kind}:\n" + "\n".join(written) + f"\n\n{space}: {kind}" if space else "\n".join(written)
        )
    parts += [f"{space}: Any" for space in spaces]
    parts += ["\n".join(f"_{name} = {name}" for name in sorted(aliases))] * bool(aliases)
    body = "\n\n".join(parts)
    used = sorted(set(_TYPING.findall(body)))
    head = [f"from typing import {', '.join(used)}"] * bool(used)
    last = [f"# left out: {detail.left_out}"] * bool(detail.left_out)
    text = "\n\n".join([*head, *([body] if body else []), *last]) + "\n"
    _charge_budget(budget, [text])
    return text


def _charge_budget(budget: int | None, *texts: Iterable[str]) -> int | None:
    """Return the budget that is left after some texts.

    Raises:
        _OverBudget: nothing is left, so that the rest need not be rendered.
    """
    if budget is None:
        return None
    left = budget - sum(_count_tokens(text) for texts_ in texts for text in texts_)
    if left < 0:
        raise _OverBudget
    return left


def _count_tokens(text: str) -> int:
    return estimate_tokens(
        text, sampled=False
    )  # exact, since an estimate from samples could exceed the budget


def _space_of(path: str) -> str:
    return path.rpartition(".")[0]


def _list_names(paths: list[str], budget: int) -> str:
    """Render as many names as the budget allows, and the number of the others."""
    low, high = 0, len(paths)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if _count_tokens(_render_names(paths, middle)) <= budget else (low, middle - 1)
        )
    return _render_names(paths, low)


def _render_names(paths: list[str], count: int) -> str:
    text = ", ".join(paths[:count])
    rest = f"{'; and ' if text else ''}{len(paths) - count} more" if count < len(paths) else ""
    return f"# tools: {text}{rest}\n# left out: signatures\n"
