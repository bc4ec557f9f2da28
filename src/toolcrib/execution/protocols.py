"""Protocols of the parts that a runner is composed of."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from toolcrib.execution.call import Answer, Call, Outcome, Request
from toolcrib.execution.principal import Principal
from toolcrib.model.backend import ToolBackend
from toolcrib.model.tool import Tool


@runtime_checkable
class Executor(Protocol):
    """Runs the tools of one kind of backend.

    `call` returns the answer, or raises a `ToolError`: `ToolExecutionError` where the tool itself failed,
    `BackendUnavailableError` where it could not be reached or went away, with `sent=False` only where the
    call certainly never arrived, and `ToolCancelledError` where somebody other than the caller broke it off.
    Any other exception is a mistake of the executor, and is reported as a `ToolExecutionError`.

    Cancelling `call` stops the tool, or tells it to stop, before the cancellation goes on; deadlines are
    cancellations. Updates go to `call.emit` while the tool runs, never after `call` has returned or raised.
    The arguments are read only. Executors are safe to use from many tasks of one event loop at once, and one
    failing call never harms another.
    """

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why this backend cannot run here at all, such as a name nobody knows; None if it can."""
        ...

    async def call(self, call: Call) -> Answer:
        """Run the tool on `call.backend` and return what it gave."""
        ...


@runtime_checkable
class ProviderExecutor(Protocol):
    """Runs the tools of one provider; the contract of `Executor.call` holds.

    `call.backend` is a `ProviderBackend`, whose `tool_id` is the provider's own name for the tool. One that
    has an attribute `streams` which is false is not called for a stream: that ends with a
    `StreamNotSupportedError`.
    """

    async def call(self, call: Call) -> Answer:
        """Run the tool and return what it gave."""
        ...


Next = Callable[[Call], Awaitable[Answer]]
"""The rest of a call's way to its backend."""


class Middleware(Protocol):
    """Stands around one call to one backend: it may answer itself, wait, or go on more than once.

    It is called with the call and the rest of the way, under the deadline of the caller, and is safe to use
    from many tasks at once. What it raises is what the caller gets.
    """

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer to a call."""
        ...


@dataclass(frozen=True, slots=True)
class Allowed:
    """A policy's yes, with the name of the rule that says so, for the audit."""

    rule: str


Policy = Callable[[Request], Any]
"""Says whether a request may run, sync or async: None, True or `Allowed` allows it, False or a reason as text
refuses it, and so does raising; a policy that fails refuses."""

Selector = Callable[[Tool, Sequence[ToolBackend]], ToolBackend | Sequence[ToolBackend]]
"""Chooses among the backends of a tool: one of them, or several in the order in which to try them."""


class Observer(Protocol):
    """Watches calls; it may not change them, and must not block.

    `begin` is called with the reference and the caller before anything else happens, and the callback that it
    returns exactly once when that call has ended, in the same task. Exceptions of both are logged and have no
    other effect.
    """

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None] | None:
        """Observe that a call begins; return the callback for its end, or None if it is not observed."""
        ...
