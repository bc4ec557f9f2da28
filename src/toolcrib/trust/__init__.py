"""Trust in third-party tools and servers: approvals, changes since then, and misleading definitions.

Nothing here starts a server or makes a connection.
"""

from toolcrib.trust.drift import Drift, Level, compare_tools
from toolcrib.trust.drift import DriftChange as Change
from toolcrib.trust.entries import Block, LockedServer, LockedTool, Review, Suppression
from toolcrib.trust.lock import Lock
from toolcrib.trust.parts import ServerParts, ToolParts
from toolcrib.trust.results import ResultScan
from toolcrib.trust.scanning import KnownTools, ScanReport, scan, scan_definition, scan_text
from toolcrib.trust.scanning import ScanFinding as Finding
from toolcrib.trust.screening import ScreenedTools, Withheld, screen_listed, screen_tools
from toolcrib.trust.subset import Allowance, SubsetVerdict, check_subset

__all__ = [
    "Allowance",
    "Block",
    "Change",
    "Drift",
    "Finding",
    "KnownTools",
    "Level",
    "Lock",
    "LockedServer",
    "LockedTool",
    "ResultScan",
    "Review",
    "ScanReport",
    "ScreenedTools",
    "ServerParts",
    "SubsetVerdict",
    "Suppression",
    "ToolParts",
    "Withheld",
    "check_subset",
    "compare_tools",
    "scan",
    "scan_definition",
    "scan_text",
    "screen_listed",
    "screen_tools",
]
