"""Tokens that a model reads and writes for one question: by calls of tools, and by one piece of code."""

import json
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from toolcrib import Crib
from toolcrib.model.tokens import estimate_tokens as tokens
from toolcrib.runtime.runtime import Runtime

QUESTION = "Which customers in Oslo have unpaid orders, and how much does each of them owe us?"
CODE = """\
import asyncio

first = await shop.orders()
rest = await asyncio.gather(*[shop.orders(page=n) for n in range(2, first["pages"] + 1)])
due: dict[int, float] = {}
for page in [first, *rest]:
    for order in page["orders"]:
        if order["status"] == "unpaid":
            due[order["customer"]] = due.get(order["customer"], 0) + order["total"]
people = await asyncio.gather(*[shop.customer(id=n) for n in due])
__out = {person["name"]: due[person["id"]] for person in people if person["city"] == "Oslo"}
"""
EXECUTE = {
    "name": "execute",
    "description": "Run Python that calls tools. Each namespace is a name whose attributes are asynchronous "
    "functions; asyncio.gather calls them at once. What is left in __out is given back.",
    "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}
SAID = """\
> {question}

The question was answered twice, over {orders} orders on {pages} pages, with the same local tools and the
same answer: by calls whose results a model reads, with independent calls in one turn; and by this code:
"""
COUNTED = """\
In tokens, assuming four characters per token. Everything was run, and its output is counted; no
model was called. The counts include the definitions of only these two tools (for the calls, JSON
schemas of their arguments; for the code, stubs, which also give their result types, and the tool
that takes the code), the question, the calls or the code, the results as compact JSON, and the
answer. They do not include a system prompt, thinking, what providers add around each part, or
their lower prices for cached input. A model whose first code is wrong needs one more turn; and if
there is only one call to make, or all results of the calls have to be read, code saves nothing.
"""
PAGES = 5
ON_PAGE = 20
CUSTOMERS = 40
CITIES = ("Oslo", "Rome", "Lima", "Bern")


class Order(TypedDict):
    """One order."""

    id: int
    customer: int
    status: str
    total: float
    currency: str
    placed: str
    items: list[str]


class OrderPage(TypedDict):
    """Some of the orders."""

    page: int
    pages: int
    orders: list[Order]


class Customer(TypedDict):
    """A customer with orders."""

    id: int
    name: str
    email: str
    city: str
    country: str
    since: str


async def orders(page: int = 1) -> OrderPage:
    """List the orders, the latest first, some on each page."""
    listed: list[Order] = [
        {
            "id": 5000 - n,
            "customer": n * 7 % CUSTOMERS,
            "status": ("paid", "unpaid", "paid", "sent", "paid")[n % 5],
            "total": 10.0 * (n % 9 + 1),
            "currency": "NOK",
            "placed": f"2026-10-{28 - n // 4:02}T09:{n % 60:02}:00Z",
            "items": [f"sku-{1000 + n * k}" for k in range(1, n % 3 + 2)],
        }
        for n in range((page - 1) * ON_PAGE, page * ON_PAGE)
    ]
    return {"page": page, "pages": PAGES, "orders": listed}


async def customer(id: int) -> Customer:  # noqa: A002 - what such a tool calls it
    """Look up a customer by number."""
    return {
        "id": id,
        "name": f"Customer {id}",
        "email": f"customer{id}@example.org",
        "city": CITIES[id % 4],
        "country": ("NO", "IT", "PE", "CH")[id % 4],
        "since": f"20{10 + id % 15}-03-01",
    }


@dataclass
class Talk:
    """The context of a model, and the tokens that it has read and written in all its turns."""

    definitions: int
    turns: int = 0
    calls: int = 0
    results: int = 0
    written: int = 0
    read: int = 0
    context: int = field(init=False)

    def __post_init__(self) -> None:
        self.context = self.definitions + tokens(QUESTION)

    def turn(self, wrote: list[Any], got: list[Any], calls: int) -> None:
        """Count one turn: the context is read, then the model's output and the results are appended."""
        written, results = (sum(tokens(as_text(each)) for each in part) for part in (wrote, got))
        self.read += self.context
        self.context += written + results
        self.written += written
        self.results += results
        self.calls += calls
        self.turns += 1


def as_text(value: Any) -> str:
    """Return a value as it stands in a conversation."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def by_calls(crib: Crib) -> tuple[Talk, dict[str, float]]:
    """Answer with calls of tools; those that need not wait for each other are made in one turn."""
    talk = Talk(sum(tokens(as_text(each.payload)) for each in crib.convert("anthropic")))

    async def turn(name: str, asked: list[dict[str, Any]]) -> list[Any]:
        got = [(await crib.run(f"shop:{name}", args)).structured for args in asked]
        talk.turn([{"name": name, "input": args} for args in asked], got, len(asked))
        return got

    pages = await turn("orders", [{}])
    pages += await turn("orders", [{"page": n} for n in range(2, pages[0]["pages"] + 1)])
    due: dict[int, float] = {}
    for order in (order for page in pages for order in page["orders"] if order["status"] == "unpaid"):
        due[order["customer"]] = due.get(order["customer"], 0) + order["total"]
    people = await turn("customer", [{"id": n} for n in due])
    answer = {person["name"]: due[person["id"]] for person in people if person["city"] == "Oslo"}
    talk.turn([answer], [], 0)
    return talk, answer


async def by_code(crib: Crib) -> tuple[Talk, dict[str, float]]:
    """Answer with one piece of code."""
    shelf = [crib.discovery.index.resolve(f"shop:{name}") for name in ("orders", "customer")]
    talk = Talk(tokens(as_text(EXECUTE)) + tokens(Runtime.stubs(shelf)))
    result = await crib.execute(CODE)
    talk.turn([{"name": "execute", "input": {"code": CODE}}], [result.value], len(result.tool_calls))
    talk.turn([result.value], [], 0)
    return talk, result.value


async def two_talks() -> tuple[Talk, Talk]:
    """Return the tokens of both ways, which must reach the same answer."""
    async with Crib() as crib:
        for function in (orders, customer):
            crib.add(function, namespace="shop")
        calls, one = await by_calls(crib)
        code, other = await by_code(crib)
    if one != other or not one:
        raise SystemExit(f"the answers differ: {one!r} and {other!r}")
    return calls, code


def tokens_part(calls: Talk, code: Talk) -> str:
    """Return the part of the page about it."""
    rows = [
        ("turns of the model", calls.turns, code.turns),
        ("tool calls", calls.calls, code.calls),
        ("definitions of the tools", calls.definitions, code.definitions),
        ("written by the model", calls.written, code.written),
        ("results that it reads", calls.results, code.results),
        ("context at the end", calls.context, code.context),
        ("read in all turns together", calls.read, code.read),
    ]
    lines = ["| | by tool calls | by one piece of code | ratio |", "| --- | --: | --: | --: |"]
    lines += [f"| {said} | {one:,} | {other:,} | {one / other:.1f} |" for said, one, other in rows]
    return "\n\n".join(
        [
            SAID.format(question=QUESTION, orders=PAGES * ON_PAGE, pages=PAGES).rstrip(),
            f"```text\n{CODE}```",
            COUNTED.rstrip(),
            "\n".join(lines),
        ]
    )
