"""Explains the rules' decision about a call, and decides recorded calls again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from toolcrib.crib.compose import issuers_of
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.crib.view import View
from toolcrib.errors import ToolcribError, ToolWithheldError
from toolcrib.execution import CallContext, Principal, Request, Rule
from toolcrib.execution.call import Decision
from toolcrib.execution.policy.rule import declares_destructive
from toolcrib.execution.policy.rules import Rules
from toolcrib.execution.principal import Issuers
from toolcrib.model import Tool
from toolcrib.model.shape import ShapedTool, original_of


def make_caller(
    issuers: Issuers, settings: GatewaySettings, subject: str, client: str, groups: tuple[str, ...]
) -> Principal:
    """Return the principal that a name in rules means; a named token has the groups of the settings too."""
    who = issuers.named(subject)
    token = (settings.tokens or {}).get(who.subject) if issuers.kind_of(who) == "token" else None
    if token is None:
        return replace(who, client=client, groups=frozenset(groups))
    return replace(who, client=client or who.subject, groups=frozenset((*groups, *token.groups)))


def explain_access(
    view: View,
    tool_id: str,
    args: dict[str, Any],
    *,
    subject: str,
    client: str = "",
    groups: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return which rule decides about a call, why the others do not, and the rate limits of it, as JSON.

    The arguments are those of the call: of a tool in a shape, by the names that callers see.

    Raises:
        ToolNotFoundError: there is no such tool.
        ValidationError: an argument is none of the parameters that callers of a shaped tool see.
    """
    rules, settings = view.rules, view.settings
    try:
        seen = view[tool_id]
    except ToolWithheldError as error:
        reason = f"it is withheld: {error.reason}"
        return {"toolId": error.tool_id, "effect": "deny", "rule": None, "reason": reason, "rules": []}
    tool = original_of(seen)
    if isinstance(seen, ShapedTool):
        seen.check_names(args)
        args = seen.original_args(args)
    issuers = issuers_of(settings) if rules is None else rules.issuers
    who = make_caller(issuers, settings.gateway, subject, client, groups)
    limits = [
        {"name": each.name, "limit": each.limit}
        for each in settings.rate_limits
        if each.covers(who, tool, issuers)
    ]
    if rules is None:
        return {
            "toolId": tool_id,
            "effect": "allow",
            "rule": None,
            "reason": None,
            "rules": [],
            "limits": limits,
        }
    decision = rules.decide(Request(tool=tool, args=args, context=CallContext(principal=who)))
    return {
        "toolId": tool_id,
        "effect": decision.effect,
        "rule": None if decision.rule is None else decision.rule.name,
        "reason": None if decision.rule is None else decision.rule.reason or None,
        "confirmation": _confirmation(decision, tool, settings.gateway),
        "rules": list(_verdicts(rules, decision, who, tool)),
        "limits": limits,
    }


def _verdicts(rules: Rules, decision: Decision, who: Principal, tool: Tool) -> Iterator[dict[str, Any]]:
    deciding = len(rules.rules) if decision.rule is None else rules.rules.index(decision.rule)
    for place, rule in enumerate(rules.rules):
        verdict = "decides"
        if place != deciding:
            verdict = _why_not_deciding(rule, rules.issuers, who, tool, is_later=place > deciding)
        yield {"rule": rule.name, "effect": rule.effect, "verdict": verdict}


def _why_not_deciding(rule: Rule, issuers: Issuers, who: Principal, tool: Tool, *, is_later: bool) -> str:
    """Return the reason why a rule does not decide."""
    if not rule.is_about(who, issuers):
        return "is for other callers"
    if not rule.covers_tool(tool):
        return "is for other tools"
    return "comes after the rule that decides" if is_later else "is for other arguments"


def _confirmation(decision: Decision, tool: Tool, settings: GatewaySettings) -> str | None:
    """Return whether a client of the gateway asks its user about a destructive tool that a rule allows."""
    rule = decision.rule
    if rule is None or decision.effect != "allow" or not declares_destructive(tool.annotations):
        return None
    if not settings.confirm:
        return "it is destructive; gateway.confirm = false: nobody is asked"
    if rule.consents_to(str(tool.id)):
        how = "has destructiveHint = true" if rule.annotations.get("destructive_hint") else "names it"
        return f"it is destructive; the rule {rule.name!r} {how}, which counts as consent: nobody is asked"
    return (
        f"it is destructive; the rule {rule.name!r} neither names it nor has destructiveHint = true, so that "
        "a client of the gateway asks its user first (gateway.confirm = true)"
    )


def decide_again(view: View, rules: Rules | None, record: dict[str, Any]) -> tuple[str, str, str, str]:
    """Decide a call of the audit by some rules; return effect, rule, tool, and why the effect is unknown."""
    tool_id = str(record["gen_ai.tool.name"])
    who = Principal(
        issuer=record.get("toolcrib.issuer") or "",
        subject=record.get("user.id") or "",
        client=record.get("toolcrib.client") or "",
        groups=frozenset(record.get("user.roles") or ()),
    )
    try:
        tool = original_of(view[tool_id])
    except ToolcribError as error:
        return "unknown", "", tool_id, str(error)
    if rules is None:
        return "allow", "", tool_id, ""
    args = record.get("gen_ai.tool.call.arguments")
    decision = rules.decide(
        Request(tool=tool, args=args if isinstance(args, dict) else {}, context=CallContext(principal=who))
    )
    return decision.effect, "" if decision.rule is None else decision.rule.name, tool_id, ""
