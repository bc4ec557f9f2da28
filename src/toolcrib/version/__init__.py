"""Versions (SemVer 2.0.0), version constraints (npm's ranges), and matrices of compatible versions."""

from toolcrib.version.constraint import Constraint
from toolcrib.version.matrix import Matrix, Verdict
from toolcrib.version.semver import Version, compare

__all__ = ["Constraint", "Matrix", "Verdict", "Version", "compare"]
