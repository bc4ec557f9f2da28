"""Programs as models write them, which work and so must not be refused."""

from textwrap import dedent

PROGRAMS: dict[str, str] = {}
"""Programs for every engine."""
FULL: dict[str, str] = {}
"""Programs that need a full Python."""


def _add(table: dict[str, str], text: str) -> None:
    for block in dedent(text).split("\n## ")[1:]:
        name, _, code = block.partition("\n")
        table[name] = code


_add(
    PROGRAMS,
    '''
## one call
issue = await github.create_issue(title="Broken", body="It broke")
__out = issue["number"]
## positional arguments
__out = await add(1, 2)
## f-strings
issue = await github.create_issue("x")
__out = f"#{issue['number']}: {issue['title']!r:>10} by {issue['user']['login']}"
## paging
items = []
page = 1
while True:
    answer = await github.list_issues(repo="o/r", page=page)
    items.extend(answer["items"])
    if not answer.get("next_page"):
        break
    page = answer["next_page"]
__out = len(items)
## paging until None
page = 1
seen = 0
while page:
    answer = await github.list_issues("o/r", page=page)
    seen += len(answer["items"])
    page = answer["next_page"]
__out = seen
## gather
import asyncio
a, b = await asyncio.gather(add(1, 2), add(a=3, b=4))
__out = a + b
## gather a list
import asyncio
cities = ["Oslo", "Rome"]
results = await asyncio.gather(*[weather.forecast(city=c, days=2) for c in cities])
__out = {c: r["days"][0]["high"] for c, r in zip(cities, results)}
## gather a generator
import asyncio
__out = sum(await asyncio.gather(*(add(n, 1) for n in range(5))))
## tasks kept before they are awaited
import asyncio
tasks = []
for n in range(3):
    tasks.append(add(n, n))
__out = await asyncio.gather(*tasks)
## own coroutine function
async def title_of(number):
    issue = await github.create_issue(title=f"n{number}")
    return issue["title"]
__out = [await title_of(n) for n in range(2)]
## main function
async def main():
    found = await search_tools("issue")
    return [tool["id"] for tool in found]
__out = await main()
## search, then run
tools = await search_tools("create an issue", limit=3)
best = tools[0]
if best["confidence"] > 0.5:
    __out = await run_tool(best["id"], {"title": "x"})
## describe
info = await describe_tool("github:create_issue", "full")
__out = info["summary"]
## run_tool with no arguments
__out = await run_tool("files:list")
## a chain
outcome = await run_chain([{"tool_id": "add", "args": {"a": 1, "b": 2}}, {"tool_id": "add", "args": {"b": 1}, "use_previous": True}])
__out = [outcome["final"], outcome["results"][0]["structured"]]
## errors are caught
try:
    text = await github.get_file(path="missing")
except LookupError as error:
    text = str(error)
__out = text
## errors of several kinds
try:
    text = await github.get_file("missing")
except (PermissionError, TimeoutError, ConnectionError) as error:
    text = "other"
except Exception as error:
    text = f"{type(error).__name__}: {error}"
__out = text
## retry
last = None
for attempt in range(3):
    try:
        last = await github.get_file("README.md")
        break
    except (TimeoutError, RuntimeError) as e:
        last = None
__out = last
## JSON from a tool without a schema
import json
data = json.loads(await github.get_file(path="package.json"))
__out = data["name"], data.get("version", 0)
## unknown results are used freely
data = await github.get_file("x")
__out = data.upper() if isinstance(data, str) else data["content"]["text"]
## optional keys with get
answer = await github.list_issues("o/r")
__out = [i.get("body") or "none" for i in answer["items"]]
## keys that are not declared, with get
issue = await github.create_issue("x")
__out = issue.get("html_url", "?")
## a key is asked for first
issue = await github.create_issue("x")
if "html_url" in issue:
    print(issue["html_url"])
__out = "html_url" not in issue
## a result is added to
issue = await github.create_issue("x")
issue["score"] = 10
issue["score"] += 1
__out = issue["score"]
## results are added to in a loop
answer = await github.list_issues("o/r")
for item in answer["items"]:
    item["age"] = item["number"] * 2
__out = sum(item["age"] for item in answer["items"])
## a result is copied and added to
issue = await github.create_issue("x")
row = {**issue, "extra": 1}
other = dict(issue)
other["more"] = 2
__out = row["extra"] + other["more"]
## keys in a loop
issue = await github.create_issue("x")
wanted = ["number", "title"]
__out = {key: issue[key] for key in wanted}
## all keys
issue = await github.create_issue("x")
__out = {k: str(v) for k, v in issue.items() if k != "labels"}
## None may have been ruled out elsewhere
answer = await github.list_issues("o/r")
names = []
for item in answer["items"]:
    who = item["assignee"]
    names.append(who["login"])
__out = names
## None is handled
answer = await github.list_issues("o/r")
__out = [i["assignee"]["login"] if i.get("assignee") else "nobody" for i in answer["items"]]
## or else
issue = await github.create_issue("x")
__out = (issue.get("assignee") or {}).get("login", "nobody")
## alternatives of a result
outcome = await github.close(number=1)
if "error" in outcome:
    __out = outcome["error"]
else:
    __out = outcome["closed"]
## alternatives without a question
outcome = await github.close(1)
__out = outcome["closed"]
## open objects
stats = await files.stats()
__out = stats["size"] + stats["count"]
## arguments in a dict
args = {"title": "x", "priority": 2}
issue = await github.create_issue(**args)
__out = issue["number"]
## mixed arguments in a dict
params = {"repo": "o/r", "page": 1}
params["state"] = "all"
__out = len((await github.list_issues(**params))["items"])
## an object in a variable
meta = {"owner": "ann"}
meta["tags"] = ["a"]
__out = (await github.create_issue("x", meta=meta))["number"]
## an object written out
__out = (await github.create_issue("x", meta={"owner": "ann", "tags": []}))["number"]
## a list in a variable
labels = []
for word in "bug ui".split():
    labels.append(word)
__out = (await github.create_issue("x", labels=labels))["number"]
## an integer where a number is wanted
days = 2
__out = len((await weather.forecast("Oslo", days=days))["days"])
## a division where a number is wanted
__out = len((await weather.forecast("Oslo", days=4 / 2, units="C"))["days"])
## a choice that is computed
state = "open" if 1 > 0 else "all"
__out = len((await github.list_issues("o/r", state=state))["items"])
## a choice from a list
counts = {}
for state in ["open", "closed", "all"]:
    answer = await github.list_issues(repo="o/r", state=state)
    counts[state] = len(answer["items"])
__out = counts
## a choice that comes from elsewhere
config = {"state": "all"}
__out = (await github.list_issues("o/r", state=config["state"]))["items"][0]["number"]
## anything as a value
__out = [await store.put(key="k", value=v) for v in (1, "x", None, [1], {"a": 1})]
## a name that is no identifier
__out = await store.put("k", 1, **{"X-Trace": "abc"})
## a tool called like a builtin
names = await files.list()
__out = sorted(n for n in names if n.endswith(".txt"))
## list still means list
__out = list(await files.list(folder="."))
## a module called like a namespace
import time
started = time.time()
__out = time.time() - started < 60
## a namespace called like a module
__out = await time.now()
## a variable called like a tool
result = await github.create_issue("x")
__out = result["number"]
## a loop variable called like a tool
total = 0
for result in (await github.list_issues("o/r"))["items"]:
    total += result["number"]
__out = total
## a function called like a tool
def add(a, b, c):
    return a + b + c
__out = add(1, 2, 3)
## a comprehension over results
answer = await github.list_issues(repo="o/r")
by_state = {}
for item in answer["items"]:
    by_state.setdefault(item["state"], []).append(item["title"])
__out = by_state
## counting
from collections import Counter, defaultdict
answer = await github.list_issues(repo="o/r")
counts = Counter(label["name"] for item in answer["items"] for label in item["labels"])
groups = defaultdict(list)
for item in answer["items"]:
    groups[item["user"]["login"]].append(item["number"])
__out = [counts.most_common(1)[0][0], dict(groups)]
## sorting
answer = await github.list_issues(repo="o/r")
newest = sorted(answer["items"], key=lambda i: (i["state"], -i["number"]), reverse=True)
__out = newest[0]["title"]
## max with a default
answer = await github.list_issues(repo="o/r")
best = max(answer["items"], key=lambda i: i.get("reactions", {}).get("+1", 0), default=None)
__out = best["number"] if best else None
## dates
from datetime import datetime, timedelta, timezone
issue = await github.create_issue("x")
when = datetime.fromisoformat(issue["created_at"])
__out = (when + timedelta(days=1)).strftime("%Y-%m-%d")
## a date passed as text
from datetime import datetime
__out = (await github.create_issue(title=datetime(2026, 1, 2).isoformat()))["title"]
## regular expressions
import re
text = await github.get_file(path="x")
match = re.search(r'"name": "(\\w+)"', text)
__out = match.group(1) if match else None
## a match that is not checked
import re
__out = re.match(r"(\\d+)", "12 items").group(1)
## None as a first value
best = None
for n in [3, 1, 2]:
    if best is None or n > best:
        best = n
__out = best + 1
## an annotation that is too narrow
x: int = None
x = 5
__out = x
## a default that is None
def shout(text: str = None) -> str:
    return (text or "nothing").upper()
__out = shout()
## functions with annotations
from typing import Any, Dict, List, Optional
def titles(items: List[Dict[str, Any]], limit: Optional[int] = None) -> List[str]:
    return [i["title"] for i in items][:limit]
answer = await github.list_issues("o/r")
__out = titles(answer["items"], limit=1)
## annotated results
issue: dict = await github.create_issue("x")
__out = issue["anything"] if "anything" in issue else issue["number"]
## results passed to own functions
def describe(issue: dict) -> str:
    return f"{issue['number']} {issue['title']}"
__out = describe(await github.create_issue("x"))
## a dataclass
from dataclasses import dataclass, field
@dataclass
class Row:
    number: int
    title: str = ""
    tags: list = field(default_factory=list)
rows = [Row(i["number"], i["title"]) for i in (await github.list_issues("o/r"))["items"]]
__out = [r.number for r in rows]
## a lambda and higher functions
double = lambda v: v * 2
__out = list(map(double, filter(lambda n: n % 2, [1, 2, 3])))
## getattr and hasattr
__out = [hasattr("x", "upper"), getattr("x", "nope", None), isinstance(3, (int, float))]
## reading attributes of a namespace
call = github.create_issue
__out = (await call(title="x"))["number"]
## a namespace under another name
gh = github
__out = (await gh.get_file(path="x"))[:1]
## printing
answer = await github.list_issues(repo="o/r")
print("found", len(answer["items"]), sep=": ", end="\\n")
for i, item in enumerate(answer["items"], start=1):
    print(f"{i}. {item['title']}")
__out = None
## a global counter
count = 0
def bump():
    global count
    count += 1
bump()
__out = count
## nested functions
def outer():
    total = 0
    def inner(n):
        nonlocal total
        total += n
        return total
    inner(1)
    return inner(2)
__out = outer()
## a match statement
issue = await github.create_issue("x")
state = issue["state"]
if state == "open":
    __out = "still open"
else:
    __out = "done"
## the walrus
if (n := len(await files.list())) > 2:
    __out = n
## only a docstring and comments
"""Count the files."""
# first list them
__out = len(await files.list())  # then count
## a name guard
if __name__ == "__main__":
    __out = await add(1, 1)
## assertions
answer = await github.list_issues("o/r")
assert answer["items"], "none there"
assert isinstance(answer["items"], list)
__out = True
## a result kept among others
cache: dict = {}
async def cached(city):
    if city not in cache:
        cache[city] = await weather.forecast(city)
    return cache[city]
__out = (await cached("Oslo"))["days"][-1]["low"]
## averages
days = (await weather.forecast(city="Oslo", days=3))["days"]
__out = round(sum(d["high"] for d in days) / len(days), 2)
## unpacked results
first, *rest = (await github.list_issues("o/r"))["items"]
__out = [first["number"], len(rest)]
## text in many lines
body = """
Steps:
  1. open
""".strip()
__out = (await github.create_issue(title="x", body=body + "\\n" + "-" * 3))["title"]
## a conditional call
dry = True
issue = None if dry else await github.create_issue("x")
__out = issue["number"] if issue else "dry run"
## results in an exception group of gather
import asyncio
results = await asyncio.gather(add(1, 2), add(3, 4))
good = [r for r in results if not isinstance(r, Exception)]
__out = sum(good)
''',
)

