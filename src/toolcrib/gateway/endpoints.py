"""The endpoints of a gateway: one for everything, and one for each toolset, as the settings ask for them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateSecurity

from toolcrib.crib import Crib, GatewaySettings, Settings, ToolsetSettings, View
from toolcrib.execution import Principal
from toolcrib.execution.mcp.config import ContentChange
from toolcrib.gateway.clients.login import LoginRequests
from toolcrib.gateway.content.handlers import ContentHandlers
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.frontend import Frontend, FrontendOf
from toolcrib.gateway.results import KeptResults

__all__ = ["Endpoints", "Frontends"]

Frontends = Callable[[View, GatewaySettings, KeptResults], Frontend]
"""Makes what clients see of a view."""
_Shown = tuple[GatewaySettings, ToolsetSettings | None, object]
"""The settings of the gateway, the toolset and the policy that an endpoint was made with."""
_KEPT = 32
"""For how many sets of rules the frontends are kept."""


class Endpoints:
    """Has an endpoint for each toolset of a crib, and one for everything, which is called None."""

    def __init__(
        self,
        crib: Crib,
        frontends: Frontends,
        middleware: Sequence[ServerMiddleware[Any]] = (),
        logins: LoginRequests | None = None,
    ) -> None:
        """Have none before `follow` is called; `logins` asks persons for logins that they miss."""
        self._crib, self._frontends, self._middleware, self._logins = crib, frontends, middleware, logins
        self._security = RequestStateSecurity.ephemeral()
        self._kept = KeptResults()
        self._here: dict[str | None, McpEndpoint] = {}
        self._shown: dict[str | None, _Shown] = {}
        self._servers: Mapping[str, object] | None = None
        self._tasks: TaskGroup | None = None

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that have one."""
        return tuple(name for name in self._here if name is not None)

    @property
    def sessions(self) -> int:
        """How many clients of the handshake era are there."""
        return sum(endpoint.sessions for endpoint in self._here.values())

    def find(self, toolset: str | None) -> McpEndpoint | None:
        """Return what clients of a toolset, or of everything, talk to; None where there is none."""
        return self._here.get(toolset)

    def follow(self) -> None:
        """Have the endpoints that the settings ask for; those that are as they were are left alone."""
        settings = self._crib.settings
        wanted: dict[str | None, ToolsetSettings | None] = {None: None}
        wanted.update(settings.toolsets)
        for name in [name for name in self._here if name not in wanted]:
            self._here.pop(name).close()
            del self._shown[name]
        is_other, self._servers = self._servers not in (None, settings.servers), settings.servers
        for name, toolset in wanted.items():
            self._show(name, toolset, settings)
            if is_other:
                for kind in ("resources", "prompts"):
                    self._here[name].note_content(ContentChange("", kind))

    def _show(self, name: str | None, toolset: ToolsetSettings | None, settings: Settings) -> None:
        shown = settings.gateway, toolset, settings.policy
        if self._shown.get(name) == shown:
            return
        view = self._crib if toolset is None else self._crib.view(toolset)
        frontend = self._frontends(view, settings.gateway, self._kept)
        description = "" if toolset is None else toolset.description
        if name in self._here:
            self._here[name].replace(frontend, description)
        else:
            self._here[name] = self._make(name, view, frontend, description)
        self._shown[name] = shown

    def _make(self, name: str | None, view: View, frontend: Frontend, description: str) -> McpEndpoint:
        endpoint = McpEndpoint(
            frontend,
            name=name or "",
            description=description,
            content=ContentHandlers(view, self._kept, self._logins),
            frontend_of=self._ruled(view),
            security=self._security,
            middleware=self._middleware,
        )
        if self._tasks is not None:
            self._tasks.start_soon(_run, endpoint)
        return endpoint

    def _ruled(self, view: View) -> FrontendOf:
        """Return what makes the frontends of those who may not find everything, one for the same rules."""
        made: OrderedDict[str, tuple[GatewaySettings, Frontend]] = OrderedDict()

        def seen(principal: Principal | None, everything: Frontend) -> Frontend:
            rules, settings = view.rules, view.settings.gateway
            if rules is None:
                return everything
            key = rules.grants(principal).key
            if key not in made or made[key][0] is not settings:
                own = view.seen_by(principal or Principal())
                made[key] = settings, self._frontends(own, settings, self._kept)
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
