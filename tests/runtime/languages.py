"""Small programs as models write them in code mode, with their results and the backends that run them.

The tools that they call are those of `contracts.sandbox.shelf`.
"""

from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Literal

Verdict = Literal["runs", "unsupported", "crashes"]
"""`unsupported`: the error names a missing feature of the language; `crashes`: the stack is too small."""


@dataclass(frozen=True)
class Program:
    """Code, its value, and its outcome on Monty and in WebAssembly; everywhere else it must run."""

    name: str
    code: str
    value: Any
    monty: Verdict = "runs"

    def verdict(self, kind: str) -> Verdict:
        """Return its outcome on a backend."""
        return self.monty if kind == "monty" else WASM.get(self.name, "runs") if kind == "wasm" else "runs"


WASM: dict[str, Verdict] = {"functools.lru_cache": "crashes"}


MONTY: dict[str, Verdict] = {
    "generator function": "unsupported",
    "yield from": "unsupported",
    "decorator with functools.wraps": "unsupported",
    "del": "unsupported",
    "class with inheritance and super": "unsupported",
    "property, classmethod and staticmethod": "unsupported",
    "dataclass with a method and asdict": "unsupported",
    "enum": "unsupported",
    "NamedTuple": "unsupported",
    "TypedDict and type hints": "unsupported",
    "abstract base class": "unsupported",
    "custom exception": "unsupported",
    "raise from and re-raise": "unsupported",
    "contextlib.contextmanager": "unsupported",
    "contextlib.suppress": "unsupported",
    "re.sub with a function": "unsupported",
    "csv reading": "unsupported",
    "statistics": "unsupported",
    "fractions": "unsupported",
    "uuid": "unsupported",
    "heapq and bisect": "unsupported",
    "textwrap and string constants": "unsupported",
    "urllib.parse": "unsupported",
    "pathlib without files": "unsupported",
    "operator.itemgetter": "unsupported",
    "io.StringIO": "unsupported",
    "gather with return_exceptions": "unsupported",
    "create_task": "unsupported",
    "semaphore": "unsupported",
    "wait_for": "unsupported",
    "tool calls in an async generator": "unsupported",
    "special methods": "unsupported",
    "comparing custom objects": "unsupported",
    "truth value of custom objects": "unsupported",
}
"""Programs that Monty does not run; it runs all others."""


def _program(name: str, code: str, value: Any) -> Program:
    return Program(name, dedent(code).strip() + "\n", value, MONTY.get(name, "runs"))


