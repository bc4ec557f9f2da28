"""The contract of every schema validator; subclass it and provide `validator`."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import BaseModel

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model import SchemaValidator, Tool

OBJECT = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


class Query(BaseModel):
    q: str


class SchemaValidatorContract:
    """The contract of `SchemaValidator`."""

    @pytest.fixture
    def validator(self) -> SchemaValidator:
        raise NotImplementedError

    def test_it_satisfies_the_protocol(self, validator: SchemaValidator) -> None:
        assert isinstance(validator, SchemaValidator)

    @pytest.mark.parametrize(
        "schema",
        [OBJECT, b'{"type": "object", "required": ["q"]}', '{"type": "object", "required": ["q"]}', Query],
        ids=["dict", "bytes", "text", "model"],
    )
    def test_a_schema_may_come_in_any_form(self, validator: SchemaValidator, schema: Any) -> None:
        validator.validate(schema, {"q": "drill"})
        with pytest.raises(ValidationError):
            validator.validate(schema, {})

    def test_a_boolean_schema_accepts_all_or_nothing(self, validator: SchemaValidator) -> None:
        validator.validate(True, {"any": ["thing"]})
        with pytest.raises(ValidationError):
            validator.validate(False, None)

    @pytest.mark.parametrize("schema", [None, [], 5, b"", "{", "[1]", '"text"', {"type": "strng"}])
    def test_invalid_schema_is_refused(self, validator: SchemaValidator, schema: Any) -> None:
        with pytest.raises(InvalidSchemaError):
            validator.validate(schema, {})

    def test_arguments_need_a_tool_and_an_input_schema(self, validator: SchemaValidator) -> None:
        with pytest.raises(InvalidSchemaError):
            validator.validate_input(None, {})
        tool = Tool(name="t", input_schema=OBJECT)
        validator.validate_input(tool, {"q": "drill"})
        with pytest.raises(ValidationError):
            validator.validate_input(tool, {"q": 1})

    def test_a_result_is_checked_only_against_an_output_schema(self, validator: SchemaValidator) -> None:
        with pytest.raises(InvalidSchemaError):
            validator.validate_output(None, {})
        validator.validate_output(Tool(name="t", input_schema={}), object)
        tool = Tool(name="t", input_schema={}, output_schema=OBJECT)
        validator.validate_output(tool, {"q": "drill"})
        with pytest.raises(ValidationError):
            validator.validate_output(tool, {"q": None})

    def test_nothing_it_is_given_changes(self, validator: SchemaValidator) -> None:
        schema, value = copy.deepcopy(OBJECT), {"q": "drill", "extra": [1, {"a": None}]}
        before = copy.deepcopy((schema, value))
        validator.validate(schema, value)
        assert (schema, value) == before

    def test_a_schema_that_the_caller_changes_is_read_anew(self, validator: SchemaValidator) -> None:
        schema: dict[str, Any] = {"const": 1}
        validator.validate(schema, 1)
        schema["const"] = True
        validator.validate(schema, True)
        with pytest.raises(ValidationError):
            validator.validate(schema, 1)

    def test_a_tool_is_validated_by_the_schema_that_it_shows(self, validator: SchemaValidator) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
        tool = Tool(name="t", input_schema=schema, output_schema=schema)
        for _ in range(2):
            validator.validate_input(tool, {})
            validator.validate_output(tool, {})
            schema["required"] = ["q"]
        changed = tool.replace(input_schema=schema, output_schema=schema)
        for validate in (validator.validate_input, validator.validate_output):
            with pytest.raises(ValidationError):
                validate(changed, {})
        assert [each.input_schema.get("required") for each in (tool, changed)] == [None, ["q"]]

    def test_a_tool_whose_schema_was_read_and_changed_is_enforced_as_it_was(
        self, validator: SchemaValidator
    ) -> None:
        tool = Tool(name="t", input_schema=OBJECT, output_schema=OBJECT)
        validator.validate_input(tool, {"q": "drill"})
        tool.input_schema["required"] = ["other"]
        tool.output_schema["required"] = ["other"]  # type: ignore[index]
        assert tool.input_schema == tool.output_schema == OBJECT
        for check in (validator.validate_input, validator.validate_output):
            check(tool, {"q": "drill"})
            with pytest.raises(ValidationError):
                check(tool, {"other": 1})

    def test_threads_may_share_it(self, validator: SchemaValidator) -> None:
        def check(number: int) -> bool:
            try:
                validator.validate({"type": "integer", "minimum": number % 50}, 25)
            except ValidationError:
                return number % 50 > 25
            return number % 50 <= 25

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(check, range(2000)))
