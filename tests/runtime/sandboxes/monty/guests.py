"""A sandbox with plain tools behind it, and its worker processes as seen by the system."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from runtime.workbench import deadline, descendants
from waiting import PATIENCE

from toolcrib.errors import LimitExceededError
from toolcrib.runtime import Bridge, GuestError, Job, Limits, Output, SecurityProfile
from toolcrib.runtime.sandboxes.monty import MontySandbox
from toolcrib.runtime.stubs.guest import FUNCTIONS

SMALL: dict[str, Any] = {"memory_bytes": 64 << 20, "cpu": PATIENCE}


class Tools:
    """A gateway whose tools are functions, by the second half of their names."""

    def __init__(self, **tools: Callable[..., Awaitable[Any]]) -> None:
        self._tools = tools

    async def run(self, tool_id: str, args: dict[str, Any], **_: Any) -> Any:
        return await self._tools[tool_id.partition(":")[2]](**args)

    async def search(self, query: str, *, limit: int = 10) -> Any:
        return [{"id": "box:echo", "query": query}][:limit]

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        return {"id": tool_id, "level": level}

    async def run_chain(self, steps: Sequence[Any], **_: Any) -> Any:
        return {"steps": len(steps)}


class Names:
    """Takes any name for that of a tool, but those that begin with `no`."""

    def resolve(self, path: str) -> str:
        if path.partition(".")[2].startswith("no"):
            raise GuestError("AttributeError", f"there is no tool {path!r}")
        return path.replace(".", ":")

    def parameters(self, path: str) -> Sequence[str]:
        return () if path.endswith("hang") else ("value",)


async def echo(value: Any = None) -> Any:
    return value


async def hang() -> None:
    await anyio.sleep_forever()


class Guests:
    """Runs code in one sandbox."""

    def __init__(self, sandbox: MontySandbox, **tools: Callable[..., Awaitable[Any]]) -> None:
        self.sandbox = sandbox
        self.tools = Tools(**{"echo": echo, "hang": hang, **tools})
        self.output = Output(limit=1000)
        self.bridge: Bridge | None = None

    async def run(
        self,
        code: str,
        *,
        timeout: float = PATIENCE,  # noqa: ASYNC109 - of the code
        since: Callable[[], object] | None = None,
        profile: str = "standard",
        **limits: Any,
    ) -> Any:
        """Run code; the timeout counts from the start, or from when `since` holds."""
        bounds = Limits(**SMALL | limits)
        self.output = Output(limit=1000)
        async with deadline(timeout, since) as scope:
            self.bridge = Bridge(self.tools, Names(), bounds, end=scope.cancel)
            asleep = timeout if since is None else PATIENCE
            job = Job(code, bounds, asleep, SecurityProfile(profile), ("box",), FUNCTIONS, self.output)
            with anyio.fail_after(2 * PATIENCE):
                return await self.sandbox.run(job, self.bridge)
        raise self.bridge.failure or LimitExceededError("timeout", "the deadline")


def job_of(code: str, **limits: Any) -> Job:
    """Return a job that is not run."""
    bounds = Limits(**SMALL | limits)
    return Job(code, bounds, PATIENCE, SecurityProfile.DEV, ("box",), FUNCTIONS, Output(limit=1000))


@asynccontextmanager
async def guests(*, bubblewrap: bool | None = None, workers: int = 8) -> AsyncIterator[Guests]:
    async with MontySandbox(bubblewrap=bubblewrap, workers=workers) as sandbox:
        yield Guests(sandbox)


def workers() -> list[int]:
    """Return the ids of the interpreters that this process has begun."""
    return [pid for pid, name in descendants().items() if name.startswith("monty")]


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