PLAIN = (
    _program(
        "arithmetic",
        "__out = [7 // 2, -7 // 2, 7 % 3, 2 ** 10, 7 / 2, divmod(17, 5)]",
        [3, -4, 1, 1024, 3.5, [3, 2]],
    ),
    _program(
        "comprehensions", "__out = [[x * y for x in range(3)] for y in range(3) if y]", [[0, 1, 2], [0, 2, 4]]
    ),
    _program(
        "dict and set comprehensions",
        """
        words = ["apple", "fig", "plum", "fig"]
        __out = [{w: len(w) for w in words}, sorted({len(w) for w in words})]
        """,
        [{"apple": 5, "fig": 3, "plum": 4}, [3, 4, 5]],
    ),
    _program(
        "comparing custom objects",
        """
        class Version:
            def __init__(self, text):
                self.parts = [int(part) for part in text.split(".")]
            def __lt__(self, other):
                return self.parts < other.parts
        __out = [v.parts[1] for v in sorted([Version("1.10"), Version("1.9"), Version("1.2")])]
        """,
        [2, 9, 10],
    ),
    _program(
        "truth value of custom objects",
        """
        class Basket:
            def __init__(self, items):
                self.items = items
            def __bool__(self):
                return bool(self.items)
        __out = ["full" if basket else "empty" for basket in (Basket([1]), Basket([]))]
        """,
        ["full", "empty"],
    ),
    _program("generator expression", "__out = sum(x * x for x in range(10) if x % 2)", 165),
    _program(
        "generator function",
        """
        def countdown(n):
            while n:
                yield n
                n -= 1
        __out = list(countdown(3))
        """,
        [3, 2, 1],
    ),
    _program(
        "yield from",
        """
        def flat(value):
            if isinstance(value, list):
                for member in value:
                    yield from flat(member)
            else:
                yield value
        __out = list(flat([1, [2, [3]], 4]))
        """,
        [1, 2, 3, 4],
    ),
    _program(
        "slices", "__out = ['abcdef'[::-1], [1, 2, 3, 4][1:-1], 'abcdef'[::2]]", ["fedcba", [2, 3], "ace"]
    ),
    _program(
        "star unpacking",
        "first, *rest = [1, 2, 3]\n__out = [first, rest, [*rest, first], {**{'a': 1}, 'b': 2}]",
        [1, [2, 3], [2, 3, 1], {"a": 1, "b": 2}],
    ),
    _program("walrus", "__out = [y for x in range(5) if (y := x * 2) > 4]", [6, 8]),
    _program(
        "conditional expression",
        "__out = ['even' if n % 2 == 0 else 'odd' for n in range(3)]",
        ["even", "odd", "even"],
    ),
    _program("chained comparison", "__out = [1 < 2 < 3, 1 < 3 < 2, not (1 == 2)]", [True, False, True]),
    _program(
        "while, else, break and continue",
        """
        seen = []
        n = 0
        while n < 10:
            n += 1
            if n % 2:
                continue
            if n > 6:
                break
            seen.append(n)
        for x in seen:
            if x == 5:
                break
        else:
            seen.append("none is 5")
        __out = seen
        """,
        [2, 4, 6, "none is 5"],
    ),
    _program(
        "enumerate and zip",
        "__out = [[i, a, b] for i, (a, b) in enumerate(zip('ab', [3, 4]), start=1)]",
        [[1, "a", 3], [2, "b", 4]],
    ),
    _program(
        "sorting with keys",
        "__out = sorted([{'n': 'b', 'v': 1}, {'n': 'a', 'v': 1}, {'n': 'c', 'v': 3}], key=lambda r: (-r['v'], r['n']))",
        [{"n": "c", "v": 3}, {"n": "a", "v": 1}, {"n": "b", "v": 1}],
    ),
    _program(
        "min, max, any and all",
        "__out = [max([3, 1], key=lambda v: -v), min('b', 'a'), any([0, 1]), all([])]",
        [1, "a", True, True],
    ),
    _program("map, filter and lambda", "__out = list(map(lambda v: v + 1, filter(None, [0, 1, 2])))", [2, 3]),
    _program(
        "closures and nonlocal",
        """
        def counter():
            total = 0
            def add(n):
                nonlocal total
                total += n
                return total
            return add
        add = counter()
        add(2)
        __out = add(3)
        """,
        5,
    ),
    _program(
        "recursion", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n__out = fib(15)", 610
    ),
    _program(
        "keyword-only and variadic arguments",
        """
        def call(first, /, *rest, sign="+", **more):
            return [first, list(rest), sign, more]
        __out = call(1, 2, 3, sign="-", a=4)
        """,
        [1, [2, 3], "-", {"a": 4}],
    ),
    _program(
        "decorator",
        """
        def twice(function):
            def wrapper(*args, **kwargs):
                return [function(*args, **kwargs), function(*args, **kwargs)]
            return wrapper

        @twice
        def hello(name):
            return f"hello {name}"

        __out = hello("ann")
        """,
        ["hello ann", "hello ann"],
    ),
    _program(
        "decorator with functools.wraps",
        """
        import functools
        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                return [function.__name__, function(*args)]
            return wrapper
        @logged
        def double(n):
            return n * 2
        __out = double(4)
        """,
        ["double", 8],
    ),
    _program(
        "functools.reduce and partial",
        "import functools\nadd = functools.partial(lambda a, b: a + b, 10)\n__out = [add(5), functools.reduce(lambda a, b: a * b, [1, 2, 3, 4])]",
        [15, 24],
    ),
    _program(
        "functools.lru_cache",
        """
        from functools import lru_cache
        @lru_cache(maxsize=None)
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        __out = fib(60)
        """,
        1548008755920,
    ),
    _program(
        "del", "d = {'a': 1, 'b': 2}\ndel d['a']\nx = [1, 2, 3]\ndel x[0]\n__out = [d, x]", [{"b": 2}, [2, 3]]
    ),
    _program(
        "global", "count = 0\ndef bump():\n    global count\n    count += 1\nbump()\nbump()\n__out = count", 2
    ),
    _program(
        "assert",
        "try:\n    assert 1 == 2, 'no'\nexcept AssertionError as error:\n    __out = str(error)",
        "no",
    ),
    _program(
        "match on literals and captures",
        """
        def say(command):
            match command.split():
                case ["go", direction]:
                    return f"going {direction}"
                case ["stop"]:
                    return "stopping"
                case _:
                    return "what?"
        __out = [say("go north"), say("stop"), say("fly")]
        """,
        ["going north", "stopping", "what?"],
    ),
    _program(
        "match on mappings with a guard",
        """
        def kind(record):
            match record:
                case {"type": "order", "total": total} if total > 100:
                    return "large"
                case {"type": "order"}:
                    return "small"
                case _:
                    return "other"
        __out = [kind({"type": "order", "total": 200}), kind({"type": "order"}), kind(1)]
        """,
        ["large", "small", "other"],
    ),
)

