"""The difference between two configurations, and which of it a running crib applies."""

from collections.abc import Iterator

from toolcrib.crib.config.settings import OpenApiSettings, Settings
from toolcrib.crib.sources.origins import enabled
from toolcrib.execution.mcp import ServerConfig
from toolcrib.model.record import Record


class Reload(Record):
    """What came of reading a configuration again."""

    added: tuple[str, ...] = ()
    """The servers and APIs that were not there before, or were switched off."""
    changed: tuple[str, ...] = ()
    """Those whose settings differ, if only in a timeout."""
    removed: tuple[str, ...] = ()
    """Those that are gone, or switched off."""
    later: tuple[str, ...] = ()
    """The settings that differ and are taken up only by another crib, such as `store`."""


def differences(before: Settings, after: Settings) -> Reload:
    """Return which servers and APIs differ.

    >>> one, two = {"command": "one"}, {"command": "two"}
    >>> found = differences(Settings(servers={"a": one, "b": one}), Settings(servers={"b": two, "c": one}))
    >>> found.added, found.changed, found.removed
    (('c',), ('b',), ('a',))
    """
    old, new = _parts(before), _parts(after)
    return Reload(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(name for name in new.keys() & old.keys() if new[name] != old[name])),
        removed=tuple(sorted(old.keys() - new.keys())),
    )


def _parts(settings: Settings) -> dict[str, ServerConfig | OpenApiSettings]:
    return {**enabled(settings), **settings.openapi}


def replaced(before: Settings, after: Settings) -> tuple[set[str], set[str]]:
    """Return the servers whose connections end, and those that are asked for their tools from the start."""
    old, new = enabled(before), enabled(after)
    leave = {name for name, config in old.items() if name not in new or not new[name].reaches_as(config)}
    return leave, {name for name in new if name not in old or name in leave}


def layers(settings: Settings) -> tuple[object, ...]:
    """Return the settings that the layers around each call are made of."""
    return settings.cache, settings.retry, settings.limits.concurrency


def left_for_later(opened: Settings, after: Settings) -> tuple[str, ...]:
    """Return the settings that differ from those which a crib was opened with, and must stay as they were."""
    return tuple(_left(opened, after))


def _left(opened: Settings, after: Settings) -> Iterator[str]:
    if (opened.store, _own(opened)) != (after.store, _own(after)):
        yield "store"
    for name in ("searcher", "model"):
        if getattr(opened.search, name) != getattr(after.search, name):
            yield f"search.{name}"


def _own(settings: Settings) -> str | None:
    """Return the file whose catalogue it is, where no store is named."""
    return settings.source if settings.store is None else None
