"""Tools come, change and go, each change whole."""

from typing import Any

import mcp_types
import pytest
from discovery.index.support import (
    ACME,
    GITHUB,
    HERE,
    ISSUE,
    MAIL,
    MERGE,
    MIRROR,
    SHELF,
    WEATHER,
    filled,
    ids,
    make,
    record_changes,
)

from toolcrib import tool
from toolcrib.discovery import Change, Index, load_embedder
from toolcrib.errors import (
    ExternalRefError,
    InvalidBackendError,
    InvalidSchemaError,
    InvalidToolIdError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.model import LocalBackend, Tool, ToolAnnotations, ToolBackend, ToolId

BROKEN = make("broken", "github", input_schema={"type": "no such type"})
REMOTE = make("remote", input_schema={"$ref": "https://example.test/schema.json"})


def test_an_index_is_empty_at_first() -> None:
    index = Index()
    assert len(index) == 0
    assert index.version == 0
    assert index.namespaces() == ()
    assert index.tools().items == ()
    assert index.search("anything").items == ()
    assert index.usage() == {}


def test_a_registered_tool_is_got_listed_and_found() -> None:
    index = Index()
    index.register(ISSUE, GITHUB)
    assert index.get("github:create_issue") == ISSUE
    assert index.get(ISSUE.id) == ISSUE
    assert index.backends("github:create_issue") == (GITHUB,)
    assert "github:create_issue" in index
    assert ISSUE.id in index
    assert "github:other" not in index
    assert ids(index.tools()) == ids(index.search("open an issue")) == ["github:create_issue"]


def test_a_function_made_a_tool_is_registered_by_its_record() -> None:
    @tool(namespace="shop")
    def total(prices: list[float]) -> float:
        """Add up an order."""
        return sum(prices)

    index = Index()
    index.register(total, LocalBackend(name="total"))
    assert index.get("shop:total") == total.tool


def test_a_tool_runs_where_it_says_unless_told_otherwise() -> None:
    index = Index()
    bound = ISSUE.replace(backend=HERE)
    index.register(bound)
    assert index.backends(bound.id) == (HERE,)
    index.register(MAIL.replace(backend=HERE), GITHUB)
    assert index.backends(MAIL.id) == (GITHUB,)


def test_a_tool_may_run_in_many_places_in_the_order_they_were_named() -> None:
    index = Index()
    changes = record_changes(index)
    for backend in (GITHUB, HERE, ACME, GITHUB, MIRROR):
        index.register(ISSUE, backend)
    assert index.backends(ISSUE.id) == (GITHUB, HERE, ACME, MIRROR)
    assert [(change.kind, change.backend) for change in changes] == [
        ("registered", GITHUB),
        ("backend_added", HERE),
        ("backend_added", ACME),
        ("backend_added", MIRROR),
    ]
    assert len(index) == 1


def test_backends_are_told_apart_by_all_their_fields() -> None:
    index = Index()
    twins = [
        LocalBackend(name="a:b"),
        ACME.replace(provider_id="a", tool_id="b:c"),
        ACME.replace(provider_id="a:b", tool_id="c"),
    ]
    for backend in twins:
        index.register(ISSUE, backend)
    assert index.backends(ISSUE.id) == tuple(twins)
    index.unregister(ISSUE.id, twins[1])
    assert ids(index.tools(backend=twins[2])) == [str(ISSUE.id)]
    assert ids(index.tools(backend=twins[1])) == []


def test_a_changed_definition_replaces_the_old_and_says_what_changed() -> None:
    index = filled()
    changes = record_changes(index)
    changed = ISSUE.replace(
        description="File a bug.",
        title="Bug",
        input_schema={"type": "object", "properties": {"title": {"type": "string"}}},
        annotations=ToolAnnotations(read_only_hint=False),
        tags=["bugs"],
    )
    index.register(changed)
    assert index.get(ISSUE.id) == changed
    assert changes == [
        Change(
            "updated",
            "github:create_issue",
            2,
            None,
            ("annotations", "description", "inputSchema", "tags", "title"),
        )
    ]
    assert ids(index.search("file a bug"))[0] == "github:create_issue"
    assert index.search("repository", namespace="github", min_confidence=0.1).items == ()
    assert ids(index.tools(tags=["bugs"])) == ["github:create_issue"]
    assert index.tools().items[0].short_description == "File a bug."


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (0, False), ([], {}), ("1", 1), (None, False)],
)
def test_values_that_python_calls_equal_are_told_apart(before: Any, after: Any) -> None:
    index = Index()
    index.register(make("a", input_schema={"const": before}))
    changes = record_changes(index)
    index.register(make("a", input_schema={"const": after}))
    assert [change.fields for change in changes] == [("inputSchema",)]
    assert index.get("a").input_schema["const"] is after or index.get("a").input_schema["const"] == after


