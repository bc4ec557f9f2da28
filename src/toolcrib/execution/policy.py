"""Authorization: the rules that say who may run what, and the one place where a call is decided on.

Rules are ordered, the first that fits decides, and without one the answer is no. `Authorizer` joins them with
the policy of the program and with the consent of a person.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from inspect import isawaitable
from typing import Any

import anyio

from toolcrib.concurrency.background import is_being_cancelled
from toolcrib.errors import PolicyDeniedError, ValidationError
from toolcrib.execution.call import Decision, Request
from toolcrib.execution.principal import Issuers, Principal
from toolcrib.execution.protocols import Allowed, Policy
from toolcrib.execution.resource_names import ROUTE, needed_readings, other_readings
from toolcrib.execution.rule import Rule, hints_of, is_destructive, vouches_for_tags
from toolcrib.model.schema.validator import DefaultValidator, SchemaValidator
from toolcrib.model.tool import Tool
from toolcrib.redaction import error_text

Approver = Callable[[Request, Rule], Any]
"""Says whether somebody agreed to a request that a rule wants a person asked about, sync or async: True, or a
text that says why not."""
_Facts = tuple[str, tuple[str, ...], tuple[tuple[str, bool], ...], bool]
"""The id, the tags and the hints of a tool, and whether the tags are the program's own."""
_Condition = Callable[[Any], bool]
"""Says whether arguments fit the schema of a rule."""
_PRINCIPALS = 256
"""For how many principals it is kept which rules are about them."""
_ANY = "\0" * 65
"""A name that no tool has; a rule that covers it is about most names, if not all."""
_TOOLS = 4_096
"""For how many tools of principals it is kept which rules are about them."""
_MAX_NAME = 8_192
"""Characters of the longest address that rules decide about; servers of HTTP take no longer ones either."""
_MAX_NESTED = 4
"""How many gateways, one behind the other, an address may lead through."""
_MAX_SHOWN = 200
_NO_RULE = "no rule allows it"
_NOBODY = "a person has to agree, and nobody could be asked"


_UNCONFIRMED = (
    "it may destroy something, and the user has to agree before the code begins; "
    "write its id {!r} in the code, or run it with run_tool"
)


class Authorizer:
    """Decides whether a call may run.

    The rules of the configuration come first, then the policy of the program. A person has the last word,
    where a rule asks for that, or where the tool may destroy something and the client can ask somebody.
    """

    def __init__(self, rules: "Rules | None" = None, policy: Policy | None = None) -> None:
        self._rules, self._policy = rules, policy

    def decide(self, request: Request) -> Decision:
        """Return what the rules and the hints of the tool say about a call; nobody is asked."""
        decision = Decision("allow") if self._rules is None else self._rules.decide(request)
        if decision.effect == "deny" or not request.context.approval.confirm_destructive:
            return decision
        rule = decision.rule
        has_consent = rule is not None and rule.consents_to(request.tool_id)
        if has_consent or not is_destructive(request.tool.annotations):
            return decision
        return replace(decision, is_risky=True)

    async def authorize(self, request: Request) -> Decision:
        """Return the decision about a call that may run, perhaps only once a person agrees.

        Raises:
            PolicyDeniedError: the rules, the policy, or a person asked before have refused it.
        """
        if (refusal := request.context.approval.refusal) is not None:
            raise replace(refusal, tool_id=request.tool_id)
        decision = self.decide(request)
        if decision.effect == "deny":
            raise refusal_by(request.tool_id, decision.rule)
        named = None if self._policy is None else await _ask_policy(self._policy, request)
        return replace(decision, allowed_by=named if decision.rule is None else decision.rule.name)

    async def obtain_consent(self, request: Request, decision: Decision) -> None:
        """Return once a person has agreed to a call.

        Raises:
            PolicyDeniedError: nobody did.
            CallSuspendedError: the client makes the request again, with the answer.
        """
        approval = request.context.approval
        if request.tool_id in approval.granted:
            return
        if approval.ask is not None:
            await approval.ask(request, decision)
            return
        if decision.effect == "ask" and decision.rule is not None and self._rules is not None:
            await self._rules.approve(request, decision.rule)
        if decision.is_risky:
            raise PolicyDeniedError(tool_id=request.tool_id, reason=_UNCONFIRMED.format(request.tool_id))


