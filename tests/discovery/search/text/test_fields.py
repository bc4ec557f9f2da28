"""Searchable texts of a tool."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from discovery.search.text.support import Analysis, seconds
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.lexical.documents import analyse_tools
from toolcrib.discovery.search.text import FIELD_WEIGHTS, index_terms, search_doc, words
from toolcrib.discovery.search.text.fields import field_texts
from toolcrib.discovery.search.text.terms import STOP_WORDS
from toolcrib.model import Tool

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=12,
)
keywords = st.sampled_from(
    [
        *("properties", "title", "description", "enum", "items", "prefixItems", "anyOf", "oneOf", "allOf"),
        *("$defs", "definitions", "additionalProperties", "$ref", "type", "const", "default"),
    ]
)
wild_schemas = st.recursive(
    json_values,
    lambda values: st.dictionaries(keywords, values | st.lists(values, max_size=3), max_size=5),
    max_leaves=25,
).map(lambda value: value if isinstance(value, dict) else {"properties": value})


def tool(**fields: Any) -> Tool:
    return Tool(**{"name": "x", "input_schema": {}} | fields)


def searched(made: Tool, examples: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    return search_doc(made, examples).fields


def analyse(made: Tool, examples: Sequence[str] = ()) -> Analysis:
    found = analyse_tools([(made, examples)])
    terms = [found.vocabulary[number] for number in found.terms]
    return Analysis(dict(zip(terms, found.values.tolist(), strict=True)), found.lengths.item())


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def texts(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts of a schema, without the tool around it."""
    return list(searched(tool(input_schema=schema)))[1:]


def test_every_field_is_read_in_its_turn() -> None:
    read = searched(
        tool(
            name="create_issue",
            namespace="github",
            title="New issue",
            description="Opens an issue in a repository.",
            tags=["bugs"],
            meta={
                "category": "development",
                "summary": "Reports a bug.",
                "aliases": ["report_bug"],
                "inputModes": ["image/png", "text"],
                "outputModes": ["text"],
                "examples": ["File a bug"],
            },
            input_schema=obj(state={"description": "What it is.", "enum": ["open", "closed"]}),
        ),
        ["Something is broken", "File a bug"],
    )
    assert list(read) == [
        ("name", "create_issue"),
        ("namespace", "github"),
        ("title", "New issue"),
        ("category", "development"),
        ("description", "Opens an issue in a repository."),
        ("summary", "Reports a bug."),
        ("alias", "report_bug"),
        ("tag", "bugs"),
        ("mode", "image/png"),
        ("mode", "text"),
        ("example", "File a bug"),
        ("example", "Something is broken"),
        ("parameter", "state"),
        ("parameter description", "What it is."),
        ("choice", "open"),
        ("choice", "closed"),
    ]


def test_a_tool_that_says_nothing_else_is_its_name() -> None:
    assert list(searched(tool(name="ping"))) == [("name", "ping")]


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "Opens an issue."},
        {"description": "Opens  an\n\n issue: " * 80},
        {"title": "Opens an issue"},
        {"title": "Opens an \n issue"},
        {"description": "Opens an issue.\nAnd more.", "meta": {"summary": "Opens an issue."}},
        {"description": "Opens an issue.\nAnd more.", "meta": {"summary": "issue. And  more."}},
    ],
)
def test_repeated_text_is_not_a_summary(fields: dict[str, Any]) -> None:
    assert "summary" not in dict(searched(tool(**fields)))


