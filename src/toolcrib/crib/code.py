"""Runs code that calls the tools of a crib, in sandboxes that are kept warm."""

from collections.abc import Hashable, Sequence

import anyio

from toolcrib.crib.visible import CodeNames, Ref
from toolcrib.discovery import Result, Summary
from toolcrib.execution import Principal
from toolcrib.model.protocols import Journal, ToolGateway
from toolcrib.runtime import ExecuteRequest, ExecuteResult, Runtime, Sandbox

CODE = Principal(client="code")
"""Who calls where code does, and nobody says who runs it."""
Named = Ref | Summary | Result
"""What a tool may be named by: its id, itself, or what a list or a search gives."""


class Sandboxes:
    """The sandboxes of a crib and of all its views, kept warm from their first use until they are closed."""

    def __init__(self, given: Sequence[Sandbox] = ()) -> None:
        """Have the built-in sandboxes, and the given ones in place of those of their kinds."""
        self._given = given
        self._runtime: Runtime | None = None
        self._starting = anyio.Lock()

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
        """Run code that calls the tools of a gateway, once the servers that it mentions have listed theirs.

        `keep` says whether the sandboxes are kept for the next run; somebody has to close them then. A run
        with a journal is durable.
        """

        def serve(runtime: Runtime) -> Runtime:
            return runtime.serving(gateway, names, allow_unsafe=allow_unsafe, prepare=names.wait_for_code)

        if keep:
            shared = await self._shared_runtime(gateway)
            return await serve(shared).execute(request, caller=caller, journal=journal)
        async with Runtime(gateway, sandboxes=self._given) as runtime:
            return await serve(runtime).execute(request, journal=journal)

    async def _shared_runtime(self, gateway: ToolGateway) -> Runtime:
        """Return the runtime that has them; the first gateway that it is asked for with is its own."""
        async with self._starting:
            if self._runtime is None:
                self._runtime = await Runtime(gateway, sandboxes=self._given).__aenter__()
        return self._runtime

    async def close(self) -> None:
        """End every sandbox."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.__aexit__(None, None, None)
