"""The endpoints of a gateway: for everything and for each toolset, as the settings or the address ask."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateSecurity

from toolcrib.crib import Crib, GatewaySettings, Settings, ToolsetSettings, View
from toolcrib.crib.config.gateway import Expose
from toolcrib.execution import Principal
from toolcrib.execution.mcp.config import ContentChange
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.frontends.shared.frontend import Frontend, FrontendOf
from toolcrib.gateway.request.login import LoginRequests
from toolcrib.gateway.resources.handlers import ContentHandlers
from toolcrib.gateway.results import KeptResults

Frontends = Callable[[View, GatewaySettings, KeptResults], Frontend]
"""Makes what clients see of a view."""
_Shown = tuple[GatewaySettings, ToolsetSettings | None, object]
"""The settings of the gateway, the toolset and the policy that an endpoint was made with."""
_KEPT = 32
"""For how many sets of rules the frontends are kept."""


class Endpoints:
    """Has an endpoint for each toolset of a crib, and one for everything, which show what the settings say.

    Beside each of these there are two that show all tools, and the meta-tools. They are made when they are
    first asked for: to list all tools of a large catalogue that nobody reads takes time and memory.
    """

    def __init__(
        self,
        crib: Crib,
        frontends: Frontends,
        middleware: Sequence[ServerMiddleware[Any]] = (),
        logins: LoginRequests | None = None,
        *,
        expose: Expose | None = None,
        has_surfaces: bool = True,
    ) -> None:
        """Have none before `follow` is called.

        Args:
            crib: what is served.
            frontends: makes what clients see of a view, by the `expose` of the settings that it is given.
            middleware: is around each request.
            logins: asks persons for logins that they miss.
            expose: what clients see where the address does not say, instead of what the settings say.
            has_surfaces: whether addresses may say what clients see.
        """
        self._crib, self._frontends, self._middleware, self._logins = crib, frontends, middleware, logins
        self._expose, self._has_surfaces = expose, has_surfaces
        self._security = RequestStateSecurity.ephemeral()
        self._kept = KeptResults()
        self._here: dict[EndpointAddress, McpEndpoint] = {}
        self._shown: dict[EndpointAddress, _Shown] = {}
        self._servers: Mapping[str, object] | None = None
        self._tasks: TaskGroup | None = None

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that have one."""
        named = (at.toolset for at in self._here if at.surface is None)
        return tuple(name for name in named if name is not None)

    @property
    def sessions(self) -> int:
        """How many clients of the handshake era are there."""
        return sum(endpoint.sessions for endpoint in self._here.values())

    def has(self, address: EndpointAddress) -> bool:
        """Return whether there is an endpoint at an address, made or not."""
        return address in self._here or (self._has_surfaces and address.base in self._here)

    def find(self, address: EndpointAddress) -> McpEndpoint | None:
        """Return what clients of an address talk to; None where there is nothing."""
        if address not in self._here:
            base = self._here.get(address.base)
            if base is None or base.closed.is_set() or not self._has_surfaces:
                return None
            self._show(address, self._crib.settings)
        return self._here[address]

    def follow(self) -> None:
        """Have the endpoints that the settings ask for; those that are as they were are left alone."""
        settings = self._crib.settings
        bases = [EndpointAddress(), *map(EndpointAddress, settings.toolsets)]
        for address in [each for each in self._here if each.base not in bases]:
            self._here.pop(address).close()
            del self._shown[address]
        is_other, self._servers = self._servers not in (None, settings.servers), settings.servers
        for address in dict.fromkeys((*bases, *self._here)):
            self._show(address, settings)
            if is_other:
                for kind in ("resources", "prompts"):
                    self._here[address].note_content(ContentChange("", kind))

    def _show(self, address: EndpointAddress, settings: Settings) -> None:
        toolset = None if address.toolset is None else settings.toolsets[address.toolset]
        shown = settings.gateway, toolset, settings.policy
        if self._shown.get(address) == shown:
            return
        view = self._crib if toolset is None else self._crib.view(toolset)
        frontend = self._frontends(view, self._settings_of(address, settings), self._kept)
        description = "" if toolset is None else toolset.description
        if address in self._here:
            self._here[address].replace(frontend, description)
        else:
            self._here[address] = self._make(address, view, frontend, description)
        self._shown[address] = shown

    def _settings_of(self, address: EndpointAddress, settings: Settings) -> GatewaySettings:
        """Return the settings of an endpoint, with what its clients see."""
        toolset = settings.toolsets.get(address.toolset or "")
        own = None if toolset is None else toolset.expose
        expose = address.surface or self._expose or own or settings.gateway.expose
        return (
            settings.gateway if expose == settings.gateway.expose else settings.gateway.replace(expose=expose)
        )

    def _make(
        self, address: EndpointAddress, view: View, frontend: Frontend, description: str
    ) -> McpEndpoint:
        endpoint = McpEndpoint(
            frontend,
            name=address.name,
            description=description,
            content=ContentHandlers(view, self._kept, self._logins),
            frontend_of=self._ruled(address, view),
            gateways=view.content.servers.declared_gateways,
            security=self._security,
            middleware=self._middleware,
        )
        if self._tasks is not None:
            self._tasks.start_soon(_run, endpoint)
        return endpoint

    def _ruled(self, address: EndpointAddress, view: View) -> FrontendOf:
        """Return what makes the frontends of those who may not find everything, one for the same rules."""
        made: OrderedDict[str, tuple[Settings, Frontend]] = OrderedDict()

        def seen(principal: Principal | None, everything: Frontend) -> Frontend:
            rules, settings = view.rules, view.settings
            if rules is None:
                return everything
            key = rules.grants(principal).key
            if key not in made or made[key][0] is not settings:
                own = view.seen_by(principal or Principal())
                made[key] = settings, self._frontends(own, self._settings_of(address, settings), self._kept)
                if len(made) > _KEPT:
                    made.popitem(last=False)
            made.move_to_end(key)
            return made[key][1]

        return seen

    async def run(self, started: anyio.Event) -> None:
        """Have all endpoints tell their clients of changes, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            for endpoint in self._here.values():
                self._tasks.start_soon(_run, endpoint)
            started.set()
            await anyio.sleep_forever()

    def end_listening(self) -> None:
        """End the subscription streams."""
        for endpoint in self._here.values():
            endpoint.end_listening()

    def close(self) -> None:
        """Say of all endpoints that they are gone."""
        for endpoint in self._here.values():
            endpoint.close()


async def _run(endpoint: McpEndpoint) -> None:
    """Have an endpoint tell its clients of changes until it is closed."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(endpoint.run)
        await endpoint.closed.wait()
        tasks.cancel_scope.cancel()
