"""An agent of Google's ADK that searches for the tools that it needs.

Usage: python examples/with_adk.py MODEL QUESTION, such as gemini-3-flash "What do 4 and 6 cost?"
"""

import sys
from typing import Any

import anyio
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner

from toolcrib import Crib
from toolcrib.integrations.adk import toolset

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
    agent = LlmAgent(name="clerk", model=model, tools=[toolset(crib, search=True)])
    events = await InMemoryRunner(agent=agent).run_debug(question, quiet=True)
    return "".join(part.text or "" for part in events[-1].content.parts)


if __name__ == "__main__":
    print(anyio.run(main, sys.argv[1], sys.argv[2]))
