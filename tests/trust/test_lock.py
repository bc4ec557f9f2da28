"""The lock of tools: what it sees, how it is written, and what it refuses."""

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from trust.made import make_tool, objects

from toolcrib.errors import InvalidToolError, InvalidToolIdError, LockError
from toolcrib.model import Icon, Tool, ToolAnnotations
from toolcrib.trust import Drift, Lock, ServerParts
from toolcrib.trust.canonical import canonical_json
from toolcrib.trust.parts import ToolParts

TEXT = {"type": "string"}
AT = datetime(2026, 11, 18, 10, 30, 15, 999, tzinfo=UTC)
ANNA: dict[str, Any] = {"by": "anna", "at": AT}
GITHUB = ServerParts(
    "0" * 64,
    {"name": "github", "version": "1.0.0"},
    "Use list first.\nThen read.",
    {"review": {"name": "review", "arguments": [{"name": "pr", "required": True}]}},
    {"repo://{owner}": {"uriTemplate": "repo://{owner}", "name": "repo", "mimeType": "text/plain"}},
)
TOOLS = [
    make_tool(
        "github:list", objects({"repo": TEXT}, "repo"), {"readOnlyHint": True}, description="Lists issues."
    ),
    make_tool("github:close", objects({"id": {"type": "integer"}}), title="Close", description="Closes one."),
    make_tool("add"),
]


def levels(drifts: tuple[Drift, ...]) -> dict[str, str]:
    return {drift.tool_id: drift.level for drift in drifts}


def test_unchanged_tools_and_servers_have_no_drift(tmp_path: Path) -> None:
    lock = Lock.of(TOOLS, servers={"github": GITHUB})
    lock.save(tmp_path / "tools.lock")
    for each in (lock, Lock.load(tmp_path / "tools.lock")):
        assert each.compare(reversed(TOOLS), servers={"github": GITHUB}) == ()


def test_new_removed_and_renamed_tools_are_told_apart() -> None:
    lock = Lock.of(TOOLS)
    renamed = make_tool(
        "github:show", TOOLS[0].input_schema, {"readOnlyHint": True}, description="Lists issues."
    )
    drifts = lock.compare([renamed, TOOLS[1], make_tool("subtract", objects({"a": TEXT}))])
    assert levels(drifts) == {
        "add": "major",
        "github:list": "major",
        "github:show": "minor",
        "subtract": "minor",
    }
    kinds = {drift.tool_id: drift.changes[0].kind for drift in drifts}
    assert kinds == {"add": "removed", "github:list": "renamed", "github:show": "added", "subtract": "added"}


def test_a_tool_of_another_version_is_the_same_tool() -> None:
    one, two = make_tool(version="1.0.0"), make_tool(version="1.1.0")
    assert levels(Lock.of([one]).compare([two])) == {"issues:list:1.1.0": "minor"}
    assert levels(Lock.of([one, two]).compare([two])) == {"issues:list:1.0.0": "major"}
    assert levels(Lock.of([one, two]).compare([two, make_tool(version="1.0.1")])) == {
        "issues:list:1.0.1": "patch"
    }
    assert Lock.of([one]).compare([make_tool(version="v1.0.0+build")])[0].level == "patch"


