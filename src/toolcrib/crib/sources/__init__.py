"""Listing of tools: requests to servers and APIs, waiting for their answers, storing the results."""

from toolcrib.crib.sources.listing import ToolLister
from toolcrib.crib.sources.origins import Absence, Origin

__all__ = ["Absence", "Origin", "ToolLister"]
