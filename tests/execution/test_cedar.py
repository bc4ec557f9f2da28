"""Policies in Cedar decide as rules do: the same questions, the same answers where both can say it."""

from pathlib import Path
from typing import Any

import pytest
from execution.test_policy import ANN, request_of

from toolcrib import Crib
from toolcrib.crib import load
from toolcrib.errors import ConfigError, PolicyDeniedError
from toolcrib.execution import Principal, Rule
from toolcrib.execution.cedar import CedarPolicy
from toolcrib.execution.policy import Rules, approving
from toolcrib.model import McpBackend

pytestmark = pytest.mark.anyio
READ_ONLY = {"annotations": {"readOnlyHint": True}}
BOB = Principal(issuer="https://login.example", subject="bob")
TEXT = """
@id("no deleting") @reason("ask the platform team")
forbid(principal, action, resource) when { resource.name like "delete_*" };

@id("readers")
permit(principal in Group::"staff", action == Action::"run", resource)
when { resource.hints has readOnlyHint && resource.hints.readOnlyHint };

@id("main is protected") @effect("ask")
permit(principal, action == Action::"run", resource == Tool::"git:push")
when { context.args has branch && context.args.branch == "main" };

@id("billing")
permit(principal == User::"bob", action, resource in Tag::"billing");

@id("manuals")
permit(principal, action == Action::"read", resource in Namespace::"notes")
when { resource.name like "file:///manuals/*" };
"""
RULES = [
    {"name": "no deleting", "tools": ["*:delete_*"], "effect": "deny", "reason": "ask the platform team"},
    {"name": "readers", "who": ["group:staff"], "annotations": {"readOnlyHint": True}, "effect": "allow"},
    {
        "name": "main is protected",
        "tools": ["git:push"],
        "args": {"properties": {"branch": {"const": "main"}}, "required": ["branch"]},
        "effect": "ask",
    },
    {"name": "billing", "who": ["bob"], "tools": ["tag:billing"], "effect": "allow"},
    {"name": "manuals", "tools": ["notes:file:///manuals/*"], "effect": "allow"},
]


@pytest.fixture(params=["rules", "cedar"])
def policy(request: pytest.FixtureRequest) -> Rules:
    if request.param == "cedar":
        return CedarPolicy(TEXT)
    return Rules([Rule(**rule) for rule in RULES])


@pytest.mark.parametrize(
    ("tool", "args", "who", "more", "effect", "rule"),
    [
        ("git:log", {}, ANN, READ_ONLY, "allow", "readers"),
        ("git:log:1.2.3", {}, ANN, READ_ONLY, "allow", "readers"),
        ("git:log", {}, ANN, {}, "deny", None),
        ("git:log", {}, BOB, READ_ONLY, "deny", None),
        ("git:log", {}, None, READ_ONLY, "deny", None),
        ("git:delete_tag", {}, ANN, READ_ONLY, "deny", "no deleting"),
        ("git:push", {"branch": "main"}, ANN, {}, "ask", "main is protected"),
        ("git:push", {"branch": "other"}, ANN, {}, "deny", None),
        ("git:push", {}, ANN, {}, "deny", None),
        ("shop:pay", {}, BOB, {"tags": ["billing"]}, "allow", "billing"),
        ("shop:pay", {}, ANN, {"tags": ["billing"]}, "deny", None),
        ("pay", {}, BOB, {"tags": ["billing"]}, "allow", "billing"),
        ("shop:pay", {}, BOB, {"tags": ["billing"], "backend": McpBackend(server_name="shop")}, "deny", None),
    ],
)
def test_both_decide_alike_and_name_the_same_rule(  # noqa: PLR0913, PLR0917 - the columns of a table
    policy: Rules,
    tool: str,
    args: dict[str, Any],
    who: Principal | None,
    more: dict[str, Any],
    effect: str,
    rule: str | None,
) -> None:
    name, _, version = tool.partition(":1")
    request = request_of(name, args, who, **more | ({"version": f"1{version}"} if version else {}))
    decision = policy.decide(request)
    assert (decision.effect, None if decision.rule is None else decision.rule.name) == (effect, rule)


