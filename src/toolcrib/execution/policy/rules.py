"""Ordered rules about who may run which tools: the first match decides, and no match denies."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from inspect import isawaitable
from typing import Any

from toolcrib.errors import PolicyDeniedError, ValidationError
from toolcrib.execution.call import Decision, Request
from toolcrib.execution.policy.resource_names import ROUTE, needed_readings, other_readings
from toolcrib.execution.policy.rule import Rule, hints_of, vouches_for_tags
from toolcrib.execution.principal import Issuers, Principal
from toolcrib.model.schema.validator import DefaultValidator, SchemaValidator
from toolcrib.model.tool import Tool

Approver = Callable[[Request, Rule], Any]
"""Asks a person about a request, as a rule requires, sync or async; returns True, or a reason against it."""
_Facts = tuple[str, tuple[str, ...], tuple[tuple[str, bool], ...], bool]
"""Id, tags and hints of a tool, and whether the tags can be trusted because the program wrote them."""
_Condition = Callable[[Any], bool]
"""Returns whether arguments fit the schema of a rule."""
_PRINCIPALS = 256
"""Principals whose rules are cached."""
_ANY = "\0" * 65
"""A name that no tool can have: a rule that covers it covers almost every name."""
_TOOLS = 4_096
"""Pairs of principal and tool whose rules are cached."""
_MAX_NAME = 8_192
"""Longest address, in characters, that rules decide about; HTTP servers accept no longer ones either."""
_MAX_NESTED = 4
"""Chained gateways that an address may lead through."""
_MAX_SHOWN = 200
_NO_RULE = "no rule allows it"
_NOBODY = "a person has to agree, and nobody could be asked"


class Rules:
    """Ordered rules about who may run which tools: the first match decides; without a match, it is denied.

    A principal can find the tools that it may run with at least some arguments.

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
        """Create rules.

        Args:
            rules: the first match decides.
            validator: validates arguments against the schema of a rule.
            approve: asks a person where a rule requires it; without it, such calls are denied.
            issuers: the issuers of tokens, which resolve the names in the rules.
        """
        self.rules = tuple(rules)
        self.issuers = issuers or Issuers()
        """The issuers of tokens, which resolve the names in the rules."""
        self._validator = DefaultValidator() if validator is None else validator
        self._conditions = {
            id(rule): _compile_condition(self._validator, rule.args)
            for rule in self.rules
            if rule.shared("args") is not None
        }
        self._approve = approve
        known = [sorted(self.issuers.tokens), self.issuers.authority]
        self.version = _digest([*(rule.to_json() for rule in self.rules), known])
        """Digest of the rules."""
        self._grants = lru_cache(maxsize=_PRINCIPALS)(self._rules_about)
        self._covering = lru_cache(maxsize=_TOOLS)(self._rules_covering)

    def grants(self, principal: Principal | None) -> "Grants":
        """Return the rules that apply to a principal."""
        return self._grants(principal or Principal())

    def _rules_about(self, who: Principal) -> "Grants":
        about = tuple(place for place, rule in enumerate(self.rules) if rule.is_about(who, self.issuers))
        key = f"{self.version}:{','.join(map(str, about))}"
        return Grants(key, tuple(self.rules[place] for place in about))

    def _rules_covering(self, who: Principal, facts: _Facts) -> tuple[tuple[Rule, _Condition | None], ...]:
        """Return the rules of a principal that cover a tool, with their conditions on the arguments."""
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

    @property
    def has_approver(self) -> bool:
        """Whether the program has an approver."""
        return self._approve is not None

    async def approve(self, request: Request, rule: Rule) -> None:
        """Ask a person about a request, as a rule requires.

        Raises:
            PolicyDeniedError: the person did not agree, or there is no person to ask.
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
    """The rules that apply to one principal."""

    key: str
    """Equal for principals with the same rules."""
    rules: tuple[Rule, ...]

    def may_find(
        self,
        tool_id: str,
        tags: Collection[str] = (),
        hints: Mapping[str, bool] | None = None,
        *,
        vouched: bool = True,
    ) -> bool:
        """Return whether the tool may run with some arguments, possibly with consent."""
        covering = (rule for rule in self.rules if rule.covers(tool_id, tags, hints or {}, vouched=vouched))
        return _may_decide(("allow", "ask"), covering)

    def check_tool(self, tool: Tool) -> None:
        """Check that the tool may run with some arguments, possibly with consent.

        Raises:
            PolicyDeniedError: it may not.
        """
        covering = [rule for rule in self.rules if rule.covers_tool(tool)]
        if not _may_decide(("allow", "ask"), covering):
            raise refusal_by(str(tool.id), next((each for each in covering if each.args is None), None))

    def refusal(self, tool_id: str) -> PolicyDeniedError | None:
        """Return the error for an id that the rules deny with any arguments; None if it could be allowed.

        The tool may be unknown: it is judged as one without tags and annotations.
        """
        if self.may_find(tool_id):
            return None
        covering = (rule for rule in self.rules if rule.covers(tool_id, (), {}))
        rule = next((rule for rule in covering if rule.shared("args") is None), None)
        return refusal_by(tool_id, rule)

    def may_find_in(self, namespace: str) -> bool:
        """Return whether a server or an API that has not listed its tools could have a visible one."""
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
        """Authorize a resource, as `server:URI`, or a prompt, as `server:name`.

        An address must be allowed as written and as conforming servers normalize it, and no other reading
        that a server could choose may be denied.

        Raises:
            PolicyDeniedError: no rule allows it. A rule that asks does not: no person is asked about content.
        """
        nested = name.count(ROUTE)
        longest = _MAX_NAME // (1 + nested)  # each gateway has its own readings of what follows it
        if len(name) > longest or nested > _MAX_NESTED:
            reason = f"its URI is longer than {longest:,} characters or leads through too many gateways"
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
        """Return the decision about one normalized form of a name."""
        for rule in self.rules:
            if rule.shared("args") is None and rule.covers_content(name):
                return Decision(rule.effect, rule)
        return Decision("deny", None)

    def tells_addresses_apart(self, server: str) -> bool:
        """Return whether the rules can treat two addresses of a server differently."""
        for rule in self.rules:
            if rule.shared("args") is not None or rule.shared("annotations"):
                continue
            if not {"*", server, f"{server}:*"}.isdisjoint(rule.tools):
                return False
            if rule.may_cover(server):
                return True
        return False

    def admits(self, name: str) -> bool:
        """Return whether `admit` authorizes a name."""
        try:
            self.admit(name)
        except PolicyDeniedError:
            return False
        return True

    def may_ask(self, tool: Tool) -> bool:
        """Return whether a person is asked about the tool with some arguments."""
        return _may_decide(("ask",), (rule for rule in self.rules if rule.covers_tool(tool)))

    def always_consents(self, tool: Tool) -> bool:
        """Return whether every rule that can allow the tool counts as consent to it."""
        for rule in (rule for rule in self.rules if rule.covers_tool(tool)):
            if rule.effect != "deny" and not rule.consents_to(str(tool.id)):
                return False
            if rule.args is None:
                break
        return True


def refusal_by(tool_id: str, rule: Rule | None) -> PolicyDeniedError:
    """Return the error for a denial by a rule, or for the lack of a rule that allows the call."""
    if rule is None:
        return PolicyDeniedError(tool_id=tool_id, reason=_NO_RULE)
    return PolicyDeniedError(tool_id=tool_id, reason=rule.reason, rule=rule.name)


def _compile_condition(validator: SchemaValidator, schema: Any) -> _Condition:
    """Return a predicate for arguments; the built-in validator compiles its schema only once."""
    if type(validator) is DefaultValidator:
        return validator.compile(schema).is_valid

    def is_valid(args: Any) -> bool:
        try:
            validator.validate(schema, args)
        except ValidationError:
            return False
        return True

    return is_valid


def _may_decide(effects: Collection[str], covering: Iterable[Rule]) -> bool:
    """Return whether rules can decide with one of these effects, for some arguments."""
    for rule in covering:
        if rule.effect in effects:
            return True
        if rule.shared("args") is None:
            return False
    return False


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]
