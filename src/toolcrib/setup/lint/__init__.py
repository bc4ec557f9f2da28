"""Lints the definitions of tools."""

from toolcrib.setup.lint.tools import LintFinding, lint_tools

__all__ = ["LintFinding", "lint_tools"]
