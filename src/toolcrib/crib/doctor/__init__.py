"""Find what is broken about a configuration, and say how to mend it."""

from toolcrib.crib.doctor.diagnose import diagnose
from toolcrib.crib.doctor.findings import Diagnosis, Finding
from toolcrib.crib.doctor.probe import Probe, probe

__all__ = ["Diagnosis", "Finding", "Probe", "diagnose", "probe"]
