"""The endpoints of a gateway: for all tools and for each toolset, with the frontend that each shows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateSecurity

from toolcrib.crib import Crib, GatewaySettings, Settings, ToolsetSettings, View
from toolcrib.crib.config.gateway import Expose
from toolcrib.execution.entries import SharedEntries
from toolcrib.execution.mcp.config import ContentChange
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.frontends.beside import ToolsBeside
from toolcrib.gateway.frontends.shared.frontend import Frontend
from toolcrib.gateway.request.client import ObtainLogin
from toolcrib.gateway.resources.handlers import ContentHandlers
from toolcrib.gateway.results import KeptResults
from toolcrib.gateway.workers.supervisor import Worker
from toolcrib.model import ToolId
from toolcrib.model.shape import ToolShape

Frontends = Callable[[View, GatewaySettings, KeptResults], Frontend]
"""Creates the frontend of a view."""
_Shown = tuple[GatewaySettings, ToolsetSettings | None, object]
"""The settings of the gateway, the toolset and the policy that an endpoint was created with."""


class Endpoints:
    """The endpoints of a crib: one for all tools and one for each toolset, with the frontend of the settings.

    Each of these has two more, which list the tools themselves and the meta-tools. They are created when they
    are first used: to list all tools of a large catalogue takes time and memory.
    """

    def __init__(  # noqa: PLR0913 - parts that only the gateway combines
        self,
        crib: Crib,
        frontends: Frontends,
        middleware: Sequence[ServerMiddleware[Any]] = (),
        obtain_login: ObtainLogin | None = None,
        *,
        expose: Expose | None = None,
        has_surfaces: bool = True,
        worker: Worker | None = None,
        entries: SharedEntries | None = None,
    ) -> None:
        """Have no endpoints before `follow` is called.

        Args:
            crib: what is served.
            frontends: creates the frontend of a view, by the `expose` of the given settings.
            middleware: wraps each request.
            obtain_login: obtains a login of a person that a request needs.
            expose: replaces the `expose` of the settings.
            has_surfaces: whether addresses may choose the frontend.
            worker: this process, if several serve the same address.
            entries: what these share.
        """
        self._crib, self._frontends, self._middleware = crib, frontends, middleware
        self._obtain_login = obtain_login
        self._expose, self._has_surfaces = expose, has_surfaces
        key = crib.shared_key or (None if worker is None else worker.key)
        self._worker, self._is_shared = worker, key is not None
        self._shared: Callable[[], SharedEntries | None] = lambda: crib.shared_store or entries
        self._security = RequestStateSecurity.ephemeral() if key is None else RequestStateSecurity(keys=[key])
        self._kept = KeptResults(shared=self._shared)
        self._here: dict[EndpointAddress, McpEndpoint] = {}
        self._shown: dict[EndpointAddress, _Shown] = {}
        self._servers: Mapping[str, object] | None = None
        self._tasks: TaskGroup | None = None

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that have an endpoint."""
        named = (at.toolset for at in self._here if at.surface is None)
        return tuple(name for name in named if name is not None)

    @property
    def sessions(self) -> int:
        """Number of connected clients of the handshake era."""
        return sum(endpoint.sessions for endpoint in self._here.values())

    def has(self, address: EndpointAddress) -> bool:
        """Return whether an address has an endpoint, created or not."""
        return address in self._here or (self._has_surfaces and address.base in self._here)

    def find(self, address: EndpointAddress) -> McpEndpoint | None:
        """Return the endpoint at an address, created if needed; None if there is none."""
        if address not in self._here:
            base = self._here.get(address.base)
            if base is None or base.closed.is_set() or not self._has_surfaces:
                return None
            self._update_endpoint(address, self._crib.settings)
        return self._here[address]

    def follow(self) -> None:
        """Update the endpoints to the settings; unchanged ones are left alone."""
        settings = self._crib.settings
        bases = [EndpointAddress(), *map(EndpointAddress, settings.toolsets)]
        for address in [each for each in self._here if each.base not in bases]:
            self._here.pop(address).close()
            del self._shown[address]
        is_other, self._servers = self._servers not in (None, settings.servers), settings.servers
        for address in dict.fromkeys((*bases, *self._here)):
            self._update_endpoint(address, settings)
            if is_other:
                for kind in ("resources", "prompts"):
                    self._here[address].note_content(ContentChange("", kind))

    def _update_endpoint(self, address: EndpointAddress, settings: Settings) -> None:
        toolset = None if address.toolset is None else settings.toolsets[address.toolset]
        shown = settings.gateway, toolset, settings.policy
        if self._shown.get(address) == shown:
            return
        view = self._crib if toolset is None else self._crib.view(toolset)
        frontend = self._make_frontend(address, view)
        description = "" if toolset is None else toolset.description
        if address in self._here:
            self._here[address].replace(frontend, description)
        else:
            self._here[address] = self._make_endpoint(address, view, frontend, description)
        self._shown[address] = shown

    def _make_frontend(self, address: EndpointAddress, view: View) -> Frontend:
        """Make what clients of an endpoint see of a view, by the settings that hold now."""
        settings = self._settings_of(address, self._crib.settings)
        toolset = self._crib.settings.toolsets.get(address.toolset or "")
        shapes = {} if toolset is None else toolset.tools
        pinned = [seen_id(tool_id, shape) for tool_id, shape in shapes.items() if shape.pin]
        main = self._frontends(view, settings, self._kept)
        if not (pinned or settings.content_tools or settings.plain_schemas):
            return main
        return ToolsBeside(main, view, settings, pinned=pinned, kept=self._kept)

    def _settings_of(self, address: EndpointAddress, settings: Settings) -> GatewaySettings:
        """Return the settings of an endpoint, with the `expose` of its address."""
        toolset = settings.toolsets.get(address.toolset or "")
        gateway, own = settings.gateway, toolset or ToolsetSettings()
        wanted = {
            "expose": address.surface or self._expose or own.expose,
            "content_tools": own.content_tools,
            "plain_schemas": own.plain_schemas,
        }
        changed = {
            name: value
            for name, value in wanted.items()
            if value is not None and value != getattr(gateway, name)
        }
        return gateway.replace(**changed) if changed else gateway

    def _make_endpoint(
        self, address: EndpointAddress, view: View, frontend: Frontend, description: str
    ) -> McpEndpoint:
        endpoint = McpEndpoint(
            frontend,
            name=address.name,
            description=description,
            content=ContentHandlers(view, self._kept),
            obtain_login=self._obtain_login,
            view=view,
            make_frontend=partial(self._make_frontend, address),
            gateways=view.content.servers.declared_gateways,
            security=self._security,
            shared=self._shared,
            worker=None if self._worker is None else self._worker.number,
            restores_sessions=self._is_shared,
            middleware=self._middleware,
        )
        if self._tasks is not None:
            self._tasks.start_soon(_run_endpoint, endpoint)
        return endpoint

    async def run(self, started: anyio.Event) -> None:
        """Run all endpoints, which notify their clients of changes, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            for endpoint in self._here.values():
                self._tasks.start_soon(_run_endpoint, endpoint)
            started.set()
            await anyio.sleep_forever()

    def end_listening(self) -> None:
        """End the subscription streams."""
        for endpoint in self._here.values():
            endpoint.end_listening()

    def close(self) -> None:
        """Close all endpoints."""
        for endpoint in self._here.values():
            endpoint.close()


def seen_id(tool_id: str, shape: ToolShape) -> str:
    """Return the id by which the callers of a toolset know a tool.

    >>> seen_id("github:create_issue", ToolShape(name="file_bug"))
    'github:file_bug'
    """
    own = ToolId.parse(tool_id)
    return str(ToolId(own.namespace, shape.name or own.name, own.version))


async def _run_endpoint(endpoint: McpEndpoint) -> None:
    """Run an endpoint until it is closed."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(endpoint.run)
        await endpoint.closed.wait()
        tasks.cancel_scope.cancel()
