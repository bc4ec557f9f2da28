"""The way of a call through its layers."""

from collections.abc import Iterator, Sequence
from typing import Any

from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.protocols import Middleware, Next

__all__ = ["compose"]


def compose(middleware: Sequence[Middleware], go: Next) -> Next:
    """Return the way through all layers to `go`; the first layer is the outermost.

    Raises:
        ConfigError: with everything among them that is no layer.
    """
    problems = tuple(_problems(middleware))
    if problems:
        raise ConfigError("middleware", problems)
    for layer in reversed(middleware):
        go = _around(go, layer)
    return go


def _around(go_on: Next, layer: Middleware) -> Next:
    return lambda call: layer(call, go_on)


def _problems(middleware: Any) -> Iterator[Problem]:
    if not isinstance(middleware, Sequence) or isinstance(middleware, str):
        yield Problem("", "type", f"must be a list of layers, not a {type(middleware).__name__}")
        return
    for place, layer in enumerate(middleware):
        if fault := _fault(layer):
            yield Problem(f"/{place}", "type", fault)


def _fault(layer: Any) -> str:
    kind = type(layer).__name__
    if isinstance(layer, type):
        return f"is the class {layer.__name__}; make one with {layer.__name__}(...)"
    if callable(layer):
        return ""
    if hasattr(layer, "begin"):
        return f"is an observer; give the {kind} in observers="
    return f"must be called with (call, go_on), and a {kind} cannot be called"
