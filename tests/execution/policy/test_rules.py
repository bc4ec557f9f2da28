"""Rules: permissions of principals."""

from typing import Any

import anyio
import pytest

from toolcrib import Crib
from toolcrib.errors import PolicyDeniedError, ValidationError
from toolcrib.execution import CallContext, Principal, Request, Rule
from toolcrib.execution.audit import Audit, AuditRecord
from toolcrib.execution.policy.authorizer import Authorizer
from toolcrib.execution.policy.rules import Rules
from toolcrib.model import Tool

pytestmark = pytest.mark.anyio
ANN = Principal(issuer="https://login.example", subject="ann", client="editor", groups=frozenset({"staff"}))


def request_of(
    name: str, args: dict[str, Any] | None = None, principal: Principal | None = ANN, **more: Any
) -> Request:
    namespace, _, last = name.rpartition(":")
    tool = Tool(name=last, namespace=namespace or None, input_schema={}, **more)
    return Request(tool=tool, args=args or {}, context=CallContext(principal=principal))


async def authorize(rules: Rules, request: Request) -> None:
    authorizer = Authorizer(lambda: rules)
    decision = await authorizer.authorize(request)
    if decision.effect == "ask":
        await authorizer.obtain_consent(request, decision)


def is_allowed(rule: dict[str, Any], request: Request) -> bool:
    rules = Rules([Rule(**{"name": "it", "effect": "allow"} | rule)])
    return rules.decide(request).effect == "allow"


@pytest.mark.parametrize(
    ("rule", "tool", "is_consent"),
    [
        ({"tools": ["git:push"]}, "git:push", True),
        ({"tools": ["git:push:1.0.0"]}, "git:push", True),
        ({"tools": ["mail:*", "git:push"]}, "git:push", True),
        ({"tools": ["push"]}, "push", True),
        ({"annotations": {"destructiveHint": True}}, "git:push", True),
        ({"annotations": {"destructiveHint": True}, "tools": ["git:*"]}, "git:push", True),
        ({}, "git:push", False),
        ({"tools": ["git"]}, "git:push", True),
        ({"tools": ["git:*"]}, "git:push", True),
        ({"tools": ["git:pus?"]}, "git:push", True),
        ({"tools": ["*:push"]}, "git:push", True),
        ({"tools": ["*"]}, "git:push", False),
        ({"tools": ["*:*"]}, "git:push", False),
        ({"tools": ["*", "mail:*"]}, "git:push", False),
        ({"tools": ["tag:push"]}, "tag:push", False),
        ({"annotations": {"destructiveHint": False}}, "git:push", False),
        ({"annotations": {"readOnlyHint": False}}, "git:push", False),
        ({"tools": ["git:push"], "effect": "ask"}, "git:push", False),
    ],
)
def test_rule_consents_to_tools_that_it_names_or_allows_as_destructive(
    rule: dict[str, Any], tool: str, is_consent: bool
) -> None:
    assert Rule(**{"name": "it", "effect": "allow"} | rule).consents_to(tool) is is_consent


@pytest.mark.parametrize(
    ("rules", "always"),
    [
        ([{"tools": ["git:push"]}], True),
        ([{"tools": ["git:push"], "args": {"minProperties": 1}}, {}], False),
        ([{"tools": ["git:push"], "args": {"minProperties": 1}}], True),
        ([{"args": {"minProperties": 1}}, {"tools": ["git:push"]}], False),
        ([{"effect": "deny", "args": {"minProperties": 1}}, {"tools": ["git:push"]}], True),
        ([{"effect": "deny"}, {}], True),
        ([{"effect": "ask", "args": {"minProperties": 1}}, {"tools": ["git:push"]}], False),
        ([{"who": ["bob"]}, {"tools": ["git:push"]}], True),
        ([{}, {"tools": ["git:push"]}], False),
    ],
)
def test_grants_always_consent_where_no_arguments_let_a_tool_run_otherwise(
    rules: list[dict[str, Any]], always: bool
) -> None:
    made = Rules([Rule(**{"name": "it", "effect": "allow"} | rule) for rule in rules])
    assert made.grants(ANN).always_consents(request_of("git:push").tool) is always


@pytest.mark.parametrize(
    ("who", "is_meant"),
    [
        ("*", True),
        ("ann", True),
        ("bob", False),
        ("group:staff", True),
        ("group:guests", False),
        ("client:editor", True),
        ("client:ann", False),
        ("staff", False),
        ("", False),
    ],
)
def test_a_rule_is_about_a_subject_a_group_or_a_client(who: str, is_meant: bool) -> None:
    if not who:
        with pytest.raises(ValidationError):
            Rule(name="it", who=[who], effect="allow")
        return
    assert is_allowed({"who": [who]}, request_of("git:log")) is is_meant


