"""What is found to be wrong with a chain before any of it runs."""

from typing import Any

import pytest
from execution.chains.bench import faults, shelf, tool_of

from toolcrib.errors import InvalidChainError, InvalidToolIdError, ToolNotFoundError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.execution.chains import check_chain
from toolcrib.model import DefaultValidator, Tool, suggest

TEXT = {"type": "string"}
CLOSED = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": TEXT},
    "additionalProperties": False,
}
CLOSED_ALL = {**CLOSED, "required": ["id", "name"]}


def chain_of(reference: str = "previous", **fields: Any) -> list[Any]:
    return [{"toolId": "make", **fields}, {"toolId": "use", "args": {"x": {"$ref": reference}}}]


def told(gives: Any, takes: Any, reference: str = "previous", **fields: Any) -> list[str]:
    """Return what is wrong with a tool that takes, as `x`, what another gives."""
    return faults(chain_of(reference, **fields), tool_of("make", gives=gives), tool_of("use", {"x": takes}))


def test_everything_is_told_at_once() -> None:
    steps = [
        {"toolId": "mak", "args": {}},
        {"toolId": "use", "args": {"x": {"$ref": "steps.5"}}},
        {"toolId": "use", "args": {"y": 1}},
        {"toolId": "a:b:c:d"},
        {"toolID": "use"},
    ]
    with pytest.raises(InvalidChainError) as caught:
        check_chain(steps, shelf(tool_of("make"), tool_of("use", {"x": TEXT})), DefaultValidator())
    error = caught.value
    assert [problem.path for problem in error.problems] == [
        "/0/toolId", "/1/args/x", "/2/args", "/3/toolId", "/4/toolID", "/4",
    ]  # fmt: skip
    assert error.problems[0].message == "no tool named 'mak'; did you mean 'make'?"
    assert error.step_index == 0
    assert isinstance(error.__cause__, ToolNotFoundError)
    assert error.__cause__.suggestions == ("make",)


