"""The verbs about rules: `policy check`, `policy explain` and `policy simulate`."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.choices import VerbGroup
from toolcrib.cli.exits import FailedError
from toolcrib.cli.inputs import read_args, read_file
from toolcrib.cli.naming import resolve_ids, tell_absent
from toolcrib.cli.screen import note, show_json, show_table, show_text, waiting
from toolcrib.cli.state import State, common, shared, wait_for
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import GatewaySettings
    from toolcrib.execution import Rule
    from toolcrib.model import Tool

_TOOL = "gen_ai.tool.name"
_NO_RULES = "there are no rules: everybody may run everything; rules are [[policy]] tables"
_NO_TOOLS = (
    "no tools are known, so the tools that the rules name could not be checked; `toolcrib status` shows"
    " which servers there are and what became of them"
)
_GONE = "`toolcrib list` shows the tools, `toolcrib status` the servers that did not answer"
_NAMED = 8
"""Tools that no longer exist and are explained, at most."""


@click.group(cls=VerbGroup)
@common
def policy() -> None:
    """Check, explain and simulate the rules about who may run what.

    Rules are the `[[policy]]` tables of the configuration. The first that matches decides. As soon as there
    is a rule, everything that no rule allows is refused.

    Example: toolcrib policy check
    """


@policy.command()
@shared
@click.pass_obj
def check(state: State) -> None:
    """Find rules that never take effect.

    Such a rule comes after one that covers the same callers and tools, or matches no known tool. If there
    are any, the exit code is 1. If no tools are known, a note says that the tools in rules were not
    checked. If no rule allows anything, a note says that every tool is refused.

    Example: toolcrib policy check
    """

    async def work() -> "tuple[tuple[Rule, ...], list[tuple[str, str]], dict[str, Any]]":
        async with state.view() as view:
            with waiting("asking the servers"):
                await view.tools(limit=1)
            rules = view.settings.policy
            tools = [view.index.get(each.id) for each in view.index.list_all()]
            unknown = {"note": _NO_TOOLS} if rules and not tools else {}
            if rules and all(rule.effect == "deny" for rule in rules):
                unknown["warning"] = _refuses_all(len(tools))
            return (
                rules,
                list(_find_idle_rules(rules, tools, view.settings.gateway)),
                {**tell_absent(view), **unknown},
            )

    rules, idle, more = wait_for(work)
    if state.json:
        reasons = [{"rule": name, "reason": reason} for name, reason in idle]
        show_json({"rules": len(rules), "idle": reasons, **more})
    elif not rules:
        note(_NO_RULES)
    else:
        for name, reason in idle:
            note(f"the rule {name!r} never takes effect: {reason}")
        note(f"{count_noun(len(rules), 'rule')}, {len(idle) or 'none'} without effect")
        for each in ("warning", "note"):
            if each in more:
                note(more[each])
    if idle:
        raise FailedError(1)


def _refuses_all(tools: int) -> str:
    """Return the warning about rules of which none allows a call."""
    which = f"every one of the {tools:,} tools" if tools > 1 else "every tool"
    return f'no rule allows anything, so {which} is refused; add a last rule with effect = "allow"'


def _find_idle_rules(
    rules: "tuple[Rule, ...]", tools: "list[Tool]", settings: "GatewaySettings"
) -> Iterator[tuple[str, str]]:
    """Yield the rules that never take effect, with the reasons."""
    seen: list[Rule] = []
    for rule in rules:
        covered = {str(tool.id) for tool in tools if rule.covers_tool(tool)}
        before = next((each for each in seen if _covers(each, rule)), None)
        if before is not None:
            yield rule.name, f"{before.name!r} comes first and covers the same callers and tools"
        elif all(_is_unknown_token(who, settings) for who in rule.who):
            yield rule.name, f"gateway.tokens has no {', '.join(rule.who)}"
        elif tools and not covered and not any("://" in item for item in rule.tools):
            yield rule.name, "it matches no known tool"
        seen.append(rule)


def _is_unknown_token(who: str, settings: "GatewaySettings") -> bool:
    """Return whether a name is that of a token which is not configured."""
    kind, _, name = who.partition(":")
    return kind == "token" and name not in (settings.tokens or {})


def _covers(first: "Rule", later: "Rule") -> bool:
    """Return whether a rule decides every call that a later one fits."""
    if first.args is not None or (first.annotations and first.annotations != later.annotations):
        return False
    is_for_all = "*" in first.who or set(later.who) <= set(first.who)
    return is_for_all and ("*" in first.tools or set(later.tools) <= set(first.tools))


@policy.command()
@click.argument("tool_id", metavar="ID")
@click.option(
    "--as",
    "subject",
    default="",
    metavar="SUBJECT",
    help="The caller, as in rules, such as token:ci; by default an unknown caller.",
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="A group of the caller; may be repeated."
)
@click.option("--client", default="", metavar="NAME", help="The program that the caller uses.")
@click.option("--args", "args", metavar="JSON|@FILE|-", help="The arguments of the call.")
@shared
@click.pass_obj
def explain(
    state: State, tool_id: str, subject: str, groups: tuple[str, ...], client: str, args: str | None
) -> None:
    """Show which rule decides a call, why the others do not, and which rate limits apply.

    Example: toolcrib policy explain github:delete_repo --as ann --group staff
    """
    from toolcrib.crib.access import explain_access  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.errors import ToolWithheldError  # noqa: PLC0415 - as above

    given = read_args(args)

    async def work() -> dict[str, Any]:
        async with state.view() as view:
            (meant,) = await resolve_ids(view, [tool_id])
            with suppress(ToolWithheldError):  # which is explained too
                await view.describe(meant, "summary")  # waits for its server
            return explain_access(view, meant, given, subject=subject, client=client, groups=groups)

    decided = wait_for(work)
    if state.json:
        show_json(decided)
        return
    if not decided["rules"]:
        show_text(f"{decided['toolId']}: {decided['effect']} ({decided['reason'] or _NO_RULES})")
        _show_limits(decided)
        return
    show_table(("RULE", "EFFECT", "VERDICT"), [tuple(row.values()) for row in decided["rules"]])
    by = "no rule matches" if decided["rule"] is None else f"by the rule {decided['rule']!r}"
    reason = f": {decided['reason']}" if decided["reason"] else ""
    show_text(f"{decided['toolId']}: {decided['effect']} ({by}{reason})")
    if decided["confirmation"]:
        show_text(decided["confirmation"])
    _show_limits(decided)


def _show_limits(decided: dict[str, Any]) -> None:
    """Print the rate limits of an explained call."""
    for each in decided.get("limits", ()):
        show_text(f"rate limit {each['name']!r}: {each['limit']}")


@policy.command()
@click.argument("file", metavar="AUDITFILE")
@shared
@click.pass_obj
def simulate(state: State, file: str) -> None:
    """Show what the rules would decide about the calls in an audit log.

    AUDITFILE is the file that `audit.path` names. Without `audit.arguments`, it contains no arguments, and
    the rules see none. The effect for a tool that no longer exists is `unknown`, and the reason says what is
    missing.

    Example: toolcrib policy simulate audit.jsonl
    """
    from toolcrib.crib.access import decide_again  # noqa: PLC0415 - not needed to ask for help

    lines = list(_read_calls(read_file(file)))

    async def work() -> "tuple[Counter[tuple[str, str, str, str]], bool, dict[str, Any]]":
        async with state.view() as view:
            with waiting("asking the servers"):
                await view.tools(limit=1)
            decided = Counter(decide_again(view, view.rules, line) for line in lines)
            return decided, view.rules is not None, tell_absent(view)

    decided, has_rules, absent = wait_for(work)
    ordered = sorted(decided.items(), key=lambda item: (item[0][0], -item[1], item[0]))
    rows = [
        {"calls": count, "effect": effect, "rule": rule or None, "toolId": tool}
        | ({"reason": reason} if reason else {})
        for (effect, rule, tool, reason), count in ordered
    ]
    if state.json:
        show_json({"calls": len(lines), "decisions": rows, **absent})
        return
    cells = [[str(row[name] or "-") for name in ("calls", "effect", "rule", "toolId")] for row in rows]
    show_table(("CALLS", "EFFECT", "RULE", "TOOL"), cells)
    totals: Counter[str] = Counter()
    for (effect, *_), count in ordered:
        totals[effect] += count
    listed = ", ".join(f"{effect} {count}" for effect, count in sorted(totals.items()))
    note(f"{count_noun(len(lines), 'call')}: {listed or 'nothing to decide'}")
    if not has_rules:
        note(_NO_RULES)
    unknown = [str(row["reason"]) for row in rows if "reason" in row]
    for reason in unknown[:_NAMED]:
        note(f"unknown: {reason}")
    if unknown:
        note(f"nothing is decided about tools that were removed or renamed, or are missing now; {_GONE}")


def _read_calls(text: str) -> Iterator[dict[str, Any]]:
    """Yield the records of calls in an audit file."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise click.UsageError(f"line {number} is not a JSON record of an audit: {error}") from error
        if isinstance(record, dict) and _TOOL in record:
            yield record
