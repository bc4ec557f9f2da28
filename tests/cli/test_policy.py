"""The policy commands, and the rules applied to the command's own user."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

RULES = """
[[policy]]
name = "no sums"
tools = ["math:evaluate"]
effect = "deny"
reason = "use the abacus"

[[policy]]
name = "numbers"
tools = ["math:describe_numbers"]
effect = "ask"

[[policy]]
name = "others"
tools = ["notes:*", "math:*"]
effect = "allow"

[[policy]]
name = "late"
tools = ["math:*"]
effect = "deny"
"""


@pytest.fixture
def ruled(tmp_path: Path) -> tuple[str, ...]:
    """Return the options of a command with rules."""
    path = tmp_path / "toolcrib.toml"
    path.write_text(RULES)
    return "--demo", "--config", str(path)


def test_a_refusal_names_its_rule_and_has_an_exit_code_of_its_own(toolcrib: Any, ruled: Any) -> None:
    made = toolcrib("run", "math:evaluate", "expression=2+2", *ruled)
    assert made.exit_code == 5
    assert "was refused by the rule 'no sums': use the abacus" in made.stderr
    made = toolcrib("run", "math:evaluate", "expression=2+2", "--json", *ruled)
    assert json.loads(made.stdout)["error"]["details"]["rule"] == "no sums"


def test_tool_that_needs_consent_runs_with_yes_alone(toolcrib: Any, ruled: Any) -> None:
    call = ("run", "math:describe_numbers", "--args", '{"numbers": [1, 2]}', *ruled)
    made = toolcrib(*call)
    assert (made.exit_code, "--yes" in made.stderr) == (5, True)
    assert toolcrib(*call, "--yes").exit_code == 0


def test_the_command_does_not_find_what_its_user_may_not_run(toolcrib: Any, ruled: Any) -> None:
    listed = json.loads(toolcrib("list", "--json", *ruled).stdout)
    ids = {each["id"] for each in listed["tools"]}
    assert "math:evaluate" not in ids
    assert "math:describe_numbers" in ids
    assert toolcrib("describe", "math:evaluate", *ruled).exit_code == 3


CLOSED = '[[policy]]\nname = "closed"\neffect = "deny"\n'


def test_search_refers_who_may_use_nothing_to_whoever_keeps_the_rules(toolcrib: Any, tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(CLOSED)
    words = "no tools that the rules let you use; the operator can change the rules\n"
    for there in (["--demo"], []):
        asked = [*there, "--config", str(path)]
        assert toolcrib("search", "sums", *asked).stdout == f"nothing fits 'sums'; there are {words}"


def test_list_names_the_rules_that_hide_every_tool_and_a_command_that_explains_them(
    toolcrib: Any, tmp_path: Path
) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(CLOSED)
    made = toolcrib("list", "--demo", "--config", str(path))
    assert made.stdout.startswith(f"the rules in {path} allow none of the 12 tools; `")
    (hidden,) = re.findall(r"policy explain (\S+)`", made.stdout)
    assert (
        "by the rule 'closed'"
        in toolcrib("policy", "explain", hidden, "--demo", "--config", str(path)).stdout
    )
    assert toolcrib("list", "--config", str(path)).stdout == "no tools\n"


@pytest.mark.parametrize(("effect", "is_closed"), [("deny", True), ("ask", False), ("allow", False)])
def test_policy_check_warns_of_rules_that_allow_nothing(
    toolcrib: Any, tmp_path: Path, effect: str, is_closed: bool
) -> None:
    path = tmp_path / "toolcrib.toml"
    rule = '[[policy]]\nname = "no sums"\ntools = ["math:*"]\neffect = "deny"\n'
    path.write_text(f'{rule}[[policy]]\nname = "rest"\neffect = "{effect}"\n')
    made = toolcrib("policy", "check", "--demo", "--config", str(path))
    told = "no rule allows anything, so every one of the 12 tools is refused; add a last rule with effect"
    assert (told in made.stderr) is is_closed
    facts = json.loads(toolcrib("policy", "check", "--json", "--demo", "--config", str(path)).stdout)
    assert ("warning" in facts) is is_closed


def test_rules_that_never_decide_are_found(toolcrib: Any, ruled: Any) -> None:
    made = toolcrib("policy", "check", "--json", *ruled)
    assert made.exit_code == 1
    assert [each["rule"] for each in json.loads(made.stdout)["idle"]] == ["late"]


def test_rules_that_no_tool_could_be_compared_with_are_not_said_to_be_well(toolcrib: Any, ruled: Any) -> None:
    without = tuple(option for option in ruled if option != "--demo")
    made = toolcrib("policy", "check", *without)
    assert made.exit_code == 1
    assert "no tools are known, so the tools that the rules name could not be checked" in made.stderr
    assert "toolcrib status" in json.loads(toolcrib("policy", "check", "--json", *without).stdout)["note"]
    assert "no tools are known" not in toolcrib("policy", "check", *ruled).stderr


def test_rules_are_checked_without_a_server_that_does_not_answer_and_it_is_named(
    toolcrib: Any, tmp_path: Path
) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(f'{RULES}\n[servers.git]\ncommand = "/no/such/program"\n')
    made = toolcrib("policy", "check", "--config", str(path))
    assert "server 'git' is unavailable" in made.stderr


NAMED = f"""
[[policy]]
name = "builds"
who = ["ci"]
effect = "allow"

