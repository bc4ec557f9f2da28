"""The signatures of the guest's own functions match their results."""

from typing import Any

import pytest

from toolcrib import Crib
from toolcrib.runtime import ExecuteRequest, Runtime
from toolcrib.runtime.stubs import GUEST


def described(name: str) -> Any:
    names: dict[str, Any] = {}
    exec(GUEST, names)  # noqa: S102 - a text of our own
    return names[name]


def fits(value: dict[str, Any], name: str) -> bool:
    shape = described(name)
    return shape.__required_keys__ <= value.keys() <= shape.__required_keys__ | shape.__optional_keys__


@pytest.mark.anyio
async def test_guest_functions_return_their_declared_types() -> None:
    crib = Crib()

    @crib.add(namespace="shop", tags=["sale"])
    async def order(number: int) -> int:
        """Return an order."""
        return number

    crib.add(order, namespace="mail", version="1.0.0")
    code = """
found = await search_tools("order")
steps = [
    {"tool_id": "shop:order", "args": {"number": 1}, "id": "first"},
    {"tool_id": "shop:order", "args": {"number": {"$ref": "item"}}, "for_each": [1, 2]},
    {"tool_id": "shop:order", "args": {"number": 1}, "when": False},
    {"parallel": [{"tool_id": "shop:order", "args": {"number": 1}}]},
]
__out = [found, await run_chain(steps)]
"""
    async with Runtime(crib) as runtime:
        found, chain = (await runtime.execute(ExecuteRequest(code=code))).value
    assert len(found) == 2
    assert all(fits(tool, "FoundTool") for tool in found)
    assert fits(chain, "ChainOutcome")
    assert all(fits(step, "StepOutcome") for step in chain["results"])
