"""An agent of the OpenAI Agents SDK with chosen tools, in strict mode.

Usage: python examples/with_openai_agents.py MODEL QUESTION, such as gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

import anyio
from agents import Agent, Runner

from toolcrib import Crib
from toolcrib.integrations.openai_agents import tools

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
    agent = Agent("clerk", tools=tools(crib, ["shop:order_total"], strict=True), model=model)
    return str((await Runner.run(agent, question)).final_output)


if __name__ == "__main__":
    print(anyio.run(main, sys.argv[1], sys.argv[2]))
