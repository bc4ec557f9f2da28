"""Policies in Cedar, behind the protocol of the rules."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from toolcrib.errors import ConfigError, MissingExtraError, PolicyDeniedError, Problem
from toolcrib.execution.policy import Approver, Decision, Grants, Rules, refusal_by
from toolcrib.execution.principal import Issuers, Principal
from toolcrib.execution.records import Request
from toolcrib.execution.rule import Effect, Rule, hints_of, plain_id, vouches_for_tags
from toolcrib.model.tool import Tool, ToolAnnotations

_FAILED = re.compile(r"policy `([^`]+)`")
"""The policy that could not be evaluated, as Cedar names it in an error."""
_KEPT = 1_024
"""For how many servers of principals it is kept whether they may read anything there."""
_LONGEST_INT = 2**63
_WRITTEN = {"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_ESCAPES = frozenset({"__entity", "__extn", "__expr"})
"""Keys that mean something else than a record in Cedar's JSON."""


class CedarPolicy(Rules):
    """Says who may run what by the policies of a text in Cedar.

    The principal is a `User` in its `Group`s, a tool a `Tool` in its `Namespace` and with its `Tag`s; the
    action is `Action::"run"`, the arguments are `context.args`. Resources and prompts are `Content`, with the
    action `Action::"read"`. A `permit` with `@effect("ask")` has a person asked, and `@reason` says why.

    >>> policy = CedarPolicy('permit(principal in Group::"staff", action, resource in Namespace::"git");')
    >>> policy.grants(Principal(subject="ann", groups=["staff"])).may_find("git:log")
    True

    Raises:
        ConfigError: the text is not Cedar.
        MissingExtraError: the extra is not installed.
    """

    def __init__(
        self,
        text: str,
        *,
        approve: Approver | None = None,
        source: str = "Cedar",
        issuers: Issuers | None = None,
    ) -> None:
        """Parse the policies; `source` names them in errors, `issuers` say whom names mean."""
        try:
            import cedarpy  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError("policies in Cedar", "cedar") from error
        try:
            self._policies = cedarpy.PolicySet.from_str(text)
            parsed = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
        except ValueError as error:
            raise ConfigError(source, (Problem("", "cedar", str(error)[:500]),)) from error
        self._engine: Any = cedarpy
        self._rules: dict[str, Rule] = {key: _rule(key, each, source) for key, each in parsed.items()}
        self._heads: dict[str, dict[str, Any]] = {key: each["resource"] for key, each in parsed.items()}
        self._unconditional = frozenset(key for key, each in parsed.items() if not each["conditions"])
        super().__init__(list(self._rules.values()), approve=approve, issuers=issuers)
        self.version = sha256(f"{self.version}\n{text}".encode()).hexdigest()[:16]
        self.may_have_content = lru_cache(maxsize=_KEPT)(self._may_have_content)
        """Returns whether a policy may let a principal read something of a server, whatever its name is."""

    def _about(self, who: Principal) -> Grants:
        key = sha256(repr((who, sorted(who.groups), sorted(who.scopes))).encode()).hexdigest()[:16]
        return _CedarGrants(f"{self.version}:{key}", self.rules, self, who)

    def decide(self, request: Request) -> Decision:
        """Return the decision about a request."""
        tool = request.tool
        resource, entities = _tool(str(tool.id), tool.tags, hints_of(tool), vouched=vouches_for_tags(tool))
        try:
            context = {"args": _value(request.args)}
        except ValueError:  # it cannot be said in Cedar what is asked
            return Decision("deny", None)
        return self.decided(request.principal or Principal(), "run", resource, entities, context)

    def decided(
        self,
        who: Principal,
        action: str,
        resource: dict[str, str],
        entities: list[dict[str, Any]],
        context: Mapping[str, Any],
    ) -> Decision:
        """Return the decision about an action; a `forbid` that cannot be evaluated refuses."""
        user = _uid("User", self.issuers.entity_name(who))
        request = {"principal": user, "action": _uid("Action", action)}
        answer = self._engine.is_authorized(
            {**request, "resource": resource, "context": dict(context)},
            self._policies,
            [_user(who, self.issuers), *entities],
        )
        failed = [each for error in answer.diagnostics.errors for each in _FAILED.findall(error)]
        refusing = [self._rules[key] for key in failed if self._rules[key].effect == "deny"]
        fitting = [self._rules[key] for key in sorted(answer.diagnostics.reasons)]
        if not answer.allowed or refusing:
            rules = [*(rule for rule in fitting if rule.effect == "deny"), *refusing]
            return Decision("deny", rules[0] if rules else None)
        asking = next((rule for rule in fitting if rule.effect == "ask"), None)
        if asking is not None:
            return Decision("ask", asking)
        explicit = (rule for rule in fitting if rule.consents_to(resource["id"]))
        return Decision("allow", next(explicit, fitting[0]))

    def possible(
        self, who: Principal, resource: dict[str, str], entities: list[dict[str, Any]]
    ) -> set[Effect]:
        """Return the effects that a run of a tool can have with some arguments, beside a refusal."""
        certain, others = self._permits(who, resource, entities)
        return {rule.effect for rule in (*certain, *others)} - {"deny"}

    def _may_have_content(self, who: Principal, server: str) -> bool:
        answer = self._engine.is_authorized_partial(
            {
                "principal": _literal("User", self.issuers.entity_name(who)),
                "action": _literal("Action", "read"),
            },
            self._policies,
            [_user(who, self.issuers)],
        )
        fitting = (*answer.diagnostics.reasons, *answer.diagnostics.may_be_determining)
        about = [key for key in fitting if _may_be_about(self._heads[key], server)]
        whole = ({"op": "All"}, {"op": "in", "entity": _uid("Namespace", server)})
        for key in about:
            is_refusal = self._rules[key].effect == "deny" and key in self._unconditional
            if is_refusal and self._heads[key] in whole:
                return False
        return any(self._rules[key].effect != "deny" for key in about)

    def always_consents(
        self, who: Principal, resource: dict[str, str], entities: list[dict[str, Any]]
    ) -> bool:
        """Return whether a run of a tool is refused or consented to, whatever the arguments."""
        certain, others = self._permits(who, resource, entities)
        if any(rule.consents_to(resource["id"]) for rule in certain):
            return True
        return all(rule.effect == "deny" for rule in (*certain, *others))

    def _permits(
        self, who: Principal, resource: dict[str, str], entities: list[dict[str, Any]]
    ) -> tuple[list[Rule], list[Rule]]:
        """Return the policies that fit a run of a tool with all arguments, and those that do with some."""
        user = _literal("User", self.issuers.entity_name(who))
        request = {"principal": user, "action": _literal("Action", "run")}
        answer = self._engine.is_authorized_partial(
            {**request, "resource": _literal(resource["type"], resource["id"])},
            self._policies,
            [_user(who, self.issuers), *entities],
        )
        if answer.decision is self._engine.Decision.Deny:
            return [], []
        certain, others = answer.diagnostics.reasons, answer.diagnostics.may_be_determining
        return [self._rules[key] for key in certain], [self._rules[key] for key in others]


