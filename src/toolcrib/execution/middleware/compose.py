"""The way of a call through its layers."""

from collections.abc import Sequence

from toolcrib.execution.protocols import Middleware, Next

__all__ = ["compose"]


def compose(middleware: Sequence[Middleware], go: Next) -> Next:
    """Return the way through all layers to `go`; the first layer is the outermost."""
    for layer in reversed(middleware):
        go = _around(go, layer)
    return go


def _around(go_on: Next, layer: Middleware) -> Next:
    return lambda call: layer(call, go_on)