@pytest.mark.parametrize("who", ["ann", "group:staff", "client:editor"])
def test_nobody_in_particular_is_in_no_group_and_is_no_subject(who: str) -> None:
    assert not is_allowed({"who": [who]}, request_of("git:log", principal=None))
    assert is_allowed({"who": ["*"]}, request_of("git:log", principal=None))


@pytest.mark.parametrize(
    ("pattern", "tool", "is_meant"),
    [
        ("git:log", "git:log", True),
        ("git:log", "git:logs", False),
        ("git:*", "git:log", True),
        ("git:*", "github:log", False),
        ("*:delete_*", "git:delete_tag", True),
        ("*:delete_*", "delete_tag", True),
        ("*:delete_*", "git:undelete_tag", False),
        ("git", "git:log", True),
        ("git", "git", True),
        ("git", "other:git", False),
        ("log", "git:log", False),
        ("tag:billing", "git:log", True),
        ("tag:bill", "git:log", False),
        ("GIT:*", "git:log", False),
        ("git:lo?", "git:log", True),
    ],
)
def test_tools_are_named_by_id_pattern_namespace_and_tag(pattern: str, tool: str, is_meant: bool) -> None:
    assert is_allowed({"tools": [pattern]}, request_of(tool, tags=["billing"])) is is_meant


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    ("backend", "is_own"),
    [
        ({"kind": "local", "name": "log"}, True),
        ({"kind": "mcp", "serverName": "git"}, False),
        ({"kind": "provider", "providerId": "git", "toolId": "log"}, False),
    ],
)
def test_the_tags_of_a_server_or_an_api_only_deny(effect: Any, backend: dict[str, Any], is_own: bool) -> None:
    request = request_of("git:log", tags=["Safe Ones"], backend=backend)
    rules = Rules([Rule(name="it", tools=["tag:safe-ones"], effect=effect)])
    covered = rules.decide(request).rule is not None
    assert covered is (is_own or effect == "deny")
    may_find = rules.grants(ANN).may_find("git:log", request.tool.tags, vouched=is_own)
    assert may_find is (is_own and effect != "deny")


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([("allow", "*")], True),
        ([("ask", "hr")], True),
        ([("allow", "hr:pay")], True),
        ([("allow", "h*")], True),
        ([("allow", "*:read_*")], True),
        ([("allow", "git:*")], False),
        ([("allow", "hrx")], False),
        ([("allow", "tag:safe")], False),
        ([("deny", "hr"), ("allow", "*")], False),
        ([("deny", "hr:*"), ("allow", "*")], False),
        ([("deny", "hr:pay"), ("allow", "*")], True),
        ([("deny", "*:pay*"), ("allow", "*")], True),
        ([("allow", "hr:read"), ("deny", "hr")], True),
        ([], False),
    ],
)
def test_the_rules_say_whether_a_server_of_unknown_tools_may_have_some_to_find(
    rules: list[tuple[Any, str]], may: bool
) -> None:
    written = [Rule(name="it", tools=[tools], effect=effect) for effect, tools in rules]
    assert Rules(written).grants(ANN).may_find_in("hr") is may


def test_a_rule_about_some_arguments_or_hints_hides_no_server() -> None:
    some = {"args": {"required": ["all"]}}, {"annotations": {"destructiveHint": True}}
    for more in some:
        denied = Rule(name="it", tools=["hr"], effect="deny", **more)
        assert Rules([denied, Rule(name="all", effect="allow")]).grants(ANN).may_find_in("hr")


def test_a_tag_is_the_same_however_a_rule_writes_it() -> None:
    rule = Rule(
        name="it", tools=["tag:Danger Zone", *(f"tag:t{number}" for number in range(40))], effect="deny"
    )
    assert Rules([rule]).decide(request_of("git:log", tags=["danger zone"])).rule is rule
    assert Rules([rule]).decide(request_of("git:log", tags=["t39"])).rule is rule


def test_every_version_of_a_tool_is_covered() -> None:
    assert is_allowed({"tools": ["git:log"]}, request_of("git:log", version="2.1.0"))
    assert is_allowed({"tools": ["git:log:1.0.0"]}, request_of("git:log", version="2.1.0"))


@pytest.mark.parametrize("name", ["readOnlyHint", "read_only_hint"])
def test_a_hint_counts_only_if_the_tool_gives_it(name: str) -> None:
    rule = {"annotations": {name: True}}
    assert is_allowed(rule, request_of("git:log", annotations={"readOnlyHint": True}))
    assert not is_allowed(rule, request_of("git:log", annotations={"readOnlyHint": False}))
    assert not is_allowed(rule, request_of("git:log"))


