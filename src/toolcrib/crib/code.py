"""Runs code that calls the tools of a crib, in warm sandboxes."""

from collections.abc import Hashable, Iterable, Sequence
from contextlib import AsyncExitStack

import anyio

from toolcrib.crib.visible import CodeNames, Ref
from toolcrib.discovery import Result, Summary
from toolcrib.execution import Principal
from toolcrib.model.protocols import Journal, ToolGateway
from toolcrib.runtime import ExecuteRequest, ExecuteResult, Runtime, Sandbox
from toolcrib.runtime.registry import make_sandbox

CODE = Principal(client="code")
"""Default principal of calls made by code."""
Named = Ref | Summary | Result
"""A reference to a tool, or an entry of a list or a search result."""


class Sandboxes:
    """The sandboxes of a crib and its views; warm from their first use until `close`."""

    def __init__(self, given: Sequence[Sandbox] = ()) -> None:
        """Use the built-in sandboxes; a given one replaces the built-in one of its kind."""
        self._given = given
        self._runtime: Runtime | None = None
        self._starting = anyio.Lock()

    def list_available(self, kinds: Iterable[str]) -> list[str]:
        """Return which of these kinds can run here; blocks, since some start a program to find out."""
        given = {sandbox.kind: sandbox for sandbox in self._given}
        found = [*dict.fromkeys([*given, *kinds])]
        return [
            kind for kind in found if (given.get(kind) or make_sandbox(kind)).info().details.get("available")
        ]

    async def execute(  # noqa: PLR0913 - the code, the tools that it may call, and how it is run
        self,
        request: ExecuteRequest,
        gateway: ToolGateway,
        names: CodeNames,
        *,
        caller: Hashable = None,
        allow_unsafe: bool,
        keep: bool,
        journal: Journal | None = None,
    ) -> ExecuteResult:
        """Run code that calls the tools of a gateway, after the servers that it mentions have listed theirs.

        With `keep`, the sandboxes are kept for the next run, until `close`. A run with a journal is durable.
        """
        async with AsyncExitStack() as stack:
            if keep:
                runtime = await self._shared_runtime(gateway)
            else:
                runtime = await stack.enter_async_context(Runtime(gateway, sandboxes=self._given))
            serving = runtime.serving(gateway, names, allow_unsafe=allow_unsafe, prepare=names.wait_for_code)
            return await serving.execute(request, caller=caller, journal=journal)

    async def _shared_runtime(self, gateway: ToolGateway) -> Runtime:
        """Return the runtime of the warm sandboxes; each run then sets its own gateway by `serving`."""
        async with self._starting:
            if self._runtime is None:
                self._runtime = await Runtime(gateway, sandboxes=self._given).__aenter__()
        return self._runtime

    async def close(self) -> None:
        """Close all sandboxes."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.__aexit__(None, None, None)
