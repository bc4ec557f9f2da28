"""A Python function as the runner calls it."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolcrib.errors import InvalidBackendError
from toolcrib.model.local import Context, LocalTool, is_context
from toolcrib.model.plain import copy_json
from toolcrib.model.tool import Tool

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function, where it runs, and how it takes its arguments."""

    function: Callable[..., Any]
    in_loop: bool
    """Whether calling it does no work yet: it gives a coroutine, or an asynchronous generator."""
    context: str | None
    """The parameter for the running call."""
    whole: str | None
    """The one parameter that may take all arguments together."""
    typed: LocalTool[..., Any] | None
    """The tool that reads arguments into the types of its function."""

    @classmethod
    def of(cls, function: Any) -> "Handler":
        """Return how to call a function.

        Raises:
            InvalidBackendError: it cannot be called.
        """
        if isinstance(function, LocalTool):
            body = function.function
            return cls(body, _in_loop(body), function.context, None, function)
        if not callable(function):
            raise InvalidBackendError(f"a handler must be a function, not {type(function).__name__}")
        context, whole = _parameters(function)
        return cls(function, _in_loop(function), context, whole, None)

    def arguments(
        self, tool: Tool, args: Mapping[str, Any], running: Context
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return what to call the function with.

        A plain function with a single parameter, which is neither a property of the tool nor among the
        arguments, takes all of them in it.
        """
        if self.typed is not None:
            named = self.typed.read_arguments(args)
        elif self.whole is not None and not self._is_named(tool, args):
            return [copy_json(args)], ({} if self.context is None else {self.context: running})
        else:
            named = copy_json(args)
        if self.context is not None:
            named[self.context] = running
        return [], named

    def _is_named(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        return self.whole in args or self.whole in tool.shared("input_schema").get("properties", ())


def _in_loop(function: Callable[..., Any]) -> bool:
    body: Any = function
    while isinstance(body, partial | LocalTool):
        body = body.func if isinstance(body, partial) else body.function
    if not inspect.isroutine(body) and not inspect.isclass(body):
        body = type(body).__call__
    return inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)


def _parameters(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """Return the parameters for the running call, and for all arguments together."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin without one, which takes what it is given
        return None, None
    hints = _hints(function)
    context = next((name for name in signature.parameters if is_context(hints.get(name))), None)
    others = [parameter for name, parameter in signature.parameters.items() if name != context]
    if len(others) != 1 or others[0].kind not in {*_NAMED, inspect.Parameter.POSITIONAL_ONLY}:
        return context, None
    return context, others[0].name


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = function.func if isinstance(function, partial) else function
    if not inspect.isroutine(target):
        target = target.__init__ if inspect.isclass(target) else type(target).__call__
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001 - an annotation in quotes is code, and may raise whatever it likes
        # Names known to type checkers alone, mostly: what can be seen without evaluating them must do.
        return dict(getattr(target, "__annotations__", {}))
