"""What a scan reports."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["hard", "soft"]
Verdict = Literal["clean", "suspicious", "poisoned"]


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """One thing in a definition that may mislead a model."""

    rule: str
    """The name of the rule: `exfiltrate`."""
    severity: Severity
    """`hard` for text that is hidden or encoded, and for instructions about other tools, files or secrets."""
    path: str
    """The place in the definition as a JSON Pointer; `/instructions` are those of the server."""
    message: str
    """The effect of the text."""
    excerpt: str
    """The text in question."""

    def to_json(self) -> dict[str, str]:
        """Return the JSON form."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "path": self.path,
            "message": self.message,
            "excerpt": self.excerpt,
        }


@dataclass(frozen=True, slots=True)
class ScanReport:
    """The result of a scan."""

    verdict: Verdict
    """The decision; `clean` means no findings."""
    findings: tuple[ScanFinding, ...] = ()
    """The findings that it rests on, hard ones first."""

    def without(self, rules: Iterable[str]) -> "ScanReport":
        """Return the report without the findings of some rules, such as accepted ones.

        >>> report = ScanReport("poisoned", (ScanFinding("hush", "hard", "/description", "", ""),))
        >>> report.without(["hush"]).verdict
        'clean'
        """
        accepted = frozenset(rules)
        left = tuple(each for each in self.findings if each.rule not in accepted)
        return self if left == self.findings else ScanReport(self.verdict if left else "clean", left)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"verdict": self.verdict, "findings": [each.to_json() for each in self.findings]}
