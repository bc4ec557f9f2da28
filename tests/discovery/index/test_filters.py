"""Lists and searches are narrowed by namespace, tags, category, backend and hints."""

from itertools import permutations
from typing import Any

import pytest
from discovery.index.support import ACME, GITHUB, HERE, MIRROR, ids, make
from naming import named

from toolcrib.discovery import Bm25Searcher, Index
from toolcrib.errors import ValidationError
from toolcrib.model import McpBackend, ToolAnnotations, ToolBackend

DESCRIPTION = "Paints walls."


@pytest.fixture(scope="module")
def index() -> Index:
    index = Index()
    safe = ToolAnnotations(read_only_hint=True, destructive_hint=False)
    index.register_many(
        [
            (make("a", "x", description=DESCRIPTION, tags=["Red Hot", "blue"], annotations=safe), GITHUB),
            (make("b", "x", description=DESCRIPTION, tags=["blue"], meta={"category": "Dev  Tools"}), MIRROR),
            (make("c", "y", description=DESCRIPTION, tags=["green"], meta={"category": "ops"}), HERE),
            (make("d", description=DESCRIPTION, annotations=ToolAnnotations(read_only_hint=False)), ACME),
            (make("e", description=DESCRIPTION), None),
        ]
    )
    index.register(index.get("x:a"), HERE)
    return index


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["d", "e", "x:a", "x:b", "y:c"]),
    ({"namespace": None, "tags": None, "all_tags": None, "category": None}, ["d", "e", "x:a", "x:b", "y:c"]),
    ({"backend": None, "annotations": None}, ["d", "e", "x:a", "x:b", "y:c"]),
    ({"namespace": "x"}, ["x:a", "x:b"]),
    ({"namespace": "X"}, []),
    ({"namespace": ""}, ["d", "e"]),
    ({"namespace": "nowhere"}, []),
    ({"namespace": "\ud800 \x00"}, []),
    ({"tags": ["blue"]}, ["x:a", "x:b"]),
    ({"tags": ["BLUE ", "green"]}, ["x:a", "x:b", "y:c"]),
    ({"tags": iter(["red  hot"])}, ["x:a"]),
    ({"tags": ("green", "unknown")}, ["y:c"]),
    ({"tags": []}, []),
    ({"tags": ["!!!"]}, []),
    ({"tags": [*(f"t{number}" for number in range(30)), "green"]}, ["y:c"]),
    ({"all_tags": ["blue", "Red-Hot"]}, ["x:a"]),
    ({"all_tags": ["blue"]}, ["x:a", "x:b"]),
    ({"all_tags": ["blue", "green"]}, []),
    ({"all_tags": ["blue", "!!!"]}, []),
    ({"all_tags": []}, ["d", "e", "x:a", "x:b", "y:c"]),
    ({"tags": ["blue"], "all_tags": ["red-hot"]}, ["x:a"]),
    ({"category": "dev tools"}, ["x:b"]),
    ({"category": " DEV\ttools "}, ["x:b"]),
    ({"category": "OPS"}, ["y:c"]),
    ({"category": ""}, []),
    ({"backend": "mcp"}, ["x:a", "x:b"]),
    ({"backend": "local"}, ["x:a", "y:c"]),
    ({"backend": "provider"}, ["d"]),
    ({"backend": "github"}, ["x:a"]),
    ({"backend": "mcp:github"}, ["x:a"]),
    ({"backend": "local:github"}, []),
    ({"backend": "acme"}, ["d"]),
    ({"backend": GITHUB}, ["x:a"]),
    ({"backend": McpBackend(server_name="acme")}, []),
    ({"backend": ACME}, ["d"]),
    ({"backend": ACME.replace(tool_id="other")}, []),
    ({"backend": ""}, []),
    ({"annotations": {"readOnlyHint": True}}, ["x:a"]),
    ({"annotations": {"read_only_hint": False}}, ["d"]),
    ({"annotations": {"readOnlyHint": True, "destructiveHint": False}}, ["x:a"]),
    ({"annotations": {"readOnlyHint": True, "destructiveHint": True}}, []),
    ({"annotations": {"openWorldHint": True}}, []),
    ({"annotations": {}}, ["d", "e", "x:a", "x:b", "y:c"]),
    ({"namespace": "x", "tags": ["blue"], "backend": "mcp", "annotations": {"readOnlyHint": True}}, ["x:a"]),
    ({"namespace": "y", "tags": ["blue"]}, []),
]


@pytest.mark.parametrize(("filters", "expected"), CASES, ids=lambda value: named(value)[:70])
def test_a_filter_narrows_a_list_and_a_search_alike(
    index: Index, filters: dict[str, Any], expected: list[str]
) -> None:
    filters = {name: list(value) if name == "tags" and value else value for name, value in filters.items()}
    listed = index.tools(**filters)
    assert ids(listed) == expected
    assert listed.total == len(expected)
    assert sorted(ids(index.search("paint", **filters))) == expected
    assert ids(index.search(" ", **filters)) == expected


