"""An agent of Agno with chosen tools.

Usage: python examples/with_agno.py MODEL QUESTION, such as openai:gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

import anyio
from agno.agent import Agent

from toolcrib import Crib
from toolcrib.integrations.agno import tools

crib = Crib()


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
    agent = Agent(model=model, tools=tools(crib, ["shop:order_total"]), telemetry=False)
    return str((await agent.arun(question)).content)


if __name__ == "__main__":
    print(anyio.run(main, sys.argv[1], sys.argv[2]))
