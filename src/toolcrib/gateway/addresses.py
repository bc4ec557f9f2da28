"""The addresses of endpoints: of everything or of a toolset, and of what clients see of that."""

from dataclasses import dataclass
from typing import Literal, Self, cast

from toolcrib.crib.config.gateway import SURFACES

Surface = Literal["all", "meta"]
"""The frontend that an address chooses: the tools themselves, or the meta-tools."""
_ROOT = "/mcp"


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The address of an endpoint."""

    toolset: str | None = None
    """None for everything."""
    surface: Surface | None = None
    """None for what the settings say."""

    @classmethod
    def of_path(cls, path: str) -> Self | None:
        """Return the address of a path, whether or not there is an endpoint; None where there can be none.

        >>> EndpointAddress.of_path("/mcp/office/all"), EndpointAddress.of_path("/health")
        (EndpointAddress(toolset='office', surface='all'), None)
        """
        if path != _ROOT and not path.startswith(f"{_ROOT}/"):
            return None
        name = path[5:-1] if path.endswith("/") and path != f"{_ROOT}//" else path[5:]
        head, slash, last = name.rpartition("/")
        if last in SURFACES:
            return cls(head if slash else None, cast("Surface", last))
        return cls(name or None)

    @property
    def name(self) -> str:
        """The path below `/mcp/`.

        >>> EndpointAddress("office", "all").name, EndpointAddress(None, "meta").name
        ('office/all', 'meta')
        """
        return "/".join(part for part in (self.toolset, self.surface) if part is not None)

    @property
    def base(self) -> "EndpointAddress":
        """The address of the same tools that shows what the settings say."""
        return EndpointAddress(self.toolset)
