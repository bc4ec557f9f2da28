"""The check that the numbers a layer is made with can work."""

from collections.abc import Mapping
from math import isnan

from toolcrib.errors import ConfigError, Problem

__all__ = ["require"]


def require(layer: str, options: Mapping[str, tuple[float, float, float]]) -> None:
    """Raise if an option, given as its value and the least and the most it may be, is out of bounds.

    Raises:
        ConfigError: with every option that is.
    """
    problems = tuple(
        Problem(f"/{name}", "range", f"must be {_bounds(least, most)}, not {value!r}")
        for name, (value, least, most) in options.items()
        if isnan(value) or not least <= value <= most
    )
    if problems:
        raise ConfigError(layer, problems)


def _bounds(least: float, most: float) -> str:
    if most == float("inf"):
        return f"at least {least:g}"
    return f"between {least:g} and {most:g}"
