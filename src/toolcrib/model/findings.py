"""Findings in results, and the actions taken on them."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from toolcrib.errors.base import count_noun
from toolcrib.model.record import Record

ResultAction = Literal["log", "redact", "block"]
"""The action on a result with findings: report it, remove those parts, or withhold the whole."""
SensitiveKind = Literal["secret", "personal", "instruction"]
_NOUNS: dict[SensitiveKind, str] = {
    "secret": "secret",
    "personal": "piece of personal data",
    "instruction": "instruction to the model",
}


FINDINGS_KEY = "toolcrib/findings"
"""The key of `_meta` for findings in a result of MCP."""


class ResultFinding(Record):
    """One piece of sensitive content found in a result; the content itself is not included."""

    kind: SensitiveKind
    """A secret, personal data, or an instruction to the model."""
    rule: str
    """The rule: `e-mail`, `card`, or a rule of the scan."""
    path: str
    """The location in the result as a JSON Pointer."""
    action: ResultAction
    """The action taken."""


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """A result, checked."""

    value: Any
    """The result, without removed parts; the same object if nothing was removed."""
    findings: tuple[ResultFinding, ...] = ()
    """The findings."""

    @property
    def is_blocked(self) -> bool:
        """Whether the result has to be withheld."""
        return any(each.action == "block" for each in self.findings)


class ResultCheck(Protocol):
    """Checks JSON values that come from a backend."""

    @property
    def may_remove(self) -> bool:
        """Whether it may remove parts, so that nothing may be passed on unchecked."""
        ...

    def __call__(self, value: Any, /) -> CheckedResult:
        """Return a value, checked; it is not changed."""
        ...


class ResultActions(Record):
    """Handling of sensitive content in results; kinds that are left out are not checked."""

    secrets: ResultAction | None = None
    """The action for keys, tokens and passwords."""
    personal: ResultAction | None = None
    """The action for e-mail addresses, card numbers, IBANs and telephone numbers."""
    instructions: ResultAction | None = None
    """The action for instructions to the model."""


def _spell_out(given: Any) -> Any:
    """Return one word, which stands for all kinds, as an object."""
    if given == "off":
        return {}
    if given in get_args(ResultAction):
        return dict.fromkeys(ResultActions.model_fields, given)
    if isinstance(given, str):
        raise PydanticCustomError(
            "enum", "must be 'log', 'redact', 'block' or 'off', or an object with one for each kind"
        )
    return given


GuardedResults = Annotated[ResultActions, BeforeValidator(_spell_out)]
"""One word for all kinds, such as `redact`, `off` for none, or an object with one for each kind."""


def describe_findings(findings: tuple[ResultFinding, ...], action: ResultAction) -> str:
    """Return a phrase about the findings with one action; empty for nothing.

    >>> mail = ResultFinding(kind="personal", rule="e-mail", path="/to", action="redact")
    >>> describe_findings((mail, mail), "redact")
    '2 pieces of personal data (e-mail)'
    """
    parts: list[str] = []
    for kind, noun in _NOUNS.items():
        found = [each for each in findings if each.kind == kind and each.action == action]
        if found:
            rules = ", ".join(dict.fromkeys(each.rule for each in found))
            parts.append(f"{_counted(len(found), noun)} ({rules})")
    return " and ".join(parts)


def describe_removed(findings: tuple[ResultFinding, ...]) -> tuple[str, ...]:
    """Return the note about removed parts of a result; none if there are none."""
    removed = describe_findings(findings, "redact")
    return (f"removed from what the tool sent: {removed}",) if removed else ()


def _counted(count: int, noun: str) -> str:
    first, _, rest = noun.partition(" ")
    return count_noun(count, first) + (f" {rest}" if rest else "")