@pytest.mark.parametrize(
    "hostile",
    [
        {"args": {"x": [{"$ref": f"steps.mak{number}/x"} for number in range(10_000)]}},
        {"when": {"all": [{f"equal{number}": [1, 1]} for number in range(10_000)]}},
        {"args": {f"x{number}": {"$ref": "previous"} for number in range(10_000)}},
        {f"arg{number}": 1 for number in range(10_000)},
    ],
    ids=["references", "conditions", "arguments", "fields"],
)
def test_no_more_names_are_searched_for_than_an_error_shows(
    hostile: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def search(word: str, *_args: Any, **_options: Any) -> list[str]:
        searched.append(word)
        return []

    monkeypatch.setattr(suggest, "get_close_matches", search)
    closed = tool_of("use", {"x": TEXT}).replace(
        input_schema={"type": "object", "properties": {"x": TEXT}, "additionalProperties": False}
    )
    with pytest.raises(InvalidChainError) as caught:
        check_chain(
            [{"id": "make", "toolId": "make"}, {"toolId": "use", **hostile}],
            shelf(tool_of("make"), closed),
            DefaultValidator(),
        )
    assert 0 < len(caught.value.problems) <= MAX_PROBLEMS
    assert len(searched) <= MAX_PROBLEMS


def test_no_more_tools_are_searched_for_than_an_error_shows() -> None:
    known, asked = shelf(tool_of("make")), list[str]()

    class Counting:
        def resolve(self, reference: str) -> Tool:
            asked.append(reference)
            return known.resolve(reference)

    with pytest.raises(InvalidChainError) as caught:
        check_chain([{"toolId": f"mak{number}"} for number in range(100)], Counting())
    assert len(caught.value.problems) == len(asked) == MAX_PROBLEMS


def test_an_id_that_is_none_is_the_reason_where_there_is_no_other() -> None:
    with pytest.raises(InvalidChainError) as caught:
        check_chain(
            [{"toolId": "use", "args": {"x": ""}}, {"toolId": "a b"}], shelf(tool_of("use", {"x": TEXT}))
        )
    assert caught.value.step_index == 1
    assert isinstance(caught.value.__cause__, InvalidToolIdError)


def test_without_a_validator_arguments_are_not_looked_at() -> None:
    chain = check_chain([{"toolId": "use"}], shelf(tool_of("use", {"x": TEXT})))
    assert len(chain.steps) == 1


def test_tools_in_groups_are_looked_for_too() -> None:
    assert faults([{"parallel": [{"toolId": "make"}, {"toolId": "nothing"}]}], tool_of("make")) == [
        "/0/parallel/1/toolId: no tool named 'nothing'"
    ]


@pytest.mark.parametrize(
    ("gives", "takes", "said"),
    [
        (TEXT, {"type": "integer"}, "is a string, and must be an integer"),
        ({"type": ["string", "null"]}, {"type": "number"}, "is a string or null, and must be a number"),
        ({"type": "number"}, {"type": "array"}, "is a number, and must be an array"),
        ({"enum": ["a", "b"]}, {"enum": ["c", "d"]}, "is 'a' or 'b', which does not fit here"),
        ({"const": "a"}, {"type": "string", "minLength": 2}, "is 'a', which does not fit here"),
        ({"const": None}, {"const": False}, "is null, and must be a boolean"),
        ({"type": "string", "maxLength": 1}, {"enum": ["ab", "cd"]}, "is never 'ab' or 'cd'"),
        ({"enum": list("abcde")}, {"enum": ["x"]}, "is 'a' or 'b' or 'c' or 'd' or …, which does not fit here"),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"type": "object"}, "is a string or null, and must be an object"),
        ({"allOf": [TEXT]}, {"allOf": [{"type": "object"}]}, "is a string, and must be an object"),
        (CLOSED, {"type": "object", "required": ["nam"]}, "has no 'nam'; did you mean 'name'?, which is required"),
        (CLOSED, {"type": "object", "required": ["id"], "properties": {"id": TEXT}}, "has 'id', which is an integer, and must be a string"),
        ({"type": "object", "required": ["extra"]}, CLOSED, "has 'extra', which is not allowed"),
        ({"anyOf": [CLOSED, TEXT]}, {"type": "object", "required": ["no"]}, "has no 'no', which is required"),
        (CLOSED, {"anyOf": [TEXT, {"type": "object", "required": ["no"]}]}, "is an object, and must be a string"),
        ({"$ref": "#/$defs/T", "$defs": {"T": TEXT}}, {"type": "integer"}, "is a string, and must be an integer"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/T", "definitions": {"T": TEXT}}, {"type": "integer"}, "is a string, and must be an integer"),
        (TEXT, False, "is a string, and must be nothing"),
        (TEXT, {"allOf": [{"type": "integer"}, {"type": "null"}]}, "is a string, and must be nothing"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_mismatch_of_schemas_is_reported(gives: Any, takes: Any, said: str) -> None:
    assert told(gives, takes) == [f"/1/args/x: 'previous' {said}"]


@pytest.mark.parametrize(
    ("gives", "takes"),
    [
        (None, {"type": "integer"}),
        ({}, {"type": "integer"}),
        (TEXT, {}),
        (TEXT, True),
        ({"type": "integer"}, {"type": "number"}),
        ({"type": "number"}, {"type": "integer"}),
        ({"const": 1.0}, {"type": "integer"}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}),
        (CLOSED, CLOSED),
        (CLOSED, {"type": "object", "properties": {"other": TEXT}, "additionalProperties": False}),
        ({"type": "object"}, {"type": "object", "required": ["x"]}),
        ({"anyOf": [TEXT, CLOSED]}, {"type": "string"}),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"oneOf": [{"type": "null"}, {"type": "object"}]}),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/T", "type": "string", "definitions": {"T": {}}}, {"type": "integer"}),
        ({"not": {"type": "integer"}}, {"type": "integer"}),
        ({"if": {}, "then": TEXT}, {"type": "integer"}),
        ({"$ref": "#thing", "$defs": {"t": {"$anchor": "thing", "type": "string"}}}, {"type": "integer"}),
        (False, {"type": "integer"}),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {"type": "object", "properties": {"a": {"$ref": "#/properties/x"}}, "required": ["a"]}),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_possible_match_of_schemas_is_accepted(gives: Any, takes: Any) -> None:
    if isinstance(gives, bool):
        gives = {"allOf": [gives]}
    assert told(gives, takes) == []


@pytest.mark.parametrize(
    ("gives", "reference", "said"),
    [
        (CLOSED, "previous/nam", "previous has no 'nam'; did you mean 'name'?"),
        (CLOSED, "steps.0/name/0", "steps.0/name is a string"),
        (TEXT, "steps.m/length", "steps.m is a string"),
        ({"type": "array", "items": CLOSED}, "previous/0/x", "previous/0 has no 'x'"),
        ({"type": "array", "items": CLOSED}, "previous/first", "previous is an array"),
        ({"type": "array", "items": {}, "maxItems": 2}, "previous/2", "previous has at most 2 items"),
        ({"type": "array", "items": False}, "previous/0", "previous is an empty array"),
        ({"anyOf": [CLOSED, {"type": "null"}]}, "previous/x", "previous has no 'x'"),
        ({"anyOf": [CLOSED, {"type": "null"}]}, "previous/name/x", "previous/name is a string"),
        (
            {"properties": {"a": {"$ref": "#/allOf/0/not"}}, "allOf": [{"not": TEXT}]},
            "previous/a/x",
            "previous/a is a string",
        ),
        ({"type": "object", "properties": {"gone": False}}, "previous/gone", "previous never has 'gone'"),
        ({"type": "object", "additionalProperties": TEXT}, "previous/any/x", "previous/any is a string"),
    ],
)
def test_a_reference_to_what_a_tool_never_gives_is_told(gives: Any, reference: str, said: str) -> None:
    assert told(gives, {}, reference, id="m") == [f"/1/args/x: {reference!r} leads nowhere: {said}"]


@pytest.mark.parametrize(
    ("gives", "reference"),
    [
        ({"type": "object", "properties": {"a": {}}}, "previous/b"),
        ({**CLOSED, "patternProperties": {"^x": TEXT}}, "previous/xyz/0"),
        ({"anyOf": [CLOSED, {"type": "object"}]}, "previous/x"),
        ({"anyOf": [CLOSED, {"type": "array"}]}, "previous/0"),
        ({"type": "array", "prefixItems": [TEXT], "items": False}, "previous/0"),
        ({"type": "array"}, "previous/0/x"),
        ({"type": ["object", "array"], "items": TEXT}, "previous/0"),
        (None, "previous/x"),
    ],
)
def test_a_reference_to_what_a_tool_may_give_is_let_be(gives: Any, reference: str) -> None:
    assert told(gives, {}, reference) == []


def test_fallback_of_a_step_may_have_any_type() -> None:
    assert told(TEXT, {"type": "integer"}, onError="continue") == []
    assert told(TEXT, {"type": "integer"}, onError={"fallback": 1}) == []


def test_a_step_that_may_fail_is_not_told_that_it_will() -> None:
    step = {"toolId": "use", "args": {"x": 1}, "onError": "continue"}
    assert faults([step], tool_of("use", {"x": TEXT})) == []
    group = {"parallel": [{**step, "onError": "stop"}]}
    assert len(faults([group], tool_of("use", {"x": TEXT}))) == 1
    assert faults([{**group, "onError": {"fallback": []}}], tool_of("use", {"x": TEXT})) == []


def test_the_step_before_may_be_one_that_was_not_skipped() -> None:
    number, use = {"type": "integer"}, {"toolId": "use", "args": {"x": {"$ref": "previous"}}}
    tools = (tool_of("text", gives=TEXT), tool_of("number", gives=number), tool_of("use", {"x": number}))
    skippable = {"toolId": "text", "when": {"$ref": "steps.0"}}
    assert faults([{"toolId": "number"}, skippable, use], *tools) == []
    assert faults([{"toolId": "text"}, skippable, use], *tools) == [
        "/2/args/x: 'previous' is a string, and must be an integer"
    ]
    passed_on = {"toolId": "pass", "usePrevious": True}
    may_be_null = tool_of("pass", {"previous": {"type": "null"}})
    assert faults([{"toolId": "text", "when": True}, passed_on], *tools, may_be_null) == []
    assert faults([{"toolId": "text"}, passed_on], *tools, may_be_null) == [
        "/1/args/previous: 'previous' is a string, and must be null"
    ]


def test_a_tool_that_takes_no_previous_is_not_given_one() -> None:
    closed, make = Tool(name="use", namespace="shop", input_schema=CLOSED), tool_of("make")
    step = {"toolId": "shop:use", "args": {"id": 1}, "usePrevious": True}
    unwanted = "sets the argument 'previous', which shop:use does not take"
    instead = 'refer to it in args with {"$ref": "previous"} instead'
    assert faults([step], closed) == [f"/0/usePrevious: {unwanted}; remove it"]
    for args in ({"id": 1}, {"$ref": "previous"}):
        assert faults([{"toolId": "make"}, {**step, "args": args}], closed, make) == [
            f"/1/usePrevious: {unwanted}; {instead}"
        ]
    written = {"tool_id": "shop:use", "args": {"id": 1, "x": 2}, "use_previous": True}
    assert faults([{"toolId": "make"}, written], closed, make) == [
        f"/1/use_previous: {unwanted}; {instead}",
        "/1/args: unexpected property 'x'; remove it",
    ]


@pytest.mark.parametrize(
    ("takes", "required", "args", "example"),
    [
        ({"text": TEXT}, ["text"], {}, "text"),
        ({"text": {}}, ["text"], {}, "text"),
        ({"text": TEXT, "n": {"type": "integer"}}, ["text", "n"], {}, "text"),
        ({"text": TEXT, "more": TEXT}, ["text", "more"], {"more": {"$ref": "steps.0"}}, "text"),
        ({"text": TEXT, "more": TEXT}, ["text", "more"], {}, None),
        ({"text": TEXT}, [], {}, None),
        ({"n": {"type": "integer"}}, ["n"], {}, None),
        ({"text": TEXT}, ["text"], {"text": "x"}, None),
    ],
    ids=str,
)
def test_the_argument_that_may_take_what_the_step_before_gave_is_named(
    takes: Any, required: list[str], args: Any, example: str | None
) -> None:
    schema = {"type": "object", "properties": takes, "required": required, "additionalProperties": False}
    step = {"toolId": "use", "args": args, "usePrevious": True}
    tools = Tool(name="use", input_schema=schema), tool_of("make", gives=TEXT)
    [told, *others] = faults([{"toolId": "make"}, step], *tools)
    assert ("; write" in told) is (example is not None)
    if example is not None:
        assert told.endswith(f'; write {{"{example}": {{"$ref": "previous"}}}} instead')
        assert not any(example in other for other in others)


@pytest.mark.parametrize(
    ("gives", "args", "problems"),
    [
        (TEXT, {}, ["/1/args: required property 'text' is missing; {\"text\": {\"$ref\": \"previous\"}} gets the result of the step before"]),
        ({"type": "integer"}, {}, ["/1/args: required property 'text' is missing"]),
        (TEXT, {"text": "a", "previous": 1}, ["/1/args: unexpected property 'previous'; remove it; {\"$ref\": \"previous\"} gets the result of the step before"]),
        (TEXT, {"text": "a", "other": 1}, ["/1/args: unexpected property 'other'; remove it"]),
    ],
    ids=["missing", "unfit", "named", "other"],
)  # fmt: skip
def test_step_without_an_argument_is_told_how_to_take_what_the_step_before_gave(
    gives: Any, args: Any, problems: list[str]
) -> None:
    schema = {
        "type": "object",
        "properties": {"text": TEXT},
        "required": ["text"],
        "additionalProperties": False,
    }
    tools = Tool(name="use", input_schema=schema), tool_of("make", gives=gives)
    assert faults([{"toolId": "make"}, {"toolId": "use", "args": args}], *tools) == problems
    assert faults([{"toolId": "use"}], *tools) == ["/0/args: required property 'text' is missing"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"title": 5, "n": {"$ref": "previous"}}, ["/1/args/title: must be a string, not 5"]),
        ({"n": {"$ref": "previous"}}, ["/1/args: required property 'title' is missing"]),
        ({"title": "x", "tags": ["a", {"$ref": "previous"}, 7]}, ["/1/args/tags/2: must be a string, not 7"]),
        ({"title": ["x", {"$ref": "previous"}]}, ["/1/args/title: must be a string, not an array"]),
        ({"title": "x", "titel": {"$ref": "previous"}}, ["/1/args: unexpected property 'titel'; did you mean 'title'?"]),
        ({"title": "x", "at": {"x": {"$ref": "previous"}}}, ["/1/args/at: required property 'y' is missing"]),
        ({"title": "x", "at": {"x": {"$ref": "previous"}, "y": "a"}}, ["/1/args/at/y: must be a number, not 'a'"]),
        ({"title": "x", "at": {"x": {"$ref": "previous"}, "y": 1, "z": "far"}}, ["/1/args/at/z: must be a number, not 'far'"]),
        ({"title": "x", "way": {"left": {"$ref": "previous"}}}, ["/1/args/way: unexpected property 'left'; remove it"]),
        ({"title": "x", "way": {"up": {"$ref": "previous"}}}, []),
        ({"title": "x", "pair": [{"$ref": "previous"}, 5]}, []),
        ({"$ref": "previous"}, []),
        ({"title": {"$ref": "previous"}, "tags": []}, []),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_the_plain_parts_of_arguments_are_checked_around_references(args: Any, said: list[str]) -> None:
    number = {"type": "number"}
    schema = {
        "type": "object",
        "$defs": {"Title": TEXT},
        "properties": {
            "title": {"$ref": "#/$defs/Title"},
            "n": {},
            "tags": {"type": "array", "items": TEXT},
            "pair": {"type": "array", "prefixItems": [TEXT, TEXT]},
            "at": {"type": "object", "properties": {"x": number, "y": number}, "required": ["y"], "additionalProperties": number},
            "way": {"anyOf": [
                {"type": "object", "properties": {"up": {}}, "additionalProperties": False},
                {"type": "object", "properties": {"down": {}}, "additionalProperties": False},
            ]},
        },
        "required": ["title"],
        "additionalProperties": False,
    }  # fmt: skip
    steps = [{"toolId": "make"}, {"toolId": "use", "args": args}]
    assert faults(steps, tool_of("make"), Tool(name="use", input_schema=schema)) == said


