"""Values that leave the guest."""

import ast

import pytest
from runtime.sandboxes.monty.guests import Guests

from toolcrib.errors import CodeError, LimitExceededError
from toolcrib.runtime import GuestError
from toolcrib.runtime.sandboxes.monty.values import read_call, read_value, with_value

pytestmark = pytest.mark.anyio

VALUES = {
    "sets": ("__out = {1, 2}", [1, 2]),
    "keys": ("__out = {1: 2, None: 3, 2.5: {4}}", {"1": 2, "null": 3, "2.5": [4]}),
    "times": ("import datetime as d\n__out = [d.datetime(2020, 1, 2), d.date(2020, 1, 2), d.time(3)]", ["2020-01-02T00:00:00", "2020-01-02", "03:00:00"]),
    "decimals and paths": ("import decimal, pathlib\n__out = [decimal.Decimal('1.50'), pathlib.Path('/x')]", ["1.50", "/x"]),
    "dataclasses": ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: object\n__out = P([P({1})])", {"x": [{"x": [1]}]}),
    "named tuples": ("from collections import namedtuple\n__out = namedtuple('P', 'x y')(1, 2)", [1, 2]),
    "text that looks like something else": ("__out = ['[...]', '<function f at 0x1>', '{[{[']", ["[...]", "<function f at 0x1>", "{[{["]),
    "many small lists": ("__out = [[] for _ in range(70)]", [[]] * 70),
    "much text": ("__out = 'x' * 300_000", "x" * 300_000),
    "a name of our own": ("import json as __json\n__text = 1\n__out = __text", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
async def test_values_are_returned_as_json(bare: Guests, name: str) -> None:
    code, value = VALUES[name]
    assert await bare.run(code) == value


NOT_JSON = {
    "__out = [1, {'a': lambda: 1}]": "__out[1]['a'] is of type function",
    "__out = {'a': [float('nan')]}": "__out['a'][0] is nan",
    "__out = range(3)": "__out is of type range",
    "__out = {(1, 2): 3}": "__out is under a key of type tuple",
    "__out = [b'x']": "__out[0] is of type bytes",
    "x = []\nx.append(x)\n__out = x": "deeper than 64 levels, or contained in itself",
    "x = []\nfor i in range(70):\n    x = [x]\n__out = x": "more than 64 levels deep",
    "__out = 10**5000": "an integer of more than 4,300 digits",
    "__out = box.hang()": "a call must be awaited",
    "__out = box": "__out is of type",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n__out = P": "__out is of type type",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: object\n__out = P(len)": "__out['x'] is of type builtin",
}


@pytest.mark.parametrize("code", NOT_JSON)
async def test_value_that_is_not_json_is_reported_with_its_place(bare: Guests, code: str) -> None:
    with pytest.raises(CodeError, match="__out is not JSON: ") as caught:
        await bare.run(code)
    assert NOT_JSON[code] in caught.value.reason


async def test_value_size_is_its_size_as_json(bare: Guests) -> None:
    assert len(await bare.run("__out = 'é' * 49", output_bytes=100)) == 49
    for code in ("__out = 'é' * 50", "__out = {i for i in range(60)}"):
        with pytest.raises(LimitExceededError) as caught:
            await bare.run(code, output_bytes=100)
        assert caught.value.limit == "output_bytes"


PREPARED = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: object\nd = []\nfor i in range(100_000): d = [d]\n"
RETURNS = [
    "return 5",
    "return",
    "return None",
    "return b'x'",
    "return {}",
    "return ['a']",
    "return ['a', 'b']",
    "return ('a', 'b')",
    "return ()",
    "return 'x'",
    "return '5'",
    "return 'NaN'",
    "return '1' + '0' * 5000",
    "return '[' * 100_000",
    "return '[' * 65 + '\"' + '\\\\\"' * 40_000",
    "return 'x' * 2_000_000",
    "return 10**5000",
    "return {P(1): 2}",
    "return d",
    "return box",
    "return box.echo",
    "return box.hang()",
    "if True:\n    return 5",
    "for i in range(3):\n    return i",
    "try:\n    return 5\nfinally:\n    pass",
    "x = [0] * 1000\nfor i in range(4):\n    x = [x] * 1000\nreturn x",
]


@pytest.mark.parametrize("code", RETURNS)
async def test_result_without_the_mark_is_refused(bare: Guests, code: str) -> None:
    with pytest.raises(CodeError, match="`return` outside of a function; leave the value in `__out`"):
        await bare.run(f"{PREPARED}__out = 1\nawait box.echo(1)\n{code}\n__out = 2")
    assert bare.bridge is not None
    assert bare.bridge.records[0].args == {"value": 1}
    assert await bare.run("def f():\n    return 1\n__out = f()") == 1


SHADOWS = [
    "def isinstance(*a): return True\n__out = b'x'",
    "def isinstance(*a): return False\n__out = {1}",
    "def str(x): return ['a', 'b', 'c']\n__out = b'x'",
    "def repr(x): return 'a' * 10_000_000\n__out = {'a': b'x'}",
    "def len(x): return -1\nx = []\nx.append(x)\n__out = x",
    "def type(x): return x\n__out = b'x'",
    "ValueError = 1\n__out = b'x'",
]


@pytest.mark.parametrize("code", SHADOWS)
async def test_code_that_redefines_our_names_gets_no_other_value(bare: Guests, code: str) -> None:
    with pytest.raises(CodeError) as caught:
        await bare.run(code)
    assert len(str(caught.value)) < 5000


def told(*parts: object) -> tuple[object, ...]:
    """Return the values that a guest would report if it imitated our own code."""
    last = ast.parse(with_value("")).body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Tuple)
    return (ast.literal_eval(last.value.elts[0]), *parts)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (5,),
        (None, "a"),
        ("[", "a", "b"),
        ("[",),
        ("NaN",),
        ("1e999",),
        ("1" + "0" * 5000,),
        ("1" * 4250,),
        ("[" * 100_000,),
        ("[" * 65 + "]" * 65,),
        ("[" * 65 + '"' + '\\"' * 300_000,),
        ('"\\ud800"',),
        ('"\ud800"',),
        ("[" + "0," * 500_000 + "0]",),
        ("x" * 100_000, "y" * 100_000),
    ],
    ids=range(16),
)
def test_any_result_is_a_value_or_a_code_error(parts: tuple[object, ...]) -> None:
    with pytest.raises(CodeError, match="__out is not JSON") as caught:
        read_value(told(*parts), 1 << 20)
    assert len(str(caught.value)) < 5000
    assert read_value(told("[1]"), 100) == [1]


