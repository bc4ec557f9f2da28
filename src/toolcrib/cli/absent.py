"""What is told of servers and APIs whose tools may be missing from an answer."""

from typing import TYPE_CHECKING, Any

from toolcrib.cli.screen import note

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.execution.mcp import ServerStatus

__all__ = ["note_absent", "tell_absent", "why_failed"]

_STATES = {
    "starting": "has not answered yet",
    "missed": "did not answer the last time, and has not yet",
    "failed": "is unavailable",
}


def tell_absent(view: "View", namespace: str | None = None) -> dict[str, Any]:
    """Tell who is missing from an answer, as the part of a JSON document that says so; see `note_absent`."""
    note_absent(view, namespace)
    absent = [each.to_json() for each in view.absent() if namespace in {None, each.name}]
    return {"absent": absent} if absent else {}


def note_absent(view: "View", namespace: str | None = None) -> None:
    """Tell which servers and APIs have not answered, because what they have may be missing."""
    status = view.status()
    for each in view.absent():
        if namespace not in {None, each.name}:
            continue
        server = status.get(each.name)
        kind = "API" if server is not None and server.transport == "openapi" else "server"
        why = "" if server is None or not server.last_error else f": {why_failed(server)}"
        left = "its tools are as they were last seen" if each.kept else "its tools are missing"
        note(f"{kind} {each.name!r} {_STATES[each.state]}{why if each.state == 'failed' else ''}; {left}")


def why_failed(server: "ServerStatus") -> str:
    """Return why a server last failed, with what it said itself."""
    words = server.stderr.strip().splitlines()[-1:]
    return "; its last words: ".join([server.last_error or "", *words])
