"""Toolsets that give tools another shape: every way to a tool speaks the new names, and none shows the old."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib import Crib
from toolcrib.crib import ToolsetSettings, View
from toolcrib.crib.access import explain_access
from toolcrib.errors import (
    ConfigError,
    InputValidationError,
    InvalidChainError,
    PolicyDeniedError,
    ToolcribError,
    ToolExecutionError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.execution import Principal
from toolcrib.model import LocalBackend, LocalTool, Tool, ToolExample

pytestmark = pytest.mark.anyio
SHAPE = {
    "name": "file_bug",
    "description": "Report a defect of the product.",
    "rename": {"title": "summary"},
    "describe": {"title": "One line about the defect."},
    "fix": {"token": "s3cret"},
    "hide": ["dry_run"],
    "defaults": {"labels": ["bug"]},
}
OTHER_WORDS = {"description": "Another description."}
Calls = list[tuple[str, str, list[str], bool]]


def crib_with(shape: dict[str, Any] = SHAPE, **config: Any) -> tuple[Crib, Calls]:
    """Return a crib whose toolset `team` shapes a tool, and the calls that the tool gets."""
    tools = {"github:create_issue": shape}
    crib = Crib({"toolsets": {"team": {"namespaces": ["github"], "tools": tools}}, **config})
    calls: Calls = []

    @crib.add(namespace="github")
    async def create_issue(
        title: str, token: str, labels: list[str], dry_run: bool = False
    ) -> dict[str, Any]:
        """Create an issue with a token."""
        if title == "fail":
            raise ValueError("no such repository")
        calls.append((title, token, labels, dry_run))
        return {"made": title}

    @crib.add(namespace="github")
    async def list_issues(limit: int = 5) -> int:
        """List the issues."""
        return limit

    return crib, calls


@pytest.fixture
def calls() -> Calls:
    return []


async def test_a_shaped_tool_is_found_listed_and_described_by_its_new_names() -> None:
    crib, _ = crib_with()
    view = crib.view("team")
    assert [each.id for each in await view.tools()] == ["github:file_bug", "github:list_issues"]
    assert (await view.search("report a defect"))[0].id == "github:file_bug"
    doc = await view.describe("github:file_bug", "full")
    assert doc.tool is not None
    assert doc.tool.input_schema["properties"] == {
        "summary": {"type": "string", "description": "One line about the defect."},
        "labels": {"type": "array", "items": {"type": "string"}, "default": ["bug"]},
    }
    text = json.dumps(doc.to_json())
    assert not [word for word in ("token", "s3cret", "dry_run", "title") if f'"{word}"' in text]
    assert [each.id for each in await crib.tools()] == ["github:create_issue", "github:list_issues"]


async def test_a_call_by_the_new_name_gets_the_mapped_arguments() -> None:
    crib, calls = crib_with()
    result = await crib.view("team").run("github:file_bug", {"summary": "It hangs"})
    assert calls == [("It hangs", "s3cret", ["bug"], False)]
    assert (str(result.tool.id), result.structured) == ("github:file_bug", {"made": "It hangs"})


async def test_the_old_id_still_means_the_tool_in_its_shape() -> None:
    crib, calls = crib_with()
    view = crib.view("team")
    await view.run("github:create_issue", {"summary": "x", "labels": []})
    assert calls == [("x", "s3cret", [], False)]
    with pytest.raises(InputValidationError):
        await view.run("github:create_issue", {"title": "x", "token": "mine", "labels": []})
    assert str(view["github:create_issue"].id) == "github:file_bug"


@pytest.mark.parametrize(
    "args",
    [
        {"summary": "x", "token": "mine"},
        {"summary": "x", "dry_run": True},
        {"title": "x"},
        {"summary": "x", "Token": "mine"},
        {"summary": "x", "token ": "mine"},
        {"summary": "x", "/token": "mine"},
        '{"summary": "x", "token": "mine"}',
        {"summary": "x", "args": {"token": "mine"}},
    ],
)
async def test_a_fixed_parameter_cannot_be_given_in_any_way(args: Any) -> None:
    crib, calls = crib_with()
    with pytest.raises(InputValidationError) as caught:
        await crib.view("team").run("github:file_bug", args)
    assert calls == []
    given = json.loads(args) if isinstance(args, str) else args
    shown = str(caught.value)
    assert not [word for word in ("s3cret", "token", "dry_run") if word in shown and word not in str(given)]


async def test_problems_and_failures_are_told_under_the_names_that_the_caller_knows() -> None:
    crib, _ = crib_with()
    view = crib.view("team")
    with pytest.raises(InputValidationError) as wrong:
        await view.run("github:file_bug", {"summary": 5})
    assert [problem.path for problem in wrong.value.problems] == ["/summary"]
    assert wrong.value.tool_id == "github:file_bug"
    with pytest.raises(ToolExecutionError) as failed:
        await view.run("github:file_bug", {"summary": "fail"})
    assert failed.value.tool_id == "github:file_bug"
    assert "create_issue" not in str(failed.value)
    with pytest.raises(ToolNotFoundError):
        await crib.run("github:file_bug", {"summary": "x"})


async def test_chains_code_streams_stubs_and_conversions_speak_the_new_names() -> None:
    crib, calls = crib_with()
    view = crib.view("team")
    chained = await view.run_chain([{"tool_id": "github:file_bug", "args": {"summary": "chain"}}])
    assert chained.results[0].tool_id == "github:file_bug"
    ran = await view.execute("__out = await github.file_bug(summary='code')")
    assert ran.value == {"made": "code"}
    events = [event async for event in view.stream("github:file_bug", {"summary": "stream"})]
    assert {event.tool_id for event in events} == {"github:file_bug"}
    assert [call[0] for call in calls] == ["chain", "code", "stream"]
    assert "file_bug(self, summary: str" in await view.stubs()
    (converted, _) = view.convert("openai")
    assert converted.payload["function"]["name"] == "file_bug"
    with pytest.raises(ToolcribError):
        await view.run_chain([{"tool_id": "github:file_bug", "args": {"summary": "x", "token": "mine"}}])
    assert len(calls) == 3


async def test_rules_and_the_audit_name_the_tool_itself(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    rules = [
        {
            "name": "ours",
            "who": ["*"],
            "tools": ["github:create_issue"],
            "args": {"properties": {"token": {"const": "s3cret"}}, "required": ["token"]},
            "effect": "allow",
        }
    ]
    crib, calls = crib_with(policy=rules, audit={"path": str(path), "arguments": True})
    ann = crib.view("team").seen_by(Principal(subject="ann"))
    assert [each.id for each in await ann.tools()] == ["github:file_bug"]
    await ann.run("github:file_bug", {"summary": "x"})
    assert len(calls) == 1
    async with crib:
        pass
    (record,) = map(json.loads, path.read_text().splitlines())
    assert (record["gen_ai.tool.name"], record["toolcrib.seen_as"]) == (
        "github:create_issue",
        "github:file_bug",
    )
    assert record["gen_ai.tool.call.arguments"]["title"] == "x"


async def test_explained_call_has_the_arguments_of_the_toolset() -> None:
    condition = {"properties": {"token": {"const": "s3cret"}, "title": {"const": "x"}}, "required": ["token"]}
    rule = {
        "name": "ours",
        "who": ["*"],
        "tools": ["github:create_issue"],
        "args": condition,
        "effect": "allow",
    }
    crib, _ = crib_with(policy=[rule])
    view = crib.view("team")
    decided = [
        explain_access(view, "github:file_bug", {"summary": text}, subject="ann")["effect"] for text in "xy"
    ]
    assert decided == ["allow", "deny"]
    with pytest.raises(ValidationError, match="'title' is not a parameter"):
        explain_access(view, "github:file_bug", {"title": "x"}, subject="ann")
    whole = explain_access(crib, "github:create_issue", {"title": "x", "token": "s3cret"}, subject="ann")
    assert whole["effect"] == "allow"


async def test_a_rule_about_the_old_id_denies_the_new_one() -> None:
    rules = [
        {"name": "never", "who": ["*"], "tools": ["github:create_issue"], "effect": "deny"},
        {"name": "rest", "who": ["*"], "tools": ["*"], "effect": "allow"},
    ]
    crib, calls = crib_with(policy=rules)
    ann = crib.view("team").seen_by(Principal(subject="ann"))
    assert [each.id for each in await ann.tools()] == ["github:list_issues"]
    with pytest.raises(PolicyDeniedError) as denied:
        await ann.run("github:file_bug", {"summary": "x"})
    assert denied.value.tool_id == "github:file_bug"
    assert calls == []


async def test_two_tools_may_exchange_their_names() -> None:
    tools = {"a:one": {"name": "two"}, "a:two": {"name": "one"}}
    crib = Crib({"toolsets": {"team": {"tools": tools}}})
    for name in ("one", "two"):

        @crib.add(namespace="a", name=name)
        async def told(_name: str = name) -> str:
            return _name

    view = crib.view("team")
    assert (await view.run("a:one")).structured == "two"
    assert (await view.run("a:two")).structured == "one"


async def test_documentation_of_a_tool_is_shown_in_its_shape() -> None:
    crib, _ = crib_with()
    crib.discovery.register_doc(
        "github:create_issue",
        notes="The token is checked.",
        examples=[{"title": "Hang", "args": {"title": "x", "token": "abc", "labels": []}}],
    )
    doc = await crib.view("team").describe("github:file_bug", "full")
    assert doc.notes is None
    assert [each.args for each in doc.examples] == [{"summary": "x", "labels": []}]
    assert (await crib.describe("github:create_issue", "full")).notes == "The token is checked."


@pytest.mark.parametrize("named", ["github:file_bug", "github:create_issue"])
async def test_every_way_to_name_a_tool_takes_both_ids(named: str) -> None:
    crib, calls = crib_with()
    async with crib:
        team = crib.view("team")
        assert str(team[named].id) == "github:file_bug"
        assert (await team.describe(named)).tool.name == "file_bug"
        (converted,) = team.convert("openai", tools=[named])
        assert converted.payload["function"]["parameters"]["required"] == ["summary"]
        assert "def file_bug" in await team.stubs([named])
        for search in (False, True):
            session = await team.session("openai", tools=[named], search=search)
            tool = session.tools[-1]["function"]
            assert "token" not in tool["parameters"]["properties"]
            call = {"id": "1", "type": "function", "function": {"name": tool["name"], "arguments": "{}"}}
            call["function"]["arguments"] = json.dumps({"summary": f"by {named}"})  # type: ignore[index]
            said = {"role": "assistant", "tool_calls": [call]}
            await session.run({"choices": [{"message": said}]})
        await team.run(named, {"summary": "run"})
        await team.run_chain([{"tool_id": named, "args": {"summary": "chain"}}])
    assert [title for title, *_ in calls] == [f"by {named}"] * 2 + ["run", "chain"]
    assert {token for _, token, *_ in calls} == {"s3cret"}


class CountingEmbedder:
    """An embedder that counts the texts of each call."""

    key = "counting"
    dimensions = 8

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str], /) -> Any:
        self.texts += texts
        return np.array([[len(text) % (place + 2) + 1 for place in range(8)] for text in texts], np.float32)

    async def embed(self, texts: Sequence[str], /) -> Any:
        return self.encode(texts)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_toolsets_share_the_vectors_of_tools_that_they_do_not_change(
    is_stored: bool, tmp_path: Path
) -> None:
    embedder = CountingEmbedder()
    shape = {"tools:tool_0": {"description": "Another tool."}}
    toolsets = {
        f"t{number}": {"tools": {**shape, f"tools:tool_{number}": OTHER_WORDS}} for number in range(1, 6)
    }
    settings: dict[str, object] = {"toolsets": toolsets}
    if is_stored:
        settings["store"] = str(tmp_path / "store.db")
    async with Crib(settings, embedder=embedder) as crib:
        for number in range(20):
            tool = Tool(name=f"tool_{number}", namespace="tools", input_schema={"type": "object"})
            crib.discovery.register(tool, LocalBackend(name="f"))
        await crib.search("number one")
        once = len(embedder.texts)
        for name in toolsets:
            await crib.view(name).search("number one")
    # Each toolset changes one tool of its own, all change another in the same way, and each embeds the question.
    assert len(embedder.texts) - once <= 2 * (1 + len(toolsets)) + len(toolsets)


def test_model_of_the_settings_is_chosen_once_for_all_toolsets(caplog: pytest.LogCaptureFixture) -> None:
    toolsets = {f"t{number}": {"tools": {f"a{number}": OTHER_WORDS}} for number in range(3)}
    crib = Crib({"toolsets": toolsets, "search": {"model": "missing"}})
    for name in toolsets:
        crib.view(name).index.list_all()
    assert [each.message for each in caplog.records if "the built-in model" in each.message][1:] == []
    assert "the built-in model" in caplog.text


async def test_shaped_tool_is_found_by_its_example_questions() -> None:
    crib, _ = crib_with()
    example = ToolExample(title="the build is red", description="with the token of bob", args={})
    team = crib.view("team")
    (before,) = await team.search("the build is red", limit=1)
    crib.discovery.register_examples("github:create_issue", [example])
    (found,) = await team.search("the build is red", limit=1)
    assert found.summary.id == "github:file_bug"
    assert found.confidence > before.confidence
    assert team.index.example_questions("github:file_bug") == ("the build is red",)
    crib.discovery.register_examples("github:create_issue", [])
    assert team.index.example_questions("github:file_bug") == ()


def _register(crib: Crib, **properties: Any) -> None:
    schema = {"type": "object", "properties": properties}
    record = Tool(name="create_issue", namespace="github", input_schema=schema)
    crib.discovery.register(record, LocalBackend(name="github:create_issue"))


async def test_a_shape_that_no_longer_fits_keeps_the_tool_out_until_it_fits_again() -> None:
    crib, _ = crib_with()
    view = crib.view("team")
    changes: list[str] = []
    view.index.on_change(lambda change: changes.append(f"{change.kind} {change.tool_id}"))
    _register(crib, title={"type": "string"})
    assert [each.id for each in await view.tools()] == ["github:list_issues"]
    with pytest.raises(ToolNotFoundError) as missing:
        await view.run("github:file_bug", {"summary": "x"})
    assert "its shape in this toolset does not fit it" in str(missing.value)
    assert "token" not in str(missing.value)
    _register(crib, title={}, token={}, labels={}, dry_run={})
    assert "github:file_bug" in view
    assert changes == ["removed github:file_bug", "registered github:file_bug"]


async def test_a_change_of_a_hidden_parameter_alone_is_followed() -> None:
    crib, calls = crib_with()
    view = crib.view("team")
    await view.run("github:file_bug", {"summary": "before"})
    schema = crib["github:create_issue"].input_schema
    schema["properties"]["token"] = {"type": "integer"}
    record = crib["github:create_issue"].replace(input_schema=schema)
    crib.discovery.register(record, LocalBackend(name="github:create_issue"))
    with pytest.raises(ToolNotFoundError):
        await view.run("github:file_bug", {"summary": "after"})
    assert len(calls) == 1


@pytest.mark.parametrize("ref", ["github:create_issue", "github:list_issues"])
async def test_tools_that_would_share_a_name_are_both_kept_out(ref: str) -> None:
    crib, calls = crib_with({"name": "list_issues"})
    view = crib.view("team")
    assert [each.id for each in await view.tools()] == []
    with pytest.raises(ToolNotFoundError) as missing:
        await view.run(ref, {"title": "x", "token": "t", "labels": []})
    for part in ("'github:create_issue'", "'github:list_issues'", "toolcrib shape"):
        assert part in str(missing.value)
    assert calls == []
    assert (await crib.run("github:list_issues")).structured == 5


@pytest.mark.parametrize("is_present", [True, False], ids=["shaped tool listed", "shaped tool missing"])
async def test_added_tool_never_takes_over_the_name_that_a_shape_gives(is_present: bool) -> None:
    crib, calls = crib_with()
    view = crib.view("team")
    if not is_present:
        crib.discovery.unregister("github:create_issue")
    taken: list[str] = []

    @crib.add(namespace="github")
    async def file_bug(summary: str = "") -> None:
        """Take over a name."""
        taken.append(summary)

    for ref in ("github:create_issue", "github:file_bug"):
        with pytest.raises(ToolNotFoundError):
            await view.run(ref, {"summary": "x"})
    with pytest.raises(InvalidChainError, match="github:file_bug"):
        await view.run_chain([{"toolId": "github:file_bug", "args": {"summary": "x"}}])
    assert "github:file_bug" not in view
    assert [each.id for each in await view.tools()] == ["github:list_issues"]
    assert taken == calls == []
    crib.discovery.unregister("github:file_bug")
    assert ("github:file_bug" in view) is is_present


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"a:b": {"name": "no name"}}, "no name"),
        ({"a:b": {"fix": {"x": 1}, "hide": ["x"]}}, "fix: 'x' has another value or is hidden"),
        ({"a:b": {"rename": {"x": "z", "y": "z"}}}, "two parameters are called 'z'"),
        ({"a:b": {"rename": {"x": "z"}, "hide": ["x"]}}, "'x' is hidden from callers"),
        ({"a:b": {"nmae": "x"}}, "did you mean 'name'?"),
        ({"a:b": {"name": "z"}, "a:c": {"name": "z"}}, "a:b and a:c would have the same name"),
        ({"a:b:c:d": {"name": "z"}}, "more than two colons"),
        ({"a:b:1.0.0": {"name": "z"}}, "a shape is for all versions"),
    ],
)
def test_a_shape_that_cannot_be_meant_is_refused_with_the_configuration(
    shapes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Crib({"toolsets": {"team": {"tools": shapes}}})
    assert reason in str(caught.value)


PARAMETERS = ("alpha", "beta", "gamma")
VALUES = st.one_of(st.integers(0, 2), st.sampled_from(["x", "y"]), st.none())


@st.composite
def _shaped(draw: st.DrawFn) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Draw a shape, and the mapping of arguments that it stands for."""
    shape: dict[str, Any] = {"name": "renamed", "rename": {}, "fix": {}, "hide": [], "defaults": {}}
    for name in PARAMETERS:
        fate = draw(st.sampled_from(["same", "rename", "fix", "hide", "default"]))
        if fate == "rename":
            shape["rename"][name] = f"new_{name}"
        elif fate == "hide":
            shape["hide"].append(name)
        elif fate in {"fix", "default"}:
            shape["fix" if fate == "fix" else "defaults"][name] = draw(VALUES)

    def map_args(args: dict[str, Any]) -> dict[str, Any]:
        own = {shape["rename"].get(name, name): name for name in PARAMETERS}
        mapped = {own[name]: value for name, value in args.items()}
        return {**shape["defaults"], **mapped, **shape["fix"]}

    return shape, map_args


