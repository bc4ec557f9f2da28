"""The endpoints of a gateway: one for everything, and one for each toolset, as the settings ask for them."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateSecurity

from toolcrib.crib import Crib, GatewaySettings, Settings, ToolsetSettings, View
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.frontend import Frontend
from toolcrib.gateway.results import KeptResults

__all__ = ["Endpoints", "Frontends"]

Frontends = Callable[[View, GatewaySettings, KeptResults], Frontend]
"""Makes what clients see of a view."""
_Shown = tuple[GatewaySettings, ToolsetSettings | None]


class Endpoints:
    """Has an endpoint for each toolset of a crib, and one for everything, which is called None."""

    def __init__(
        self, crib: Crib, frontends: Frontends, middleware: Sequence[ServerMiddleware[Any]] = ()
    ) -> None:
        """Have none before `follow` is called."""
        self._crib, self._frontends, self._middleware = crib, frontends, middleware
        self._security = RequestStateSecurity.ephemeral()
        self._kept = KeptResults()
        self._here: dict[str | None, McpEndpoint] = {}
        self._shown: dict[str | None, _Shown] = {}
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
        for name, toolset in wanted.items():
            self._show(name, toolset, settings)

    def _show(self, name: str | None, toolset: ToolsetSettings | None, settings: Settings) -> None:
        shown = settings.gateway, toolset
        if self._shown.get(name) == shown:
            return
        view = self._crib if toolset is None else self._crib.view(toolset)
        frontend = self._frontends(view, settings.gateway, self._kept)
        description = "" if toolset is None else toolset.description
        if name in self._here:
            self._here[name].replace(frontend, description)
        else:
            self._here[name] = self._make(name, frontend, description)
        self._shown[name] = shown

    def _make(self, name: str | None, frontend: Frontend, description: str) -> McpEndpoint:
        endpoint = McpEndpoint(
            frontend,
            name=name or "",
            description=description,
            kept=self._kept,
            security=self._security,
            middleware=self._middleware,
        )
        if self._tasks is not None:
            self._tasks.start_soon(_run, endpoint)
        return endpoint

    async def run(self, started: anyio.Event) -> None:
        """Have all endpoints tell their clients of changes, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            for endpoint in self._here.values():
                self._tasks.start_soon(_run, endpoint)
            started.set()
            await anyio.sleep_forever()

    def end_listening(self) -> None:
        """End the streams that carry news alone."""
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
