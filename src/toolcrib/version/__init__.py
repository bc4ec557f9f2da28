"""Versions, the constraints they satisfy, and the windows of versions that work together.

Follows SemVer 2.0.0 for versions and npm for constraints. It compares and chooses; it fetches nothing.
"""

from toolcrib.version.constraint import Constraint
from toolcrib.version.matrix import Matrix, Verdict
from toolcrib.version.semver import Version, compare

__all__ = ["Constraint", "Matrix", "Verdict", "Version", "compare"]