def test_two_tools_of_one_id_are_refused() -> None:
    with pytest.raises(InvalidToolError, match="two tools have the id 'add'"):
        Lock.of([make_tool("add"), make_tool("add")])
    with pytest.raises(InvalidToolError, match="two tools have the id"):
        Lock.of([]).compare([make_tool(version="1.0.0"), make_tool(version="1.0.0")])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"identity": "1" * 64}, {"server/github": "major"}),
        ({"info": {"name": "other", "version": "1.0.0"}}, {"server/github": "major"}),
        ({"info": {"name": "github", "version": "2.0.0"}}, {"server/github": "patch"}),
        ({"instructions": "Read first."}, {"server/github": "patch"}),
        ({"prompts": {}}, {"prompt/github/review": "major"}),
        ({"prompts": GITHUB.prompts | {"more": {"name": "more"}}}, {"prompt/github/more": "minor"}),
        (
            {"prompts": {"review": {"name": "review", "arguments": [{"name": "pr"}]}}},
            {"prompt/github/review": "minor"},
        ),
        (
            {"prompts": {"review": {"name": "review", "arguments": [{"name": "id", "required": True}]}}},
            {"prompt/github/review": "major"},
        ),
        ({"templates": {}}, {"template/github/repo://{owner}": "major"}),
    ],
    ids=str,
)
def test_changes_of_a_server_are_seen(changes: dict[str, Any], expected: dict[str, str]) -> None:
    fields = {
        name: getattr(GITHUB, name) for name in ("identity", "info", "instructions", "prompts", "templates")
    }
    lock = Lock.of([], servers={"github": GITHUB})
    assert levels(lock.compare([], servers={"github": ServerParts(**(fields | changes))})) == expected
    assert levels(lock.compare([], servers={})) == {"server/github": "major"}
    assert levels(Lock.of([]).compare([], servers={"github": GITHUB})) == {"server/github": "minor"}


def test_an_approved_change_is_no_drift_and_says_who_approved_it(tmp_path: Path) -> None:
    changed = TOOLS[0].replace(description="Lists open issues.")
    lock = Lock.of(TOOLS).approve(changed, by="anna", at=AT.astimezone(timezone(timedelta(hours=2))))
    assert lock.compare([changed, *TOOLS[1:]]) == ()
    lock.save(tmp_path / "tools.lock")
    approval = Lock.load(tmp_path / "tools.lock").tools["github:list"].approval
    assert approval is not None
    assert (approval.by, approval.at) == ("anna", AT.replace(microsecond=0))


def test_a_new_version_takes_the_place_of_the_approved_one() -> None:
    lock = Lock.of([make_tool(version="1.0.0")]).approve(make_tool(version="2.0.0"), **ANNA)
    assert [str(each.id) for each in lock.tools.values()] == ["issues:list:2.0.0"]


def test_blocks_suppressions_and_removals_are_kept(tmp_path: Path) -> None:
    lock = (
        Lock.of(TOOLS)
        .block("github:close:1.0.0", reason="It deletes.", **ANNA)
        .suppress("github:list", "urgency", reason="It's 'only' a word", **ANNA)
        .approve_server("github", GITHUB, **ANNA)
        .remove("add")
    )
    lock.save(tmp_path / "tools.lock")
    loaded = Lock.load(tmp_path / "tools.lock")
    assert loaded == lock
    assert [*loaded.blocked] == ["github:close"]
    assert loaded.suppressions["github:list", "urgency"].reason == "It's 'only' a word"
    assert "add" not in loaded.tools
    assert loaded.approve(TOOLS[1], **ANNA).blocked == {}
    assert loaded.remove_server("github").servers == {}


def test_a_decision_needs_a_reason_a_name_and_a_tool() -> None:
    lock = Lock.of(TOOLS)
    with pytest.raises(InvalidToolError, match="the reason must not be empty"):
        lock.block("add", reason=" ", **ANNA)
    with pytest.raises(InvalidToolError, match="the name of the approver must not be empty"):
        lock.approve(TOOLS[0], by="", at=AT)
    with pytest.raises(InvalidToolIdError):
        lock.block("a b", reason="x", **ANNA)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-2, 2), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)
