"""Tools made of functions: schemas from signatures, words from docstrings, and calls as before."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import anyio
import pytest
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypedDict

from toolcrib.errors import InvalidSchemaError, InvalidToolError, ValidationError
from toolcrib.model import DefaultValidator, LocalTool, Tool, ToolAnnotations, parse_arg_schema, tool


class Priority(Enum):
    LOW = "low"
    HIGH = "high"


class Issue(BaseModel):
    title: str
    priority: Priority = Priority.LOW


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    depth: int


class Plain:
    """No schema can be made of it."""


def properties_of(made: LocalTool[..., Any]) -> dict[str, Any]:
    properties: dict[str, Any] = made.tool.input_schema["properties"]
    return properties


def test_a_function_becomes_a_tool() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    assert isinstance(add, LocalTool)
    assert isinstance(add.tool, Tool)
    assert add.tool.to_json() == {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "integer"},
    }
    assert repr(add) == "<LocalTool add>"


def test_local_tool_can_be_called_like_the_function() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert (add(2), add(2, 3), add(b=4, a=3)) == (3, 5, 7)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add()  # type: ignore[call-arg]  # that is the point


def test_local_tool_has_the_name_docstring_and_attributes_of_the_function() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    add.tool = "an attribute of that name"  # type: ignore[attr-defined]  # functions take any attribute
    add.colour = "red"  # type: ignore[attr-defined]  # the same
    made = tool(add)
    assert made.__name__ == "add"  # type: ignore[attr-defined]  # functools brings it
    assert made.__doc__ == "Add."
    assert made.__module__ == __name__
    assert made.__wrapped__ is add  # type: ignore[attr-defined]  # the same
    assert made.colour == "red"  # type: ignore[attr-defined]  # the same
    assert inspect.signature(made) == inspect.signature(add)
    assert made.tool.name == "add"


def test_a_coroutine_function_is_awaited_as_before() -> None:
    @tool
    async def add(a: int) -> int:
        return a + 1

    assert anyio.run(add, 2) == 3
    assert add.tool.output_schema == {"type": "integer"}


def test_a_generator_streams_and_has_no_output_schema() -> None:
    @tool
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    assert list(count(3)) == [0, 1, 2]
    assert count.tool.output_schema is None


def test_an_async_generator_streams_and_has_no_output_schema() -> None:
    @tool
    async def count(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    async def collect() -> list[int]:
        return [number async for number in count(3)]

    assert anyio.run(collect) == [0, 1, 2]
    assert count.tool.output_schema is None


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - that is the point
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Any, {}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (
            Annotated[str, Field(min_length=2, description="D")],
            {"type": "string", "minLength": 2, "description": "D"},
        ),
        (Annotated[str, "a note"], {"type": "string", "description": "a note"}),
        ("int", {"type": "integer"}),
    ],
    ids=str,
)
def test_a_parameter_has_the_schema_of_its_type(annotation: Any, schema: dict[str, Any]) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    assert properties_of(tool(take)) == {"value": schema}


@pytest.mark.parametrize("kind", [Priority, Issue, Point, Options], ids=lambda kind: kind.__name__)
def test_a_parameter_may_be_an_enum_a_model_a_dataclass_or_a_typed_dict(kind: Any) -> None:
    def take(value: Any) -> Any: ...

    take.__annotations__ = {"value": kind, "return": kind}
    made = tool(take)
    definitions = made.tool.input_schema["$defs"]
    assert definitions.keys() >= {kind.__name__}
    assert made.tool.output_schema is not None
    DefaultValidator().validate_input(made.tool, {"value": ok_values[kind]})
    with pytest.raises(ValidationError):
        DefaultValidator().validate_input(made.tool, {"value": 5})


ok_values: dict[Any, Any] = {Priority: "low", Issue: {"title": "a"}, Point: {"x": 1}, Options: {}}


def test_parameters_without_a_type_take_anything() -> None:
    def take(value, other=None): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - the point

    assert tool(take).tool.input_schema["properties"] == {"value": {}, "other": {"default": None}}


def test_keyword_only_parameters_and_any_others_are_in_the_schema() -> None:
    @tool
    def take(*, a: int, b: str = "x", **rest: bool) -> None: ...

    schema = take.tool.input_schema
    assert schema["required"] == ["a"]
    assert schema["properties"].keys() == {"a", "b"}
    assert schema["additionalProperties"] == {"type": "boolean"}
    assert take.tool.output_schema is None


def test_a_default_may_be_a_field_a_model_or_what_json_cannot_say() -> None:
    def take(
        a: int = Field(3, ge=1), b: Issue = Issue(title="t"), c: Any = object()  # noqa: B008 - the point
    ) -> None: ...  # fmt: skip

    properties = properties_of(tool(take))
    assert properties["a"] == {"default": 3, "minimum": 1, "type": "integer"}
    assert properties["b"]["default"] == {"title": "t", "priority": "low"}
    assert properties["c"] == {}
    assert "required" not in tool(take).tool.input_schema


@pytest.mark.parametrize(
    "name",
    ["schema", "copy", "model_x", "json", "dict", "model_config", "_hidden", "args", "kwargs", "v__args"],
)
def test_parameter_names_that_pydantic_uses_itself_are_fine(name: str) -> None:
    def take(**given: int) -> int:
        return given[name]

    parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=int)
    take.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]  # functions take any attribute
    take.__annotations__ = {name: int}
    made = tool(take)
    assert properties_of(made) == {name: {"type": "integer"}}
    assert made(**{name: 5}) == 5


def test_parameters_named_like_the_decorators_own_are_fine() -> None:
    @tool(name="other")
    def take(function: int, name: str, tags: str, arguments: str, frame: str) -> None: ...

    assert take.tool.name == "other"
    assert properties_of(take).keys() == {"function", "name", "tags", "arguments", "frame"}


@pytest.mark.parametrize(
    "docstring",
    [
        "Copy.\n\nArgs:\n    source: Where from.\n    other: Nobody.",
        "Copy.\n\nParameters\n----------\nsource : str\n    Where from.\n",
        "Copy.\n\n:param source: Where from.\n:param other: Nobody.",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_the_docstring_describes_the_parameters(docstring: str) -> None:
    def copy(source: str, target: Issue) -> None: ...

    copy.__doc__ = docstring
    made = tool(copy)
    assert made.tool.description == "Copy."
    assert properties_of(made)["source"] == {"type": "string", "description": "Where from."}
    assert "description" not in properties_of(made)["target"]
    assert properties_of(made).keys() == {"source", "target"}


def test_a_fields_own_description_goes_before_the_docstrings() -> None:
    @tool
    def copy(source: Annotated[str, Field(description="Mine.")]) -> None:
        """Copy.

        Args:
            source: The docstring's.
        """

    assert properties_of(copy)["source"]["description"] == "Mine."


def test_a_description_that_is_given_goes_before_the_docstring() -> None:
    def copy() -> None:
        """Copy."""

    assert tool(copy).tool.description == "Copy."
    assert tool(description="Clone.")(copy).tool.description == "Clone."
    assert tool(name="bare")(lambda: None).tool.description is None


@pytest.mark.parametrize(
    ("returned", "schema"),
    [
        (None, None),
        (Any, None),
        (str, {"type": "string"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
    ],
    ids=str,
)
def test_the_output_schema_is_that_of_the_return_type(returned: Any, schema: Any) -> None:
    def give() -> Any: ...

    give.__annotations__["return"] = returned
    assert tool(give).tool.output_schema == schema


def test_the_output_schema_of_a_model_says_what_is_written() -> None:
    class Square(BaseModel):
        side: int

        @computed_field
        def area(self) -> int:
            return self.side**2

    @tool
    def give(square: Square) -> Square:
        return square

    assert give.tool.input_schema["$defs"]["Square"]["properties"].keys() == {"side"}
    assert give.tool.output_schema is not None
    assert give.tool.output_schema["properties"].keys() == {"side", "area"}


def test_no_return_type_gives_no_output_schema() -> None:
    def give(): ...  # type: ignore[no-untyped-def]  # noqa: ANN202 - that is the point

    assert tool(give).tool.output_schema is None


def test_every_option_reaches_the_record() -> None:
    @tool(
        name="add-numbers",
        namespace="math",
        version="v1.0.0",
        tags=["Pure Math"],
        title="Add",
        description="Add up.",
        annotations=ToolAnnotations(read_only_hint=True),
    )
    def add(a: int) -> int:
        return a

    assert str(add.tool.id) == "math:add-numbers:1.0.0"
    assert add.tool.version == "v1.0.0"
    assert add.tool.tags == ("pure-math",)
    assert add.tool.title == "Add"
    assert add.tool.description == "Add up."
    assert add.tool.annotations == ToolAnnotations(read_only_hint=True)
    assert add(1) == 1
    assert repr(add) == "<LocalTool math:add-numbers:1.0.0>"


def test_an_option_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match=r"a tool has no option 'descripton'; did you mean 'description'\?"):
        tool(descripton="x")  # type: ignore[call-overload]  # that is the point


@pytest.mark.parametrize("form", [dict, parse_arg_schema], ids=["dict", "parsed"])
def test_the_arguments_may_be_described_by_a_light_schema(form: Callable[[Any], Any]) -> None:
    light = {"q": {"type": "string", "required": True, "minLength": 3}}

    @tool(arguments=form(light))
    def search(q: Plain) -> int:
        """Search."""
        return len(str(q))

    assert search.tool.input_schema == parse_arg_schema(light).to_json_schema()
    assert search.tool.output_schema == {"type": "integer"}
    with pytest.raises(ValidationError):
        DefaultValidator().validate_input(search.tool, {"q": "ab"})


@pytest.mark.parametrize("bad", [[1], "q", 5], ids=repr)
def test_a_bad_light_schema_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        tool(arguments=bad)(lambda q: q)


def positional_only(a: int, /) -> None: ...
def any_number(*args: int) -> None: ...
def of_a_class(self: Any, a: int) -> None: ...
def of_the_class(cls: Any, a: int) -> None: ...


@pytest.mark.parametrize(
    "options", [{}, {"arguments": {"a": {"type": "integer"}}}], ids=["signature", "light"]
)
@pytest.mark.parametrize(
    ("function", "path", "message"),
    [
        (positional_only, "/a", "can only be passed by position, but arguments of tools are passed by name"),
        (any_number, "/args", "can only be passed by position, but arguments of tools are passed by name"),
        (of_a_class, "/self", "is not an argument; make a tool of the bound method instead"),
        (of_the_class, "/cls", "is not an argument; make a tool of the bound method instead"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_parameter_that_has_no_name_for_the_caller_is_refused(
    function: Callable[..., Any], path: str, message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidToolError) as caught:
        tool(**options)(function)
    (problem,) = caught.value.problems
    assert (problem.path, problem.message) == (path, message)
    assert caught.value.name == function.__name__


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Plain, "must be JSON types, pydantic models or dataclasses: Unable to generate .*Plain'>$"),
        (Callable[[], int], "must be JSON types, pydantic models or dataclasses: .*CallableSchema$"),
        (Annotated[str, Field(pattern="(")], "the parameters must be JSON types.*regex parse error"),
        ("Nowhere", "an annotation names 'Nowhere', which is not known here; define it at module level"),
        (list["Nowhere"], "an annotation names 'Nowhere'"),  # type: ignore[name-defined]  # noqa: F821 - the point
        ("1 +", "an annotation is not a type: "),
        ("inspect.nothing", "an annotation is not a type: "),
    ],
    ids=str,
)
def test_a_type_that_json_cannot_say_is_refused_with_the_reason(annotation: Any, message: str) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    with pytest.raises(InvalidToolError, match=message) as caught:
        tool(take)
    assert len(str(caught.value)) < 600


def test_a_model_that_is_not_finished_is_refused() -> None:
    class Unfinished(BaseModel):
        other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - that is the point

    def take(value: Unfinished) -> None: ...

    with pytest.raises(InvalidToolError, match="one of them refers to a type that is not defined yet"):
        tool(take)


def test_a_return_type_that_json_cannot_say_is_refused() -> None:
    def give() -> Plain:
        return Plain()

    with pytest.raises(InvalidToolError, match="the return type must be JSON types"):
        tool(give)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"name": "a b"}, "/name"),
        ({"namespace": "a:b"}, "/namespace"),
        ({"version": "1"}, "/version"),
        ({"tags": "math"}, "/tags"),
        ({"tags": [5]}, "/tags/0"),
        ({"annotations": {"readOnlyHint": "x"}}, "/annotations/readOnlyHint"),
    ],
    ids=str,
)
def test_an_option_that_no_tool_may_have_is_refused(options: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        tool(**options)(positional_free)
    assert [problem.path for problem in caught.value.problems] == [path]


def positional_free(a: int) -> int:
    """Take one."""
    return a


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, n: int = 1) -> int:
        """Count on."""
        self.total += n
        return self.total

    @classmethod
    def make(cls, n: int) -> str:
        return f"{cls.__name__} {n}"

    @staticmethod
    def double(n: int) -> int:
        return 2 * n

    def __call__(self, n: int) -> str:
        return str(self.total + n)


def test_a_bound_method_is_a_tool_and_keeps_its_object() -> None:
    counter = Counter()
    made = tool(counter.add)
    assert (made(), made(n=4), counter.total) == (1, 5, 5)
    assert made.tool.description == "Count on."
    assert properties_of(made) == {"n": {"type": "integer", "default": 1}}


def test_class_and_static_methods_are_tools() -> None:
    assert tool(Counter.make)(3) == "Counter 3"
    assert tool(Counter.double)(3) == 6
    assert (
        properties_of(tool(Counter.make)) == properties_of(tool(Counter.double)) == {"n": {"type": "integer"}}
    )


def test_an_object_that_can_be_called_is_a_tool() -> None:
    made = tool(Counter())
    assert (made.tool.name, made.tool.description) == ("Counter", "Counts.")
    assert made.tool.output_schema == {"type": "string"}
    assert made(2) == "2"


def test_a_class_is_a_tool_that_takes_what_its_constructor_takes() -> None:
    made = tool(Point)
    assert properties_of(made) == {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}
    assert made(1) == Point(1)


def test_a_partial_function_is_a_tool_with_the_rest_of_the_parameters() -> None:
    made = tool(functools.partial(positional_free, a=5))
    assert (made.tool.name, made.tool.description) == ("positional_free", "Take one.")
    assert properties_of(made) == {"a": {"type": "integer", "default": 5}}
    assert made() == 5


def test_a_decorated_function_has_the_signature_of_what_it_wraps() -> None:
    @functools.wraps(positional_free)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return positional_free(*args, **kwargs) + 1

    made = tool(wrapper)
    assert made(1) == 2
    assert properties_of(made) == {"a": {"type": "integer"}}


def test_a_tool_can_be_made_of_a_tool() -> None:
    inner = tool(positional_free)
    outer = tool(name="again")(inner)
    assert (inner.tool.name, outer.tool.name) == ("positional_free", "again")
    assert outer.tool.input_schema == inner.tool.input_schema
    assert outer(3) == 3


def test_a_builtin_without_a_signature_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="it has no signature to read; wrap it in a typed function"):
        tool(dict)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidToolError, match="'<lambda>' may contain only"):
        tool(lambda: 1)
    assert tool(name="one")(lambda: 1)() == 1


def test_object_that_is_not_callable_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="made of a function, not 5"):
        tool(5)  # type: ignore[call-overload]  # that is the point


def test_texts_in_annotations_describe_parameters_and_the_result() -> None:
    def forecast(
        city: Annotated[str, "Where."],
        days: Annotated[int, Field(ge=1), "How many."] = 1,
        unit: Annotated[str, "C or F."] | None = None,
        hours: Annotated[int, Field(description="By pydantic."), "Not this."] = 0,
        place: str = "",
    ) -> Annotated[float, "The mean temperature."]:
        """Forecast the weather.

        Args:
            city: not this.
            place: By the docstring.
        """
        return float(len(f"{city}{days}{unit}{hours}{place}"))

    made = tool(forecast).tool
    described = {name: schema.get("description") for name, schema in made.input_schema["properties"].items()}
    assert described == {
        "city": "Where.",
        "days": "How many.",
        "unit": "C or F.",
        "hours": "By pydantic.",
        "place": "By the docstring.",
    }
    assert made.input_schema["properties"]["days"]["minimum"] == 1
    assert made.output_schema == {"description": "The mean temperature.", "type": "number"}