@dataclass(frozen=True, slots=True)
class _CedarGrants(Grants):
    """What the policies say about one principal."""

    policy: CedarPolicy
    who: Principal

    def may_find(
        self,
        tool_id: str,
        tags: Collection[str] = (),
        hints: Mapping[str, bool] | None = None,
        *,
        vouched: bool = True,
    ) -> bool:
        found = self.policy.possible(self.who, *_tool(tool_id, tags, hints or {}, vouched=vouched))
        return not found.isdisjoint(("allow", "ask"))

    def refusal(self, tool_id: str) -> PolicyDeniedError | None:
        if self.may_find(tool_id):
            return None
        tool = _tool(tool_id, (), {}, vouched=True)
        return refusal_by(tool_id, self.policy.decided(self.who, "run", *tool, {"args": {}}).rule)

    def may_find_in(self, namespace: str) -> bool:
        return self.may_find(f"{namespace}:\0")  # a policy about single tools says nothing of their server

    def may_have_content(self, server: str) -> bool:
        return self.policy.may_have_content(self.who, server)

    def may_ask(self, tool: Tool) -> bool:
        entity = _tool(str(tool.id), tool.tags, hints_of(tool), vouched=vouches_for_tags(tool))
        return "ask" in self.policy.possible(self.who, *entity)

    def always_consents(self, tool: Tool) -> bool:
        entity = _tool(str(tool.id), tool.tags, hints_of(tool), vouched=vouches_for_tags(tool))
        return self.policy.always_consents(self.who, *entity)

    def _decide_content(self, name: str) -> Decision:
        server, _, address = name.partition(":")
        resource = _uid("Content", name)
        attrs = {"name": address, "namespace": server, "tags": [], "claimedTags": [], "hints": {}}
        entities = [{"uid": resource, "attrs": attrs, "parents": [_uid("Namespace", server)]}]
        return self.policy.decided(self.who, "read", resource, entities, {"args": {}})

    def tells_addresses_apart(self, server: str) -> bool:  # noqa: ARG002 - a policy may be about one address
        return True


