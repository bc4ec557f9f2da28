"""Tools made of functions whose annotations are strings until they are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from toolcrib.errors import InvalidToolError
from toolcrib.model import LocalTool, tool

if TYPE_CHECKING:
    from decimal import Decimal


class Issue(BaseModel):
    title: str


class Tree(BaseModel):
    children: list[Tree] = []


@tool
def of_the_module(issue: Issue, tree: Tree | None = None) -> Issue:
    """Take what the module defines."""
    assert tree is None
    return issue


def reference_of(made: LocalTool[..., Any], name: str) -> str:
    reference: str = made.tool.input_schema["properties"][name]["$ref"]
    return reference


def test_names_of_the_module_are_found() -> None:
    assert reference_of(of_the_module, "issue") == "#/$defs/Issue"
    assert of_the_module.tool.input_schema["$defs"].keys() == {"Issue", "Tree"}
    assert of_the_module.tool.output_schema is not None
    assert of_the_module.tool.output_schema["required"] == ["title"]


def test_names_of_the_function_around_are_found() -> None:
    class Local(BaseModel):
        inner: int

    @tool
    def bare(value: Local) -> None: ...

    @tool(name="with_options")
    def called(value: list[Local]) -> Local:
        return value[0]

    assert bare.tool.input_schema["$defs"]["Local"]["required"] == ["inner"]
    assert called.tool.output_schema is not None
    assert called.tool.output_schema["title"] == "Local"


def test_names_of_the_class_around_are_found() -> None:
    class Holder:
        class Inner(BaseModel):
            a: int

        @staticmethod
        @tool
        def take(value: Inner) -> int:
            return value.a

    assert reference_of(Holder.take, "value") == "#/$defs/Inner"


def test_a_function_from_elsewhere_means_the_names_of_its_own_module() -> None:
    class Issue(BaseModel):  # not the one that of_the_module means
        other: int

    again = tool(of_the_module.function)
    assert again.tool.input_schema["$defs"]["Issue"]["required"] == ["title"]
    assert Issue.model_fields.keys() == {"other"}


def test_a_name_for_type_checkers_only_is_refused() -> None:
    def take(value: Decimal) -> None: ...

    with pytest.raises(InvalidToolError, match="an annotation names 'Decimal', which is not known here"):
        tool(take)