@pytest.mark.parametrize(
    ("filters", "path"),
    [
        ({"namespace": 5}, "/namespace"),
        ({"namespace": ["x"]}, "/namespace"),
        ({"category": b"ops"}, "/category"),
        ({"tags": "blue"}, "/tags"),
        ({"tags": 5}, "/tags"),
        ({"tags": [5]}, "/tags"),
        ({"tags": ["blue", None]}, "/tags"),
        ({"tags": b"blue"}, "/tags"),
        ({"all_tags": "blue"}, "/all_tags"),
        ({"all_tags": [["blue"]]}, "/all_tags"),
        ({"backend": 5}, "/backend"),
        ({"backend": ToolBackend}, "/backend"),
        ({"annotations": ["readOnlyHint"]}, "/annotations"),
        ({"annotations": {"readonly": True}}, "/annotations/readonly"),
        ({"annotations": {5: True}}, "/annotations/5"),
        ({"annotations": {"readOnlyHint": 1}}, "/annotations/readOnlyHint"),
        ({"annotations": {"readOnlyHint": None}}, "/annotations/readOnlyHint"),
        ({"nmespace": "x"}, "/nmespace"),
    ],
)
def test_malformed_filter_is_refused(index: Index, filters: dict[str, Any], path: str) -> None:
    for ask in (index.tools, lambda **options: index.search("paint", **options)):
        with pytest.raises(ValidationError) as caught:
            ask(**filters)
        assert [problem.path for problem in caught.value.problems] == [path]


OPTIONS = (
    "there are namespace, tags, all_tags, category, backend, annotations, limit, cursor and, for a search, "
    "min_confidence"
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("limt", f"is not an option; did you mean 'limit'?; {OPTIONS}"),
        ("top", f"is not an option; did you mean 'limit'?; {OPTIONS}"),
        ("k", f"is not an option; did you mean 'limit'?; {OPTIONS}"),
        ("tag", f"is not an option; did you mean 'tags'?; {OPTIONS}"),
        ("colour", f"is not an option; {OPTIONS}"),
    ],
)
def test_an_option_that_there_is_not_is_told_with_all_that_there_are(
    index: Index, name: str, said: str
) -> None:
    options: dict[str, Any] = {name: 3}
    for ask in (index.tools, lambda **options: index.search("paint", **options)):
        with pytest.raises(ValidationError) as caught:
            ask(**options)
        assert [str(problem) for problem in caught.value.problems] == [f"/{name}: {said}"]


def test_a_list_has_no_confidence(index: Index) -> None:
    options: dict[str, Any] = {"min_confidence": 0.5}
    with pytest.raises(ValidationError, match="/min_confidence: is an option of a search alone"):
        index.tools(**options)


def test_everything_that_is_wrong_is_said_at_once(index: Index) -> None:
    options: dict[str, Any] = {"namespace": 5, "tags": "blue", "annotations": {"a": 1}, "color": "red"}
    with pytest.raises(ValidationError) as caught:
        index.tools(**options)
    assert len(caught.value.problems) == 4


def test_the_order_in_which_a_filter_is_written_does_not_matter_to_a_cursor(index: Index) -> None:
    tags = ["blue", "green", "red-hot", "a", "b", "c"]
    cursor = index.tools(tags=tags, limit=1).next_cursor
    for order in list(permutations(tags))[::50]:
        assert ids(index.tools(tags=[*order, order[0].upper()], limit=1, cursor=cursor)) == ["x:b"]


def test_a_filter_sees_each_change_at_once() -> None:
    index = Index(Bm25Searcher())
    index.register_many(
        (make(f"t{number:02}", "x", tags=["even"] * (number % 2 == 0)), None) for number in range(20)
    )
    filters: dict[str, Any] = {"namespace": "x", "tags": ["even", "odd"]}
    assert index.tools(**filters).total == 10
    index.register(make("t01", "x", tags=["odd"]))
    assert ids(index.tools(**filters))[:2] == ["x:t00", "x:t01"]
    index.register(make("t01", "x"))
    index.unregister("x:t00")
    index.register(make("t99", "x", tags=["even"]))
    expected = [f"x:t{number:02}" for number in [*range(2, 20, 2), 99]]
    assert ids(index.tools(**filters)) == expected
    assert sorted(ids(index.search("t99 t02", **filters))) == ["x:t02", "x:t99"]


def test_more_filters_than_are_kept_are_all_answered() -> None:
    index = Index()
    index.register_many((make("a", f"n{number}"), None) for number in range(200))
    for _ in range(2):
        for number in range(200):
            assert ids(index.tools(namespace=f"n{number}")) == [f"n{number}:a"]


def test_a_change_of_thousands_is_seen_by_filters_that_were_used() -> None:
    index = Index()
    index.register(make("a", "x"))
    assert index.tools(namespace="x").total == 1
    index.register_many((make(f"t{number}", "xy"[number % 2]), None) for number in range(2_500))
    assert index.tools(namespace="x").total == 1_251
    assert index.tools(limit=1).total == 2_501
    listed = ids(index.tools(limit=1_000))
    assert listed == sorted(listed)