def _rule(key: str, policy: Mapping[str, Any], source: str) -> Rule:
    """Return a policy as a rule: its name, its effect, its reason, and the tool that its head names."""
    notes = policy.get("annotations") or {}
    effect: Effect = "deny" if policy["effect"] == "forbid" else "allow"
    wanted = notes.get("effect", effect)
    if wanted != effect and (effect, wanted) != ("allow", "ask"):
        message = f"the policy {notes.get('id') or key!r} may have the effect 'ask', and only on a permit"
        raise ConfigError(source, (Problem("", "effect", message),))
    name = str(notes.get("id") or key)[:200]
    head = policy["resource"]
    named = head["entity"] if head["op"] == "==" else {}
    tools = (named["id"],) if named.get("type") == "Tool" and named["id"] else ("*",)
    return Rule(name=name, effect=wanted, reason=str(notes.get("reason") or ""), tools=tools)


def _may_be_about(head: Mapping[str, Any], server: str) -> bool:
    """Return whether a policy can be about content of a server, by the resource in its head."""
    entity = head.get("entity") or {}
    if head["op"] == "==":
        return bool(entity.get("type") == "Content" and entity["id"].startswith(f"{server}:"))
    if head["op"] == "in" and entity.get("type") == "Namespace":
        return bool(entity["id"] == server)
    return True


def _user(who: Principal, issuers: Issuers) -> dict[str, Any]:
    """Return the entity of a principal, in its groups and in the user that names its issuer."""
    name, kind = issuers.entity_name(who), issuers.kind_of(who)
    parents = [_uid("Group", group) for group in sorted(who.groups)]
    if kind and name != f"{kind}:{who.subject}":
        parents.append(_uid("User", f"{kind}:{who.subject}"))
    attrs = {"issuer": who.issuer, "subject": who.subject, "client": who.client, "scopes": sorted(who.scopes)}
    return {"uid": _uid("User", name), "attrs": attrs, "parents": parents}


def _tool(
    tool_id: str, tags: Collection[str], hints: Mapping[str, bool], *, vouched: bool
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return a tool, and the entity that it is; its id is without a version.

    Tags that a server gives its own tools are `claimedTags` alone, so that no `permit` takes them for ours.
    """
    claimed, tags = sorted(tags), tags if vouched else ()
    namespace, _, name = plain_id(tool_id).partition(":")
    uid = _uid("Tool", f"{namespace}:{name}" if namespace else name)
    parents = [_uid("Namespace", namespace), *(_uid("Tag", tag) for tag in sorted(tags))]
    fields = ToolAnnotations.model_fields
    given = {fields[hint].alias or hint: value for hint, value in hints.items()}
    attrs = {"name": name, "namespace": namespace, "tags": sorted(tags), "hints": given}
    attrs["claimedTags"] = claimed
    return uid, [{"uid": uid, "attrs": attrs, "parents": parents}]


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _literal(kind: str, name: str) -> str:
    """Return an entity as Cedar's own syntax writes it."""
    escaped = "".join(
        _WRITTEN.get(each) or (each if each.isprintable() else f"\\u{{{ord(each):x}}}") for each in name
    )
    return f'{kind}::"{escaped}"'


def _value(value: Any) -> Any:
    """Return a JSON value as Cedar knows it: null is absent, and a number with a fraction is its text.

    Raises:
        ValueError: it would mean something else there.
    """
    if isinstance(value, Mapping):
        if not _ESCAPES.isdisjoint(value):
            raise ValueError("it has a key that is an escape in Cedar")
        return {str(key): _value(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_value(each) for each in value if each is not None]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, float) or (isinstance(value, int) and not -_LONGEST_INT <= value < _LONGEST_INT):
        return str(value)
    return value