OBJECTS = (
    _program(
        "class",
        """
        class Basket:
            def __init__(self):
                self.items = []
            def add(self, name, price):
                self.items.append((name, price))
                return self
            def total(self):
                return sum(price for _, price in self.items)
        __out = Basket().add("fig", 2).add("plum", 3).total()
        """,
        5,
    ),
    _program(
        "class with inheritance and super",
        """
        class Shape:
            def __init__(self, name):
                self.name = name
            def area(self):
                return 0
            def describe(self):
                return f"{self.name}: {self.area()}"
        class Square(Shape):
            def __init__(self, side):
                super().__init__("square")
                self.side = side
            def area(self):
                return self.side ** 2
        __out = Square(3).describe()
        """,
        "square: 9",
    ),
    _program(
        "property, classmethod and staticmethod",
        """
        class Money:
            def __init__(self, cents):
                self.cents = cents
            @property
            def euros(self):
                return self.cents / 100
            @classmethod
            def parse(cls, text):
                return cls(int(float(text) * 100))
            @staticmethod
            def symbol():
                return "EUR"
        __out = [Money.parse("2.50").euros, Money.symbol()]
        """,
        [2.5, "EUR"],
    ),
    _program(
        "special methods",
        """
        class Bag:
            def __init__(self, *items):
                self.items = list(items)
            def __len__(self):
                return len(self.items)
            def __getitem__(self, place):
                return self.items[place]
            def __contains__(self, item):
                return item in self.items
            def __add__(self, other):
                return Bag(*self.items, *other.items)
            def __repr__(self):
                return f"Bag{tuple(self.items)}"
        both = Bag(1) + Bag(2, 3)
        __out = [len(both), both[1], 3 in both, repr(both)]
        """,
        [3, 2, True, "Bag(1, 2, 3)"],
    ),
    _program(
        "dataclass",
        """
        from dataclasses import dataclass, field
        @dataclass
        class Order:
            id: int
            total: float = 0.0
            tags: list = field(default_factory=list)
        order = Order(1, total=9.5)
        order.tags.append("rush")
        __out = order
        """,
        {"id": 1, "total": 9.5, "tags": ["rush"]},
    ),
    _program(
        "dataclass with a method and asdict",
        """
        from dataclasses import asdict, dataclass
        @dataclass(frozen=True)
        class Point:
            x: int
            y: int
            def norm(self):
                return self.x ** 2 + self.y ** 2
        p = Point(3, 4)
        __out = [p.norm(), asdict(p), p == Point(3, 4)]
        """,
        [25, {"x": 3, "y": 4}, True],
    ),
    _program(
        "enum",
        """
        from enum import Enum
        class Status(Enum):
            OPEN = "open"
            DONE = "done"
        __out = [Status("open").name, [s.value for s in Status]]
        """,
        ["OPEN", ["open", "done"]],
    ),
    _program(
        "NamedTuple",
        """
        from typing import NamedTuple
        class Pair(NamedTuple):
            left: int
            right: int
        __out = [Pair(1, 2).right, Pair(1, 2)]
        """,
        [2, [1, 2]],
    ),
    _program(
        "collections.namedtuple",
        "from collections import namedtuple\nPoint = namedtuple('Point', 'x y')\n__out = Point(1, 2).y",
        2,
    ),
    _program(
        "TypedDict and type hints",
        """
        from typing import Any, Optional, TypedDict
        class User(TypedDict):
            name: str
            age: Optional[int]
        def greet(user: User) -> str:
            return f"{user['name']} {user['age'] or '?'}"
        users: list[User] = [{"name": "ann", "age": 3}, {"name": "bob", "age": None}]
        total: dict[str, Any] = {}
        __out = [greet(u) for u in users]
        """,
        ["ann 3", "bob ?"],
    ),
    _program(
        "abstract base class",
        """
        from abc import ABC, abstractmethod
        class Base(ABC):
            @abstractmethod
            def name(self): ...
        class Real(Base):
            def name(self):
                return "real"
        __out = Real().name()
        """,
        "real",
    ),
    _program(
        "iterator class",
        """
        class Up:
            def __init__(self, n):
                self.n, self.at = n, 0
            def __iter__(self):
                return self
            def __next__(self):
                if self.at >= self.n:
                    raise StopIteration
                self.at += 1
                return self.at
        __out = list(Up(3))
        """,
        [1, 2, 3],
    ),
)