def test_the_order_of_keys_is_not_a_change() -> None:
    index = Index()
    index.register(make("a", input_schema={"type": "object", "title": "A"}))
    changes = record_changes(index)
    index.register(make("a", input_schema={"title": "A", "type": "object"}))
    assert changes == []


def test_to_register_the_same_again_changes_nothing() -> None:
    index = filled()
    index.register(ISSUE, GITHUB)
    changes = record_changes(index)
    version, page = index.version, index.tools(limit=1)
    index.register(ISSUE, GITHUB)
    index.register(ISSUE)
    index.register(Tool.from_json(ISSUE.to_json()), GITHUB)
    index.register_many([])
    assert changes == []
    assert index.version == version
    assert index.tools(limit=1, cursor=page.next_cursor).items


def test_one_call_may_bring_a_definition_and_a_backend() -> None:
    index = filled()
    changes = record_changes(index)
    index.register(ISSUE.replace(title="Issue"), GITHUB)
    assert changes == [
        Change("updated", "github:create_issue", 2, None, ("title",)),
        Change("backend_added", "github:create_issue", 2, GITHUB),
    ]


def test_one_tool_may_come_twice_in_a_batch_from_two_places() -> None:
    index = Index()
    changes = record_changes(index)
    index.register_many([(ISSUE, GITHUB), (ISSUE.replace(title="Issue"), MIRROR), (MAIL, None)])
    assert index.backends(ISSUE.id) == (GITHUB, MIRROR)
    assert index.get(ISSUE.id).title == "Issue"
    assert [(change.kind, change.version) for change in changes] == [
        ("registered", 1),
        ("updated", 1),
        ("backend_added", 1),
        ("registered", 1),
    ]


def test_a_batch_is_one_version() -> None:
    index = Index()
    index.register_many((one, GITHUB) for one in SHELF)
    assert (index.version, len(index)) == (1, 4)


def test_tools_that_take_the_place_of_others_are_one_change() -> None:
    index = filled()
    index.register(ISSUE, HERE)
    index.register(ISSUE, GITHUB)
    changes, version = record_changes(index), index.version
    replacement = make("open_issue", "github")
    gone = [(ISSUE.id, GITHUB), (str(MAIL.id), None), ("nobody", None), (str(WEATHER.id), ACME)]
    index.register_many([(replacement, GITHUB)], remove=gone)
    assert [(change.kind, change.tool_id, change.version) for change in changes] == [
        ("registered", "github:open_issue", version + 1),
        ("backend_removed", "github:create_issue", version + 1),
        ("removed", "send_mail", version + 1),
    ]
    assert index.backends(ISSUE.id) == (HERE,)
    assert str(MAIL.id) not in ids(index.search("send a message"))


def test_a_refused_batch_removes_nothing() -> None:
    index = filled()
    with pytest.raises(InvalidSchemaError):
        index.register_many([(BROKEN, None)], remove=[(MAIL.id, None)])
    assert (str(MAIL.id) in index, index.version) == (True, 1)


