"""A loop with the SDK of OpenAI alone: it streams the answer, and runs the calls in it.

Usage: python examples/with_openai.py MODEL QUESTION, such as gpt-5.2 "What do 4 and 6 cost?"
"""

import sys
from typing import Any

from openai import OpenAI

from toolcrib import SyncCrib

crib = SyncCrib()


@crib.add(namespace="shop")
def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up the prices of an order."""
    return sum(prices) * (1 - discount)


@crib.add(namespace="mail")
def send(to: str, text: str) -> str:
    """Send an email message."""
    return f"sent to {to}: {text}"


def main(client: OpenAI, model: str, question: str) -> str:
    """Ask a model, and return its answer."""
    session = crib.session("openai", strict=True)
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        stream = client.chat.completions.create(
            model=model, messages=messages, tools=session.tools, stream=True
        )
        response = session.join(stream)
        if not (more := session.run(response)):
            return str(response["content"])
        messages += more


if __name__ == "__main__":
    print(main(OpenAI(), sys.argv[1], sys.argv[2]))
