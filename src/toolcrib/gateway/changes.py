"""What is said of a configuration that was read again."""

from collections.abc import Iterator

from toolcrib.crib import GatewaySettings, Reload, Settings

__all__ = ["told_of"]

_AT_START = frozenset({"host", "port", "watch", "request_bytes", "request_timeout", "sessions"})
_AT_START |= {"session_timeout", "shutdown_timeout"}
"""Settings of a gateway that hold, at least in part, from its start to its end."""


def told_of(before: Settings, after: Settings, result: Reload, started: GatewaySettings) -> str:
    """Return what is different, by name and without values, which may be secret.

    Args:
        before: the settings that held.
        after: those that hold.
        result: what the crib says of its servers.
        started: what the gateway was started with.

    >>> other = Settings(toolsets={"office": {"tags": ["mail"]}}, gateway={"confirm": False, "port": 1})
    >>> told_of(Settings(), other, Reload(removed=("git",)), GatewaySettings())
    'removed git; other toolsets: office; other gateway settings: confirm; after a restart: gateway.port'
    """
    later = [f"gateway.{name}" for name in sorted(_AT_START) if _differs(started, after.gateway, name)]
    parts = {
        "added": result.added,
        "changed": result.changed,
        "removed": result.removed,
        "other toolsets:": sorted(_toolsets(before, after)),
        "other gateway settings:": list(_taken_up(before.gateway, after.gateway)),
        "after a restart:": [*result.later, *later],
    }
    said = "; ".join(f"{what} {', '.join(names)}" for what, names in parts.items() if names)
    return said or "nothing that concerns the gateway is different"


def _toolsets(before: Settings, after: Settings) -> Iterator[str]:
    for name in before.toolsets.keys() | after.toolsets.keys():
        if before.toolsets.get(name) != after.toolsets.get(name):
            yield name


def _taken_up(before: GatewaySettings, after: GatewaySettings) -> Iterator[str]:
    for name in GatewaySettings.model_fields:
        if name not in _AT_START and _differs(before, after, name):
            yield name


def _differs(before: GatewaySettings, after: GatewaySettings, name: str) -> bool:
    return bool(getattr(before, name) != getattr(after, name))