def test_check_raises_what_register_would_and_changes_nothing() -> None:
    index = filled([ISSUE])
    index.check(MAIL, GITHUB)
    with pytest.raises(InvalidSchemaError, match="github:broken"):
        index.check(BROKEN)
    with pytest.raises(InvalidBackendError):
        index.check(MAIL, "github")  # type: ignore[arg-type]
    assert (len(index), index.version) == (1, 1)


@pytest.mark.parametrize("refused", [BROKEN, REMOTE])
def test_a_batch_with_a_bad_tool_is_refused_whole(refused: Tool) -> None:
    index = filled([ISSUE])
    changes = record_changes(index)
    with pytest.raises(InvalidSchemaError, match=str(refused.id)):
        index.register_many([(MAIL, GITHUB), (refused, None), (WEATHER, None)])
    assert (len(index), index.version, changes) == (1, 1, [])
    assert ids(index.search("send message forecast")) == []
    assert index.namespaces() == ("github",)


def test_a_refusal_names_the_tool_and_says_why() -> None:
    with pytest.raises(ExternalRefError) as caught:
        Index().register(REMOTE)
    assert str(caught.value).startswith("remote, input schema: ")
    with pytest.raises(InvalidSchemaError) as bad:
        Index().register(make("a", output_schema={"type": 5}))
    assert str(bad.value).startswith("a, output schema: ")


def test_a_refused_batch_names_the_other_tools_that_are_refused() -> None:
    bad = [(BROKEN.replace(name=f"broken_{number}"), None) for number in range(15)]
    with pytest.raises(InvalidSchemaError, match="broken_0") as caught:
        Index().register_many([(ISSUE, None), *bad])
    (note,) = caught.value.__notes__
    assert note.startswith("15 of 16 tools are refused, and none is registered; also github:broken_1, ")
    assert len(note) < 400


def test_a_batch_that_breaks_off_leaves_nothing() -> None:
    def feed() -> Any:
        yield ISSUE, None
        raise RuntimeError("gone")

    index = Index()
    with pytest.raises(RuntimeError, match="gone"):
        index.register_many(feed())
    assert len(index) == 0


def test_a_batch_may_be_read_from_the_index_itself() -> None:
    index = filled()
    index.register_many((index.get(one.id).replace(title="Copied"), MIRROR) for one in index.tools().items)
    assert {index.get(one.id).title for one in index.tools().items} == {"Copied"}


@pytest.mark.parametrize("given", [None, "github:create_issue", {"name": "a"}, 5, object(), Tool])
def test_object_that_is_not_a_tool_is_refused(given: Any) -> None:
    index = Index()
    with pytest.raises(ValidationError, match="must be a Tool or a function decorated with @tool"):
        index.register(given)
    assert len(index) == 0


@pytest.mark.parametrize("given", ["{}", b"{}", {"name": "a"}], ids=repr)
def test_json_in_place_of_a_tool_is_refused_with_the_way_to_read_it(given: Any) -> None:
    with pytest.raises(ValidationError, match=r"Tool\.from_json\(\.\.\.\) reads one from JSON"):
        Index().register(given)


@pytest.mark.parametrize("given", ["github", {"kind": "mcp"}, 5, True, ToolBackend(kind="mcp"), LocalBackend])
def test_object_that_is_not_a_backend_is_refused(given: Any) -> None:
    index = Index()
    with pytest.raises(InvalidBackendError, match=r"use McpBackend\(server_name=...\)"):
        index.register(ISSUE, given)
    assert len(index) == 0


@pytest.mark.parametrize(
    "given", [[ISSUE], [(ISSUE,)], [(ISSUE, None, None)], [None], ["ab"], 5, None, ISSUE]
)
def test_register_many_refuses_anything_but_pairs(given: Any) -> None:
    index = Index()
    with pytest.raises(ValidationError, match="pair"):
        index.register_many(given)
    assert len(index) == 0