@pytest.mark.parametrize("description", [None, "Opens an issue."])
def test_a_title_that_only_the_annotations_have_is_read_once(description: str | None) -> None:
    made = tool(annotations={"title": "Bug report"}, description=description)
    assert [field for field, text in searched(made) if text == "Bug report"] == ["title"]
    blank = tool(annotations={"title": "Bug report"}, title=" ", description=description)
    assert [text for field, text in searched(blank) if field == "title"] == ["Bug report"]
    both = tool(annotations={"title": "Bug report"}, title="New issue", description=description)
    assert [text for field, text in searched(both) if field == "title"] == ["New issue"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (obj(a={}, b={}), [("parameter", "a"), ("parameter", "b")]),
        (
            obj(a=obj(b={"description": "inner"})),
            [("parameter", "a"), ("parameter", "b"), ("parameter description", "inner")],
        ),
        (
            obj(a={"type": "array", "items": {"enum": ["one", 2, None, {"x": 1}, ["y"], True]}}),
            [("parameter", "a"), ("choice", "one")],
        ),
        (
            obj(unit={"oneOf": [{"const": "celsius"}, {"const": "kelvin", "title": "K"}, {"const": 3}]}),
            [
                ("parameter", "unit"),
                ("choice", "celsius"),
                ("choice", "kelvin"),
                ("parameter description", "K"),
            ],
        ),
        (
            {"anyOf": [obj(a={}), {"title": "Second", "allOf": [obj(b={})]}]},
            [("parameter", "a"), ("parameter description", "Second"), ("parameter", "b")],
        ),
        (
            {**obj(a={"$ref": "#/$defs/d"}), "$defs": {"d": {"description": "shared"}}},
            [("parameter", "a"), ("parameter description", "shared")],
        ),
        (
            {"definitions": {"d": obj(c={})}, "additionalProperties": {"description": "others"}},
            [("parameter description", "others"), ("parameter", "c")],
        ),
        ({"prefixItems": [{"title": "first"}, {"title": "second"}]}, None),
        ({"title": "the root's own title", "description": "root"}, [("parameter description", "root")]),
    ],
)
def test_a_schema_says_the_names_descriptions_and_choices_of_its_parameters(
    schema: dict[str, Any], expected: list[tuple[str, str]] | None
) -> None:
    wanted = expected or [("parameter description", "first"), ("parameter description", "second")]
    assert sorted(texts(schema)) == sorted(wanted)


def test_parameters_are_read_in_their_order() -> None:
    schema = obj(a={"description": "first"}, b=obj(c={"description": "second"}), d={"description": "third"})
    assert [text for field, text in texts(schema) if field == "parameter description"] == [
        *("first", "second", "third")
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": ["a", "b"]},
        {"properties": "abc"},
        {"properties": {"": None}},
        {"enum": "abc"},
        {"enum": {"a": 1}},
        {"enum": [{"a": "b"}, [["c"]], None]},
        {"description": ["a"], "title": {"b": 1}},
        {"items": "a", "anyOf": {"b": "c"}, "allOf": 3, "$defs": [1], "definitions": None},
        {"items": [[[[["a"]]]]]},
        {"$ref": "#", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "dict", "properties": {"": {"enum": None}}},
    ],
    ids=str,
)
def test_a_schema_that_is_none_says_nothing(schema: dict[str, Any]) -> None:
    assert [text for _, text in texts(schema) if text] == []


@given(wild_schemas)
def test_any_schema_can_be_read(schema: dict[str, Any]) -> None:
    read = texts(schema)
    assert all(type(text) is str and FIELD_WEIGHTS[field] > 0 for field, text in read)
    assert read == texts(schema)