HINTS = st.sampled_from(
    ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "other"]
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
WORDS = st.one_of(
    TEXTS, st.sampled_from(["'''", "a\r\nb", "x'", '"""\\', "\u202e", "\n\n", "\ufeff", "=", "[a]\nb = 1"])
)


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    """Draw a tool with anything in it that JSON can hold."""
    hints = {
        name: draw(WORDS if name == "title" else st.booleans()) for name in draw(st.sets(HINTS, max_size=3))
    }
    return Tool(
        name=draw(st.sampled_from(["a", "b", "a.b"])),
        namespace=draw(st.sampled_from([None, "n", "n-1.x"])),
        version=draw(st.sampled_from([None, "1.0.0", "2.0.0-rc.1"])),
        input_schema={"type": "object", **draw(OBJECTS)},
        output_schema=draw(st.none() | OBJECTS.map(lambda each: {"type": "object", **each})),
        description=draw(st.none() | WORDS),
        title=draw(st.none() | WORDS),
        annotations=ToolAnnotations.from_json(hints) if hints else None,
        meta=draw(st.none() | OBJECTS),
        tags=("x",) if draw(st.booleans()) else (),
    )


@law(80)
@given(st.lists(tools(), max_size=3, unique_by=lambda tool: str(tool.id)), OBJECTS, WORDS)
def test_a_saved_lock_is_loaded_as_it_was(
    folder: Path, given_tools: list[Tool], info: Any, words: str
) -> None:
    server = ServerParts("x", info, words or None, {words: {"name": words}}, {"t": info})
    lock = Lock.of(given_tools, servers={"s": server})
    if words.strip():
        lock = lock.suppress("a", words, reason=words, **ANNA).block("b", reason=words, **ANNA)
        lock = lock.approve_server("s", server, by=words, at=AT)
    path = folder / "tools.lock"
    lock.save(path)
    assert Lock.load(path) == lock
    assert all(line.isprintable() for line in path.read_text(encoding="utf-8").split("\n"))
    assert lock.compare(given_tools) == ()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locks")


@law(100)
@given(tools(), tools())
def test_any_change_of_a_part_is_seen(one: Tool, other: Tool) -> None:
    other = other.replace(name=one.name, namespace=one.namespace, version=one.version)
    is_same = content(one) == content(other)
    assert (Lock.of([one]).compare([other]) == ()) is is_same
    assert Lock.of([one]).compare([reordered(one)]) == ()


def content(tool: Tool) -> str:
    """Return all that a tool says, with what MCP takes for granted of hints written out."""
    taken = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    data = tool.to_json()
    return canonical_json(
        data | {"annotations": taken | data.get("annotations", {}), "description": tool.description}
    )


def reordered(tool: Tool) -> Tool:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        if isinstance(value, list):
            return [turned(each) for each in value]
        return float(value) if type(value) is int else value

    return Tool.from_json(turned(tool.to_json()))


@pytest.mark.parametrize("name", sorted(Tool.model_fields.keys() - {"name", "namespace", "backend"}))
def test_every_field_of_a_tool_is_in_a_part(name: str) -> None:
    values: dict[str, Any] = {
        "input_schema": objects({"a": TEXT}),
        "output_schema": objects({"a": TEXT}),
        "annotations": ToolAnnotations(read_only_hint=True),
        "icons": (Icon(src="https://example.com/i.png"),),
        "meta": {"a": 1},
        "tags": ("a",),
        "version": "1.0.0",
    }
    tool = make_tool()
    other = tool.replace(**{name: values.get(name, "words")})
    assert len(Lock.of([tool]).compare([other])) == 1


def test_long_texts_beside_the_words_are_kept_by_their_digests() -> None:
    tool = make_tool(icons=(Icon(src="data:image/png;base64," + "A" * 50_000),), description="d" * 5_000)
    parts = ToolParts.of(tool)
    assert len(canonical_json(parts.rest)) < 200
    assert parts.description == "d" * 5_000
    other = tool.replace(icons=(Icon(src="data:image/png;base64," + "A" * 49_999 + "B"),))
    assert levels(Lock.of([tool]).compare([other])) == {"issues:list": "patch"}


def write(folder: Path, lock: Lock) -> str:
    lock.save(folder / "tools.lock")
    return (folder / "tools.lock").read_text(encoding="utf-8")