FAILURES = (
    _program(
        "try, except, else and finally",
        """
        log = []
        for value in ["1", "x"]:
            try:
                number = int(value)
            except ValueError as error:
                log.append(type(error).__name__)
            else:
                log.append(number)
            finally:
                log.append("done")
        __out = log
        """,
        [1, "done", "ValueError", "done"],
    ),
    _program(
        "custom exception",
        """
        class TooMuch(Exception):
            def __init__(self, amount):
                super().__init__(f"too much: {amount}")
                self.amount = amount
        try:
            raise TooMuch(5)
        except TooMuch as error:
            __out = [str(error), error.amount]
        """,
        ["too much: 5", 5],
    ),
    _program(
        "raise from and re-raise",
        """
        def read(record):
            try:
                return record["missing"]
            except KeyError as error:
                raise ValueError("bad record") from error
        try:
            read({})
        except (TypeError, ValueError) as error:
            __out = [str(error), type(error.__cause__).__name__]
        """,
        ["bad record", "KeyError"],
    ),
    _program(
        "context manager class",
        """
        log = []
        class Step:
            def __init__(self, name):
                self.name = name
            def __enter__(self):
                log.append(f"+{self.name}")
                return self
            def __exit__(self, kind, error, trace):
                log.append(f"-{self.name}")
                return kind is ValueError
        with Step("a") as outer, Step("b"):
            log.append(outer.name)
            raise ValueError
        __out = log
        """,
        ["+a", "+b", "a", "-b", "-a"],
    ),
    _program(
        "contextlib.contextmanager",
        """
        from contextlib import contextmanager
        log = []
        @contextmanager
        def step():
            log.append("in")
            yield
            log.append("out")
        with step():
            log.append("work")
        __out = log
        """,
        ["in", "work", "out"],
    ),
    _program(
        "contextlib.suppress",
        "from contextlib import suppress\n__out = 'kept'\nwith suppress(KeyError):\n    {}['x']\n    __out = 'lost'",
        "kept",
    ),
)

