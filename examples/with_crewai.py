"""A crew of CrewAI whose clerk has chosen tools.

Usage: python examples/with_crewai.py MODEL QUESTION, such as openai:gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

from crewai import Agent, Crew, Task

from toolcrib import SyncCrib
from toolcrib.integrations.crewai import tools

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
    """Ask a crew, and return its answer."""
    clerk = Agent(role="Clerk", goal="Serve", backstory="You serve.", llm=model, tools=tools(crib))
    task = Task(description=question, expected_output="An answer.", agent=clerk)
    return str(Crew(agents=[clerk], tasks=[task]).kickoff().raw)


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2]))
