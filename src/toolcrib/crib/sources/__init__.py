"""Where tools come from: asking servers and APIs for them, waiting for the answers, keeping what came."""

from toolcrib.crib.sources.listing import ToolLister
from toolcrib.crib.sources.origins import Absence, Origin

__all__ = ["Absence", "Origin", "ToolLister"]
