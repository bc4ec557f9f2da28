"""An agent of LlamaIndex whose retriever lists the tools that it has found.

Usage: python examples/with_llama_index.py MODEL QUESTION, such as gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

import anyio
from llama_index.core.agent.workflow import FunctionAgent

from toolcrib import Crib
from toolcrib.integrations.llama_index import retriever

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
    agent = FunctionAgent(tool_retriever=retriever(crib), llm=model)
    return str(await agent.run(user_msg=question))


async def ask_openai(name: str, question: str) -> str:
    """Ask an agent with a model of OpenAI."""
    from llama_index.llms.openai import OpenAI  # noqa: PLC0415 - a package of its own: llama-index-llms-openai

    return await main(OpenAI(model=name), question)


if __name__ == "__main__":
    print(anyio.run(ask_openai, sys.argv[1], sys.argv[2]))
