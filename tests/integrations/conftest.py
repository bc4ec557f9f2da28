"""The crib whose tools the frameworks call, and records of the calls."""

import base64
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from toolcrib import Context, Crib, SyncCrib
from toolcrib.execution import Principal
from toolcrib.execution.call import Answer, Call, Outcome

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
CONFIG = {
    "policy": [
        {
            "name": "no-wiping",
            "who": ["*"],
            "tools": ["shop:wipe"],
            "effect": "deny",
            "reason": "nobody wipes",
        },
        {"name": "ask", "who": ["*"], "tools": ["shop:refund"], "effect": "ask", "reason": "money leaves"},
        {"name": "else", "who": ["*"], "tools": ["*"], "effect": "allow"},
    ]
}


@dataclass
class Watch:
    """Records of the calls: an observer, and the middleware that draws pictures."""

    outcomes: list[Outcome] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: list[str] = field(default_factory=list)

    def begin(self, _tool_id: str, _principal: Principal | None) -> Callable[[Outcome], None]:
        return self.outcomes.append

    @property
    def called(self) -> list[str]:
        return [outcome.tool_id for outcome in self.outcomes]


async def draw(call: Call, run_on: Any) -> Answer:
    """Answer as an MCP server does that sends an image."""
    if call.tool.name != "picture":
        answer: Answer = await run_on(call)
        return answer
    blocks = [
        {"type": "text", "text": "a pixel"},
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
    ]
    return Answer(structured={"width": 1}, mcp_result={"content": blocks, "structuredContent": {"width": 1}})


def fill(crib: Crib | SyncCrib, watch: Watch) -> None:
    @crib.add(namespace="shop", annotations={"readOnlyHint": True})
    def order_total(prices: list[float], discount: float = 0) -> float:
        """Add up the prices of an order.

        Args:
            prices: The price of each item.
            discount: What to take off, from 0 to 1.
        """
        return sum(prices) * (1 - discount)

    @crib.add(namespace="shop")
    def config(config: str, callbacks: int = 0, run_manager: str = "") -> dict[str, Any]:
        """Echo arguments whose names frameworks use themselves."""
        return {"config": config, "callbacks": callbacks, "run_manager": run_manager}

    @crib.add(namespace="mail")
    async def send(to: str, context: Context) -> dict[str, str]:
        """Send an email message."""
        await context.progress(1, 2, "connecting")
        if not to:
            raise ValueError("there is no mailbox without a name")
        return {"sent": to}

    @crib.add(namespace="shop")
    async def wait() -> None:
        """Wait until the parcel is there."""
        watch.waiting.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            watch.cancelled.append("wait")
            watch.ended.set()
            raise

    @crib.add(namespace="shop")
    def wipe() -> None:
        """Delete all orders."""

    @crib.add(namespace="shop")
    def refund(order: int) -> str:
        """Pay an order back."""
        return f"paid back order {order}"

    @crib.add(namespace="shop")
    def picture() -> dict[str, int]:
        """Draw a picture of the shop."""
        return {"width": 1}


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def crib(watch: Watch) -> Crib:
    made = Crib(CONFIG, observers=[watch], middleware=[draw])
    fill(made, watch)
    return made


@pytest.fixture
def sync_crib(watch: Watch) -> Iterator[SyncCrib]:
    made = SyncCrib(CONFIG, observers=[watch], middleware=[draw])
    fill(made, watch)
    yield made
    made.close()