def test_a_removed_tool_is_gone_everywhere() -> None:
    index = filled()
    changes = record_changes(index)
    index.unregister("github:create_issue")
    assert changes == [Change("removed", "github:create_issue", 2)]
    assert ISSUE.id not in index
    assert len(index) == 3
    assert "github:create_issue" not in ids(index.search("open an issue in a repository create_issue"))
    assert ids(index.tools(tags=["issues"])) == ["send_mail"]
    for ask in (index.get, index.backends, index.resolve, index.unregister):
        with pytest.raises(ToolNotFoundError):
            ask("github:create_issue")


def test_a_namespace_goes_with_its_last_tool() -> None:
    index = filled()
    assert index.namespaces() == ("", "github", "weather")
    index.unregister(WEATHER.id)
    index.unregister(MAIL.id)
    assert index.namespaces() == ("github",)


def test_a_backend_is_taken_away_and_the_last_one_takes_the_tool_along() -> None:
    index = Index()
    index.register(ISSUE, GITHUB)
    index.register(ISSUE, MIRROR)
    changes = record_changes(index)
    index.unregister(ISSUE.id, GITHUB)
    assert index.backends(ISSUE.id) == (MIRROR,)
    assert ids(index.tools(backend="github")) == []
    index.unregister(ISSUE.id, MIRROR)
    assert ISSUE.id not in index
    assert index.namespaces() == ()
    assert changes == [
        Change("backend_removed", "github:create_issue", 3, GITHUB),
        Change("removed", "github:create_issue", 4, MIRROR),
    ]


@pytest.mark.parametrize("backend", [MIRROR, "github", 5])
def test_a_backend_that_the_tool_does_not_have_is_no_reason_to_remove_it(backend: Any) -> None:
    index = Index()
    index.register(ISSUE, GITHUB)
    with pytest.raises(InvalidBackendError, match="github:create_issue does not run on"):
        index.unregister(ISSUE.id, backend)
    assert index.backends(ISSUE.id) == (GITHUB,)


def test_a_removed_tool_may_come_back_as_another() -> None:
    index = filled()
    index.unregister(ISSUE.id)
    index.register(ISSUE.replace(description="Play chess."), HERE)
    assert index.backends(ISSUE.id) == (HERE,)
    assert ids(index.search("chess")) == ["github:create_issue"]


@pytest.mark.parametrize("written", ["1.2.0", "v1.2.0", "1.2.0+build.5", "v1.2.0+linux"])
def test_versions_that_compare_equal_are_one_tool(written: str) -> None:
    index = Index()
    index.register(MERGE, GITHUB)
    changes = record_changes(index)
    other = MERGE.replace(version=written)
    index.register(other, MIRROR)
    assert len(index) == 1
    assert index.backends("github:merge:v1.2.0+anything") == (GITHUB, MIRROR)
    assert index.get(ToolId("github", "merge", "1.2.0")) == index.get(f"github:merge:{written}") == other
    assert {change.tool_id for change in changes} == {"github:merge:1.2.0"}
    assert ids(index.tools()) == ids(index.search("merge")) == ["github:merge:1.2.0"]
    assert index.resolve("github:merge:^1").version == written
    index.unregister("github:merge:1.2.0+other")
    assert len(index) == 0


def test_tools_without_a_namespace_have_one_version() -> None:
    index = Index()
    index.register(make("log", version="1.0.0"))
    changes = record_changes(index)
    index.register(make("log", version="2.0.0"))
    assert ids(index.tools()) == ["log"]
    assert index.resolve("log").version == "2.0.0"
    assert [change.fields for change in changes] == [("version",)]


