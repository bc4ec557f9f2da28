"""The difference between two configurations, and which of it a running crib applies."""

from collections.abc import Iterator

from toolcrib.crib.config.settings import OpenApiSettings, Settings
from toolcrib.crib.sources.origins import enabled
from toolcrib.execution.mcp import ServerConfig
from toolcrib.model.record import Record


class Reload(Record):
    """Result of a reload: the differences between two configurations."""

    added: tuple[str, ...] = ()
    """Servers and APIs that are new, or were disabled before."""
    changed: tuple[str, ...] = ()
    """Those with any changed setting, even a timeout."""
    removed: tuple[str, ...] = ()
    """Those that are gone, or disabled."""
    later: tuple[str, ...] = ()
    """Changed settings that take effect only in a new crib, such as `store`."""


def differences(before: Settings, after: Settings) -> Reload:
    """Return the servers and APIs that differ.

    >>> one, two = {"command": "one"}, {"command": "two"}
    >>> found = differences(Settings(servers={"a": one, "b": one}), Settings(servers={"b": two, "c": one}))
    >>> found.added, found.changed, found.removed
    (('c',), ('b',), ('a',))
    """
    old, new = _servers_and_apis(before), _servers_and_apis(after)
    return Reload(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(name for name in new.keys() & old.keys() if new[name] != old[name])),
        removed=tuple(sorted(old.keys() - new.keys())),
    )


def _servers_and_apis(settings: Settings) -> dict[str, ServerConfig | OpenApiSettings]:
    return {**enabled(settings), **settings.openapi}


def replaced(before: Settings, after: Settings) -> tuple[set[str], set[str]]:
    """Return the servers to disconnect, and those to connect anew."""
    old, new = enabled(before), enabled(after)
    leave = {name for name, config in old.items() if name not in new or not new[name].reaches_as(config)}
    return leave, {name for name in new if name not in old or name in leave}


def layers(settings: Settings) -> tuple[object, ...]:
    """Return the settings of the middleware; it is made anew if they differ."""
    return settings.cache, settings.retry, settings.limits.concurrency, settings.results


def left_for_later(opened: Settings, after: Settings) -> tuple[str, ...]:
    """Return the changed settings that an open crib cannot apply."""
    return tuple(_later_settings(opened, after))


def _later_settings(opened: Settings, after: Settings) -> Iterator[str]:
    if (opened.store, _default_catalogue_of(opened)) != (after.store, _default_catalogue_of(after)):
        yield "store"
    for name in ("searcher", "model"):
        if getattr(opened.search, name) != getattr(after.search, name):
            yield f"search.{name}"


def _default_catalogue_of(settings: Settings) -> str | None:
    """Return the configuration file whose default store is used; None if a store is named."""
    return settings.source if settings.store is None else None
