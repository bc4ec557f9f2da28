"""The resources and prompts of a crib's servers, as far as a view goes."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

import anyio

from toolcrib.errors import (
    PromptNotFoundError,
    RequestRefusedError,
    ResourceNotFoundError,
    ServerUnavailableError,
    ToolcribError,
)
from toolcrib.execution.mcp import (
    Completion,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.model.suggest import nearest

__all__ = ["ViewContent"]

T = TypeVar("T")
_EXPRESSION = re.compile(r"\{[^{}]*\}")


class ViewContent:
    """Finds the server that has a resource or a prompt, and asks it.

    A list holds what the servers that answer have; one that does not answer is an error only where what was
    asked for may be its.
    """

    def __init__(self, servers: ServerContent, names: Collection[str]) -> None:
        self._servers = servers
        self._names = names

    async def resources(self) -> tuple[Resource, ...]:
        """Return what can be read, server by server."""
        return await self._all(self._servers.resources)

    async def templates(self) -> tuple[ResourceTemplate, ...]:
        """Return the templates of further resources."""
        return await self._all(self._servers.templates)

    async def prompts(self) -> tuple[Prompt, ...]:
        """Return the prompts, server by server."""
        return await self._all(self._servers.prompts)

    async def read(self, uri: str, server: str | None) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource, of the server that lists it or has a template for it."""
        if server is not None:
            return await self._servers.read(self._known(server), uri)
        listed, failed = await self._asked(self._servers.resources)
        owner = next((each.server for each in listed if each.uri == uri), None)
        if owner is None:
            templates, _ = await self._asked(self._servers.templates)
            owner = next((each.server for each in templates if _fits(uri, each.uri_template)), None)
        if owner is not None:
            return await self._servers.read(owner, uri)
        if failed:
            raise failed[0]
        close = nearest(uri, [each.uri for each in listed])
        raise ResourceNotFoundError(uri, (close,) if close else ())

    async def prompt(self, ref: str, args: Mapping[str, str]) -> PromptResult:
        """Return a prompt, filled in; `ref` is `server:name`, or a name that one server alone has."""
        server, name = await self._prompt(ref)
        try:
            return await self._servers.prompt(server, name, args)
        except RequestRefusedError as error:
            prompts = await self._servers.prompts(server)
            known = next((each.arguments or () for each in prompts if each.name == name), ())
            lacking = [each.name for each in known if each.required and each.name not in args]
            if not lacking:
                raise
            reason = f"{error.reason}; it needs {', '.join(map(repr, lacking))}"
            raise RequestRefusedError(server, error.method, reason, error.code) from error

    async def complete(self, ref: str, argument: str, value: str, known: Mapping[str, str]) -> Completion:
        """Return values for an argument of a prompt, or of a template of resources."""
        if "{" in ref:
            templates, failed = await self._asked(self._servers.templates)
            owner = next((each.server for each in templates if each.uri_template == ref), None)
            if owner is None:
                raise failed[0] if failed else ResourceNotFoundError(ref)
            return await self._servers.complete(owner, "resource", ref, (argument, value), known)
        server, name = await self._prompt(ref)
        return await self._servers.complete(server, "prompt", name, (argument, value), known)

    async def _prompt(self, ref: str) -> tuple[str, str]:
        """Return the server and the name of a prompt."""
        server, colon, name = ref.partition(":")
        if colon and server in self._names:
            return server, name
        prompts, failed = await self._asked(self._servers.prompts)
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

    def _known(self, server: str) -> str:
        if server not in self._names:
            raise ServerUnavailableError(server, "there is no such server here")
        return server

    async def _all(self, ask: Callable[[str], Awaitable[tuple[T, ...]]]) -> tuple[T, ...]:
        return (await self._asked(ask))[0]

    async def _asked(
        self, ask: Callable[[str], Awaitable[tuple[T, ...]]]
    ) -> tuple[tuple[T, ...], list[ToolcribError]]:
        """Return what the servers have, in their order, and why some did not answer."""
        names = list(self._names)
        found: dict[str, tuple[T, ...]] = {}
        failed: dict[str, ToolcribError] = {}

        async def one(name: str) -> None:
            try:
                found[name] = await ask(name)
            except (ServerUnavailableError, RequestRefusedError) as error:
                failed[name] = error

        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(one, name)
        items = tuple(item for name in names for item in found.get(name, ()))
        return items, [failed[name] for name in names if name in failed]


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