def test_both_find_what_some_arguments_allow_and_nothing_else(policy: Rules) -> None:
    ann, bob = policy.grants(ANN), policy.grants(BOB)
    hints = {"read_only_hint": True}
    assert ann.may_find("git:log", (), hints)
    assert not ann.may_find("git:log", (), {"read_only_hint": False})
    assert not ann.may_find("git:log")
    assert not ann.may_find("git:delete_tag", (), hints)
    assert ann.may_find("git:push")
    assert ann.may_ask(request_of("git:push").tool)
    assert not ann.may_ask(request_of("git:log").tool)
    assert bob.may_find("shop:pay", ("billing",))
    assert not bob.may_find("shop:pay", ("billing",), vouched=False), "a server tags its own tools"
    assert ann.key != bob.key


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("permit(principal, action, resource);", True),
        ('forbid(principal, action, resource) when { resource.name like "delete_*" };\npermit(principal, action, resource);', True),
        ('permit(principal in Group::"staff", action, resource);', False),
        ('permit(principal, action, resource in Namespace::"git");', False),
        ('permit(principal, action, resource);\nforbid(principal, action, resource in Namespace::"hr");', False),
    ],
)  # fmt: skip
def test_policies_say_whether_a_server_of_unknown_tools_may_have_some_to_find(text: str, may: bool) -> None:
    grants = CedarPolicy(text).grants(BOB)
    assert grants.may_find_in("hr") is may
    assert grants.may_have_content("hr") is may


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ('permit(principal, action, resource == Content::"hr:file:///a");', True),
        ('permit(principal, action, resource == Content::"git:file:///a");', False),
        ('permit(principal, action, resource) when { resource.name like "file:*" };', True),
        ('permit(principal, action == Action::"run", resource);', False),
        ('permit(principal, action, resource);\nforbid(principal, action, resource in Namespace::"hr") unless { resource.name like "file:*" };', True),
        ("permit(principal, action, resource);\nforbid(principal, action, resource);", False),
    ],
)  # fmt: skip
def test_policies_say_whether_a_server_may_have_content_to_read(text: str, may: bool) -> None:
    assert CedarPolicy(text).grants(BOB).may_have_content("hr") is may


def test_policies_refuse_an_id_that_no_tool_has_by_the_policy_that_denies_it() -> None:
    text = (
        '@id("no hr") @reason("ask them") forbid(principal, action, resource in Namespace::"hr");\n'
        'permit(principal, action, resource in Namespace::"git");'
    )
    grants = CedarPolicy(text).grants(BOB)
    refused, unknown = grants.refusal("hr:fire"), grants.refusal("shop:pay")
    assert refused is not None
    assert (refused.rule, refused.reason) == ("no hr", "ask them")
    assert unknown is not None
    assert unknown.rule is None
    assert grants.refusal("git:log") is None


@pytest.mark.parametrize(
    ("text", "consents", "always"),
    [
        ('permit(principal, action, resource == Tool::"git:push");', True, True),
        ('permit(principal, action, resource);\npermit(principal, action, resource == Tool::"git:push");', True, True),
        ('permit(principal, action, resource == Tool::"git:push") when { context.args has x };', True, False),
        ('permit(principal, action, resource in Namespace::"git");', False, False),
        ("permit(principal, action, resource);", False, False),
        ('@effect("ask") permit(principal, action, resource == Tool::"git:push");', False, False),
        ("forbid(principal, action, resource);", False, True),
    ],
)  # fmt: skip
def test_a_permit_whose_head_names_a_tool_consents_to_it(text: str, consents: bool, always: bool) -> None:
    policy, request = CedarPolicy(text), request_of("git:push", {"x": 1})
    assert policy.consents(request) is consents
    assert policy.grants(ANN).always_consents(request.tool) is always


def test_both_let_the_same_content_be_read(policy: Rules) -> None:
    grants = policy.grants(ANN)
    grants.admit("notes:file:///manuals/a")
    for other in ("notes:file:///secret", "notes:file:///manuals/../secret", "other:file:///manuals/a"):
        assert not grants.admits(other)
    with pytest.raises(PolicyDeniedError, match="no rule allows it"):
        grants.admit("notes:file:///manuals/%2e%2e/secret")


