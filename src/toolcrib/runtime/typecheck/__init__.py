"""Checks code against the signatures of its tools, before any of it runs."""

from toolcrib.runtime.typecheck.checker import Checker

__all__ = ["Checker"]