LIBRARY = (
    _program(
        "f-strings",
        "n, r = 1234.5, 0.256\n__out = [f'{n:,.2f}', f'{r:.1%}', f'{7:>4}|{7:<4}|{7:^5}', f'{255:#x} {5:03d}', f'{n!r}']",
        ["1,234.50", "25.6%", "   7|7   |  7  ", "0xff 005", "1234.5"],
    ),
    _program(
        "f-string with self-documenting expression and nesting",
        "width, name = 6, 'ab'\n__out = [f'{width=}', f'{name:>{width}}']",
        ["width=6", "    ab"],
    ),
    _program(
        "percent and str.format",
        "__out = ['%s is %d' % ('a', 3), '{0}-{1}-{0}'.format('a', 'b'), '{n:.2f}'.format(n=1.005)]",
        ["a is 3", "a-b-a", "1.00"],
    ),
    _program(
        "string methods",
        "__out = [' a,b ,c '.strip().split(','), 'x'.join('abc'), 'Hello'.swapcase(), 'a-b'.replace('-', '_'), 'abc'.startswith(('a', 'b')), 'tEXT'.title(), 'k=v=w'.partition('=')]",
        [["a", "b ", "c"], "axbxc", "hELLO", "a_b", True, "Text", ["k", "=", "v=w"]],
    ),
    _program(
        "itertools",
        "from itertools import chain, groupby, islice, count, product\nrows = sorted(['ab', 'ac', 'bd'])\n__out = [list(chain([1], [2])), [[k, list(g)] for k, g in groupby(rows, key=lambda r: r[0])], list(islice(count(5), 2)), list(product('a', [1, 2]))]",
        [[1, 2], [["a", ["ab", "ac"]], ["b", ["bd"]]], [5, 6], [["a", 1], ["a", 2]]],
    ),
    _program(
        "defaultdict",
        "from collections import defaultdict\ngroups = defaultdict(list)\nfor name in ['ann', 'bob', 'abe']:\n    groups[name[0]].append(name)\n__out = dict(groups)",
        {"a": ["ann", "abe"], "b": ["bob"]},
    ),
    _program(
        "Counter",
        "from collections import Counter\n__out = Counter('mississippi').most_common(2)",
        [["i", 4], ["s", 4]],
    ),
    _program(
        "deque",
        "from collections import deque\nqueue = deque([1, 2], maxlen=3)\nqueue.append(3)\nqueue.appendleft(0)\n__out = [list(queue), queue.popleft()]",
        [[0, 1, 2], 0],
    ),
    _program(
        "regular expressions",
        "import re\ntext = 'ann@example.org, bob@test.com'\n__out = [re.findall(r'(\\w+)@(\\w+)', text), re.sub(r'@\\w+', '@x', text), bool(re.match('ann', text)), re.split(r',\\s*', text)[1]]",
        [[["ann", "example"], ["bob", "test"]], "ann@x.org, bob@x.com", True, "bob@test.com"],
    ),
    _program(
        "named groups",
        "import re\nfound = re.search(r'(?P<year>\\d{4})-(?P<month>\\d\\d)', 'on 2024-05-01')\n__out = [found.group('year'), found['month'], found.groupdict(), found.span()]",
        ["2024", "05", {"year": "2024", "month": "05"}, [3, 10]],
    ),
    _program(
        "re.sub with a function",
        "import re\n__out = re.sub(r'\\d+', lambda m: str(int(m.group()) * 2), 'a1 b22')",
        "a2 b44",
    ),
    _program(
        "json",
        "import json\n__out = [json.loads('{\"a\": [1, null, true]}'), json.dumps({'b': 1, 'a': [1.5, None]}, sort_keys=True)]",
        [{"a": [1, None, True]}, '{"a": [1.5, null], "b": 1}'],
    ),
    _program(
        "json indented", "import json\n__out = json.dumps({'a': [1]}, indent=2)", '{\n  "a": [\n    1\n  ]\n}'
    ),
    _program(
        "csv reading",
        "import csv, io\nrows = list(csv.DictReader(io.StringIO('name,n\\nann,1\\nbob,2\\n')))\n__out = sum(int(r['n']) for r in rows)",
        3,
    ),
    _program(
        "csv from lines",
        "import csv\n__out = [row for row in csv.reader(['a,\"b,c\"', 'd,e'])]",
        [["a", "b,c"], ["d", "e"]],
    ),
    _program(
        "datetime arithmetic",
        "from datetime import datetime, timedelta\nstart = datetime(2024, 2, 28)\n__out = [(start + timedelta(days=2)).isoformat(), (datetime(2024, 3, 1) - start).days, start.strftime('%Y/%m/%d'), start.weekday()]",
        ["2024-03-01T00:00:00", 2, "2024/02/28", 2],
    ),
    _program(
        "parsing dates",
        "from datetime import datetime, timezone\nat = datetime.fromisoformat('2024-05-01T12:00:00+00:00')\n__out = [at.timestamp(), datetime.strptime('01.05.2024', '%d.%m.%Y').month, at.tzinfo == timezone.utc]",
        [1714564800.0, 5, True],
    ),
    _program(
        "dates as results",
        "from datetime import date, datetime, timedelta\n__out = {'day': date(2024, 5, 1), 'at': datetime(2024, 5, 1, 12)}",
        {"day": "2024-05-01", "at": "2024-05-01T12:00:00"},
    ),
    _program(
        "statistics",
        "import statistics\n__out = [statistics.mean([1, 2, 3, 4]), statistics.median([3, 1, 2]), round(statistics.stdev([1, 2, 3]), 3)]",
        [2.5, 2, 1.0],
    ),
    _program(
        "math",
        "import math\n__out = [math.sqrt(16), math.ceil(1.2), math.floor(-1.2), round(math.pi, 4), math.gcd(12, 18), math.isclose(0.1 + 0.2, 0.3)]",
        [4.0, 2, -2, 3.1416, 6, True],
    ),
    _program(
        "decimal",
        "from decimal import Decimal\n__out = [Decimal('0.1') + Decimal('0.2'), str(Decimal('10').quantize(Decimal('0.01')))]",
        ["0.3", "10.00"],
    ),
    _program(
        "fractions", "from fractions import Fraction\n__out = str(Fraction(1, 3) + Fraction(1, 6))", "1/2"
    ),
    _program(
        "random with a seed",
        "import random\nrandom.seed(1)\n__out = [0 <= random.random() < 1, random.choice(['only']), len(random.sample(range(9), 3))]",
        [True, "only", 3],
    ),
    _program(
        "bytes and base64",
        "import base64\n__out = [base64.b64encode('héllo'.encode()).decode(), base64.b64decode('aGk=').decode(), list(b'ab'), 'é'.encode('utf-8').hex()]",
        ["aMOpbGxv", "hi", [97, 98], "c3a9"],
    ),
    _program(
        "hashlib",
        "import hashlib\n__out = [hashlib.sha256(b'a').hexdigest()[:8], hashlib.md5(b'a').hexdigest()[:8]]",
        ["ca978112", "0cc175b9"],
    ),
    _program(
        "uuid",
        "import uuid\n__out = [str(uuid.uuid5(uuid.NAMESPACE_DNS, 'example.org')), len(str(uuid.uuid4()))]",
        ["aad03681-8b63-5304-89e0-8ca8f49461b5", 36],
    ),
    _program(
        "heapq and bisect",
        "import bisect, heapq\nsteps = [1, 3, 5]\nbisect.insort(steps, 4)\n__out = [heapq.nlargest(2, [3, 9, 1]), steps]",
        [[9, 3], [1, 3, 4, 5]],
    ),
    _program(
        "bisect",
        "import bisect\n__out = [bisect.bisect_left([10, 20, 30], 20), bisect.bisect([10, 20, 30], 20)]",
        [1, 2],
    ),
    _program(
        "textwrap and string constants",
        "import string, textwrap\n__out = [textwrap.shorten('one two three', 9), string.ascii_lowercase[:3]]",
        ["one [...]", "abc"],
    ),
    _program(
        "urllib.parse",
        "from urllib.parse import parse_qs, quote, urlparse\nurl = urlparse('https://example.org/a?b=1&b=2')\n__out = [url.netloc, parse_qs(url.query), quote('a b')]",
        ["example.org", {"b": ["1", "2"]}, "a%20b"],
    ),
    _program(
        "copy and deepcopy",
        "import copy\na = {'x': [1]}\nb = copy.deepcopy(a)\nb['x'].append(2)\n__out = [a, b]",
        [{"x": [1]}, {"x": [1, 2]}],
    ),
    _program(
        "pathlib without files",
        "from pathlib import PurePosixPath\np = PurePosixPath('/a/b.txt')\n__out = [p.name, p.suffix, p.stem, str(p.parent / 'c')]",
        ["b.txt", ".txt", "b", "/a/c"],
    ),
    _program(
        "operator.itemgetter",
        "from operator import itemgetter\n__out = sorted([{'n': 2}, {'n': 1}], key=itemgetter('n'))",
        [{"n": 1}, {"n": 2}],
    ),
    _program(
        "io.StringIO",
        "import io\nout = io.StringIO()\nprint('a', 1, sep='-', file=out)\n__out = out.getvalue()",
        "a-1\n",
    ),
    _program("print with options", "print('a', 'b', sep='-', end='!')\n__out = None", None),
)

