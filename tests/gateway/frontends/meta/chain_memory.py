"""Runs one chain through the meta-tools and prints how it ended, and by how much the memory grew."""

import json
import resource
import sys
from typing import Any

import anyio
from gateway.frontends.meta.asking import Asking

from toolcrib import Crib
from toolcrib.crib import GatewaySettings
from toolcrib.gateway.frontends.meta import MetaTools


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(kind: str, items: int) -> None:
    crib = Crib()

    @crib.add
    def echo(value: Any) -> Any:
        """Give a value back."""
        return value

    @crib.add
    def fails(value: Any) -> Any:
        """Fail."""
        raise ValueError(str(value)[:100])

    big: Any = "x" * 300_000 if kind == "text" else [[]] * 60_000
    first = {"tool_id": "echo", "args": {"value": big}}
    again: dict[str, Any] = {"tool_id": "echo", "args": {"value": {"$ref": "steps.0"}}}
    if kind == "fallback":
        again = {"tool_id": "fails", "args": {"value": 0}, "onError": {"fallback": big}}
    if kind == "arguments":
        again = {"tool_id": "fails", "args": {"value": [{"$ref": "item"}, *big]}, "onError": "continue"}
    face = MetaTools(crib, GatewaySettings(), sandbox=False)
    small = {"steps": [{"tool_id": "echo", "args": {"value": 1}}]}
    await face.call("run_chain", small, Asking(can_ask=False))
    before = peak()
    steps = {"steps": [first, again | {"forEach": [0] * items}]}
    result = (await face.call("run_chain", steps, Asking(can_ask=False))).structured_content
    assert result is not None
    sys.stdout.write(json.dumps({"grown": peak() - before, "reply": result}))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))
