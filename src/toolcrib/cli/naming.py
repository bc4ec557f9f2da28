"""Resolves tools named on the command line, and reports servers that are missing."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolcrib.cli.screen import note
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import View

WITHHELD = "withheld: "
"""How the reasons of `ServerStatus.refused` begin for tools that are not what was approved."""
_KINDS = ("mcp", "local", "provider")
_STATES = {
    "starting": "has not answered yet",
    "missed": "did not answer last time, and has not yet",
    "failed": "is unavailable",
}


async def resolve_ids(view: "View", named: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of tools that are named by an id, or by a name alone.

    Raises:
        ToolNotFoundError: several tools have that name, or it is that of a namespace.
    """
    return tuple([await _resolve_id(view, each) if _is_bare(each) else each for each in named])


def _is_bare(ref: str) -> bool:
    return bool(ref) and ":" not in ref


async def _resolve_id(view: "View", name: str) -> str:
    from toolcrib.errors import ToolcribError, ToolNotFoundError  # noqa: PLC0415 - not needed to ask for help

    with suppress(ToolcribError):
        view[name]
        return name
    await view.tools(limit=1)  # waits for the servers that nothing is known of
    found = {
        f"{each.namespace}:{name}" for each in view.index.list_all() if each.name == name and each.namespace
    }
    if len(found) > 1:
        raise ToolNotFoundError(name, tuple(sorted(found)), reason="several namespaces have one")
    if not found and name in view.index.namespaces():
        reason = f"it is a namespace, whose tools `toolcrib list --namespace {name}` lists"
        raise ToolNotFoundError(name, reason=reason)
    return found.pop() if found else name


def not_there(view: "View", options: Mapping[str, Any]) -> str:
    """Return a message about options that name a missing namespace, tag or backend, with suggestions."""
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help

    servers = view.status()
    known = {
        "namespace": sorted({name for name in view.index.namespaces() if name} | servers.keys()),
        "tag": sorted({tag for each in view.index.list_all() for tag in each.tags}),
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


def tell_absent(view: "View", namespace: str | None = None) -> dict[str, Any]:
    """Return the part of a JSON document that lists the missing servers and APIs; see `note_absent`."""
    note_absent(view, namespace)
    absent = [each.to_json() for each in view.absent() if namespace in {None, each.name}]
    return {"absent": absent} if absent else {}


def note_absent(view: "View", namespace: str | None = None) -> None:
    """Print the servers and APIs that have not answered, as their tools may be missing."""
    status = view.status()
    for each in view.absent():
        if namespace not in {None, each.name}:
            continue
        server = status.get(each.name)
        kind = "API" if server is not None and server.transport == "openapi" else "server"
        why = f": {each.reason}" if each.reason else ""
        if server is not None and server.last_error:
            why = f": {server.describe_failure()}"
        left = "its tools are as they were last seen" if each.kept else "its tools are missing"
        note(f"{kind} {each.name!r} {_STATES[each.state]}{why}; {left}")
    for name, server in status.items():
        withheld = [each for each in server.refused.values() if each.startswith(WITHHELD)]
        if withheld and namespace in {None, name}:
            note(f"{count_noun(len(withheld), 'tool')} of {name!r} withheld; `toolcrib status` says why")