def nested(depth: int, wrap: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": "innermost"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


@pytest.mark.parametrize(
    "wrap",
    [lambda inner: obj(a=inner), lambda inner: {"items": inner}, lambda inner: {"anyOf": [inner]}],
    ids=["properties", "items", "anyOf"],
)
def test_too_deep_subschema_is_not_read(wrap: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert ("parameter description", "innermost") in texts(nested(5, wrap))
    assert ("parameter description", "innermost") not in texts(nested(60, wrap))


# The bag of terms


def bag(made: Tool, examples: tuple[str, ...] = ()) -> tuple[dict[str, float], float]:
    """Return the terms of a tool and its length, counted one by one."""
    terms: Counter[str] = Counter()
    length = 0.0
    for field, text in searched(made, examples):
        for word in words(text):
            for term in index_terms(word):
                terms[term] += FIELD_WEIGHTS[field]  # type: ignore[assignment]
            length += FIELD_WEIGHTS[field] if index_terms(word) else 0
    return dict(terms), length


sentences = st.lists(
    st.sampled_from(["create", "issues", "the", "userIDs", "天气", "weather", "größe", "mp3"]), max_size=6
).map(" ".join)


@given(
    name=st.sampled_from(["create_issue", "getWeather", "the"]),
    description=sentences,
    title=sentences,
    parameters=st.dictionaries(sentences, sentences, max_size=3),
    examples=st.lists(sentences, max_size=3, unique=True),
)
def test_a_term_counts_what_its_fields_weigh(
    name: str, description: str, title: str, parameters: dict[str, str], examples: list[str]
) -> None:
    schema = obj(**{key: {"description": text, "enum": [text]} for key, text in parameters.items()})
    made = tool(name=name, description=description, title=title, input_schema=schema)
    found = analyse(made, examples)
    terms, length = bag(made, tuple(examples))
    assert found.terms == pytest.approx(terms)
    assert found.length == pytest.approx(length)


def test_a_field_says_only_so_many_words() -> None:
    most = analyse(tool(description="weather " * 5_000))
    assert analyse(tool(description="weather " * 9_000)) == most
    many = obj(**{f"p{number}": {"description": "weather " * 100} for number in range(100)})
    assert analyse(tool(input_schema=many)).terms["weather"] == pytest.approx(5_000 * 0.2)
    assert analyse(tool(), ["weather " * 100 + str(number) for number in range(100)]).length < 5_000


@pytest.mark.parametrize("name", ["the", "_", "...", "-"])
def test_a_name_may_say_nothing(name: str) -> None:
    assert analyse(tool(name=name)).terms == {}
    assert analyse(tool(name=name)).length == 0


MEGABYTE = "create issue " * 80_000
HUGE: dict[str, Callable[[], Tool]] = {
    "a megabyte of words": lambda: tool(description=MEGABYTE, title=MEGABYTE),
    "a megabyte of different words": lambda: tool(description=" ".join(f"word{n}" for n in range(100_000))),
    "a megabyte without a space": lambda: tool(description="x" * 1_000_000),
    "a megabyte of dots": lambda: tool(description="a." * 500_000, title="." * 1_000_000),
    "a megabyte of accents": lambda: tool(description="\u0951\u0952" * 500_000),
    "a megabyte of ligatures": lambda: tool(description="\ufdfa" * 1_000_000, title="\ufdfa" * 1_000_000),
    "emoji, NUL and right to left": lambda: tool(description="👩‍👩‍👧‍👦\0\u202eا" * 100_000),
    "100,000 parameters": lambda: tool(
        input_schema=obj(**{f"param_{n}": {"description": f"Parameter {n}"} for n in range(100_000)})
    ),
    "parameters of parameters": lambda: tool(
        input_schema=obj(**{f"a{n}": obj(**{f"b{n}_{m}": {} for m in range(300)}) for n in range(300)})
    ),
    "a parameter with a name of a megabyte": lambda: tool(input_schema=obj(**{"aB" * 500_000: {}})),
    "parameters that say a lot": lambda: tool(
        input_schema=obj(**{f"a{n}": {"description": MEGABYTE[:50_000]} for n in range(500)})
    ),
    "choices that say a lot": lambda: tool(
        input_schema=obj(**{f"a{n}": {"enum": ["createIssue " * 100] * 50} for n in range(500)})
    ),
    "choices without a word": lambda: tool(
        input_schema=obj(**{f"a{n}": {"enum": ["." * 2_000] * 50} for n in range(500)})
    ),
    "100,000 choices": lambda: tool(input_schema=obj(a={"enum": [f"choice{n}" for n in range(100_000)]})),
    "alternatives of alternatives": lambda: tool(
        input_schema={"anyOf": [{"anyOf": [{"description": "q"}] * 200}] * 200}
    ),
    "lists of lists": lambda: tool(input_schema={"items": [[[["a"] * 50] * 50] * 50]}),
    "a great deal of _meta": lambda: tool(
        meta={
            "examples": [f"{n} {MEGABYTE[:1000]}" for n in range(2_000)],
            "aliases": [f"{n}{'x' * 1000}" for n in range(2_000)],
            "category": MEGABYTE,
            "summary": MEGABYTE,
        }
    ),
}


@pytest.mark.attack
@pytest.mark.parametrize("build", HUGE.values(), ids=HUGE.keys())
def test_any_tool_is_read_in_a_moment(build: Callable[[], Tool]) -> None:
    made = build()
    assert seconds(lambda: analyse(made)) < 4
    assert len(analyse(made).terms) < 50_000


@pytest.mark.attack
def test_any_number_of_examples_is_read_in_a_moment() -> None:
    examples = [f"create issue number {number} in the repository" for number in range(100_000)]
    assert seconds(lambda: analyse(tool(), examples)) < 4


def test_description_of_stop_words_is_terse_however_long_it_is() -> None:
    stop_words = " ".join(sorted(STOP_WORDS))
    assert len(stop_words) > 300
    for description, field in ((stop_words, "topic"), (f"{stop_words} weather forecast", "tag")):
        fields = dict(field_texts(tool(description=description, tags=["sum"])))
        assert fields[field] == "sum"
