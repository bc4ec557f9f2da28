"""The catalogue of tools."""

from toolcrib.discovery.index.changes import Change
from toolcrib.discovery.index.filters import FilterOptions
from toolcrib.discovery.index.index import Index

__all__ = ["Change", "FilterOptions", "Index"]