_add(
    FULL,
    """
## enum
from enum import Enum
class State(Enum):
    OPEN = "open"
    CLOSED = "closed"
answer = await github.list_issues("o/r", state=State.OPEN.value)
__out = [State(i["state"]).name for i in answer["items"]] + [s.value for s in State]
## statistics
import statistics
days = (await weather.forecast("Oslo"))["days"]
__out = statistics.mean(d["high"] for d in days)
## gather with exceptions
import asyncio
results = await asyncio.gather(*(github.create_issue(t) for t in "ab"), return_exceptions=True)
numbers = []
for r in results:
    if isinstance(r, Exception):
        continue
    numbers.append(r["number"])
__out = numbers
## create_task
import asyncio
task = asyncio.create_task(github.create_issue("x"))
__out = (await task)["number"]
## wait_for
import asyncio
try:
    issue = await asyncio.wait_for(github.create_issue("x"), timeout=5)
    __out = issue["number"]
except asyncio.TimeoutError:
    __out = None
## semaphore
import asyncio
gate = asyncio.Semaphore(2)
async def one(n):
    async with gate:
        return await add(n, n)
__out = await asyncio.gather(*(one(n) for n in range(4)))
## as_completed
import asyncio
got = []
for future in asyncio.as_completed([add(1, 2), add(3, 4)]):
    got.append(await future)
__out = sorted(got)
## task group
import asyncio
async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(add(n, 1)) for n in range(3)]
__out = [t.result() for t in tasks]
## generators
def evens(values):
    for v in values:
        if v % 2 == 0:
            yield v
__out = list(evens(range(5)))
## asynchronous generators
async def pages(repo):
    page = 1
    while page:
        answer = await github.list_issues(repo=repo, page=page)
        yield answer["items"]
        page = answer["next_page"]
__out = [len(items) async for items in pages("o/r")]
## classes
class Base:
    kind = "base"
    def __init__(self, name):
        self.name = name
    @property
    def label(self):
        return f"{self.kind}:{self.name}"
    @classmethod
    def make(cls, name):
        return cls(name)
    @staticmethod
    def upper(text):
        return text.upper()
class Child(Base):
    kind = "child"
    def __init__(self, name):
        super().__init__(name)
        self.extra = None
__out = [Child.make("x").label, Child.upper("y"), callable(Base)]
## own exceptions
class NotFound(Exception):
    def __init__(self, name):
        super().__init__(f"{name} not found")
        self.name = name
try:
    raise NotFound("x")
except NotFound as error:
    __out = [str(error), error.name]
## named tuples
from collections import namedtuple
from typing import NamedTuple
Point = namedtuple("Point", "x y")
class Place(NamedTuple):
    lat: float
    lon: float = 0.0
p = Point(1, 2)
__out = [p.x + p.y, Place(1.5).lon, p._asdict()]
## typed dicts
from typing import TypedDict
class Row(TypedDict):
    number: int
row: Row = {"number": 1}
__out = row["number"]
## standard library
import io, csv, uuid, string, textwrap, operator, heapq, contextlib, urllib.parse
out = io.StringIO()
writer = csv.writer(out)
writer.writerow(["a", 1])
with contextlib.suppress(KeyError):
    {}["x"]
__out = [out.getvalue().strip(), heapq.nlargest(1, [1, 2]), urllib.parse.quote("a b"), len(str(uuid.uuid4())), sorted([{"n": 1}], key=operator.itemgetter("n"))]
## a context manager
from contextlib import contextmanager
@contextmanager
def step(name):
    yield name.upper()
with step("x") as s:
    __out = s + "!"
## a wrapper
import functools
def logged(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        return await function(*args, **kwargs)
    return wrapper
@logged
async def twice(n):
    return await add(n, n)
__out = await twice(2, )
## a cached function
from functools import lru_cache
@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
__out = fib(20)
## a substitution with a function
import re
__out = re.sub(r"\\d+", lambda m: str(int(m.group()) + 1), "a1 b2")
## future annotations
from __future__ import annotations
def later(x: Unknown) -> Other:
    return x
__out = later(1)
## a module that may be missing
try:
    import numpy_not_there as np
except ImportError:
    np = None
__out = np is None
## sets and bytes
data = bytearray(b"abc")
data.extend(b"d")
__out = [len(data), sorted({1, 2} | {3}), bytes(data).hex(), memoryview(b"x")[0]]
## the environment
import os, sys, platform
__out = [isinstance(os.environ.get("HOME", ""), str), sys.version_info >= (3, 8), bool(platform.system())]
## deleting
issue = await github.create_issue("x")
del issue["labels"]
issue.pop("user")
issue.update({"extra": 1})
__out = issue["extra"]
## a match statement
match await add(1, 2):
    case 3:
        __out = "three"
    case _:
        __out = "other"
## globals
globals()["made"] = 1
__out = vars().get("made"), dir()[:0]
""",
)