def test_the_questions_a_tool_answers_are_searched_and_kept_through_updates() -> None:
    index = filled()
    changes = record_changes(index)
    index.set_examples(MAIL.id, ["tell grandmother about the holidays"])
    index.set_examples("send_mail", ["tell grandmother about the holidays"])
    assert changes == [Change("updated", "send_mail", 2, None, ("examples",))]
    assert ids(index.search("grandmother")) == ["send_mail"]
    index.register(MAIL.replace(title="Mail"), HERE)
    assert ids(index.search("grandmother")) == ["send_mail"]
    index.unregister("send_mail", HERE)
    assert "send_mail" not in index
    index.register(MAIL)
    assert ids(index.search("grandmother")) == []
    index.set_examples("send_mail", [])
    assert index.version == 5


@pytest.mark.parametrize("given", ["one text", b"bytes", [5], ["a", None], None, 5, {"a": 1}.values()])
def test_questions_are_a_list_of_texts(given: Any) -> None:
    index = filled()
    with pytest.raises(ValidationError, match="list of strings"):
        index.set_examples(MAIL.id, given)
    assert index.version == 1


def test_questions_for_a_tool_that_is_not_there_are_refused() -> None:
    with pytest.raises(ToolNotFoundError, match="did you mean 'send_mail'"):
        filled().set_examples("send_mai", ["hello"])


@pytest.mark.parametrize("call", ["get", "backends", "unregister", "count_use", "resolve"])
@pytest.mark.parametrize(
    "bad", ["", "a:", ":a", "a b:c", "a b", "a\x00", "\ud800", "🌦️", "x" * 1_000_000, None, 5, b"a"]
)
def test_malformed_id_is_refused(call: str, bad: Any) -> None:
    index = filled()
    with pytest.raises(InvalidToolIdError, match="invalid tool id"):
        getattr(index, call)(bad)
    assert bad not in index
    assert index.version == 1


def test_uses_are_counted() -> None:
    index = filled()
    index.count_use(ISSUE.id)
    index.count_use("github:create_issue", 3)
    index.count_use(ToolId("github", "merge", "v1.2.0+b"))
    assert index.usage() == {"github:create_issue": 4, "github:merge:1.2.0": 1}
    index.usage()["send_mail"] = 9
    assert "send_mail" not in index.usage()
    with pytest.raises(ToolNotFoundError):
        index.count_use("nothing")


@pytest.mark.parametrize("times", [-1, 1.5, "2", None, True, 2**31])
def test_a_number_of_uses_is_a_count(times: Any) -> None:
    index = filled()
    with pytest.raises(ValidationError, match="times"):
        index.count_use(ISSUE.id, times)
    assert index.usage() == {}


def test_an_index_is_made_of_a_searcher_and_a_store() -> None:
    parts: Any = {"searcher": 5, "store": "catalogue.db"}
    with pytest.raises(ValidationError) as caught:
        Index(**parts)
    told = (
        "/searcher: must be a Searcher, not int; /store: must be a Store, not str; SqliteStore opens a file"
    )
    assert str(caught.value) == told


def test_an_embedder_in_the_place_of_a_searcher_is_told_where_it_goes() -> None:
    with pytest.raises(ValidationError, match=r"not StaticEmbedder; an embedder goes into HybridSearcher\("):
        Index(load_embedder())  # type: ignore[arg-type] - what is refused


def test_the_tool_object_of_the_mcp_sdk_is_registered_as_ours() -> None:
    index = Index()
    theirs = mcp_types.Tool(name="add", description="Add numbers.", input_schema={"type": "object"})
    index.register(theirs, GITHUB)
    assert index.resolve("add").description == "Add numbers."


@pytest.mark.parametrize("field", ["inputSchema", "outputSchema"])
def test_a_light_schema_that_cannot_be_compiled_is_called_one(field: str) -> None:
    light = {"properties": {"q": {"type": "string", "required": True}}}
    tool = Tool.from_json({"name": "find", "inputSchema": {}} | {field: light})
    with pytest.raises(InvalidSchemaError, match="light argument schema, which ArgSchema reads") as caught:
        Index().register(tool)
    assert caught.value.problems[0].path == "/properties/q/required"
