"""Real tools for code to call, a sandbox to run it in, and its processes as seen by the system."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.errors import CodeError, LimitExceededError, SandboxViolationError
from toolcrib.execution import Request
from toolcrib.model import ToolCallRecord
from toolcrib.runtime import Bridge, GuestError, Job, Limits, Output, Sandbox, SecurityProfile
from toolcrib.runtime.stubs.guest import FUNCTIONS

SECRET = "sesame-4f8a91c2d7"  # noqa: S105 - a secret that no guest may see
SMALL = {"memory_bytes": 96 << 20, "cpu": PATIENCE, "pids": 16, "disk_bytes": 4 << 20}
CUSTOMERS = {"ann": "Oslo", "bob": "Rome", "cid": "Oslo"}
NAMESPACES = ("shop", "calc", "odd")


@dataclass
class Shelf:
    """The tools, and a record of their calls."""

    crib: Crib = field(init=False)
    begun: list[str] = field(default_factory=list)
    """The keys under which `odd:hang` has begun."""
    cancelled: list[str] = field(default_factory=list)
    """The keys under which it was cancelled."""
    meetings: dict[str, tuple[list[int], anyio.Event]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.crib = Crib(policy=_allow)
        for function in (self.orders, self.customer, self.price):
            self.crib.add(function, namespace="shop")
        self.crib.add(self.add, namespace="calc")
        odd = (
            self.fail,
            self.leak,
            self.big,
            self.keep,
            self.hang,
            self.meet,
            self.secret,
            self.late,
            self.count,
        )
        for function in odd:
            self.crib.add(function, namespace="odd")

    async def search(self, query: str, *, limit: int = 10) -> Any:
        return await self.crib.search(query, limit=limit)

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        return await self.crib.describe(tool_id, level)

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        return await self.crib.run(tool_id, args, timeout=0.05 if tool_id == "odd:late" else None)

    async def run_chain(self, steps: Sequence[Any], **options: Any) -> Any:
        return await self.crib.run_chain(steps, **options)

    async def orders(self, page: int = 1) -> dict[str, Any]:
        """List the orders, two on a page."""
        numbers = range(2 * page - 1, 2 * page + 1)
        names = list(CUSTOMERS)
        items = [{"id": n, "customer": names[n % 3 - 1], "total": 10 * n} for n in numbers]
        return {"items": items, "next": page + 1 if page < 3 else None}

    async def customer(self, name: str) -> dict[str, Any]:
        """Look up a customer."""
        if name not in CUSTOMERS:
            raise LookupError(f"no customer {name!r}")
        return {"name": name, "email": f"{name}@example.org", "city": CUSTOMERS[name]}

    async def price(self, sku: str) -> float:
        """Tell the price of an article."""
        return {"fig": 2.5, "plum": 4.0}[sku]

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def count(self) -> int:
        """Count the times that a hanging call has begun."""
        return len(self.begun)

    async def fail(self, text: str) -> None:
        """Fail with these words."""
        raise RuntimeError(text)

    async def leak(self) -> None:
        """Fail with a message that must not be shown."""
        path = __file__
        raise RuntimeError(f"cannot read {path}: password={SECRET}; Bearer {SECRET}") from OSError(SECRET)

    async def big(self, size: int) -> str:
        """Return a text of this size."""
        return "x" * size

    async def keep(self, value: Any) -> Any:
        """Return the same value."""
        return value

    async def hang(self, key: str) -> None:
        """Never return."""
        self.begun.append(key)
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled.append(key)

    async def meet(self, key: str, count: int) -> int:
        """Return once so many calls are here at the same time."""
        inside, met = self.meetings.setdefault(key, ([], anyio.Event()))
        inside.append(1)
        if len(inside) == count:
            met.set()
        await met.wait()
        return count

    async def secret(self) -> str:
        """Return a value that the policy protects."""
        return SECRET

    async def late(self) -> None:
        """Take longer than the deadline allows."""
        await anyio.sleep_forever()


def _allow(request: Request) -> str | None:
    return "not for code" if request.tool.name == "secret" else None


@asynccontextmanager
async def deadline(seconds: float, since: Callable[[], object] | None) -> AsyncIterator[anyio.CancelScope]:
    """Cancel the block after a timeout, which begins now or once a condition holds."""
    if since is None:
        with anyio.move_on_after(seconds) as scope:
            yield scope
        return
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:

            async def begin() -> None:
                await until(since, "that from which the time counts")
                scope.deadline = anyio.current_time() + seconds

            tasks.start_soon(begin)
            try:
                yield scope
            except Exception as error:  # noqa: BLE001 - a task group would wrap it; it is raised below
                failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _late(timeout: float) -> LimitExceededError:
    return LimitExceededError("timeout", f"the code took longer than {timeout:g} s")


class Names:
    """Values of the names in the code: the tools of the shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._index = shelf.crib.discovery.index

    def resolve(self, path: str) -> str:
        """Return the id of a tool."""
        found = path.replace(".", ":", 1)
        if "." not in path or all(found != item.id for item in self._index.tools(limit=100).items):
            raise GuestError("AttributeError" if "." in path else "NameError", f"there is no tool {path!r}")
        return found

    def parameters(self, path: str) -> Sequence[str]:
        """Return its arguments."""
        return list(self._index.get(path.replace(".", ":", 1)).input_schema["properties"])


