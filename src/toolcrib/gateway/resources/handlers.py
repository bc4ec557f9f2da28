"""Requests for resources and prompts of the servers behind a gateway, and for its own stored results."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import mcp_types
from mcp.shared.exceptions import MCPError

from toolcrib.crib import View
from toolcrib.crib.content import ViewContent
from toolcrib.errors import (
    LoginRequiredError,
    PromptNotFoundError,
    RequestRefusedError,
    ResourceNotFoundError,
    ToolcribError,
    explain,
)
from toolcrib.execution import Principal
from toolcrib.execution.mcp import Prompt
from toolcrib.execution.mcp.client_relay import APPS
from toolcrib.execution.mcp.config import ContentChange, OnContent
from toolcrib.execution.mcp.content import ContentKind
from toolcrib.execution.mcp.own_names import mend_name
from toolcrib.execution.oauth.persons import login_reason
from toolcrib.gateway.identity.principals import authenticated_principal
from toolcrib.gateway.passing import foreign_meta
from toolcrib.gateway.request.client import RequestClient
from toolcrib.gateway.request.input import passed_error
from toolcrib.gateway.resources.addresses import (
    addressed,
    is_page,
    named_pages,
    page_address,
    page_server,
    place_item,
    place_messages,
    route,
    sole_source,
    split_page,
)
from toolcrib.gateway.resources.lists import page, written
from toolcrib.gateway.results import PREFIX, KeptResults
from toolcrib.model.findings import FINDINGS_KEY
from toolcrib.model.public_names import public_name, split_name
from toolcrib.redaction import hide_secrets

_TEMPLATE = {
    "name": "result",
    "uriTemplate": f"{PREFIX}{{id}}",
    "description": "A result that was too large to send whole; the result itself contains its URI",
}
_MAX_SHOWN = 200
_OURS = frozenset({"_meta", "inputResponses", "requestState"})
"""Fields of a request that are for the gateway and are not relayed."""
_KEPT_FRESH = 600_000
"""Milliseconds for which a client may cache a result, which never changes."""
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Declared:
    """The combined capabilities of all servers; a server that is not started counts as having all."""

    prompts: bool
    completions: bool
    changes: bool
    """Whether lists may change: the gateway notifies of it, even for servers that do not."""
    subscribe: bool
    """Whether any server supports subscriptions to resources."""
    logging: bool


class ContentHandlers:
    """Answers requests for resources, prompts and completions with results of MCP.

    Results of servers are relayed unchanged, except for addresses. Without a view, only stored results can be
    read.
    """

    def __init__(self, view: View | None = None, kept: KeptResults | None = None) -> None:
        self._view = view
        self._kept = kept

    def declared(self, principal: Principal | None) -> Declared:
        """Return the capabilities to declare to the clients of a principal."""
        content = self.content_for(principal)
        known = [] if content is None else [content.servers.capabilities(name) for name in content.names]

        def has(part: str, field: str | None = None) -> bool:
            return any(
                each is None or (part in each and (field is None or bool(each[part].get(field))))
                for each in known
            )

        return Declared(
            prompts=has("prompts"),
            completions=has("completions"),
            changes=content is not None,
            subscribe=has("resources", "subscribe"),
            logging=has("logging"),
        )

    def extensions(self) -> dict[str, dict[str, Any]]:
        """Return the MCP Apps extension if a server of tools declares it, or may once it is started."""
        principal = authenticated_principal()
        content = self.content_for(principal)
        if self._view is None or content is None:
            return {}
        servers = self._view.seen_by(principal).status()
        known = [
            content.servers.capabilities(name) for name in servers.keys() & self._view.settings.servers.keys()
        ]
        declared = [{APPS: {}} if each is None else each.get("extensions", {}) for each in known]
        parts = [each[APPS] for each in declared if APPS in each]
        return {APPS: _merge_settings(parts)} if parts else {}

    async def resources(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        """Return a page of resources, without stored results: their addresses are secrets."""
        listed, fresh = await self._list_content("resources", client)
        return (
            page(
                "resources",
                self._index_by_address("uri", listed),
                params,
                client.principal,
                partial(written, "uri"),
            )
            | fresh
        )

    async def templates(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        """Return a page of resource templates."""
        listed, fresh = await self._list_content("templates", client)
        items = {_TEMPLATE["uriTemplate"]: _TEMPLATE, **self._index_by_address("uri_template", listed)}
        return (
            page("resourceTemplates", items, params, client.principal, partial(written, "uriTemplate"))
            | fresh
        )

    async def read(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        """Return the contents of a resource; its server may ask the client for input.

        Raises:
            MCPError: there is no such resource, or its server refuses.
        """
        uri = str(params["uri"])
        if uri.startswith(PREFIX):
            return await self._read_kept(uri, client.principal)
        server, own = await self.route(uri, client)
        answer = await self._request(client, server, "resources/read", {**params, "uri": own}, own)
        answer = {
            "ttlMs": 0,
            **answer,
            "cacheScope": "private",
        }  # another principal may not be allowed to read it
        contents = answer.get("contents")
        if not isinstance(contents, list):
            return answer
        pages = self._page_server(server)
        named = [
            {**each, "uri": uri}
            if isinstance(each, Mapping) and each.get("uri") == own
            else place_item(pages, each)
            for each in contents
        ]
        return {**answer, "contents": named}

    async def route(self, uri: str, client: RequestClient) -> tuple[str, str]:
        """Return the server of a resource, and the URI at that server.

        Raises:
            MCPError: there is no such resource.
        """
        content = self._view_content(uri, client)
        named = self._find_by_address(content, uri, client.principal)
        if named is not None:
            return named
        if not content.names:
            raise _no_resource(uri)
        return await self._ask_with_login(client, partial(self._find_server, content, uri)), uri

    def _find_by_address(
        self, content: ViewContent, uri: str, principal: Principal | None
    ) -> tuple[str, str] | None:
        """Return the server that an address names, and the URI at that server; None if it names none.

        Raises:
            MCPError: it names an unknown server, or is a page of no server.
        """
        server, own = route(uri)
        if self._view is None or sole_source(self._view.settings) is not None or not is_page(own):
            found = None if server is None else (server, own)
        elif server is None:
            servers = [name for name, each in self._view.settings.servers.items() if not each.disabled]
            found = split_page(uri, servers)
            if found is None or not (found[0] in content.names or self._is_tools_page(*found, principal)):
                raise _no_resource(uri)
            return found
        else:
            found = (server, own) if page_address(server, own) == uri else ("", own)
        if found is not None and found[0] not in content.names:
            raise _no_resource(uri)
        return found

    def _is_tools_page(self, server: str, uri: str, principal: Principal | None) -> bool:
        """Return whether a visible tool names a page, although the content of its server is not visible."""
        assert self._view is not None  # noqa: S101 - checked by the caller
        index = self._view.seen_by(principal).index
        tools = index.list_all(namespace=mend_name(server))
        return any(uri in named_pages(index.get(each.id)) for each in tools)

    def _page_server(self, server: str) -> str | None:
        return None if self._view is None else page_server(self._view.settings, server)

    def _index_by_address(self, field: str, listed: Sequence[Any]) -> dict[str, Any]:
        return {} if self._view is None else addressed(field, listed, self._view.settings)

    async def watch(self, server: str, uri: str, client: RequestClient) -> Callable[[], Awaitable[None]]:
        """Subscribe to a resource at its server; return a function to unsubscribe.

        Raises:
            MCPError: the server refuses or does not support it.
        """
        content = self._view_content(uri, client)

        async def watch() -> Callable[[], Awaitable[None]]:
            admitted = await content.admit_address(server, uri)
            return await content.servers.watch(admitted, uri)

        return await self._ask_with_login(client, watch)

    def on_change(self, callback: OnContent) -> Callable[[], None]:
        """Call back, in the event loop, with changed lists and resources; return a function to stop."""
        content = self.content_for(None)
        return (lambda: None) if content is None else content.lists.on_change(callback)

    def may_hear(self, change: ContentChange, principal: Principal | None) -> bool:
        """Return whether a principal may know of a change: it may list or read the content."""
        content = self.content_for(principal)
        if content is None:
            return False
        is_everywhere = not change.server  # the configuration has other servers
        return is_everywhere or content.may_hear(change, content.servers.person_key(change.server, principal))

    def person_key(self, server: str, principal: Principal | None) -> Hashable | None:
        """Return the account whose login a principal reads a server with; None if all share one."""
        content = self.content_for(principal)
        return None if content is None else content.servers.person_key(server, principal)

    async def prompts(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        """Return a page of prompts, named like tools.

        Raises:
            MCPError: no server declares any, so there is no such method.
        """
        if not self.declared(client.principal).prompts:
            raise MCPError(mcp_types.METHOD_NOT_FOUND, "no server here has prompts")
        listed, fresh = await self._list_content("prompts", client)
        items: dict[str, Prompt] = {}
        for each in listed:
            items.setdefault(self._public_name(each), each)
        return page("prompts", items, params, client.principal, partial(written, "name")) | fresh

    async def prompt(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        """Return a prompt, filled in.

        Raises:
            MCPError: there is no such prompt, or its server refuses.
        """
        name = str(params["name"])
        content = self.content_of(client)
        if content is None:
            raise _no_prompt(name)
        server, own = await self._find_prompt(content, name)
        answer = await self._request(client, server, "prompts/get", {**params, "name": own}, own)
        messages = place_messages(self._page_server(server), answer.get("messages"))
        return {**answer, "messages": messages} if "messages" in answer else answer

    async def complete(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        """Return completions for an argument of a prompt or of a resource template.

        Raises:
            MCPError: there is no such prompt or template, or its server does not complete it.
        """
        ref = params["ref"]
        if ref["type"] == "ref/prompt":
            name = str(ref["name"])
            content = self.content_of(client)
            if content is None:
                raise _no_prompt(name)
            server, own = await self._find_prompt(content, name)
            named = {**ref, "name": own}
        else:
            uri = str(ref["uri"])
            content = self._view_content(uri, client)
            found = self._find_by_address(content, uri, client.principal)
            if found is None:
                found = await self._ask_with_login(client, partial(content.server_of_template, uri)), uri
            server, own = found
            named = {**ref, "uri": own}
        return await self._request(client, server, "completion/complete", {**params, "ref": named}, own)

    async def _list_content(
        self, kind: ContentKind, client: RequestClient
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        content = self.content_of(client)
        if content is None:
            return (), {}
        return await content.list_for_client(kind)

    def content_for(self, principal: Principal | None) -> ViewContent | None:
        """Return the content visible to a principal by the current rules; None without a view."""
        return None if self._view is None else self._view.seen_by(principal).content

    def content_of(self, client: RequestClient) -> ViewContent | None:
        """Return the content visible to a client, which the servers may ask for input."""
        if self._view is None:
            return None
        return self._view.seen_by(client.principal).content_for(client.context())

    def _view_content(self, uri: str, client: RequestClient) -> ViewContent:
        content = self.content_of(client)
        if content is None:
            raise _no_resource(uri)
        return content

    async def _find_server(self, content: ViewContent, uri: str) -> str:
        """Return the server that lists a resource; if none does, the only server that has resources."""
        try:
            return await content.server_of(uri)
        except ResourceNotFoundError:
            declared = {name: content.servers.capabilities(name) for name in content.names}
            having = [name for name, each in declared.items() if each is not None and "resources" in each]
            if len(having) != 1:
                raise
            return having[0]

    async def _request(
        self,
        client: RequestClient,
        server: str,
        method: str,
        params: Mapping[str, Any],
        subject: str,
    ) -> dict[str, Any]:
        """Authorize a request of a client, send it to a server, and return the result."""
        content = self._view_content(subject, client)
        payload = {key: value for key, value in params.items() if key not in _OURS}
        is_prompt = method == "prompts/get" or payload.get("ref", {}).get("type") == "ref/prompt"

        async def ask() -> dict[str, Any]:
            if is_prompt:
                admitted = await content.admit_prompt(server, subject)
            else:
                admitted = await content.admit_address(server, subject)
            return await content.servers.request(admitted, method, payload, subject)

        answer = await self._ask_with_login(client, ask)
        if "_meta" not in answer:
            return answer
        found = content.servers.findings_in(server, answer)
        return {**answer, "_meta": foreign_meta(answer) | ({FINDINGS_KEY: found} if found else {})}

    async def _ask_with_login(self, client: RequestClient, ask: Callable[[], Awaitable[_Item]]) -> _Item:
        """Send a request to a server, and once more after a missing login of the person."""

        async def ask_logged_in() -> _Item:
            try:
                return await ask()
            except LoginRequiredError as error:
                if not await client.log_in(error):
                    raise
            return await ask()

        return await translate_errors(ask_logged_in, client.principal)

    async def _read_kept(self, uri: str, principal: Principal | None) -> dict[str, Any]:
        found = None if self._kept is None else await self._kept.find(uri, principal)
        if found is None:
            shown = uri[:_MAX_SHOWN]
            message = f"nothing is kept at {shown!r}, or it has expired; run again only what changes nothing"
            raise MCPError(mcp_types.INVALID_PARAMS, message, {"uri": shown})
        if isinstance(found.data, str):
            held = {"text": found.data}
        else:
            held = {"blob": b64encode(found.data).decode()}
        contents = [{"uri": uri, "mimeType": found.mime_type, **held}]
        return {"contents": contents, "ttlMs": _KEPT_FRESH, "cacheScope": "private"}

    def _public_name(self, prompt: Prompt) -> str:
        is_sole = self._view is not None and sole_source(self._view.settings) == prompt.server
        return prompt.name if is_sole else public_name(mend_name(prompt.server), prompt.name)

    async def _find_prompt(self, content: ViewContent, name: str) -> tuple[str, str]:
        """Return the server of a prompt, and its name at that server.

        Raises:
            MCPError: there is no prompt of this name.
        """
        sole = None if self._view is None else sole_source(self._view.settings)
        if sole is not None and sole in content.names:
            return sole, name
        parts = split_name(name)
        if parts is not None:
            server = next((each for each in content.names if mend_name(each) == parts[0]), None)
            if server is None:
                raise _no_prompt(name)
            return server, parts[1]
        found = await content.find_prompt(lambda each: self._public_name(each) == name)
        if found is None:
            raise _no_prompt(name)
        return found.server, found.name


async def translate_errors(ask: Callable[[], Awaitable[_Item]], principal: Principal | None) -> _Item:
    """Send a request to a server; convert the errors of toolcrib to errors of MCP.

    Raises:
        MCPError: the server refused, with its own error, or is unavailable.
    """
    try:
        return await ask()
    except ResourceNotFoundError as error:
        raise _no_resource(error.uri) from error
    except RequestRefusedError as error:
        cause = error.__cause__
        if isinstance(cause, MCPError):
            raise passed_error(cause) from error
        raise MCPError(mcp_types.INTERNAL_ERROR, hide_secrets(str(error))) from error
    except LoginRequiredError as error:
        reason = login_reason(hide_secrets(error.reason), principal)
        shown = LoginRequiredError(error.server, reason, url=error.url, answer=error.answer)
        raise MCPError(mcp_types.INTERNAL_ERROR, str(shown), explain(shown)) from error
    except PromptNotFoundError as error:
        raise MCPError(mcp_types.INVALID_PARAMS, str(error)) from error
    except ToolcribError as error:
        # `explain` leaves out the server's stderr, which is for the operator.
        raise MCPError(mcp_types.INTERNAL_ERROR, hide_secrets(explain(error)["message"])) from error


def _merge_settings(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the settings of an extension that several servers declare; lists are united.

    >>> _merge_settings([{}, {"mimeTypes": ["a"]}, {"mimeTypes": ["b", "a"]}])
    {'mimeTypes': ['a', 'b']}
    """
    found: dict[str, Any] = {}
    for name, value in (item for part in parts for item in part.items()):
        before = found.get(name)
        if isinstance(before, list) and isinstance(value, list):
            found[name] = [*before, *(each for each in value if each not in before)]
        else:
            found[name] = value
    return found


def _no_resource(uri: str) -> MCPError:
    shown = uri[:_MAX_SHOWN]
    return MCPError(mcp_types.INVALID_PARAMS, f"no server has a resource {shown!r}", {"uri": shown})


def _no_prompt(name: str) -> MCPError:
    return MCPError(mcp_types.INVALID_PARAMS, f"no server has a prompt {name[:_MAX_SHOWN]!r}")
