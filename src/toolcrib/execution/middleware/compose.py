"""Composes middleware into one function, and checks its options."""

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from math import inf
from sys import float_info
from typing import Any

from toolcrib.errors import ConfigError, Problem
from toolcrib.errors.base import short_repr
from toolcrib.execution.call import Call
from toolcrib.execution.protocols import Middleware, Next
from toolcrib.model.backend import label

Key = Callable[[Call], Hashable]
"""Returns a key; calls with equal keys share a limit."""


def compose(middleware: Sequence[Middleware], go: Next) -> Next:
    """Return a function that calls all middleware and then `go`; the first one is the outermost.

    Raises:
        ConfigError: with every element that is not a middleware.
    """
    problems = tuple(_find_problems(middleware))
    if problems:
        raise ConfigError("middleware", problems)
    for layer in reversed(middleware):
        go = _wrap(go, layer)
    return go


def _wrap(go_on: Next, layer: Middleware) -> Next:
    return lambda call: layer(call, go_on)


def _find_problems(middleware: Any) -> Iterator[Problem]:
    if not isinstance(middleware, Sequence) or isinstance(middleware, str):
        yield Problem("", "type", f"must be a list of layers, not a {type(middleware).__name__}")
        return
    for place, layer in enumerate(middleware):
        if fault := _describe_fault(layer):
            yield Problem(f"/{place}", "type", fault)


def _describe_fault(layer: Any) -> str:
    kind = type(layer).__name__
    if isinstance(layer, type):
        return f"is the class {layer.__name__}; make one with {layer.__name__}(...)"
    if callable(layer):
        return ""
    if hasattr(layer, "begin"):
        return f"is an observer; give the {kind} in observers="
    return f"must be called with (call, go_on), and a {kind} cannot be called"


def by_backend(call: Call) -> str:
    """Return the name of the backend that a call goes to, such as `mcp:github`."""
    return label(call.backend)


def check_options(
    layer: str,
    options: Mapping[str, tuple[Any, float, float]],
    *,
    whole: Container[str] = (),
    endless: Container[str] = (),
) -> None:
    """Check options, each given as its value, minimum and maximum.

    Options in `whole` must be integers; options in `endless` may be infinite.

    Raises:
        ConfigError: with every option that is out of bounds.
    """
    problems = []
    for name, (value, least, most) in options.items():
        kinds = (int,) if name in whole else (int, float)
        limit = most if most < inf or name in endless else float_info.max
        if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= limit:
            kind = "a whole number" if name in whole else "a finite number"
            bounds = _describe_bounds(least, most, "" if name in endless else f"{kind}, ")
            problems.append(Problem(f"/{name}", "range", f"must be {bounds}, not {short_repr(value)}"))
    if problems:
        raise ConfigError(layer, tuple(problems))


def _describe_bounds(least: float, most: float, kind: str) -> str:
    return f"{kind}at least {least:g}" if most == inf else f"between {least:g} and {most:g}"