def test_a_change_of_words_is_a_line_of_the_text(tmp_path: Path) -> None:
    tool = make_tool(
        schema=objects({"a": TEXT, "b": {"enum": ["x" * 60, "y" * 60]}}), description="One.\nTwo."
    )
    before = write(tmp_path, Lock.of([tool]))
    after = write(tmp_path, Lock.of([tool.replace(description="One.\nThree.")]))
    gone = [line for line in before.split("\n") if line not in after.split("\n")]
    assert [line for line in gone if "_digest" not in line] == ["Two.'''"]


def test_two_branches_that_approve_different_tools_merge(tmp_path: Path) -> None:
    base = Lock.of([make_tool(f"s:{name}", description=name * 3) for name in "acegi"])
    ours = base.approve(make_tool("s:c", description="other words"), **ANNA).approve(make_tool("s:b"), **ANNA)
    theirs = base.approve(make_tool("s:e", objects({"x": TEXT})), **ANNA).block("s:i", reason="No.", **ANNA)
    theirs = theirs.approve(make_tool("s:h"), **ANNA)
    for name, lock in (("base", base), ("ours", ours), ("theirs", theirs)):
        lock.save(tmp_path / name)
    files = [str(tmp_path / name) for name in ("ours", "base", "theirs")]
    subprocess.run(["git", "merge-file", *files], check=True, capture_output=True)
    merged = Lock.load(tmp_path / "ours")
    assert [*merged.tools] == ["s:a", "s:b", "s:c", "s:e", "s:g", "s:h", "s:i"]
    assert merged.tools["s:c"] == ours.tools["s:c"]
    assert merged.tools["s:e"] == theirs.tools["s:e"]
    assert merged.blocked == theirs.blocked


def test_two_branches_that_approve_the_same_tool_conflict_and_the_conflict_is_refused(tmp_path: Path) -> None:
    base = Lock.of(TOOLS)
    base.save(tmp_path / "base")
    for name in ("ours", "theirs"):
        base.approve(TOOLS[0].replace(description=f"The words of {name}."), **ANNA).save(tmp_path / name)
    files = [str(tmp_path / name) for name in ("ours", "base", "theirs")]
    assert subprocess.run(["git", "merge-file", *files], check=False, capture_output=True).returncode == 1
    with pytest.raises(LockError, match="merge conflict"):
        Lock.load(tmp_path / "ours")


def edited(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: "", "it is empty"),
        (edited("formula = 1", "formula = 2"), "its formula is 2, and this version of toolcrib knows 1"),
        (edited("formula = 1", "formula = true"), "its formula is True"),
        (edited("formula = 1", "formula = 1\nmore = 1"), "'more' is not a part of a lock"),
        (lambda text: text[:-40], "it is not TOML"),
        (edited("Lists issues.", "Reads secrets."), "description does not belong to its digest"),
        (
            edited("description_digest = 'sha256:", "description_digest = 'sha256:0"),
            "does not belong to its digest",
        ),
        (edited('"repo":{', '"rope":{'), "input does not belong to its digest"),
        (edited("readOnlyHint", "writeOnlyHint"), "annotations does not belong to its digest"),
        (edited("input_digest", "inputs_digest"), "has input_digest without the other|has input without"),
        (edited('[tools."github:list"]', '[tools."github list"]'), "names no tool"),
        (edited('[tools."github:list"]', '[tools."github:list:2.0.0"]'), "has another version"),
        (edited('[tools."github:list"]', '[tools."github:close"]'), "it is not TOML: Cannot declare"),
        (edited("approved_by = 'anna'", "approved_by = 7"), "approved_by must be a str, not int"),
        (edited("approved_by = 'anna'\n", ""), "must have both approved_by and approved_at"),
        (
            edited("approved_at = 2026-11-18T10:30:15Z", "approved_at = 2026-11-18T10:30:15"),
            "must have a time zone",
        ),
        (edited("approved_by", "approved_bye"), "must have both|is not a part of it"),
        (edited("[blocked.add]", "[blocked.'a:add:1.0.0']"), "must have no version"),
        (edited("reason = 'No.'\n", ""), "has no reason"),
        (edited('{"readOnlyHint":true}', "[]"), "must be a JSON object"),
        (edited('{"readOnlyHint":true}', "{"), "is not JSON"),
        (edited("identity = ", "identify = "), "has no identity"),
        (lambda text: text + "[tools.x]\ninput = 'x'\n", "has input without the other|has input_digest"),
        (lambda text: text + "[tools]\nx = 1\n", "it is not TOML|must be a table"),
        (lambda _: "formula = 1\ntools = []", "must be a table, not list"),
        (lambda text: text + "[tools.x]\nversion = '1.0.0'\n", "has no input"),
        (lambda text: text + "\n<<<<<<< ours\n", "merge conflict"),
    ],
    ids=range(27),
)
def test_a_damaged_lock_is_refused_with_the_reason(
    tmp_path: Path, change: Callable[[str], str], reason: str
) -> None:
    lock = Lock.of(TOOLS).approve(TOOLS[0], **ANNA).block("add", reason="No.", **ANNA)
    lock = lock.approve_server("github", GITHUB, **ANNA)
    text = write(tmp_path, lock)
    assert change(text) != text
    (tmp_path / "tools.lock").write_text(change(text), encoding="utf-8")
    with pytest.raises(LockError, match=reason) as caught:
        Lock.load(tmp_path / "tools.lock")
    assert str(tmp_path / "tools.lock") in str(caught.value)


