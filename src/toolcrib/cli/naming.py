"""What a command line names: tools by their ids or names, and where they are from."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.crib import View

__all__ = ["meant", "not_there"]

_KINDS = ("mcp", "local", "provider")


async def meant(view: "View", named: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of tools that are named by an id, or by a name alone.

    Raises:
        ToolNotFoundError: several tools have that name.
    """
    return tuple([await _id_of(view, each) if _is_bare(each) else each for each in named])


def _is_bare(ref: str) -> bool:
    return bool(ref) and ":" not in ref


async def _id_of(view: "View", name: str) -> str:
    from toolcrib.errors import ToolcribError, ToolNotFoundError  # noqa: PLC0415 - not needed to ask for help

    with suppress(ToolcribError):
        view.index.resolve(name)
        return name
    await view.tools(limit=1)  # waits for the servers that nothing is known of
    found = {
        f"{each.namespace}:{name}" for each in view.index.every() if each.name == name and each.namespace
    }
    if len(found) > 1:
        raise ToolNotFoundError(name, tuple(sorted(found)), reason="several namespaces have one")
    return found.pop() if found else name


def not_there(view: "View", options: Mapping[str, Any]) -> str:
    """Return which namespace, tags or backend of the options are not there, and what may have been meant."""
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help

    servers = view.status()
    known = {
        "namespace": sorted({name for name in view.index.namespaces() if name} | servers.keys()),
        "tag": sorted({tag for each in view.index.every() for tag in each.tags}),
        "backend": sorted({*_KINDS, *servers}),
    }
    asked = {"namespace": [options.get("namespace")], "tag": options.get("tags") or ()}
    asked["backend"] = [options.get("backend")]
    return "".join(
        f"; there is no {kind} {name!r}{choose(name, known[kind])}"
        for kind, names in asked.items()
        for name in names
        if name and name not in known[kind]
    )