@pytest.mark.parametrize("word", ["properties", "definitions"])
def test_a_schema_whose_parts_cannot_be_cut_out_is_let_be(word: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": TEXT}}
    if word == "definitions":
        schema = {
            "$id": "https://example.org/x",
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/b"}},
            "definitions": {"b": TEXT},
        }
    steps = [{"toolId": "make"}, {"toolId": "use", "args": {"a": 5, "c": {"$ref": "previous"}}}]
    assert faults(steps, tool_of("make"), Tool(name="use", input_schema=schema)) == []


def test_a_tool_whose_schema_cannot_be_used_is_told_of() -> None:
    class Resolver:
        def resolve(self, _ref: Any) -> Tool:
            return Tool(
                name="odd",
                input_schema={"properties": {"x": {"type": "nothing"}}},
                output_schema={"type": "object"},
            )

        def backends(self, _tool_id: Any) -> tuple[()]:
            return ()

    steps = [{"toolId": "odd"}, {"toolId": "odd", "args": {"x": 1, "y": {"$ref": "previous"}}}]
    with pytest.raises(InvalidChainError, match="its arguments cannot be checked: invalid schema") as caught:
        check_chain(steps, Resolver(), DefaultValidator())
    assert [problem.path for problem in caught.value.problems] == ["/0/toolId"]


def test_step_for_each_item_gives_a_list() -> None:
    tools = (tool_of("make", gives=CLOSED_ALL), tool_of("use", {"x": TEXT}))
    each = {"toolId": "make", "forEach": [1, 2]}

    def use(reference: str) -> Any:
        return {"toolId": "use", "args": {"x": {"$ref": reference}}}

    assert faults([each, use("previous/0/name")], *tools) == []
    assert faults([each, use("previous")], *tools) == [
        "/1/args/x: 'previous' is an array, and must be a string"
    ]
    assert faults([each, use("previous/name")], *tools) == [
        "/1/args/x: 'previous/name' leads nowhere: previous is an array"
    ]
    assert faults([each, use("previous/0/id")], *tools) == [
        "/1/args/x: 'previous/0/id' is an integer, and must be a string"
    ]
    asked = {**each, "when": {"$ref": "item"}}
    assert faults([asked, use("previous/0/id")], *tools) == []


def test_group_gives_the_list_of_its_results() -> None:
    tools = (tool_of("make", gives=CLOSED_ALL), tool_of("use", {"x": TEXT}))
    group = {"parallel": [{"toolId": "make", "id": "m"}, {"toolId": "make", "when": True}]}

    def use(reference: str) -> list[str]:
        return faults([group, {"toolId": "use", "args": {"x": {"$ref": reference}}}], *tools)

    assert use("previous/0/name") == use("previous/1/id") == use("steps.m/name") == []
    assert use("previous/2") == ["/1/args/x: 'previous/2' leads nowhere: previous has 2 items"]
    assert use("steps.m/id") == ["/1/args/x: 'steps.m/id' is an integer, and must be a string"]
    assert use("previous/x") == ["/1/args/x: 'previous/x' leads nowhere: previous is an array"]
    item = {"toolId": "use", "forEach": {"$ref": "previous"}, "args": {"x": {"$ref": "item"}}}
    assert faults([group, item], *tools) == []


def test_items_are_of_the_kind_that_their_list_holds() -> None:
    listed = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "integer"}},
            "total": {"type": "integer"},
        },
    }
    tools = (
        tool_of("make", gives=listed),
        tool_of("use", {"x": TEXT}),
        tool_of("count", {"x": {"type": "integer"}}),
    )

    def use(tool: str, items: Any, reference: str) -> list[str]:
        step = {"toolId": tool, "forEach": items, "args": {"x": {"$ref": reference}}}
        return faults([{"toolId": "make"}, step], *tools)

    items = {"$ref": "previous/items"}
    assert use("count", items, "item") == use("count", items, "index") == use("use", ["a"], "item") == []
    assert use("use", items, "item") == ["/1/args/x: 'item' is an integer, and must be a string"]
    assert use("use", items, "index") == ["/1/args/x: 'index' is an integer, and must be a string"]
    assert use("count", items, "item/x") == ["/1/args/x: 'item/x' leads nowhere: item is an integer"]
    assert use("count", {"$ref": "previous/total"}, "item") == [
        "/1/forEach: 'previous/total' is an integer, and must be an array"
    ]
    assert use("count", {"$ref": "previous/total/x"}, "item") == [
        "/1/forEach: 'previous/total/x' leads nowhere: previous/total is an integer"
    ]


@pytest.mark.attack
def test_schemas_that_branch_without_end_are_left_to_the_calls() -> None:
    depth = 40
    doubling = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(depth)
    }
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "$defs": {**doubling, f"d{depth}": TEXT},
    }

    class Resolver:
        def resolve(self, ref: Any) -> Tool:
            takes = {"type": "object"} if ref == "make" else schema
            return Tool(name="odd", input_schema=takes, output_schema={"type": "integer"})

        def backends(self, _tool_id: Any) -> tuple[()]:
            return ()

    steps = [{"toolId": "make"}, {"toolId": "odd", "args": {"x": {"$ref": "previous"}}}]
    check_chain(steps, Resolver(), DefaultValidator())


@pytest.mark.attack
def test_many_problems_end_the_search() -> None:
    steps = [{"toolId": "use", "args": {"x": 1}}] * 1_000
    assert len(faults(steps, tool_of("use", {"x": TEXT}))) == 32
