"""Protocols of the parts of a runner."""

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

    `call` returns the answer, or raises a `ToolError`: `ToolExecutionError` if the tool itself failed,
    `BackendUnavailableError` if the backend could not be reached or closed the connection (with `sent=False`
    only if the call certainly never arrived), and `ToolCancelledError` if something other than the caller
    cancelled it. Any other exception is a bug in the executor, and is reported as a `ToolExecutionError`.

    Cancelling `call` stops the tool, or asks it to stop, before the cancellation propagates; deadlines are
    cancellations. Updates go to `call.emit` while the tool runs, never after `call` has returned or raised.
    The arguments must not be changed. Executors must be safe for many tasks of one event loop, and a failing
    call must not affect another.
    """

    def missing(self, backend: ToolBackend) -> str | None:
        """Return the reason why a backend cannot run here, such as an unknown name; None if it can."""
        ...

    async def call(self, call: Call) -> Answer:
        """Run the tool on `call.backend` and return its answer."""
        ...


@runtime_checkable
class ProviderExecutor(Protocol):
    """Runs the tools of one provider; the contract of `Executor.call` holds.

    `call.backend` is a `ProviderBackend`, whose `tool_id` is the name of the tool at the provider. An
    executor with a false attribute `streams` is not called for streams, which then fail with
    `StreamNotSupportedError`.
    """

    async def call(self, call: Call) -> Answer:
        """Run the tool and return its answer."""
        ...


Next = Callable[[Call], Awaitable[Answer]]
"""The rest of the middleware chain, with the executor at its end."""


class Middleware(Protocol):
    """Wraps each call to a backend: it may answer itself, wait, or call the rest of the chain several times.

    It is called with the call and the rest of the chain, under the deadline of the caller, and must be safe
    for many tasks at once. Its exceptions go to the caller.
    """

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer to a call."""
        ...


@dataclass(frozen=True, slots=True)
class Allowed:
    """The consent of a policy, with the name of its rule for the audit."""

    rule: str


Policy = Callable[[Request], Any]
"""Decides whether a request may run; sync or async. None, True or `Allowed` allows it; False, a reason as
text, or any exception refuses it."""

Selector = Callable[[Tool, Sequence[ToolBackend]], ToolBackend | Sequence[ToolBackend]]
"""Chooses one of the backends of a tool, or several in the order in which to try them."""


class Observer(Protocol):
    """Observes calls; it cannot change them, and must not block.

    `begin` is called with the reference and the caller before anything else. The callback that it returns is
    called exactly once when that call has ended, in the same task. Exceptions from either are only logged.
    """

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None] | None:
        """Observe that a call begins; return the callback for its end, or None if it is not observed."""
        ...
