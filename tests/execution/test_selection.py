"""Selection of a backend, by valid and invalid selectors."""

from collections.abc import Iterator
from typing import Any

import pytest

from toolcrib.errors import InvalidBackendError, NoBackendError, ToolcribError
from toolcrib.execution import LocalHandlers
from toolcrib.execution.selection import by_kind, select_backends
from toolcrib.model import LocalBackend, McpBackend, Tool

TOOL = Tool(name="add", input_schema={"type": "object"})
NEAR = LocalBackend(name="add")
OTHER = LocalBackend(name="sum")


def add(a: int) -> int:
    """Add."""
    return a


def chosen(choice: Any) -> list[Any]:
    handlers = LocalHandlers({"add": add, "sum": add})
    return list(select_backends(TOOL, (NEAR, OTHER), {"local": handlers}, lambda _tool, _backends: choice))


@pytest.mark.parametrize(
    ("choice", "tried"),
    [
        (OTHER, [OTHER]),
        ([OTHER, NEAR], [OTHER, NEAR]),
        ((NEAR,), [NEAR]),
        (iter([NEAR, OTHER]), [NEAR, OTHER]),
        ([NEAR, NEAR], [NEAR, NEAR]),
    ],
    ids=["one", "a list", "a tuple", "an iterator", "one twice"],
)
def test_a_selector_chooses_one_or_several_in_order(choice: Any, tried: list[Any]) -> None:
    assert chosen(choice) == tried


@pytest.mark.parametrize("choice", [None, [], ()], ids=repr)
def test_a_selector_may_choose_none(choice: Any) -> None:
    with pytest.raises(NoBackendError, match="the selector chose none"):
        chosen(choice)


@pytest.mark.parametrize(
    "choice",
    [
        5,
        0,
        True,
        "local:add",
        b"x",
        "",
        [None],
        [NEAR, 7],
        {"a": 1},
        [[NEAR]],
        object,
        McpBackend(server_name="x"),
    ],
    ids=repr,
)
def test_a_selector_that_chooses_something_else_is_told(choice: Any) -> None:
    with pytest.raises(InvalidBackendError, match="the selector"):
        chosen(choice)


class Unequal:
    """A value that cannot be compared or printed."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no")


def endless() -> Iterator[Any]:
    while True:
        yield NEAR


def broken() -> Iterator[Any]:
    yield NEAR
    raise RuntimeError("no")


@pytest.mark.parametrize("choice", [Unequal(), [Unequal()], endless(), broken()], ids=range(4))
def test_a_choice_that_cannot_even_be_looked_at_is_told(choice: Any) -> None:
    with pytest.raises(InvalidBackendError, match="the selector"):
        chosen(choice)


def test_a_selector_that_fails_is_told() -> None:
    def select(_tool: Tool, _backends: Any) -> Any:
        raise KeyError("no")

    with pytest.raises(InvalidBackendError, match="the selector failed: KeyError: 'no'"):
        select_backends(TOOL, (NEAR,), {"local": LocalHandlers({"add": add})}, select)


def test_toolcrib_error_of_a_selector_is_raised_unchanged() -> None:
    def select(_tool: Tool, _backends: Any) -> Any:
        raise NoBackendError(tool_id="add", reason="not at night")

    with pytest.raises(ToolcribError, match="not at night"):
        select_backends(TOOL, (NEAR,), {"local": LocalHandlers({"add": add})}, select)


def test_the_nearest_comes_first() -> None:
    far = McpBackend(server_name="x")
    assert by_kind(TOOL, (far, NEAR, OTHER)) == [NEAR, OTHER, far]