async def _ask_policy(policy: Policy, request: Request) -> str | None:
    """Ask the policy of the program, and return what it names as allowing the call.

    Raises:
        PolicyDeniedError: it refuses, or fails.
    """
    try:
        verdict = policy(request)
        if isawaitable(verdict):
            verdict = await verdict
    except PolicyDeniedError:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if is_being_cancelled():
            raise
        reason = "the policy failed: what it waited for was cancelled"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason) from error
    except Exception as error:  # a policy is somebody else's code, and its failure must not open the door
        reason = f"the policy failed: {error_text(error)}"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason) from error
    if isinstance(verdict, Allowed):
        return verdict.rule
    if verdict is not None and verdict is not True:
        raise PolicyDeniedError(tool_id=request.tool_id, reason=verdict if isinstance(verdict, str) else "")
    return None


class Rules:
    """Says who may run what: the first rule that fits decides; where none does, the answer is no.

    What a principal may run with some arguments at least is also what it may find.

    >>> from toolcrib.execution import CallContext
    >>> from toolcrib.model import Tool
    >>> rules = Rules([Rule(name="readers", who=["group:staff"], tools=["git:*"], effect="allow")])
    >>> log = Tool(name="log", namespace="git", input_schema={})
    >>> ann = CallContext(principal=Principal(subject="ann", groups=["staff"]))
    >>> rules.decide(Request(tool=log, args={}, context=ann)).effect
    'allow'
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        validator: SchemaValidator | None = None,
        approve: Approver | None = None,
        issuers: Issuers | None = None,
    ) -> None:
        """Take rules in their order.

        Args:
            rules: the first that fits decides.
            validator: says whether arguments fit the schema of a rule.
            approve: says whether a person agreed, where a rule asks; without it, nobody did.
            issuers: say whom the names in the rules mean.
        """
        self.rules = tuple(rules)
        self.issuers = issuers or Issuers()
        """They say whom the names in the rules mean."""
        self._validator = DefaultValidator() if validator is None else validator
        self._conditions = {
            id(rule): _compile_condition(self._validator, rule.args)
            for rule in self.rules
            if rule.shared("args") is not None
        }
        self._approve = approve
        known = [sorted(self.issuers.tokens), self.issuers.authority]
        self.version = _digest([*(rule.to_json() for rule in self.rules), known])
        """Changes with the rules."""
        self._grants = lru_cache(maxsize=_PRINCIPALS)(self._rules_about)
        self._covering = lru_cache(maxsize=_TOOLS)(self._rules_covering)

    def grants(self, principal: Principal | None) -> "Grants":
        """Return what the rules say about a principal."""
        return self._grants(principal or Principal())

    def _rules_about(self, who: Principal) -> "Grants":
        about = tuple(place for place, rule in enumerate(self.rules) if rule.is_about(who, self.issuers))
        key = f"{self.version}:{','.join(map(str, about))}"
        return Grants(key, tuple(self.rules[place] for place in about))

    def _rules_covering(self, who: Principal, facts: _Facts) -> tuple[tuple[Rule, _Condition | None], ...]:
        """Return the rules that cover a tool, each with its condition on the arguments."""
        tool_id, tags, hints, vouched = facts
        known, rules = dict(hints), self.grants(who).rules
        covering = (rule for rule in rules if rule.covers(tool_id, tags, known, vouched=vouched))
        return tuple((rule, self._conditions.get(id(rule))) for rule in covering)

    def decide(self, request: Request) -> Decision:
        """Return the decision about a request."""
        tool, who = request.tool, request.principal or Principal()
        facts = str(tool.id), tool.tags, tuple(hints_of(tool).items()), vouches_for_tags(tool)
        for rule, condition in self._covering(who, facts):
            if condition is None or condition(request.args):
                return Decision(rule.effect, rule)
        return Decision("deny")

    async def approve(self, request: Request, rule: Rule) -> None:
        """Return if somebody agreed to a request that a rule asks a person about.

        Raises:
            PolicyDeniedError: nobody did.
        """
        verdict = None if self._approve is None else self._approve(request, rule)
        if isawaitable(verdict):
            verdict = await verdict
        if verdict is not True:
            reasons = [rule.reason, verdict if isinstance(verdict, str) else _NOBODY]
            reason = "; ".join(filter(None, reasons))
            raise PolicyDeniedError(tool_id=request.tool_id, reason=reason, rule=rule.name)


@dataclass(frozen=True, slots=True)
class Grants:
    """The rules about one principal."""

    key: str
    """The same for all principals that the same rules are about."""
    rules: tuple[Rule, ...]

    def may_find(
        self,
        tool_id: str,
        tags: Collection[str] = (),
        hints: Mapping[str, bool] | None = None,
        *,
        vouched: bool = True,
    ) -> bool:
        """Return whether there can be arguments with which the tool may run, perhaps after asking."""
        covering = (rule for rule in self.rules if rule.covers(tool_id, tags, hints or {}, vouched=vouched))
        return _may_decide(("allow", "ask"), covering)

    def refusal(self, tool_id: str) -> PolicyDeniedError | None:
        """Return the refusal of an id that the rules deny, with any arguments, whatever tool has it.

        None where a tool of this id, without tags and annotations, could run.
        """
        if self.may_find(tool_id):
            return None
        covering = (rule for rule in self.rules if rule.covers(tool_id, (), {}))
        rule = next((rule for rule in covering if rule.shared("args") is None), None)
        return refusal_by(tool_id, rule)

    def may_find_in(self, namespace: str) -> bool:
        """Return whether a server or an API of which no tool is known may have one that may be found."""
        for rule in self.rules:
            if (
                rule.effect == "deny"
                and rule.shared("args") is None
                and rule.covers(f"{namespace}:{_ANY}", (), {})
            ):
                return False
            if rule.effect != "deny" and rule.may_cover(namespace):
                return True
        return False

    def admit(self, name: str) -> None:
        """Let something without arguments be used: a resource as `server:address`, a prompt as `server:name`.

        An address must be allowed as it is written and as correct servers read it, and no other way in which
        a server may read it may be denied.

        Raises:
            PolicyDeniedError: no rule allows it; one that asks does not, for nobody is asked about content.
        """
        nested = name.count(ROUTE)
        longest = _MAX_NAME // (1 + nested)  # each gateway has its own readings of what follows it
        if len(name) > longest or nested > _MAX_NESTED:
            reason = f"its address is longer than {longest:,} characters or leads through too many gateways"
            raise PolicyDeniedError(tool_id=f"{name[:_MAX_SHOWN]}...", reason=reason)
        needed = needed_readings(name)
        others = other_readings(needed) if any(rule.effect != "allow" for rule in self.rules) else ()
        for spelling in dict.fromkeys((*needed, *others)):
            decision = self._decide_content(spelling)
            rule = decision.rule
            if decision.effect == "allow" or (rule is None and spelling not in needed):
                continue
            reason, by = (_NO_RULE, None) if rule is None else (rule.reason, rule.name)
            raise PolicyDeniedError(tool_id=name, reason=reason, rule=by)

    def _decide_content(self, name: str) -> Decision:
        """Return the decision about one reading of a name."""
        for rule in self.rules:
            if rule.shared("args") is None and rule.covers_content(name):
                return Decision(rule.effect, rule)
        return Decision("deny", None)

    def tells_addresses_apart(self, server: str) -> bool:
        """Return whether the rules can decide differently about two addresses of a server."""
        for rule in self.rules:
            if rule.shared("args") is not None or rule.shared("annotations"):
                continue
            if not {"*", server, f"{server}:*"}.isdisjoint(rule.tools):
                return False
            if rule.may_cover(server):
                return True
        return False

    def admits(self, name: str) -> bool:
        """Return whether `admit` would let it be used."""
        try:
            self.admit(name)
        except PolicyDeniedError:
            return False
        return True

    def may_ask(self, tool: Tool) -> bool:
        """Return whether there can be arguments with which somebody is asked before the tool runs."""
        return _may_decide(("ask",), (rule for rule in self.rules if rule.covers_tool(tool)))

    def always_consents(self, tool: Tool) -> bool:
        """Return whether the tool runs, whatever the arguments, only where a rule consents to it."""
        for rule in (rule for rule in self.rules if rule.covers_tool(tool)):
            if rule.effect != "deny" and not rule.consents_to(str(tool.id)):
                return False
            if rule.args is None:
                break
        return True


def refusal_by(tool_id: str, rule: Rule | None) -> PolicyDeniedError:
    """Return the refusal by a rule, or by the lack of one that allows it."""
    if rule is None:
        return PolicyDeniedError(tool_id=tool_id, reason=_NO_RULE)
    return PolicyDeniedError(tool_id=tool_id, reason=rule.reason, rule=rule.name)


def _compile_condition(validator: SchemaValidator, schema: Any) -> _Condition:
    """Return a condition on arguments; its schema is compiled once where that can be."""
    if type(validator) is DefaultValidator:
        return validator.compiled(schema).fits

    def fits(args: Any) -> bool:
        try:
            validator.validate(schema, args)
        except ValidationError:
            return False
        return True

    return fits


def _may_decide(effects: Collection[str], covering: Iterator[Rule]) -> bool:
    """Return whether one of these effects can be what the rules that cover a tool decide."""
    for rule in covering:
        if rule.effect in effects:
            return True
        if rule.shared("args") is None:
            return False
    return False


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]
