"""An agent of Strands that searches for the tools that it needs.

Usage: python examples/with_strands.py MODEL QUESTION, such as us.anthropic.claude-sonnet-5 "What is it?"
"""

import sys
from typing import Any

from strands import Agent

from toolcrib import SyncCrib
from toolcrib.integrations.strands import tools

crib = SyncCrib()


@crib.add(namespace="shop")
def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up the prices of an order."""
    return sum(prices) * (1 - discount)


@crib.add(namespace="mail")
def send(to: str, text: str) -> str:
    """Send an email message."""
    return f"sent to {to}: {text}"


def main(model: Any, question: str) -> str:
    """Ask an agent, and return its answer."""
    agent = Agent(model, tools=tools(crib, search=True), callback_handler=None)
    return str(agent(question)).strip()


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2]))
