"""Trust: what is known of tools, and whether it may be believed."""

from toolcrib.trust.scanning import Finding, KnownTools, ScanReport, scan, scan_definition, scan_text

__all__ = ["Finding", "KnownTools", "ScanReport", "scan", "scan_definition", "scan_text"]
