"""The shapes in which clients write down one server, brought to the one that most of them share."""

from collections.abc import Mapping
from typing import Any

__all__ = ["plain_server"]

_OPENCODE = frozenset({"local", "remote"})
"""What `type` says there."""


def plain_server(server: Any) -> Any:
    """Return a server as most clients write it; what has none of the shapes stays, for others to judge.

    >>> plain_server({"command": {"path": "docs", "args": ["-v"], "env": {"A": "1"}}})  # Zed
    {'command': 'docs', 'args': ['-v'], 'env': {'A': '1'}}
    >>> plain_server({"type": "local", "command": ["docs", "-v"], "environment": {"A": "1"}})  # opencode
    {'command': 'docs', 'env': {'A': '1'}, 'args': ['-v']}
    """
    if not isinstance(server, Mapping):
        return server
    made = dict(server)
    if made.get("type") in tuple(_OPENCODE):
        _leave_opencode(made)
    match made.get("command"):
        case {"path": str() as path, **more}:
            made |= {"command": path} | {key: more[key] for key in ("args", "env") if more.get(key)}
        case [str() as program, *args] if not made.get("args"):
            made |= {"command": program, "args": args}
    if made.get("enabled") is False:
        made.setdefault("disabled", True)
    return made


def _leave_opencode(server: dict[str, Any]) -> None:
    del server["type"]
    if "environment" in server:
        server.setdefault("env", server.pop("environment"))
    milliseconds = server.get("timeout")
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        del server["timeout"]
        server["start_timeout"] = milliseconds / 1000
