"""Keeping what is known of a server's tools as its listing has them, while a connection lives."""

import logging
from typing import Any

import anyio
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.faults import reason_of
from toolcrib.execution.mcp.hooks import OnTools
from toolcrib.execution.mcp.link import Link
from toolcrib.execution.mcp.listing import Catalogue, all_definitions, read_definitions

__all__ = ["Following"]

_log = logging.getLogger(__name__)

_GATHER = 0.05
"""Seconds to wait after a change for those that come with it."""
_SHARE = 4
"""A server that always changes is listed for a fifth of the time at most."""
_LONGEST_GATHER = 0.5
_FIRST_RETRY = 0.1
"""Seconds to leave a server alone whose listing failed, though it says that its tools have changed again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_DOUBLINGS = 30
"""Enough to reach the longest pause; the exponent must not grow for ever."""


class _Round:
    """One listing that several may wait for."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.catalogue: Catalogue | None = None
        self.failure: Exception | None = None


class Following:
    """The tools of one server, across all its connections."""

    def __init__(self, server: str, on_tools: OnTools | None) -> None:
        self._server = server
        self._on_tools = on_tools
        self._wanted = anyio.Event()
        self._asked = anyio.Event()
        self._failures = 0
        self._round = _Round()
        self._listed = 0.0
        self.catalogue: Catalogue | None = None
        """What the last complete listing gave."""

    @property
    def age(self) -> float | None:
        """Return how many seconds ago the last complete listing was."""
        return None if self.catalogue is None else anyio.current_time() - self._listed

    def mute(self) -> None:
        """Tell nobody of the tools any more."""
        self._on_tools = None

    def changed(self) -> None:
        """Note that the server says its tools have changed."""
        self._wanted.set()

    @property
    def busy(self) -> bool:
        """Return whether somebody waits for a listing."""
        return self._asked.is_set()

    async def fresh(self) -> Catalogue:
        """Return what a listing gives that is under way, or else is begun; it needs somebody who follows.

        Raises:
            ServerUnavailableError: it cannot be listed.
        """
        current = self._round
        self._asked.set()
        self._wanted.set()
        await current.done.wait()
        if current.catalogue is None:
            failure = current.failure or RuntimeError("it was not listed")
            reason = f"its tools cannot be listed: {reason_of(failure)}"
            raise ServerUnavailableError(self._server, reason) from failure
        return current.catalogue

    def over(self, failure: Exception) -> None:
        """Tell those who wait for a listing that there will be none."""
        if self.busy:
            self._settle(None, failure)

    async def follow(self, link: Link, *, within: float) -> None:
        """List a server when somebody asks for it, and when its tools have changed, until cancelled.

        A listing may take `within` seconds. With somebody to tell, the first is made at once. Those that a
        server brings about by its changes come after a pause, which grows while its listings fail.
        """
        if self._on_tools is not None:
            self._wanted.set()
        pause = 0.0 if self.catalogue is None else _GATHER
        while True:
            await self._wanted.wait()
            with anyio.move_on_after(pause):
                await self._asked.wait()
            self._wanted = anyio.Event()
            began = anyio.current_time()
            try:
                with anyio.fail_after(within):
                    self.catalogue = await self._list(link)
            except (MCPError, TimeoutError, ValueError) as error:
                pause = self._failed(error)
            else:
                self._failures, link.listed = 0, True
                self._listed = anyio.current_time()
                self._tell(self.catalogue)
                self._settle(self.catalogue, None)
                pause = min(_LONGEST_GATHER, max(_GATHER, _SHARE * (anyio.current_time() - began)))

    def _failed(self, error: Exception) -> float:
        """Tell that a listing failed, and return the seconds to wait before the next."""
        pause = min(_LONGEST_PAUSE, _FIRST_RETRY * 2.0 ** min(self._failures, _DOUBLINGS))
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:  # ever more rarely: a failure that lasts says nothing
            count = f" ({self._failures} times in a row)" if self._failures > 1 else ""
            _log.warning(
                "the tools of server %r cannot be listed%s: %s", self._server, count, reason_of(error)
            )
        self._settle(None, error)
        return pause

    async def _list(self, link: Link) -> Catalogue:
        async def page(cursor: str | None) -> dict[str, Any]:
            try:
                return await link.request("tools/list", {} if cursor is None else {"cursor": cursor})
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND and cursor is None:
                    return {"tools": []}  # a server that has resources or prompts alone
                raise

        return await read_definitions(await all_definitions(page), self._server)

    def _tell(self, catalogue: Catalogue) -> None:
        if self._on_tools is None:
            return
        try:
            self._on_tools(self._server, catalogue.tools)
        except Exception:  # noqa: BLE001 - it is the user's code, and must not cost the connection
            _log.exception("on_tools failed for server %r", self._server)

    def _settle(self, catalogue: Catalogue | None, failure: Exception | None) -> None:
        ended, self._round, self._asked = self._round, _Round(), anyio.Event()
        ended.catalogue, ended.failure = catalogue, failure
        ended.done.set()

    async def subscribe(self, link: Link) -> None:
        """Hear of changes from a server of the stateless era, which tells only those who listen."""
        capabilities = link.session.server_capabilities
        if not link.modern or not (capabilities and capabilities.tools and capabilities.tools.list_changed):
            return
        pause, missed = _FIRST_PAUSE, False
        while True:
            try:
                async with listen(link.session, tools_list_changed=True) as events:
                    pause = _FIRST_PAUSE
                    if missed:
                        self.changed()
                    async for _ in events:
                        self.changed()
            except MCPError as error:
                _log.debug("server %r tells no changes: %s", self._server, error)
                if error.code == METHOD_NOT_FOUND:
                    return
            except SubscriptionLost:
                _log.debug("server %r stopped telling changes; listening again", self._server)
            missed = True  # what happens until it is heard again
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
