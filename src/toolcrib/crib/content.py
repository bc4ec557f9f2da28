"""The resources and prompts of a crib's servers that a view may use."""

import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.lowlevel

from toolcrib.crib.sources.content import LIST_MAX_AGE, ContentLists, Source
from toolcrib.crib.sources.listing import ToolLister
from toolcrib.errors import (
    PolicyDeniedError,
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
from toolcrib.execution.mcp.freshness import together
from toolcrib.execution.policy.resource_names import canonical_address
from toolcrib.execution.policy.rules import Grants
from toolcrib.model.suggest import nearest
from toolcrib.model.tool import Tool

if TYPE_CHECKING:
    from toolcrib.crib.gate import TrustGate

_TURN = 200
"""How many items the rules are asked about at once."""
_MOMENT = 2.0
"""For how many seconds clients wait for a list that is not known; of one that comes later they are told."""
_PATIENCE = 5.0
"""For how many seconds they wait for one that its server wants to be asked for again."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")
_How = Literal["known", "current", "fresh"]
"""Which lists are fetched for an answer: none; those that are not known, or no longer so; or all."""


class ViewContent:
    """Finds the server of a resource or a prompt, and sends the request.

    A list holds what is known of the servers, be it from an earlier run; one that does not answer is an error
    only where what was asked for may be its.
    """

    def __init__(
        self,
        servers: ServerContent,
        names: Collection[str],
        lists: ContentLists,
        grants: Grants | None = None,
        listing: ToolLister | None = None,
        gate: "TrustGate | None" = None,
    ) -> None:
        self.servers = servers
        """Asks a server by its name."""
        self.names = names if grants is None else tuple(filter(grants.may_find_in, names))
        """The servers that may be asked, in the order of the configuration."""
        self.lists = lists
        """What they are known to list."""
        self._grants = grants
        self._listing = listing
        self._gate = gate

    async def resources(self) -> tuple[Resource, ...]:
        """Return the resources, server by server."""
        return (await self._list("resources", "current"))[0]

    async def templates(self) -> tuple[ResourceTemplate, ...]:
        """Return the templates of further resources."""
        return (await self._list("templates", "current"))[0]

    async def prompts(self) -> tuple[Prompt, ...]:
        """Return the prompts, server by server."""
        return (await self._list("prompts", "current"))[0]

    async def find_prompt(self, is_wanted: Callable[[Prompt], bool]) -> Prompt | None:
        """Return the first matching prompt: a known one, or else after asking the servers again."""
        ways: tuple[_How, ...] = ("known", "fresh")
        for how in ways:
            prompts, _ = await self._list("prompts", how)
            found: Prompt | None = next(filter(is_wanted, prompts), None)
            if found is not None:
                return found
        return None

    async def list_for_client(self, kind: ContentKind) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the known items of all servers, and the result fields of MCP for their freshness.

        A missing list is waited for briefly, the first time; listeners are notified when it comes later.
        A list with a TTL of its server is fetched again after that, unless the server announces changes; all
        others are fetched in the background when they are a minute old.
        """
        unknown: dict[Source, anyio.Event] = {}
        stale: dict[Source, anyio.Event] = {}
        for name in self.names:
            source = self._source(name)
            is_known, age = self.lists.items(source, kind) is not None, self.lists.age(source, kind)
            is_old = self.lists.error(source, kind) is not None if age is None else age >= LIST_MAX_AGE
            if not is_known or self.lists.is_changed(source, kind) or (is_old and source[1] is not None):
                unknown[source] = self._fetch(name, kind)
            elif age is not None and self._has_expired(name, kind):
                stale[source] = self._fetch(name, kind)
            elif is_old:
                self._fetch(name, kind)
        await self._wait_for(unknown, _MOMENT)
        await self._wait_for(stale, _PATIENCE)
        found = await self._read_known(kind, is_given=True)
        fresh = [self.lists.freshness(self._source(name), kind) for name in self.names]
        return tuple(found), together(fresh, LIST_MAX_AGE)

    async def _wait_for(self, fetches: Mapping[Source, anyio.Event], seconds: float) -> None:
        """Wait for fetches, and note the servers that are late, so that no request waits for them again."""
        pending = {source: event for source, event in fetches.items() if not self.lists.is_late(source)}
        with anyio.move_on_after(seconds):
            for event in pending.values():
                await event.wait()
        for source, event in pending.items():
            if not event.is_set():
                self.lists.note_late(source)

    def _has_expired(self, name: str, kind: ContentKind) -> bool:
        """Return whether the TTL of a list is over, and its server does not announce changes."""
        is_over = self.lists.freshness(self._source(name), kind).ttl == 0
        return is_over and not self.servers.tells_changes(name, kind)

    def _fetch(self, name: str, kind: ContentKind) -> anyio.Event:
        return self.lists.fetch(self._source(name), kind, partial(self.servers.listed, name, kind))

    def _source(self, server: str) -> Source:
        return server, self.servers.person_key(server)

    async def listed_tools(self) -> dict[str, Any]:
        """Request the expired tool lists of servers again; return the result fields for the freshness.

        The catalogue has their answers then. A server that fails is ignored, and one that announces changes
        is not asked.
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
        """Read a resource from a server, or the one that lists it or has a template for it."""
        return await self.servers.read(
            await self.admit_address(await self._resolve_server(uri, server), uri), uri
        )

    async def watch(self, uri: str, server: str | None) -> Callable[[], Awaitable[None]]:
        """Subscribe to changes of a resource at the server that `read` would ask; return the unsubscribe.

        The server gets one subscription for all watchers, until the last has stopped, and a new one after a
        restart, when the resource counts as changed.

        Raises:
            RequestRefusedError: the server refuses the subscription, or too many resources are watched.
            ResourceNotFoundError, ServerUnavailableError: as for `read`.
        """
        return await self.servers.watch(
            await self.admit_address(await self._resolve_server(uri, server), uri), uri
        )

    def on_change(self, callback: OnContent) -> Callable[[], None]:
        """Add a listener for changed lists and resources; return a function that removes it.

        The callback is called in the event loop of the crib, and must not block. Servers are not started for
        it. A change of one resource comes only while that is watched, and to all
        who listen: whoever serves several clients sends it to those that watch `change.uri`, or a resource
        that it is a part of.
        """

        def pass_on(change: ContentChange) -> None:
            if self.may_hear(change, self.servers.person_key(change.server)):
                callback(change)

        return self.lists.on_change(pass_on)

    def may_hear(self, change: ContentChange, person: Hashable | None) -> bool:
        """Return whether a listener may be notified of a change, because it may list or read the content.

        `person` is the owner of the content that the listener gets from the server; None if all get the same.
        """
        if change.server not in self.names or change.owner not in (None, person):
            return False
        return change.kind != "updated" or self.admits(change.server, change.uri or "")

    async def _resolve_server(self, uri: str, server: str | None) -> str:
        return await self.server_of(uri) if server is None else self.check(server)

    async def server_of(self, uri: str) -> str:
        """Return the first server that lists a resource, or else has a template for it.

        Raises:
            ResourceNotFoundError: there is none.
            ServerUnavailableError: one that may have it does not answer.
        """
        found, _, _ = await self._find_server(uri, "known")
        if found is not None:
            return found
        found, listed, failed = await self._find_server(uri, "fresh")
        if found is not None:
            return found
        self._raise_if_withheld("templates", lambda template: _may_match(uri, template))
        if failed:
            raise failed[0]
        close = nearest(uri, [each.uri for each in listed])
        raise ResourceNotFoundError(uri, (close,) if close else ())

    async def _find_server(
        self, uri: str, how: _How
    ) -> tuple[str | None, tuple[Resource, ...], list[ToolcribError]]:
        """Return the server of a resource if there is one, all resources, and the errors of servers."""
        listed, failed = await self._list("resources", how)
        server = next((each.server for each in listed if each.uri == uri), None)
        if server is None:
            templates, _ = await self._list("templates", how)
            server = next((each.server for each in templates if _may_match(uri, each.uri_template)), None)
        return server, listed, failed

    async def prompt(self, ref: str, args: Mapping[str, str]) -> PromptResult:
        """Return the messages of a prompt; `ref` is `server:name`, or a name that only one server has."""
        server, name = await self._resolve_prompt(ref)
        await self.admit_prompt(server, name)
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
        """Return completions for an argument of a prompt or of a resource template."""
        if "{" in ref:
            server = await self.admit_address(await self.server_of_template(ref), ref)
            return await self.servers.complete(server, "resource", ref, (argument, value), known)
        server, name = await self._resolve_prompt(ref)
        await self.admit_prompt(server, name)
        return await self.servers.complete(server, "prompt", name, (argument, value), known)

    async def server_of_template(self, template: str) -> str:
        """Return the first server that has a template.

        Raises:
            ResourceNotFoundError: there is none.
            ServerUnavailableError: one that may have it does not answer.
        """
        failed: list[ToolcribError] = []
        ways: tuple[_How, ...] = ("known", "fresh")
        for how in ways:
            templates, failed = await self._list("templates", how)
            found = (each.server for each in templates if each.uri_template == template)
            server: str | None = next(found, None)
            if server is not None:
                return server
        self._raise_if_withheld("templates", lambda known: known == template)
        raise failed[0] if failed else ResourceNotFoundError(template)

    async def _resolve_prompt(self, ref: str) -> tuple[str, str]:
        """Return the server and the name of a prompt by its reference."""
        server, colon, name = ref.partition(":")
        if colon and server in self.names:
            return server, name
        prompts, failed = await self._list("prompts", "current")
        found = [each for each in prompts if each.name == ref]
        if len(found) == 1:
            return found[0].server, found[0].name
        if found:
            ids = tuple(each.id for each in found)
            raise PromptNotFoundError(ref, ids, "several servers have one")
        self._raise_if_withheld("prompts", lambda name: name == ref)
        if failed:
            raise failed[0]
        close = nearest(ref, [name for each in prompts for name in (each.id, each.name)])
        raise PromptNotFoundError(ref, (close,) if close else ())

    def _raise_if_withheld(self, kind: ContentKind, is_meant: Callable[[str], bool]) -> None:
        """Raise if the missing item exists, and is withheld."""
        for server in self.names if self._gate is not None else ():
            for name, each in self.lists.withheld(self._source(server), kind).items():
                if self._gate is not None and is_meant(name) and self.admits(server, name):
                    raise self._gate.error(each, f"{server}:{name}")

    def _may_find(self, item: Any) -> bool:
        return self.admits(item.server, _name_of(item))

    def admit(self, server: str, name: str) -> str:
        """Check a resource or prompt against the rules, and return the name of its server.

        Raises:
            PolicyDeniedError: they do not.
        """
        if self._grants is not None:
            self._grants.admit(f"{server}:{name}")
        return server

    async def admit_prompt(self, server: str, name: str) -> str:
        """Check a prompt against the rules and the lock, and return the name of its server.

        Raises:
            PolicyDeniedError: the rules deny it.
            ToolWithheldError: it is not what was approved.
        """
        self.admit(server, name)
        gate = self._gate
        if gate is not None and gate.governs(server):
            source = await self._screened_source(server, "prompts")
            listed = {each.name for each in self.lists.items(source, "prompts") or ()}
            gate.check_prompt(server, name, self.lists.withheld(source, "prompts"), listed)
        return server

    async def _screened_source(self, server: str, kind: ContentKind) -> Source:
        """Return the source of a list of a server that a lock governs, as the server lists it now."""
        source = self._source(server)
        if not self.servers.is_listed(server):  # another process of it may list something else
            await self.servers.list_tools(server)
        if self.lists.age(source, kind) is None or self.lists.is_changed(source, kind):
            await self._fetch(server, kind).wait()
        return source

    async def admit_address(self, server: str, uri: str) -> str:
        """Check the address of a resource or template against the rules and the lock, and return its server.

        The server gets the address as it is written. Where the rules tell addresses apart it must therefore
        be canonical, so that all servers read it alike, or stand in the server's own lists.

        Raises:
            PolicyDeniedError: they do not, or the address is neither canonical nor listed.
            ToolWithheldError: only a template that is not what was approved has the address.
        """
        self.admit(server, uri)
        if self._gate is not None and self._gate.governs(server):
            await self._check_templates(self._gate, server, uri)
        if self._grants is None or not self._grants.tells_addresses_apart(server):
            return server
        canonical = canonical_address(uri)
        if canonical == uri or await self._is_listed(server, uri):
            return server
        advice = "list the resources" if canonical is None else f"ask for {canonical!r}"
        reason = f"the address is not in canonical form, nor in a list of the server; {advice}"
        raise PolicyDeniedError(tool_id=f"{server}:{uri}", reason=reason)

    async def _check_templates(self, gate: "TrustGate", server: str, uri: str) -> None:
        """Check that an address is not one of a withheld template alone."""
        source = await self._screened_source(server, "templates")
        for template, each in self.lists.withheld(source, "templates").items():
            if template != uri and not _may_match(uri, template):
                continue
            admitted = (known.uri_template for known in self.lists.items(source, "templates") or ())
            if any(_may_match(uri, known) for known in admitted) or await self._is_listed(server, uri):
                return
            raise gate.error(each, f"{server}:{uri}")

    async def _is_listed(self, server: str, uri: str) -> bool:
        """Return whether a server lists a resource or a template with exactly this address."""
        kinds: tuple[ContentKind, ...] = ("resources", "templates")
        for kind in kinds:
            source = self._source(server)
            if self.lists.items(source, kind) is None or self.lists.is_changed(source, kind):
                await self._fetch(server, kind).wait()
            if any(_name_of(each) == uri for each in self.lists.items(source, kind) or ()):
                return True
        return False

    def admits(self, server: str, name: str) -> bool:
        """Return whether `admit` allows a resource or prompt."""
        return self._grants is None or self._grants.admits(f"{server}:{name}")

    def instructions(self, server: str) -> str:
        """Return the instructions of a server, if they are known and approved."""
        text = self.servers.instructions(server)
        return text if self._gate is None else self._gate.instructions(server, text)

    def check_tool(self, tool: Tool) -> None:
        """Check that a tool in use is still allowed.

        Raises:
            PolicyDeniedError: the rules deny it, whatever its arguments are.
            ToolWithheldError: it is not what was approved.
        """
        tool_id = str(tool.id)
        if self._grants is not None:
            self._grants.check_tool(tool)
        withheld = None if self._gate is None else self._gate.find_withheld(tool_id)
        if self._gate is not None and withheld is not None:
            raise self._gate.error(withheld, tool_id)

    def admits_all(self, server: str) -> bool:
        """Return whether the rules allow all resources and prompts of a server."""
        return self.admits(server, "")

    def check(self, server: str) -> str:
        """Return the name of a server if this view has it.

        Raises:
            ServerUnavailableError: it does not.
        """
        if server not in self.names:
            raise ServerUnavailableError(server, "there is no such server here")
        return server

    async def _list(self, kind: ContentKind, how: _How) -> tuple[tuple[Any, ...], list[ToolcribError]]:
        """Return the items of all servers, in their order, and the errors of those that were asked.

        Current lists are those of an earlier run, those within their TTL, and those whose changes the server
        announces.
        """
        asked: dict[str, anyio.Event] = {}
        for name in self.names:
            source = self._source(name)
            is_known = self.lists.items(source, kind) is not None
            is_current = is_known and not self.lists.is_changed(source, kind)
            if is_current and self.lists.age(source, kind) is not None:
                is_fresh = bool(self.lists.freshness(source, kind).ttl)
                is_current = is_fresh or self.servers.tells_changes(name, kind)
            if how == "fresh" or (how == "current" and not is_current):
                asked[name] = self._fetch(name, kind)
        for event in asked.values():
            await event.wait()
        errors = [self.lists.error(self._source(name), kind) for name in asked]
        found = await self._read_known(kind, is_given=how == "current")
        return tuple(found), [error for error in errors if error is not None]

    async def _read_known(self, kind: ContentKind, *, is_given: bool) -> list[Any]:
        """Return the cached items of the servers, in their order, that the rules let be found."""
        names = list(self.names)
        lists = [self.lists.items(self._source(name), kind, is_given=is_given) for name in names]
        items = [item for known in lists for item in known or ()]
        return items if self._grants is None else await self._filter_by_rules(items)

    async def _filter_by_rules(self, items: list[Any]) -> list[Any]:
        """Return the items that the rules let be found; yields to other tasks between batches."""
        allowed: list[Any] = []
        for start in range(0, len(items), _TURN):
            allowed += filter(self._may_find, items[start : start + _TURN])
            await anyio.lowlevel.checkpoint()
        return allowed


def _name_of(item: Any) -> str:
    """Return the name by which rules know a resource, a template or a prompt."""
    return str(getattr(item, "uri", None) or getattr(item, "uri_template", None) or item.name)


def _may_match(uri: str, template: str) -> bool:
    """Return whether a template can expand to an address, whatever its variables are.

    >>> _may_match("file:///notes/a.txt", "file:///{dir}/{name}.txt"), _may_match("file:///a.md", "file:///{name}.txt")
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