BOMB = "x = [0] * 1000\nfor i in range(2):\n    x = [x] * 1000\n"


async def test_list_shared_a_billion_times_is_not_expanded(bare: Guests) -> None:
    with pytest.raises(LimitExceededError):
        await bare.run(f"{BOMB}__out = x", cpu=1.0)
    with pytest.raises(CodeError, match="ValueError: arguments hold more than"):
        await bare.run(f"{BOMB}await box.echo(x)")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("lambda: 1", "TypeError: arguments must be JSON: a function is not"),
        ("box.hang()", "a coroutine is not; a call must be awaited"),
        ("{1}", "TypeError: arguments must be JSON"),
        ("Plain()", "TypeError: arguments must be JSON"),
        ("'x' * 2_000_000", "ValueError: arguments hold more than 1,048,576 characters"),
        ("{'x' * 2_000_000: 1}", "ValueError: arguments hold more than 1,048,576 characters"),
        ("deep", "ValueError: arguments are deeper than 64 levels"),
    ],
)
async def test_arguments_that_are_not_json_are_refused_at_the_call(
    bare: Guests, given: str, said: str
) -> None:
    code = (
        f"class Plain:\n    pass\ndeep = []\nfor i in range(90):\n    deep = [deep]\nawait box.echo({given})"
    )
    with pytest.raises(CodeError) as caught:
        await bare.run(code)
    assert said in caught.value.reason
    caught_inside = (
        code.replace("await box", "try:\n    await box")
        + "\nexcept (TypeError, ValueError) as e:\n    __out = str(e)"
    )
    assert await bare.run(caught_inside) in caught.value.reason


@pytest.mark.parametrize(
    "made",
    ["x = []\nx.append(x)", "x = {}\nx['a'] = [{'b': x}]", "x = P(1)\nx.x = x", "x = []\nx.append((x,))"],
)
async def test_argument_that_contains_itself_is_refused(bare: Guests, made: str) -> None:
    dataclass = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: object\n"
    with pytest.raises(CodeError, match="TypeError: arguments must be JSON: what contains itself"):
        await bare.run(f"{dataclass}{made}\nawait box.echo(x)")


async def test_text_like_a_cycle_is_accepted(bare: Guests) -> None:
    for given in ({"a": "[...]"}, ["{...}", "..."], "[...]"):
        assert await bare.run(f"__out = await box.echo({given!r})") == given


async def test_dataclass_arguments_become_objects(bare: Guests) -> None:
    code = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: object\n__out = await box.echo([P((P(1), None))])"
    assert await bare.run(code) == [{"x": [{"x": 1}, None]}]


def test_keys_that_are_not_text_are_left_to_the_bridge() -> None:
    assert read_call([{1: 2}], {"a": "<b>"}) == ([{1: 2}], {"a": "<b>"})
    with pytest.raises(GuestError):
        read_call(["<module 'json'>"], {})


class Proxy:
    """The engine's representation of a dataclass instance."""

    is_dataclass = True

    def __init__(self, **attributes: object) -> None:
        self.attributes = attributes


def test_argument_values_and_characters_are_limited() -> None:
    shared: list[object] = [0] * 1000
    assert read_call([Proxy(x=(1, "a"))], {}) == ([{"x": [1, "a"]}], {})
    deep: object = []
    for _ in range(90):
        deep = [deep]
    for given, said in (([[shared] * 1000], "values"), (["x" * 2_000_000], "characters"), ([deep], "deeper")):
        with pytest.raises(GuestError, match=said):
            read_call(given, {})
    with pytest.raises(GuestError, match="what contains itself"):
        read_call([[["[...]"]]], {})
    with pytest.raises(GuestError, match="awaited"):
        read_call([], {"a": "<coroutine external_future(0)>"})
