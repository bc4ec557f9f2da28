"""An agent of LangChain, with a middleware that lists the tools that it has found.

Usage: python examples/with_langchain.py MODEL QUESTION, such as openai:gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

import anyio
from langchain.agents import create_agent

from toolcrib import Crib
from toolcrib.integrations.langchain import middleware

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
    agent = create_agent(model, middleware=[middleware(crib)])
    state = await agent.ainvoke({"messages": [("user", question)]})
    return str(state["messages"][-1].content)


if __name__ == "__main__":
    print(anyio.run(main, sys.argv[1], sys.argv[2]))
