"""The check that the numbers a layer is made with can work."""

from collections.abc import Container, Mapping
from math import inf
from sys import float_info
from typing import Any

from toolcrib.errors import ConfigError, Problem
from toolcrib.errors.base import shown

__all__ = ["require"]


def require(
    layer: str,
    options: Mapping[str, tuple[Any, float, float]],
    *,
    whole: Container[str] = (),
    endless: Container[str] = (),
) -> None:
    """Raise if an option, given as its value and the least and the most it may be, is out of bounds.

    Those in `whole` must be whole numbers; those in `endless` may be infinite.

    Raises:
        ConfigError: with every option that is.
    """
    problems = []
    for name, (value, least, most) in options.items():
        kinds = (int,) if name in whole else (int, float)
        limit = most if most < inf or name in endless else float_info.max
        if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= limit:
            kind = "a whole number" if name in whole else "a finite number"
            said = _bounds(least, most, "" if name in endless else f"{kind}, ")
            problems.append(Problem(f"/{name}", "range", f"must be {said}, not {shown(value)}"))
    if problems:
        raise ConfigError(layer, tuple(problems))


def _bounds(least: float, most: float, kind: str) -> str:
    return f"{kind}at least {least:g}" if most == inf else f"between {least:g} and {most:g}"
