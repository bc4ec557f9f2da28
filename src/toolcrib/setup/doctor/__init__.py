"""Find the problems in a configuration, and give advice on each."""

from toolcrib.setup.doctor.diagnose import diagnose
from toolcrib.setup.doctor.findings import Diagnosis, Finding
from toolcrib.setup.doctor.probe import Probe, probe

__all__ = ["Diagnosis", "Finding", "Probe", "diagnose", "probe"]
