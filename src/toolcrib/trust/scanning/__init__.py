"""The scan: whether definitions and results are made to mislead a model."""

from toolcrib.trust.scanning.clones import KnownTools
from toolcrib.trust.scanning.report import Finding, ScanReport
from toolcrib.trust.scanning.scanner import scan, scan_definition, scan_text

__all__ = ["Finding", "KnownTools", "ScanReport", "scan", "scan_definition", "scan_text"]