@dataclass(frozen=True)
class Ran:
    """The outcome of a run, as the host saw it."""

    value: Any
    stdout: str
    stderr: str
    tool_calls: tuple[ToolCallRecord, ...]


@dataclass
class Bench:
    """Runs code in one sandbox, as a runtime does."""

    sandbox: Sandbox
    shelf: Shelf = field(default_factory=Shelf)

    @property
    def profile(self) -> SecurityProfile:
        """The strongest but one that it serves, which is the usual one, or the weakest."""
        return "dev" if self.sandbox.kind == "unsafe" else "standard"

    async def run(
        self,
        code: str,
        *,
        timeout: float = PATIENCE,  # noqa: ASYNC109 - of the code
        since: Callable[[Output], object] | None = None,
        **limits: Any,
    ) -> Ran:
        """Run code; what it raises has the `Ran` so far as its result.

        `timeout` counts from the start, or from when `since` holds of what it has printed, however long
        that takes on a busy machine.
        """
        bounds = Limits(**SMALL | limits)
        output = Output(limit=bounds.output_bytes)
        names = Names(self.shelf)
        value: Any = None
        with anyio.fail_after(timeout + 2 * PATIENCE), anyio.CancelScope() as scope:
            bridge = Bridge(self.shelf, names, bounds, end=scope.cancel)
            asleep = timeout if since is None else PATIENCE
            job = Job(code, bounds, asleep, self.profile, NAMESPACES, FUNCTIONS, output)
            try:
                async with deadline(timeout, since and (lambda: since(output))) as time:
                    value = await self.sandbox.run(job, bridge)
                if time.cancelled_caught:
                    raise _late(timeout)
            except (CodeError, LimitExceededError, SandboxViolationError) as error:
                failure = bridge.failure or error
                failure.result = self._ran(None, output, bridge)  # type: ignore[attr-defined]
                raise failure from error
        if bridge.failure is not None:
            bridge.failure.result = self._ran(None, output, bridge)  # type: ignore[attr-defined]
            raise bridge.failure
        return self._ran(value, output, bridge)

    @staticmethod
    def _ran(value: Any, output: Output, bridge: Bridge) -> Ran:
        return Ran(value, output.text("stdout"), output.text("stderr"), bridge.records)


def descendants(root: int | None = None) -> dict[int, str]:
    """Return the living processes that this one, or another, has begun, by their ids, with their names."""
    parents: dict[int, tuple[int, str]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - hundreds of tests look, at every process
        with suppress(OSError), open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            name, _, rest = file.read(512).decode(errors="replace").rpartition(")")
            state, parent = rest.split(maxsplit=2)[:2]
            if state != "Z":
                parents[int(pid)] = (int(parent), name.partition("(")[2])
    found: dict[int, str] = {}
    front = {root or os.getpid()}
    while front:
        front = {pid for pid, (parent, _) in parents.items() if parent in front}
        found |= {pid: parents[pid][1] for pid in front}
    return found


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a path per descriptor would open some


def resident(*pids: int) -> int:
    """Return how many bytes of memory processes hold."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total
