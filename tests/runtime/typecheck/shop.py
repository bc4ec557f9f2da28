"""A shop whose tools answer with objects in objects, and programs that read them in many ways."""

# ruff: noqa: ARG002 - the answers do not depend on what is asked

from textwrap import dedent
from typing import Any

from toolcrib.model import Tool
from toolcrib.runtime.stubs import render

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


ADDRESS = _object("city", city=TEXT, street=TEXT, zip={"type": ["string", "null"]})
CUSTOMER = _object("id name", id=WHOLE, name=TEXT, email=TEXT, address=ADDRESS, tags=_list(TEXT))
LINE = _object(
    "sku quantity price", sku=TEXT, quantity=WHOLE, price=NUMBER, note={"type": ["string", "null"]}
)
CARD = _object("kind last4", kind={"const": "card"}, last4=TEXT)
BANK = _object("kind iban", kind={"const": "bank"}, iban=TEXT)
ORDER = _object(
    "id status total",
    id=TEXT,
    status={"enum": ["open", "paid", "shipped", "cancelled"]},
    total=NUMBER,
    customer={"anyOf": [CUSTOMER, {"type": "null"}]},
    lines=_list(LINE),
    payment={"anyOf": [CARD, BANK]},
    coupons=_list(TEXT),
    placed_at={"type": "string", "format": "date-time"},
    extra={"type": "object", "additionalProperties": True},
)
PAGE = _object("orders", orders=_list(ORDER), cursor={"type": ["string", "null"]}, count=WHOLE)
REPORT = _object(
    "by_status", by_status={"type": "object", "additionalProperties": WHOLE}, rows=_list(_list(NUMBER))
)


def _tool(name: str, output: Any, required: str = "", **properties: Any) -> Tool:
    given = _object(required, **properties)
    return Tool(
        name=name, namespace="shop", input_schema=given, output_schema=output, description=f"Do {name}."
    )


SHOP_STUBS = render(
    [
        _tool(
            "orders",
            PAGE,
            status={"enum": ["open", "paid", "shipped", "cancelled"]},
            cursor=TEXT,
            limit=WHOLE,
        ),
        _tool("order", ORDER, "id", id=TEXT),
        _tool("customer", CUSTOMER, "id", id=WHOLE),
        _tool("report", REPORT, since=TEXT),
        _tool(
            "refund", {"type": "boolean"}, "order_id amount", order_id=TEXT, amount=NUMBER, lines=_list(LINE)
        ),
        _tool("ship", ORDER, "order", order=ORDER, address=ADDRESS),
        _tool("mail", None, "to body", to=_list(TEXT), body=TEXT, data={"type": "object"}),
        _tool("price", {"type": ["number", "null"]}, "sku", sku=TEXT),
        _tool("stock", {"type": "object", "additionalProperties": WHOLE}, skus=_list(TEXT)),
        _tool("lookup", {"anyOf": [ORDER, CUSTOMER, TEXT]}, "key", key=TEXT),
    ]
)


def _order(number: int, **more: Any) -> dict[str, Any]:
    status = ["open", "paid", "shipped"][number % 3]
    return {
        "id": f"o{number}", "status": status, "total": 10.5 * number, "placed_at": "2026-01-02T03:04:05+00:00",
        "customer": {"id": number, "name": f"n{number}", "address": {"city": "Oslo"}} if number % 2 else None,
        "lines": [{"sku": "a", "quantity": number, "price": 1.5}], "payment": {"kind": "card", "last4": "1234"},
        **more,
    }  # fmt: skip


class _Shop:
    async def orders(self, status: str = "open", cursor: str = "", limit: int = 10) -> Any:
        return {"orders": [_order(n) for n in range(4)], "cursor": None if cursor else "next", "count": 4}

    async def order(self, id: str) -> Any:  # noqa: A002 - as the tool has it
        return _order(3, id=id, extra={"gift": True})

    async def customer(self, id: int) -> Any:  # noqa: A002 - as the tool has it
        return {
            "id": id,
            "name": "ann",
            "email": "ann@x.org",
            "address": {"city": "Rome", "zip": None},
            "tags": [],
        }

    async def report(self, since: str = "") -> Any:
        return {"by_status": {"open": 2, "paid": 1}, "rows": [[1, 2.5], [3, 4]]}

    async def refund(self, order_id: str, amount: float, lines: Any = ()) -> Any:
        return True

    async def ship(self, order: Any, address: Any = None) -> Any:
        return {**order, "status": "shipped"}

    async def mail(self, to: Any, body: str, data: Any = None) -> Any:
        return {"sent": len(to)}

    async def price(self, sku: str) -> Any:
        return 2.5

    async def stock(self, skus: Any = ()) -> Any:
        return {"a": 3, "b": 0}

    async def lookup(self, key: str) -> Any:
        return _order(1)


ANSWERS = {"shop": _Shop()}
PURCHASES: dict[str, str] = {}
"""Programs by their names."""

