"""The way of a call through its layers."""

from collections.abc import Callable

import pytest

from toolcrib.execution.middleware import compose
from toolcrib.execution.protocols import Middleware, Next
from toolcrib.execution.records import Answer, Call

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
