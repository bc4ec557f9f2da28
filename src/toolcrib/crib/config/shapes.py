"""The shapes in which clients write down one server, brought to the one that most of them share."""

from collections.abc import Mapping
from typing import Any

from toolcrib.execution.mcp.config import ServerConfig

__all__ = ["SERVER_KEYS", "THEIRS", "is_server", "plain_server"]

SERVER_KEYS = frozenset(
    {
        *ServerConfig.model_fields,
        *(field.alias or name for name, field in ServerConfig.model_fields.items()),
    }
)
"""What a server of ours says, in both spellings."""
THEIRS = frozenset(
    {
        "enabled", "type", "serverUrl", "httpUrl", "environment", "alwaysAllow", "autoApprove", "description",
        "name", "disabledTools", "trust", "includeTools", "excludeTools", "source", "settings", "envFile",
        "dev", "gallery", "version", "oauth", "auth", "authorization", "icon", "tools",
    }
)  # fmt: skip
"""What clients write of a server that is no setting of ours, although it may look like one."""
_STARTS = frozenset({"command", "url", "serverUrl", "httpUrl"})
"""One of these makes an object a server."""

_OPENCODE = frozenset({"local", "remote"})
"""What `type` says there."""


def is_server(value: Any) -> bool:
    """Return whether something looks like a server.

    >>> is_server({"command": "uvx"}), is_server({"theme": "dark"})
    (True, False)
    """
    return isinstance(value, Mapping) and not _STARTS.isdisjoint(value)


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
