"""An agent of smolagents that calls tools in its code.

Usage: python examples/with_smolagents.py MODEL QUESTION, such as Qwen/Qwen3-32B "What is it?"
"""

import sys
from typing import Any

from smolagents import CodeAgent, InferenceClientModel

from toolcrib import SyncCrib
from toolcrib.integrations.smolagents import tools

crib = SyncCrib()


@crib.add(namespace="shop")
def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up the prices of an order."""
    return sum(prices) * (1 - discount)


@crib.add(namespace="mail")
def send(to: str, text: str) -> str:
    """Send an email message."""
    return f"sent to {to}: {text}"


def main(model: Any, question: str) -> Any:
    """Ask an agent, and return its answer."""
    agent = CodeAgent(tools(crib), model, verbosity_level=0)
    return agent.run(question)


if __name__ == "__main__":
    print(main(InferenceClientModel(model_id=sys.argv[1]), sys.argv[2]))