def test_a_lock_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="No such file"):
        Lock.load(tmp_path / "tools.lock")
    with pytest.raises(LockError, match="it is a folder"):
        Lock.load(tmp_path)
    (tmp_path / "tools.lock").write_bytes(b"formula = 1 # \xff")
    with pytest.raises(LockError, match="not UTF-8"):
        Lock.load(tmp_path / "tools.lock")
    with pytest.raises(LockError, match="it cannot be written"):
        Lock.of(TOOLS).save(tmp_path / "tools.lock" / "inner")


@pytest.mark.attack
@pytest.mark.parametrize(
    "text",
    [
        "formula = 1\n" + "[" * 100_000,
        "formula = 1\na" + ".a" * 500_000 + " = 1\n",
        "formula = 1\n" + "\n".join(f"[tools.'t{n}']\ninput = '{{}}'" for n in range(10_000)),
        "formula = 1\n[tools.x]\ninput_digest = 'x'\ninput = '" + '{"a":' * 5_000 + "1" + "}" * 5_000 + "'\n",
        "formula = 1\n[tools.x]\ninput_digest = 'x'\ninput = '" + "[" * 200_000 + "'\n",
        "#" * (49 << 20),
        "formula = 1" + "\n" * (8 << 20),
    ],
    ids=range(7),
)
def test_hostile_locks_are_refused_in_bounded_time(tmp_path: Path, text: str) -> None:
    (tmp_path / "tools.lock").write_text(text)
    with at_most(3):
        try:
            lock = Lock.load(tmp_path / "tools.lock")
        except LockError:
            return
        assert lock == Lock.of([])


def test_a_lock_too_large_to_be_read_is_not_written(tmp_path: Path) -> None:
    lock = Lock.of([make_tool(f"t{n}", description="x" * (4 << 20)) for n in range(13)])
    with pytest.raises(LockError, match="larger than 48 MiB"):
        lock.save(tmp_path / "tools.lock")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.attack
def test_comparing_many_hostile_changes_takes_bounded_time() -> None:
    def schema(turn: int) -> dict[str, Any]:
        options = [{"oneOf": [{"minimum": n + turn}, {"multipleOf": n + 2}, TEXT]} for n in range(20)]
        return objects({f"a{n}": {"anyOf": options} for n in range(10)})

    before, after = ([make_tool(f"s:t{n}", schema(n + turn)) for n in range(6)] for turn in (0, 1))
    lock = Lock.of(before)
    with at_most(12):
        drifts = lock.compare(after)
    assert len(drifts) == 6