@given(shaped=_shaped(), data=st.data())
@law(150)
def test_a_shaped_tool_does_what_the_original_does_with_the_mapped_arguments(
    shaped: tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]], data: st.DataObject
) -> None:
    shape, map_args = shaped
    seen = [
        shape["rename"].get(name, name)
        for name in PARAMETERS
        if name not in shape["fix"] and name not in shape["hide"]
    ]
    args = data.draw(st.dictionaries(st.sampled_from(seen), VALUES)) if seen else {}
    schema = {
        "properties": {"alpha": {"type": ["integer", "null"]}, "beta": {}, "gamma": {"enum": ["x", 0, None]}}
    }

    async def outcome(view: View, tool_id: str, given: dict[str, Any]) -> Any:
        try:
            return (await view.run(tool_id, given)).structured
        except InputValidationError:
            return "refused"
        except ToolNotFoundError:
            return "no such tool"

    async def main() -> None:
        crib = Crib()

        async def original(alpha: Any = ..., beta: Any = ..., gamma: Any = ...) -> Any:
            return {"given": repr((alpha, beta, gamma))}

        record = Tool(name="original", namespace="n", input_schema=schema)
        crib.add(LocalTool(original, record))
        view = crib.view(ToolsetSettings(tools={"n:original": shape}))
        expected = await outcome(crib, "n:original", map_args(args))
        found = await outcome(view, "n:renamed", args)
        if found != "no such tool":  # a fixed value that can never fit
            assert found == expected
        else:
            assert expected == "refused"

    anyio.run(main)
