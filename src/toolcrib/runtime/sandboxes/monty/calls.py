"""The calls of one run in the Monty engine.

The engine starts every call as its own task on the host's event loop, and does not end it with the guest.
`Calls` therefore keeps the cancel scope of each: `close` cancels them all and waits for them.

A call that must end the run, because a limit is exceeded, raises nothing in the guest, which could catch it.
It cancels the run, and then sleeps until it is cancelled itself.
"""

import builtins
import logging
import re
from collections.abc import Callable, Collection, Coroutine
from keyword import iskeyword
from typing import Any

import anyio

from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.sandboxes.monty.values import read_call

_LOG = logging.getLogger("toolcrib.runtime")
_CANCEL_TIMEOUT = 1.0
"""Seconds that cancelled calls have to end, before they are abandoned."""
_QUOTED = re.compile(r"""['"]([^\W\d]\w{0,199})['"]""")
CALL_FUNCTION = "__toolcrib_call"
"""The name of the host's one function."""
_PRELUDE = f"""\
class ToolNamespace:
    pass
def __toolcrib_tool(path, call={CALL_FUNCTION}):
    async def tool(*args, **kwargs):
        return await call(path, args, kwargs)
    return tool
"""
"""Defines the functions of tools in the guest: unlike host functions, they start when they are awaited."""


class Calls:
    """Makes the calls of one run; `end` cancels the run."""

    def __init__(self, bridge: Bridge, *, end: Callable[[], object]) -> None:
        self._bridge = bridge
        self._end = end
        self._scopes: set[anyio.CancelScope] = set()
        self._closed = False
        self._last: anyio.Event | None = None
        self.failure: Exception | None = None
        """The error of the call that ended the run; None otherwise."""
        self.functions: dict[str, Any] = {CALL_FUNCTION: self._begin_call}
        """The host functions of the guest."""

    def prelude(self, job: Job) -> str:
        """Return code that defines the namespaces and functions that the code uses; empty if it uses none."""
        lines = [f"{name} = __toolcrib_tool({name!r})" for name in job.functions if name in job.code]
        # A namespace here has only the attributes that the code names, since the engine has no `__getattr__`.
        # A name that is given to `getattr` stands in quotes.
        quoted = set(_QUOTED.findall(job.code)) if "getattr" in job.code else set()
        for name in job.names:
            if name in job.code:
                named = set(re.findall(rf"\b{re.escape(name)}\s*\.\s*([^\W\d]\w*)", job.code)) | quoted
                lines.append(f"{name} = ToolNamespace()")
                tools = sorted(tool for tool in named if not (tool.startswith("_") or iskeyword(tool)))
                lines += [f"{name}.{tool} = __toolcrib_tool({f'{name}.{tool}'!r})" for tool in tools]
        return _PRELUDE + "\n".join(lines) if lines else ""

    def _begin_call(self, path: str, args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a call; its arguments are read now, so that huge ones do not pile up."""
        try:
            given = read_call(args, kwargs)
        except GuestError as error:
            return raise_builtin(error)
        return self.make_call(str(path), *given)

    def restore(self, keys: Collection[str]) -> None:
        """Record calls that were made before a durable run was suspended, with their outcomes."""
        self._bridge.restore(keys)

    async def make_call(self, path: str, args: list[Any], kwargs: dict[str, Any], key: str = "") -> Any:
        """Make a call and return its result, or raise the exception for the guest."""
        if self._closed:
            return None
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._bridge.call(path, args, kwargs, key)
            except GuestError as error:
                raise as_builtin(error) from None
            except Exception as error:  # noqa: BLE001 - the guest must not see it and go on
                self.failure = self.failure or error
                self._end()
                await anyio.sleep_forever()
            finally:
                self._scopes.discard(scope)
                if self._last is not None and not self._scopes:
                    self._last.set()
        return None

    async def close(self) -> None:
        """Cancel pending calls, and wait for them."""
        self._closed = True
        if not self._scopes:
            return
        self._last = anyio.Event()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_TIMEOUT):
            for scope in list(self._scopes):
                scope.cancel()
            await self._last.wait()
        if self._scopes:
            _LOG.warning(
                "%d calls of tools continue after their run: they did not end when cancelled",
                len(self._scopes),
            )


async def raise_builtin(error: GuestError) -> None:
    """Raise the exception of a guest when it awaits its call."""
    raise as_builtin(error)


def as_builtin(error: GuestError) -> Exception:
    """Return the builtin exception for a guest."""
    kind = getattr(builtins, error.kind, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind(error.message)
    return RuntimeError(error.message)
