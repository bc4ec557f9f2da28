"""The guest's calls while one run lasts: none outlives it, and none that ends it can be caught in it."""

import builtins
import logging
import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
from pydantic_monty import ClassInstance

from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.monty.values import read_call
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.telling import ToldError

__all__ = ["Calls"]

_LOG = logging.getLogger("toolcrib.runtime")
_PATIENCE = 1.0
"""Seconds for which a run waits for its calls to end, once they are cancelled; then they are left."""
_BOUND = "__{}__{}"
"""The name under which the engine keeps an attribute of a namespace that is not called at once."""


class Namespace:
    """What stands for a namespace in the guest; it has nothing of its own."""


class _Calling(ClassInstance):
    """A namespace, each attribute of which is a function."""

    def __init__(
        self, call: Callable[[str, Any, Any], Any], bound: dict[str, Any], miss: Callable[[str], None]
    ) -> None:
        super().__init__(Namespace(), lazy_attrs="all")
        self._call = call
        self._bound = bound
        self._miss = miss

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._call(name, args, kwargs)

    def lookup_lazy_attrs(self, name: str) -> Any:
        if name not in self._bound:
            self._miss(name)
            raise AttributeError(name)
        return self._bound[name]


class Calls:
    """Answers the calls of one run.

    The engine starts each of them as a task of its own, also one that the guest never awaits, and lets it go
    on when the guest has ended: `close` ends them all.
    """

    def __init__(self, bridge: Bridge, *, end: Callable[[], object]) -> None:
        self._bridge = bridge
        self._end = end
        self._scopes: set[anyio.CancelScope] = set()
        self._closed = False
        self._last: anyio.Event | None = None
        self.failure: Exception | None = None
        """What ended the run, if a call did."""
        self.missed = ""
        """The last attribute that a namespace was asked for, where the code does not name it."""

    def names(self, job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the names in the code stand for: values to bind, and functions to look up."""
        functions: dict[str, Any] = {
            name: self._function(name, name) for name in job.functions if name in job.code
        }
        values: dict[str, Any] = {}
        for name in job.names:
            if name in job.code:
                bound = self._bound(name, job.code)
                functions |= {function.__name__: function for function in bound.values()}
                values[name] = _Calling(partial(self._method, name), bound, partial(self._miss, name))
        return values, functions

    def _bound(self, name: str, code: str) -> dict[str, Any]:
        """Return the attributes that the code names; the engine must know of functions before it starts."""
        found = set(re.findall(rf"\b{re.escape(name)}\s*\.\s*([^\W\d]\w*)", code))
        return {
            attribute: self._function(f"{name}.{attribute}", _BOUND.format(name, attribute))
            for attribute in found
        }

    def _function(self, path: str, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        def function(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return self._call(path, args, kwargs)

        function.__name__ = name
        return function

    def _method(self, namespace: str, name: str, args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]:
        return self._call(f"{namespace}.{name}", args, kwargs)

    def _miss(self, namespace: str, name: str) -> None:
        self.missed = f"{namespace}.{name}"

    def _call(self, path: str, args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Return the answer to come; what was given is read at once: too much of it must not wait here."""
        try:
            given = read_call(args, kwargs)
        except ToldError as error:
            return _refused(error)
        return self._answer(path, *given)

    async def _answer(self, path: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self._closed:
            return None
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._bridge.call(path, args, kwargs)
            except ToldError as error:
                raise _builtin(error) from None
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest must not see it and go on
                self.failure = self.failure or error
                self._end()
                await anyio.sleep_forever()
            finally:
                self._scopes.discard(scope)
                if self._last is not None and not self._scopes:
                    self._last.set()
        return None

    async def close(self) -> None:
        """End the calls that are still going on."""
        self._closed = True
        if not self._scopes:
            return
        self._last = anyio.Event()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_PATIENCE):
            for scope in list(self._scopes):
                scope.cancel()
            await self._last.wait()
        if self._scopes:
            _LOG.warning(
                "%d calls of tools go on after their run: they do not end when cancelled", len(self._scopes)
            )


async def _refused(error: ToldError) -> None:
    raise _builtin(error)


def _builtin(error: ToldError) -> Exception:
    kind = getattr(builtins, error.kind, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind(error.message)
    return RuntimeError(error.message)
