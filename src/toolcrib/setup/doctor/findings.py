"""Findings of the doctor: the problem, why, and what to do."""

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.redaction import hide_secrets

Severity = Literal["error", "warning", "ok"]
"""An error keeps something from working; a warning may surprise; the rest is well."""
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "ok": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    severity: Severity
    """The severity."""
    subject: str
    """The subject: `configuration`, `server 'github'`, `catalogue`."""
    what: str
    """The observation."""
    why: str = ""
    """The cause."""
    remedy: str = ""
    """The remedy."""
    details: dict[str, Any] = field(default_factory=dict)
    """Facts for programs, and the end of the stderr of a server."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without empty fields."""
        facts = {"severity": self.severity, "subject": self.subject, "what": self.what, "why": self.why}
        payload = {**facts, "remedy": self.remedy, "details": self.details}
        return {key: value for key, value in payload.items() if value}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found, the worst first."""

    findings: tuple[Finding, ...]
    """The findings."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity `error`."""
        return tuple(each for each in self.findings if each.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings of severity `warning`."""
        return tuple(each for each in self.findings if each.severity == "warning")

    @property
    def healthy(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        counts = {"errors": len(self.errors), "warnings": len(self.warnings)}
        found = [each.to_json() for each in self.findings]
        return {"healthy": self.healthy, **counts, "findings": found}

    @classmethod
    def of(cls, findings: list[Finding]) -> "Diagnosis":
        """Return a diagnosis with its findings in order."""
        return cls(tuple(sorted(findings, key=lambda each: _ORDER[each.severity])))


def error(subject: str, what: str, why: str = "", remedy: str = "", **details: Any) -> Finding:
    """Return a finding about something that does not work."""
    return _make_finding("error", subject, (what, why, remedy), details)


def warning(subject: str, what: str, why: str = "", remedy: str = "", **details: Any) -> Finding:
    """Return a finding about something that may surprise."""
    return _make_finding("warning", subject, (what, why, remedy), details)


def hint(subject: str, what: str, remedy: str) -> Finding:
    """Return a finding about something that works, and could be better."""
    return _make_finding("ok", subject, (what, "", remedy), {})


def good(subject: str, what: str, **details: Any) -> Finding:
    """Return a finding about something that works."""
    return _make_finding("ok", subject, (what, "", ""), details)


def _make_finding(
    severity: Severity, subject: str, row: tuple[str, str, str], details: dict[str, Any]
) -> Finding:
    """Return a finding without secrets."""
    what, why, remedy = map(hide_secrets, row)
    clean = {key: hide_secrets(value) if isinstance(value, str) else value for key, value in details.items()}
    return Finding(severity, subject, what, why, remedy, {key: each for key, each in clean.items() if each})
