"""The resources and prompts of a crib's servers, as far as a view goes."""

import re
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from typing import Any, Literal

import anyio
import anyio.lowlevel

from toolcrib.crib.sources.listing import ToolLister
from toolcrib.errors import (
    LoginRequiredError,
    PromptNotFoundError,
    RequestRefusedError,
    ResourceNotFoundError,
    ServerUnavailableError,
    ToolcribError,
)
from toolcrib.execution.mcp import (
    Completion,
    ContentChange,
    OnContent,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)
from toolcrib.execution.mcp.content import ContentKind, ServerContent
from toolcrib.execution.mcp.freshness import UNKNOWN, Freshness, together
from toolcrib.execution.policy import Grants
from toolcrib.model.suggest import nearest

__all__ = ["LIST_MAX_AGE", "ContentLists", "ViewContent"]

LIST_MAX_AGE = 60.0
"""For how many seconds what a server has listed is taken to be so, unless it says that it has changed."""
_TURN = 500
"""How many items the rules are asked about at once."""
_MAX_LISTS, _MAX_ITEMS = 1_000, 100_000
"""How many lists are kept, of all servers and persons together, and how many items in all of them."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")


_Source = tuple[str, Hashable | None]
"""A server, and whose its lists are; None where they are everybody's."""


class ContentLists:
    """Keeps the lists of servers, to find the server of a resource or a prompt in.

    What a server has listed to one person is kept for that person alone; of too many the oldest are dropped.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._listed: dict[tuple[_Source, ContentKind], tuple[float, tuple[Any, ...], Freshness]] = {}
        """The oldest first."""
        self._items = 0

    def freshness(self, source: _Source, kind: ContentKind) -> Freshness:
        """Return for how long a list is still so, as far as its server says."""
        found = self._listed.get((source, kind))
        return UNKNOWN if found is None else found[2].after(self._clock() - found[0])

    def known(self, source: _Source, kind: ContentKind, max_age: float) -> tuple[Any, ...] | None:
        """Return what a server listed so many seconds ago at most; None where that is not known."""
        found = self._listed.get((source, kind))
        return None if found is None or self._clock() - found[0] >= max_age else found[1]

    def keep(self, source: _Source, kind: ContentKind, listed: tuple[Any, ...], freshness: Freshness) -> None:
        """Keep what a server has listed, and for how long it says that this is so."""
        self._drop((source, kind))
        now = self._clock()
        self._listed[source, kind] = now, listed, freshness
        self._items += len(listed)
        for key, (since, _, _) in list(self._listed.items()):
            is_full = len(self._listed) > _MAX_LISTS or self._items > _MAX_ITEMS
            if not is_full and now - since < LIST_MAX_AGE:
                break
            self._drop(key)

    def forget(self, source: _Source, kind: Literal["resources", "prompts"]) -> None:
        """Forget what a server listed before it said that this has changed."""
        self._drop((source, kind))
        if kind == "resources":
            self._drop((source, "templates"))

    def _drop(self, key: tuple[_Source, ContentKind]) -> None:
        found = self._listed.pop(key, None)
        self._items -= 0 if found is None else len(found[1])


class ViewContent:
    """Finds the server that has a resource or a prompt, and asks it.

    A list holds what the servers that answer have; one that does not answer is an error only where what was
    asked for may be its. `max_age` is how many seconds old a list may be.
    """

    def __init__(
        self,
        servers: ServerContent,
        names: Collection[str],
        lists: ContentLists | None = None,
        grants: Grants | None = None,
        listing: ToolLister | None = None,
    ) -> None:
        self.servers = servers
        """Asks a server by its name."""
        self.names = names if grants is None else tuple(filter(grants.may_have_content, names))
        """The servers that may be asked, in the order of the configuration."""
        self._lists = ContentLists() if lists is None else lists
        self._grants = grants
        self._listing = listing

    async def resources(self, max_age: float = 0.0) -> tuple[Resource, ...]:
        """Return what can be read, server by server."""
        return (await self._asked("resources", max_age))[0]

    async def templates(self, max_age: float = 0.0) -> tuple[ResourceTemplate, ...]:
        """Return the templates of further resources."""
        return (await self._asked("templates", max_age))[0]

    async def prompts(self, max_age: float = 0.0) -> tuple[Prompt, ...]:
        """Return the prompts, server by server."""
        return (await self._asked("prompts", max_age))[0]

    async def listed(self, kind: ContentKind) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the servers have, as fresh as they want it to be, and what MCP says of how long it is.

        One that says when its list changes is not asked before it does.
        """
        for name in self.names:
            is_over = self._lists.freshness(self._source(name), kind).ttl == 0
            if is_over and not self.servers.tells_changes(name, kind):
                self._lists.forget(self._source(name), "prompts" if kind == "prompts" else "resources")
        items, failed = await self._asked(kind, LIST_MAX_AGE)
        fresh = [self._lists.freshness(self._source(name), kind) for name in self.names]
        if any(isinstance(error, LoginRequiredError) for error in failed):
            fresh.append(Freshness(0.0))  # there is more as soon as somebody has logged in
        return items, together(fresh, LIST_MAX_AGE)

    def _source(self, server: str) -> _Source:
        return server, self.servers.person_key(server)

    async def listed_tools(self) -> dict[str, Any]:
        """Have servers list their tools again that said how long they are fresh, and return how long all are.

        What they list is in the catalogue then. A server that cannot is left alone, as is one that says when
        its tools change.
        """

        async def again(name: str) -> None:
            with suppress(ServerUnavailableError):
                await self.servers.list_tools(name)
                if self._listing is not None:
                    await self._listing.wait_taken(name)

        async with anyio.create_task_group() as tasks:
            for name in self.names:
                is_over = self.servers.tools_freshness(name).ttl == 0
                if is_over and not self.servers.tells_changes(name, "tools"):
                    tasks.start_soon(again, name)
        return together([self.servers.tools_freshness(name) for name in self.names], LIST_MAX_AGE)

    async def read(self, uri: str, server: str | None) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource, of the server that lists it or has a template for it."""
        return await self.servers.read(self.admit(await self._whose(uri, server), uri), uri)

    async def watch(self, uri: str, server: str | None) -> Callable[[], Awaitable[None]]:
        """Have the server that `read` would ask tell of changes; returns what stops that.

        Each watcher stops for itself: the server gets one subscription for all of them, until the last has
        stopped, and a new one when it was restarted; the resource counts as changed then.

        Raises:
            RequestRefusedError: the server does not tell of it, or too many are watched.
            ResourceNotFoundError, ServerUnavailableError: as for `read`.
        """
        return await self.servers.watch(self.admit(await self._whose(uri, server), uri), uri)

    def on_change(self, callback: OnContent) -> Callable[[], None]:
        """Call back with each change that one of the servers tells; returns what stops that.

        The callback is called in the event loop of the crib, once for each notification, and must not block.
        Servers are not started for it. A change of one resource comes only while that is watched, and to all
        who listen: whoever serves several clients sends it to those that watch `change.uri`, or a resource
        that it is a part of.
        """

        def pass_on(change: ContentChange) -> None:
            if self.may_hear(change, self.servers.person_key(change.server)):
                callback(change)

        return self.servers.on_change(pass_on)

    def may_hear(self, change: ContentChange, person: Hashable | None) -> bool:
        """Return whether somebody may know of a change: what changed can be listed or read here.

        `person` is whose content of the server they get; None where it is everybody's.
        """
        if change.server not in self.names or change.owner not in (None, person):
            return False
        return change.kind != "updated" or self.admits(change.server, change.uri or "")

    async def _whose(self, uri: str, server: str | None) -> str:
        return await self.server_of(uri) if server is None else self.check(server)

    async def server_of(self, uri: str) -> str:
        """Return the first server that lists a resource, or else has a template for it.

        Raises:
            ResourceNotFoundError: there is none.
            ServerUnavailableError: one that may have it does not answer.
        """
        found, _, _ = await self._server_of(uri, LIST_MAX_AGE)
        if found is not None:
            return found
        found, close, failed = await self._server_of(uri, 0.0)
        if found is not None:
            return found
        if failed:
            raise failed[0]
        raise ResourceNotFoundError(uri, (close,) if close else ())

    async def _server_of(
        self, uri: str, max_age: float
    ) -> tuple[str | None, str | None, list[ToolcribError]]:
        """Return the server of a resource, or else the nearest address and who did not answer."""
        listed, failed = await self._asked("resources", max_age)
        server = next((each.server for each in listed if each.uri == uri), None)
        if server is None:
            templates, _ = await self._asked("templates", max_age)
            server = next((each.server for each in templates if _fits(uri, each.uri_template)), None)
        close = nearest(uri, [each.uri for each in listed]) if server is None and not max_age else None
        return server, close, failed

    async def prompt(self, ref: str, args: Mapping[str, str]) -> PromptResult:
        """Return a prompt, filled in; `ref` is `server:name`, or a name that one server alone has."""
        server, name = await self._prompt(ref)
        self.admit(server, name)
        try:
            return await self.servers.prompt(server, name, args)
        except RequestRefusedError as error:
            prompts = await self.servers.prompts(server)
            known = next((each.arguments or () for each in prompts if each.name == name), ())
            lacking = [each.name for each in known if each.required and each.name not in args]
            if not lacking:
                raise
            reason = f"{error.reason}; it needs {', '.join(map(repr, lacking))}"
            raise RequestRefusedError(server, error.method, reason, error.code) from error

    async def complete(self, ref: str, argument: str, value: str, known: Mapping[str, str]) -> Completion:
        """Return values for an argument of a prompt, or of a template of resources."""
        if "{" in ref:
            server = self.admit(await self.server_of_template(ref), ref)
            return await self.servers.complete(server, "resource", ref, (argument, value), known)
        server, name = await self._prompt(ref)
        self.admit(server, name)
        return await self.servers.complete(server, "prompt", name, (argument, value), known)

    async def server_of_template(self, template: str) -> str:
        """Return the first server that has a template.

        Raises:
            ResourceNotFoundError: there is none.
            ServerUnavailableError: one that may have it does not answer.
        """
        failed: list[ToolcribError] = []
        for max_age in (LIST_MAX_AGE, 0.0):
            templates, failed = await self._asked("templates", max_age)
            found = (each.server for each in templates if each.uri_template == template)
            server: str | None = next(found, None)
            if server is not None:
                return server
        raise failed[0] if failed else ResourceNotFoundError(template)

    async def _prompt(self, ref: str) -> tuple[str, str]:
        """Return the server and the name of a prompt."""
        server, colon, name = ref.partition(":")
        if colon and server in self.names:
            return server, name
        prompts, failed = await self._asked("prompts", 0.0)
        found = [each for each in prompts if each.name == ref]
        if len(found) == 1:
            return found[0].server, found[0].name
        if found:
            ids = tuple(each.id for each in found)
            raise PromptNotFoundError(ref, ids, "several servers have one")
        if failed:
            raise failed[0]
        close = nearest(ref, [name for each in prompts for name in (each.id, each.name)])
        raise PromptNotFoundError(ref, (close,) if close else ())

    def _may_find(self, item: Any) -> bool:
        return self.admits(item.server, _name_of(item))

    def forget(self, change: ContentChange) -> None:
        """Ask a server again that says that one of its lists has changed."""
        if change.kind != "updated":
            self._lists.forget((change.server, change.owner), change.kind)

    def admit(self, server: str, name: str) -> str:
        """Return a server's name, if the rules let its resource or prompt of a name be used.

        Raises:
            PolicyDeniedError: they do not.
        """
        if self._grants is not None:
            self._grants.admit(f"{server}:{name}")
        return server

    def admits(self, server: str, name: str) -> bool:
        """Return whether `admit` would let a resource or prompt be used."""
        return self._grants is None or self._grants.admits(f"{server}:{name}")

    def admits_all(self, server: str) -> bool:
        """Return whether the rules, where there are any, let everything of a server be used."""
        return self.admits(server, "")

    def check(self, server: str) -> str:
        """Return a server's name.

        Raises:
            ServerUnavailableError: there is no such server here.
        """
        if server not in self.names:
            raise ServerUnavailableError(server, "there is no such server here")
        return server

    async def _asked(self, kind: ContentKind, max_age: float) -> tuple[tuple[Any, ...], list[ToolcribError]]:
        """Return what the servers have, in their order, and why some did not answer."""
        names = list(self.names)
        found = {
            name: known
            for name in names
            if (known := self._lists.known(self._source(name), kind, max_age)) is not None
        }
        failed: dict[str, ToolcribError] = {}

        async def one(name: str) -> None:
            try:
                source = self._source(name)
                found[name], freshness = await self.servers.listed(name, kind)
                self._lists.keep(source, kind, found[name], freshness)
            except (ServerUnavailableError, RequestRefusedError) as error:
                failed[name] = error

        if unknown := [name for name in names if name not in found]:
            async with anyio.create_task_group() as tasks:
                for name in unknown:
                    tasks.start_soon(one, name)
        items = [item for name in names for item in found.get(name, ())]
        if self._grants is not None:
            items = await self._found(items)
        return tuple(items), [failed[name] for name in names if name in failed]

    async def _found(self, items: list[Any]) -> list[Any]:
        """Return what the rules let be found, letting others have their turn where there is much."""
        allowed: list[Any] = []
        for start in range(0, len(items), _TURN):
            allowed += filter(self._may_find, items[start : start + _TURN])
            await anyio.lowlevel.checkpoint()
        return allowed


def _name_of(item: Any) -> str:
    """Return what rules call a resource, a template or a prompt."""
    return str(getattr(item, "uri", None) or getattr(item, "uri_template", None) or item.name)


def _fits(uri: str, template: str) -> bool:
    """Return whether an address can come of a template, whatever it is filled in with.

    >>> _fits("file:///notes/a.txt", "file:///{dir}/{name}.txt"), _fits("file:///a.md", "file:///{name}.txt")
    (True, False)
    """
    first, *middle = _EXPRESSION.split(template)
    if not middle or not uri.startswith(first):
        return False
    place, last = len(first), middle.pop()
    for part in middle:
        place = uri.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return uri.endswith(last) and len(uri) - len(last) >= place