TOOLS = (
    _program("one tool", "__out = await calc.add(a=1, b=2)", 3),
    _program("run_tool by its id", "__out = await run_tool('calc:add', {'a': 20, 'b': 22})", 42),
    _program("positional arguments", "__out = await calc.add(3, 4)", 7),
    _program(
        "loop with tool calls",
        """
        total = 0
        for n in range(5):
            total = await calc.add(a=total, b=n)
        __out = total
        """,
        10,
    ),
    _program(
        "comprehension with tool calls", "__out = [await calc.add(a=n, b=n) for n in range(3)]", [0, 2, 4]
    ),
    _program(
        "pagination",
        """
        orders, page = [], 1
        while page is not None:
            answer = await shop.orders(page=page)
            orders.extend(answer["items"])
            page = answer["next"]
        __out = {"count": len(orders), "total": sum(o["total"] for o in orders)}
        """,
        {"count": 6, "total": 210},
    ),
    _program(
        "chaining results",
        """
        first = (await shop.orders(page=1))["items"][0]
        customer = await shop.customer(name=first["customer"])
        __out = f"{customer['name']} <{customer['email']}> owes {first['total']}"
        """,
        "ann <ann@example.org> owes 10",
    ),
    _program(
        "joining and aggregating",
        """
        from collections import defaultdict
        per_city = defaultdict(int)
        for page in (1, 2, 3):
            for order in (await shop.orders(page=page))["items"]:
                customer = await shop.customer(name=order["customer"])
                per_city[customer["city"]] += order["total"]
        __out = sorted(per_city.items(), key=lambda pair: -pair[1])
        """,
        [["Oslo", 140], ["Rome", 70]],
    ),
    _program(
        "asyncio.gather with tools",
        "import asyncio\n__out = await asyncio.gather(calc.add(a=1, b=1), calc.add(a=2, b=2), shop.price(sku='fig'))",
        [2, 4, 2.5],
    ),
    _program(
        "gather over a comprehension",
        "import asyncio\nprices = await asyncio.gather(*[shop.price(sku=s) for s in ('fig', 'plum')])\n__out = dict(zip(('fig', 'plum'), prices))",
        {"fig": 2.5, "plum": 4.0},
    ),
    _program(
        "gather with return_exceptions",
        """
        import asyncio
        results = await asyncio.gather(calc.add(a=1, b=1), odd.fail(text="no luck"), return_exceptions=True)
        __out = [r if not isinstance(r, Exception) else "failed" for r in results]
        """,
        [2, "failed"],
    ),
    _program(
        "create_task",
        """
        import asyncio
        task = asyncio.create_task(calc.add(a=1, b=2))
        other = await calc.add(a=3, b=4)
        __out = [await task, other]
        """,
        [3, 7],
    ),
    _program(
        "semaphore",
        """
        import asyncio
        gate = asyncio.Semaphore(2)
        async def guarded(n):
            async with gate:
                return await calc.add(a=n, b=0)
        __out = await asyncio.gather(*(guarded(n) for n in range(4)))
        """,
        [0, 1, 2, 3],
    ),
    _program(
        "wait_for",
        """
        import asyncio
        try:
            await asyncio.wait_for(odd.hang(key="wait_for"), timeout=0.05)
        except (asyncio.TimeoutError, TimeoutError):
            __out = "gave up"
        """,
        "gave up",
    ),
    _program(
        "async helper function",
        """
        import asyncio
        async def with_price(sku):
            return {"sku": sku, "price": await shop.price(sku=sku)}
        __out = await asyncio.gather(*(with_price(s) for s in ["fig", "plum"]))
        """,
        [{"sku": "fig", "price": 2.5}, {"sku": "plum", "price": 4.0}],
    ),
    _program(
        "main function",
        """
        async def main():
            a = await calc.add(a=1, b=2)
            return await calc.add(a=a, b=a)
        __out = await main()
        """,
        6,
    ),
    _program(
        "error handling around a tool",
        """
        found = {}
        for name in ["ann", "zoe"]:
            try:
                found[name] = (await shop.customer(name=name))["city"]
            except Exception as error:
                found[name] = "unknown" if "zoe" in str(error) else "?"
        __out = found
        """,
        {"ann": "Oslo", "zoe": "unknown"},
    ),
    _program(
        "retry around a tool",
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                await odd.fail(text="busy")
            except RuntimeError:
                if attempts == 3:
                    break
        __out = attempts
        """,
        3,
    ),
    _program(
        "catching bad arguments",
        "try:\n    await run_tool('calc:add', {'a': 'x', 'b': 1})\nexcept ValueError:\n    __out = 'refused'",
        "refused",
    ),
    _program(
        "catching an unknown tool",
        "try:\n    await run_tool('calc:ad', {})\nexcept LookupError as error:\n    __out = 'calc:add' in str(error)",
        True,
    ),
    _program(
        "search and describe",
        "found = await search_tools('price of an article', limit=3)\ndoc = await describe_tool(found[0]['id'])\n__out = [found[0]['id'], sorted(doc['tool']['inputSchema']['properties'])]",
        ["shop:price", ["sku"]],
    ),
    _program(
        "a chain",
        "result = await run_chain([{'tool_id': 'calc:add', 'args': {'a': 1, 'b': 2}}, {'tool_id': 'shop:price', 'args': {'sku': 'fig'}}])\n__out = result['final']",
        2.5,
    ),
    _program(
        "tool calls in an async generator",
        "async def pages():\n    page = 1\n    while page:\n        answer = await shop.orders(page=page)\n        yield answer['items']\n        page = answer['next']\n__out = [len(items) async for items in pages()]",
        [2, 2, 2],
    ),
    _program(
        "report as text",
        "lines = []\nfor order in (await shop.orders(page=1))['items']:\n    lines.append(f\"- {order['id']:>3}: {order['total']:8.2f}\")\n__out = '\\n'.join(['# Orders', *lines])",
        "# Orders\n-   1:    10.00\n-   2:    20.00",
    ),
)

PARTS = (PLAIN, OBJECTS, FAILURES, LIBRARY, TOOLS)
PROGRAMS = tuple(program for part in PARTS for program in part)
SAMPLE = tuple(
    next(program for program in part if program.monty == verdict)
    for part in PARTS
    for verdict in {program.monty: None for program in part}
)
"""Of each part, the first that Monty runs and the first that it does not."""
