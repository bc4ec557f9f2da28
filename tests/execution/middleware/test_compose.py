"""The way of a call through its layers."""

from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.execution import Answer, Call, Middleware, Next
from toolcrib.execution.audit import Audit
from toolcrib.execution.middleware import Cache, Retry, compose

MakeCall = Callable[..., Call]


def layer(name: str, seen: list[str]) -> Middleware:
    async def around(call: Call, go_on: Next, /) -> Answer:
        seen.append(f"{name} in")
        answer = await go_on(call)
        seen.append(f"{name} out")
        return answer

    return around


@pytest.mark.anyio
async def test_the_first_layer_is_the_outermost(make_call: MakeCall) -> None:
    seen: list[str] = []

    async def go(_call: Call) -> Answer:
        seen.append("backend")
        return Answer(structured=1)

    way = compose([layer("a", seen), layer("b", seen)], go)
    assert (await way(make_call())).structured == 1
    assert seen == ["a in", "b in", "backend", "b out", "a out"]


@pytest.mark.anyio
async def test_without_layers_the_way_is_the_backend_itself() -> None:
    async def go(_call: Call) -> Answer:
        return Answer()

    assert compose((), go) is go


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ([Retry(), Retry], "middleware: /1: is the class Retry; make one with Retry(...)"),
        ([Audit], "middleware: /0: is the class Audit; make one with Audit(...)"),
        ([Audit(print)], "middleware: /0: is an observer; give the Audit in observers="),
        (["retry"], "middleware: /0: must be called with (call, go_on), and a str cannot be called"),
        ([None, Cache], "middleware: /0: must be called with (call, go_on), and a NoneType cannot be called; /1: is the class Cache; make one with Cache(...)"),
        (Retry(), "middleware: must be a list of layers, not a Retry"),
        ("retry", "middleware: must be a list of layers, not a str"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_invalid_layer_is_refused_with_advice(layers: Any, said: str) -> None:
    async def go(_call: Call) -> Answer:
        return Answer()

    with pytest.raises(ConfigError) as caught:
        compose(layers, go)
    assert str(caught.value) == said
