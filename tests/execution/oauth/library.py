"""An MCP server with different resources, prompts and completion for each account."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import mcp_types
from execution.oauth.accounts import Accounts
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

SHARED = "notes://me"
"""An address that every account has, each with other contents."""
ASKING = "notes://asking"
"""An address that every account has, which asks in the way of the handshake era before it is read."""
_Context = ServerRequestContext[Any, Any]


class _Telling(Server[Any]):
    """Declares that it tells when its resources change."""

    def get_capabilities(self, *args: Any, **options: Any) -> mcp_types.ServerCapabilities:
        capabilities = super().get_capabilities(*args, **options)
        capabilities.resources = mcp_types.ResourcesCapability(subscribe=True, list_changed=True)
        return capabilities


@dataclass
class Library(Accounts):
    """Lists and reads the content of each request's account, by the last word of its name."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    """The owner and the method of each request for content."""
    buses: dict[str, InMemorySubscriptionBus] = field(
        default_factory=lambda: defaultdict(InMemorySubscriptionBus)
    )
    subscribed: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """The sessions of each owner that subscribed to changes."""

    def mcp_app(self) -> Any:
        """Return the MCP server."""
        server = _Telling(
            "library",
            on_list_tools=self._tools,
            on_call_tool=self._touch,
            on_list_resources=self._resources,
            on_list_resource_templates=self._templates,
            on_read_resource=self._read,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_completion=self._complete,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
        )
        return self.guard(server.streamable_http_app())

    def _owner(self, context: _Context, method: str) -> str:
        assert context.request is not None
        token = context.request.headers["authorization"].removeprefix("Bearer ")
        owner = self.accounts[token].split()[-1]
        self.requests.append((owner, method))
        return owner

    async def _tools(self, _: _Context, __: Any) -> mcp_types.ListToolsResult:
        tool = mcp_types.Tool(name="touch", input_schema={"type": "object"})
        return mcp_types.ListToolsResult(tools=[tool])

    async def _touch(self, context: _Context, _: Any) -> mcp_types.CallToolResult:
        """Announce a change of the account's content."""
        owner = self._owner(context, "tools/call")
        for session in self.subscribed[owner]:
            await session.send_resource_updated(SHARED)
            await session.send_resource_list_changed()
        for event in (ResourceUpdated(SHARED), ResourcesListChanged()):
            await self.buses[owner].publish(event)
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=owner)])

    async def _resources(self, context: _Context, _: Any) -> mcp_types.ListResourcesResult:
        uris = (SHARED, f"notes://{self._owner(context, 'resources/list')}/diary")
        listed = [mcp_types.Resource(uri=uri, name=uri) for uri in uris]
        return mcp_types.ListResourcesResult(resources=listed)

    async def _templates(self, context: _Context, _: Any) -> mcp_types.ListResourceTemplatesResult:
        uri = f"notes://{self._owner(context, 'resources/templates/list')}/pages/{{page}}"
        template = mcp_types.ResourceTemplate(uri_template=uri, name="pages")
        return mcp_types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read(
        self, context: _Context, params: mcp_types.ReadResourceRequestParams
    ) -> mcp_types.ReadResourceResult:
        text = f"{params.uri} of {self._owner(context, 'resources/read')}"
        if params.uri == ASKING:
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            reply = await context.session.elicit_form("Who?", schema, context.request_id)
            text = f"{(reply.content or {}).get('name')} {text}"
        contents = mcp_types.TextResourceContents(uri=params.uri, text=text)
        return mcp_types.ReadResourceResult(contents=[contents])

    async def _prompts(self, context: _Context, _: Any) -> mcp_types.ListPromptsResult:
        names = ("greet", f"greet_{self._owner(context, 'prompts/list')}")
        return mcp_types.ListPromptsResult(prompts=[mcp_types.Prompt(name=name) for name in names])

    async def _prompt(
        self, context: _Context, params: mcp_types.GetPromptRequestParams
    ) -> mcp_types.GetPromptResult:
        text = mcp_types.TextContent(text=f"{params.name} of {self._owner(context, 'prompts/get')}")
        return mcp_types.GetPromptResult(messages=[mcp_types.PromptMessage(role="user", content=text)])

    async def _complete(self, context: _Context, _: Any) -> mcp_types.CompleteResult:
        value = f"of {self._owner(context, 'completion/complete')}"
        return mcp_types.CompleteResult(completion=mcp_types.Completion(values=[value]))

    async def _subscribe(self, context: _Context, _: Any) -> mcp_types.EmptyResult:
        self.subscribed[self._owner(context, "resources/subscribe")].append(context.session)
        return mcp_types.EmptyResult()

    async def _unsubscribe(self, context: _Context, _: Any) -> mcp_types.EmptyResult:
        self._owner(context, "resources/unsubscribe")
        return mcp_types.EmptyResult()

    async def _listen(self, context: _Context, params: Any) -> mcp_types.SubscriptionsListenResult:
        bus = self.buses[self._owner(context, "subscriptions/listen")]
        return await ListenHandler(bus)(context, params)
