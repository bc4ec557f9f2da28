"""The shape that a toolset gives to a tool: other names, other descriptions, fewer parameters.

A `ToolShape` is data, as the configuration has it. `ShapedTool.of` applies it to a tool. The result is a
`Tool` with the new name and schema, which lists, searches, documentation, stubs and checks of chains use like
any other, and it knows its original. Calls are mapped in one place, `Runner._run_stages`: rules decide about
the original tool with the arguments that it will get, and so do caches, servers and the audit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

from pydantic import Field, PrivateAttr, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from toolcrib.errors import InvalidToolError, Problem, ToolError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.model.plain import copy_json, pointer
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.schema.keywords import DEFINITIONS
from toolcrib.model.schema.reshape import (
    Parameters,
    ReshapeError,
    declared_parameters,
    describe_parameters,
    reshape,
)
from toolcrib.model.schema.validator import SchemaValidator
from toolcrib.model.suggest import choose, did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import name_fault

E = TypeVar("E", bound=ToolError)


class ToolShape(Record):
    """A tool as the callers of a toolset see it; settings use the tool's own parameter names."""

    name: str | None = None
    """Its name here; its namespace and its version stay the same."""
    title: str | None = None
    """Its title here."""
    description: str | None = None
    """Its description here."""
    rename: dict[str, str] = Field(default={})
    """New names of parameters, by their original names: `{repository = "repo"}`."""
    describe: dict[str, str] = Field(default={})
    """New descriptions of parameters, by their original names."""
    hide: tuple[str, ...] = ()
    """Parameters that callers do not see, and that are not sent, unless `defaults` has their value."""
    fix: JsonObject = Field(default={})
    """Parameters that callers do not see, with the values that are always sent."""
    defaults: JsonObject = Field(default={})
    """Values of parameters that callers may leave out."""
    pin: StrictBool = False
    """List the tool itself, in addition to the tools that find and run others."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.name is not None and (fault := name_fault(self.name)):
            raise _shape_error(f"name: {self.name[:140]!r} {fault}")
        unseen = {*self.hide, *self.shared("fix")}
        for field in ("rename", "describe"):
            if twice := sorted(unseen & self.shared(field).keys()):
                raise _shape_error(f"{field}: {twice[0]!r} is hidden from callers")
        if twice := sorted(self.shared("fix").keys() & {*self.hide, *self.shared("defaults")}):
            raise _shape_error(f"fix: {twice[0]!r} has another value or is hidden; keep only one of these")
        names = list(self.shared("rename").values())
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise _shape_error(f"rename: two parameters are called {twice[0]!r}")
        if "" in names:
            raise _shape_error("rename: a name must not be empty")
        return self

    @property
    def changes_tool(self) -> bool:
        """Whether the shape changes the tool itself, and not only its place in lists."""
        return self.model_fields_set - {"pin"} != set()

    def parameters(self) -> Parameters:
        """Return the changes to the parameters."""
        values = self.shared("defaults")
        return Parameters(
            renamed=self.shared("rename"),
            described=self.shared("describe"),
            fixed={**self.shared("fix"), **{name: values[name] for name in self.hide if name in values}},
            hidden=frozenset(name for name in self.hide if name not in values),
            defaults={name: value for name, value in values.items() if name not in self.hide},
        )


def _shape_error(reason: str) -> PydanticCustomError:
    return PydanticCustomError("shape", "{reason}", {"reason": reason})


class ShapedTool(Tool):
    """A tool as the callers of a toolset see it."""

    _origin: Tool = PrivateAttr()
    _parameters: Parameters = PrivateAttr()
    _names: dict[str, str] = PrivateAttr()

    @classmethod
    def of(cls, origin: Tool, shape: ToolShape, validator: SchemaValidator) -> "ShapedTool":
        """Apply a shape to a tool.

        Raises:
            InvalidToolError: the shape does not fit the tool.
        """
        parameters = shape.parameters()
        schema = origin.shared("input_schema")
        try:
            declared = declared_parameters(schema)
            _check_names(origin, parameters, declared)
            if misfits := find_misfits(origin, "fix", parameters.fixed, validator):
                raise InvalidToolError(misfits, str(origin.id), "shape")
            if parameters == Parameters(described=parameters.described):
                made = describe_parameters(schema, parameters.described)
            else:
                made = reshape(schema, parameters, lambda part, value: _fits(validator, part, value))
        except ReshapeError as error:
            raise InvalidToolError((error.problem,), str(origin.id), "shape") from error
        words = {"name": shape.name, "title": shape.title, "description": shape.description}
        changed = origin.replace(
            input_schema=made, **{word: text for word, text in words.items() if text is not None}
        )
        tool = cls.from_valid(**{name: changed.__dict__[name] for name in changed.model_fields_set})
        names = {seen: name for name in declared if (seen := parameters.seen(name)) is not None}
        private = {"_origin": origin, "_parameters": parameters, "_names": names}
        object.__setattr__(tool, "__pydantic_extra__", changed.__pydantic_extra__)
        object.__setattr__(tool, "__pydantic_private__", private)
        return tool

    @property
    def origin(self) -> Tool:
        """The tool itself."""
        return self._origin

    def original_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that the tool itself gets; names that callers do not see are left out.

        Arguments that were not validated may have such names, which `check_names` refuses.
        """
        ours = self._parameters
        if ours.is_closed:
            mapped = {self._names[name]: value for name, value in args.items() if name in self._names}
        else:
            mapped = dict(args)
        for name, value in ours.defaults.items():
            if name not in mapped:
                mapped[name] = copy_json(value)
        return mapped | {name: copy_json(value) for name, value in ours.fixed.items()}

    def check_names(self, args: Iterable[str]) -> None:
        """Refuse arguments that are none of the parameters that callers see.

        Raises:
            ValidationError: there are some.
        """
        if not self._parameters.is_closed:
            return
        problems = [
            Problem(
                pointer([name]),
                "additionalProperties",
                f"{short_repr(name)} is not a parameter of this tool{did_you_mean(name, self._names)}",
            )
            for name in args
            if name not in self._names
        ]
        if problems:
            raise ValidationError(tuple(problems[:MAX_PROBLEMS]))

    def seen_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the tool itself as callers see them."""
        seen = ((self._parameters.seen(name), value) for name, value in args.items())
        return {name: value for name, value in seen if name is not None}

    def hides_word_in(self, text: str) -> bool:
        """Return whether a text names a parameter that callers do not see, or see under another name."""
        ours = self._parameters
        words = frozenset("".join(one if one.isalnum() or one in "_-" else " " for one in text).split())
        return not words.isdisjoint((*ours.fixed, *ours.hidden, *ours.renamed))

    def retell(self, error: E) -> E:
        """Return an error about the tool itself as one about this tool."""
        own, ours = str(self._origin.id), str(self.id)
        changes: dict[str, Any] = {"reason": error.reason.replace(own, ours)}
        if error.backend is not None:
            changes["backend"] = error.backend.replace(own, ours)
        if error.tool_id == own:
            changes["tool_id"] = ours
        told = replace(error, **changes)
        told.__cause__, told.__traceback__ = error.__cause__, error.__traceback__
        told.__suppress_context__ = True
        return told


def original_of(tool: Tool) -> Tool:
    """Return the tool that rules and servers know."""
    return tool.origin if isinstance(tool, ShapedTool) else tool


def find_misfits(
    tool: Tool, field: str, values: Mapping[str, Any], validator: SchemaValidator
) -> tuple[Problem, ...]:
    """Return why values do not fit the parameters that the schema of a tool itself declares."""
    schema = tool.shared("input_schema")
    properties = schema.get("properties")
    problems: list[Problem] = []
    for name, value in values.items():
        own = properties.get(name) if isinstance(properties, dict) else None
        if not isinstance(own, dict):
            continue
        kept = {word: schema[word] for word in ("$schema", *DEFINITIONS) if word in schema}
        try:
            validator.validate({**kept, "allOf": [own]}, value)
        except ValidationError as error:
            problems += [
                replace(each, path=f"/{field}{pointer([name])}{each.path}") for each in error.problems
            ]
    return tuple(problems[:MAX_PROBLEMS])


def _fits(validator: SchemaValidator, schema: Any, value: Any) -> bool:
    try:
        validator.validate(schema, value)
    except ValidationError:
        return False
    return True


def _check_names(origin: Tool, parameters: Parameters, declared: tuple[str, ...]) -> None:
    """Refuse a shape that names an unknown parameter, or gives two parameters one name.

    Raises:
        InvalidToolError: with every problem.
    """
    named = {
        "rename": parameters.renamed,
        "describe": parameters.described,
        "fix": parameters.fixed,
        "hide": parameters.hidden,
        "defaults": parameters.defaults,
    }
    problems = [
        Problem(f"/{field}", "name", f"{short_repr(name)} is not a parameter{choose(name, declared)}")
        for field, names in named.items()
        for name in sorted(names)
        if name not in declared
    ]
    seen = [name for each in declared if (name := parameters.seen(each)) is not None]
    problems += [
        Problem("/rename", "unique", f"two parameters would be called {short_repr(name)}")
        for name in sorted({name for name in seen if seen.count(name) > 1})
    ]
    if problems:
        raise InvalidToolError(tuple(problems[:MAX_PROBLEMS]), str(origin.id), "shape")