def test_arguments_must_fit_the_schema_of_a_rule() -> None:
    rule = {"args": {"properties": {"branch": {"const": "main"}}, "required": ["branch"]}}
    assert is_allowed(rule, request_of("git:push", {"branch": "main"}))
    assert not is_allowed(rule, request_of("git:push", {"branch": "dev"}))
    assert not is_allowed(rule, request_of("git:push"))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"effect": "maybe"}, "/effect"),
        ({"effect": "allow", "annotations": {"safe": True}}, "/annotations"),
        ({"effect": "allow", "args": {"type": "objekt"}}, "/args"),
        ({"effect": "allow", "name": ""}, "/name"),
        ({"effect": "allow", "wo": ["*"]}, "/wo"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_and_says_where(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Rule(**{"name": "it"} | fields)
    assert caught.value.problems[0].path == place


async def test_the_first_rule_that_fits_decides_and_is_named() -> None:
    rules = Rules(
        [
            Rule(name="no tags", tools=["git:delete_tag"], effect="deny", reason="tags are for releases"),
            Rule(name="git", tools=["git:*"], effect="allow"),
        ]
    )
    await authorize(rules, request_of("git:delete_branch"))
    with pytest.raises(PolicyDeniedError, match=r"by the rule 'no tags': tags are for releases") as caught:
        await authorize(rules, request_of("git:delete_tag"))
    assert caught.value.rule == "no tags"
    with pytest.raises(PolicyDeniedError, match="no rule allows it") as caught:
        await authorize(rules, request_of("files:read"))
    assert caught.value.rule is None


async def test_asking_needs_somebody_who_agrees() -> None:
    ask = Rule(name="big", tools=["*"], effect="ask", reason="it costs money")
    with pytest.raises(PolicyDeniedError, match="nobody could be asked") as caught:
        await authorize(Rules([ask]), request_of("shop:order"))
    assert caught.value.rule == "big"
    seen: list[Any] = []

    async def agree(request: Request, rule: Rule) -> bool:
        seen.append((request.tool_id, rule.name))
        return True

    await authorize(Rules([ask], approve=agree), request_of("shop:order"))
    assert seen == [("shop:order", "big")]
    for odd in (False, None, "yes", 1):
        with pytest.raises(PolicyDeniedError):
            await authorize(Rules([ask], approve=lambda *_, odd=odd: odd), request_of("shop:order"))


def close_desk(*_: Any) -> bool:
    raise RuntimeError("the desk is closed")


async def lose_line(*_: Any) -> bool:
    raise ConnectionResetError("the line is gone")


async def be_cancelled(*_: Any) -> bool:
    raise anyio.get_cancelled_exc_class()


@pytest.mark.parametrize("approve", [close_desk, lose_line, be_cancelled])
async def test_question_that_fails_denies_the_call_and_is_audited(approve: Any) -> None:
    def order() -> str:
        """Order."""
        raise AssertionError("it must not run")

    records: list[AuditRecord] = []
    settings = {"policy": [{"name": "big", "effect": "ask"}]}
    async with Crib(settings, approve=approve, observers=[Audit(records.append)]) as crib:
        crib.add(order)
        with pytest.raises(PolicyDeniedError, match="a person has to agree, and asking failed") as caught:
            await crib.run("order")
    assert (caught.value.rule, caught.value.answer) == ("big", "unanswered")
    assert [(each.effect, each.answer, each.error) for each in records] == [("deny", "unanswered", "denied")]


async def test_rules_that_come_while_a_person_is_asked_hold_for_the_call() -> None:
    ask, deny = (Rule(name=effect, effect=effect) for effect in ("ask", "deny"))
    present: list[Rules] = []

    def agree_after_a_reload(*_: Any) -> bool:
        present.append(Rules([deny]))
        return True

    present.append(Rules([ask], approve=agree_after_a_reload))
    authorizer, request = Authorizer(lambda: present[-1]), request_of("shop:order")
    decision = await authorizer.authorize(request)
    with pytest.raises(PolicyDeniedError) as refused:
        await authorizer.obtain_consent(request, decision)
    assert refused.value.rule == "deny"


async def test_arguments_that_a_rule_cannot_judge_are_refused() -> None:
    """A rule that refuses some arguments must not be got around with arguments that are hard to check."""
    schema = {"properties": {"text": {"pattern": "(a+)+(b+)+$"}}, "required": ["text"]}
    rules = Rules(
        [
            Rule(name="no", args=schema, effect="deny"),
            Rule(name="all", effect="allow"),
        ]
    )
    with pytest.raises(PolicyDeniedError):
        await Authorizer(lambda: rules, lambda _: None).authorize(
            request_of("git:log", {"text": "a" * 40 + "b"})
        )


def test_rules_have_a_version_that_changes_with_them() -> None:
    one = Rule(name="git", tools=["git:*"], effect="allow")
    assert Rules([one]).version == Rules([Rule(name="git", tools=["git:*"], effect="allow")]).version
    assert Rules([one]).version != Rules([one, one.replace(name="more")]).version


def allowing(*tools: str, effect: Any = "allow") -> Rule:
    return Rule(name="it", tools=tools, effect=effect)


SPELLINGS = (
    "file:///secret/a",
    "FILE:///secret/a",
    "file://localhost/secret/a",
    "file://LOCALHOST/secret/a",
    "file:////secret/a",
    "file:///./secret/a",
    "file:///public/../secret/a",
    "file:///../secret/a",
    "file:///%73ecret/a",
    "file:///%2573ecret/a",
    "file:///secret%2fa",
    "file:///public%2f..%2fsecret/a",
    "file:///public\\..\\secret\\a",
)


@pytest.mark.parametrize("address", SPELLINGS)
@pytest.mark.parametrize(
    "rules",
    [
        [allowing("notes:file:///secret/*", effect="deny"), allowing("notes:*")],
        [allowing("notes:file:///public/*", "notes:FILE:///public/*")],
    ],
    ids=["denied", "not allowed"],
)
def test_an_address_is_refused_however_it_is_spelled(rules: list[Rule], address: str) -> None:
    assert not Rules(rules).grants(ANN).admits(f"notes:{address}")


@pytest.mark.parametrize(
    ("allowed", "address"),
    [
        ("notes:file:///My%20Files/*", "file:///My%20Files/a"),
        ("notes:file:///My%20Files/*", "file:///My Files/a"),
        ("notes:file:///public/*", "file:///public/"),
        ("notes:file:///public/*", "file:///public/a?b=../c#d"),
        ("notes:https://Example.com/*", "https://Example.com/a//b/./c"),
        ("notes:urn:public:*", "urn:public:1"),
        ("notes:mailto:*", "mailto:ann@example.com"),
        ("notes", "whole://a/%zz/%"),
        ("notes:*", ""),
    ],
)
def test_an_address_that_a_rule_names_is_allowed(allowed: str, address: str) -> None:
    assert Rules([allowing(allowed)]).grants(ANN).admits(f"notes:{address}")


def test_a_rule_about_some_addresses_says_nothing_of_others_that_begin_alike() -> None:
    grants = Rules([allowing("notes:urn:public:*", "notes:greet")]).grants(ANN)
    assert grants.admits("notes:urn:public:1")
    assert not grants.admits("notes:urn:secret:1")
    assert not grants.admits("notes:greet:all")
    assert not grants.may_find("notes:urn")


@pytest.mark.parametrize(
    ("denied", "address"),
    [
        ("notes:file:///secret", "file:///secret/"),
        ("notes:file:///secret/", "file:///secret"),
        ("notes:file:///secret", "file:///secret//"),
        ("notes:file:///secret", "file:///secret/."),
        ("notes:file:///secret", "file:///secret%2f"),
        ("notes:file:///secret", "file:///secret?x"),
        ("notes:file:///secret", "file:///secret#x"),
        ("notes:file:///secret", "file:///secret%00.txt"),
        ("notes:file:///secret", "file:///secret/?x=/../public"),
        ("notes:file:///secret", "file:/secret"),
        ("notes:file:///secret", "file:/%73ecret"),
        ("notes:file:/secret", "file:///secret"),
        ("notes:file:///secret/*", "file:/secret/a"),
        ("notes:file:///secret/*", "file://any.example/secret/a"),
        ("notes:file:///secret/*", "file://127.0.0.1/secret/a"),
        ("notes:file:///a%20b", "file:///a b"),
        ("notes:file:///a b", "file:///a%20b"),
        ("notes:file:///a%5B1%5D", "file:///a[1]"),
        ("notes:file:///a[1]", "file:///a[1]"),
        ("notes:file:///a%2A", "file:///a*"),
        ("notes:https://example.com", "https://example.com/"),
        ("notes:https://example.com/x", "HTTPS://EXAMPLE.com/x/"),
    ],
)
def test_address_that_a_careless_server_may_read_as_a_denied_one_is_refused(
    denied: str, address: str
) -> None:
    rules = Rules([allowing(denied, effect="deny"), allowing("notes")])
    assert not rules.grants(ANN).admits(f"notes:{address}")
    assert rules.grants(ANN).admits("notes:file:///public/secret")
    assert rules.grants(ANN).admits("notes:file:///secretary")
