"""An agent of Pydantic AI that searches for the tools that it needs.

Usage: python examples/with_pydantic_ai.py MODEL QUESTION, such as openai:gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

import anyio
from pydantic_ai import Agent

from toolcrib import Crib
from toolcrib.integrations.pydantic_ai import toolset

crib = Crib()  # or a file with servers: Crib("mcp.json"), and "async with crib:" around the run


@crib.add(namespace="shop")
def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up the prices of an order."""
    return sum(prices) * (1 - discount)


@crib.add(namespace="mail")
def send(to: str, text: str) -> str:
    """Send an email message."""
    return f"sent to {to}: {text}"


async def main(model: Any, question: str) -> str:
    """Ask an agent, and return its answer."""
    agent = Agent(model, toolsets=[toolset(crib, search=True)])
    return (await agent.run(question)).output


if __name__ == "__main__":
    print(anyio.run(main, sys.argv[1], sys.argv[2]))