async def test_a_refusal_names_the_policy_and_its_reason_and_a_person_is_asked(policy: Rules) -> None:
    with pytest.raises(PolicyDeniedError, match="ask the platform team") as refused:
        await policy(request_of("git:delete_tag"))
    assert refused.value.rule == "no deleting"
    push = request_of("git:push", {"branch": "main"})
    with pytest.raises(PolicyDeniedError, match="nobody could be asked") as unasked:
        await policy(push)
    assert unasked.value.rule == "main is protected"
    with approving(lambda _, rule: rule.name == "main is protected"):
        assert (await policy(push)).rule == "main is protected"


@pytest.mark.parametrize(
    ("args", "effect"),
    [
        ({"n": 3}, "allow"),
        ({"n": 3.0}, "allow"),
        ({"n": 3, "note": None, "deep": [{"x": [1.5, None, 2**80]}]}, "allow"),
        ({"n": 4}, "deny"),
        ({"n": 3, "who": {"__entity": {"type": "User", "id": "root"}}}, "deny"),
        ({"n": 3, "who": [{"__extn": {"fn": "ip", "arg": "127.0.0.1"}}]}, "deny"),
    ],
)
def test_arguments_reach_cedar_as_values_and_never_as_something_else(
    args: dict[str, Any], effect: str
) -> None:
    policy = CedarPolicy("permit(principal, action, resource) when { context.args.n == 3 };")
    assert policy.decide(request_of("git:log", args)).effect == effect


def test_a_forbid_that_cannot_be_evaluated_refuses() -> None:
    text = """permit(principal, action, resource);
    @id("careful") forbid(principal, action, resource) when { context.args.branch == "main" };"""
    decision = CedarPolicy(text).decide(request_of("git:push"))
    assert (decision.effect, decision.rule and decision.rule.name) == ("deny", "careful")
    assert CedarPolicy(text).decide(request_of("git:push", {"branch": "x"})).effect == "allow"


@pytest.mark.parametrize(
    "subject", ['a"b', "a\\b", "a\nb", "é", '" || true', "a\x00b", "O'Brien", "a\tb\r", "\u200b"]
)
def test_a_subject_of_any_characters_is_that_subject_and_no_other(subject: str) -> None:
    policy = CedarPolicy('permit(principal, action, resource) when { principal.subject == "root" };')
    who = Principal(issuer="i", subject=subject)
    assert policy.decide(request_of("git:log", principal=who)).effect == "deny"
    assert not policy.grants(who).may_find("git:log")
    allowing = CedarPolicy('permit(principal, action, resource) when { principal.issuer == "i" };')
    assert allowing.grants(who).may_find("git:log")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("permit(", "unexpected end of input"),
        ('@effect("ask") forbid(principal, action, resource);', "only on a permit"),
        ('@effect("perhaps") permit(principal, action, resource);', "only on a permit"),
    ],
)
def test_a_text_that_is_not_a_policy_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        CedarPolicy(text)


async def test_a_configuration_names_a_file_of_policies_beside_it(tmp_path: Path) -> None:
    config, rules = tmp_path / "toolcrib.toml", tmp_path / "rules.cedar"
    config.write_text('store = "memory"\npolicy = { cedar = "rules.cedar" }\n')
    with pytest.raises(ConfigError, match=r"/policy/cedar cannot be read|/policy/cedar: cannot be read"):
        load(config)
    rules.write_text("permit(")
    with pytest.raises(ConfigError, match=r"rules\.cedar"):
        load(config)
    rules.write_text(
        '@id("greeters") permit(principal in Group::"staff", action, resource == Tool::"greet");'
    )
    async with Crib(config) as crib:

        @crib.add
        def greet(name: str) -> str:
            """Greet somebody."""
            return f"Hello {name}"

        assert (await crib.run("greet", {"name": "Ann"}, principal=ANN)).structured == "Hello Ann"
        with pytest.raises(PolicyDeniedError):
            await crib.run("greet", {"name": "Bob"}, principal=BOB)
        assert len((await crib.seen_by(BOB).tools()).items) == 0
        assert len((await crib.seen_by(ANN).tools()).items) == 1
        rules.write_text("permit(principal, action, resource);")
        await crib.reload(load(config))
        assert (await crib.run("greet", {"name": "Bob"}, principal=BOB)).structured == "Hello Bob"
