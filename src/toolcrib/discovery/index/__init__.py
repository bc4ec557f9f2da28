"""The catalogue of tools."""

from toolcrib.discovery.index.changes import Change
from toolcrib.discovery.index.filters import FilterOptions
from toolcrib.discovery.index.index import Index
from toolcrib.discovery.index.scope import Scope
from toolcrib.discovery.index.view import IndexView

__all__ = ["Change", "FilterOptions", "Index", "IndexView", "Scope"]