[[policy]]
name = "gone"
who = ["token:old"]
effect = "allow"

[gateway.tokens.ci]
hash = "sha256:{"0" * 64}"

[gateway.auth]
issuer = "https://login.example"
audience = "https://crib.example/mcp"
"""


@pytest.mark.parametrize(
    ("who", "effect"),
    [("ci", "allow"), ("token:ci", "allow"), ("user:ci", "deny"), ("local:ci", "deny"), ("", "deny")],
)
def test_explained_caller_is_whom_the_rules_mean_by_that_name(
    toolcrib: Any, tmp_path: Path, who: str, effect: str
) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(NAMED)
    call = ("policy", "explain", "math:evaluate", "--as", who, "--json", "--demo", "--config", str(path))
    assert json.loads(toolcrib(*call).stdout)["effect"] == effect


def test_rule_for_a_token_that_is_not_configured_never_takes_effect(toolcrib: Any, tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(NAMED)
    made = toolcrib("policy", "check", "--demo", "--config", str(path))
    assert made.exit_code == 1
    assert "the rule 'gone' never takes effect: gateway.tokens has no token:old" in made.stderr
    assert "'builds'" not in made.stderr


def test_a_decision_is_explained_rule_by_rule(toolcrib: Any, ruled: Any) -> None:
    made = json.loads(
        toolcrib("policy", "explain", "math:convert_length", "--as", "ann", "--json", *ruled).stdout
    )
    assert (made["effect"], made["rule"]) == ("allow", "others")
    assert [row["verdict"] for row in made["rules"]] == [
        "is for other tools",
        "is for other tools",
        "decides",
        "comes after the rule that decides",
    ]
    denied = toolcrib("policy", "explain", "math:evaluate", *ruled)
    assert "math:evaluate: deny (by the rule 'no sums': use the abacus)" in denied.stdout
    assert made["reason"] is None


@pytest.mark.parametrize(
    ("rule", "confirm", "said"),
    [
        ('tools = ["notes:delete_all"]', "true", "the rule 'x' names it, which counts as consent"),
        (
            "annotations = { destructiveHint = true }",
            "true",
            "the rule 'x' has destructiveHint = true, which",
        ),
        (
            'tools = ["*"]',
            "true",
            "a client of the gateway asks its user first (gateway.confirm = true)",
        ),
        ('tools = ["notes:*"]', "false", "gateway.confirm = false: nobody is asked"),
    ],
    ids=["its id", "the hint", "everything", "switched off"],
)
def test_an_explanation_says_whether_a_rule_counts_as_consent_to_a_destructive_tool(
    toolcrib: Any, tmp_path: Path, rule: str, confirm: str, said: str
) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(f'[[policy]]\nname = "x"\neffect = "allow"\n{rule}\n[gateway]\nconfirm = {confirm}\n')
    call = ("policy", "explain", "notes:delete_all", "--demo", "--config", str(path))
    assert said in toolcrib(*call).stdout
    assert said in json.loads(toolcrib(*call, "--json").stdout)["confirmation"]
    harmless = toolcrib("policy", "explain", "notes:add", *call[3:], "--json")
    assert json.loads(harmless.stdout)["confirmation"] is None


def test_a_rule_about_other_arguments_is_told_from_a_later_one(toolcrib: Any, tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    first = 'name = "sums"\nargs = { properties = { expression = { const = "1+1" } } }\neffect = "allow"'
    path.write_text(f'[[policy]]\n{first}\n[[policy]]\nname = "rest"\neffect = "deny"\n')
    call = ("policy", "explain", "math:evaluate", "--json", "--demo", "--config", str(path))
    made = json.loads(toolcrib(*call, "--args", '{"expression": "2+2"}').stdout)
    assert [row["verdict"] for row in made["rules"]] == ["is for other arguments", "decides"]


def test_past_calls_are_judged_by_the_rules_of_today(toolcrib: Any, ruled: Any, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    lines = [
        {"gen_ai.tool.name": name, "user.id": "ann"}
        for name in ("math:evaluate", "notes:add", "notes:add", "math:evaluat")
    ]
    audit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    made = json.loads(toolcrib("policy", "simulate", str(audit), "--json", *ruled).stdout)
    assert {(row["effect"], row["calls"]) for row in made["decisions"]} == {
        ("deny", 1),
        ("allow", 2),
        ("unknown", 1),
    }
    [unknown] = [row for row in made["decisions"] if row["effect"] == "unknown"]
    assert unknown["reason"] == "no tool named 'math:evaluat'; did you mean 'math:evaluate'?"
    shown = toolcrib("policy", "simulate", str(audit), *ruled).stderr
    assert f"unknown: {unknown['reason']}" in shown
    assert "`toolcrib list` shows the tools" in shown
    audit.write_text("not json\n")
    assert toolcrib("policy", "simulate", str(audit), *ruled).exit_code == 2


def test_without_rules_every_call_is_allowed(toolcrib: Any, tmp_path: Path) -> None:
    shown = toolcrib("policy", "explain", "math:evaluate", "--demo")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("math:evaluate: allow (there are no rules: everybody may run everything")
    decided = json.loads(toolcrib("policy", "explain", "math:evaluate", "--demo", "--json").stdout)
    assert decided == {
        "toolId": "math:evaluate",
        "effect": "allow",
        "rule": None,
        "reason": None,
        "rules": [],
        "limits": [],
    }
    audit = tmp_path / "audit.jsonl"
    audit.write_text('{"gen_ai.tool.name": "math:evaluate"}\n{"gen_ai.tool.name": "math:gone"}\n')
    made = json.loads(toolcrib("policy", "simulate", str(audit), "--demo", "--json").stdout)
    assert [(row["effect"], row["toolId"]) for row in made["decisions"]] == [
        ("allow", "math:evaluate"),
        ("unknown", "math:gone"),
    ]
    assert "there are no rules" in toolcrib("policy", "simulate", str(audit), "--demo").stderr


@pytest.mark.parametrize("rules", ["", '[[policy]]\nname = "all"\neffect = "allow"\n'])
def test_explain_shows_the_rate_limits_of_a_call(toolcrib: Any, tmp_path: Path, rules: str) -> None:
    path = tmp_path / "limited.toml"
    path.write_text(
        f'{rules}[[rate_limits]]\nname = "sums"\ntools = ["math:*"]\nlimit = "60/minute"\n'
        '[[rate_limits]]\nname = "of ann"\nwho = ["ann"]\nlimit = "5/day"\n'
        '[[rate_limits]]\nname = "notes"\ntools = ["notes"]\nlimit = "1/day"\n'
    )
    call = ("policy", "explain", "math:evaluate", "--demo", "--config", str(path))
    assert toolcrib(*call).stdout.splitlines()[-1] == "rate limit 'sums': 60/minute"
    assert json.loads(toolcrib(*call, "--as", "ann", "--json").stdout)["limits"] == [
        {"name": "sums", "limit": "60/minute"},
        {"name": "of ann", "limit": "5/day"},
    ]


def test_without_rules_a_tool_that_is_not_there_is_not_found(toolcrib: Any) -> None:
    assert toolcrib("policy", "explain", "math:evaluat", "--demo").exit_code == 3


def test_explain_waits_for_the_server_of_the_tool(toolcrib: Any, little: Any, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    rules = [{"name": "all", "effect": "allow", "tools": ["a:*"]}]
    path.write_text(json.dumps({"mcpServers": {"a": little()}, "toolcrib": {"policy": rules}}))
    explained = json.loads(toolcrib("policy", "explain", "a:shout", "--json", "--config", str(path)).stdout)
    assert (explained["effect"], explained["rule"]) == ("allow", "all")
