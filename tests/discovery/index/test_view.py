"""A view of an index is an index of the tools that its scope admits, and tells of no others."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from discovery.index.support import (
    GITHUB,
    ISSUE,
    MAIL,
    MERGE,
    SHELF,
    WEATHER,
    filled,
    ids,
    make,
    record_changes,
    walk,
)
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import Bm25Searcher, Change, Index, IndexView, Scope, Searcher
from toolcrib.discovery.search.hybrid import default_searcher
from toolcrib.errors import InvalidCursorError, ToolcribError, ToolNotFoundError, ValidationError
from toolcrib.model import Resolver, Tool, ToolAnnotations

NAMES = ["create_issue", "merge", "getWeather", "tickets"]
VERSIONS = ["1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1"]
names = st.sampled_from(NAMES)
texts = st.lists(st.sampled_from(["issue", "weather", "mail", "branch"]), max_size=3).map(" ".join)
tools = st.builds(
    make,
    names,
    st.sampled_from(["a", "b", "c", None]),
    version=st.none() | st.sampled_from(VERSIONS),
    description=texts,
    tags=st.lists(st.sampled_from(["red", "blue"]), max_size=2),
    annotations=st.none() | st.builds(ToolAnnotations, read_only_hint=st.booleans()),
    meta=st.sampled_from([None, {"aliases": ["ticket", "merge"]}]),
)
written = st.sampled_from(
    [*NAMES, *(f"{space}:{name}" for space in "ab" for name in NAMES), "a:merge:v1.0.0", "b:merge:1.2.0"]
)
scopes = st.builds(
    Scope,
    namespaces=st.none() | st.lists(st.sampled_from(["a", "b", "", "z"]), max_size=3).map(tuple),
    tags=st.none() | st.lists(st.sampled_from(["Red", "green"]), max_size=2).map(tuple),
    ids=st.none() | st.lists(written, max_size=4).map(tuple),
    exclude=st.lists(written, max_size=2).map(tuple),
    annotations=st.sampled_from([{}, {}, {"readOnlyHint": True}, {"read_only_hint": False}]),
)
refs = written | st.sampled_from(
    ["a:merge:^1", "b:getWeather:*", "c:merge", "a:mergee", "zzz", "a:merge:~1.2"]
)
quick = law(12)


def admits(scope: Scope, tool: Tool) -> bool:
    """Return whether a scope admits a tool, decided by the tool alone."""
    key = str(tool.id)
    known = {key, ":".join(key.split(":")[:2])}
    hints = tool.annotations.to_json() if tool.annotations else {}
    return (
        (scope.namespaces is None or (tool.namespace or "") in scope.namespaces)
        and (scope.tags is None or bool({tag.lower() for tag in scope.tags} & set(tool.tags)))
        and (scope.ids is None or bool(known & set(scope.ids)))
        and not known & set(scope.exclude)
        and all(hints.get(hint) is value for hint, value in scope.annotations.items())
    )


def outcome(ask: Callable[[], Any]) -> Any:
    """Return the result, or all fields of the error."""
    try:
        return ask()
    except ToolcribError as error:
        return type(error), str(error), getattr(error, "suggestions", ())


def pair(catalogue: list[Tool], scope: Scope) -> tuple[IndexView, Index]:
    """Return a view, and an index of the tools that it admits."""
    unique = list({str(tool.id): tool for tool in catalogue}.values())
    return filled(unique).view(scope), filled([tool for tool in unique if admits(scope, tool)])


@quick
@given(st.lists(tools, max_size=14), scopes, st.lists(refs, max_size=6))
def test_a_view_answers_as_an_index_that_has_nothing_else(
    catalogue: list[Tool], scope: Scope, asked: list[str]
) -> None:
    view, alone = pair(catalogue, scope)
    assert len(view) == len(alone)
    assert view.namespaces() == alone.namespaces()
    assert ids(view.tools(limit=100)) == ids(alone.tools(limit=100))
    assert ids(view.list_all()) == ids(alone.list_all()) == ids(view.tools(limit=100))
    assert view.tools(limit=1).total == alone.tools(limit=1).total
    for ref in [*asked, *(str(tool.id) for tool in catalogue)]:
        for ask in ("resolve", "get", "backends", "versions", "__contains__"):
            seen = outcome(lambda: getattr(view, ask)(ref))  # noqa: B023 - called at once
            assert seen == outcome(lambda: getattr(alone, ask)(ref))  # noqa: B023


@pytest.mark.parametrize("searcher", [default_searcher, Bm25Searcher])
@quick
@given(
    catalogue=st.lists(tools, max_size=14),
    scope=scopes,
    query=texts | names | st.sampled_from(["a ticket", "weahter of the brnach", "send mail budget"]),
    limit=st.integers(1, 4),
)
def test_a_search_is_answered_as_by_an_index_that_has_nothing_else(
    searcher: Callable[[], Searcher], catalogue: list[Tool], scope: Scope, query: str, limit: int
) -> None:
    unique = list({str(tool.id): tool for tool in catalogue}.values())
    view = filled(unique, searcher=searcher()).view(scope)
    alone = filled([tool for tool in unique if admits(scope, tool)], searcher=searcher())
    pages = list(walk(lambda **page: view.search(query, **page), limit))
    found = [result for page in pages for result in page.items]
    everything = alone.search(query, limit=100)
    assert found == list(everything.items)
    assert {page.total for page in pages} == {everything.total}
    filtered = view.search(query, limit=100, tags=["blue"])
    assert filtered.items == alone.search(query, limit=100, tags=["blue"]).items


@pytest.mark.parametrize("searcher", [default_searcher, Bm25Searcher])
def test_no_number_tells_which_words_tools_outside_have(searcher: Callable[[], Searcher]) -> None:
    inside = [make("send", "mail", description="Send mail to people."), make("read", "mail")]
    outside = [
        make(f"plan{number}", "secret", description="Prepare the merger with zanzibar.")
        for number in range(20)
    ]
    scope = Scope(namespaces=["mail"])
    empty, full = (filled(each, searcher=searcher()).view(scope) for each in (inside, [*inside, *outside]))
    for word in ("", "merger", "mergre", "zanzibar", "zanzibra", "quark", "prepare the merger"):
        assert full.search(f"send mail {word}").items == empty.search(f"send mail {word}").items


steps = st.lists(st.tuples(st.booleans(), tools), max_size=12)


@quick
@given(st.lists(tools, max_size=6), scopes, steps)
def test_a_view_follows_the_index_and_tells_of_what_comes_and_goes(
    catalogue: list[Tool], scope: Scope, steps: list[tuple[bool, Tool]]
) -> None:
    index = filled(list({str(tool.id): tool for tool in catalogue}.values()))
    view = index.view(scope)
    followed = set(ids(view.tools(limit=100)))
    changes: list[Change] = []
    view.on_change(changes.append)
    for is_put, tool in steps:
        if is_put:
            index.register(tool)
        elif str(tool.id) in index:
            index.unregister(tool.id)
        fresh = ids(index.view(scope).tools(limit=100))
        assert ids(view.tools(limit=100)) == fresh
        everything = (index.get(summary.id) for summary in index.tools(limit=100).items)
        assert fresh == [str(tool.id) for tool in everything if admits(scope, tool)]
        for change in changes:
            assert (change.kind == "registered") == (change.tool_id not in followed)
            (followed.discard if change.kind == "removed" else followed.add)(change.tool_id)
        changes.clear()
        assert followed == set(fresh)


@quick
@given(scopes, tools, refs)
def test_may_admit_is_true_for_every_admitted_tool(scope: Scope, tool: Tool, ref: str) -> None:
    index = filled([tool])
    if admits(scope, tool):
        assert scope.may_admit(str(tool.id))
        assert scope.spaces is None or (tool.namespace or "") in scope.spaces
        if isinstance(outcome(lambda: index.resolve(ref)), Tool):
            assert scope.may_admit(ref)


def test_a_name_means_the_highest_stable_version_inside() -> None:
    every = [make("log", "git", version=one) for one in ("1.0.0", "1.4.0", "2.0.0")]
    index = filled(every)
    view = index.view(Scope(exclude=["git:log:v2.0.0"]))
    assert str(index.resolve("git:log").id) == "git:log:2.0.0"
    assert str(view.resolve("git:log").id) == "git:log:1.4.0"
    assert view.versions("git:log") == ("git:log:1.0.0", "git:log:1.4.0")
    assert len(index.view(Scope(ids=["git:log"]))) == 3
    with pytest.raises(ToolNotFoundError) as caught:
        view.resolve("git:log:^2")
    assert "2.0.0" not in str(caught.value)


def test_tools_outside_a_view_are_not_suggested() -> None:
    index = filled(SHELF)
    for ref in ("github:create_issu", "github:create_issue", "create_issue", "github:merge:1.2.1"):
        with pytest.raises(ToolNotFoundError) as caught:
            index.view(Scope(namespaces=["weather"])).get(ref)
        assert caught.value.suggestions == ()
        assert "did you mean" not in str(caught.value)


def test_an_alias_inside_counts_though_a_tool_outside_has_the_name() -> None:
    outside = make("ticket", "crm")
    inside = make("create_issue", "github", meta={"aliases": ["ticket"]})
    other = make("ticket_list", "github", description="A ticket, another ticket, and a ticket more.")
    view = filled([outside, inside, other]).view(Scope(namespaces=["github"]))
    assert ids(view.search("ticket"))[0] == "github:create_issue"
    with pytest.raises(ToolNotFoundError) as caught:
        view.get("ticket")
    assert caught.value.suggestions == ("github:create_issue",)


def test_cursors_of_one_scope_mean_nothing_elsewhere() -> None:
    index = filled([make(f"tool_{number}", space) for space in "ab" for number in range(6)])
    one, other = index.view(Scope(namespaces=["a"])), index.view(Scope(exclude=["b:tool_1"]))
    everything = index.view(Scope())
    asks: list[Callable[..., Any]] = [lambda of, **page: of.tools(limit=2, **page)]
    asks.append(lambda of, **page: of.search("tool", limit=2, **page))
    for ask in asks:
        cursor = ask(one).next_cursor
        for stranger in (other, everything, index):
            with pytest.raises(InvalidCursorError):
                ask(stranger, cursor=cursor)
            with pytest.raises(InvalidCursorError):
                ask(one, cursor=ask(stranger).next_cursor)
        again = index.view(Scope(namespaces=("a",)))
        assert ask(again, cursor=cursor) == ask(one, cursor=cursor)


def test_a_cursor_does_not_show_how_often_the_catalogue_has_changed() -> None:
    index = filled([make(f"tool_{number}", "a") for number in range(4)])
    seen = set()
    for number in range(300):
        index.set_examples("a:tool_0", [str(number)])
        seen.add((index.view(Scope(namespaces=["a"])).tools(limit=2).next_cursor or "")[12:20])
    assert len(seen) == 300


def test_changes_are_told_as_they_look_from_inside() -> None:
    index = filled([MAIL])
    view = index.view(Scope(tags=["issues"]))
    changes = record_changes(view)
    index.register(WEATHER)
    index.register(WEATHER.replace(tags=("issues",)), GITHUB)
    index.register(WEATHER.replace(tags=("issues",), title="Weather"))
    index.register(WEATHER)
    index.unregister("weather:get_weather")
    index.unregister("send_mail")
    assert [(change.kind, change.tool_id, change.fields) for change in changes] == [
        ("registered", "weather:get_weather", ()),
        ("backend_added", "weather:get_weather", ()),
        ("updated", "weather:get_weather", ("title",)),
        ("removed", "weather:get_weather", ()),
        ("removed", "send_mail", ()),
    ]
    stop = view.on_change(changes.append)
    stop()
    index.register(MAIL)
    assert changes[-1].kind == "registered"
    assert len(changes) == 6


def test_a_view_is_a_resolver_and_says_what_it_is() -> None:
    scope = Scope(namespaces=["github"])
    view = filled(SHELF).view(scope)
    resolver: Resolver = view
    assert isinstance(resolver, Resolver)
    assert repr(view) == "<IndexView of 2 tools>"
    assert view.scope == scope
    assert view.backends("github:merge:1.2.0") == ()
    assert ISSUE.id in view
    assert "weather:get_weather" not in view
    assert "a b c" not in view


def test_an_empty_scope_admits_everything_and_an_empty_list_nothing() -> None:
    index = filled(SHELF)
    assert ids(index.view(Scope()).tools()) == ids(index.tools())
    assert index.view(Scope()).namespaces() == index.namespaces()
    assert index.view(Scope()).versions("github:merge") == ("github:merge:1.2.0",)
    for nothing in (Scope(namespaces=()), Scope(tags=()), Scope(ids=())):
        assert len(index.view(nothing)) == 0
        assert index.view(nothing).search("issue").total == 0


def test_many_changes_at_once_are_followed_too() -> None:
    index = filled([MERGE])
    view = index.view(Scope(exclude=["github:merge", "x:tool_7"]))
    assert view.tools().total == 0
    index.register_many((make(f"tool_{number}", "x"), None) for number in range(1_500))
    assert view.tools().total == len(view) == 1_499
    index.unregister("x:tool_8")
    assert view.tools().total == len(view) == 1_498


def test_a_view_may_be_read_while_the_index_changes() -> None:
    index = filled(SHELF)
    view = index.view(Scope(namespaces=["github", "x"]))
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(200):
                assert set(view.namespaces()) <= {"github", "x"}
                assert all(":" in tool_id for tool_id in ids(view.search("open an issue")))
        except BaseException as error:  # noqa: BLE001 - told by the thread that asserts
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(50):
        index.register(make(f"issue_{number}", "x" if number % 2 else "y"))
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(view) == 27


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an-id-that-is-none": ({"ids": ["a:b:c:d"]}, "/ids"),
    "a-constraint": ({"exclude": ["a:b:^1"]}, "/exclude"),
    "a-text-for-a-list": ({"namespaces": "github"}, "/namespaces"),
    "a-hint-that-is-none": ({"annotations": {"safe": True}}, "/annotations"),
    "a-hint-that-is-no-claim": ({"annotations": {"readOnlyHint": "yes"}}, "/annotations/readOnlyHint"),
    "a-condition-that-is-none": ({"names": ["x"]}, "/names"),
}


@pytest.mark.parametrize(("fields", "path"), BAD.values(), ids=BAD)
def test_malformed_scope_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Scope(**fields)
    assert caught.value.problems[0].path == path


def test_view_validates_arguments() -> None:
    index = filled(SHELF)
    with pytest.raises(ValidationError, match="must be a Scope, not dict"):
        index.view({"namespaces": ["github"]})  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="must be a function"):
        index.view(Scope()).on_change("print")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        index.view(Scope()).tools(limit=0)
