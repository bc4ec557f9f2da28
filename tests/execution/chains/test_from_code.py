"""Chains that are read from code."""

import pytest

from toolcrib.errors import NotStraightLineError
from toolcrib.execution.chains.from_code import read_constants, read_steps, replace_constants
from toolcrib.model import ToolCallRecord


def made(*calls: tuple[str, dict[str, object]]) -> list[ToolCallRecord]:
    """Return the trace of calls that went well."""
    return [ToolCallRecord(tool_id=tool, args=args, duration=0.0) for tool, args in calls]


FOUND = ("shop:find:1.0.0", {"name": "ann", "limit": 3})
SENT = ("mail:send", {"to": "x", "body": {}})


def test_calls_become_steps_with_references_to_earlier_results() -> None:
    code = """
'''Tell Ann.'''
who = "ann"
found = await shop.find(who, limit=3)
first = found["items"][0]
__out = await mail.send(to=first["a/b"], body={"all": found, "tags": ["x", -1, None, True], "$ref": "y"})
"""
    steps = read_steps(code, made(FOUND, SENT))
    assert [step.to_json() for step in steps] == [
        {"toolId": "shop:find:1.0.0", "args": {"name": "ann", "limit": 3}},
        {
            "toolId": "mail:send",
            "args": {
                "to": {"$ref": "steps.0/items/0/a~1b"},
                "body": {"all": {"$ref": "steps.0"}, "tags": ["x", -1, None, True], "$ref": "y"},
            },
        },
    ]


def test_a_literal_that_a_chain_would_read_otherwise_is_marked_and_run_tool_is_a_call() -> None:
    code = '__out = await run_tool("mail:send", {"to": "ann", "body": {"$ref": "#/x"}})'
    [step] = read_steps(code, made(SENT))
    assert step.args == {"to": "ann", "body": {"$literal": {"$ref": "#/x"}}}


@pytest.mark.parametrize(
    ("code", "line", "reason"),
    [
        ("for n in range(3):\n    await shop.find(n)", 1, "`for`"),
        ("import json\n__out = await shop.find('ann')", 1, "`import`"),
        ("a = await shop.find('ann')\n__out = a['x'] + 1", 2, "\"a['x'] + 1\""),
        ("a = await shop.find('ann')\n__out = a['x']", 2, "the result of its last step"),
        ("a = await shop.find('ann')", 1, "the result of its last step"),
        ("__out = await shop.find(**{})", 1, "`*` or `**`"),
        ("a = await shop.find('ann')\n__out = await shop.find(f'{a}')", 2, "literals and parts of results"),
        ("__out = await search_tools('x')", 1, "not a tool"),
        ("x = 5", 1, "the result of its last step"),
        ("if True:\n    pass", 1, "`if`"),
    ],
)
def test_code_that_no_chain_can_express_is_reported_with_its_line(code: str, line: int, reason: str) -> None:
    with pytest.raises(NotStraightLineError) as caught:
        read_steps(code, made(FOUND, FOUND))
    assert (caught.value.line, reason in caught.value.reason) == (line, True)


def test_a_call_that_failed_is_no_step() -> None:
    failed = ToolCallRecord(tool_id="shop:find", args={}, duration=0.0, error="no such thing")
    with pytest.raises(NotStraightLineError, match="line 1: this call failed: no such thing"):
        read_steps("__out = await shop.find()", [failed])


def test_constants_are_literals_that_are_named_once_at_the_top() -> None:
    code = "a = 1\nb: list[int] = [1, -2]\nc = a\nd = 1\nd = 2\n_e = 1\nf = {'x': None}\nif a:\n    g = 1\n"
    assert read_constants(code) == {"a": 1, "b": [1, -2], "f": {"x": None}}


def test_other_values_stand_where_the_constants_stood_and_are_only_values() -> None:
    code = "ö = 1; a = [\n    1,\n]  # é\nb = 'x'\n__out = [a, b]\n"
    evil = "'; __import__('os')\n"
    changed = replace_constants(code, {"a": {"k": None}, "b": evil})
    space: dict[str, object] = {}
    exec(changed, space)  # noqa: S102 - what was just made, to see what it says
    assert space["__out"] == [{"k": None}, evil]
    assert "# é" in changed
