"""The scan: whether definitions and results are made to mislead a model."""

from toolcrib.trust.scanning.clones import KnownTools
from toolcrib.trust.scanning.report import ScanFinding, ScanReport
from toolcrib.trust.scanning.scanner import scan, scan_definition, scan_text

__all__ = ["KnownTools", "ScanFinding", "ScanReport", "scan", "scan_definition", "scan_text"]