for _block in dedent(
    """
## total of a page
page = await shop.orders(status="paid")
__out = sum(order["total"] for order in page["orders"])
## helper over plain dicts
def total(orders: list[dict]) -> float:
    return sum(o["total"] for o in orders)
page = await shop.orders()
__out = total(page["orders"])
## helper with dict of str
from typing import Any
def line_sum(order: dict[str, Any]) -> float:
    return sum(l["quantity"] * l["price"] for l in order.get("lines", []))
order = await shop.order(id="o1")
__out = line_sum(order)
## optional fields with get
page = await shop.orders()
__out = [(o.get("customer") or {}).get("name", "nobody") for o in page["orders"]]
## deep get
order = await shop.order("o2")
city = order.get("customer", {}).get("address", {}).get("city") if order.get("customer") else None
__out = city
## optional without a guard
order = await shop.order("o2")
__out = order["customer"]["name"]
## or empty list
order = await shop.order("o2")
for line in order.get("lines") or []:
    print(line["sku"], line.get("note") or "-")
__out = len(order.get("coupons") or [])
## comprehension over a field that may be missing
page = await shop.orders()
__out = [line["sku"] for o in page["orders"] for line in o["lines"] if line["quantity"] > 1]
## literal comparison
page = await shop.orders()
__out = {
    "late": [o["id"] for o in page["orders"] if o["status"] == "late"],
    "done": [o["id"] for o in page["orders"] if o["status"] in ("shipped", "delivered")],
}
## group by
from collections import defaultdict
groups = defaultdict(list)
page = await shop.orders()
for o in page["orders"]:
    groups[o["status"]].append(o["id"])
__out = dict(groups)
## counter
from collections import Counter
page = await shop.orders()
__out = Counter(o["status"] for o in page["orders"]).most_common(2)
## sort by key
page = await shop.orders()
best = sorted(page["orders"], key=lambda o: o["total"], reverse=True)[:2]
__out = [b["id"] for b in best]
## sort by optional
page = await shop.orders()
page["orders"].sort(key=lambda o: (o.get("placed_at") or "", -o["total"]))
__out = page["orders"][0]["id"]
## max with default
page = await shop.orders()
__out = max(page["orders"], key=lambda o: o["total"], default=None)
## iterate a dict of counts
report = await shop.report()
__out = {k: v for k, v in sorted(report["by_status"].items(), key=lambda kv: -kv[1])}
## rows
report = await shop.report(since="2026-01-01")
rows = report.get("rows", [])
__out = [sum(column) for column in zip(*rows)]
## merge dicts
order = await shop.order("o1")
__out = {**order, "paid": order["status"] == "paid", "lines": len(order.get("lines", []))}
## merge with the operator
order = await shop.order("o1")
__out = order | {"note": "x"}
## add a key to a result
order = await shop.order("o1")
order["margin"] = order["total"] * 0.2
__out = order["margin"]
## build plain rows
page = await shop.orders()
rows = []
for o in page["orders"]:
    row = {"id": o["id"]}
    row["total"] = o["total"]
    row["name"] = o["customer"]["name"] if o.get("customer") else None
    rows.append(row)
__out = rows
## pass a result on
order = await shop.order("o1")
shipped = await shop.ship(order=order)
__out = shipped["status"]
## pass a changed copy on
order = await shop.order("o1")
copy = dict(order)
copy["status"] = "paid"
shipped = await shop.ship(copy, address={"city": "Oslo"})
__out = shipped["status"]
## pass a merged copy on
order = await shop.order("o1")
shipped = await shop.ship(order={**order, "status": "paid"}, address={"city": "Oslo", "zip": None})
__out = shipped["id"]
## refund by values of another tool
order = await shop.order("o1")
ok = await shop.refund(order["id"], order["total"] / 2, lines=order.get("lines", []))
ok2 = await shop.refund(order_id=order["id"], amount=round(order["total"]))
__out = ok and ok2
## lines made by hand
lines = [{"sku": s, "quantity": 1, "price": 2} for s in ["a", "b"]]
__out = await shop.refund("o1", 4, lines)
## json text
import json
page = await shop.orders()
text = json.dumps(page["orders"][0], indent=2, sort_keys=True, default=str)
__out = json.loads(text)["id"]
## f-strings with formats
page = await shop.orders()
__out = "\\n".join(f"{o['id']:<5} {o['total']:>8.2f} {o.get('customer') and o['customer']['name']}" for o in page["orders"])
## nested gather
import asyncio
page = await shop.orders()
async def enrich(o):
    customer, prices = await asyncio.gather(
        shop.customer(id=(o.get("customer") or {"id": 0})["id"]),
        asyncio.gather(*(shop.price(sku=l["sku"]) for l in o.get("lines", []))),
    )
    return {"id": o["id"], "who": customer["name"], "sum": sum(p or 0 for p in prices)}
__out = await asyncio.gather(*[enrich(o) for o in page["orders"]])
## gather with exceptions
import asyncio
results = await asyncio.gather(*[shop.order(i) for i in ["a", "b"]], return_exceptions=True)
__out = [r["id"] for r in results if not isinstance(r, Exception)]
## gather with exceptions, the other way
import asyncio
results = await asyncio.gather(shop.order("a"), shop.customer(1), return_exceptions=True)
out = {}
for key, r in zip(["order", "customer"], results):
    if isinstance(r, BaseException):
        out[key] = str(r)
    else:
        out[key] = r["id"]
__out = out
## union of objects
order = await shop.order("o1")
pay = order["payment"]
__out = pay["last4"] if pay["kind"] == "card" else pay["iban"]
## union of objects with in
pay = (await shop.order("o1")).get("payment", {})
__out = pay["iban"] if "iban" in pay else pay.get("last4")
## isinstance on a union
found = await shop.lookup("x")
if isinstance(found, str):
    __out = found.upper()
elif isinstance(found, dict) and "status" in found:
    __out = found["status"]
else:
    __out = found["name"]
## isinstance list or dict
data = await shop.orders()
items = data if isinstance(data, list) else data.get("orders", [])
__out = len(items)
## number or None
price = await shop.price("a")
__out = round(price * 1.2, 2) if price is not None else None
## number or None without a guard
__out = (await shop.price("a")) * 2
## stock of skus
stock = await shop.stock(skus=list({"a", "b"}))
__out = [sku for sku, left in stock.items() if not left]
## paging with a cursor
orders, cursor = [], None
while True:
    page = await shop.orders(cursor=cursor) if cursor else await shop.orders()
    orders += page["orders"]
    cursor = page.get("cursor")
    if cursor is None:
        break
__out = len(orders)
## paging with kwargs
kwargs = {"status": "open"}
seen = []
for _ in range(2):
    page = await shop.orders(**kwargs)
    seen.extend(o["id"] for o in page["orders"])
    if page.get("cursor"):
        kwargs["cursor"] = page["cursor"]
__out = seen
## status from a variable
for status in ["open", "paid"]:
    page = await shop.orders(status=status)
statuses = ("shipped", "cancelled")
__out = [(await shop.orders(status=s))["count"] for s in statuses]
## result that is not typed
sent = await shop.mail(to=["a@x"], body="hi", data={"a": [1, {"b": None}]})
__out = sent["sent"] if sent else 0
## mail built from results
page = await shop.orders()
names = [o["customer"]["name"] for o in page["orders"] if o.get("customer")]
total = sum(o["total"] for o in page["orders"])
await shop.mail(to=names, body=f"{len(names)} names, {total:.1f}", data={"orders": page["orders"]})
## dates of results
from datetime import datetime
order = await shop.order("o1")
when = datetime.fromisoformat(order["placed_at"])
__out = when.strftime("%Y-%m-%d")
## try around a key
order = await shop.order("o1")
try:
    __out = order["extra"]["colour"]
except KeyError:
    __out = None
## extra keys
order = await shop.order("o1")
__out = order.get("extra", {}).get("gift", False) and order["extra"]["gift"]
## unpack the values
order = await shop.order("o1")
first, *rest = order.get("lines", []) or [None]
__out = first["sku"] if first else None
## index by id
page = await shop.orders()
by_id = {o["id"]: o for o in page["orders"]}
__out = by_id.get("o1", {}).get("total", 0)
## nested function with defaults
async def summary(order_id: str, with_lines: bool = False) -> dict:
    order = await shop.order(id=order_id)
    result = {"id": order["id"], "total": order["total"]}
    if with_lines:
        result["lines"] = order.get("lines", [])
    return result
__out = await summary("o1", with_lines=True)
## any and all
page = await shop.orders()
__out = any(o["total"] > 5 for o in page["orders"]) and all("id" in o for o in page["orders"])
## keys by variable
order = await shop.order("o1")
fields = ["id", "status", "nothing"]
__out = {f: order.get(f) for f in fields} | {k: order[k] for k in ("id", "total")}
## setdefault and pop
order = await shop.order("o1")
order.setdefault("coupons", []).append("X")
order.pop("extra", None)
__out = sorted(order.keys())
## walrus
page = await shop.orders()
__out = [c["name"] for o in page["orders"] if (c := o.get("customer"))]
## result kept as the value
__out = await shop.orders()
## task kept and awaited later
first = shop.order("a")
second = shop.order("b")
__out = [(await first)["id"], (await second)["id"]]
## value assigned twice
__out = shop.order("a")
__out = await __out
## a key by update
order = await shop.order("o1")
order.update(margin=1)
__out = order["margin"]
## a key by a variable
order = await shop.order("o1")
key = "margin"
order[key] = 1
__out = order["margin"]
## a key that may be missing
order = await shop.order("o1")
try:
    __out = order["margin"]
except (KeyError, TypeError):
    __out = None
## an attribute or a key
order = await shop.order("o1")
total = order.total if hasattr(order, "total") else order["total"]
status = order["status"] if type(order) is dict else order.status
__out = [total, status]
## an attribute at first
order = await shop.order("o1")
try:
    __out = order.total
except AttributeError:
    __out = order["total"]
## unpacked arguments before others
values = ["o1"]
__out = await shop.refund(*values, 3)
## none first
result = None
for key in ["a", "b"]:
    found = await shop.order(key)
    if result is None or found["total"] > result["total"]:
        result = found
__out = result["id"]
"""
).split("\n## ")[1:]:
    _name, _, _code = _block.partition("\n")
    PURCHASES[_name] = _code
